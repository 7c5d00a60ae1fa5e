//! Work that moves nothing: what two threads get done together says whether they share a core, and
//! where an access becomes dearer says where caches end.

use bytecost_spec::survey::Route;
use bytecost_spec::{Cell, Counter, HugePages, Nearness, Placement, RefusedCell};

use crate::work_worlds::done;
use crate::world::{
    self, Found, True, World, answered, begins, cache, missing, question, says, scale,
};

const STUDY: &str = world::study!(
    "work",
    r#"
[axes]
mover = ["null", "work-integer", "work-chase"]
threads = [1, 2]
placement = ["same-cache", "same-cpu"]
size = ["4KiB"]

[[compare]]
axis = "threads"
baseline = "1"
metrics = ["messages_per_s", "cpu_ns_per_message"]
"#
);

/// One CPU on which what is walked through grows, in pages of both kinds.
const STEPS: &str = world::study!(
    "work",
    r#"
[axes]
mover = ["null", "work-integer", "work-chase"]
placement = ["same-cpu"]
size = ["16KiB", "64KiB", "256KiB", "1MiB", "4MiB"]
huge-pages = ["off", "on"]

[[compare]]
axis = "huge-pages"
baseline = "off"
metrics = ["cpu_ns_per_message"]
"#
);

fn world(study: &str, truth: impl Fn(&Cell) -> True) -> World {
    let rows = [
        ("null", Route::Nowhere),
        ("work-integer", Route::Work),
        ("work-chase", Route::Work),
    ];
    World::of_rows(study, &rows).run(7, 12, 0.01, truth).alone()
}

/// Two threads on two CPUs get so much done, at so much CPU time a step; on one they take turns.
fn two(apart: True) -> impl Fn(&Cell) -> True {
    move |cell| match (cell.threads, &cell.placement) {
        (2, Placement::Near(Nearness::SameCache)) => apart,
        _ => done(1.0, 1.0),
    }
}

#[test]
fn a_shared_core_is_reported_from_taking_turns_by_the_cpu_time_of_a_step() {
    for (apart, expected) in [
        (done(2.0, 1.0), "each CPU seems to have a core of its own"),
        (done(1.2, 1.67), "two CPUs seem to share a core"),
        (done(1.7, 1.18), "not decided whether the CPUs share a core"),
        // Others took half of the time: less is done, and no step costs more for that.
        (done(1.0, 1.0), "each CPU seems to have a core of its own"),
    ] {
        let analysis = world(STUDY, two(apart)).analyse();
        let found = question(&analysis, "shared-core").unwrap();
        let answer = analysis.answer("shared-core");
        says(&answer, [expected]);
        begins(&answer, "With placement same-cache");
        let own = answer.contains("core of its own");
        assert_eq!(answer.contains("less than 12 % more CPU time"), own);
        assert!(!answer.contains("same-cpu"), "{answer}");
        let cells = found
            .findings
            .iter()
            .map(|number| &analysis.findings[*number].cell);
        assert!(
            cells
                .into_iter()
                .any(|cell| cell.contains("/work-integer/"))
        );
    }
    let mut failing = world(STUDY, two(done(2.0, 1.0)));
    for cell in failing.cells.clone() {
        (0..3).for_each(|block| failing.fail(block, &cell.id(), "killed"));
    }
    let analysis = failing.analyse();
    assert_eq!(question(&analysis, "shared-core").unwrap().answer, None);
}

/// A world in which a message is an access, whatever the size.
fn stepped(study: &str, truth: impl Fn(&Cell) -> True) -> World {
    let mut world = world(study, truth);
    world.by_cell(|cell, sample| {
        if cell.mover != "null" {
            let accesses = cell.size_bytes as f64 / 64.0;
            scale(&mut sample.sender.readings, Counter::Messages, accesses);
        }
    });
    world
}

#[test]
fn steps_are_held_against_the_caches_of_the_host() {
    let study = STEPS.replace(", \"on\"", "");
    let truth = |cell: &Cell| True::costs(if cell.size_bytes > 32 << 10 { 4.0 } else { 1.0 });
    let mut world = stepped(&study, truth);
    world.manifest.host.caches = vec![cache(1, 32 << 10), cache(2, 256 << 10), cache(3, 8 << 20)];
    let analysis = world.analyse();
    assert_eq!(
        analysis.answer("cache-steps"),
        "L1 of 32 KiB: found between 16 KiB and 64 KiB; L2 of 256 KiB: no step is seen; L3 of 8 MiB: beyond the sizes that were measured."
    );
    let found = question(&analysis, "cache-steps").unwrap();
    assert_eq!(found.evidence.len(), 5);
}

#[test]
fn steps_are_reported_for_small_pages_and_for_huge_ones_and_what_huge_ones_gain() {
    // Beyond 32 KiB there is another cache, beyond 512 KiB small pages miss in the TLB.
    let truth = |cell: &Cell| {
        let far = if cell.size_bytes > 32 << 10 { 4.0 } else { 1.0 };
        let misses = cell.huge_pages == HugePages::Off && cell.size_bytes > 512 << 10;
        True::costs(far * if misses { 2.0 } else { 1.0 })
    };
    let mut world = stepped(STEPS, truth);
    world.manifest.host.caches = vec![cache(1, 32 << 10), cache(2, 1 << 20)];
    let with_huge = world.analyse();
    let steps = question(&with_huge, "cache-steps").unwrap();
    assert_eq!(
        with_huge.answer("cache-steps"),
        "In small pages, L1 of 32 KiB: found between 16 KiB and 64 KiB; L2 of 1 MiB: found between 256 KiB and 1 MiB. In huge pages, L1 of 32 KiB: found between 16 KiB and 64 KiB; L2 of 1 MiB: no step is seen."
    );
    assert_eq!(steps.evidence.len(), 10);
    let words = "with `work-chase`: better at 1 MiB and at 4 MiB, 0.4";
    let gained = answered(&with_huge, "huge-pages", &[words]);
    assert_eq!(gained.findings.len(), 10);
    says(&gained.evidence[0], ["/proc/self/smaps"]);

    // Where there are none, the reason stands in the place of an answer.
    let huge = Cell {
        mover: "work-chase".to_owned(),
        huge_pages: HugePages::On,
        ..Cell::default()
    };
    let why = "huge pages: they are switched off";
    world.refused = vec![RefusedCell {
        cell: huge,
        why: why.to_owned(),
    }];
    world.keep(|c| c.huge_pages != HugePages::On);
    let analysis = world.analyse();
    let gain = missing(&analysis, "huge-pages", &[]);
    assert_eq!(gain.missing.as_deref(), Some(why));
}
