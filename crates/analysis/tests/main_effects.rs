//! Main effects: what one way does over all places of an axis at once, with planted truths.

use bytecost_analysis::{Analysis, MainEffect, Verdict};
use bytecost_spec::{Axis, Cell};

use crate::world::{STUDY, True, World};

/// The usual study, whose effects over sizes are asked for.
fn asked() -> String {
    let over = "baseline = \"send\"\nover = \"size\"";
    STUDY.replacen("baseline = \"send\"", over, 1)
}

fn effect<'a>(analysis: &'a Analysis, mover: &str) -> &'a MainEffect {
    let mut effects = analysis.main_effects.iter();
    effects.find(|e| e.value == mover).expect("an effect")
}

/// So much dearer than `send` is `writev`, by size; the others are alike.
fn run(study: &str, blocks: u32, noise: f64, dearer: impl Fn(u64) -> f64) -> World {
    let truth = |cell: &Cell| match cell.mover.as_str() {
        "writev" => True::costs(0.2 * dearer(cell.size_bytes)),
        _ => True::costs(0.2),
    };
    World::new(study).run(5, blocks, noise, truth)
}

#[test]
fn an_effect_that_no_place_shows_is_decided_over_all_of_them() {
    let analysis = run(&asked(), 6, 0.04, |_| 1.1).analyse();
    let findings = analysis.findings.iter();
    let singles = findings.filter(|f| f.value == "writev" && f.first);
    assert!(singles.clone().count() == 4);
    assert!(singles.filter(|f| f.verdict == Verdict::Worse).count() < 4);
    let found = effect(&analysis, "writev");
    let about = (found.axis, found.over, found.blocks);
    assert_eq!(about, (Axis::Mover, Axis::Size, 6));
    assert_eq!(found.verdict, Verdict::Worse, "{found:?}");
    // Senders alone are dearer, and both sides are in the metric.
    assert!(
        (1.02..1.2).contains(&found.ratio) && found.low > 1.0,
        "{found:?}"
    );
    assert_eq!(found.places.len(), 4);
    assert!(found.furthest.p > 0.05 && !found.turns, "{found:?}");
}

#[test]
fn an_effect_that_nobody_asked_for_has_an_interval_and_no_verdict() {
    let analysis = run(STUDY, 12, 0.02, |_| 1.5).analyse();
    let found = effect(&analysis, "writev");
    assert!(found.low > 1.1, "{found:?}");
    assert!(found.verdict == Verdict::NotJudged, "{found:?}");
}

#[test]
fn a_place_that_differs_is_named() {
    let dearer = |size| if size == 256 { 3.0 } else { 1.2 };
    let analysis = run(&asked(), 12, 0.02, dearer).analyse();
    let found = effect(&analysis, "writev");
    assert_eq!(found.furthest.value, "256");
    assert!(found.furthest.p < 0.01, "{found:?}");
    assert!(found.furthest.low > 1.2, "{found:?}");
}

#[test]
fn places_that_disagree_in_sign_have_no_mean() {
    let dearer = |size| if size < 5000 { 0.5 } else { 2.0 };
    let analysis = run(&asked(), 12, 0.02, dearer).analyse();
    let found = effect(&analysis, "writev");
    assert!(found.turns, "{found:?}");
    assert!(found.verdict == Verdict::NotJudged, "{found:?}");
}

#[test]
fn nothing_is_said_where_a_place_has_no_verdict() {
    let mut world = run(&asked(), 12, 0.02, |_| 1.5);
    let cell = world.id("writev", 256);
    world.fail_with_wrong_bytes(3, &cell);
    let analysis = world.analyse();
    let found = effect(&analysis, "writev");
    assert!(found.withheld.is_some(), "{found:?}");
    assert!(found.verdict == Verdict::NotJudged, "{found:?}");
    assert_eq!(effect(&analysis, "sendfile").withheld, None);
}

#[test]
fn equal_ways_have_no_effect_at_the_promised_rate() {
    const RUNS: u64 = 120;
    let study = asked();
    let (mut held, mut alarmed, mut unlike) = (0, 0, 0);
    for seed in 0..RUNS {
        let world = World::new(&study).run(seed, 8, 0.05, |_| True::costs(0.2));
        let effects = world.analyse().main_effects;
        assert_eq!(effects.len(), 3);
        let holds = |e: &&MainEffect| e.low <= 1.0 && e.high >= 1.0;
        held += effects.iter().filter(holds).count();
        let different = |e: &MainEffect| matches!(e.verdict, Verdict::Better | Verdict::Worse);
        alarmed += usize::from(effects.iter().any(different));
        unlike += effects.iter().filter(|e| e.furthest.p < 0.05).count();
    }
    let share = |n: usize, all: u64| n as f64 / all as f64;
    let held = share(held, 3 * RUNS);
    assert!((0.92..=0.98).contains(&held), "{held}");
    assert!(share(alarmed, RUNS) <= 0.05 + 0.060, "{alarmed}");
    assert!(share(unlike, 3 * RUNS) <= 0.05 + 0.035, "{unlike}");
}
