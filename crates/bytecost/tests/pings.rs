//! Two threads that take turns, on the CPUs that were asked for; and memory in pages as asked.

mod fault_common;

use std::collections::{BTreeMap, BTreeSet};

use bytecost_spec::{Cell, Counter, HugePages, Placement, Record, Sample};
use bytecost_sys::process;
use fault_common::{Place, ended, records};

const SHORT: &str = "--budget 20s --blocks 6 --window 20ms --warmup 2ms --seed 7 --quiet";

/// The samples of all cells but that of the loop.
fn samples(place: &Place) -> Vec<(Cell, Sample)> {
    let all = records(&place.run()).into_iter();
    let samples = all.filter_map(|r| match serde_json::from_value(r).unwrap() {
        Record::Sample(sample) => Some((Cell::from_id(&sample.cell).unwrap(), sample)),
        _ => None,
    });
    samples.filter(|(cell, _)| cell.mover != "null").collect()
}

#[test]
fn threads_take_turns_where_they_are_held_and_every_number_is_checked() {
    let place = Place::new();
    let allowed = process::affinity().unwrap();
    ended(&mut place.bytecost(&format!("run cpu-to-cpu {SHORT}"))).measured();
    let mut seen: BTreeMap<String, BTreeSet<(u32, u32)>> = BTreeMap::new();
    for (cell, sample) in samples(&place) {
        let Placement::Cpus { sender, receiver } = &cell.placement else {
            panic!("{}", cell.placement);
        };
        let held = &sample.sender.held;
        assert_eq!(held.len(), 2, "{}", sample.cell);
        for (held, cpu) in held.iter().zip([sender[0], receiver[0]]) {
            assert_eq!(
                (&held.cpus, held.last_cpu),
                (&vec![cpu], cpu),
                "{}",
                sample.cell
            );
        }
        let read = |counter| sample.sender.readings[&counter].measured().unwrap();
        assert_eq!(read(Counter::Bytes), 16 * read(Counter::Messages));
        let truth = sample.truth.unwrap();
        assert_eq!(truth.checked, "result");
        assert!(truth.sent_bytes > 0 && truth.compared_bytes == truth.sent_bytes);
        assert!(sample.receiver.is_none());
        seen.entry(cell.mover)
            .or_default()
            .insert((sender[0], receiver[0]));
    }
    let with_itself = allowed.len().min(8);
    let pairs = with_itself * (with_itself + 1) / 2;
    for mover in ["ping-futex", "ping-pipe", "ping-unix", "ping-tcp"] {
        assert_eq!(seen[mover].len(), pairs, "{mover}");
        if pairs > 1 {
            assert!(place.run().join(format!("distance-{mover}.svg")).exists());
        }
    }
    let line = seen.get("ping-cache-line").map_or(0, BTreeSet::len);
    assert_eq!(line, pairs - with_itself, "who spins needs two CPUs");
    let list = ended(&mut place.bytecost("list")).stdout;
    assert!(list.contains("Two threads that take turns"), "{list}");
}

#[test]
fn turns_that_cannot_be_taken_are_refused_in_one_line() {
    let place = Place::new();
    for (words, needles) in [
        (
            "--mover ping-cache-line --placement same-cpu",
            &["they spin", "choose two CPUs"][..],
        ),
        (
            "--mover ping-futex --placement 0:8000",
            &["there is no CPU 8000 here"],
        ),
        (
            "--mover ping-futex --placement pair",
            &["SENDER:RECEIVER", "`pairs`"],
        ),
        (
            "--mover work-chase --huge-pages large",
            &["choose from auto, on, off"],
        ),
    ] {
        let end = ended(&mut place.bytecost(&format!("run {words} {SHORT}")));
        let line = end.refused();
        for needle in needles {
            assert!(line.contains(needle), "{words}: {line}");
        }
    }
}

#[test]
fn memory_lies_in_pages_as_asked_or_the_reason_is_told() {
    let place = Place::new();
    let words =
        "run --mover work-chase,work-stream --size 4MiB --huge-pages both --placement same-cpu";
    ended(&mut place.bytecost(&format!("{words} {SHORT}"))).measured();
    let mut seen = BTreeSet::new();
    for (cell, sample) in samples(&place) {
        assert_eq!(sample.truth.unwrap().checked, "result");
        seen.insert((cell.mover, cell.size_bytes, cell.huge_pages));
    }
    let of = |pages| seen.iter().filter(|(_, _, p)| *p == pages).count();
    assert_eq!(of(HugePages::Off), 2);
    let report = std::fs::read_to_string(place.run().join("report.md")).unwrap();
    // A trial fails where the kernel gave other pages than were asked for.
    assert!(
        of(HugePages::On) == 2 || report.contains("huge pages"),
        "{report}"
    );
}
