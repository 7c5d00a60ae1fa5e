//! From which value along an axis one way is better than another.

use bytecost_spec::claim::{Contrast, Place};
use bytecost_spec::{Axis, Metric, Value};
use itertools::Itertools as _;

use super::context::ClaimContext;
use super::family::{Cases, Wanted};
use super::pairs::{better, compared};
use crate::grid;
use crate::grouping::by_key;
use crate::result::{
    AxisStep, Case, CaseState, MeasuredNumber, NotTested, OpenReason, PublishedNumber, TestCases,
};

#[derive(Clone, Copy)]
pub(super) struct ClaimedCrossover<'c> {
    pub(super) contrast: &'c Contrast,
    pub(super) metric: Metric,
    pub(super) along: Axis,
    pub(super) from: &'c Value,
    /// A factor from 1 up.
    pub(super) tolerance: f64,
}

pub(super) fn cases(
    context: &ClaimContext<'_>,
    place: &Place,
    claimed: ClaimedCrossover<'_>,
) -> Cases {
    let ClaimedCrossover {
        contrast, along, ..
    } = claimed;
    let pairs = context.pairs(contrast, place)?;
    let wanted = Wanted {
        metric: claimed.metric,
        expect: better(claimed.metric),
    };
    let from = along.number(claimed.from).unwrap_or(f64::NAN);
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
            })
            .sorted_by(|a, b| a.at.total_cmp(&b.at))
            .collect_vec();
        let state = state(&steps, from, claimed.tolerance);
        cases.push(Case {
            place: group_place,
            one_side_stalls: group.iter().any(|p| context.one_side_stalls(p)),
            published: Some(PublishedNumber::Claimed),
            measured: Some(MeasuredNumber::Steps(steps)),
            finding: found.into_iter().find_map(|case| case.finding),
            ..Case::new(state)
        });
    }
    if cases.is_empty() {
        return Err(NotTested::OneValue);
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
fn state(steps: &[AxisStep], from: f64, tolerance: f64) -> CaseState {
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
            };
            let steps: Vec<AxisStep> = marks.chars().enumerate().map(step).collect();
            let is = match state(&steps, from, 2.0) {
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
