//! The answer in words: what it says, and that it says no more than the verdicts.

mod world;

use bytecost_analysis::{Analysis, Verdict};
use bytecost_spec::sample::TrialKey;
use bytecost_spec::{Cell, Failure, Refusal};
use world::{STUDY, True, World};

const SIZES: &str = r#"size = ["256", "4KiB", "64KiB", "1MiB"]"#;

/// `sendfile` is dear below 64 KiB and then 1.4 and 1.9 times as cheap; zero-copy is dear and
/// copied.
fn planted(cell: &Cell) -> True {
    let send = 0.2;
    match (cell.mover.as_str(), cell.size_bytes) {
        ("sendfile", ..65_536) => True::costs(1.5 * send),
        ("sendfile", ..=65_536) => True::costs(0.114),
        ("sendfile", _) => True::costs(0.058),
        ("send-zerocopy", _) => True {
            copied: Some(1.0),
            ..True::costs(1.3 * send)
        },
        _ => True::costs(send),
    }
}

fn sentences(analysis: &Analysis) -> Vec<&str> {
    analysis
        .answers
        .iter()
        .map(|a| a.sentence.as_str())
        .collect()
}

#[track_caller]
fn told(analysis: &Analysis, part: &str) {
    let all = sentences(analysis);
    assert!(
        all.iter().any(|s| s.contains(part)),
        "no `{part}` in {all:#?}"
    );
}

#[test]
fn the_headline_says_what_wins_from_where_on() {
    let analysis = World::new(STUDY).run(1, 16, 0.003, planted).analyse();
    let head = &analysis.answers[0];
    let start =
        "Up to 4 KiB nothing beats `send` in CPU time per byte; from 64 KiB `sendfile` is 1.4";
    assert!(head.sentence.starts_with(start), "{}", head.sentence);
    assert!(
        head.sentence.contains("× as cheap (95 % interval 1.3"),
        "{}",
        head.sentence
    );
    assert!(
        head.sentence.contains(" and at 1 MiB 1.9"),
        "{}",
        head.sentence
    );
    for id in &head.findings {
        assert!(analysis.findings.iter().any(|f| f.id == *id), "{id}");
    }
    told(
        &analysis,
        "`writev` against `send` in CPU time per byte: no difference that matters at every size.",
    );
    told(
        &analysis,
        "`send-zerocopy` against `send` in CPU time per byte: costs 1.2",
    );
    told(
        &analysis,
        "`send-zerocopy` is not zero-copy on loopback: the kernel copied 100 % of the buffers.",
    );
    told(
        &analysis,
        "Up to 4 KiB nothing beats `send` in throughput; from 64 KiB `sendfile` reaches 1.7",
    );
    assert!(
        sentences(&analysis)
            .iter()
            .all(|s| !s.contains("not decided"))
    );
}

#[test]
fn nothing_is_claimed_that_was_not_decided() {
    let analysis = World::new(STUDY)
        .run(2, 6, 0.3, |_| True::costs(0.2))
        .analyse();
    assert!(
        analysis
            .findings
            .iter()
            .all(|f| f.verdict == Verdict::NotDecided)
    );
    let head = &analysis.answers[0].sentence;
    let expected = "Nothing was shown to beat `send` in CPU time per byte at any size; 12 of 12 comparisons are not decided.";
    assert_eq!(head, expected);
    told(&analysis, "of 24 comparisons are not decided;");
    told(
        &analysis,
        "`writev`, `send-zerocopy` and `sendfile` against `send` in CPU time per byte at every size: not decided.",
    );
    assert!(
        sentences(&analysis).iter().all(|s| !s.contains("× as")),
        "{:?}",
        sentences(&analysis)
    );
}

#[test]
fn where_all_is_decided_and_nothing_wins_that_is_said() {
    let analysis = World::new(STUDY)
        .run(3, 16, 0.003, |c| {
            True::costs(if c.mover == "send" { 0.2 } else { 0.3 })
        })
        .analyse();
    let head = &analysis.answers[0].sentence;
    assert_eq!(
        head,
        "Nothing beats `send` in CPU time per byte at any size."
    );
}

#[test]
fn ranges_are_merged_and_interrupted_where_the_winner_changes() {
    let sizes = r#"size = ["1KiB", "4KiB", "16KiB", "64KiB", "256KiB", "1MiB"]"#;
    let study = STUDY.replace(SIZES, sizes);
    let analysis = World::new(&study)
        .run(4, 16, 0.003, |c| {
            True::costs(match (c.mover.as_str(), c.size_bytes >> 10) {
                ("writev", 1 | 4) => 0.1,
                ("sendfile", 64..) => 0.05,
                _ => 0.2,
            })
        })
        .analyse();
    let all = sentences(&analysis);
    assert!(all[0].starts_with("Up to 4 KiB `writev` is 1.5"), "{all:?}");
    assert!(
        all[0].contains("; at 16 KiB nothing beats `send`"),
        "{all:?}"
    );
    told(&analysis, "rom 64 KiB `sendfile` is 2.0");
    told(
        &analysis,
        "`sendfile` against `send` in CPU time per byte: no difference that matters up to 16 KiB, 2.0",
    );
}

#[test]
fn movers_that_cannot_be_told_apart_share_the_range() {
    let analysis = World::new(STUDY)
        .run(5, 12, 0.01, |c| {
            let cheap = matches!(c.mover.as_str(), "sendfile" | "writev");
            True::costs(if cheap { 0.05 } else { 0.2 })
        })
        .analyse();
    let all = sentences(&analysis);
    assert!(all[0].starts_with("At every size `"), "{all:?}");
    told(&analysis, "does about as well as");
}

#[test]
fn other_groups_are_told_after_the_first_and_say_where_they_are() {
    let study = STUDY.replace(
        "mover = [",
        "transport = [\"loopback\", \"unix\"]\nmover = [",
    );
    let analysis = World::new(&study).run(6, 12, 0.003, planted).analyse();
    let all = sentences(&analysis);
    assert!(
        all[0].starts_with("Over loopback: up to 4 KiB nothing beats `send`"),
        "{all:?}"
    );
    assert!(
        all[1].starts_with("Over unix: up to 4 KiB nothing beats `send`"),
        "{all:?}"
    );
}

#[test]
fn without_a_range_there_is_no_where() {
    let study = STUDY.replace(SIZES, r#"size = ["64KiB"]"#);
    let analysis = World::new(&study).run(7, 12, 0.003, planted).analyse();
    let head = &analysis.answers[0].sentence;
    assert!(head.starts_with("`sendfile` is 1.4"), "{head}");
}

#[test]
fn sentences_are_short_and_end() {
    for (seed, noise) in [(8, 0.003), (9, 0.03), (10, 0.1), (11, 0.5)] {
        let analysis = World::new(STUDY).run(seed, 9, noise, planted).analyse();
        let findings = analysis.findings.iter().map(|f| f.sentence.as_str());
        for sentence in sentences(&analysis).into_iter().chain(findings) {
            assert!(sentence.chars().count() <= 215, "{sentence}");
            assert!(
                sentence.ends_with('.') && !sentence.contains("  "),
                "{sentence}"
            );
        }
    }
}

#[test]
fn a_finding_says_itself_in_one_sentence() {
    let analysis = World::new(STUDY).run(12, 16, 0.003, planted).analyse();
    let check = |part: &str, verdict: Verdict| {
        let found = analysis.findings.iter().find(|f| f.sentence.contains(part));
        let sentences: Vec<&str> = analysis
            .findings
            .iter()
            .map(|f| f.sentence.as_str())
            .collect();
        assert_eq!(
            found.map(|f| f.verdict),
            Some(verdict),
            "{part}: {sentences:#?}"
        );
    };
    check(
        "as cheap as `send` in CPU time per byte at 64 KiB (95 % interval 1.4",
        Verdict::Better,
    );
    check("`send-zerocopy` costs 1.2", Verdict::Worse);
    check(
        "`writev` and `send` differ by less than 3 % in throughput at 1 MiB (95 % interval",
        Verdict::NoDifferenceThatMatters,
    );
    check("`sendfile` reaches 3.4", Verdict::Better);
}

#[test]
fn where_nothing_was_measured_or_compared_the_reason_is_the_answer() {
    let check = |world: &World, expected: &str| {
        let analysis = world.analyse();
        assert_eq!(analysis.answers[0].sentence, expected);
    };
    let mut world = World::new(STUDY);
    check(&world, "Nothing was measured: no trial was run.");
    world.ended_early = Some("Ctrl-C".to_owned());
    check(&world, "Nothing was measured: Ctrl-C.");
    world.failures.push(Failure {
        trial: TrialKey {
            block: 0,
            cell: 0,
            attempt: 0,
        },
        cell: world.cells[0].id(),
        started_ms: 0,
        reason: "the port is in use".to_owned(),
    });
    check(
        &world,
        "Nothing was measured: every trial failed, the first with: the port is in use.",
    );

    let mut refused = World::new(STUDY);
    refused.refusals = vec![Refusal {
        what: refused.cells[0].id(),
        why: "no sockets".to_owned(),
    }];
    refused.cells.clear();
    check(
        &refused,
        "Nothing was measured: no cell of the study can be had here; the refusals say why.",
    );

    let early = World::new(STUDY).run(13, 2, 0.01, planted);
    check(
        &early,
        "Nothing can be compared yet: the run has 2 blocks, a comparison takes 3.",
    );

    let mut alone = World::new(STUDY);
    alone.cells.retain(|c| c.mover == "send");
    let alone = alone.run(14, 6, 0.01, planted);
    check(&alone, "Nothing was compared: `send` alone was measured.");
    assert!(
        alone.analyse().answers[1]
            .sentence
            .starts_with("`send` at 256 B: CPU time per byte 0.3")
    );

    let mut headless = World::new(STUDY);
    headless.cells.retain(|c| c.mover != "send");
    let headless = headless.run(15, 6, 0.01, planted);
    check(
        &headless,
        "Nothing can be compared: the baseline `send` has no trial.",
    );

    let mut plain = World::new(STUDY);
    plain.manifest.study.compare.clear();
    let plain = plain.run(16, 6, 0.01, planted);
    check(
        &plain,
        "The study compares nothing; the numbers of its cells stand by themselves.",
    );
}

#[test]
fn a_headline_does_not_promise_the_first_gain_further_on() {
    let fading = |cell: &Cell| {
        True::costs(match (cell.mover.as_str(), cell.size_bytes) {
            ("sendfile", 65_536) => 0.05,
            ("sendfile", 1_048_576) => 0.14,
            _ => 0.2,
        })
    };
    let analysis = World::new(STUDY).run(1, 16, 0.003, fading).analyse();
    let head = &analysis.answers[0].sentence;
    assert!(head.contains("from 64 KiB `sendfile` is 1.9"), "{head}");
    assert!(head.contains(" and at 1 MiB 1.2"), "{head}");
}
