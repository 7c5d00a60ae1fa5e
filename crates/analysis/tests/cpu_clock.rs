//! A kernel that leaves interrupts out of a thread's CPU time is named with what stood for it.

use crate::world;

use bytecost_analysis::Caveat;
use bytecost_spec::survey::CpuClock;
use bytecost_spec::{Cell, Counter, Reading, Readings};
use world::{STUDY, True, World};

fn quiet() -> World {
    World::new(STUDY).run(1, 12, 0.003, |_| True::costs(0.2))
}

fn put(readings: &mut Readings, counter: Counter, value: u64) {
    readings.insert(counter, Reading::Measured(value));
}

fn found(world: &World) -> Vec<Caveat> {
    let caveats = world.analyse().caveats.into_iter();
    caveats.filter(|d| d.kind == "cpu-clock").collect()
}

#[track_caller]
fn silent(world: &World) {
    assert!(found(world).is_empty(), "{:#?}", found(world));
}

/// The caveat arises once, touches so many cells, and its evidence says this.
#[track_caller]
fn fires(world: &World, cells: usize, evidence: &str) -> Caveat {
    let found = found(world);
    let [caveat] = found.as_slice() else {
        panic!("{found:#?}")
    };
    assert_eq!(caveat.cells.len(), cells, "{caveat:#?}");
    assert!(caveat.evidence.contains(evidence), "{caveat:#?}");
    caveat.clone()
}

fn is_zero_copy(cell: &Cell) -> bool {
    cell.mover == "send-zerocopy"
}

#[test]
fn a_clock_that_leaves_out_interrupts_is_told_with_what_was_read_in_its_place() {
    let clock = |tries, cpu_ns, configured| {
        Some(CpuClock {
            tries,
            elapsed_ns: 1000,
            cpu_ns,
            configured,
            failed: None,
        })
    };
    let mut world = quiet();
    silent(&world);
    world.manifest.survey.cpu_clock = clock(10, 999, None);
    silent(&world);
    // Lost, but nothing went by other means: the study goes over no network.
    world.manifest.survey.cpu_clock = clock(10, 712, None);
    silent(&world);
    world.change(is_zero_copy, |s| {
        put(&mut s.sender.readings, Counter::ThreadCpuNs, 5);
    });
    let told = "had 71.2 % of the elapsed time as CPU time";
    let caveat = fires(&world, 4, told);
    assert!(
        caveat
            .text
            .contains("in 4 cells CPU time is the perf task clock"),
        "{caveat:#?}"
    );
    assert!(!caveat.text.contains("two means"), "{caveat:#?}");
    world.change(
        |c| c.mover == "sendfile",
        |s| {
            put(&mut s.sender.readings, Counter::ThreadCpuNs, 5);
            put(&mut s.sender.readings, Counter::InterruptNs, 5);
        },
    );
    let caveat = fires(&world, 8, told);
    for part in [
        "in 4 cells the interrupts of its CPUs are added",
        "two means",
    ] {
        assert!(caveat.text.contains(part), "{part}: {caveat:#?}");
    }
    world.change(
        |_| true,
        |s| {
            put(&mut s.sender.readings, Counter::ThreadCpuNs, 5);
            let absent = Reading::absent("nothing serves");
            s.sender.readings.insert(Counter::CpuNs, absent);
        },
    );
    let caveat = fires(&world, 16, told);
    assert!(
        caveat.text.contains("in 16 cells there is no CPU time"),
        "{caveat:#?}"
    );
}

#[test]
fn a_clock_that_could_not_be_tested_is_told() {
    let mut world = quiet();
    world.manifest.survey.cpu_clock = Some(CpuClock::default());
    fires(&world, 16, "in every try");
    world.manifest.survey.cpu_clock = Some(CpuClock {
        configured: Some(false),
        ..CpuClock::default()
    });
    silent(&world);
}
