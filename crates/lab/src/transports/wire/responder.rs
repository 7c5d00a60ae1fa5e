//! The far end of `wire`: it answers SYN and FIN, and acknowledges what the program has noted.
//! It sees no payload, and polls counters on its own CPU, at no cost for the sender.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::thread;

use bytecost_sys::clock;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::packet::{ACK, FIN, MOST_BYTES, Packet, SYN, SegmentFields, SynPacket, lead_bytes};
use super::shared_counters::{FlowReceived, WireCounters};
use crate::transports::link::LinkChoice;

/// Time without a new byte after which fewer bytes than the rules say are acknowledged: the sender may
/// wait for that.
const QUIET_NS: u64 = 10_000;
/// Idle time after which it yields its CPU, and looks for openings.
const IDLE_NS: u64 = 200_000;
/// Idle time after which it sleeps between polls.
const ASLEEP_NS: u64 = 1_000_000;
const NAP: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000,
};
/// Packets that are read in one poll; a tun device holds 500 by default, and a packet socket more.
const MOST_OPENINGS: usize = 64;
/// The sequence number of its own SYN. It needs no randomness, since nobody else is in the network.
const OWN_START: u32 = 1;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) link: LinkChoice,
    /// Bytes of a flow after which they are acknowledged.
    pub(crate) acknowledge_bytes: u64,
    /// The most flows; further openings are ignored.
    pub(crate) flows_most: usize,
}

/// The packets and acknowledgements so far, of all flows together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResponderTally {
    pub(crate) acknowledgements: u64,
    /// CPU time of writing them. The kernel does the sender's work there too, unless the sender is within
    /// a call: it frees acknowledged packets, and sends waiting ones.
    pub(crate) writing_ns: u64,
    /// Packets that brought payload.
    pub(crate) packets: u64,
    /// Packets that begin after the expected byte, and count as lost.
    pub(crate) gaps: u64,
    /// Packets with nothing new.
    pub(crate) repeats: u64,
}

#[derive(Debug)]
struct Flow {
    from: SocketAddrV4,
    to: SocketAddrV4,
    acknowledged: u64,
    /// Bytes at the last poll, and the time at which they last grew.
    polled_bytes: u64,
    grew_ns: u64,
    /// Gaps and repeats that were answered.
    strays: u64,
    state: FlowState,
}

/// The state of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FlowState {
    Open,
    /// Its FIN was answered with one.
    Answered,
    /// Its sender gave up.
    GivenUp,
}

/// The far end of all flows over one device.
#[derive(Debug)]
pub(crate) struct WireResponder {
    far: OwnedFd,
    counters: WireCounters,
    rules: Rules,
    flows: Vec<Flow>,
    acknowledgements: u64,
    writing_ns: u64,
    busy_ns: u64,
}

impl WireResponder {
    /// A responder at the far end of a device, given its descriptor and the program's map; see
    /// [`super::Wire::descriptors`]. Drops packets of earlier flows that the device still holds.
    pub(crate) fn new(far: OwnedFd, map: OwnedFd, rules: Rules) -> io::Result<WireResponder> {
        let responder = WireResponder {
            far,
            counters: WireCounters::new(map)?,
            rules,
            flows: Vec::with_capacity(rules.flows_most.min(1024)),
            acknowledgements: 0,
            writing_ns: 0,
            busy_ns: clock::monotonic_ns(),
        };
        let mut packet = [0; MOST_BYTES];
        // As many as its queue holds, twice over.
        for _ in 0..1024 {
            if responder.read(&mut packet)?.is_none() {
                break;
            }
        }
        Ok(responder)
    }

    /// Polls all flows once, and sends the acknowledgements that are due. Yields where nothing has come
    /// for a while; never waits for longer than 50 µs and the kernel's slack.
    pub(crate) fn poll(&mut self) -> io::Result<()> {
        let now_ns = clock::monotonic_ns();
        let idle_ns = now_ns.saturating_sub(self.busy_ns);
        if self.flows.len() < self.rules.flows_most || idle_ns > IDLE_NS {
            self.open(now_ns)?;
        }
        for at in 0..self.flows.len() {
            self.answer(at, now_ns)?;
        }
        if idle_ns > ASLEEP_NS {
            let mut polled = [PollFd::new(&self.far, PollFlags::IN)];
            match rustix::event::poll(&mut polled, Some(&NAP)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        } else if idle_ns > IDLE_NS {
            thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
        Ok(())
    }

    /// Flows that were opened, in that order.
    pub(crate) fn opened(&self) -> usize {
        self.flows.len()
    }

    /// The received part of each flow, in the order in which they were opened.
    pub(crate) fn seen(&self) -> impl Iterator<Item = FlowReceived> {
        self.flows.iter().map(|f| self.counters.seen(f.from.port()))
    }

    /// The number of flows whose senders have closed, with an answer, or have given up.
    pub(crate) fn ended(&self) -> usize {
        self.flows
            .iter()
            .filter(|f| f.state != FlowState::Open)
            .count()
    }

    /// The time at which anything last came, in ns of CLOCK_MONOTONIC.
    pub(crate) fn busy_ns(&self) -> u64 {
        self.busy_ns
    }

    pub(crate) fn tally(&self) -> ResponderTally {
        let mut tally = ResponderTally {
            acknowledgements: self.acknowledgements,
            writing_ns: self.writing_ns,
            ..ResponderTally::default()
        };
        for seen in self.seen() {
            tally.packets += seen.packets;
            tally.gaps += seen.gaps;
            tally.repeats += seen.repeats;
        }
        tally
    }

    fn read<'b>(&self, packet: &'b mut [u8; MOST_BYTES]) -> io::Result<Option<&'b [u8]>> {
        match rustix::io::read(&self.far, &mut packet[..]) {
            // From the head of IPv4 on; shorter reads are no packets.
            Ok(len) => {
                let lead = lead_bytes(self.rules.link.device);
                Ok(Some(packet.get(lead..len).unwrap_or_default()))
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    fn open(&mut self, now_ns: u64) -> io::Result<()> {
        let mut packet = [0; MOST_BYTES];
        for _ in 0..MOST_OPENINGS {
            let Some(bytes) = self.read(&mut packet)? else {
                break;
            };
            let Some(opening) = SynPacket::parse(bytes) else {
                continue;
            };
            let same = self.flows.iter().position(|f| f.from == opening.from);
            if same.is_none() && self.flows.len() >= self.rules.flows_most {
                continue;
            }
            let flow = Flow {
                from: opening.from,
                to: opening.to,
                acknowledged: 0,
                polled_bytes: 0,
                grew_ns: now_ns,
                strays: 0,
                state: FlowState::Open,
            };
            match same {
                Some(at) => self.flows[at] = flow,
                None => self.flows.push(flow),
            }
            self.busy_ns = now_ns;
            let fields = SegmentFields {
                from: opening.to,
                to: opening.from,
                sequence: OWN_START,
                acknowledged: opening.sequence.wrapping_add(1),
                flags: SYN | ACK,
            };
            let link = self.rules.link;
            let answer = Packet::opened(link.device, fields, link.mtu_bytes, opening.scales);
            // The sender repeats an opening whose answer is lost.
            self.write(&answer)?;
        }
        Ok(())
    }

    #[inline]
    fn answer(&mut self, at: usize, now_ns: u64) -> io::Result<()> {
        let flow = &mut self.flows[at];
        let seen = self.counters.seen(flow.from.port());
        if seen.bytes != flow.polled_bytes {
            flow.polled_bytes = seen.bytes;
            flow.grew_ns = now_ns;
            self.busy_ns = now_ns;
        }
        if seen.reset {
            flow.state = FlowState::GivenUp;
            return Ok(());
        }
        let waiting = seen.bytes.saturating_sub(flow.acknowledged);
        let is_quiet = now_ns.saturating_sub(flow.grew_ns) >= QUIET_NS;
        let strays = seen.gaps + seen.repeats;
        let ends = seen.closed && flow.state == FlowState::Open;
        let is_due = waiting >= self.rules.acknowledge_bytes
            || waiting > 0 && is_quiet
            || strays != flow.strays
            || ends;
        if !is_due {
            return Ok(());
        }
        let fields = SegmentFields {
            from: flow.to,
            to: flow.from,
            sequence: OWN_START + 1,
            acknowledged: (seen.start.wrapping_add(seen.bytes as u32))
                .wrapping_add(u32::from(seen.closed)),
            flags: if seen.closed { FIN | ACK } else { ACK },
        };
        if self.write(&Packet::plain(self.rules.link.device, fields))? {
            let answered = &mut self.flows[at];
            answered.acknowledged = seen.bytes;
            answered.strays = strays;
            if seen.closed {
                answered.state = FlowState::Answered;
            }
            self.acknowledgements += 1;
        }
        Ok(())
    }

    fn write(&mut self, packet: &Packet) -> io::Result<bool> {
        let began_ns = clock::thread_cpu_ns();
        let written = rustix::io::write(&self.far, packet.bytes());
        self.writing_ns += clock::thread_cpu_ns().saturating_sub(began_ns);
        match written {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
}
