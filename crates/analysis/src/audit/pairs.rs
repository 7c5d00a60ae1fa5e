//! Pairs of cells: a metric at one value of an axis over the same at another.

use bytecost_spec::claim::{Between, Contrast, Expected, Place};
use bytecost_spec::{Axis, Better, Measure, Metric, units};
use bytecost_stats::Location;
use itertools::Itertools as _;

use super::claim_test::{CaseResult, ClaimTest, Item, MORE_BLOCKS, Wanted, tested, with_interval};
use super::context::{ClaimContext, TIMERS, counts_calls};
use crate::confidence::ERROR_RATE;
use crate::contrast::PairContrast;
use crate::footprint::against;
use crate::grouping::by_key;
use crate::judged_pair::JudgedPair;
use crate::logs::exp;
use crate::pairing::Pairing;
use crate::phrases;
use crate::result::Verdict;
use crate::trials::CellTrials;

/// How an item begins that no counter has told.
const BY_TIMING: &str = "by timing";
/// What is said of such items.
const INSTEAD: &str = "No counter shows this: what is displaced from the caches of the sending CPU was found by timing (prime and probe) instead, and each interval stands by itself.";

pub(super) fn ratio(
    context: &ClaimContext<'_>,
    place: &Place,
    contrast: &Contrast,
    (metric, expect): Wanted,
) -> Result<ClaimTest, String> {
    let pairs = context.pairs(contrast, place)?;
    // To a count of calls a timer makes no difference.
    let counts = counts_calls(metric);
    let items = pairs.iter().map(|(pair, place)| Item {
        place: place.clone(),
        stalled: !counts && context.stalls_apart(pair),
        twin: twin(pair),
        ..compared(context, pair, (metric, expect))
    });
    let subject = subject(context, contrast, metric);
    let within = phrases::percent(context.run.input.manifest.study.smallest_effect);
    let near = finer(expect, context.smallest_effect());
    Ok(ClaimTest {
        note: context.copied_note(&pairs),
        near: near.map(|finer| format!("within {within}, not confirmed at {finer}")),
        ..ClaimTest::of(subject, expect.to_string(), "cell", items.collect())
    })
}

/// The difference up to which no difference is expected, where that is finer than what matters (a
/// log ratio): `0.5 %`.
fn finer(expect: Expected, smallest_effect: f64) -> Option<String> {
    let Expected::Within(low, high) = expect else {
        return None;
    };
    let is_finer = low <= 1.0 && -low.ln() < smallest_effect && high.ln() < smallest_effect;
    let percent = (1e3 * (high - 1.0)).round() / 10.0;
    (is_finer && high > 1.0).then(|| format!("{percent} %"))
}

/// ``throughput of `sendmsg` over `send-fields` ``.
fn subject(context: &ClaimContext<'_>, contrast: &Contrast, metric: Metric) -> String {
    let both = [&contrast.value, &contrast.against].map(|v| contrast.axis.subject(v));
    format!("{} of {}", context.words(metric), both.join(" over "))
}

/// The name of a pair without what timers it is under.
fn twin(pair: &Pairing<'_, '_>) -> String {
    let free = [&TIMERS[..], &[pair.axis, Axis::Reaping]].concat();
    pair.other.cell.id_without(&free)
}

/// A pair's ratio compared with what is expected, without its place.
pub(super) fn compared(context: &ClaimContext<'_>, pair: &Pairing<'_, '_>, of: Wanted) -> Item {
    let (metric, expect) = of;
    let cells = [pair.other, pair.baseline];
    let published = context.published_pair(cells.map(|c| c.cell), metric);
    let Some(contrast) = context.run.trials.contrast(*pair, metric) else {
        return Item {
            published,
            ..Item::of(CaseResult::Absent(context.absent(&cells, metric)))
        };
    };
    let judged = context.run.pair(*pair, metric);
    let ratio = contrast.ratio();
    let [value, low, high] = [ratio.value, ratio.low, ratio.high].map(times);
    Item {
        value: contrast.location.value,
        published,
        measured: Some(with_interval(value, &low, &high)),
        finding: judged.map(|j| j.finding.number),
        is_same: judged.is_some_and(is_same),
        ..Item::of(state(context, &contrast, judged, expect))
    }
}

fn times(ratio: f64) -> String {
    format!("{}×", units::number(ratio))
}

fn is_same(judged: JudgedPair<'_>) -> bool {
    judged.verdict() == Some(Verdict::NoDifferenceThatMatters)
}

/// What becomes of a pair. The run's own verdict stays as its report gives it.
fn state(
    context: &ClaimContext<'_>,
    contrast: &PairContrast<'_>,
    judged: Option<JudgedPair<'_>>,
    expect: Expected,
) -> CaseResult {
    if let Some(why) = context.withheld(contrast.metric, &contrast.pairing) {
        return CaseResult::Open(why);
    }
    let bound = context.smallest_effect();
    let is_same = judged.is_some_and(is_same);
    match expect {
        Expected::Above(1.0) => direction(context, contrast, judged, true),
        Expected::Below(1.0) => direction(context, contrast, judged, false),
        Expected::Alike if is_same => CaseResult::Met,
        Expected::Alike => {
            let alike = Expected::Within(exp(-bound), exp(bound));
            tested(&contrast.location, alike, f64::ln, context.family)
        }
        _ => match tested(&contrast.location, expect, f64::ln, context.family) {
            // What does not matter refutes nothing that is finer than what matters.
            CaseResult::NotMet if is_same && finer(expect, bound).is_some() => {
                CaseResult::Open("the difference is smaller than what matters".to_owned())
            }
            other => other,
        },
    }
}

/// Whether the other cell has more, or less. What is decided and smaller than what matters is met
/// by less; what is shown to be no difference that matters, and decided neither way, is not met.
fn direction(
    context: &ClaimContext<'_>,
    contrast: &PairContrast<'_>,
    judged: Option<JudgedPair<'_>>,
    wants_more: bool,
) -> CaseResult {
    let (location, bound) = (contrast.location, context.smallest_effect());
    let is_so = (location.value > 0.0) == wants_more;
    let interval = contrast.interval;
    let is_tiny = interval.low >= -bound && interval.high <= bound;
    let apart = interval.low > 0.0 || interval.high < 0.0;
    let by_sign = match is_tiny && is_so {
        true => CaseResult::MetByLess,
        false => CaseResult::of(is_so),
    };
    let verdict = judged.and_then(|j| Some((j.verdict()?, j.finding)));
    match verdict {
        Some((Verdict::Better | Verdict::Worse, _)) => by_sign,
        Some((Verdict::NoDifferenceThatMatters, finding)) => {
            let rate = ERROR_RATE * context.run.input.manifest.rate_share();
            match apart && finding.p_corrected.is_some_and(|p| p < rate) {
                true => by_sign,
                false => CaseResult::NotMet,
            }
        }
        Some((_, finding)) => {
            let blocks = finding.blocks_needed;
            let needs = blocks.map(|n| format!("about {n} blocks would decide it"));
            CaseResult::Open(needs.unwrap_or_else(|| MORE_BLOCKS.to_owned()))
        }
        _ if is_tiny && !apart => {
            let p = |bound| location.p_value(bound).unwrap_or(1.0);
            CaseResult::decided(context.family.decides(p(-bound).max(p(bound))), false)
        }
        _ => match context.family.decides(contrast.p) {
            true => by_sign,
            false => CaseResult::Open(MORE_BLOCKS.to_owned()),
        },
    }
}

pub(super) fn scaling(
    context: &ClaimContext<'_>,
    place: &Place,
    between: Between,
    (metric, expect): Wanted,
) -> Result<ClaimTest, String> {
    let (cells, cpus) = (context.cells(place), context.run.cpus());
    let mut groups = by_key(cells.map(|c| (c.cell.id_without(&[Axis::Threads]), c)));
    groups.retain(|_, cells| cells.len() > 1);
    if groups.is_empty() {
        let why = context.no_cells(place, None);
        return Err(format!("{why} over several numbers of threads"));
    }
    let pairs = groups.into_values().filter_map(|mut group| {
        group.sort_by_key(|c| c.cell.threads);
        let (baseline, other) = chosen(&group, between, cpus)?;
        Some(Pairing {
            axis: Axis::Threads,
            baseline,
            other,
        })
    });
    let pairs = context.placed(pairs.collect());
    if pairs.is_empty() {
        return Err(nothing(between, cpus));
    }
    let items = pairs.iter().map(|(pair, place)| {
        let more = phrases::count(pair.other.cell.threads as usize, "flow");
        let threads = format!("with {more} against {}", pair.baseline.cell.threads);
        let place = [place, &threads].into_iter().filter(|p| !p.is_empty());
        Item {
            place: place.format(", ").to_string(),
            stalled: context.stalls_apart(pair),
            twin: twin(pair),
            ..compared(context, pair, (metric, expect))
        }
    });
    let which = match between {
        Between::Numbers(low, high) => {
            format!("from {low} to {}", phrases::count(high as usize, "flow"))
        }
        Between::WithinCpus => "while every thread has a CPU".to_owned(),
        Between::BeyondCpus => "once there are more threads than CPUs".to_owned(),
    };
    let subject = format!(
        "the ratio of {} of all flows {which}",
        context.words(metric)
    );
    let items = items.collect();
    Ok(ClaimTest::of(subject, expect.to_string(), "place", items))
}

/// The cells of the lesser and the greater number of flows, of a group in the order of threads.
fn chosen<'c>(
    group: &[&'c CellTrials<'c>],
    between: Between,
    cpus: usize,
) -> Option<(&'c CellTrials<'c>, &'c CellTrials<'c>)> {
    let of = |threads: u32| group.iter().copied().find(|c| c.cell.threads == threads);
    let fits = |c: &&&CellTrials<'_>| c.threads_of_both_sides() <= cpus;
    let fitting = group.iter().rfind(fits).copied();
    let (low, high) = match between {
        Between::Numbers(low, high) => (of(low)?, of(high)?),
        Between::WithinCpus => (*group.first()?, fitting?),
        Between::BeyondCpus => (fitting?, *group.last()?),
    };
    (low.cell.threads < high.cell.threads).then_some((low, high))
}

fn nothing(between: Between, cpus: usize) -> String {
    let cpus = phrases::count(cpus, "CPU");
    match between {
        Between::Numbers(low, high) => {
            format!("the run has no cells with {low} and with {high} flows")
        }
        Between::WithinCpus => format!(
            "with {cpus} no two numbers of flows leave every thread a CPU, and a flow has two threads: what flows do to caches cannot be distinguished from waiting for a CPU; a machine with more CPUs would tell"
        ),
        Between::BeyondCpus => format!(
            "with {cpus} the run has no two numbers of flows of which only the greater has more threads than there are CPUs"
        ),
    }
}

/// Whether the first of several counted metrics falls more than the others.
pub(super) fn counter(
    context: &ClaimContext<'_>,
    place: &Place,
    contrast: &Contrast,
    metrics: &[Metric],
) -> Result<ClaimTest, String> {
    let pairs = context.pairs(contrast, place)?;
    let (first, others) = metrics.split_first().ok_or("no metric is named")?;
    let nouns = others.iter().map(|m| context.words(*m));
    let items = pairs.iter().map(|(pair, place)| Item {
        place: place.clone(),
        stalled: context.stalls_apart(pair),
        twin: twin(pair),
        ..by_timing(context, pair, metrics).unwrap_or_else(|| fall(context, pair, *first, others))
    });
    let items = items.collect_vec();
    let timed = |i: &Item| i.measured.iter().any(|m| m.starts_with(BY_TIMING));
    let subject = subject(context, contrast, *first);
    let expected = format!("below that of {}", phrases::list(nouns));
    Ok(ClaimTest {
        note: items.iter().any(timed).then(|| INSTEAD.to_owned()),
        ..ClaimTest::of(subject, expected, "cell", items)
    })
}

/// Whether the first metric falls more than each of the others.
fn fall(
    context: &ClaimContext<'_>,
    pair: &Pairing<'_, '_>,
    first: Metric,
    others: &[Metric],
) -> Item {
    let cells = [pair.other, pair.baseline];
    let mut told = Vec::new();
    let mut apart = Vec::new();
    for metric in std::iter::once(first).chain(others.iter().copied()) {
        let Some(contrast) = context.run.trials.contrast(*pair, metric) else {
            return Item::of(CaseResult::Absent(context.absent(&cells, metric)));
        };
        if let Some(why) = context.withheld(metric, pair) {
            return Item::of(CaseResult::Open(why));
        }
        let text = times(contrast.ratio().value);
        told.push(format!("{} {text}", context.words(metric)));
        if metric != first {
            apart.extend(context.run.trials.relative_contrast(pair, [first, metric]));
        }
    }
    // As sure as the least sure of them.
    let p = |l: &Location| l.p_value(0.0).unwrap_or(1.0);
    let below = apart.len() == others.len() && apart.iter().all(|l| l.value < 0.0);
    let above = apart.iter().filter(|l| l.value > 0.0);
    let p = match below {
        true => apart.iter().map(p).reduce(f64::max),
        false => above.map(p).reduce(f64::min),
    };
    let state = CaseResult::decided(p.is_some_and(|p| context.family.decides(p)), below);
    Item {
        value: apart.first().map_or(0.0, |l| l.value),
        measured: Some(told.join(", ")),
        ..Item::of(state)
    }
}

/// By timing, where the nearest and the last cache were to be counted and were not.
fn by_timing(
    context: &ClaimContext<'_>,
    pair: &Pairing<'_, '_>,
    metrics: &[Metric],
) -> Option<Item> {
    const CACHES: [Metric; 2] = [
        Metric::both(Measure::L1dLoadMissesPerKib),
        Metric::both(Measure::LlcLoadMissesPerKib),
    ];
    let counted = CACHES
        .iter()
        .all(|m| context.run.trials.contrast(*pair, *m).is_some());
    let of = |id: &str| context.run.footprints.iter().find(|f| f.cell == id);
    let (one, baseline) = (of(&pair.other.id)?, of(&pair.baseline.id)?);
    let levels = [one.levels.first()?.level, one.levels.last()?.level];
    if counted || metrics != CACHES || levels[0] == levels[1] {
        return None;
    }
    let ratio = |level| against(&[(one.level(level)?, baseline.level(level)?)]);
    let (near, last) = (ratio(levels[0])?, ratio(levels[1])?);
    let state = if near.high < last.low {
        CaseResult::Met
    } else if near.low > last.high {
        CaseResult::NotMet
    } else {
        CaseResult::Open("their intervals, found by timing, overlap".to_owned())
    };
    let ([first, second], [near, last]) = (levels, [near, last].map(|r| times(r.value)));
    let told = format!("{BY_TIMING}: displaced from L{first} {near}, from L{second} {last}");
    Some(Item {
        measured: Some(told),
        ..Item::of(state)
    })
}

/// The direction in which a metric is better, as a ratio.
pub(super) fn better(metric: Metric) -> Expected {
    match metric.better() {
        Better::Higher => Expected::Above(1.0),
        Better::Lower => Expected::Below(1.0),
    }
}
