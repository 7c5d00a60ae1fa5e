//! Caveats about the course of the run and its numbers: failures, precision, drift.

use bytecost_spec::manifest::Leg;
use bytecost_spec::{Failure, Measure, Metric, Side, units};
use bytecost_stats::{holm, mann_kendall, quantile};
use itertools::Itertools as _;

use super::{Caveat, caveat, ids, in_cells, of_run, span, spans};
use crate::confidence::ERROR_RATE;
use crate::contrast::Comparison;
use crate::grouping::by_key;
use crate::logs::exp;
use crate::phrases::{self, percent};
use crate::stages::Measured;
use crate::trials::{CellTrials, Trials};
use crate::value::{Trial, served};

/// Fewest blocks over which a trend is looked for.
const FEWEST_FOR_TREND: usize = 8;
/// How far the sender's share of the CPU time may spread, from the 10 % to the 90 % quantile.
const SHIFT: f64 = 0.1;

/// Share of a cell's trials up to which failures are left out and its verdicts stand.
const MANY_FAILED: f64 = 0.05;
const FAILED_REMEDY: &str = "remove the cause that the reason names and run again";

/// How many times longer a run is worth asking for.
const MOST_TIMES_LONGER: f64 = 30.0;

pub(super) fn changed_plan(run: &Measured<'_>) -> Vec<Caveat> {
    let notes = run.input.notes.iter();
    let caveats = notes.filter_map(|note| {
        of_run(
            format!(
                "Not all is as it was asked: {}.",
                note.trim_end_matches('.')
            ),
            "the plan of this run",
            "`bytecost doctor` for what this machine lacks, --budget for what took too long",
        )
    });
    caveats.collect()
}

/// Blocks are measured again for what others did, which no mover can bring about. That this does
/// not choose among outcomes is shown by the first attempts: both must say the same.
pub(super) fn repeats_matter(run: &Measured<'_>) -> Option<Caveat> {
    let input = run.input;
    let first = Trials::first_attempts(input)?;
    let smallest_effect = input.manifest.study.smallest_effect.ln_1p();
    let shifts = run.comparisons.iter().filter_map(|kept| {
        let pairing = kept.pairing().within(&first).filter(|_| kept.is_first())?;
        let first = first.contrast(pairing, kept.metric())?;
        let shift = (kept.contrast.location.value - first.location.value).abs();
        let matters = shift > smallest_effect;
        matters.then(|| (kept.pairing().other.id.clone(), exp(shift) - 1.0))
    });
    let (cells, shifts): (Vec<_>, Vec<_>) = shifts.unzip();
    let (all, shift) = (
        phrases::count(cells.len(), "comparison"),
        span(&shifts, percent),
    );
    caveat(
        format!(
            "In {all} the result depends on whether blocks that other processes disturbed are left out."
        ),
        format!(
            "first attempts and those that stand differ by {shift}, more than the smallest effect"
        ),
        "stop other programs and run again",
        cells,
    )
}

/// The command that resumes the run.
fn resume(run: &Measured<'_>) -> String {
    let manifest = run.input.manifest;
    let words = ["bytecost", "run", "--resume", &manifest.id];
    phrases::command_of_run(&words, &manifest.command) + phrases::peer_again(manifest)
}

pub(super) fn ended_early(run: &Measured<'_>) -> Option<Caveat> {
    let why = run.input.ended_early?.trim_end_matches('.');
    let samples = phrases::count(run.input.samples.len(), "sample");
    of_run(
        format!("The run ended before its time: {why}."),
        format!("{samples} of the log"),
        resume(run),
    )
}

pub(super) fn missing_trials(run: &Measured<'_>) -> Option<Caveat> {
    let resume = resume(run);
    of_run(
        "The log is not whole: trials of this run are lost.",
        run.input.damage?,
        format!("restore samples.jsonl from a copy, or measure them again: {resume}"),
    )
}

/// A mover whose bytes were wrong once is not known to do what it is measured for.
pub(super) fn wrong_bytes(run: &Measured<'_>) -> Vec<Caveat> {
    let is_wrong = |c: &CellTrials<'_>| {
        let failed = c.failures.iter().any(|f| f.has_wrong_bytes());
        failed || c.trials().any(|t| served::wrong_answers(t.sample) > 0.0)
    };
    let way = |c: &CellTrials<'_>| (c.cell.mover.clone(), c.cell.serving.server.clone());
    let all = || run.trials.moving();
    let ways = all().filter(|c| is_wrong(c)).map(way).unique();
    let told = ways.filter_map(|wrong| {
        let own = all().filter(|c| way(c) == wrong).collect_vec();
        let failures = own.iter().flat_map(|c| c.failures.iter().copied());
        let of_bytes = failures.filter(|f| f.has_wrong_bytes()).collect_vec();
        let answers = own.iter().flat_map(|c| c.trials());
        let answers = answers.map(|t| served::wrong_answers(t.sample));
        let evidence = match first_of(&of_bytes) {
            Some(first) => format!("{}, {first}", phrases::count(of_bytes.len(), "trial")),
            None => format!("{} wrong answers", units::number(answers.sum())),
        };
        let name = wrong.1.as_ref().unwrap_or(&wrong.0);
        caveat(
            format!("`{name}` delivered wrong bytes. Nothing is said of it."),
            evidence,
            "a kernel, or a version of bytecost, without this fault: please report it",
            ids(own),
        )
    });
    told.collect()
}

fn first_of(failures: &[&Failure]) -> Option<String> {
    let reason = failures.first()?.reason.trim_end_matches('.');
    Some(format!("the first: {reason}"))
}

/// The share of the trials of a cell and of its twin that failed, with those that stood still or not;
/// with them, at least their share of the time.
fn failed_share(cell: &CellTrials<'_>, still: bool) -> f64 {
    let begun = cell.failures.len() + cell.by_block.len() + cell.twin.len();
    let failed = cell.failures.iter().filter(|f| still || !f.stood_still());
    let share = failed.count() as f64 / begun.max(1) as f64;
    let of_time = cell.stood_still().filter(|_| still).map(|s| s.share);
    of_time.map_or(share, |of_time| of_time.max(share))
}

/// Whether a caveat of its own tells of the failures of this kind.
fn many_failed(cell: &CellTrials<'_>, still: bool) -> bool {
    let is_own = |f: &&Failure| f.stood_still() == still;
    cell.failures.iter().any(is_own) && failed_share(cell, still) > MANY_FAILED
}

fn many(run: &Measured<'_>, still: bool, text: &str, remedy: &str) -> Option<Caveat> {
    let are_many = |c: &&CellTrials<'_>| many_failed(c, still);
    let cells = run.measured().filter(are_many).collect_vec();
    let shares = cells.iter().map(|c| failed_share(c, still)).collect_vec();
    let shares = span(&shares, percent);
    let mut failures = cells.iter().flat_map(|c| c.failures.iter().copied());
    let first = first_of(&[failures.find(|f| f.stood_still() == still)?])?;
    let (many, place) = (percent(MANY_FAILED), in_cells(cells.len()));
    let of = if still { "trials or time" } else { "trials" };
    let text = format!("More than {many} of the {of} {place} {text}");
    let evidence = format!("{shares} of their {of}, {first}");
    caveat(text, evidence, remedy, ids(cells))
}

pub(super) fn many_failed_trials(run: &Measured<'_>) -> Option<Caveat> {
    let text = "failed: those that did not may be the lucky ones.";
    many(run, false, text, FAILED_REMEDY)
}

/// CPU time per byte is that of all windows, since these have neither bytes nor CPU time.
pub(super) fn stood_still(run: &Measured<'_>) -> Option<Caveat> {
    let text = "stood still for a whole window, or failed, and were left out: rates and latencies are those of a flow that moves.";
    many(run, true, text, "a longer --window, with what waits cost")
}

/// The failures that stood still, or the others, of which no caveat of many speaks, with their cells.
fn few<'v>(run: &'v Measured<'v>, still: bool) -> (Vec<&'v CellTrials<'v>>, Vec<&'v Failure>) {
    let rest = run.trials.cells.iter().flat_map(|c| {
        let are_many = !c.by_block.is_empty() && many_failed(c, still);
        let own = c.failures.iter().copied();
        let own = own.filter(move |f| f.stood_still() == still && !are_many);
        own.map(move |f| (c, f))
    });
    let (failed, failures): (Vec<_>, Vec<_>) = rest.unzip();
    let failed = failed.into_iter().unique_by(|c| &c.id).collect_vec();
    (failed, failures)
}

/// A stall is what the flow does on this path, and no fault of the trial.
pub(super) fn stalled_trials(run: &Measured<'_>) -> Option<Caveat> {
    let (cells, failures) = few(run, true);
    let (trials, place) = (
        phrases::count(failures.len(), "trial"),
        in_cells(cells.len()),
    );
    let shares = cells.iter().filter_map(|c| Some(c.stood_still()?.share));
    let shares = shares.collect_vec();
    let lower = match shares.as_slice() {
        [] => String::new(),
        shares => format!(
            "; with their time mean rates are {} lower",
            span(shares, percent)
        ),
    };
    caveat(
        format!(
            "{trials} {place} stood still for a whole window, and rates leave them out{lower}. CPU time per byte is that of all windows."
        ),
        first_of(&failures)?,
        "the remedy of the stall, which the evidence names",
        ids(cells),
    )
}

pub(super) fn failed_trials(run: &Measured<'_>) -> Option<Caveat> {
    let (failed, failures) = few(run, false);
    let number = failures.len();
    let (trials, place) = (phrases::count(number, "trial"), in_cells(failed.len()));
    let verb = if number == 1 { "was" } else { "were" };
    caveat(
        format!(
            "{trials} {place} failed and {verb} left out. What made them fail may have affected others."
        ),
        first_of(&failures)?,
        FAILED_REMEDY,
        ids(failed),
    )
}

pub(super) fn few_blocks(run: &Measured<'_>) -> Option<Caveat> {
    let study = &run.input.manifest.study;
    let least = study.blocks_least as usize;
    let few = run.comparisons.iter();
    let few = few.filter(|c| c.is_judged() && c.blocks() < least);
    let few = few.collect_vec();
    let blocks = few.iter().map(|c| c.blocks() as f64).collect_vec();
    let blocks = span(&blocks, |b| b.to_string());
    let all = phrases::count(few.len(), "comparison");
    let verb = if few.len() == 1 { "rests" } else { "rest" };
    caveat(
        format!(
            "{all} {verb} on fewer blocks than the study asks for at least; their intervals lean on the noise being normal."
        ),
        format!("{blocks} blocks, at least {least} asked for"),
        longer(study.budget_ms.div_ceil(1000).saturating_mul(3)),
        cells_of(&few),
    )
}

pub(super) fn imprecise(run: &Measured<'_>) -> Option<Caveat> {
    let asked = run.input.manifest.study.precision;
    let first = || run.comparisons.iter().filter(|c| c.is_first());
    let wide = first().filter(|c| c.half_width() > asked).collect_vec();
    let widths = wide.iter().map(|c| c.half_width()).collect_vec();
    let (n, verb) = (wide.len(), if wide.len() == 1 { "is" } else { "are" });
    let (all, wanted) = (
        phrases::count(first().count(), "comparison"),
        percent(asked),
    );
    // Time goes with the square of the width.
    let square = (widths.iter().copied().fold(0.0, f64::max) / asked).powi(2);
    let seconds = run.input.manifest.study.budget_ms as f64 / 1e3 * square;
    caveat(
        format!(
            "{n} of {all} in the first metric {verb} less precise than the ± {wanted} that the study asks for."
        ),
        format!("95 % intervals of ± {}", span(&widths, percent)),
        match square > MOST_TIMES_LONGER {
            true => {
                "a quieter machine or fewer cells; more time alone would hardly make all as precise"
                    .to_owned()
            }
            false => longer((seconds / 10.0).ceil() as u64 * 10),
        },
        cells_of(&wide),
    )
}

fn longer(seconds: u64) -> String {
    format!("a longer run, such as --budget {seconds}s, or fewer cells")
}

fn cells_of(comparisons: &[&Comparison<'_>]) -> Vec<String> {
    let others = comparisons.iter().map(|c| c.pairing().other.id.clone());
    others.unique().collect()
}

/// Trends over blocks within cells and legs, corrected over all, and larger than what matters.
pub(super) fn drift(run: &Measured<'_>) -> Option<Caveat> {
    let metric = run.main_metric();
    let stretches = run.measured().flat_map(|cell| {
        let trials = cell.by_block.iter();
        let by_leg = by_key(trials.map(|(block, t)| (run.input.manifest.leg_of(*block), t)));
        by_leg.into_values().map(move |trials| (cell, trials))
    });
    let trends = stretches.filter_map(|(cell, trials)| {
        let known = trials.iter().filter_map(|t| t.value(metric));
        let logs = known.filter(|v| *v > 0.0).map(f64::ln).collect_vec();
        let trend = (logs.len() >= FEWEST_FOR_TREND).then(|| mann_kendall(&logs))??;
        let change = exp((trend.slope * (logs.len() - 1) as f64).abs()) - 1.0;
        Some((cell, trend.p, change))
    });
    let trends = trends.collect_vec();
    let corrected = holm(&trends.iter().map(|(_, p, _)| *p).collect_vec());
    let matters = run.input.manifest.study.smallest_effect;
    let shown = trends.into_iter().zip(corrected);
    let shown = shown.filter(|((.., change), p)| *p < ERROR_RATE && *change > matters);
    let (cells, changes): (Vec<_>, Vec<_>) = shown.map(|((c, _, change), _)| (c, change)).unzip();
    let cells = ids(cells.into_iter().dedup_by(|a, b| a.id == b.id));
    let (noun, all) = (run.words(metric), phrases::count(cells.len(), "cell"));
    caveat(
        format!(
            "The {noun} of {all} rose or fell steadily during the run. Comparisons are paired within blocks and stand; numbers of single cells depend on when they were taken."
        ),
        format!(
            "change from the first block to the last {}",
            span(&changes, percent)
        ),
        "let the machine settle (temperature, frequency, other guests) and run again",
        cells,
    )
}

pub(super) fn who_pays(run: &Measured<'_>) -> Option<Caveat> {
    let of = |side| Metric::of(Measure::CpuSPerGb, side);
    let share = |t: &Trial<'_>| {
        let sender = t.value(of(Side::Sender))?;
        let both = t.value(of(Side::Both))?;
        (both > 0.0 && t.sample.receiver.is_some()).then(|| sender / both)
    };
    let shows = |cell: &CellTrials<'_>| {
        let shares = cell.trials().filter_map(share).collect_vec();
        let spread = quantile(&shares, 0.9)? - quantile(&shares, 0.1)?;
        (shares.len() >= FEWEST_FOR_TREND && spread > SHIFT).then_some([Some(spread)])
    };
    let points = |s: f64| units::number((100.0 * s).round());
    let (cells, [spread]) = spans(run.measured(), shows, [points])?;
    caveat(
        "The split of CPU time between sender and receiver varies from trial to trial. Use the sum of both.",
        format!(
            "the sender's share of the CPU time spreads over {spread} points of 100 from its 10 % to its 90 % quantile"
        ),
        "`--placement pinned`, where it was free, so that each end stays on its CPU",
        cells,
    )
}

pub(super) fn several_legs(run: &Measured<'_>) -> Option<Caveat> {
    let manifest = run.input.manifest;
    let later = |c: &&CellTrials<'_>| c.by_block.keys().any(|block| manifest.leg_of(*block) > 0);
    let cells = run.trials.cells.iter().filter(later);
    let of_leg = |(leg, at): (&Leg, usize)| {
        let differences = leg.differences.iter();
        let differences = differences.map(|d| format!("{} was {}, is {}", d.what, d.was, d.is));
        let (first, told) = (leg.first_block, differences.format("; "));
        format!("leg {at} from block {first}: {told}")
    };
    caveat(
        "The run was resumed under other conditions, and has more than one leg. Comparisons are paired within blocks, and each block is of one leg; an interval includes what the legs differ by. Values of single cells mix the legs.",
        manifest.legs.iter().zip(2..).map(of_leg).join(". "),
        "run the study again without --resume",
        ids(cells),
    )
}

/// A run in twenty has one different twin of one; fewer than one in a hundred has as many as
/// these, if its intervals hold.
const CHANCE_LEAST: f64 = 0.01;

pub(super) fn twins_differ(run: &Measured<'_>) -> Option<Caveat> {
    let floor = run.noise_floor.as_ref();
    let floor = floor.filter(|f| f.chance < CHANCE_LEAST)?;
    let different = || run.twins.iter().filter(|t| t.different);
    let ratios = phrases::list(different().map(|t| phrases::ratio(t.ratio, t.low, t.high)));
    let (n, all) = (floor.different, phrases::count(floor.twins, "twin"));
    let [rate, chance] = [ERROR_RATE, floor.chance].map(percent);
    caveat(
        "More baselines differ from their own twins than chance explains. The intervals of this run are too narrow.",
        format!(
            "{n} of {all} came out different, {rate} would by chance; as many or more do so in {chance} of runs; their ratios: {ratios}"
        ),
        "stop other programs and run again; pin the threads with --placement",
        different().map(|t| t.cell.clone()).collect(),
    )
}
