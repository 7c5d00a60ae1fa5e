//! `truth`: whether reports keep what they promise: of equal cells no difference, and of a planted
//! one as often as they say. Its bytecost is built with the movers of the feature `planted`.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use bytecost_spec::units;
use bytecost_stats::{at_least, mean, power, smallest_detectable};
use serde_json::Value;

use crate::bench::{Bench, Context, Found, Told};
use crate::result::{Row, Target};

pub const BENCH: Bench = Bench {
    name: "truth",
    question: "Do reports of equal cells raise few alarms, and do those of a planted 5 % find it as often as they promise?",
    target: "at most 4 of 40 reports with a false alarm; the promised power within the interval of what was found",
    by_name_alone: true,
    run,
};

/// The kinds of runs: name and study.
const KINDS: [(&str, &str); 2] = [
    ("equal", include_str!("../studies/truth-equal.toml")),
    ("planted", include_str!("../studies/truth-planted.toml")),
];
/// The mover that does more work, and how much more.
const PLANTED: &str = "pread-plus-5";
const EFFECT: f64 = 1.05;
/// The error rate that reports promise: false alarms of a report, twins that come out different.
const RATE: f64 = 0.05;
/// Runs of each kind, unless the variable says otherwise.
const RUNS: u64 = 40;
const RUNS_VARIABLE: &str = "BENCH_TRUTH_RUNS";

/// What is kept of one run.
#[derive(Clone, Debug, Default, PartialEq)]
struct Outcome {
    /// Findings that say better or worse of cells that are equal.
    alarms: u64,
    /// The promised power of each comparison with the planted mover, and whether it was found.
    planted: Vec<(f64, bool)>,
    /// Twins, and those that came out different.
    twins: (u64, u64),
}

fn run(_: &Context) -> Result<Told> {
    let target = std::env::current_exe()?;
    let target = target.ancestors().nth(2).context("a target directory")?;
    let program = target.join("planted/release/bytecost");
    if !program.is_file() {
        return Ok(Told::Missing(
            "bytecost is not built with planted movers: make bench-truth".to_owned(),
        ));
    }
    let runs = match std::env::var(RUNS_VARIABLE) {
        Ok(text) => text
            .parse()
            .with_context(|| format!("{RUNS_VARIABLE} is `{text}`: a number"))?,
        Err(_) => RUNS,
    };
    let log = target.join("planted/truth.jsonl");
    let built = fs::metadata(&program)?;
    let build = format!("{} bytes, {:?}", built.len(), built.modified()?);
    let mut outcomes: [Vec<Outcome>; 2] = Default::default();
    for ((kind, study), outcomes) in KINDS.iter().zip(&mut outcomes) {
        for seed in 1..=runs {
            let known = already(&log, kind, seed, &build)?;
            let is_new = known.is_none();
            let findings = match known {
                Some(findings) => findings,
                None => one(&program, study, seed)?,
            };
            if is_new {
                keep(&log, kind, seed, &build, &findings)?;
                println!("  {kind} {seed} of {runs}");
            }
            outcomes.push(outcome(&findings).with_context(|| format!("{kind}, seed {seed}"))?);
        }
    }
    let [equal, planted] = outcomes;
    Ok(Told::Found(Found {
        rows: rows(&equal, &planted),
        notes: vec![
            format!(
                "Runs are kept in {}: what is there is not run again.",
                log.display()
            ),
            width(&planted),
        ],
        ..Found::default()
    }))
}

/// One run with its own seed: of its findings.json what the bench looks at.
fn one(program: &Path, study: &str, seed: u64) -> Result<Value> {
    let root = tempfile::tempdir()?;
    let path: PathBuf = root.path().join("study.toml");
    fs::write(&path, study)?;
    let runs = root.path().join("runs");
    let output = Command::new(program)
        .args([
            "run",
            "--quiet",
            "--evidence",
            "none",
            "--seed",
            &seed.to_string(),
        ])
        .arg(&path)
        .arg("--runs-dir")
        .arg(&runs)
        .stdin(Stdio::null())
        .output()?;
    let told = String::from_utf8_lossy(&output.stderr);
    // 1 is a run in which single trials failed, and which has its reports.
    ensure!(
        matches!(output.status.code(), Some(0 | 1)),
        "bytecost run: {told}"
    );
    let run = fs::read_dir(&runs)?
        .next()
        .with_context(|| told.into_owned())??;
    let text = fs::read_to_string(run.path().join("findings.json"))?;
    let all: Value = serde_json::from_str(&text)?;
    Ok(serde_json::json!({ "findings": all["findings"], "twins": all["twins"] }))
}

/// What an earlier call has kept of a run by the same build.
fn already(log: &Path, kind: &str, seed: u64, build: &str) -> Result<Option<Value>> {
    if !log.is_file() {
        return Ok(None);
    }
    let text = fs::read_to_string(log)?;
    // A line that was cut short is a run that is done again.
    let mut lines = text
        .lines()
        .filter_map(|l| serde_json::from_str::<Value>(l).ok());
    Ok(lines.find(|l| l["kind"] == kind && l["seed"] == seed && l["build"] == build))
}

fn keep(log: &Path, kind: &str, seed: u64, build: &str, findings: &Value) -> Result<()> {
    let mut line = findings.clone();
    line["kind"] = kind.into();
    line["seed"] = seed.into();
    line["build"] = build.into();
    let mut file = OpenOptions::new().create(true).append(true).open(log)?;
    // The line begins on its own, whatever a call that was stopped has left.
    write!(file, "\n{line}")?;
    Ok(file.sync_data()?)
}

fn outcome(kept: &Value) -> Result<Outcome> {
    let findings = kept["findings"].as_array().context("no findings")?;
    ensure!(!findings.is_empty(), "no findings");
    let mut outcome = Outcome::default();
    for finding in findings {
        let verdict = finding["verdict"].as_str().context("a verdict")?;
        if finding["value"] == PLANTED {
            ensure!(findings.len() == 1, "the level is that of one comparison");
            outcome
                .planted
                .push((promised(finding)?, verdict == "worse"));
        } else {
            outcome.alarms += u64::from(matches!(verdict, "better" | "worse"));
        }
    }
    let twins = kept["twins"].as_array().context("no twins")?;
    let different = twins.iter().filter(|t| t["different"] == true);
    outcome.twins = (twins.len() as u64, different.count() as u64);
    Ok(outcome)
}

/// The power for the planted difference that a finding promises by the smallest one that it says
/// it sees four times in five: both follow from one standard deviation of a block.
fn promised(finding: &Value) -> Result<f64> {
    let blocks = finding["blocks"].as_u64().context("blocks")? as usize;
    let detectable = finding["detectable"].as_f64().context("detectable")?;
    let of_one = smallest_detectable(1.0, blocks, RATE).context("too few blocks")?;
    let deviation = detectable.ln_1p() / of_one;
    power(deviation, blocks, blocks, EFFECT.ln(), RATE).context("no power")
}

/// The most reports with an alarm that a correct rate exceeds in one of twenty tries at most.
fn most_alarms(reports: u64) -> u64 {
    let fits = |most: &u64| at_least(most + 1, reports, RATE) <= 0.05;
    (0..=reports).find(fits).unwrap_or(reports)
}

fn rows(equal: &[Outcome], planted: &[Outcome]) -> Vec<Row> {
    let reports = equal.len() as u64;
    let alarms = equal.iter().filter(|o| o.alarms > 0).count() as u64;
    let all: Vec<(f64, bool)> = planted.iter().flat_map(|o| o.planted.clone()).collect();
    let found = all.iter().filter(|(_, found)| *found).count() as u64;
    let promised: Vec<f64> = all.iter().map(|(promised, _)| *promised).collect();
    let both = || equal.iter().chain(planted).map(|o| o.twins);
    let (twins, different) = both().fold((0, 0), |sum, t| (sum.0 + t.0, sum.1 + t.1));
    vec![
        Row::once(
            format!("reports with an alarm, of {reports}"),
            alarms as f64,
            Target::AtMost(most_alarms(reports) as f64),
        ),
        Row::share(
            format!("a planted 5 % found, {found} of {}", all.len()),
            (found, all.len() as u64),
            Target::Is(mean(&promised).unwrap_or(f64::NAN)),
        ),
        Row::share(
            format!("twins different, {different} of {twins}"),
            (different, twins),
            Target::Shown,
        ),
    ]
}

/// From where to where the promises lie.
fn width(planted: &[Outcome]) -> String {
    let promised = || planted.iter().flat_map(|o| &o.planted).map(|(p, _)| *p);
    format!(
        "Promised power for 5 %: from {} to {} over the runs.",
        units::percent(promised().fold(f64::INFINITY, f64::min)),
        units::percent(promised().fold(f64::NEG_INFINITY, f64::max))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Verdict;
    use bytecost_spec::Study;
    use serde_json::json;

    fn finding(value: &str, verdict: &str, detectable: f64) -> Value {
        json!({ "value": value, "verdict": verdict, "blocks": 8, "detectable": detectable })
    }

    fn kept(findings: &[Value], twins: &[bool]) -> Value {
        let twins: Vec<Value> = twins.iter().map(|d| json!({ "different": d })).collect();
        json!({ "findings": findings, "twins": twins })
    }

    #[test]
    fn alarms_finds_and_twins_are_counted() {
        let equal = kept(
            &[
                finding("send-same-1", "better", 0.1),
                finding("send-same-2", "not-decided", 0.1),
            ],
            &[true, false],
        );
        let read = outcome(&equal).unwrap();
        assert_eq!(
            (read.alarms, read.twins, read.planted.len()),
            (1, (2, 1), 0)
        );
        // What is seen four times in five is promised to be.
        let planted = kept(&[finding(PLANTED, "worse", 0.05)], &[false]);
        let [(promised, true)] = outcome(&planted).unwrap().planted[..] else {
            panic!("not found")
        };
        assert!((promised - 0.8).abs() < 0.03, "{promised}");
        let missed = kept(&[finding(PLANTED, "better", 0.1)], &[]);
        let [(promised, false)] = outcome(&missed).unwrap().planted[..] else {
            panic!("the wrong way round")
        };
        assert!((0.05..0.5).contains(&promised), "{promised}");
        assert!(outcome(&json!({ "findings": [], "twins": [] })).is_err());
    }

    #[test]
    fn the_targets_are_those_of_the_promise() {
        assert_eq!(most_alarms(40), 4);
        let runs = |n: usize, alarms: usize, found: usize, promised: f64| {
            let equal = (0..n).map(|i| Outcome {
                alarms: u64::from(i < alarms),
                ..Outcome::default()
            });
            let planted = (0..n).map(|i| Outcome {
                planted: vec![(promised, i < found)],
                ..Outcome::default()
            });
            let rows = rows(&equal.collect::<Vec<_>>(), &planted.collect::<Vec<_>>());
            [rows[0].verdict(), rows[1].verdict()]
        };
        assert_eq!(runs(40, 4, 32, 0.7), [Verdict::Met, Verdict::Met]);
        assert_eq!(runs(40, 5, 32, 0.95), [Verdict::NotMet, Verdict::NotMet]);
        assert_eq!(runs(40, 0, 10, 0.7)[1], Verdict::NotMet);
    }

    #[test]
    fn a_run_that_is_kept_is_not_run_again_and_a_line_that_was_cut_is() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("truth.jsonl");
        let run = kept(&[finding(PLANTED, "worse", 0.05)], &[]);
        let there = |kind, seed, build| already(&log, kind, seed, build).unwrap();
        assert_eq!(there("planted", 1, "a"), None);
        fs::write(&log, "{\"kind\":\"planted\",\"seed\":1,\"find").unwrap();
        assert_eq!(there("planted", 1, "a"), None);
        keep(&log, "planted", 1, "a", &run).unwrap();
        let found = there("planted", 1, "a").expect("the run");
        assert_eq!(outcome(&found).unwrap(), outcome(&run).unwrap());
        assert_eq!(there("planted", 2, "a"), None);
        assert_eq!(there("equal", 1, "a"), None);
        assert_eq!(there("planted", 1, "b"), None, "of another build");
    }

    #[test]
    fn the_studies_are_sound_and_the_planted_one_has_one_comparison() {
        let [equal, planted] = KINDS.map(|(_, text)| Study::parse(text).unwrap());
        assert_eq!((equal.cells().len(), planted.cells().len()), (8, 2));
        assert_eq!(planted.compare[0].metrics.len(), 1);
    }
}
