//! Work whose events are known by other means: what each counter is held against before it is
//! believed.

use std::hint::black_box;
use std::io;
use std::time::Duration;

use bytecost_spec::Side;
use bytecost_spec::evidence::CountedEvent;
use bytecost_sys::process;

use super::{Events, Exchange, WORDS, place};
use crate::Parties;

/// Calls of getppid, which does nothing else.
const CALLS: u64 = 100;
/// Sleeps, each a switch and a wake-up.
const SLEEPS: u64 = 3;
/// Memory that is touched for the first time, and given back.
const FRESH_BYTES: usize = 8 << 20;
/// Messages that go out at once.
const WRITES: u64 = 4;
/// How often it is looked whether an acknowledgement has come, which may be delayed.
const LOOKS: u32 = 100;

/// What happened at least.
struct Known {
    event: CountedEvent,
    side: Side,
    least: u64,
}

/// Events whose counters miss some of the known work, each with what to say of it. Retransmits are
/// not among them: none can be had on purpose.
pub(super) fn failing(
    events: &mut Events,
    connection: &mut dyn Exchange,
) -> io::Result<Vec<(CountedEvent, String)>> {
    events.begin(Parties {
        port: Some(connection.port()),
        network: None,
        sender: std::process::id(),
        receiver: None,
    })?;
    let before = process::thread_usage()?;
    for _ in 0..CALLS {
        black_box(std::os::unix::process::parent_id());
    }
    for _ in 0..SLEEPS {
        std::thread::sleep(Duration::from_micros(50));
    }
    let mut fresh = vec![1_u8; FRESH_BYTES];
    black_box(&mut fresh);
    drop(fresh);
    let faults = process::thread_usage()?.faults_minor - before.faults_minor;
    for _ in 0..WRITES {
        connection.exchange()?;
    }
    let acknowledged = place(CountedEvent::Acknowledgements, Side::Both);
    for _ in 0..LOOKS {
        if events.now().0[acknowledged] > 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let known = [
        (CountedEvent::SystemCalls, Side::Sender, CALLS),
        (CountedEvent::ContextSwitches, Side::Sender, SLEEPS),
        (CountedEvent::WakeUps, Side::Sender, SLEEPS),
        (CountedEvent::PageFaults, Side::Sender, faults),
        // Memory that was given back is taken out of the TLB at once.
        (
            CountedEvent::TlbFlushes,
            Side::Sender,
            u64::from(faults > 0),
        ),
        (CountedEvent::Packets, Side::Both, WRITES),
        (CountedEvent::Segments, Side::Both, WRITES),
        (CountedEvent::Acknowledgements, Side::Both, 1),
    ];
    let known = known.map(|(event, side, least)| Known { event, side, least });
    Ok(missed(&known, &events.now().0))
}

fn missed(known: &[Known], counted: &[u64; WORDS]) -> Vec<(CountedEvent, String)> {
    let missed = known.iter().filter_map(|known| {
        let (found, least) = (counted[place(known.event, known.side)], known.least);
        let why = format!("self-test failed: it counted {found} where there were at least {least}");
        (found < least).then_some((known.event, why))
    });
    missed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_misses_known_work_is_told_and_no_other() {
        let known = |event, side, least| Known { event, side, least };
        let known = [
            known(CountedEvent::SystemCalls, Side::Sender, 100),
            known(CountedEvent::WakeUps, Side::Sender, 3),
            known(CountedEvent::Packets, Side::Both, 4),
        ];
        let check = |calls: u64, wakeups: u64, packets: u64, expected: &[CountedEvent]| {
            let mut counted = [0; WORDS];
            counted[place(CountedEvent::SystemCalls, Side::Sender)] = calls;
            counted[place(CountedEvent::WakeUps, Side::Sender)] = wakeups;
            counted[place(CountedEvent::Packets, Side::Both)] = packets;
            let found = missed(&known, &counted);
            let events: Vec<CountedEvent> = found.iter().map(|(event, _)| *event).collect();
            assert_eq!(events, expected, "{found:?}");
        };
        check(100, 3, 4, &[]);
        check(5000, 3, 9, &[]);
        check(100, 0, 4, &[CountedEvent::WakeUps]);
        check(
            99,
            3,
            0,
            &[CountedEvent::SystemCalls, CountedEvent::Packets],
        );
        let (_, why) = missed(&known[..1], &[0; WORDS]).remove(0);
        assert!(
            why.contains("counted 0 where there were at least 100"),
            "{why}"
        );
    }
}
