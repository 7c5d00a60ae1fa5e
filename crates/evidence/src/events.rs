//! What moving messages takes besides bytes: system calls, switches, wake-ups, faults, flushes,
//! packets. Counted at tracepoints (tp_btf), each of which is held against known work first.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use aya::include_bytes_aligned;
use bytecost_spec::evidence::{CountedEvent, EVENTS, EventCount, EventOf};
use bytecost_spec::{Reading, Side};

use crate::Parties;
use crate::bpf::{self, Object};

mod known_work;

/// Built from the file beside it.
static OBJECT: &[u8] = include_bytes_aligned!("../bpf/events.bpf.o");

/// Words of `struct sums` in `events.bpf.c`.
const WORDS: usize = 18;
/// Of these, what is set before anything is counted.
const SET: usize = 4;
/// Words of `struct side` in it.
const SIDE_WORDS: usize = 5;

/// Each program with its tracepoint and what it counts; an event is counted where all of its own
/// are attached.
const PROGRAMS: &[(&str, &str, &[CountedEvent])] = &[
    ("called", "sys_enter", &[CountedEvent::SystemCalls]),
    ("switched", "sched_switch", &[CountedEvent::ContextSwitches]),
    ("woken", "sched_waking", &[CountedEvent::WakeUps]),
    ("faulted", "page_fault_user", &[CountedEvent::PageFaults]),
    (
        "faulted_in_kernel",
        "page_fault_kernel",
        &[CountedEvent::PageFaults],
    ),
    ("flushed", "tlb_flush", &[CountedEvent::TlbFlushes]),
    ("queued", "net_dev_queue", OF_PACKETS),
    ("consumed", "consume_skb", OF_PACKETS),
    ("again", "tcp_retransmit_skb", &[CountedEvent::Retransmits]),
];
const OF_PACKETS: &[CountedEvent] = &[
    CountedEvent::Packets,
    CountedEvent::Segments,
    CountedEvent::Acknowledgements,
];

/// Counts while it lives.
#[derive(Debug)]
pub struct Events {
    object: Object<WORDS>,
    refused: BTreeMap<CountedEvent, String>,
    parties: Parties,
}

/// A connection over loopback whose packets are known: who counts moves nothing itself.
pub trait Exchange {
    /// The port that is sent to.
    fn port(&self) -> u16;

    /// Sends one small message, which goes out at once, and takes it in.
    ///
    /// # Errors
    /// What sending or receiving answers.
    fn exchange(&mut self) -> io::Result<()>;
}

/// What was counted up to a moment.
#[derive(Clone, Copy, Debug)]
pub struct EventsAt([u64; WORDS]);

impl Events {
    /// Attaches all that can be, and lets each count known work, over the connection too: one that does not is absent from
    /// then on, with that reason.
    ///
    /// # Errors
    /// In a sentence, where nothing can be counted: no rights for BPF, or a kernel that does not
    /// tell its types.
    pub fn open(root: &Path, connection: &mut dyn Exchange) -> io::Result<Events> {
        let types = bpf::types(root)?;
        let mut object = Object::load(OBJECT, &types)?;
        let mut refused = BTreeMap::new();
        for (program, tracepoint, events) in PROGRAMS {
            match object.attach(program, tracepoint, &types) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Err(e),
                Err(e) => {
                    let why = format!("the tracepoint `{tracepoint}` cannot be hooked: {e}");
                    refused.extend(events.iter().map(|event| (*event, why.clone())));
                }
            }
        }
        let mut found = Events {
            object,
            refused,
            parties: Parties::default(),
        };
        for (event, why) in known_work::failing(&mut found, connection)? {
            found.refused.entry(event).or_insert(why);
        }
        Ok(found)
    }

    /// Events that cannot be counted here, with the reason.
    #[must_use]
    pub fn refused(&self) -> &BTreeMap<CountedEvent, String> {
        &self.refused
    }

    /// Begins anew, with the events of these.
    ///
    /// # Errors
    /// What bpf(2) answers.
    pub fn begin(&mut self, parties: Parties) -> io::Result<()> {
        self.parties = parties;
        let port = u64::from(parties.port.unwrap_or(0));
        let network = parties.network.unwrap_or(0);
        let receiver = u64::from(parties.receiver.unwrap_or(0));
        self.object
            .begin(&[port, network, u64::from(parties.sender), receiver])
    }

    /// What was counted so far.
    #[must_use]
    pub fn now(&self) -> EventsAt {
        EventsAt(self.object.words())
    }

    /// What happened between two moments: each event of each side that there is.
    #[must_use]
    pub fn between(&self, start: &EventsAt, end: &EventsAt) -> Vec<EventCount> {
        let mut counts = Vec::new();
        for row in EVENTS {
            let mut sides = match row.of {
                EventOf::Process => vec![Side::Sender, Side::Receiver],
                EventOf::Connection => vec![Side::Both],
            };
            sides.retain(|side| match side {
                Side::Receiver => self.parties.receiver.is_some(),
                Side::Both => self.parties.port.is_some(),
                _ => true,
            });
            counts.extend(sides.into_iter().map(|side| EventCount {
                event: row.event,
                side,
                count: match self.refused.get(&row.event) {
                    Some(why) => Reading::absent(why.clone()),
                    None => {
                        let at = place(row.event, side);
                        Reading::Measured(end.0[at].saturating_sub(start.0[at]))
                    }
                },
            }));
        }
        counts
    }
}

/// Where the count of an event stands.
fn place(event: CountedEvent, side: Side) -> usize {
    let of_side = match side {
        Side::Receiver => SET + SIDE_WORDS,
        _ => SET,
    };
    let connection = SET + 2 * SIDE_WORDS;
    match event {
        CountedEvent::SystemCalls => of_side,
        CountedEvent::ContextSwitches => of_side + 1,
        CountedEvent::WakeUps => of_side + 2,
        CountedEvent::PageFaults => of_side + 3,
        CountedEvent::TlbFlushes => of_side + 4,
        CountedEvent::Packets => connection,
        CountedEvent::Segments => connection + 1,
        CountedEvent::Acknowledgements => connection + 2,
        CountedEvent::Retransmits => connection + 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_count_has_a_place_of_its_own() {
        let mut places = Vec::new();
        for row in EVENTS {
            let sides: &[Side] = match row.of {
                EventOf::Process => &[Side::Sender, Side::Receiver],
                EventOf::Connection => &[Side::Both],
            };
            places.extend(sides.iter().map(|side| place(row.event, *side)));
        }
        places.sort_unstable();
        assert_eq!(places, (SET..WORDS).collect::<Vec<_>>());
    }

    #[test]
    fn a_kernel_that_does_not_tell_its_types_is_told() {
        struct Nobody;
        impl Exchange for Nobody {
            fn port(&self) -> u16 {
                0
            }
            fn exchange(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let nowhere = tempfile::tempdir().unwrap();
        let why = Events::open(nowhere.path(), &mut Nobody).unwrap_err();
        let why = why.to_string();
        assert!(why.contains("CONFIG_DEBUG_INFO_BTF"), "{why}");
    }
}
