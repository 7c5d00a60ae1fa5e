//! The kernel's queue of new connections to a trial's server, as a side sees it from when it gets ready.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use bytecost_meter::{NetworkMeter, NetworkSnapshot};
use bytecost_spec::{CircumstanceKind, Counter, Reading, Readings};
use bytecost_sys::{clock, proc_view};
use rustix::event::PollFlags;

use crate::deadline::{after, await_event};
use crate::protocol::{self, Schedule};

/// Connections that it had no room for, and attempts at connecting that were repeated.
pub(crate) const COUNTERS: [Counter; 2] = [Counter::TcpListenDrops, Counter::TcpSynRetransmits];
/// The time between checks if it has overflowed, and the longest time until everyone is connected if it
/// has: a connection is tried again after 1 s.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const OVERFLOWED: Duration = Duration::from_millis(2500);

/// The queue in the network of this process.
pub(crate) struct ListenQueue {
    network: NetworkMeter,
    before: NetworkSnapshot,
}

impl ListenQueue {
    pub(crate) fn open() -> ListenQueue {
        let network = NetworkMeter::open(&[Some(proc_view::own_directory())]);
        let before = network.read();
        ListenQueue { network, before }
    }

    /// Its counters since then.
    pub(crate) fn readings(&self) -> Readings {
        let mut readings = self.network.difference(&self.before, &self.network.read());
        readings.retain(|counter, _| COUNTERS.contains(counter));
        readings
    }

    /// Waits for the schedule of a server, whose clients have connected by then; an error where the queue
    /// has overflowed and they do not connect in time.
    pub(crate) fn scheduled(&self, control: &mut UnixStream) -> io::Result<Schedule> {
        let late_ns = after(OVERFLOWED);
        while let Err(e) = await_event(&*control, PollFlags::IN, after(POLL_INTERVAL), None) {
            let drops = self
                .readings()
                .get(&Counter::TcpListenDrops)
                .and_then(Reading::measured);
            if e.kind() != io::ErrorKind::TimedOut {
                return Err(e);
            } else if let Some(drops) = drops.filter(|drops| *drops > 0)
                && clock::monotonic_ns() >= late_ns
            {
                let remedy = CircumstanceKind::ListenQueue.row().remedy;
                return Err(io::Error::other(format!(
                    "the kernel's queue of new connections (net.core.somaxconn) overflowed, dropped {drops} connections, and has them tried again after 1 s or more: {remedy}"
                )));
            }
        }
        protocol::read_schedule(control)
    }
}
