//! The advice: what is used where, by one rule, and that its words say no more than the verdicts.

use bytecost_analysis::{Finding, Situation, Subject, UndecidedOf};
use bytecost_spec::survey::{Condition, MoverFacts, Release, Route};
use bytecost_spec::{Axis, Cell, RefusedCell};

use crate::world::{STUDY, True, World, facts, one, row, says};

const SIZES: [&str; 4] = ["256", "4KiB", "64KiB", "1MiB"];

/// `sendfile` is dear below 64 KiB and then 1.4 and 1.9 times as cheap; zero-copy is dear and
/// copied.
fn planted(cell: &Cell) -> True {
    let send = 0.2;
    match (cell.mover.as_str(), cell.size_bytes) {
        ("sendfile", ..65_536) => True::costs(1.5 * send),
        ("sendfile", ..=65_536) => True::costs(0.114),
        ("sendfile", _) => True::costs(0.058),
        ("send-zerocopy", _) => True::costs(1.3 * send).copied(Some(1.0)),
        _ => True::costs(send),
    }
}

fn used(situation: &Situation) -> Vec<(&str, Vec<&str>)> {
    let mut used = Vec::new();
    for way in &situation.uses {
        let is_for = |size: &&str| way.at.iter().any(|at| at == size);
        let sizes = SIZES.into_iter().filter(is_for).collect();
        used.push((way.value.word(), sizes));
    }
    used
}

fn with_facts(study: &str, rows: Vec<MoverFacts>) -> World {
    let mut world = World::new(study);
    world.manifest.survey.mover_facts.extend(rows);
    world
}

#[test]
fn nothing_is_claimed_that_was_not_decided() {
    let alike = |_: &Cell| True::costs(0.2);
    let analysis = World::new(STUDY).run(2, 8, 0.3, alike).analyse();
    let situation = &analysis.advice.situations[0];
    assert!(situation.uses.is_empty(), "nothing is decided");
    assert!(situation.avoid.is_empty() && situation.conditional.is_empty());
    let undecided = analysis.advice.undecided.as_ref().unwrap();
    let is_open = |of: &UndecidedOf| of.undecided == of.comparisons;
    assert!(undecided.by_family.iter().all(is_open), "{undecided:?}");
    let comparisons: usize = undecided.by_family.iter().map(|own| own.comparisons).sum();
    assert_eq!((comparisons, undecided.withheld), (24, 0));
    // One that is withheld is no reason for the others.
    let mut world = World::new(STUDY).run(2, 8, 0.3, alike);
    world.fail(0, &world.id("sendfile", 256), "wrong content at byte 7");
    let open = world.analyse().advice.situations[0].open.clone().unwrap();
    assert!(open.withheld.is_empty() && open.blocks.is_some());
}

#[test]
fn a_way_with_a_condition_is_never_first_and_never_without_it() {
    let rows = vec![
        facts("sendfile", Release::Never, true),
        facts("writev", Release::AtReturn, true),
    ];
    let world = with_facts(STUDY, rows).run(1, 16, 0.003, planted);
    let advice = world.analyse().advice;
    let situation = &advice.situations[0];
    assert_eq!(used(situation), [("send", SIZES.to_vec())]);
    let conditional = one(&situation.conditional);
    assert_eq!(conditional.conditions, [Condition::NeverWrittenAgain]);
    assert_eq!(conditional.gain.points.len(), 2);
}

#[test]
fn a_way_with_an_axis_of_its_own_is_one_of_the_ways_of_its_part_of_the_study() {
    let rows = ["send", "writev", "sendfile"].map(|name| facts(name, Release::AtReturn, true));
    let plain = with_facts(STUDY, rows.to_vec()).run(1, 16, 0.003, planted);
    let plain = plain.analyse();
    let study = STUDY.replacen("mover =", "reaping = [\"one-look\"]\nmover =", 1);
    let mut world = with_facts(&study, rows.to_vec());
    for cell in &mut world.cells {
        // The others have no completions to wait for.
        if cell.mover != "send-zerocopy" {
            cell.set(Axis::Reaping, "full").unwrap();
        }
    }
    let analysis = world.run(1, 16, 0.003, planted).analyse();
    let [found, expected] = [&analysis, &plain].map(|a| {
        let values = |s: &Situation| (s.subject as u8, s.values.clone());
        a.advice.situations.iter().map(values).collect::<Vec<_>>()
    });
    assert_eq!(found, expected);
}

#[test]
fn data_in_a_file_is_compared_with_reading_and_sending_it() {
    let study = STUDY.replace("\"writev\"", "\"read-write\"")
        + r#"
[[compare]]
axis = "mover"
baseline = "read-write"
values = ["sendfile"]
metrics = ["cpu_s_per_gb"]
"#;
    let rows = vec![
        MoverFacts {
            release: Release::Never,
            ..row("sendfile", Route::FileToSocket)
        },
        row("read-write", Route::FileToSocket),
    ];
    let costs = |cell: &Cell| match cell.mover.as_str() {
        "read-write" => True::costs(0.4),
        "sendfile" => True::costs(0.28),
        _ => True::costs(0.2),
    };
    let world = with_facts(&study, rows).run(4, 16, 0.003, costs);
    let analysis = world.analyse();
    let all = &analysis.advice.situations;
    let of = |subject| {
        let own: Vec<_> = all.iter().filter(|s| s.subject == subject).collect();
        *one(&own)
    };
    let memory = of(Subject::DataInMemory);
    assert_eq!(used(memory), [("send", SIZES.to_vec())]);
    let file = of(Subject::DataInFile);
    assert_eq!(file.baseline, "read-write");
    assert!(!file.baseline_is_apart);
    assert_eq!(used(file), [("sendfile", SIZES.to_vec())]);
    // The part of the comparison that the study names, and no more.
    let own = |f: &&Finding| f.baseline_value == "read-write";
    let mut own = analysis.findings.iter().filter(own);
    assert!(own.all(|f| f.value == "sendfile"));
}

#[test]
fn the_ways_that_may_be_the_best_are_all_but_those_shown_to_be_worse_than_one() {
    let world = World::new(STUDY).run(1, 16, 0.003, planted);
    let analysis = world.analyse();
    let situations = &analysis.advice.situations;
    let best: Vec<&String> = situations.iter().flat_map(|s| &s.may_be_best).collect();
    for (mover, size, may_be_best) in [
        ("send", 256, true),
        ("writev", 256, true),
        ("sendfile", 256, false),
        ("send-zerocopy", 256, false),
        ("sendfile", 1 << 20, true),
        ("send", 1 << 20, false),
    ] {
        let is_in = best.contains(&&world.id(mover, size));
        assert_eq!(is_in, may_be_best, "{mover} {size} {best:?}");
    }
}

#[test]
fn a_path_that_all_share_is_in_no_line_but_for_the_reason_of_a_cost() {
    let world = World::new(STUDY).run(1, 16, 0.003, planted);
    let mut advice = world.analyse().advice;
    let path = (Axis::Transport, "loopback".into());
    assert_eq!(advice.shared_place(), [path]);
    advice.situations[0].place.clear();
    assert_eq!(advice.shared_place(), []);
}

#[test]
fn a_withheld_baseline_gives_no_advice() {
    let mut all_wrong = World::new(STUDY).run(6, 16, 0.003, planted);
    for size_bytes in [256, 4096, 65_536, 1 << 20] {
        let cell = all_wrong.id("send", size_bytes);
        all_wrong.fail(0, &cell, "wrong content at byte 7");
    }
    let analysis = all_wrong.analyse();
    // Content that is wrong withholds all.
    assert!(analysis.findings.iter().all(|f| f.withheld.is_some()));
    let situation = &analysis.advice.situations[0];
    assert_eq!((situation.uses.len(), situation.avoid.len()), (0, 0));
    assert_eq!(situation.withheld.len(), SIZES.len());
    let open = situation.open.as_ref().unwrap();
    assert_eq!(open.withheld, ["many-failed-trials"]);
    let mut one_wrong = World::new(STUDY).run(6, 16, 0.003, planted);
    one_wrong.fail(0, &one_wrong.id("send", 4096), "wrong content at byte 7");
    let advice = one_wrong.analyse().advice;
    assert!(advice.situations[0].undecided.is_empty());
    assert_eq!(advice.situations[0].withheld, ["4KiB"]);
}

#[test]
fn every_number_of_the_advice_is_a_decided_finding() {
    for seed in [1, 2, 3] {
        let analysis = World::new(STUDY).run(seed, 12, 0.05, planted).analyse();
        let decided = |number: usize| {
            let finding = &analysis.findings[number];
            finding.is_apart() && finding.withheld.is_none()
        };
        for situation in &analysis.advice.situations {
            let gains = situation.uses.iter().filter_map(|u| u.gain.as_ref());
            let conditional = situation.conditional.iter().map(|c| &c.gain);
            let worse = situation.avoid.iter().map(|avoid| &avoid.cost);
            let ranges = gains.chain(conditional).chain(worse);
            let mut points = ranges.flat_map(|range| &range.points);
            assert!(points.all(|p| decided(p.finding)), "{situation:?}");
        }
    }
}

#[test]
fn where_nothing_was_measured_or_compared_the_reason_is_the_answer() {
    let check = |world: &World, expected: &str| {
        let report = bytecost_report::markdown(&world.analyse());
        says(report, [expected.trim_end_matches('.')]);
    };
    let mut unmeasured = World::new(STUDY);
    check(&unmeasured, "Nothing was measured: no trial was run.");
    unmeasured.ended_early = Some("Ctrl-C".to_owned());
    check(&unmeasured, "Nothing was measured: Ctrl-C.");
    let first = unmeasured.cells[0].id();
    unmeasured.fail(0, &first, "the port is in use");
    let every_failure =
        "Nothing was measured: every trial failed, the first with: the port is in use.";
    check(&unmeasured, every_failure);

    let mut refused = World::new(STUDY);
    refused.refused = vec![RefusedCell {
        cell: refused.cells[0].clone(),
        why: "no sockets".to_owned(),
    }];
    refused.cells.clear();
    let none_available = "Nothing was measured: no cell of the study is available on this machine; the refusals say why.";
    check(&refused, none_available);

    let early = World::new(STUDY).run(13, 2, 0.01, planted);
    let few_blocks = "Nothing can be compared yet: the run has 2 blocks, a comparison takes 3.";
    check(&early, few_blocks);

    let of = |is_kept: fn(&Cell) -> bool| {
        let mut world = World::new(STUDY);
        world.cells.retain(is_kept);
        world.run(14, 6, 0.01, planted)
    };
    let alone = of(|c| c.mover == "send");
    check(&alone, "Nothing was compared: `send` alone was measured.");
    let no_baseline = "Nothing can be compared: the baseline `send` has no trial.";
    check(&of(|c| c.mover != "send"), no_baseline);

    let mut plain = of(|_| true);
    plain.manifest.study.compare.clear();
    let nothing_compared =
        "The study compares nothing; the numbers of its cells stand by themselves.";
    check(&plain, nothing_compared);
}
