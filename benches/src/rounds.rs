//! `rounds`: whether another run confirms what a default run reports. Twelve default runs over an
//! hour, each with the history of those before it alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytecost_spec::round::QUIET_CPUS;
use bytecost_spec::{Cell, units};
use bytecost_stats::{mean, median};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::bench::{Bench, BenchOutcome, BenchResults, Context};
use crate::kept::{self, Kept, Ran};
use crate::result::{Row, Target};

pub const BENCH: Bench = Bench {
    name: "rounds",
    question: "Does another run confirm what a default run reports?",
    target: "an interval holds the mean of the other runs in 90 to 98 %; at most 5 % of decided findings are contradicted; the large effects are decided in 10 of 12 runs; median half-width of primary ratios at most 15 %",
    by_name_alone: true,
    run,
};

/// Runs, unless the variable BENCH_ROUNDS_RUNS says otherwise, and from start to start of two.
const RUNS: u64 = 12;
const APART: Duration = Duration::from_secs(330);
/// Fewest runs of a comparison to compare one with the mean of the others.
const FEWEST: usize = 3;
/// Of so many runs at least so many must decide.
const DECIDED: (u64, u64) = (10, 12);

/// A finding, as far as the bench looks at it. Those of the same comparison in several runs are compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Finding {
    metric: String,
    axis: String,
    baseline_value: String,
    cell: String,
    family: String,
    ratio: f64,
    low: f64,
    high: f64,
    within_low: f64,
    within_high: f64,
    verdict: String,
    #[serde(default)]
    withheld: Option<String>,
}

/// A run that is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Run {
    started_s: u64,
    foreign_cpus: f64,
    findings: Vec<Finding>,
}

/// A large effect on the CPU time per byte, which a default run is to decide.
#[derive(Clone, Copy)]
struct LargeEffect {
    mover: &'static str,
    baseline: &'static str,
    sizes_bytes: (u64, u64),
}

const LARGE: [LargeEffect; 3] = [
    LargeEffect {
        mover: "sendfile",
        baseline: "read-write",
        sizes_bytes: (64 << 10, 1 << 20),
    },
    LargeEffect {
        mover: "send-fields",
        baseline: "send",
        sizes_bytes: (4 << 10, 4 << 10),
    },
    LargeEffect {
        mover: "send-zerocopy",
        baseline: "send",
        sizes_bytes: (4 << 10, 4 << 10),
    },
];

impl Finding {
    fn is_decided(&self) -> bool {
        self.withheld.is_none() && matches!(&*self.verdict, "better" | "worse")
    }

    fn is_same_comparison(&self, other: &Finding) -> bool {
        let key = |f: &Finding| [&f.metric, &f.axis, &f.baseline_value, &f.cell].map(String::clone);
        key(self) == key(other)
    }

    fn contradicts(&self, other: &Finding) -> bool {
        self.is_decided() && other.is_decided() && self.verdict != other.verdict
    }

    /// Returns true where the finding is about a large effect.
    fn is_about(&self, effect: LargeEffect) -> bool {
        let LargeEffect {
            mover,
            baseline,
            sizes_bytes: (least, most),
        } = effect;
        let is_compared = self.axis == "mover"
            && self.metric == "cpu_s_per_gb"
            && self.baseline_value == baseline;
        let cell = Cell::from_id(&self.cell).filter(|_| is_compared);
        cell.is_some_and(|c| c.mover == mover && (least..=most).contains(&c.size_bytes))
    }
}

impl Run {
    fn is_quiet(&self) -> bool {
        self.foreign_cpus <= QUIET_CPUS
    }

    fn finding(&self, other: &Finding) -> Option<&Finding> {
        self.findings.iter().find(|f| f.is_same_comparison(other))
    }
}

fn run(_: &Context) -> Result<BenchOutcome> {
    let program = kept::target()?.join("release/bytecost");
    if !program.is_file() {
        return Ok(BenchOutcome::NotRun(
            "bytecost is not built: make bench-rounds".to_owned(),
        ));
    }
    let log = Kept::at("rounds/runs.jsonl")?;
    let build = kept::build(&program)?;
    let states = kept::target()?.join("rounds").join(&build);
    let mut runs: Vec<Run> = Vec::new();
    for number in 1..=kept::number("BENCH_ROUNDS_RUNS", RUNS)? {
        let key = json!({ "number": number, "build": build });
        let last = runs.last().map(|run| run.started_s);
        let line = log.or(&key, || {
            kept::wait_since(last, APART)?;
            Ok(serde_json::to_value(one(&program, &states, number)?)?)
        })?;
        runs.push(serde_json::from_value(line)?);
    }
    Ok(BenchOutcome::Ran(found(&runs, &log)))
}

/// One default run. Its history is a copy of that which the run before left, so that one that was
/// stopped leaves no trace.
fn one(program: &Path, states: &Path, number: u64) -> Result<Run> {
    let state = state_of(states, number);
    if state.is_dir() {
        fs::remove_dir_all(&state)?;
    }
    let before = state_of(states, number - 1).join("bytecost/rounds.jsonl");
    if before.is_file() {
        fs::create_dir_all(state.join("bytecost"))?;
        fs::copy(before, state.join("bytecost/rounds.jsonl"))?;
    }
    let started_s = kept::now_s()?;
    let seed = number.to_string();
    let ran = Ran::new(program, &["--seed", &seed], &state)?;
    let report = ran.findings()?;
    let list = report["findings"].as_array().context("no findings")?;
    let findings = list.iter().cloned().map(serde_json::from_value);
    Ok(Run {
        started_s,
        foreign_cpus: ran.round(&state)?.foreign_cpus,
        findings: findings.collect::<Result<_, _>>()?,
    })
}

fn state_of(states: &Path, number: u64) -> PathBuf {
    states.join(number.to_string())
}

fn found(runs: &[Run], log: &Kept) -> BenchResults {
    let quiet: Vec<&Run> = runs.iter().filter(|run| run.is_quiet()).collect();
    let mut notes = vec![format!(
        "Runs are kept in {}: what is there is not run again. Runs in which other programs used more than {QUIET_CPUS} CPUs do not count: {} of {}.",
        log.path().display(),
        runs.len() - quiet.len(),
        runs.len()
    )];
    notes.extend(runs.iter().enumerate().map(|(number, run)| {
        let decided = run.findings.iter().filter(|f| f.is_decided()).count();
        format!(
            "run {}: after {} s, other programs used {} CPUs{}; {decided} of {} decided",
            number + 1,
            run.started_s.saturating_sub(runs[0].started_s),
            units::number(run.foreign_cpus),
            if run.is_quiet() {
                ""
            } else {
                ", does not count"
            },
            run.findings.len()
        )
    }));
    BenchResults {
        rows: rows(&quiet),
        notes,
        ..BenchResults::default()
    }
}

fn rows(runs: &[&Run]) -> Vec<Row> {
    let share = |holds: fn(&Finding, f64) -> bool| {
        let each = with_mean_of_others(runs);
        let held = each.iter().filter(|(finding, mean)| holds(finding, *mean));
        held.count() as f64 / each.len() as f64
    };
    let all = || runs.iter().flat_map(|run| run.findings.iter());
    let decided = || all().filter(|f| f.is_decided());
    let is_contradicted = |finding: &&Finding| {
        let mut others = runs.iter().filter_map(|run| run.finding(finding));
        others.any(|other| other.contradicts(finding))
    };
    let contradicted = decided().filter(is_contradicted).count() as f64;
    let primary = all().filter(|f| f.family == "primary" && f.low > 0.0);
    let half_widths: Vec<f64> = primary.map(|f| (f.high / f.low).sqrt() - 1.0).collect();
    let (least, of) = DECIDED;
    let least = (runs.len() as u64 * least).div_ceil(of) as f64;
    let large = LARGE.into_iter().map(|effect| {
        let decides = |run: &&&Run| {
            let mut findings = run
                .findings
                .iter()
                .filter(|f| f.is_about(effect))
                .peekable();
            findings.peek().is_some() && findings.all(Finding::is_decided)
        };
        let LargeEffect {
            mover,
            baseline,
            sizes_bytes: (first, last),
        } = effect;
        let size = units::bytes_in_words(first);
        let from = if first < last { " and more" } else { "" };
        Row::once(
            format!("runs that decide {mover}, {size}{from}, against {baseline}"),
            runs.iter().filter(decides).count() as f64,
            Target::AtLeast(least),
        )
    });
    let confirmed = [
        Row::once(
            "intervals with the others' mean",
            share(|f, mean| (f.low..=f.high).contains(&mean)),
            Target::Between(0.90, 0.98),
        ),
        Row::once(
            "the same of the minute alone",
            share(|f, mean| (f.within_low..=f.within_high).contains(&mean)),
            Target::Shown,
        ),
        Row::once(
            "decided findings contradicted",
            contradicted / (decided().count() as f64).max(1.0),
            Target::AtMost(0.05),
        ),
    ];
    let width = Row::once(
        "half-width of primary ratios, median",
        median(&half_widths).unwrap_or(f64::NAN),
        Target::AtMost(0.15),
    );
    confirmed.into_iter().chain(large).chain([width]).collect()
}

/// Every finding with the mean ratio of the other runs: of findings that enough runs have.
fn with_mean_of_others<'r>(runs: &[&'r Run]) -> Vec<(&'r Finding, f64)> {
    let shown = |f: &&Finding| f.withheld.is_none() && f.ratio > 0.0;
    let each = runs.iter().enumerate().flat_map(|(number, run)| {
        run.findings
            .iter()
            .filter(shown)
            .filter_map(move |finding| {
                let logs: Vec<f64> = (runs.iter().enumerate())
                    .filter(|(other, _)| *other != number)
                    .filter_map(|(_, compared)| compared.finding(finding))
                    .filter(shown)
                    .map(|f| f.ratio.ln())
                    .collect();
                let enough = logs.len() + 1 >= FEWEST;
                Some((finding, mean(&logs).filter(|_| enough)?.exp()))
            })
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Verdict;

    /// A run in which `sendfile` at 64 KiB has this ratio, with a wide and a narrow interval.
    fn run(ratio: f64, verdict: &str) -> Run {
        let cell = Cell {
            mover: "sendfile".to_owned(),
            size_bytes: 64 << 10,
            ..Cell::default()
        };
        Run {
            started_s: 0,
            foreign_cpus: 0.01,
            findings: vec![Finding {
                metric: "cpu_s_per_gb".to_owned(),
                axis: "mover".to_owned(),
                baseline_value: "read-write".to_owned(),
                cell: cell.id(),
                family: "primary".to_owned(),
                ratio,
                low: ratio / 1.1,
                high: ratio * 1.1,
                within_low: ratio / 1.01,
                within_high: ratio * 1.01,
                verdict: verdict.to_owned(),
                withheld: None,
            }],
        }
    }

    fn check(runs: &[Run], expected: [(f64, Verdict); 4]) {
        let rows = rows(&runs.iter().collect::<Vec<_>>());
        let found = [0, 1, 2, 3].map(|i| (rows[i].value(), rows[i].verdict()));
        assert_eq!(found, expected);
    }

    #[test]
    fn runs_that_agree_confirm_each_other_and_a_reversal_is_a_contradiction() {
        let agreeing: Vec<Run> = [0.80, 0.82, 0.78, 0.81].map(|r| run(r, "better")).to_vec();
        check(
            &agreeing,
            [
                // More often than promised: the intervals are too wide.
                (1.0, Verdict::NotMet),
                (0.25, Verdict::Shown),
                (0.0, Verdict::Met),
                (4.0, Verdict::Met),
            ],
        );
        let mut reversed = agreeing.clone();
        reversed[3] = run(1.3, "worse");
        check(
            &reversed,
            [
                (0.0, Verdict::NotMet),
                (0.0, Verdict::Shown),
                (1.0, Verdict::NotMet),
                (4.0, Verdict::Met),
            ],
        );
        let undecided: Vec<Run> = agreeing.iter().map(|_| run(0.8, "not-decided")).collect();
        check(
            &undecided,
            [
                (1.0, Verdict::NotMet),
                (1.0, Verdict::Shown),
                (0.0, Verdict::Met),
                (0.0, Verdict::NotMet),
            ],
        );
    }

    #[test]
    fn a_disturbed_run_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let log = Kept::from_path(dir.path().join("kept.jsonl")).unwrap();
        let mut runs: Vec<Run> = (0..4).map(|_| run(0.8, "better")).collect();
        runs[1].foreign_cpus = 0.4;
        let found = found(&runs, &log);
        assert!(
            found.notes[2].contains("does not count"),
            "{:?}",
            found.notes
        );
        assert_eq!(found.rows[3].value(), 3.0);
    }
}
