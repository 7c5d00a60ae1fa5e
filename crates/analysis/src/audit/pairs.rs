//! Pairs of cells: a metric at one value of an axis over the same at another.

use bytecost_spec::claim::{Between, Contrast, Crossover, Expected};
use bytecost_spec::{Axis, Better, Measure, Metric, Value};
use bytecost_stats::Location;
use itertools::Itertools as _;

use super::context::{Cases, ClaimContext, PlacedPair, TIMER_OPTIONS, Wanted, counts_calls};
use super::family::tested;
use crate::comparison::{PairContrast, Pairing};
use crate::footprint::against;
use crate::grid;
use crate::grouping::by_key;
use crate::logs::exp;
use crate::result::{
    AxisStep, Case, CasePlace, CaseState, MeasuredNumber, NotTested, OpenReason, PublishedNumber,
    TestCases, Verdict,
};
use crate::stages::JudgedPair;
use crate::trials::CellTrials;

pub(super) fn ratio(context: &ClaimContext<'_>, contrast: &Contrast, wanted: Wanted) -> Cases {
    let pairs = context.pairs(contrast)?;
    let mut cases = cases_of_pairs(context, &pairs, |pair| compared(context, pair, wanted));
    if counts_calls(wanted.metric) {
        // To a count of calls a timer makes no difference.
        for case in &mut cases {
            case.one_side_stalls = false;
        }
    }
    let smallest = context.measured.input.manifest.study.smallest_effect;
    let is_finer = is_finer(wanted.expect, context.smallest_log_ratio());
    Ok(TestCases {
        copied_mover: context.copied_mover(&pairs),
        finer_than: is_finer.then_some(smallest),
        ..cases.into()
    })
}

fn cases_of_pairs(
    context: &ClaimContext<'_>,
    pairs: &[PlacedPair<'_>],
    case: impl Fn(&Pairing<'_>) -> Case,
) -> Vec<Case> {
    let placed = |(pair, place): &PlacedPair<'_>| Case {
        place: place.clone(),
        one_side_stalls: context.one_side_stalls(pair),
        twin: twin(pair),
        ..case(pair)
    };
    pairs.iter().map(placed).collect()
}

/// Returns true if no difference is expected up to one that is smaller than what matters (a log ratio).
fn is_finer(expect: Expected, smallest_effect: f64) -> bool {
    let Expected::Within(low, high) = expect else {
        return false;
    };
    let is_finer = low <= 1.0 && -low.ln() < smallest_effect && high.ln() < smallest_effect;
    is_finer && high > 1.0
}

/// The name of a pair without what timers it is under.
fn twin(pair: &Pairing<'_>) -> String {
    let free = [&TIMER_OPTIONS[..], &[pair.axis, Axis::Reaping]].concat();
    pair.other.cell.id_without(&free)
}

/// A pair's ratio compared with what is expected, without its place.
fn compared(context: &ClaimContext<'_>, pair: &Pairing<'_>, wanted: Wanted) -> Case {
    let Wanted { metric, expect } = wanted;
    let cells = [pair.other, pair.baseline];
    let published = context.published_pair(cells.map(|c| c.cell), metric);
    let Some(contrast) = context.contrast(pair, metric) else {
        return Case {
            published,
            ..Case::new(CaseState::Absent(context.absent(&cells, metric)))
        };
    };
    let judged = context.run.pair(*pair, metric);
    let ratio = contrast.ratio();
    Case {
        value: contrast.location.value,
        published,
        measured: Some(MeasuredNumber::Ratio(ratio.value, [ratio.low, ratio.high])),
        finding: judged.map(|j| j.finding.number),
        is_same: judged.is_some_and(is_same),
        ..expected(context, pair, &contrast, judged, expect)
    }
}

fn is_same(judged: JudgedPair<'_>) -> bool {
    judged.verdict() == Some(Verdict::NoDifferenceThatMatters)
}

/// The case of a pair without its numbers. The run's own verdict stays as its report gives it.
fn expected(
    context: &ClaimContext<'_>,
    pair: &Pairing<'_>,
    contrast: &PairContrast,
    judged: Option<JudgedPair<'_>>,
    expect: Expected,
) -> Case {
    if let Some(kind) = context.withheld_by(contrast.metric, pair) {
        return Case::open(OpenReason::Withheld(kind));
    }
    let bound = context.smallest_log_ratio();
    let is_same = judged.is_some_and(is_same);
    match expect {
        Expected::Above(1.0) => direction(context, contrast, judged, true),
        Expected::Below(1.0) => direction(context, contrast, judged, false),
        Expected::Alike if is_same => Case::new(CaseState::Met),
        Expected::Alike => {
            let alike = Expected::Within(exp(-bound), exp(bound));
            tested(&contrast.location, alike, f64::ln)
        }
        _ => {
            let mut case = tested(&contrast.location, expect, f64::ln);
            // A difference that does not matter cannot refute a claim that is finer than that.
            if case.state == CaseState::NotMet && is_same && is_finer(expect, bound) {
                case.state = CaseState::Open(OpenReason::LessThanMatters);
            }
            case
        }
    }
}

/// The case of a claim that the other cell has more, or less. A decided difference that is too small to
/// matter is [`CaseState::MetByLess`]. An undecided one that is shown to be too small to matter is not
/// met.
fn direction(
    context: &ClaimContext<'_>,
    contrast: &PairContrast,
    judged: Option<JudgedPair<'_>>,
    wants_more: bool,
) -> Case {
    let (location, bound) = (contrast.location, context.smallest_log_ratio());
    let is_so = (location.value > 0.0) == wants_more;
    let interval = contrast.interval;
    let is_tiny = interval.low >= -bound && interval.high <= bound;
    let apart = interval.low > 0.0 || interval.high < 0.0;
    let by_sign = if is_tiny && is_so {
        CaseState::MetByLess
    } else {
        CaseState::from_met(is_so)
    };
    let verdict = judged.and_then(|j| Some((j.verdict()?, j.finding)));
    match verdict {
        Some((Verdict::Better | Verdict::Worse, _)) => Case::new(by_sign),
        Some((Verdict::NoDifferenceThatMatters, finding)) => {
            let rate = context.measured.error_rate();
            let is_decided = apart && finding.p_corrected.is_some_and(|p| p < rate);
            Case::new(if is_decided {
                by_sign
            } else {
                CaseState::NotMet
            })
        }
        Some((_, finding)) => Case::open(OpenReason::Blocks(finding.blocks_needed)),
        None if is_tiny && !apart => {
            let p = |edge| location.p_value(edge).unwrap_or(1.0);
            Case::new(CaseState::NotMet).by(p(-bound).max(p(bound)))
        }
        None => Case::new(by_sign).by(contrast.p),
    }
}

pub(super) fn scaling(context: &ClaimContext<'_>, between: Between, wanted: Wanted) -> Cases {
    let (cells, cpus) = (context.cells(), context.measured.cpus());
    let mut groups = by_key(cells.map(|c| (c.cell.id_without(&[Axis::Threads]), c)));
    groups.retain(|_, group| group.len() > 1);
    if groups.is_empty() {
        let why = context.no_cells(None);
        return Err(NotTested::OneNumberOfFlows(Box::new(why)));
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
    let mut pairs = context.placed(pairs.collect());
    if pairs.is_empty() {
        return Err(NotTested::FlowsForCpus(between, cpus));
    }
    for (pair, place) in &mut pairs {
        if let CasePlace::Cells { flows, .. } = place {
            *flows = Some([pair.other, pair.baseline].map(|c| c.cell.threads));
        }
    }
    Ok(cases_of_pairs(context, &pairs, |pair| compared(context, pair, wanted)).into())
}

/// The cells of the lesser and the greater number of flows, of a group in the order of threads.
fn chosen<'c>(
    group: &[&'c CellTrials<'c>],
    between: Between,
    cpus: usize,
) -> Option<(&'c CellTrials<'c>, &'c CellTrials<'c>)> {
    let with = |threads: u32| group.iter().copied().find(|c| c.cell.threads == threads);
    let fits = |c: &&&CellTrials<'_>| c.threads_of_both_sides() <= cpus;
    let fitting = group.iter().rfind(fits).copied();
    let (low, high) = match between {
        Between::Numbers(low, high) => (with(low)?, with(high)?),
        Between::WithinCpus => (*group.first()?, fitting?),
        Between::BeyondCpus => (fitting?, *group.last()?),
    };
    (low.cell.threads < high.cell.threads).then_some((low, high))
}

/// The cases in which the first of several counted metrics falls more than the others.
pub(super) fn counter(
    context: &ClaimContext<'_>,
    contrast: &Contrast,
    metrics: &[Metric],
) -> Cases {
    let pairs = context.pairs(contrast)?;
    let (first, others) = metrics.split_first().ok_or(NotTested::NoMetric)?;
    let case = |pair: &Pairing<'_>| {
        by_timing(context, pair, metrics).unwrap_or_else(|| fall(context, pair, *first, others))
    };
    Ok(cases_of_pairs(context, &pairs, case).into())
}

/// A pair in which the first metric is to fall more than each of the others.
fn fall(context: &ClaimContext<'_>, pair: &Pairing<'_>, first: Metric, others: &[Metric]) -> Case {
    let cells = [pair.other, pair.baseline];
    let trials = context.measured.trials;
    let mut ratios = Vec::new();
    let mut apart = Vec::new();
    for metric in std::iter::once(first).chain(others.iter().copied()) {
        let Some(contrast) = context.contrast(pair, metric) else {
            return Case::new(CaseState::Absent(context.absent(&cells, metric)));
        };
        if let Some(kind) = context.withheld_by(metric, pair) {
            return Case::open(OpenReason::Withheld(kind));
        }
        ratios.push((metric, contrast.ratio().value));
        if metric != first {
            apart.extend(trials.relative_contrast(pair, [first, metric]));
        }
    }
    // As sure as the least sure of them.
    let p = |l: &Location| l.p_value(0.0).unwrap_or(1.0);
    let below = apart.len() == others.len() && apart.iter().all(|l| l.value < 0.0);
    let p = if below {
        apart.iter().map(p).reduce(f64::max)
    } else {
        let above = apart.iter().filter(|l| l.value > 0.0);
        above.map(p).reduce(f64::min)
    };
    let open = CaseState::Open(OpenReason::Blocks(None));
    Case {
        value: apart.first().map_or(0.0, |l| l.value),
        measured: Some(MeasuredNumber::Counted(ratios)),
        p,
        ..Case::new(p.map_or(open, |_| CaseState::from_met(below)))
    }
}

/// By timing, where the nearest and the last cache were to be counted and were not.
fn by_timing(context: &ClaimContext<'_>, pair: &Pairing<'_>, metrics: &[Metric]) -> Option<Case> {
    const CACHES: [Metric; 2] = [
        Metric::both(Measure::L1dLoadMissesPerKib),
        Metric::both(Measure::LlcLoadMissesPerKib),
    ];
    let counted = CACHES.iter().all(|m| context.contrast(pair, *m).is_some());
    let footprint = |id: &str| context.measured.footprints.iter().find(|f| f.cell == id);
    let (one, baseline) = (footprint(&pair.other.id)?, footprint(&pair.baseline.id)?);
    let levels = [one.levels.first()?.level, one.levels.last()?.level];
    if counted || metrics != CACHES || levels[0] == levels[1] {
        return None;
    }
    let ratio = |level| against(&[(one.level(level)?, baseline.level(level)?)]);
    let (near, last) = (ratio(levels[0])?, ratio(levels[1])?);
    let state = if near.high < last.low {
        CaseState::Met
    } else if near.low > last.high {
        CaseState::NotMet
    } else {
        CaseState::Open(OpenReason::TimingOverlaps)
    };
    let ratios = [(levels[0], near.value), (levels[1], last.value)];
    Some(Case {
        measured: Some(MeasuredNumber::Timed(ratios)),
        ..Case::new(state)
    })
}

pub(super) fn crossover(context: &ClaimContext<'_>, claimed: &Crossover) -> Cases {
    let (contrast, along) = (&claimed.contrast, claimed.along);
    let pairs = context.pairs(contrast)?;
    let wanted = Wanted {
        metric: claimed.metric,
        expect: better(claimed.metric),
    };
    let mut cases = Vec::new();
    // The pairs that differ along the axis alone, each with its place.
    let free = [contrast.axis, along];
    let all = pairs.iter().map(|(pair, _)| *pair);
    let groups = by_key(all.map(|p| (p.other.cell.id_without(&free), p)));
    let firsts = groups.values().map(|g| g[0].other.cell).collect_vec();
    let places = context.places(&firsts, &free).into_iter();
    for (group_place, group) in places.zip(groups.into_values()) {
        let values: Vec<Value> = group.iter().map(|p| p.other.cell.value(along)).collect();
        let Some(numbers) = grid::numbers(along, &values).filter(|n| n.len() > 1) else {
            continue;
        };
        let found = group
            .iter()
            .map(|p| compared(context, p, wanted))
            .collect_vec();
        let steps = numbers
            .into_iter()
            .zip(&found)
            .map(|(at, case)| AxisStep {
                at,
                is_better: is_better(&case.state),
                p: case.p,
            })
            .sorted_by(|a, b| a.at.total_cmp(&b.at))
            .collect_vec();
        let state = crossover_state(&steps, claimed);
        cases.push(Case {
            place: group_place,
            one_side_stalls: group.iter().any(|p| context.one_side_stalls(p)),
            published: Some(PublishedNumber::From(along, claimed.from.clone())),
            measured: Some(MeasuredNumber::Steps(along, steps)),
            finding: found.into_iter().find_map(|case| case.finding),
            ..Case::new(state)
        });
    }
    if cases.is_empty() {
        return Err(NotTested::OneValue(along));
    }
    Ok(TestCases {
        copied_mover: context.copied_mover(&pairs),
        ..cases.into()
    })
}

fn is_better(state: &CaseState) -> Option<bool> {
    match state {
        CaseState::Met => Some(true),
        // An improvement that is too small to matter is no gain.
        CaseState::MetByLess | CaseState::NotMet => Some(false),
        CaseState::Open(_) | CaseState::Absent(_) => None,
    }
}

/// The decisions along the axis compared with the value from which a way is claimed to be better. The
/// claim falls where it is better already far below that value, and where it is not far above.
pub(super) fn crossover_state(steps: &[AxisStep], claimed: &Crossover) -> CaseState {
    let from = claimed.along.number(&claimed.from).unwrap_or(f64::NAN);
    state_from(steps, from, claimed.tolerance)
}

fn state_from(steps: &[AxisStep], from: f64, tolerance: f64) -> CaseState {
    let (Some(first), Some(last)) = (steps.first(), steps.last()) else {
        return CaseState::Open(OpenReason::NothingAlong);
    };
    let early = |s: &AxisStep| s.is_better == Some(true) && s.at < from / tolerance;
    let late = |s: &AxisStep| s.is_better == Some(false) && s.at > from && s.at >= from * tolerance;
    if steps.iter().any(|step| early(step) || late(step)) {
        return CaseState::NotMet;
    }
    if from > last.at {
        return CaseState::Open(OpenReason::NothingAbove);
    }
    let last_not = steps.iter().rposition(|s| s.is_better == Some(false));
    let above = &steps[last_not.map_or(0, |at| at + 1)..];
    let Some(first_better) = above.iter().position(|s| s.is_better == Some(true)) else {
        return CaseState::Open(OpenReason::UndecidedAbove);
    };
    let low = match last_not {
        Some(at) => steps[at].at,
        None if first_better > 0 => return CaseState::Open(OpenReason::UndecidedBelow),
        None if from < first.at / tolerance => {
            return CaseState::Open(OpenReason::NothingNear);
        }
        None => return CaseState::Met,
    };
    let high = above[first_better].at;
    let middle = (low.max(1.0) * high.max(1.0)).sqrt();
    let is_near = (middle / tolerance..=middle * tolerance).contains(&from);
    if (low..=high).contains(&from) || is_near {
        CaseState::Met
    } else {
        CaseState::Open(OpenReason::TooCoarse)
    }
}

/// The direction in which a metric is better, as a ratio.
fn better(metric: Metric) -> Expected {
    match metric.better() {
        Better::Higher => Expected::Above(1.0),
        Better::Lower => Expected::Below(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claimed_value_is_compared_with_what_is_decided_along_the_axis() {
        // Values 1, 2, 4 …; `+` is better, `-` is not, `?` is not decided.
        let check = |marks: &str, from: f64, met: Option<bool>| {
            let step = |(place, mark): (usize, char)| AxisStep {
                at: f64::from(1_u32 << place),
                is_better: match mark {
                    '+' => Some(true),
                    '-' => Some(false),
                    _ => None,
                },
                p: None,
            };
            let steps: Vec<AxisStep> = marks.chars().enumerate().map(step).collect();
            let is = match state_from(&steps, from, 2.0) {
                CaseState::Met => Some(true),
                CaseState::NotMet => Some(false),
                _ => None,
            };
            assert_eq!(is, met, "{marks} {from}");
        };
        for from in [4.0, 8.0, 11.0] {
            check("---++++", from, Some(true));
        }
        check("---++++", 1.0, Some(false));
        check("---++++", 64.0, Some(false));
        // The place lies somewhere from 1 to 16.
        check("-???+", 4.0, Some(true));
        check("-???+", 0.25, Some(false));
        check("-?????+", 0.6, None);
        // Better from the least value on.
        check("++++", 8.0, Some(false));
        check("++++", 1.0, Some(true));
        check("++++", 0.25, None);
        // Better at no value, or at small ones alone.
        check("----", 4.0, Some(false));
        check("----", 16.0, None);
        check("+++--", 1.0, Some(false));
        check("++?--", 8.0, Some(false));
        // Undecided sizes give no crossover.
        check("????", 4.0, None);
        check("?+++", 2.0, None);
        check("-??", 4.0, None);
        check("", 4.0, None);
    }
}
