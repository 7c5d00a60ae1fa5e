//! Runs of several legs, and runs whose log is not whole.

use crate::world;

use bytecost_analysis::Caveat;
use bytecost_spec::manifest::{Difference, Leg};
use bytecost_spec::{Counter, Reading, Sample};
use world::{STUDY, True, World};

fn found(world: &World, kind: &str) -> Vec<Caveat> {
    let caveats = world.analyse().caveats;
    caveats.into_iter().filter(|d| d.kind == kind).collect()
}

/// The caveat arises once, touches so many cells, and its evidence says this.
#[track_caller]
fn fires(world: &World, kind: &str, cells: usize, evidence: &str) -> Caveat {
    let mut found = found(world, kind);
    assert_eq!(found.len(), 1, "{found:#?}");
    let caveat = found.remove(0);
    assert_eq!(caveat.cells.len(), cells, "{caveat:#?}");
    assert!(caveat.evidence.contains(evidence), "{caveat:#?}");
    caveat
}

#[track_caller]
fn silent(world: &World, kind: &str) {
    let found = found(world, kind);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn legs_are_told_and_drift_is_looked_for_within_them() {
    let drifts = |s: &mut Sample, factor: f64| {
        let reading = s.sender.readings.get_mut(&Counter::CpuNs).unwrap();
        let ns = reading.measured().unwrap() as f64;
        *reading = Reading::Measured((ns * factor) as u64);
    };
    let mut world = World::new(STUDY).run(1, 20, 0.003, |_| True::costs(0.2));
    // The second half costs twice as much: a trend over all, and none within either leg.
    world.change(
        |_| true,
        |s| drifts(s, if s.trial.block < 10 { 1.0 } else { 2.0 }),
    );
    assert!(!found(&world, "drift").is_empty());
    silent(&world, "several-legs");
    let ratios =
        |world: &World| -> Vec<f64> { world.analyse().findings.iter().map(|f| f.ratio).collect() };
    let before = ratios(&world);
    world.manifest.legs.push(Leg {
        first_block: 10,
        started: world.manifest.started.clone(),
        bytecost_version: "0.1.0".to_owned(),
        build_id: None,
        host: world.manifest.host.clone(),
        differences: vec![Difference {
            what: "kernel".to_owned(),
            was: "6.1".to_owned(),
            is: "6.2".to_owned(),
        }],
    });
    silent(&world, "drift");
    fires(
        &world,
        "several-legs",
        20,
        "leg 2 from block 10: kernel was 6.1, is 6.2",
    );
    assert_eq!(
        ratios(&world),
        before,
        "pairs are of one block, and so of one leg"
    );
    // A leg that measured nothing yet says nothing.
    world.samples.retain(|s| s.trial.block < 10);
    silent(&world, "several-legs");
}

#[test]
fn a_log_that_lost_records_is_told() {
    let mut world = World::new(STUDY).run(1, 12, 0.003, |_| True::costs(0.2));
    silent(&world, "missing-trials");
    world.damage = Some("5 of its 9 records are missing".to_owned());
    let caveat = fires(&world, "missing-trials", 0, "5 of its 9 records");
    assert!(
        caveat.remedy.ends_with("--resume quiet-otter"),
        "{}",
        caveat.remedy
    );
}
