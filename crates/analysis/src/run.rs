//! The facts of a run and of its study: what was planned, measured and repeated, and how precisely.

use bytecost_spec::axis::AXES;
use bytecost_spec::sample::last_short_windows;
use bytecost_spec::study::Family;
use bytecost_spec::{Axis, Cell, Manifest, Sample, Study, Value};
use bytecost_stats::{FEWEST_ROUNDS, median};
use itertools::Itertools as _;

use crate::confidence::ERROR_RATE;
use crate::grouping::grouped;
use crate::input::Input;
use crate::progress::noise;
use crate::result::{
    FileFacts, Finding, PlanFacts, Precision, RoundFacts, RoundSource, RunFacts, RunNote,
    StudyFacts,
};
use crate::stages::Judged;
use crate::trials::{CellTrials, Trials};

pub(crate) fn study_facts(manifest: &Manifest, trials: &Trials<'_>) -> StudyFacts {
    let study = &manifest.study;
    // Cells that move nothing are left out, unless the study has no others.
    let has_movers = trials.moving().next().is_some();
    let cells: Vec<&CellTrials<'_>> = (trials.cells.iter())
        .filter(|c| !has_movers || !c.idle)
        .collect();
    let (mut varied, mut constants) = (Vec::new(), Vec::new());
    for row in AXES {
        let axis = row.axis;
        let mut values = cells
            .iter()
            .filter(|c| c.facts.applies(axis))
            .map(|c| c.cell.value(axis));
        let Some(first) = values.next() else { continue };
        if values.any(|value| value != first) {
            varied.push(axis);
        } else if axis != Axis::Server || first != row.default {
            constants.push((axis, first));
        }
    }
    StudyFacts {
        name: study.name.clone(),
        design: study.design.clone(),
        title: study.title.clone(),
        question: study.question.clone(),
        prediction: study.prediction.clone(),
        smallest_effect: study.smallest_effect,
        precision: study.precision,
        level: crate::confidence::LEVEL,
        warmup_ms: study.warmup_ms,
        window_ms: study.window_ms,
        constants,
        varied,
        asked: asked(study),
        unit: trials.unit,
    }
}

/// The axes that a study varies or an option names, each with its values in all tiers of the study.
fn asked(study: &Study) -> Vec<(Axis, Vec<Value>)> {
    let mut by_axis = grouped(
        study
            .tiers
            .iter()
            .flat_map(|tier| &tier.axes)
            .flat_map(|(axis, values)| values.iter().map(|value| (*axis, value.clone()))),
    );
    for (_, values) in &mut by_axis {
        *values = values.drain(..).unique().collect();
    }
    by_axis.retain(|(axis, values)| values.len() > 1 || study.asked.contains(axis));
    by_axis
}

pub(crate) fn run_facts(run: &Judged<'_>) -> RunFacts {
    let (input, trials, findings) = (run.measured.input, run.measured.trials, &run.findings);
    let manifest = input.manifest;
    let measured_ms = first_to_last_trial_ms(input);
    let budget_ms = manifest.study.budget_ms;
    let is_over_budget = measured_ms as f64 > 1.1 * budget_ms as f64;
    let block_counts = trials.cells.iter().map(|c| c.by_block.len());
    let blocks = block_counts.filter(|n| *n > 0).min().unwrap_or(0);
    let is_superseded = |s: &&Sample| {
        let counting = trials.counting_attempts.get(&s.trial.block);
        counting.is_some_and(|attempt| *attempt != s.trial.attempt)
    };
    RunFacts {
        id: manifest.id.clone(),
        started: manifest.started.clone(),
        bytecost_version: manifest.bytecost_version.clone(),
        command: manifest.command.clone(),
        seed: manifest.seed,
        measured_s: measured_ms as f64 / 1e3,
        over_budget_s: is_over_budget.then(|| budget_ms as f64 / 1e3),
        blocks: u32::try_from(blocks).unwrap_or(u32::MAX),
        trials: input.samples.len(),
        repeated: input.samples.iter().filter(is_superseded).count(),
        failed: input.failures.len(),
        widest_interval: primary(findings)
            .map(Finding::half_width)
            .max_by(f64::total_cmp),
        plan: plan(run),
        rounds: rounds(manifest, trials, findings),
        notes: notes(input, measured_ms, is_over_budget),
        files: manifest.survey.files.as_ref().map(|f| FileFacts {
            path: f.user_file.as_ref().unwrap_or(&f.dir).clone(),
            is_of_user: f.user_file.is_some(),
            file_system: f.file_system.clone(),
        }),
        java: manifest.survey.java.clone(),
        places: crate::places::places(trials),
        ended_early: input.ended_early.map(str::to_owned),
    }
}

fn primary(findings: &[Finding]) -> impl Iterator<Item = &Finding> {
    findings.iter().filter(|f| f.family == Family::Primary)
}

/// Time from the start of the first trial to the end of the last, in ms. A failed trial has a start alone.
fn first_to_last_trial_ms(input: &Input<'_>) -> u64 {
    let (starts, ends): (Vec<u64>, Vec<u64>) = (input.samples.iter())
        .map(|s| (s.started_ms, s.started_ms.saturating_add(s.trial_ms)))
        .chain(input.failures.iter().map(|f| (f.started_ms, f.started_ms)))
        .unzip();
    let first = starts.iter().min().copied().unwrap_or_default();
    ends.iter()
        .max()
        .map_or(0, |last| last.saturating_sub(first))
}

/// The notes on the course of a run: a longer time than its budget, longer windows, and resumptions.
fn notes(input: &Input<'_>, measured_ms: u64, is_over_budget: bool) -> Vec<RunNote> {
    let manifest = input.manifest;
    let over_budget = is_over_budget.then_some(RunNote::OverBudget {
        measured_ms,
        budget_ms: manifest.study.budget_ms,
        min_blocks: manifest.study.blocks_least,
    });
    let resumed = manifest.looks.last().map(|blocks| RunNote::Resumed {
        times: manifest.looks.len(),
        last_blocks: *blocks,
        rate: ERROR_RATE * manifest.rate_share(),
        total_rate: ERROR_RATE * (2.0 - manifest.rate_share()),
    });
    let mut notes: Vec<RunNote> = over_budget.into_iter().collect();
    notes.extend(longer_window_notes(input));
    notes.extend(resumed);
    notes
}

/// A note for each cell whose windows became longer during the run, with the number of its earlier trials,
/// which do not count.
fn longer_window_notes(input: &Input<'_>) -> Vec<RunNote> {
    let Some(last_block) = input.blocks.last() else {
        return Vec::new();
    };
    let short_windows = last_short_windows(input.blocks);
    let note = |cell: &Cell| {
        let id = cell.id();
        let times = *last_block.longer.get(&id)?;
        let last_short = *short_windows.get(id.as_str())?;
        let is_dropped = |s: &&Sample| s.cell == id && s.trial.attempt_at_block() <= last_short;
        Some(RunNote::LongerWindows {
            // The next block, counted from 1.
            first_block: last_short.0 + 2,
            times,
            dropped: input.samples.iter().filter(is_dropped).count(),
            cell: id,
        })
    };
    let cells = input.cells.iter().filter(|cell| !cell.twin);
    cells.filter_map(note).collect()
}

fn rounds(manifest: &Manifest, trials: &Trials<'_>, findings: &[Finding]) -> Option<RoundFacts> {
    let deviations = findings.iter().map(|f| f.between_deviation).collect_vec();
    let rounds = trials.rounds();
    Some(RoundFacts {
        deviation: median(&deviations)?,
        source: match manifest.rounds.runs.len() {
            _ if rounds >= FEWEST_ROUNDS => RoundSource::OwnRounds(rounds),
            0 => RoundSource::Assumed,
            runs => RoundSource::EarlierRuns(runs),
        },
    })
}

fn plan(run: &Judged<'_>) -> Option<PlanFacts> {
    let manifest = run.measured.input.manifest;
    let planned = manifest.plan.expectation.as_ref()?;
    let primary = primary(&run.findings).collect_vec();
    let comparisons = run.measured.comparisons.of_study.iter();
    let asked_primary = comparisons.filter(|c| c.asked.family() == Family::Primary);
    let typical =
        |value: fn(&Finding) -> f64| median(&primary.iter().map(|f| value(f)).collect_vec());
    let reached = noise(manifest, asked_primary).and_then(|noise| {
        Some(Precision {
            blocks: typical(|f| f.blocks as f64)?.round() as u32,
            noise: noise.deviation,
            detectable: typical(|f| f.detectable).filter(|effect| effect.is_finite()),
        })
    });
    Some(PlanFacts {
        expected: Precision {
            blocks: planned.blocks,
            noise: planned.noise.deviation,
            detectable: planned.smallest_effect.filter(|effect| effect.is_finite()),
        },
        noise_run: planned.noise.run.clone(),
        reached,
        comparisons: primary.len(),
        decided: primary.iter().filter(|f| f.is_decided()).count(),
    })
}
