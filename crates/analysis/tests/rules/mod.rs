//! What tests of caveats share: small runs, and what is found in them.
#![allow(dead_code)] // each test file uses a part of it

use bytecost_analysis::Caveat;
use bytecost_spec::survey::Release;
use bytecost_spec::{Cell, Counter, Reading, Readings};

use crate::world::{STUDY, True, World, facts, one};

/// A study of these axes in place of the usual ones.
pub fn study(axes: &str) -> String {
    let start = STUDY.find("mover = [").expect("axes");
    let end = STUDY.find("\n\n[[compare]]").expect("a comparison");
    STUDY.replace(&STUDY[start..end], axes)
}

pub const MOVERS: &str = r#"mover = ["send", "send-zerocopy", "sendfile"]
size = ["4KiB", "64KiB"]"#;

pub fn quiet() -> World {
    run(MOVERS, |_| True::costs(0.2))
}

pub fn run(axes: &str, truth: impl Fn(&Cell) -> True) -> World {
    let mut world = World::new(&study(axes)).run(1, 12, 0.003, truth);
    let sendfile = facts("sendfile", Release::Never, true);
    world.manifest.survey.mover_facts.push(sendfile);
    world
}

pub fn put(readings: &mut Readings, counter: Counter, value: u64) {
    readings.insert(counter, Reading::Measured(value));
}

pub fn found(world: &World, kind: &str) -> Vec<Caveat> {
    let caveats = world.analyse().caveats;
    caveats.into_iter().filter(|d| d.kind == kind).collect()
}

/// The caveat arises once, touches so many cells, and its evidence says this.
#[track_caller]
pub fn fires(world: &World, kind: &str, cells: usize, evidence: &str) -> Caveat {
    let found = found(world, kind);
    let caveat = one(&found);
    assert_eq!(caveat.cells.len(), cells, "{caveat:#?}");
    assert!(caveat.evidence.contains(evidence), "{caveat:#?}");
    caveat.clone()
}

#[track_caller]
pub fn silent(world: &World, kind: &str) {
    let found = found(world, kind);
    assert!(found.is_empty(), "{found:#?}");
}
