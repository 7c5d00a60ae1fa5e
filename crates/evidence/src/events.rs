//! Counts of kernel events while messages are moved: system calls, switches, wake-ups, faults, flushes,
//! packets. Counted at tracepoints (tp_btf), each of which is held against known work first.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::io;
use std::path::Path;
use std::time::Duration;

use aya::include_bytes_aligned;
use bytecost_spec::evidence::CountedEvent::{
    self, Acknowledgements, ContextSwitches, Packets, PageFaults, Retransmits, Segments,
    SystemCalls, TlbFlushes, WakeUps,
};
use bytecost_spec::evidence::{CountedFor, EVENTS, EventCount};
use bytecost_spec::{Reading, Side};
use bytecost_sys::{clock, process};

use crate::Parties;
use crate::bpf::{self, OTHER_CLOCK, Object};
use crate::copies::packets::handed_over;

/// The object that is built from `bpf/events.bpf.c`.
static OBJECT: &[u8] = include_bytes_aligned!("../bpf/events.bpf.o");

/// Words of `struct sums` in `events.bpf.c`.
const WORDS: usize = 23;
/// The first of these words, which are set before anything is counted.
const SET: usize = 6;
/// Words of `struct side` in it.
const SIDE_WORDS: usize = 5;
/// From a word of `struct packets` as it was queued to the same as it was freed.
const TO_FREED: usize = 4;
/// Calls of getppid, which does nothing else.
const CALLS: u64 = 100;
/// The window of a look at the clock, and how often that is tried where this thread is held up.
const PROBE_NS: u64 = 20_000_000;
const MOST_TRIES: u32 = 8;
/// Sleeps, each a switch and a wake-up.
const SLEEPS: u64 = 3;
/// An allocation of this size is a fresh mapping in every C library, which is given back at once.
const FRESH_BYTES: usize = 33 << 20;
/// The part of it that is touched, for the first time.
const TOUCHED_BYTES: usize = 2 << 20;
/// Messages that go out at once.
const WRITES: u64 = 4;
/// The most checks for an acknowledgement, which may be delayed.
const CHECKS: u32 = 100;

struct Program {
    name: &'static str,
    tracepoint: &'static str,
    events: &'static [CountedEvent],
}

const fn program(
    name: &'static str,
    tracepoint: &'static str,
    events: &'static [CountedEvent],
) -> Program {
    Program {
        name,
        tracepoint,
        events,
    }
}

/// Each program with its tracepoint and what it counts; an event needs all of its own.
const PROGRAMS: &[Program] = &[
    program("called", "sys_enter", &[SystemCalls]),
    program("switched", "sched_switch", &[ContextSwitches]),
    program("woken", "sched_waking", &[WakeUps]),
    program("faulted", "page_fault_user", &[PageFaults]),
    program("faulted_in_kernel", "page_fault_kernel", &[PageFaults]),
    program("flushed", "tlb_flush", &[TlbFlushes]),
    program("queued", "net_dev_queue", OF_PACKETS),
    program("consumed", "consume_skb", OF_PACKETS),
    program("again", "tcp_retransmit_skb", &[Retransmits]),
];
const OF_PACKETS: &[CountedEvent] = &[Packets, Segments, Acknowledgements];

/// Counts while it lives.
#[derive(Debug)]
pub struct Events {
    object: Object<WORDS>,
    refused: BTreeMap<CountedEvent, String>,
    parties: Parties,
}

impl Events {
    /// Attaches all that can be, and lets each count known work: one that misses some is absent from
    /// then on, with that reason. `exchange` is to send one small message to this port over
    /// loopback, at once, and to receive it: who counts moves nothing itself.
    ///
    /// # Errors
    /// In a sentence: no rights for BPF, or a kernel without types; what `exchange` answers.
    pub fn open(
        root: &Path,
        port: u16,
        exchange: impl FnMut() -> io::Result<()>,
    ) -> io::Result<Events> {
        let types = bpf::types(root)?;
        let mut object = Object::load(OBJECT, types, &[])?;
        let mut refused = BTreeMap::new();
        for program in PROGRAMS {
            let tracepoint = program.tracepoint;
            match object.attach(program.name, tracepoint, types) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Err(e),
                Err(e) => {
                    let why = format!("the tracepoint `{tracepoint}` cannot be hooked: {e}");
                    refused.extend(program.events.iter().map(|event| (*event, why.clone())));
                }
            }
        }
        let mut found = Events {
            object,
            refused,
            parties: Parties::default(),
        };
        for (event, why) in failing(&mut found, port, exchange)? {
            found.refused.entry(event).or_insert(why);
        }
        Ok(found)
    }

    /// Events that cannot be counted here, with the reason.
    pub fn refused(&self) -> &BTreeMap<CountedEvent, String> {
        &self.refused
    }

    /// Begins anew, with the events of these from now on.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn begin(&mut self, parties: Parties) -> io::Result<()> {
        self.parties = parties;
        self.schedule(0, u64::MAX)
    }

    /// Begins anew, with the events of the same between two moments of CLOCK_MONOTONIC: the
    /// programs look at the clock, so nothing depends on when the counts are read.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn schedule(&mut self, from_ns: u64, to_ns: u64) -> io::Result<()> {
        let of = self.parties;
        self.object.begin(&[
            of.port_word(),
            of.network.unwrap_or(0),
            u64::from(of.sender),
            u64::from(of.receiver.unwrap_or(0)),
            from_ns,
            to_ns,
        ])
    }

    /// Some(true) if known calls are counted in a window that they lie in; none where this thread was held
    /// up beyond the window, or where calls cannot be counted.
    fn counts_calls_within(&mut self, from_ns: u64, to_ns: u64) -> io::Result<Option<bool>> {
        self.schedule(from_ns, to_ns)?;
        for _ in 0..CALLS {
            black_box(std::os::unix::process::parent_id());
        }
        let are_within = clock::monotonic_ns() < to_ns;
        let counted = count(&self.object.words(), SystemCalls, Side::Sender);
        let is_known = are_within && !self.refused.contains_key(&SystemCalls);
        Ok(is_known.then_some(counted >= CALLS))
    }

    /// Returns true unless the programs' clock is found to differ from CLOCK_MONOTONIC here: a time
    /// namespace may have an offset.
    fn is_clock_the_kernels(&mut self) -> io::Result<bool> {
        for _ in 0..MOST_TRIES {
            let from_ns = clock::monotonic_ns();
            if let Some(is_counted) = self.counts_calls_within(from_ns, from_ns + PROBE_NS)? {
                return Ok(is_counted);
            }
        }
        Ok(true)
    }

    /// The counts so far: each event of each side that takes part.
    pub fn counts(&self) -> Vec<EventCount> {
        let counted = self.object.words();
        let mut counts = Vec::new();
        for row in EVENTS {
            let is_there = |side: &&Side| match side {
                Side::Receiver => self.parties.receiver.is_some(),
                Side::Both => self.parties.port.is_some(),
                _ => true,
            };
            for &side in sides(row.of).iter().filter(is_there) {
                counts.push(EventCount {
                    event: row.event,
                    side,
                    count: match self.refused.get(&row.event) {
                        Some(why) => Reading::absent(why.clone()),
                        None => Reading::Measured(count(&counted, row.event, side)),
                    },
                });
            }
        }
        counts
    }
}

fn sides(of: CountedFor) -> &'static [Side] {
    match of {
        CountedFor::Process => &[Side::Sender, Side::Receiver],
        CountedFor::Connection => &[Side::Both],
    }
}

fn place(event: CountedEvent, side: Side) -> usize {
    let of_side = match side {
        Side::Receiver => SET + SIDE_WORDS,
        _ => SET,
    };
    let connection = SET + 2 * SIDE_WORDS;
    match event {
        SystemCalls => of_side,
        ContextSwitches => of_side + 1,
        WakeUps => of_side + 2,
        PageFaults => of_side + 3,
        TlbFlushes => of_side + 4,
        Packets => connection,
        Segments => connection + 1,
        Acknowledgements => connection + 2,
        Retransmits => connection + 3,
    }
}

/// The kernel may cut packets for a card, which frees more of them then, and as many segments.
fn count(words: &[u64; WORDS], event: CountedEvent, side: Side) -> u64 {
    let own = place(event, side);
    let by = match event {
        Packets | Segments => place(Segments, side),
        Acknowledgements => own,
        _ => return words[own],
    };
    let [by, own] = [by, own].map(|at| [words[at], words[at + TO_FREED]]);
    handed_over(by, own)
}

/// An event of a side with the least number of times that it happened.
struct Known {
    event: CountedEvent,
    side: Side,
    least: u64,
}

const fn at_least(event: CountedEvent, side: Side, least: u64) -> Known {
    Known { event, side, least }
}

/// Events whose counters miss some of the known work, each with what to say of it. Retransmits are
/// not among them: nothing here can cause one.
fn failing(
    events: &mut Events,
    port: u16,
    mut exchange: impl FnMut() -> io::Result<()>,
) -> io::Result<Vec<(CountedEvent, String)>> {
    events.begin(Parties {
        port: Some(port),
        sender: std::process::id(),
        ..Parties::default()
    })?;
    let has_own_numbers = events.counts_calls_within(0, u64::MAX)? != Some(false);
    let has_own_clock = !has_own_numbers || events.is_clock_the_kernels()?;
    if !has_own_clock {
        let all = EVENTS.iter().map(|row| (row.event, OTHER_CLOCK.to_owned()));
        return Ok(all.collect());
    }
    events.schedule(0, u64::MAX)?;
    let before = process::thread_usage()?;
    for _ in 0..CALLS {
        black_box(std::os::unix::process::parent_id());
    }
    for _ in 0..SLEEPS {
        std::thread::sleep(Duration::from_micros(50));
    }
    let mut fresh: Vec<u8> = Vec::with_capacity(FRESH_BYTES);
    let touched = &mut fresh.spare_capacity_mut()[..TOUCHED_BYTES];
    for first in touched.iter_mut().step_by(rustix::param::page_size()) {
        black_box(first.write(1));
    }
    drop(fresh);
    let faults = process::thread_usage()?.faults_minor - before.faults_minor;
    for _ in 0..WRITES {
        exchange()?;
    }
    for _ in 0..CHECKS {
        if count(&events.object.words(), Acknowledgements, Side::Both) > 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let known = [
        at_least(SystemCalls, Side::Sender, CALLS),
        at_least(ContextSwitches, Side::Sender, SLEEPS),
        at_least(WakeUps, Side::Sender, SLEEPS),
        at_least(PageFaults, Side::Sender, faults),
        // Memory that was given back is taken out of the TLB at once.
        at_least(TlbFlushes, Side::Sender, faults.min(1)),
        at_least(Packets, Side::Both, WRITES),
        at_least(Segments, Side::Both, WRITES),
        at_least(Acknowledgements, Side::Both, 1),
    ];
    Ok(missed(&known, &events.object.words()))
}

fn missed(known: &[Known], counted: &[u64; WORDS]) -> Vec<(CountedEvent, String)> {
    let missed = known.iter().filter_map(|&Known { event, side, least }| {
        let found = count(counted, event, side);
        let why = format!("self-test failed: it counted {found} where there were at least {least}");
        (found < least).then_some((event, why))
    });
    missed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_count_has_a_place_of_its_own() {
        let mut places = Vec::new();
        for row in EVENTS {
            places.extend(sides(row.of).iter().map(|side| place(row.event, *side)));
        }
        places.extend(
            OF_PACKETS
                .iter()
                .map(|event| place(*event, Side::Both) + TO_FREED),
        );
        places.sort_unstable();
        assert_eq!(places, (SET..WORDS).collect::<Vec<_>>());
    }

    #[test]
    fn a_packet_that_is_queued_and_freed_counts_once() {
        // Packets, their segments and acknowledgements.
        let check = |queued: [u64; 3], freed: [u64; 3], expected: [u64; 3]| {
            let mut words = [0; WORDS];
            let at = place(Packets, Side::Both);
            words[at..at + 3].copy_from_slice(&queued);
            words[at + TO_FREED..].copy_from_slice(&freed);
            let found = OF_PACKETS
                .iter()
                .map(|event| count(&words, *event, Side::Both));
            assert!(found.eq(expected), "{words:?}");
        };
        check([2, 80, 9], [0, 0, 0], [2, 80, 9]);
        check([2, 80, 9], [2, 80, 9], [2, 80, 9]);
        check([2, 80, 9], [80, 80, 0], [2, 80, 9]);
        check([0, 0, 0], [2, 80, 9], [2, 80, 9]);
        check([1, 1, 9], [9, 99, 9], [10, 100, 9]);
    }

    #[test]
    fn a_counter_that_misses_known_work_is_refused_and_no_other() {
        let known = [
            at_least(SystemCalls, Side::Sender, 100),
            at_least(WakeUps, Side::Sender, 3),
            at_least(Packets, Side::Both, 4),
        ];
        let check = |calls: u64, wakeups: u64, packets: u64, expected: &[CountedEvent]| {
            let mut counted = [0; WORDS];
            counted[place(SystemCalls, Side::Sender)] = calls;
            counted[place(WakeUps, Side::Sender)] = wakeups;
            counted[place(Packets, Side::Both)] = packets;
            let found = missed(&known, &counted);
            let events: Vec<CountedEvent> = found.iter().map(|(event, _)| *event).collect();
            assert_eq!(events, expected, "{found:?}");
        };
        check(100, 3, 4, &[]);
        check(5000, 3, 9, &[]);
        check(100, 0, 4, &[WakeUps]);
        let both = [SystemCalls, Packets];
        check(99, 3, 0, &both);
        let (_, why) = missed(&known[..1], &[0; WORDS]).remove(0);
        let reason = "counted 0 where there were at least 100";
        assert!(why.contains(reason), "{why}");
    }
}
