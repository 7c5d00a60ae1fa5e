//! What the run does not say, and why.

use bytecost_spec::{Axis, Measure, Metric, units};

use crate::confidence::FEWEST;
use crate::grid;
use crate::phrases;
use crate::result::{AnswerSentence, CellResult, Finding, Verdict};
use crate::trials::CellTrials;
use crate::view::View;

/// How many times longer a run may be asked for before that is no help.
const LONGER: usize = 30;
/// Cells that are told one by one where there is nothing to compare.
const CELLS: usize = 6;

/// What was not decided, and what it would take.
pub(super) fn not_decided(view: &View<'_>) -> Option<AnswerSentence> {
    let open: Vec<&Finding> = view
        .findings
        .iter()
        .filter(|f| f.verdict == Verdict::NotDecided)
        .collect();
    if open.is_empty() {
        return None;
    }
    let blocks = open.iter().map(|f| f.blocks).max()?;
    let sensible = |n: &usize| *n <= LONGER * blocks;
    let needed: Vec<usize> = open
        .iter()
        .filter_map(|f| f.blocks_needed.map(|n| n as usize))
        .filter(sensible)
        .collect();
    let remedy = match needed.iter().max() {
        None => "a longer run would hardly decide them".to_owned(),
        Some(most) => {
            let budget = view.input.manifest.study.budget_ms as f64 / 1e3;
            let seconds = (budget * *most as f64 / blocks as f64 / 10.0).ceil() * 10.0;
            let which = if needed.len() == open.len() {
                "it".to_owned()
            } else {
                format!("{} of them", needed.len())
            };
            let most = phrases::count(*most, "block");
            format!("{which} would take about {most} instead of {blocks} (--budget {seconds:.0}s)")
        }
    };
    let all = phrases::count(view.findings.len(), "comparison");
    let verb = if open.len() == 1 { "is" } else { "are" };
    Some(AnswerSentence {
        sentence: format!("{} of {all} {verb} not decided; {remedy}.", open.len()),
        findings: open.iter().map(|f| f.id.clone()).collect(),
    })
}

/// What to say where there is no finding at all: why, and what was measured nevertheless.
pub(super) fn nothing_compared(view: &View<'_>, varied: &[Axis]) -> Vec<AnswerSentence> {
    let mut sentences = vec![why_nothing(view)];
    sentences.extend(cells(view, varied));
    sentences
        .into_iter()
        .map(|sentence| AnswerSentence {
            sentence,
            findings: Vec::new(),
        })
        .collect()
}

fn why_nothing(view: &View<'_>) -> String {
    if view.input.samples.is_empty() {
        let why = match (view.input.failures.first(), view.input.ended_early) {
            (Some(failure), _) => {
                format!(": every trial failed, the first with: {}", failure.reason)
            }
            (None, Some(why)) => format!(": {why}"),
            (None, None) if view.trials.cells.is_empty() => {
                ": no cell of the study can be had here; the refusals say why".to_owned()
            }
            (None, None) => ": no trial was run".to_owned(),
        };
        return format!("Nothing was measured{}.", why.trim_end_matches('.'));
    }
    let compares = &view.input.manifest.study.compare;
    let Some(compare) = compares.first() else {
        return "The study compares nothing; the numbers of its cells stand by themselves."
            .to_owned();
    };
    let base = compare.axis.subject(&compare.baseline);
    let of_base = |c: &&CellTrials<'_>| c.cell.value(compare.axis) == compare.baseline;
    let measured = || view.trials.moving().filter(|c| !c.by_block.is_empty());
    if !measured().any(|c| of_base(&c)) {
        return format!("Nothing can be compared: the baseline {base} has no trial.");
    }
    if measured().all(|c| of_base(&c)) {
        return format!("Nothing was compared: {base} alone was measured.");
    }
    let blocks = measured().map(|c| c.by_block.len()).min().unwrap_or(0);
    if blocks < FEWEST {
        let had = phrases::count(blocks, "block");
        return format!(
            "Nothing can be compared yet: the run has {had}, a comparison takes {FEWEST}."
        );
    }
    "Nothing could be compared: no metric of the study was had on both sides of a comparison."
        .to_owned()
}

/// The first cells with the metrics that the study asks about.
fn cells(view: &View<'_>, varied: &[Axis]) -> Vec<String> {
    let compare = view.input.manifest.study.compare.first();
    let metrics = compare.map_or_else(
        || {
            vec![
                Metric::both(Measure::CpuSPerGb),
                Metric::both(Measure::ThroughputGbitPerS),
            ]
        },
        |c| c.metrics.clone(),
    );
    let told = view.cells.iter().zip(&view.trials.cells);
    told.filter(|(_, trials)| !trials.idle)
        .filter_map(|(cell, _)| cell_sentence(cell, &metrics, varied))
        .take(CELLS)
        .collect()
}

fn cell_sentence(cell: &CellResult, metrics: &[Metric], varied: &[Axis]) -> Option<String> {
    let numbers: Vec<String> = metrics
        .iter()
        .take(2)
        .filter_map(|metric| {
            let estimate = cell.estimates.get(metric)?;
            let unit = metric.measure.row().unit;
            let interval = match (estimate.low, estimate.high) {
                (Some(low), Some(high)) => {
                    format!(
                        " (95 % interval {} to {})",
                        units::number(low),
                        units::number(high)
                    )
                }
                _ => String::new(),
            };
            let value = format!("{} {unit}", units::number(estimate.value));
            Some(format!(
                "{} {}{interval}",
                phrases::metric(*metric),
                value.trim_end()
            ))
        })
        .collect();
    if numbers.is_empty() {
        return None;
    }
    let rest: Vec<Axis> = varied
        .iter()
        .copied()
        .filter(|a| !matches!(a, Axis::Mover | Axis::Server))
        .collect();
    let place = match phrases::circumstances(&grid::coordinates(&cell.cell, &rest)) {
        place if place.is_empty() => Axis::Size.circumstance(&cell.cell.value(Axis::Size)),
        place => place,
    };
    let who = cell.cell.serving.server.as_ref();
    Some(format!(
        "`{}` {place}: {}.",
        who.unwrap_or(&cell.cell.mover),
        numbers.join(", ")
    ))
}
