//! Caveats about the course of the run and its numbers: failures, precision, drift.

use bytecost_spec::{Failure, Measure, Metric, Side, units};
use bytecost_stats::{holm, mann_kendall, quantile, trimmed_mean_value};
use itertools::Itertools as _;

use super::{UnnamedCaveat, in_cells, legs, of_cells, span};
use crate::cells::exp;
use crate::confidence::ERROR_RATE;
use crate::findings::half_width;
use crate::pairing::{Pairing, pairings};
use crate::phrases::{self, percent};
use crate::result::Finding;
use crate::trials::{CellTrials, Trials};
use crate::value::{Trial, served};
use crate::view::View;

/// Fewest blocks over which a trend is looked for.
const FEWEST_FOR_TREND: usize = 8;
/// How far the sender's share of the CPU time may spread, from the 10 % to the 90 % quantile.
const SHIFT: f64 = 0.1;

/// Share of a cell's trials up to which failures are left out and its verdicts stand.
const MANY_FAILED: f64 = 0.05;
const FAILED_REMEDY: &str = "remove the cause that the reason names and run again";

/// How many times longer a run is worth asking for.
const MOST_TIMES_LONGER: f64 = 30.0;

pub(super) fn changed_plan(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let notes = view.input.notes.iter();
    let told = notes.map(|note| UnnamedCaveat {
        text: format!(
            "Not all is as it was asked: {}.",
            note.trim_end_matches('.')
        ),
        evidence: "the plan of this run".to_owned(),
        remedy: "`bytecost doctor` for what this machine lacks, --budget for what took too long"
            .to_owned(),
        cells: Vec::new(),
    });
    told.collect()
}

/// Blocks are measured again for what others did, which no mover can bring about. That this does
/// not choose among outcomes is shown by the first attempts: both must say the same.
pub(super) fn repeats_matter(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let input = view.input;
    let first = Trials::first_attempts(input.manifest, input.cells, input.samples, input.blocks);
    let Some(first) = first else {
        return Vec::new();
    };
    let study = &input.manifest.study;
    let (mut cells, mut shifts) = (Vec::new(), Vec::new());
    for compare in &study.compare {
        let Some(&metric) = compare.metrics.first() else {
            continue;
        };
        let of = |trials| pairings(study, trials, compare.axis, &compare.baseline);
        let of_first = of(&first);
        for kept in of(view.trials) {
            let same = |f: &&Pairing<'_, '_>| {
                f.other.id == kept.other.id && f.baseline.id == kept.baseline.id
            };
            let Some(first) = of_first.iter().find(same) else {
                continue;
            };
            let [kept_log, first_log] =
                [&kept, first].map(|p| trimmed_mean_value(&p.log_ratios(metric)));
            let (Some(kept_log), Some(first_log)) = (kept_log, first_log) else {
                continue;
            };
            let shift = (kept_log - first_log).abs();
            if shift > study.smallest_effect.ln_1p() {
                cells.push(kept.other.id.clone());
                shifts.push(exp(shift) - 1.0);
            }
        }
    }
    if cells.is_empty() {
        return Vec::new();
    }
    vec![UnnamedCaveat {
        text: format!(
            "In {} the result depends on whether blocks that other processes disturbed are left out.",
            phrases::count(cells.len(), "comparison")
        ),
        evidence: format!(
            "first attempts and those that stand differ by {}, more than the smallest effect",
            span(&shifts, percent)
        ),
        remedy: "stop other programs and run again".to_owned(),
        cells,
    }]
}

pub(super) fn ended_early(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let told = view.input.ended_early.map(|why| UnnamedCaveat {
        text: format!(
            "The run ended before its time: {}.",
            why.trim_end_matches('.')
        ),
        evidence: format!(
            "{} of the log",
            phrases::count(view.input.samples.len(), "sample")
        ),
        remedy: format!("bytecost run --resume {}", view.input.manifest.id),
        cells: Vec::new(),
    });
    told.into_iter().collect()
}

pub(super) fn missing_trials(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let told = view.input.damage.map(|what| UnnamedCaveat {
        text: "The log is not whole: trials of this run are lost.".to_owned(),
        evidence: what.to_owned(),
        remedy: format!(
            "restore samples.jsonl from a copy, or measure them again: bytecost run --resume {}",
            view.input.manifest.id
        ),
        cells: Vec::new(),
    });
    told.into_iter().collect()
}

/// A mover whose bytes were wrong once is not known to do what it is measured for.
pub(super) fn wrong_bytes(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let is_wrong = |c: &CellTrials<'_>| {
        let failed = c.failures.iter().any(|f| f.has_wrong_bytes());
        failed || c.trials().any(|t| served::wrong_answers(t.sample) > 0.0)
    };
    let way = |c: &CellTrials<'_>| (c.cell.mover.clone(), c.cell.serving.server.clone());
    let all = || view.trials.moving();
    let ways = all().filter(|c| is_wrong(c)).map(way).unique();
    let told = ways.map(|wrong| {
        let own: Vec<&CellTrials<'_>> = all().filter(|c| way(c) == wrong).collect();
        let failures = own.iter().flat_map(|c| &c.failures);
        let of_bytes: Vec<&Failure> = (failures.copied())
            .filter(|f| f.has_wrong_bytes())
            .collect();
        let answers: f64 = (own.iter().flat_map(|c| c.trials()))
            .map(|t| served::wrong_answers(t.sample))
            .sum();
        let evidence = match of_bytes.first() {
            Some(first) => format!(
                "{}, the first: {}",
                phrases::count(of_bytes.len(), "trial"),
                first.reason.trim_end_matches('.')
            ),
            None => format!("{} wrong answers", units::number(answers)),
        };
        UnnamedCaveat {
            text: format!(
                "`{}` delivered wrong bytes. Nothing is said of it.",
                wrong.1.as_ref().unwrap_or(&wrong.0)
            ),
            evidence,
            remedy: "a kernel, or a version of bytecost, without this fault: please report it"
                .to_owned(),
            cells: super::ids(own),
        }
    });
    told.collect()
}

/// Trials of a cell that failed, and those of it and of its twin that were begun.
fn failed_of(cell: &CellTrials<'_>) -> (usize, usize) {
    let failed = cell.failures.len();
    (failed, failed + cell.by_block.len() + cell.twin.len())
}

fn many_failed(cell: &CellTrials<'_>) -> bool {
    let (failed, all) = failed_of(cell);
    failed as f64 > MANY_FAILED * all as f64
}

/// What failed is missing for a reason, and the rest may be the lucky ones.
pub(super) fn many_failed_trials(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let measured = view.measured();
    let cells: Vec<&CellTrials<'_>> = measured.filter(|c| many_failed(c)).collect();
    let Some(first) = cells.iter().flat_map(|c| &c.failures).next() else {
        return Vec::new();
    };
    let shares: Vec<f64> = (cells.iter().map(|c| failed_of(c)))
        .map(|(failed, all)| failed as f64 / all as f64)
        .collect();
    vec![UnnamedCaveat {
        text: format!(
            "More than {} of the trials failed {}: those that did not may be the lucky ones.",
            percent(MANY_FAILED),
            in_cells(cells.len())
        ),
        evidence: format!(
            "{} of their trials, the first: {}",
            span(&shares, percent),
            first.reason.trim_end_matches('.')
        ),
        remedy: FAILED_REMEDY.to_owned(),
        cells: super::ids(cells),
    }]
}

pub(super) fn failed_trials(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let some =
        |c: &&CellTrials<'_>| !c.failures.is_empty() && (c.by_block.is_empty() || !many_failed(c));
    let failed: Vec<&CellTrials<'_>> = view.trials.cells.iter().filter(some).collect();
    let failures: Vec<&Failure> = failed.iter().flat_map(|c| &c.failures).copied().collect();
    let Some(first) = failures.first() else {
        return Vec::new();
    };
    let verb = if failures.len() == 1 { "was" } else { "were" };
    vec![UnnamedCaveat {
        text: format!(
            "{} {} failed and {verb} left out. What made them fail may have affected others.",
            phrases::count(failures.len(), "trial"),
            in_cells(failed.len())
        ),
        evidence: format!("the first: {}", first.reason.trim_end_matches('.')),
        remedy: FAILED_REMEDY.to_owned(),
        cells: super::ids(failed),
    }]
}

pub(super) fn few_blocks(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let study = &view.input.manifest.study;
    let least = study.blocks_least as usize;
    let few: Vec<&Finding> = view.findings.iter().filter(|f| f.blocks < least).collect();
    let blocks: Vec<f64> = few.iter().map(|f| f.blocks as f64).collect();
    if few.is_empty() {
        return Vec::new();
    }
    vec![UnnamedCaveat {
        text: format!(
            "{} on fewer blocks than the study asks for at least; their intervals lean on the noise being normal.",
            rests(few.len())
        ),
        evidence: format!(
            "{} blocks, at least {least} asked for",
            span(&blocks, |b| b.to_string())
        ),
        remedy: longer(view),
        cells: cells_of(&few),
    }]
}

fn rests(n: usize) -> String {
    let verb = if n == 1 { "rests" } else { "rest" };
    format!("{} {verb}", phrases::count(n, "comparison"))
}

pub(super) fn imprecise(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let asked = view.input.manifest.study.precision;
    let first = || view.findings.iter().filter(|f| f.first);
    let wide: Vec<&Finding> = first().filter(|f| half_width(f) > asked).collect();
    let widths: Vec<f64> = wide.iter().map(|f| half_width(f)).collect();
    if wide.is_empty() {
        return Vec::new();
    }
    let verb = if wide.len() == 1 { "is" } else { "are" };
    vec![UnnamedCaveat {
        text: format!(
            "{} of {} in the first metric {verb} less precise than the ± {} that the study asks for.",
            wide.len(),
            phrases::count(first().count(), "comparison"),
            percent(asked)
        ),
        evidence: format!("95 % intervals of ± {}", span(&widths, percent)),
        remedy: precise_enough(view, widths.iter().copied().fold(0.0, f64::max) / asked),
        cells: cells_of(&wide),
    }]
}

/// What brings intervals down that are `times` too wide: time, which goes with the square, or,
/// where that would be far too much, less noise.
fn precise_enough(view: &View<'_>, times: f64) -> String {
    let square = times * times;
    if square > MOST_TIMES_LONGER {
        return "a quieter machine or fewer cells; more time alone would hardly do".to_owned();
    }
    let seconds = view.input.manifest.study.budget_ms as f64 / 1e3 * square;
    format!(
        "a longer run, such as --budget {:.0}s, or fewer cells",
        (seconds / 10.0).ceil() * 10.0
    )
}

fn longer(view: &View<'_>) -> String {
    let seconds = view.input.manifest.study.budget_ms.div_ceil(1000);
    format!(
        "a longer run, such as --budget {}s, or fewer cells",
        seconds.saturating_mul(3)
    )
}

fn cells_of(findings: &[&Finding]) -> Vec<String> {
    findings.iter().map(|f| f.cell.clone()).unique().collect()
}

/// Trends over blocks within cells and legs, corrected over all, and larger than what matters.
pub(super) fn drift(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let metric = view.main_metric();
    let mut trends = Vec::new();
    let legs = |cell| legs::by_leg(view.input.manifest, cell).into_values();
    let stretches = view
        .measured()
        .flat_map(|cell| legs(cell).map(move |trials| (cell, trials)));
    for (cell, trials) in stretches {
        let logs: Vec<f64> = trials
            .iter()
            .filter_map(|t| t.value(metric).known())
            .filter(|v| *v > 0.0)
            .map(f64::ln)
            .collect();
        if logs.len() < FEWEST_FOR_TREND {
            continue;
        }
        if let Some(trend) = mann_kendall(&logs) {
            let change = exp((trend.slope * (logs.len() - 1) as f64).abs()) - 1.0;
            trends.push((cell.id.clone(), trend.p, change));
        }
    }
    let corrected = holm(&trends.iter().map(|(_, p, _)| *p).collect::<Vec<f64>>());
    let matters = view.input.manifest.study.smallest_effect;
    let mut cells = Vec::new();
    let mut changes = Vec::new();
    for ((id, _, change), p) in trends.into_iter().zip(corrected) {
        if p < ERROR_RATE && change > matters {
            cells.push(id);
            changes.push(change);
        }
    }
    cells.dedup();
    if cells.is_empty() {
        return Vec::new();
    }
    vec![UnnamedCaveat {
        text: format!(
            "The {} of {} rose or fell steadily during the run. Comparisons are paired within blocks and stand; numbers of single cells depend on when they were taken.",
            phrases::metric(metric, view.trials.unit),
            phrases::count(cells.len(), "cell")
        ),
        evidence: format!(
            "change from the first block to the last {}",
            span(&changes, percent)
        ),
        remedy: "let the machine settle (temperature, frequency, other guests) and run again"
            .to_owned(),
        cells,
    }]
}

pub(super) fn who_pays(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let of = |side| Metric {
        measure: Measure::CpuSPerGb,
        side,
    };
    let share = |t: &Trial<'_>| {
        let sender = t.value(of(Side::Sender)).known()?;
        let both = t.value(of(Side::Both)).known()?;
        (both > 0.0 && t.sample.receiver.is_some()).then(|| sender / both)
    };
    let shows = |cell: &CellTrials<'_>| {
        let shares: Vec<f64> = cell.trials().filter_map(share).collect();
        let spread = quantile(&shares, 0.9)? - quantile(&shares, 0.1)?;
        (shares.len() >= FEWEST_FOR_TREND && spread > SHIFT).then_some([Some(spread)])
    };
    of_cells(view.measured(), shows, |_, [spreads]| {
        (
            "The split of CPU time between sender and receiver varies from trial to trial. Use the sum of both.".to_owned(),
            format!(
                "the sender's share of the CPU time spreads over {} points of 100 from its 10 % to its 90 % quantile",
                span(&spreads, |s| units::number((100.0 * s).round()))
            ),
            "--placement, so that each end stays on its CPU",
        )
    })
}
