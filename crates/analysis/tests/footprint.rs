//! Data displaced from the caches, from rounds whose truth is known.

use bytecost_analysis::{Analysis, NoValue, Ruling};
use bytecost_spec::Cell;
use bytecost_spec::evidence::{
    Calibration, Footprint, LevelProbe, Means, ProbeRound, TrialEvidence,
};

use crate::judge;
use crate::world::{self, True, World, begins, says};

/// Ticks of a line that is there, and of one that is not.
const HIT: f64 = 30.0;
const MISS: f64 = 50.0;
const LINES: u32 = 128;

/// The data that a cell displaces from a cache, as a share of the set, round by round.
fn probe(level: u32, displaced: &[f64]) -> LevelProbe {
    let ticks = |share: f64| (f64::from(LINES) * (HIT + share * (MISS - HIT))) as u64;
    LevelProbe {
        level,
        size_bytes: 32 << (10 * level),
        primed_bytes: 16 << 10,
        lines: LINES,
        calibration: Calibration {
            most_ticks: 60,
            // One round of each was disturbed.
            hit_ticks: vec![ticks(0.0), ticks(0.9), ticks(0.0)],
            miss_ticks: vec![ticks(1.0), ticks(1.0), ticks(0.4)],
            refused: None,
        },
        rounds: displaced
            .iter()
            .map(|share| ProbeRound {
                messages: 4,
                bytes: 16 << 10,
                ticks: ticks(*share),
                idle_ticks: ticks(0.01),
            })
            .collect(),
    }
}

fn evidence(world: &World, cell: usize, levels: Vec<LevelProbe>) -> TrialEvidence {
    TrialEvidence {
        sent_messages: 16,
        footprint: Some(Footprint { levels }),
        ..world.evidence_of(cell)
    }
}

/// `send` and `send-zerocopy` at one size, each with what it displaces from two caches.
fn world(of: impl Fn(&Cell) -> [f64; 2]) -> World {
    let axes = "mover = [\"send\", \"send-zerocopy\"]\nsize = [\"64KiB\"]";
    let mut world = World::new(&world::study_of(axes)).run(1, 8, 0.003, |_| True::costs(0.2));
    world.ask(&[Means::Footprint]);
    for cell in 0..world.cells.len() {
        let shares = of(&world.cells[cell]);
        let rounds = |share: f64| [-0.01, 0.0, 0.01, 0.0, -0.01, 0.01, 0.0].map(|d| share + d);
        let levels = [1, 2].map(|l| probe(l, &rounds(shares[l as usize - 1])));
        let found = evidence(&world, cell, levels.to_vec());
        world.evidence.push(found);
    }
    world
}

fn kib(analysis: &Analysis, mover: &str, level: usize) -> f64 {
    let mut footprints = analysis.footprints.iter();
    let own = footprints.find(|f| f.cell.contains(&format!("/{mover}/")));
    let level = &own.unwrap().levels[level];
    level.displaced_kib.as_ref().unwrap().value
}

fn levels(world: &mut World) -> impl Iterator<Item = &mut LevelProbe> {
    let footprints = world.evidence.iter_mut().flat_map(|e| &mut e.footprint);
    footprints.flat_map(|f| &mut f.levels)
}

fn question(analysis: &Analysis) -> bytecost_report::ExplanationText {
    world::question(analysis, "cache-level").expect("a question")
}

fn copying(cell: &Cell) -> bool {
    cell.mover == "send"
}

#[test]
fn what_was_displaced_comes_out_as_it_was_put_in() {
    let analysis = world(|c| if copying(c) { [1.0, 0.5] } else { [0.25, 0.0] }).analyse();
    for (mover, level, expected) in [
        ("send", 0, 16.0),
        ("send", 1, 8.0),
        ("send-zerocopy", 0, 4.0),
        ("send-zerocopy", 1, 0.0),
    ] {
        let found = kib(&analysis, mover, level);
        assert!((found - expected).abs() < 0.2, "{mover} {level}: {found}");
    }
    let level = &analysis.footprints[0].levels[0];
    assert_eq!((level.hit_ticks, level.miss_ticks), (HIT, MISS));
    assert!(level.idle_kib.as_ref().unwrap().value < 0.2);
    assert_eq!(level.moved_bytes, 16 << 10);
}

#[test]
fn the_level_that_gains_most_is_reported_without_counters_and_as_what_it_is() {
    let analysis = world(|c| if copying(c) { [1.0, 0.8] } else { [0.9, 0.2] }).analyse();
    let asked = question(&analysis);
    let gain = asked.answer.as_deref().expect("an answer");
    let start = "The L2 cache, by timing and without counters: `send-zerocopy` displaces 0.25×";
    begins(gain, start);
    assert_eq!(asked.numbers.len(), 2, "{asked:#?}");
    let row = "by timing, L1 cache, 16 KiB primed of 32 KiB: 0.90×";
    begins(&asked.numbers[0], row);
    begins(&asked.evidence[0], "prime and probe");

    let none = world(|_| [0.9, 0.9]).analyse();
    let answer = question(&none).answer.expect("an answer");
    begins(answer, "None was shown to gain, by timing");
}

#[test]
fn what_was_not_probed_or_cannot_be_distinguished_is_reported_with_its_reason() {
    let mut refused = world(|_| [0.9, 0.9]);
    let alike = "its hits look like its misses";
    for level in levels(&mut refused) {
        level.calibration.refused = Some(alike.to_owned());
        level.rounds.clear();
    }
    let of_refused = refused.analyse();
    let unreadable = &of_refused.footprints[0].levels[1];
    let recorded = NoValue::Recorded(alike.to_owned());
    assert_eq!(unreadable.missing, Some(recorded));
    assert!(unreadable.displaced_kib.is_none());
    let no_hits = question(&of_refused).missing.unwrap_or_default();
    says(no_hits, ["hits cannot be told from misses"]);

    // Others use the cache as much as the cell does.
    let mut shared = world(|c| if copying(c) { [1.0, 0.8] } else { [0.9, 0.2] });
    for level in levels(&mut shared) {
        level.rounds.iter_mut().for_each(|r| r.idle_ticks = r.ticks);
    }
    let of_shared = shared.analyse();
    assert!(question(&of_shared).answer.is_none());
    let rows = &question(&of_shared).numbers;
    says(&rows[0], ["hardly more from it than goes"]);

    let mut few = world(|_| [0.9, 0.9]);
    levels(&mut few).take(1).for_each(|l| l.rounds.truncate(2));
    let level = few.analyse().footprints[0].levels[0].clone();
    let why = NoValue::FewRounds {
        ended: 2,
        needed: 3,
    };
    assert_eq!(level.missing, Some(why));

    let mut unasked = world(|_| [0.9, 0.9]);
    unasked.evidence.clear();
    unasked.manifest.evidence.clear();
    let analysis = unasked.analyse();
    assert!(analysis.footprints.is_empty());
    let missing = question(&analysis).missing.unwrap_or_default();
    assert!(missing.contains("--evidence footprint finds"), "{missing}");
}

#[test]
fn a_claim_about_cache_levels_is_settled_by_timing_where_nothing_counts() {
    let claim = judge::test(
        "kind = \"counter\"\nmetrics = [\"l1d_load_misses_per_kib\", \"llc_load_misses_per_kib\"]\naxis = \"mover\"\nvalue = \"send-zerocopy\"\nagainst = \"send\"\n",
    );
    let near = world(|c| if copying(c) { [1.0, 0.8] } else { [0.2, 0.7] });
    let far = world(|c| if copying(c) { [1.0, 0.8] } else { [0.9, 0.2] });
    for (world, ruling) in [(near, Ruling::Confirmed), (far, Ruling::Refuted)] {
        let audited = judge::judged(&world, &claim);
        assert_eq!(audited.ruling, ruling, "{audited:#?}");
        says(&audited.because, ["found by timing (prime and probe)"]);
    }
}
