//! `truth`: whether reports keep what they promise: of equal cells no difference, and of a planted
//! one as often as they say. Its bytecost is built with the movers of the feature `planted`.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use bytecost_spec::units;
use bytecost_stats::{at_least, mean, power, smallest_detectable};
use serde_json::{Value, json};

use crate::bench::{Bench, Context, Found, Told};
use crate::kept::{self, Kept, Ran};
use crate::result::{Row, Target};

pub const BENCH: Bench = Bench {
    name: "truth",
    question: "Do reports of equal cells raise few alarms, and do those of a planted 5 % find it as often as they promise?",
    target: "at most 4 of 40 reports with a false alarm; the promised power within the interval of what was found; at least 34 of 40 where 80 % is promised for 4 %",
    by_name_alone: true,
    run,
};

/// The kinds of runs: name, study and what its command says besides. Those with power go on until a
/// difference of 4 % would be found four times in five; the precision is narrow enough for few blocks too.
const KINDS: [(&str, &str, &[&str]); 3] = [
    ("equal", include_str!("../studies/truth-equal.toml"), &[]),
    ("planted", PLANTED_STUDY, &[]),
    (
        "powered",
        PLANTED_STUDY,
        &["--precision", "2.3%", "--blocks", "300", "--budget", "60s"],
    ),
];
const PLANTED_STUDY: &str = include_str!("../studies/truth-planted.toml");
/// The difference that a run with power promises to find, and of 40 such runs those that must find
/// the planted one.
const PROMISED: f64 = 0.04;
const FOUND_LEAST: (u64, u64) = (34, 40);
/// The mover that does more work, and how much more.
const PLANTED: &str = "pread-plus-5";
const EFFECT: f64 = 1.05;
/// The error rate that reports promise: false alarms of a report, twins that come out different.
const RATE: f64 = 0.05;
/// Runs of each kind, unless the variable BENCH_TRUTH_RUNS says otherwise.
const RUNS: u64 = 40;

/// What is kept of one run.
#[derive(Clone, Debug, Default, PartialEq)]
struct Outcome {
    /// Findings that say better or worse of cells that are equal.
    alarms: u64,
    /// Of the comparison with the planted mover, where it has a verdict: the promised power for it,
    /// the least difference that is found four times in five, and whether it was found.
    planted: Option<(f64, f64, bool)>,
    /// Comparisons, and those whose verdict a caveat withholds.
    withheld: (u64, u64),
    /// Twins, and those that came out different.
    twins: (u64, u64),
}

fn run(_: &Context) -> Result<Told> {
    let program = kept::target()?.join("planted/release/bytecost");
    if !program.is_file() {
        return Ok(Told::Missing(
            "bytecost is not built with planted movers: make bench-truth".to_owned(),
        ));
    }
    let runs = kept::number("BENCH_TRUTH_RUNS", RUNS)?;
    let log = Kept::at("planted/truth.jsonl")?;
    let build = kept::build(&program)?;
    let mut outcomes: [Vec<Outcome>; 3] = Default::default();
    for ((kind, study, words), outcomes) in KINDS.iter().zip(&mut outcomes) {
        for seed in 1..=runs {
            let key = json!({ "kind": kind, "seed": seed, "build": build });
            let findings = log.or(&key, || one(&program, study, words, seed))?;
            outcomes.push(outcome(&findings).with_context(|| format!("{kind}, seed {seed}"))?);
        }
    }
    let [equal, planted, powered] = outcomes;
    Ok(Told::Found(Found {
        rows: rows(&equal, &planted, &powered),
        notes: vec![
            format!(
                "Runs are kept in {}: what is there is not run again.",
                log.path().display()
            ),
            width(&planted),
        ],
        ..Found::default()
    }))
}

/// One run with its own seed: of its findings.json what the bench looks at.
fn one(program: &Path, study: &str, words: &[&str], seed: u64) -> Result<Value> {
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile()?;
    file.write_all(study.as_bytes())?;
    let path = file.path().to_str().context("the path is no text")?;
    let seed = seed.to_string();
    let usual = ["--evidence", "none", "--seed", &seed, path];
    let all = Ran::new(program, &[&usual, words].concat())?.findings()?;
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
        // A report that says why it gives no verdict has neither found nor missed anything.
        let told = finding["sentence"].as_str().unwrap_or_default();
        if finding["withheld"].is_string() || told.contains("No verdict:") {
            outcome.withheld.1 += 1;
            continue;
        }
        if finding["value"] == PLANTED {
            ensure!(findings.len() == 1, "the level is that of one comparison");
            let least = finding["detectable"].as_f64().context("detectable")?;
            outcome.planted = Some((promised(finding)?, least, verdict == "worse"));
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

fn rows(equal: &[Outcome], planted: &[Outcome], powered: &[Outcome]) -> Vec<Row> {
    let reports = equal.len() as u64;
    let alarms = equal.iter().filter(|o| o.alarms > 0).count() as u64;
    let all: Vec<_> = planted.iter().filter_map(|o| o.planted).collect();
    let found = all.iter().filter(|(.., found)| *found).count() as u64;
    let promised: Vec<f64> = all.iter().map(|(promised, ..)| *promised).collect();
    let kept = powered.iter().filter_map(|o| o.planted);
    let kept: Vec<_> = kept.filter(|(_, least, _)| *least <= PROMISED).collect();
    let with_power = kept.iter().filter(|(.., found)| *found).count();
    let (least, of) = FOUND_LEAST;
    let least = (kept.len() as u64 * least).div_ceil(of);
    let both = |of: fn(&Outcome) -> (u64, u64)| {
        let each = equal.iter().chain(planted).chain(powered).map(of);
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
            format!("found with power for 4 %, of {}", kept.len()),
            with_power as f64,
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
    let promised = || planted.iter().filter_map(|o| o.planted).map(|(p, ..)| p);
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
        assert_eq!((read.alarms, read.twins, read.planted), (1, (2, 1), None));
        // What is seen four times in five is promised to be.
        let planted = kept(&[finding(PLANTED, "worse", 0.05)], &[false]);
        let Some((promised, 0.05, true)) = outcome(&planted).unwrap().planted else {
            panic!("not found")
        };
        assert!((promised - 0.8).abs() < 0.03, "{promised}");
        let missed = kept(&[finding(PLANTED, "better", 0.1)], &[]);
        let Some((promised, _, false)) = outcome(&missed).unwrap().planted else {
            panic!("the wrong way round")
        };
        assert!((0.05..0.5).contains(&promised), "{promised}");
        let mut open = finding(PLANTED, "not-decided", 0.05);
        open["withheld"] = "CPU time is unaccounted for".into();
        let open = outcome(&kept(&[open], &[])).unwrap();
        assert_eq!((open.planted, open.withheld), (None, (1, 1)), "no miss");
        assert!(outcome(&json!({ "findings": [], "twins": [] })).is_err());
    }

    #[test]
    fn the_targets_are_those_of_the_promise() {
        assert_eq!(most_alarms(40), 4);
        let made = |n: usize, found: usize, promised: f64, least: f64| -> Vec<Outcome> {
            let one = |i| Outcome {
                planted: Some((promised, least, i < found)),
                ..Outcome::default()
            };
            (0..n).map(one).collect()
        };
        let runs = |n: usize, alarms: usize, found: usize, promised: f64| {
            let equal = (0..n).map(|i| Outcome {
                alarms: u64::from(i < alarms),
                ..Outcome::default()
            });
            let planted = made(n, found, promised, 0.1);
            let rows = rows(&equal.collect::<Vec<_>>(), &planted, &[]);
            [rows[0].verdict(), rows[1].verdict()]
        };
        assert_eq!(runs(40, 4, 32, 0.7), [Verdict::Met, Verdict::Met]);
        assert_eq!(runs(40, 5, 32, 0.95), [Verdict::NotMet, Verdict::NotMet]);
        assert_eq!(runs(40, 0, 10, 0.7)[1], Verdict::NotMet);
        let with_power = |found: usize| {
            // Those that promise nothing need not find it.
            let powered = [made(40, found, 0.95, 0.04), made(9, 0, 0.5, 0.05)].concat();
            rows(&[], &[], &powered)[2].verdict()
        };
        assert_eq!(with_power(34), Verdict::Met);
        assert_eq!(with_power(33), Verdict::NotMet);
    }

    #[test]
    fn the_studies_are_sound_and_the_planted_one_has_one_comparison() {
        let [equal, planted, _] = KINDS.map(|(_, text, _)| Study::parse(text).unwrap());
        assert_eq!((equal.cells().len(), planted.cells().len()), (8, 2));
        assert_eq!(planted.compare[0].metrics.len(), 1);
    }
}
