//! `truth`: whether reports keep what they promise: of equal cells no difference, and of a planted
//! one as often as they say. Its bytecost is built with the movers of the feature `planted`.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use bytecost_spec::units;
use bytecost_stats::{BetweenRounds, RatioVariation, at_least, mean, trimmed_mean};
use serde_json::{Value, json};

use crate::bench::{Bench, BenchOutcome, BenchResults, Context};
use crate::kept::{self, Kept, Ran};
use crate::result::{Row, Target};

pub const BENCH: Bench = Bench {
    name: "truth",
    question: "Do reports of equal cells raise few alarms, and do those of a planted 5 % find it as often as they promise, and those of 25 % nearly always?",
    target: "at most 4 of 40 reports with a false alarm; the promised power within the interval of what was found; 25 % found in at least 36 of 40",
    by_name_alone: true,
    run,
};

/// The kinds of runs by name. Runs of a kind have one history, so that each knows how much ratios
/// differed between those before it.
const KINDS: [&str; 3] = ["equal", "planted", "planted-25"];
const EQUAL_STUDY: &str = include_str!("../studies/truth-equal.toml");
const PLANTED_STUDY: &str = include_str!("../studies/truth-planted.toml");
/// The movers that do more work than `pread`: 5 and 25 % more.
const PLANTED: [&str; 2] = ["pread-plus-5", "pread-plus-25"];
const EFFECT: f64 = 1.05;
/// Of 40 runs those that must find the planted 25 %.
const FOUND_LEAST: (u64, u64) = (36, 40);
/// The error rate that reports promise: false alarms of a report, twins that come out different.
const RATE: f64 = 0.05;
/// Runs of each kind, unless the variable BENCH_TRUTH_RUNS says otherwise.
const RUNS: u64 = 40;

/// The estimates of one run.
#[derive(Clone, Debug, Default, PartialEq)]
struct Outcome {
    /// Findings that say better or worse of cells that are equal.
    alarms: u64,
    /// Of the comparison with a planted mover, where it has a verdict: the power for 5 % that it
    /// promises, and whether the difference was found.
    planted: Option<(f64, bool)>,
    /// Comparisons, and those whose verdict a caveat withholds.
    withheld: (u64, u64),
    /// Twins, and those that came out different.
    twins: (u64, u64),
}

/// The study of a kind.
fn study(kind: &str) -> String {
    match kind {
        "equal" => EQUAL_STUDY.to_owned(),
        "planted" => PLANTED_STUDY.to_owned(),
        _ => PLANTED_STUDY.replace(PLANTED[0], PLANTED[1]),
    }
}

fn run(_: &Context) -> Result<BenchOutcome> {
    let program = kept::target()?.join("planted/release/bytecost");
    if !program.is_file() {
        return Ok(BenchOutcome::NotRun(
            "bytecost is not built with planted movers: make bench-truth".to_owned(),
        ));
    }
    let runs = kept::number("BENCH_TRUTH_RUNS", RUNS)?;
    let log = Kept::at("planted/truth.jsonl")?;
    let build = kept::build(&program)?;
    let mut outcomes: [Vec<Outcome>; 3] = Default::default();
    for (kind, of_kind) in KINDS.iter().zip(&mut outcomes) {
        let state = kept::target()?
            .join("planted/history")
            .join(&build)
            .join(kind);
        for seed in 1..=runs {
            let key = json!({ "kind": kind, "seed": seed, "build": build });
            let findings = log.or(&key, || one(&program, &study(kind), seed, &state))?;
            of_kind.push(outcome(&findings).with_context(|| format!("{kind}, seed {seed}"))?);
        }
    }
    let [equal, planted, planted_25] = outcomes;
    Ok(BenchOutcome::Ran(BenchResults {
        rows: rows(&equal, &planted, &planted_25),
        notes: vec![
            format!(
                "Runs are kept in {}: what is there is not run again.",
                log.path().display()
            ),
            width(&planted),
        ],
        ..BenchResults::default()
    }))
}

/// One run with its own seed: of its findings.json what the bench looks at.
fn one(program: &Path, study: &str, seed: u64, state: &Path) -> Result<Value> {
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile()?;
    file.write_all(study.as_bytes())?;
    let path = file.path().to_str().context("the path is no text")?;
    let words = ["--evidence", "none", "--seed", &seed.to_string(), path];
    let all = Ran::new(program, &words, state)?.findings()?;
    Ok(json!({ "findings": all["findings"], "twins": all["twins"] }))
}

fn outcome(kept: &Value) -> Result<Outcome> {
    let findings = kept["findings"].as_array().context("no findings")?;
    ensure!(!findings.is_empty(), "no findings");
    let mut outcome = Outcome {
        withheld: (findings.len() as u64, 0),
        ..Outcome::default()
    };
    for finding in findings {
        let verdict = finding["verdict"].as_str().context("a verdict")?;
        // A finding without a verdict has neither found nor missed a difference.
        let sentence = finding["sentence"].as_str().unwrap_or_default();
        if finding["withheld"].is_string() || sentence.contains("No verdict:") {
            outcome.withheld.1 += 1;
            continue;
        }
        if PLANTED.iter().any(|mover| finding["value"] == *mover) {
            ensure!(findings.len() == 1, "the level is that of one comparison");
            outcome.planted = Some((promised(finding)?, verdict == "worse"));
        } else {
            outcome.alarms += u64::from(matches!(verdict, "better" | "worse"));
        }
    }
    let twins = kept["twins"].as_array().context("no twins")?;
    let different = twins.iter().filter(|t| t["different"] == true);
    outcome.twins = (twins.len() as u64, different.count() as u64);
    Ok(outcome)
}

/// The power for 5 % that a finding promises, by what varied within its run and by how much ratios
/// differ between rounds.
fn promised(finding: &Value) -> Result<f64> {
    let number = |name: &'static str| finding[name].as_f64().context(name);
    let blocks = finding["blocks"].as_u64().context("blocks")?;
    let half_width = (number("within_high")? / number("within_low")?).ln() / 2.0;
    // Values in equal steps have the degrees of freedom that so many blocks have.
    let steps: Vec<f64> = (0..blocks).map(|step| step as f64).collect();
    let steps = trimmed_mean(&steps).context("no blocks")?;
    let of_steps = steps.interval(1.0 - RATE).context("too few blocks")?;
    let variation = RatioVariation {
        deviation: half_width / of_steps.half_width() * steps.deviation(),
        known: (blocks as usize).into(),
        between: BetweenRounds {
            variance: number("between_deviation")?.powi(2),
            degrees: number("between_degrees")?,
        },
    };
    let power = variation.power(blocks as usize, EFFECT.ln(), RATE);
    power.context("no power")
}

/// The most reports with an alarm that a correct rate exceeds in one of twenty tries at most.
fn most_alarms(reports: u64) -> u64 {
    let fits = |most: &u64| at_least(most + 1, reports, RATE) <= 0.05;
    (0..=reports).find(fits).unwrap_or(reports)
}

fn rows(equal: &[Outcome], planted: &[Outcome], planted_25: &[Outcome]) -> Vec<Row> {
    let reports = equal.len() as u64;
    let alarms = equal.iter().filter(|o| o.alarms > 0).count() as u64;
    let all: Vec<_> = planted.iter().filter_map(|o| o.planted).collect();
    let found = all.iter().filter(|(_, is_found)| *is_found).count() as u64;
    let promised: Vec<f64> = all.iter().map(|(promised, _)| *promised).collect();
    let large: Vec<_> = planted_25.iter().filter_map(|o| o.planted).collect();
    let found_large = large.iter().filter(|(_, is_found)| *is_found).count();
    let (least, of) = FOUND_LEAST;
    let least = (large.len() as u64 * least).div_ceil(of);
    let both = |count: fn(&Outcome) -> (u64, u64)| {
        let each = equal.iter().chain(planted).chain(planted_25).map(count);
        each.fold((0, 0), |sum, t| (sum.0 + t.0, sum.1 + t.1))
    };
    let (twins, different) = both(|o| o.twins);
    let (comparisons, withheld) = both(|o| o.withheld);
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
        Row::once(
            format!("a planted 25 % found, of {}", large.len()),
            found_large as f64,
            Target::AtLeast(least as f64),
        ),
        Row::share(
            format!("twins different, {different} of {twins}"),
            (different, twins),
            Target::Shown,
        ),
        Row::share(
            format!("verdicts withheld, {withheld} of {comparisons}"),
            (withheld, comparisons),
            Target::Shown,
        ),
    ]
}

/// From where to where the promises lie.
fn width(planted: &[Outcome]) -> String {
    let promised = || planted.iter().filter_map(|o| o.planted).map(|(p, _)| p);
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

    /// A finding whose own minute has this half-width, with so large a deviation between rounds.
    fn finding(value: &str, verdict: &str, half_width: f64, between: f64) -> Value {
        json!({
            "value": value, "verdict": verdict, "blocks": 8,
            "within_low": (-half_width).exp(), "within_high": half_width.exp(),
            "between_deviation": between, "between_degrees": 8.0,
        })
    }

    fn kept(findings: &[Value], different: &[bool]) -> Value {
        let twin = |d: &bool| json!({ "different": d });
        let twins: Vec<Value> = different.iter().map(twin).collect();
        json!({ "findings": findings, "twins": twins })
    }

    #[test]
    fn alarms_finds_and_twins_are_counted() {
        let equal = kept(
            &[
                finding("send-same-1", "better", 0.1, 0.0),
                finding("send-same-2", "not-decided", 0.1, 0.0),
            ],
            &[true, false],
        );
        let read = outcome(&equal).unwrap();
        assert_eq!((read.alarms, read.twins, read.planted), (1, (2, 1), None));
        let planted = |mover: &str, verdict: &str, half_width, between| {
            let kept = kept(&[finding(mover, verdict, half_width, between)], &[]);
            outcome(&kept).unwrap().planted.unwrap()
        };
        let (narrow, true) = planted(PLANTED[0], "worse", 0.03, 0.0) else {
            panic!("not found")
        };
        let (wide, false) = planted(PLANTED[0], "better", 0.1, 0.0) else {
            panic!("the wrong way round")
        };
        let (by_rounds, true) = planted(PLANTED[1], "worse", 0.03, 0.04) else {
            panic!("not found")
        };
        assert!(narrow > 0.6 && wide < 0.3, "{narrow}, {wide}");
        assert!(by_rounds < 0.3, "{by_rounds}");
        let mut open = finding(PLANTED[0], "not-decided", 0.05, 0.0);
        open["withheld"] = "CPU time is unaccounted for".into();
        let open = outcome(&kept(&[open], &[])).unwrap();
        assert_eq!((open.planted, open.withheld), (None, (1, 1)), "no miss");
        assert!(outcome(&json!({ "findings": [], "twins": [] })).is_err());
    }

    #[test]
    fn the_targets_are_those_of_the_promise() {
        assert_eq!(most_alarms(40), 4);
        let made = |n: usize, found: usize, promised: f64| -> Vec<Outcome> {
            let one = |i| Outcome {
                planted: Some((promised, i < found)),
                ..Outcome::default()
            };
            (0..n).map(one).collect()
        };
        let runs = |n: usize, alarms: usize, found: usize, promised: f64| {
            let equal = (0..n).map(|i| Outcome {
                alarms: u64::from(i < alarms),
                ..Outcome::default()
            });
            let planted = made(n, found, promised);
            let rows = rows(&equal.collect::<Vec<_>>(), &planted, &[]);
            [rows[0].verdict(), rows[1].verdict()]
        };
        assert_eq!(runs(40, 4, 32, 0.7), [Verdict::Met, Verdict::Met]);
        assert_eq!(runs(40, 5, 32, 0.95), [Verdict::NotMet, Verdict::NotMet]);
        assert_eq!(runs(40, 0, 10, 0.7)[1], Verdict::NotMet);
        let of_25 = |found: usize| rows(&[], &[], &made(40, found, 0.3))[2].verdict();
        assert_eq!([36, 35].map(of_25), [Verdict::Met, Verdict::NotMet]);
    }

    #[test]
    fn the_studies_are_sound_and_the_planted_ones_have_one_comparison() {
        let studies = KINDS.map(|kind| Study::parse(&study(kind)).unwrap());
        assert_eq!(studies.each_ref().map(|s| s.cells().len()), [8, 2, 2]);
        assert!(studies[1..].iter().all(|s| s.compare[0].metrics.len() == 1));
        assert!(study("planted-25").contains("pread-plus-25"));
    }
}
