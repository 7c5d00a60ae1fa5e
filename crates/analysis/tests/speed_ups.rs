//! The overview: each pair of the study with its speed-up, or the reason why there is none; and
//! what is said of pinning and of taking turns.

use crate::file_worlds;
use crate::work_worlds;
use crate::world;

use bytecost_analysis::{Analysis, Point, SpeedUp};
use bytecost_spec::Axis;
use bytecost_spec::sample::Sample;
use work_worlds::{STUDY, truth, without_siblings, work};
use world::{World, says};

fn pair<'a>(a: &'a Analysis, title: &str) -> &'a SpeedUp {
    let found = a.speed_ups.iter().find(|s| s.title == title);
    found.unwrap_or_else(|| panic!("no pair `{title}`"))
}

/// Whether every row of a pair holds the truth in its interval, with so many rows.
#[track_caller]
fn check(a: &Analysis, title: &str, rows: usize, truth: f64) {
    let pair = pair(a, title);
    assert_eq!(pair.rows.len(), rows, "{pair:#?}");
    for row in &pair.rows {
        let Point::Measured(e) = &row.point else {
            panic!("{row:#?}");
        };
        // Two in a thousand of such intervals leave their truth out.
        let slack = 1.01;
        let (low, high) = (e.low.unwrap() / slack, e.high.unwrap() * slack);
        assert!(low < truth && truth < high, "{title}: {e:?}");
        assert_eq!(e.trials, 12);
        assert!(!row.cell.is_empty() && row.cell != row.baseline);
    }
}

#[test]
fn each_pair_has_its_speed_up_wherever_both_were_measured() {
    let analysis = work(STUDY, 0, truth(1.25, 2.0, 1.1)).analyse();
    check(&analysis, "Pinned", 2, 1.1);
    check(&analysis, "Two cores", 2, 1.6);
    // Less is faster there: half the CPU time a step would be twice as fast.
    check(&analysis, "Two CPUs", 2, 1.0);
    let titles: Vec<&str> = analysis
        .speed_ups
        .iter()
        .map(|s| s.title.as_str())
        .collect();
    assert_eq!(titles, ["Pinned", "Two cores", "Two CPUs"]);
    let pinned = pair(&analysis, "Pinned");
    assert_eq!(pinned.published, Some(1.005));
    assert_eq!(
        pinned.rows[0].place,
        [(Axis::Mover, "work-integer".to_owned())]
    );
    let told = analysis
        .answers
        .iter()
        .find(|a| a.sentence.contains("Pinned: "));
    let first = &told.unwrap().sentence;
    assert!(
        first.contains("Pinned: 1.0")
            && first.contains("×")
            && first.ends_with("in 2 cells; published 1.00×."),
        "{first}"
    );
    assert_eq!(told.unwrap().findings.len(), 2);
}

#[test]
fn what_is_better_when_less_is_turned_over() {
    let cheap = |cell: &bytecost_spec::Cell| {
        let turns = work_worlds::is_at(cell, bytecost_spec::Nearness::SameCpu);
        work_worlds::done(1.0, if turns { 3.0 } else { 1.0 })
    };
    check(&work(STUDY, 0, cheap).analyse(), "Two CPUs", 2, 3.0);
}

#[test]
fn what_takes_a_file_whole_stands_against_each_block() {
    let pair = "\n[[pair]]\ntitle = \"sendfile\"\nmetric = \"throughput_gbit_per_s\"\naxis = \"mover\"\nvalues = [\"sendfile\"]\nagainst = \"read-write\"\n";
    let study = file_worlds::SENDS
        .replace("cache =", "block = [\"4KiB\", \"64KiB\"]\ncache =")
        .replace(", \"mmap-send\"", "")
        .replace(", \"cold\"", "")
        .replace(", \"256KiB\"", "");
    let truth = |c: &bytecost_spec::Cell| {
        file_worlds::speed(match (c.mover.as_str(), c.block_bytes) {
            ("sendfile", _) => 12.0,
            (_, 4096) => 3.0,
            _ => 6.0,
        })
    };
    let mut world = file_worlds::sends(&(study + pair), truth);
    // As the plan lays it out: sendfile has one block.
    let is_twice = |id: &str| id.contains("/sendfile/") && id.contains("block=4KiB");
    world.samples.retain(|s| !is_twice(&s.cell));
    world.cells.retain(|c| !is_twice(&c.id()));
    for sample in &mut world.samples {
        let at = world.cells.iter().position(|c| c.id() == sample.cell);
        sample.trial.cell = at.unwrap() as u32;
    }
    let analysis = world.analyse();
    let told: Vec<(&str, f64)> = analysis.speed_ups[0]
        .rows
        .iter()
        .map(|row| match &row.point {
            Point::Measured(e) => (row.place[0].1.as_str(), e.value.round()),
            Point::Gap(why) => panic!("{why}"),
        })
        .collect();
    assert_eq!(told, [("64KiB", 2.0), ("4KiB", 4.0)]);
}

/// The only row of a pair, which is a gap, and its reason.
fn gap(world: &World, title: &str) -> String {
    let analysis = world.analyse();
    let rows = &pair(&analysis, title).rows;
    let gaps: Vec<&String> = rows
        .iter()
        .filter_map(|r| match &r.point {
            Point::Gap(why) => Some(why),
            Point::Measured(_) => None,
        })
        .collect();
    assert_eq!(gaps.len(), rows.len(), "{rows:#?}");
    gaps[0].clone()
}

#[test]
fn a_pair_that_cannot_be_had_is_a_gap_with_its_reason() {
    let whole = || work(STUDY, 0, truth(1.25, 2.0, 1.0));
    let hidden = without_siblings(whole());
    assert_eq!(
        gap(&hidden, "Two cores"),
        "placement smt-sibling: no two CPUs are threads of one core"
    );
    // The mark of time-slicing stands beside it all the same.
    check(&hidden.analyse(), "Two CPUs", 2, 1.0);
    let analysis = hidden.analyse();
    let told = |text: &str| analysis.answers.iter().any(|a| a.sentence.contains(text));
    assert!(told("Two cores: not measured here: placement smt-sibling"));

    let mut short = whole();
    let is_late = |s: &Sample| s.trial.block > 1 && s.cell.contains("smt-sibling");
    short.samples.retain(|s| !is_late(s));
    assert_eq!(
        gap(&short, "Two cores"),
        "fewer than three blocks have both"
    );

    let mut dear = whole();
    let is_pinned = |c: &bytecost_spec::Cell| {
        c.threads == 1 && work_worlds::is_at(c, bytecost_spec::Nearness::SameCpu)
    };
    let gone: Vec<String> = (dear.cells.iter().filter(|c| is_pinned(c)))
        .map(|c| c.id())
        .collect();
    for sample in &mut dear.samples {
        if gone.contains(&sample.cell) {
            sample.cell = "elsewhere".to_owned();
        }
    }
    dear.cells.retain(|c| !is_pinned(c));
    dear.left_out = vec![bytecost_analysis::LeftOut {
        what: "pinned".to_owned(),
        cells: 4,
        why: "the budget is short".to_owned(),
    }];
    assert_eq!(gap(&dear, "Pinned"), "left out: the budget is short");
}

#[test]
fn pinning_is_told_alone_and_beside_other_load() {
    let told = |pinned: f64, moves: u64| {
        let analysis = work(STUDY, moves, truth(1.25, 2.0, pinned)).analyse();
        world::question(&analysis, "pinning").unwrap().clone()
    };
    let same = told(1.0, 2);
    let answer = same.answer.clone().unwrap();
    let alike = "`work-integer`: no difference that matters with background load idle and with background load spin@all";
    says(&answer, alike);
    says(&same.evidence[0], "moves of free threads");
    assert_eq!(same.numbers.len(), 2, "{same:?}");
    let faster = told(1.3, 0);
    assert!(
        faster
            .answer
            .unwrap()
            .contains("`work-integer`: better with background load idle")
    );
    assert_eq!(faster.findings.len(), 4);
    let free = STUDY.replace("\"free\", \"same-cpu\"", "\"free\"");
    let analysis = work(&free, 0, truth(1.25, 2.0, 1.0)).analyse();
    let missing = world::question(&analysis, "pinning")
        .unwrap()
        .missing
        .as_ref()
        .unwrap();
    assert!(missing.contains("no pinned work"), "{missing}");
}

#[test]
fn a_shared_core_is_told_from_one_cpu() {
    let told = |world: World| {
        world::question(&world.analyse(), "taking-turns")
            .unwrap()
            .clone()
    };
    for (siblings, cores, says) in [
        (
            1.3,
            2.0,
            &[
                "has the mark of taking turns",
                "which is more: a core is shared",
            ][..],
        ),
        (1.0, 2.0, &["they may as well take turns"]),
    ] {
        let answer = told(work(STUDY, 0, truth(siblings, cores, 1.0)))
            .answer
            .unwrap();
        for word in says {
            assert!(answer.contains(word), "{answer}");
        }
    }
    let unlike = told(work(STUDY, 0, truth(1.3, 1.5, 1.0))).answer.unwrap();
    assert!(!unlike.contains("mark"), "{unlike}");
    let hidden = told(without_siblings(work(STUDY, 0, truth(1.3, 2.0, 1.0))));
    assert!(hidden.evidence[0].contains("no two CPUs are threads"));
    assert!(!hidden.answer.unwrap().contains("siblings of one core"));
    let alone = STUDY.replace("threads = [2]\nplacement", "threads = [1]\nplacement");
    let analysis = work(&alone, 0, truth(1.3, 2.0, 1.0)).analyse();
    assert!(
        analysis
            .explanations
            .iter()
            .all(|e| e.key != "taking-turns")
    );
}
