//! `noise`: how much a ratio differs from one round to another, over an hour. From the summaries of
//! rounds that runs of a fixed study leave.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytecost_spec::manifest::{RoundNoise, RoundVariance};
use bytecost_spec::{Cell, Metric, RoundSummary, units};
use bytecost_stats::{BetweenRounds, RoundEstimate, between_rounds};
use serde_json::json;

use crate::bench::{Bench, BenchOutcome, BenchResults, Context};
use crate::kept::{self, Kept, Ran};
use crate::result::{Row, Target};

pub const BENCH: Bench = Bench {
    name: "noise",
    question: "How much does a ratio differ from one round to another, over an hour?",
    target: "none: what a run without earlier rounds is to assume",
    by_name_alone: true,
    run,
};

const STUDY: &str = include_str!("../studies/noise.toml");
/// Rounds, unless the variable BENCH_NOISE_ROUNDS says otherwise, and from start to start of two.
const ROUNDS: u64 = 12;
const APART: Duration = Duration::from_secs(330);

/// A comparison: its metric, baseline and other cell.
type Comparison = (Metric, [String; 2]);

fn run(_: &Context) -> Result<BenchOutcome> {
    let program = kept::target()?.join("release/bytecost");
    if !program.is_file() {
        return Ok(BenchOutcome::NotRun(
            "bytecost is not built: make bench-noise".to_owned(),
        ));
    }
    let log = Kept::at("noise/rounds.jsonl")?;
    let build = kept::build(&program)?;
    let (mut rounds, mut last) = (Vec::new(), None);
    for round in 1..=kept::number("BENCH_NOISE_ROUNDS", ROUNDS)? {
        let key = json!({ "number": round, "build": build });
        let line = log.or(&key, || {
            kept::wait_since(last, APART)?;
            let started_s = kept::now_s()?;
            let round = serde_json::to_value(one(&program, round)?)?;
            Ok(json!({ "started_s": started_s, "summary": round }))
        })?;
        last = line["started_s"].as_u64();
        rounds.push(serde_json::from_value(line["summary"].clone())?);
    }
    Ok(BenchOutcome::Ran(found(&rounds, &log)))
}

/// One round, as its run summarises it.
fn one(program: &Path, seed: u64) -> Result<RoundSummary> {
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile()?;
    file.write_all(STUDY.as_bytes())?;
    let path = file.path().to_str().context("the path is no text")?;
    let state = tempfile::tempdir()?;
    let words = ["--evidence", "none", "--seed", &seed.to_string(), path];
    Ran::new(program, &words, state.path())?.round(state.path())
}

fn found(rounds: &[RoundSummary], log: &Kept) -> BenchResults {
    let (quiet, disturbed): (Vec<_>, Vec<_>) = rounds.iter().partition(|r| r.is_quiet());
    let mut notes = vec![format!(
        "Rounds are kept in {}: what is there is not run again. Other programs used more than 0.1 CPUs in {} of {} rounds, which do not count.",
        log.path().display(),
        disturbed.len(),
        rounds.len()
    )];
    let mut by_comparison: BTreeMap<Comparison, Vec<RoundEstimate>> = BTreeMap::new();
    for comparison in quiet.iter().flat_map(|round| &round.comparisons) {
        let cells = [&comparison.baseline, &comparison.cell].map(String::clone);
        let estimates = by_comparison.entry((comparison.metric, cells)).or_default();
        estimates.push(RoundEstimate {
            value: comparison.log_ratio,
            variance: comparison.variance,
            degrees: comparison.degrees,
        });
    }
    let metrics: Vec<Metric> = by_comparison.keys().map(|(metric, _)| *metric).collect();
    let RoundVariance { variance, degrees } = RoundNoise::ASSUMED.assumed;
    let by_build = BetweenRounds { variance, degrees };
    let mut rows = Vec::new();
    for metric in metrics.chunk_by(|a, b| a == b).map(|same| same[0]) {
        let of_metric = by_comparison.iter().filter(|((m, _), _)| *m == metric);
        let (comparisons, estimates): (Vec<_>, Vec<_>) =
            of_metric.map(|(c, e)| (c, e.clone())).unzip();
        let variances = between_rounds(&estimates, by_build);
        for (comparison, between) in comparisons.iter().zip(&variances.comparisons) {
            notes.push(line(comparison, *between));
        }
        rows.push(row(&format!("τ of {metric}"), variances.typical));
    }
    let estimates: Vec<_> = by_comparison.into_values().collect();
    let assumed = between_rounds(&estimates, by_build).typical;
    rows.push(row("τ to assume", assumed));
    if let Some(assumed) = assumed {
        notes.push(format!(
            "To assume: τ {:.3} with {:.1} degrees of freedom; this build assumes {:.3} with {}.",
            assumed.variance.sqrt(),
            assumed.degrees,
            by_build.variance.sqrt(),
            by_build.degrees
        ));
    }
    BenchResults {
        rows,
        notes,
        ..BenchResults::default()
    }
}

fn row(what: &str, between: Option<BetweenRounds>) -> Row {
    let deviation = between.map_or(f64::NAN, |b| b.variance.sqrt());
    Row::once(what, deviation, Target::Shown)
}

/// A comparison with its own deviation between rounds.
fn line((metric, cells): &Comparison, between: Option<BetweenRounds>) -> String {
    let named = |id: &String| {
        let cell = Cell::from_id(id);
        cell.map_or_else(
            || id.clone(),
            |c| format!("{} {}", c.mover, units::bytes_in_words(c.size_bytes)),
        )
    };
    let [baseline, other] = [named(&cells[0]), named(&cells[1])];
    let deviation = between.map_or_else(
        || "too few rounds".to_owned(),
        |b| format!("τ {:.4}, {:.1} degrees", b.variance.sqrt(), b.degrees),
    );
    format!("{metric}: {other} against {baseline}: {deviation}")
}

#[cfg(test)]
mod tests {
    use super::*;

    use bytecost_spec::Study;
    use bytecost_spec::round::MachineKernel;
    use bytecost_spec::{RoundComparison, RoundConditions};
    use bytecost_stats::Generator;

    /// Rounds of eight comparisons whose ratios differ by so much between them, some disturbed.
    fn rounds(count: usize, deviation: f64, disturbed: usize) -> Vec<RoundSummary> {
        let mut g = Generator::new(5);
        let mut round = |number: usize| {
            let is_disturbed = number < disturbed;
            let comparison = |i: usize| RoundComparison {
                metric: "cpu_s_per_gb".parse().unwrap(),
                baseline: "a".to_owned(),
                cell: i.to_string(),
                log_ratio: deviation * g.normal() + f64::from(is_disturbed),
                variance: 1e-6,
                degrees: 20.0,
                blocks: 25,
            };
            RoundSummary {
                run: number.to_string(),
                round: 0,
                started: String::new(),
                conditions: RoundConditions {
                    machine: MachineKernel {
                        machine_id_hash: "m".to_owned(),
                        kernel: "k".to_owned(),
                    },
                    cpus_allowed: Vec::new(),
                    peer: None,
                    warmup_ms: 1,
                    window_ms: 1,
                    design: None,
                },
                foreign_cpus: if is_disturbed { 0.5 } else { 0.0 },
                comparisons: (0..8).map(comparison).collect(),
            }
        };
        (0..count).map(&mut round).collect()
    }

    #[test]
    fn a_known_deviation_is_found_and_disturbed_rounds_do_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let log = Kept::from_path(dir.path().join("kept.jsonl")).unwrap();
        let found = found(&rounds(40, 0.05, 3), &log);
        assert!(found.notes[0].contains("in 3 of 40 rounds"));
        let value = found.rows.last().unwrap().value();
        assert!((0.04..0.06).contains(&value), "{value}");
    }

    #[test]
    fn the_study_is_sound() {
        assert_eq!(Study::parse(STUDY).unwrap().cells().len(), 18);
    }
}
