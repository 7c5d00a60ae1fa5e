//! The overview: each pair's speed-up, or why there is none; and what is said of pinning and turns.

use bytecost_analysis::{Analysis, Gap, Point, SpeedUp};
use bytecost_spec::sample::Sample;
use bytecost_spec::{Axis, Cell, Nearness};

use crate::file_worlds;
use crate::work_worlds::{self, STUDY, is_at, truth, work};
use crate::world::{self, World, missing, says};

fn pair<'a>(a: &'a Analysis, title: &str) -> &'a SpeedUp {
    let found = a.speed_ups.iter().find(|s| s.title == title);
    found.unwrap_or_else(|| panic!("no pair `{title}`"))
}

/// Asserts that every row of a pair holds the truth in its interval, with so many rows.
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
    let titles = analysis.speed_ups.iter().map(|s| s.title.as_str());
    let expected = ["Pinned", "Two cores", "Two CPUs"];
    assert_eq!(titles.collect::<Vec<_>>(), expected);
    let pinned = pair(&analysis, "Pinned");
    assert_eq!(pinned.published, Some(1.005));
    let place = [(Axis::Mover, "work-integer".into())];
    assert_eq!(pinned.rows[0].place, place);
}

#[test]
fn what_is_better_when_less_is_turned_over() {
    let cheap = |cell: &Cell| {
        let turns = is_at(cell, Nearness::SameCpu);
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
    let truth = |c: &Cell| {
        file_worlds::speed(match (c.mover.as_str(), c.block_bytes) {
            ("sendfile", _) => 12.0,
            (_, 4096) => 3.0,
            _ => 6.0,
        })
    };
    let mut world = file_worlds::sends(&(study + pair), truth);
    // As the plan lays it out: sendfile has one block.
    world.keep(|c| c.mover != "sendfile" || c.block_bytes != 4096);
    let analysis = world.analyse();
    let factors = analysis.speed_ups[0].rows.iter().map(|row| {
        let Point::Measured(e) = &row.point else {
            panic!("{row:#?}");
        };
        (row.place[0].1.to_string(), e.value.round())
    });
    assert_eq!(
        factors.collect::<Vec<(String, f64)>>(),
        [("64KiB".to_owned(), 2.0), ("4KiB".to_owned(), 4.0)]
    );
}

#[test]
fn a_pair_that_is_not_available_is_a_gap_with_its_reason() {
    let mut short = work(STUDY, 0, truth(1.25, 2.0, 1.0));
    let is_late = |s: &Sample| s.trial.block > 1 && s.cell.contains("smt-sibling");
    short.samples.retain(|s| !is_late(s));
    let analysis = short.analyse();
    let rows = pair(&analysis, "Two cores").rows.iter();
    let gap = Point::Gap(Gap::FewBlocks);
    assert_eq!(rows.map(|row| &row.point).collect::<Vec<_>>(), [&gap; 2]);
}

#[test]
fn whether_pinning_matters_needs_pinned_work() {
    let free = STUDY.replace("\"free\", \"same-cpu\"", "\"free\"");
    let analysis = work(&free, 0, truth(1.25, 2.0, 1.0)).analyse();
    missing(&analysis, "pinning", &["no pinned work"]);
}

#[test]
fn a_shared_core_and_one_cpu_have_different_answers() {
    let taking_turns = |world: World| {
        let analysis = world.analyse();
        world::question(&analysis, "taking-turns").unwrap()
    };
    let mark = "has the mark of taking turns";
    let more = "which is more: a core is shared";
    for (siblings, cores, words) in [
        (1.3, 2.0, &[mark, more][..]),
        (1.0, 2.0, &["they may as well take turns"]),
    ] {
        let found = taking_turns(work(STUDY, 0, truth(siblings, cores, 1.0)));
        says(found.answer.unwrap(), words);
    }
    let unlike = taking_turns(work(STUDY, 0, truth(1.3, 1.5, 1.0)));
    let answer = unlike.answer.unwrap();
    assert!(!answer.contains("mark"), "{answer}");
    let alone = STUDY.replace("threads = [2]\nplacement", "threads = [1]\nplacement");
    let analysis = work(&alone, 0, truth(1.3, 2.0, 1.0)).analyse();
    assert_eq!(world::question(&analysis, "taking-turns"), None);
}
