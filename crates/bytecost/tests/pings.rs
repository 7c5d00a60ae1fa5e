//! Two threads that take turns, on the CPUs that were asked for; and memory in pages as asked.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::Place;
use bytecost_spec::{Cell, Counter, HugePages, Placement, Sample};
use bytecost_sys::process;

const SHORT: &str = "--budget 20s --blocks 6 --window 20ms --warmup 2ms --seed 7 --quiet";

fn samples(place: &Place) -> impl Iterator<Item = (Cell, Sample)> {
    let all = place.samples().into_iter();
    all.filter(|(cell, _)| cell.mover != "null")
}

#[test]
fn threads_take_turns_where_they_are_held_and_every_number_is_checked() {
    let place = Place::new();
    let allowed = process::affinity().unwrap();
    place.call(format!("run cpu-to-cpu {SHORT}")).measured();
    let mut seen: BTreeMap<String, BTreeSet<(u32, u32)>> = BTreeMap::new();
    for (cell, sample) in samples(&place) {
        let Placement::Cpus { sender, receiver } = &cell.placement else {
            panic!("{}", cell.placement);
        };
        let held = &sample.sender.held;
        assert_eq!(held.len(), 2, "{}", sample.cell);
        for (thread, cpu) in held.iter().zip([sender[0], receiver[0]]) {
            assert_eq!((&thread.cpus[..], thread.last_cpu), (&[cpu][..], cpu));
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
}

#[test]
fn memory_lies_in_pages_as_asked_or_the_reason_is_reported() {
    let place = Place::new();
    let words =
        "run --mover work-chase,work-stream --size 4MiB --huge-pages both --placement same-cpu";
    place.call(format!("{words} {SHORT}")).measured();
    let mut seen = BTreeSet::new();
    for (cell, sample) in samples(&place) {
        assert_eq!(sample.truth.unwrap().checked, "result");
        seen.insert((cell.mover, cell.size_bytes, cell.huge_pages));
    }
    let of = |pages| seen.iter().filter(|(_, _, p)| *p == pages).count();
    assert_eq!(of(HugePages::Off), 2);
    let report = place.read("report.md");
    // A trial fails where the kernel gave other pages than were asked for.
    assert!(
        of(HugePages::On) == 2 || report.contains("huge pages"),
        "{report}"
    );
}
