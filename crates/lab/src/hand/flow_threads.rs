//! The flow threads of one side of a session.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

use bytecost_spec::hand::{SessionPart, Stretch};
use bytecost_spec::{Cell, Pattern, Side};
use bytecost_sys::clock;
use rustix::net::{Shutdown, sockopt};

use super::flow_counters::{CountersReader, FlowCounters, STOP, latency};
use super::flows::{self, FlowEnd};

/// Flow threads at work. Dropping it cuts them off and waits for them.
pub(super) struct FlowThreads {
    counters: Arc<FlowCounters>,
    reader: CountersReader,
    /// The flows' sockets, to cut them off with.
    sockets: Vec<OwnedFd>,
    threads: Vec<JoinHandle<io::Result<FlowEnd>>>,
    congestion: String,
    cut: bool,
}

impl FlowThreads {
    /// Starts one thread a socket. They wait until [`FlowThreads::go`].
    pub(super) fn start(side: Side, cell: &Cell, sockets: Vec<OwnedFd>) -> io::Result<FlowThreads> {
        let asks = cell.pattern == Pattern::Ask && side == Side::Sender;
        let completes = side == Side::Sender && super::completes(cell);
        let counters = Arc::new(FlowCounters::new(sockets.len(), asks));
        let mut flow_threads = FlowThreads {
            reader: CountersReader::new(&counters, completes),
            congestion: sockets.first().map_or(String::new(), |socket| {
                sockopt::tcp_congestion(socket).unwrap_or_default()
            }),
            sockets: sockets
                .iter()
                .map(OwnedFd::try_clone)
                .collect::<io::Result<_>>()?,
            counters,
            threads: Vec::with_capacity(sockets.len()),
            cut: false,
        };
        for (number, socket) in sockets.into_iter().enumerate() {
            let (cell, counters) = (cell.clone(), Arc::clone(&flow_threads.counters));
            let thread = thread::Builder::new().spawn(move || {
                let number = number as u32;
                flows::run(side, &cell, number, &counters, socket)
            })?;
            flow_threads.threads.push(thread);
        }
        Ok(flow_threads)
    }

    pub(super) fn is_ready(&self) -> bool {
        self.counters.ready.load(Ordering::Acquire) as usize == self.threads.len()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    pub(super) fn have_all_ended(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    pub(super) fn go(&mut self) {
        self.reader.read(&self.counters);
        self.threads.iter().for_each(|t| t.thread().unpark());
    }

    pub(super) fn second(&mut self) -> Stretch {
        self.reader.read(&self.counters)
    }

    pub(super) fn stop(&self) {
        self.counters.request(STOP);
        self.threads.iter().for_each(|t| t.thread().unpark());
    }

    /// Ends the flows' connections, and with them whatever call they are in.
    fn cut(&mut self) {
        self.cut |= !self.have_all_ended();
        self.stop();
        for socket in &self.sockets {
            let _ = rustix::net::shutdown(socket, Shutdown::Both);
        }
    }

    /// Waits until all flows have ended by themselves, cuts them off at `until_ns`, and joins what
    /// they bring back. Beside it what went wrong, unless it was that they were cut off.
    pub(super) fn end_by(&mut self, until_ns: u64) -> (SessionPart, Option<io::Error>) {
        while !self.have_all_ended() && clock::monotonic_ns() < until_ns {
            clock::sleep_until_ns(clock::monotonic_ns() + 2_000_000);
        }
        self.cut();
        let mut part = SessionPart {
            congestion: std::mem::take(&mut self.congestion),
            cut: self.cut,
            ..SessionPart::default()
        };
        let mut readings = Vec::with_capacity(self.threads.len());
        let mut times = Vec::with_capacity(self.threads.len());
        let mut failed = Vec::new();
        for thread in self.threads.drain(..) {
            let panicked = |_| Err(io::Error::other("a thread panicked"));
            match thread.join().unwrap_or_else(panicked) {
                Ok(end) => {
                    readings.push(end.readings);
                    part.whole.side.flows.push(end.flow);
                    part.compared_bytes += end.compared_bytes;
                    failed.extend(end.failed.filter(|e| !(self.cut && is_cut(e))));
                    times.extend(end.latency_ns);
                }
                Err(e) => failed.push(e),
            }
        }
        let mut all = self.reader.latency_ns.take();
        for one in times.into_iter().chain(self.counters.unread()) {
            let added = all.as_mut().map_or(Ok(()), |all| all.add(&one));
            failed.extend(added.err().map(io::Error::other));
        }
        part.whole.side.readings = bytecost_meter::sum(&readings);
        part.whole.latency = all.as_ref().and_then(latency);
        // What the other side's end brings about explains least.
        let failed = failed.into_iter();
        (part, failed.min_by_key(|e| is_cut(e) || is_late(e)))
    }
}

impl Drop for FlowThreads {
    fn drop(&mut self) {
        if self.threads.is_empty() {
            return;
        }
        self.cut();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

pub(super) fn is_late(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut
}

pub(super) fn is_cut(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected, UnexpectedEof};
    matches!(
        error.kind(),
        BrokenPipe | ConnectionReset | NotConnected | UnexpectedEof
    )
}
