//! The flow threads of one side of a session.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

use bytecost_spec::Pattern;
use bytecost_spec::live::Activity;
use bytecost_sys::clock;
use rustix::net::{Shutdown, sockopt};

use super::LiveSetup;
use super::flow_counters::{CountersReader, FlowCounters, STOP, latency};
use super::flows::{self, EndedFlow};

/// Flow threads at work. Dropping it cuts them off and waits for them.
pub(super) struct FlowThreads {
    counters: Arc<FlowCounters>,
    reader: CountersReader,
    sockets: Vec<OwnedFd>,
    threads: Vec<JoinHandle<io::Result<EndedFlow>>>,
    congestion: String,
    /// True for a receiver of a stream: FIN is sent here, since its threads may wait for bytes.
    ends_by_socket: bool,
    has_peer_ended: bool,
    is_cut: bool,
}

pub(super) struct EndedFlows {
    pub(super) activity: Activity,
    pub(super) congestion: String,
    /// True if a flow was cut off here.
    pub(super) is_cut: bool,
    /// True if the other side has ended a flow as it should.
    pub(super) has_peer_ended: bool,
    /// The error that explains most: the first that is no reset or timeout, else the first. Resets do not count
    /// if flows were cut off here.
    pub(super) failed: Option<io::Error>,
}

impl FlowThreads {
    /// Starts one thread a socket. They wait until [`FlowThreads::go`].
    pub(super) fn start(setup: &LiveSetup, sockets: Vec<OwnedFd>) -> io::Result<FlowThreads> {
        let asks = setup.sends() && setup.cell.pattern == Pattern::RequestResponse;
        let completes = setup.sends() && super::completes(&setup.cell);
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
            ends_by_socket: !setup.sends() && setup.cell.pattern == Pattern::Stream,
            has_peer_ended: false,
            is_cut: false,
        };
        for (number, socket) in sockets.into_iter().enumerate() {
            let (setup, thread_counters) = (setup.clone(), Arc::clone(&flow_threads.counters));
            let thread = thread::Builder::new()
                .spawn(move || flows::run(&setup, number as u32, &thread_counters, socket))?;
            flow_threads.threads.push(thread);
        }
        Ok(flow_threads)
    }

    pub(super) fn are_ready(&self) -> bool {
        self.counters.ready.load(Ordering::Acquire) as usize == self.threads.len()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Returns true if the receiver has ended a flow of this sender.
    pub(super) fn have_peers_ended(&mut self) -> bool {
        self.has_peer_ended |= self.sockets.iter().any(super::has_ended);
        self.has_peer_ended
    }

    fn have_all_ended(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    pub(super) fn go(&mut self) {
        // The first second begins with this reading.
        self.reader.read(&self.counters);
        self.threads.iter().for_each(|t| t.thread().unpark());
    }

    /// What the flows have done since the last call, or since [`FlowThreads::go`].
    pub(super) fn second(&mut self) -> Activity {
        self.reader.read(&self.counters)
    }

    /// Lets the flows finish what is under way. The flow of a receiver sends FIN, and then waits for the sender's.
    pub(super) fn stop(&self) {
        self.counters.request(STOP);
        self.threads.iter().for_each(|t| t.thread().unpark());
        for socket in self.sockets.iter().filter(|_| self.ends_by_socket) {
            let _ = rustix::net::shutdown(socket, Shutdown::Write);
        }
    }

    /// Ends the flows' connections, and with them the calls that they are in.
    fn cut(&mut self) {
        self.is_cut |= !self.have_all_ended();
        self.stop();
        for socket in &self.sockets {
            let _ = rustix::net::shutdown(socket, Shutdown::Both);
        }
    }

    /// Waits until all flows have ended by themselves, cuts them off at `until_ns` or when
    /// `is_impatient`, and joins what they bring back.
    pub(super) fn end_by(&mut self, until_ns: u64, is_impatient: impl Fn() -> bool) -> EndedFlows {
        while !self.have_all_ended() && clock::monotonic_ns() < until_ns && !is_impatient() {
            clock::sleep_until_ns(clock::monotonic_ns() + 2_000_000);
        }
        self.cut();
        let mut activity = Activity::default();
        let mut readings = Vec::with_capacity(self.threads.len());
        let mut unread_latencies = Vec::with_capacity(self.threads.len());
        let mut failed = Vec::new();
        for thread in self.threads.drain(..) {
            let panicked = |_| Err(io::Error::other("a thread panicked"));
            match thread.join().unwrap_or_else(panicked) {
                Ok(end) => {
                    readings.push(end.readings);
                    activity.side.flows.push(end.flow);
                    self.has_peer_ended |= end.has_peer_ended;
                    failed.extend(end.failed.filter(|e| !(self.is_cut && is_reset(e))));
                    unread_latencies.extend(end.latency_ns);
                }
                Err(e) => failed.push(e),
            }
        }
        let mut latency_ns = self.reader.latency_ns.take();
        for histogram in unread_latencies.into_iter().chain(self.counters.unread()) {
            let added = latency_ns
                .as_mut()
                .map_or(Ok(()), |all| all.add(&histogram));
            failed.extend(added.err().map(io::Error::other));
        }
        activity.side.readings = bytecost_meter::sum(&readings);
        activity.latency = latency_ns.as_ref().and_then(latency);
        EndedFlows {
            activity,
            congestion: std::mem::take(&mut self.congestion),
            is_cut: self.is_cut,
            has_peer_ended: self.has_peer_ended,
            // Errors that follow from the other side's end explain least.
            failed: failed.into_iter().min_by_key(|e| is_reset(e) || is_late(e)),
        }
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

pub(super) fn is_reset(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected, UnexpectedEof};
    matches!(
        error.kind(),
        BrokenPipe | ConnectionReset | NotConnected | UnexpectedEof
    )
}
