//! The run and the study in a few facts.

use bytecost_spec::axis::AXES;
use bytecost_spec::sample::last_short_windows;
use bytecost_spec::study::Family;
use bytecost_spec::{Axis, Cell, Manifest, Sample, Study, Value, units};
use bytecost_stats::{FEWEST_ROUNDS, median};
use itertools::Itertools as _;

use crate::confidence::ERROR_RATE;
use crate::grouping::grouped;
use crate::phrases;
use crate::progress::noise_of;
use crate::result::{Finding, Input, RunFacts, StudyFacts, Verdict};
use crate::stages::Judged;
use crate::trials::{CellTrials, Trials};

pub(crate) fn study_facts(manifest: &Manifest, trials: &Trials<'_>) -> StudyFacts {
    let study = &manifest.study;
    // The cells that move nothing stand beside the question, unless nothing else is asked.
    let some = trials.moving().next().is_some();
    let cells: Vec<&CellTrials<'_>> = (trials.cells.iter()).filter(|c| !some || !c.idle).collect();
    // An axis is of the study where it applies to some of its cells, and varied where it takes
    // several values in those.
    let (mut varied, mut constants) = (Vec::new(), Vec::new());
    for row in AXES {
        let axis = row.axis;
        let applies = cells.iter().filter(|c| c.facts.applies(axis));
        let mut values = applies.map(|c| c.cell.value(axis));
        let Some(first) = values.next() else { continue };
        match values.any(|value| value != first) {
            true => varied.push(axis),
            // Of movers nobody asks which server they are.
            false if axis == Axis::Server && first == row.default => {}
            false => constants.push((axis, first)),
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

/// The values of each axis that the parts of a study name together, where they are several or the
/// command line names the axis.
fn asked(study: &Study) -> Vec<(Axis, Vec<Value>)> {
    let named = study.tiers.iter().flat_map(|tier| &tier.axes);
    let named = named.flat_map(|(axis, values)| values.iter().map(|value| (*axis, value.clone())));
    let mut by_axis = grouped(named);
    for (_, values) in &mut by_axis {
        *values = values.drain(..).unique().collect();
    }
    by_axis.retain(|(axis, values)| values.len() > 1 || study.asked.contains(axis));
    by_axis
}

/// What the earlier looks at a run cost that went on.
fn looks(manifest: &Manifest) -> Option<String> {
    let last = manifest.looks.last()?;
    let times = match manifest.looks.len() {
        1 => "once".to_owned(),
        n => format!("{n} times"),
    };
    let rate = |share: f64| units::percent(ERROR_RATE * share);
    Some(format!(
        "The run had ended {times} before it went on, the last time after {last} blocks, and its verdicts could be seen. Each look halves the error rate of the next: verdicts of now are given at {}, and all reports of the run together give a false one in at most {} of runs.",
        rate(manifest.rate_share()),
        rate(2.0 - manifest.rate_share()),
    ))
}

pub(crate) fn run_facts(run: &Judged<'_>) -> RunFacts {
    let (input, trials, findings) = (run.input, run.trials, &run.findings);
    let manifest = input.manifest;
    let samples = || input.samples.iter();
    let failed = input.failures.iter().map(|f| (f.started_ms, f.started_ms));
    let spans = samples().map(|s| (s.started_ms, s.started_ms.saturating_add(s.trial_ms)));
    let (starts, ends): (Vec<u64>, Vec<u64>) = spans.chain(failed).unzip();
    let span = ends.iter().max().zip(starts.iter().min());
    let measured_ms = span.map_or(0, |(last, first)| last.saturating_sub(*first));
    let blocks = trials.cells.iter().map(|c| c.by_block.len());
    let blocks = blocks.filter(|n| *n > 0).min().unwrap_or(0);
    let budget_ms = manifest.study.budget_ms;
    let over_budget = (measured_ms as f64 > 1.1 * budget_ms as f64).then_some(budget_ms);
    let is_repeated = |s: &&Sample| {
        let counts = trials.attempts.get(&s.trial.block);
        counts.is_some_and(|attempt| *attempt != s.trial.attempt)
    };
    let took_longer = over_budget.map(|ms| took_longer(manifest, measured_ms, ms));
    // What the plan notes is a caveat.
    let notes = (took_longer.into_iter())
        .chain(longer_windows(*input))
        .chain(looks(manifest))
        .collect();
    let primary = findings.iter().filter(|f| f.family == Family::Primary);
    RunFacts {
        id: manifest.id.clone(),
        started: manifest.started.clone(),
        bytecost_version: manifest.bytecost_version.clone(),
        command: manifest.command.clone(),
        seed: manifest.seed,
        measured_s: measured_ms as f64 / 1e3,
        over_budget_s: over_budget.map(|ms| ms as f64 / 1e3),
        blocks: u32::try_from(blocks).unwrap_or(u32::MAX),
        trials: input.samples.len(),
        repeated: samples().filter(is_repeated).count(),
        failed: input.failures.len(),
        widest_interval: primary.map(Finding::half_width).max_by(f64::total_cmp),
        plan: plan(manifest, trials, findings),
        rounds: rounds(manifest, trials, findings),
        notes,
        files: manifest.survey.files.as_ref().map(|f| match &f.user_file {
            Some(path) => format!("the file {path}, on {}", f.file_system),
            None => format!("test files in {}, on {}", f.dir, f.file_system),
        }),
        java: manifest.survey.java.clone(),
        places: crate::places::sentences(trials),
        ended_early: input.ended_early.map(str::to_owned),
    }
}

fn took_longer(manifest: &Manifest, measured_ms: u64, budget_ms: u64) -> String {
    format!(
        "Measuring took {} s, more than the budget of {} s: {} blocks are measured in any case, and windows that are too short grow in the first ones.",
        measured_ms.div_ceil(1000),
        budget_ms.div_ceil(1000),
        manifest.study.blocks_least
    )
}

/// The cells whose windows became longer, and the trials that they lost by it.
fn longer_windows(input: Input<'_>) -> Vec<String> {
    let last = input.blocks.last();
    let times = |cell: &Cell| last.and_then(|block| block.longer.get(&cell.id()));
    let short_windows = last_short_windows(input.blocks);
    let note = |cell: &Cell| {
        let (times, id) = (times(cell)?, cell.id());
        let last = *short_windows.get(id.as_str())?;
        let is_dropped = |s: &&Sample| s.cell == id && s.trial.attempt_at_block() <= last;
        let dropped = input.samples.iter().filter(is_dropped).count();
        Some(format!(
            "A flow of {id} moved nothing in its window: from block {} on its windows are {times} times as long, and its earlier {} {} count.",
            last.0 + 2,
            units::count(dropped, "trial"),
            if dropped == 1 { "does not" } else { "do not" }
        ))
    };
    let cells = input.cells.iter().filter(|cell| !cell.twin);
    cells.filter_map(note).collect()
}

/// How much ratios differ from round to round, and how that is known.
fn rounds(manifest: &Manifest, trials: &Trials<'_>, findings: &[Finding]) -> Option<String> {
    let deviations = findings.iter().map(|f| f.between_deviation).collect_vec();
    let apart = phrases::from_run_to_run(median(&deviations)?);
    let own = trials.rounds();
    let source = match manifest.rounds.runs.len() {
        _ if own >= FEWEST_ROUNDS => format!("from the {own} rounds of this run"),
        0 => "assumed: fewer than three earlier runs of this machine measured it".to_owned(),
        earlier => format!(
            "from {} of this machine",
            units::count(earlier, "earlier run")
        ),
    };
    Some(format!("{apart} ({source})"))
}

/// What the plan expected of the primary comparisons, and what came of it.
fn plan(manifest: &Manifest, trials: &Trials<'_>, findings: &[Finding]) -> Option<String> {
    let planned = manifest.plan.expectation.as_ref()?;
    let told = |effect: Option<f64>, deviation: f64, blocks: u32| {
        let blocks = units::count(blocks as usize, "block");
        let effect = effect.filter(|e| e.is_finite()).map(units::percent);
        let effect = effect.map(|e| format!(", effects above {e} found 80 % of the time"));
        let (noise, effect) = (units::percent(deviation), effect.unwrap_or_default());
        format!("{blocks}, noise of a ratio {noise}{effect}")
    };
    let source = match &planned.noise.run {
        Some(run) => format!("measured by run {run}"),
        None => "assumed".to_owned(),
    };
    let noise = planned.noise.deviation;
    let of_plan = told(planned.smallest_effect, noise, planned.blocks);
    let is_primary = |f: &&Finding| f.family == Family::Primary;
    let primary = findings.iter().filter(is_primary).collect_vec();
    let came = noise_of(manifest, trials).and_then(|noise| {
        let typical =
            |of: fn(&Finding) -> f64| median(&primary.iter().map(|f| of(f)).collect_vec());
        let blocks = typical(|f| f.blocks as f64)?.round() as u32;
        let decided = primary.iter().filter(|f| f.verdict != Verdict::NotDecided);
        let decided = decided.filter(|f| f.withheld.is_none()).count();
        let came = told(typical(|f| f.detectable), noise.deviation, blocks);
        Some(format!("{came}; {decided} of {} decided", primary.len()))
    });
    let came = came.unwrap_or_else(|| "too few blocks to say".to_owned());
    Some(format!("planned: {of_plan} (noise {source}); came: {came}"))
}
