//! Work that moves nothing: what two threads get done together says whether they share a core, and
//! where an access becomes dearer says where caches end. And where threads ran is told.

mod world;

use bytecost_analysis::{Analysis, Explanation};
use bytecost_spec::host::Cache;
use bytecost_spec::survey::{Release, Route};
use bytecost_spec::{Cell, Counter, Held, Nearness, Placement, Reading};
use world::{True, World};

const STUDY: &str = r#"
name = "work"
title = "Work"
question = "What do two threads get done?"
prediction = "It depends on where."
smallest-effect = "5%"
precision = "3%"
budget = "60s"
warmup = "10ms"
window = "100ms"
blocks-least = 6
blocks-most = 40

[axes]
mover = ["null", "work-integer", "work-chase"]
threads = [1, 2]
placement = ["same-cache", "same-cpu"]
size = ["4KiB"]

[[compare]]
axis = "threads"
baseline = "1"
metrics = ["messages_per_s", "cpu_ns_per_message"]

[[figure]]
title = "Work"
x = "threads"
y = "messages_per_s"
series = "mover"
"#;

fn world(study: &str, truth: impl Fn(&Cell) -> True) -> World {
    let mut world = World::new(study);
    let row = |name: &str, route| {
        let mut row = world::facts(name, Release::AtReturn, false);
        row.route = route;
        row
    };
    world.manifest.survey.mover_facts = vec![
        row("null", Route::Nowhere),
        row("work-integer", Route::Work),
        row("work-chase", Route::Work),
    ];
    let mut world = world.run(7, 12, 0.01, truth);
    world.change(|c| c.mover != "null", |sample| sample.receiver = None);
    world
}

/// So much done in the same time, at so much CPU time each.
fn done(done: f64, cost: f64) -> True {
    True {
        gbit_per_s: 6.0 * done,
        ..True::costs(cost)
    }
}

/// Two threads on two CPUs get so much done, at so much CPU time a step; on one they take turns.
fn two(apart: True) -> impl Fn(&Cell) -> True {
    move |cell| match (cell.threads, &cell.placement) {
        (2, Placement::Near(Nearness::SameCache)) => apart,
        _ => done(1.0, 1.0),
    }
}

fn explanation<'a>(analysis: &'a Analysis, key: &str) -> &'a Explanation {
    let found = analysis.explanations.iter().find(|e| e.key == key);
    found.unwrap_or_else(|| panic!("no explanation `{key}`"))
}

#[test]
fn a_shared_core_is_told_from_taking_turns_by_the_cpu_time_of_a_step() {
    for (apart, expected) in [
        (done(2.0, 1.0), "each CPU seems to have a core of its own"),
        (done(1.2, 1.67), "two CPUs seem to share a core"),
        (done(1.7, 1.18), "not decided whether the CPUs share a core"),
        // Others took half of the time: less is done, and no step costs more for that.
        (done(1.0, 1.0), "each CPU seems to have a core of its own"),
    ] {
        let analysis = world(STUDY, two(apart)).analyse();
        let told = explanation(&analysis, "shared-core");
        let answer = told.answer.as_ref().unwrap();
        assert!(answer.contains(expected), "{answer}");
        assert!(answer.starts_with("With placement same-cache"), "{answer}");
        assert!(!answer.contains("same-cpu"), "{answer}");
        let turns = told
            .numbers
            .iter()
            .filter(|n| n.ends_with("(they take turns)"));
        assert_eq!(turns.count(), 2, "{:?}", told.numbers);
    }
}

#[test]
fn nothing_is_said_of_cores_without_two_threads() {
    let alone = STUDY.replace("threads = [1, 2]", "threads = [1]");
    let analysis = world(&alone, two(done(1.0, 1.0))).analyse();
    assert!(analysis.explanations.iter().all(|e| e.key != "shared-core"));
}

#[test]
fn steps_are_held_against_the_caches_of_the_host() {
    let study = STUDY
        .replace("threads = [1, 2]", "threads = [1]")
        .replace(
            "placement = [\"same-cache\", \"same-cpu\"]",
            "placement = [\"same-cpu\"]",
        )
        .replace(
            "[\"4KiB\"]",
            "[\"4KiB\", \"16KiB\", \"64KiB\", \"256KiB\", \"1MiB\"]",
        );
    let truth = |cell: &Cell| True::costs(if cell.size_bytes > 32 << 10 { 4.0 } else { 1.0 });
    let mut world = world(&study, truth);
    // A message is an access, whatever the size.
    world.change(
        |c| c.mover != "null",
        |sample| {
            let size = Cell::from_id(&sample.cell).unwrap().size_bytes;
            let messages = sample.sender.readings.get_mut(&Counter::Messages).unwrap();
            *messages = Reading::Measured(messages.measured().unwrap() * size / 64);
        },
    );
    let cache = |level, kib: u64| Cache {
        level,
        kind: "Unified".into(),
        size_bytes: kib << 10,
        shared_by: vec![0],
    };
    world.manifest.host.caches = vec![cache(1, 32), cache(2, 256), cache(3, 8192)];
    let analysis = world.analyse();
    let told = explanation(&analysis, "cache-steps");
    assert_eq!(
        told.answer.as_deref().unwrap(),
        "L1 of 32 KiB: found between 16 KiB and 64 KiB; L2 of 256 KiB: no step is seen; L3 of 8 MiB: beyond the sizes that were measured."
    );
    assert_eq!(told.evidence.len(), 5);
}

#[test]
fn no_words_about_two_ends_are_said_of_work() {
    let analysis = world(STUDY, two(done(2.0, 1.0))).analyse();
    for doubt in &analysis.doubts {
        assert!(
            !doubt.text.contains("Sender and receiver"),
            "{}",
            doubt.text
        );
        assert!(!doubt.text.contains("payload"), "{}", doubt.text);
        assert!(
            !doubt.text.contains("More threads than CPUs"),
            "{}",
            doubt.text
        );
    }
    let constants: Vec<&str> = (analysis.study.constants.iter())
        .map(|(axis, _)| axis.name())
        .collect();
    assert_eq!(
        constants,
        ["size", "mem-node", "neighbour", "class", "cgroup"]
    );
}

#[test]
fn where_threads_ran_is_told_as_the_kernel_said() {
    let study = STUDY.replace("size = ", "neighbour = [\"idle\", \"spin@all\"]\nsize = ");
    let mut world = world(&study, two(done(2.0, 1.0)));
    let held = |cpu| Held {
        cpus: vec![cpu],
        last_cpu: cpu,
        memory_node: None,
        class: None,
    };
    world.change(
        |c| c.mover != "null",
        |sample| {
            let cell = Cell::from_id(&sample.cell).unwrap();
            sample.sender.held = match (&cell.placement, cell.threads) {
                (Placement::Near(Nearness::SameCache), 2) => vec![held(0), held(3)],
                (_, n) => vec![held(0); n as usize],
            };
            if !cell.neighbour.is_idle() {
                sample.neighbour = vec![held(0), held(3)];
                let half = Reading::Measured(100_000_000);
                sample.machine.insert(Counter::NeighbourNs, half);
            }
        },
    );
    assert_eq!(
        world.analyse().run.places,
        [
            "placement same-cache: threads on CPUs 0 and 3",
            "placement same-cpu: threads on CPU 0",
            "neighbour spin@all: on CPUs 0 and 3, busy for 50 % of the window",
        ]
    );
}
