//! A running session, from the start of its flows, second by second, to their ends.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use bytecost_spec::live::{Session, SessionEnd, Totals};
use bytecost_sys::clock;
use rustix::net::sockopt;

use super::flow_threads::{FlowThreads, is_late, is_reset};
use super::{
    ARRIVAL, FLOW_TIMEOUT, GRACE, LiveError, LiveEvent, LiveSetup, POLL_INTERVAL, PREPARATION,
};
use crate::deadline::after;
use crate::endpoint::explain;
use crate::transports;

pub(super) struct Running<'a> {
    setup: LiveSetup,
    session: Session,
    threads: FlowThreads,
    stop: &'a AtomicBool,
}

impl<'a> Running<'a> {
    /// Makes memory and threads of all flows ready, and calls `aside` repeatedly meanwhile.
    pub(super) fn start(
        setup: LiveSetup,
        number: u64,
        peer: String,
        sockets: Vec<OwnedFd>,
        stop: &'a AtomicBool,
        mut aside: impl FnMut(),
    ) -> Result<Running<'a>, LiveError> {
        for socket in &sockets {
            transports::set_timeout(socket, FLOW_TIMEOUT)?;
            sockopt::set_tcp_nodelay(socket, setup.cell.sends_at_once())
                .map_err(io::Error::from)?;
        }
        let mut threads = FlowThreads::start(&setup, sockets).map_err(explained)?;
        let until_ns = after(PREPARATION);
        while !threads.are_ready() && !threads.has_ended() {
            if stop.load(Ordering::Relaxed) {
                return Err(LiveError::Interrupted);
            }
            if clock::monotonic_ns() >= until_ns {
                return Err(io::Error::from(io::ErrorKind::TimedOut).into());
            }
            aside();
            clock::sleep_until_ns(clock::monotonic_ns() + 1_000_000);
        }
        if threads.has_ended() {
            let failed = threads.end_by(clock::monotonic_ns(), || false).failed;
            let unknown = || io::Error::other("a flow ended before it began");
            return Err(explained(failed.unwrap_or_else(unknown)).into());
        }
        let session = Session {
            number,
            side: setup.side,
            peer,
            counts_messages: setup.knows_size,
            completes: setup.sends() && super::completes(&setup.cell),
            cell: setup.cell.clone(),
        };
        Ok(Running {
            setup,
            session,
            threads,
            stop,
        })
    }

    /// Has the flows begin, and reports each second, until something ends the session.
    pub(super) fn run(
        mut self,
        events: &mut dyn FnMut(LiveEvent),
        mut aside: impl FnMut(&mut dyn FnMut(LiveEvent)),
    ) -> Totals {
        events(LiveEvent::Began(Box::new(self.session.clone())));
        self.threads.go();
        let began_ns = clock::monotonic_ns();
        let longest = self.setup.longest.clone();
        let over_ns = longest.as_ref().map_or(u64::MAX, |(most, _)| after(*most));
        let mut number = 1;
        let end = loop {
            let now_ns = clock::monotonic_ns();
            if self.stop.load(Ordering::Relaxed) {
                break SessionEnd::Here;
            }
            if let Some((_, end)) = longest.as_ref().filter(|_| now_ns >= over_ns) {
                break end.clone();
            }
            if self.threads.has_ended() || self.setup.sends() && self.threads.have_peers_ended() {
                break SessionEnd::There;
            }
            let next_ns = began_ns + number * 1_000_000_000;
            if now_ns >= next_ns {
                events(LiveEvent::Second(number, Box::new(self.threads.second())));
                // Missed seconds are skipped.
                number = number.max((clock::monotonic_ns() - began_ns) / 1_000_000_000) + 1;
            }
            aside(events);
            clock::sleep_until_ns(next_ns.min(over_ns).min(after(POLL_INTERVAL)));
        };
        self.totals(end)
    }

    fn totals(mut self, end: SessionEnd) -> Totals {
        self.threads.stop();
        let is_arriving = end == SessionEnd::There && !self.setup.sends();
        let until_ns = after(if is_arriving { ARRIVAL } else { GRACE });
        let stop = self.stop;
        let mut flows = self
            .threads
            .end_by(until_ns, || is_arriving && stop.load(Ordering::Relaxed));
        // A flow that meets the end of a session that a side has ended was cut off: one of both did
        // not keep up. One that meets it in mid-session has failed.
        let is_end = |e: &io::Error| match end {
            SessionEnd::There => flows.has_peer_ended && is_reset(e),
            _ => is_reset(e) || is_late(e),
        };
        let failed = flows.failed.take_if(|e| !is_end(e));
        let is_cut = flows.is_cut || flows.failed.is_some();
        Totals {
            session: self.session,
            end: failed.map_or(end, |e| SessionEnd::Failed(reason(&e))),
            activity: flows.activity,
            congestion: flows.congestion,
            is_cut,
        }
    }
}

fn reason(error: &io::Error) -> String {
    if is_reset(error) {
        "the other side went away: a connection was reset".to_owned()
    } else {
        explain(error)
    }
}

fn explained(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), explain(&error))
}
