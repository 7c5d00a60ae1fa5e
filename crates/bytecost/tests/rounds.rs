//! Rounds: pauses within a run, and the history that runs of one machine share.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use bytecost_analysis::{Input, Interim};
use bytecost_spec::manifest::RoundNoise;
use bytecost_spec::{Cell, Manifest, units};
use itertools::Itertools as _;
use serde_json::Value;

use crate::common::{self, Place, endpoints_of, says};

/// A run of the same cells as [`THREE`], of as few blocks as there can be.
const SHORT: &str = "run --mover null,send,sendfile --size 4KiB --budget 3s --blocks 6 --window 50ms --warmup 5ms --seed 7";

/// A run of three rounds, with time for all of them on a busy machine.
const THREE: &str = "run --mover null,send,sendfile --size 4KiB --budget 30s --blocks 9 --window 50ms --warmup 5ms --seed 7 --rounds 3 --pause 50ms";

fn rounds_file(place: &Place) -> PathBuf {
    place.state().join("bytecost/rounds.jsonl")
}

fn manifest(run: &Path) -> Manifest {
    let text = fs::read_to_string(run.join("manifest.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The manifest of the newest run.
fn newest(place: &Place) -> Manifest {
    let mut runs = place.all_runs();
    runs.sort_by_key(|run| {
        fs::metadata(run.join("manifest.json"))
            .unwrap()
            .modified()
            .unwrap()
    });
    manifest(runs.last().unwrap())
}

/// A place whose history has three rounds of one run, which is measured once for all tests.
fn with_history() -> Place {
    static HISTORY: OnceLock<String> = OnceLock::new();
    let history = HISTORY.get_or_init(|| {
        let place = Place::new();
        place.call(format!("{THREE} --quiet")).measured();
        fs::read_to_string(rounds_file(&place)).unwrap()
    });
    let place = Place::new();
    let file = rounds_file(&place);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, history).unwrap();
    place
}

fn lines(place: &Place) -> Vec<Value> {
    let text = fs::read_to_string(rounds_file(place)).unwrap();
    text.lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

/// The variances that the next run starts from.
fn next(place: &Place, words: &str) -> RoundNoise {
    place.call(format!("{SHORT} --quiet {words}")).measured();
    newest(place).rounds
}

#[test]
fn a_run_measures_rounds_with_pauses_and_the_next_one_knows_them() {
    let place = Place::new();
    let end = place.call(THREE).measured();
    says(
        &end.stderr,
        &[
            "in 3 rounds with pauses of 50ms",
            "waiting 50ms before round 3 of 3",
        ],
    );
    let run = manifest(&place.run());
    assert_eq!(run.rounds, RoundNoise::ASSUMED);
    assert_eq!(run.round_blocks.len(), 3, "{:?}", run.round_blocks);
    let blocks = place.samples().into_iter().map(|(_, s)| s.trial.block);
    let last = blocks.max().unwrap() + 1;
    let ends = run.round_blocks.iter().skip(1).chain([&last]);
    let sizes: Vec<u32> = ends
        .zip(&run.round_blocks)
        .map(|(next, first)| next - first)
        .collect();
    assert!(sizes.iter().all(|size| *size >= 3), "{sizes:?}");
    // Precision is that within rounds: each block is compared with those of its own.
    let mut until_then = place.samples();
    until_then.retain(|(_, s)| s.trial.block < 7);
    let (of_samples, samples): (Vec<Cell>, Vec<_>) = until_then.into_iter().unzip();
    let cells: Vec<Cell> = of_samples.into_iter().unique().collect();
    let interim = Interim::new(Input::of(&run, &cells, &samples));
    let widest = units::percent(interim.widest.unwrap().half_width);
    let line = end.stderr.lines().rfind(|l| l.starts_with("block 8: "));
    says(line.unwrap(), &[&format!("widest interval ±{widest}")]);
    let kept = lines(&place);
    let numbers: Vec<&Value> = kept.iter().map(|round| &round["round"]).collect();
    assert_eq!(numbers, [0, 1, 2]);
    assert_eq!(kept[0]["run"], run.id);

    let rounds = next(&place, "");
    assert_eq!(rounds.runs, [run.id]);
    let known = rounds.comparisons.first().unwrap();
    assert_eq!((known.rounds, lines(&place).len()), (3, 4));
    assert!(known.between.variance >= 0.0 && known.between.degrees > 0.0);
    let text = place.call("runs").succeeded();
    says(
        &text,
        &[
            "How much ratios differ from run to run on this machine",
            "±",
        ],
    );
}

#[test]
fn rounds_under_another_kernel_and_of_other_windows_are_left_out() {
    let place = with_history();
    let words = SHORT.replace("--window 50ms", "--window 40ms");
    place.call(format!("{words} --quiet")).measured();
    assert_eq!(newest(&place).rounds, RoundNoise::ASSUMED);
    let rounds = fs::read_to_string(rounds_file(&place)).unwrap();
    let kernel = format!("\"kernel\":\"{}\"", newest(&place).host.kernel);
    let older = rounds.replace(&kernel, "\"kernel\":\"2.6.32\"");
    assert_ne!(older, rounds);
    fs::write(rounds_file(&place), older).unwrap();
    assert_eq!(next(&place, ""), RoundNoise::ASSUMED);
}

#[test]
fn without_a_history_nothing_is_read_and_nothing_written() {
    let place = with_history();
    let before = fs::read(rounds_file(&place)).unwrap();
    assert_eq!(next(&place, "--no-history"), RoundNoise::ASSUMED);
    assert_eq!(fs::read(rounds_file(&place)).unwrap(), before);
    let homeless = |command: &mut std::process::Command| {
        command.env_remove("XDG_STATE_HOME").env_remove("HOME");
        common::ended(command).measured().stderr
    };
    let stderr = homeless(&mut place.bytecost(SHORT));
    says(
        &stderr,
        &["note: there is no history of rounds: neither XDG_STATE_HOME nor HOME"],
    );
    assert!(!homeless(&mut place.bytecost(format!("{SHORT} --no-history"))).contains("history"));
}

#[test]
fn a_history_that_cannot_be_used_is_noted_once_and_left_alone() {
    let place = with_history();
    let file = rounds_file(&place);
    let whole = fs::read_to_string(&file).unwrap();
    let check = |says_why: &str| {
        let before = fs::read(&file).unwrap();
        let end = place.call(SHORT).measured();
        let notes = end
            .stderr
            .matches("the history of rounds is not used")
            .count();
        assert_eq!(notes, 1, "{}", end.stderr);
        says(&end.stderr, &[says_why]);
        assert_eq!(fs::read(&file).unwrap(), before);
    };
    fs::write(&file, format!("{whole}{{}}\n")).unwrap();
    // On a busy machine a round in which windows became longer is not kept.
    let line = whole.lines().count() + 1;
    check(&format!("rounds.jsonl, line {line}: no round of a run"));
    assert_eq!(newest(&place).rounds.runs.len(), 1, "good lines count");
    let aside = place.path().join("aside");
    fs::rename(&file, &aside).unwrap();
    symlink(&aside, &file).unwrap();
    check("is no plain file");
    assert_eq!(newest(&place).rounds, RoundNoise::ASSUMED);
    fs::remove_file(&file).unwrap();
    fs::write(&file, whole).unwrap();
    if common::is_root() {
        chown(&file, Some(12_345), None).unwrap();
        check("belongs to user 12345");
        assert_eq!(newest(&place).rounds, RoundNoise::ASSUMED);
    }
}

#[test]
fn the_same_run_gives_the_same_bytes_with_any_history() {
    let place = with_history();
    next(&place, "");
    let id = newest(&place).id;
    let files = ["findings.json", "report.md", "report.html"];
    let read = || files.map(|name| fs::read(place.runs().join(&id).join(name)).unwrap());
    let before = read();
    // Where trials failed on a busy machine, the status is another one, and the report the same.
    let report = || place.call(format!("report {id}")).measured().stdout;
    let screen = report();
    for history in ["", "{}\n"] {
        fs::write(rounds_file(&place), history).unwrap();
        assert_eq!(report(), screen);
        assert_eq!(read(), before);
    }
}

// Invariant 9.
#[test]
fn nothing_runs_in_a_pause_and_a_run_that_ends_in_one_can_be_resumed() {
    let place = Place::new();
    let words = format!("{SHORT} --rounds 2 --pause 1h");
    let mut started = place.start(&mut place.bytecost(words));
    started.until_output("a pause", |_, err| {
        err.contains("waiting 3600s before round 2 of 2")
    });
    let pid = started.pid();
    started.until("the end of the endpoints", || endpoints_of(pid).is_empty());
    let end = started.interrupted();
    says(
        &end.stderr,
        &["interrupted: this is what was measured until then"],
    );
    assert!(manifest(&place.run()).round_blocks.is_empty());
    assert_eq!(lines(&place).len(), 1, "a whole round is kept");

    common::edit(&place.run(), |m| {
        m["study"]["rounds"]["pause_ms"] = 1.into()
    });
    place.call(place.resume("--quiet")).measured();
    let run = manifest(&place.run());
    assert_eq!(run.round_blocks.len(), 2);
    let kept = lines(&place);
    let numbers: Vec<&Value> = kept.iter().map(|round| &round["round"]).collect();
    assert_eq!(numbers, [0, 1], "its own rounds are replaced");
}

#[test]
fn rounds_and_pauses_have_bounds() {
    let place = Place::new();
    place.refuses(
        "run --mover send,sendfile --size 4KiB",
        "--rounds 101 => 1..=100
         --rounds 0 => 1..=100
         --rounds 2 --pause 61m => out of bounds: from 1ms to 3600s
         --rounds 4 --blocks 8 => --rounds 4 needs 12 blocks, 3 a round, and there are 8 at most
         --pause 10s => --rounds <N>",
    );
    let run = Place::with_run();
    run.call(run.resume("--rounds 2"))
        .refused(&["--resume continues the cells of the run"]);
}
