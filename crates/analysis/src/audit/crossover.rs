//! From which value along an axis one way is better than another.

use bytecost_spec::claim::{Test, TestKind};
use bytecost_spec::{Axis, Value, units};
use itertools::Itertools as _;

use super::claim_test::{CaseResult, ClaimTest, Item};
use super::context::ClaimContext;
use super::pairs::{better, compared};
use crate::grid;
use crate::grouping::by_key;

/// Whether one way is better at a value of the axis; none where that is not decided.
type Step = (f64, Option<bool>);

pub(super) fn draft(context: &ClaimContext<'_>, test: &Test) -> Result<ClaimTest, String> {
    let TestKind::Crossover {
        contrast,
        metric,
        along,
        from,
        tolerance,
    } = &test.kind
    else {
        return Err("no crossover is claimed".to_owned());
    };
    let pairs = context.pairs(contrast, &test.place)?;
    let expect = better(*metric);
    let claimed = along.number(from).unwrap_or(f64::NAN);
    let mut items = Vec::new();
    // The pairs that differ along the axis alone, each with its place in words.
    let free = [contrast.axis, *along];
    let all = pairs.iter().map(|(pair, _)| *pair);
    let groups = by_key(all.map(|p| (p.other.cell.id_without(&free), p)));
    let firsts = groups.values().map(|g| g[0].other.cell).collect_vec();
    let places = context.places(&firsts, &free).into_iter();
    for (place, group) in places.zip(groups.into_values()) {
        let values: Vec<Value> = group.iter().map(|p| p.other.cell.value(*along)).collect();
        let Some(numbers) = grid::numbers(*along, &values).filter(|n| n.len() > 1) else {
            continue;
        };
        let found = group
            .iter()
            .map(|p| compared(context, p, (*metric, expect)));
        let found = found.collect_vec();
        let is_better = |item: &Item| match item.state {
            CaseResult::Met => Some(true),
            // What is better by less than matters is no gain.
            CaseResult::MetByLess | CaseResult::NotMet => Some(false),
            CaseResult::Open(_) | CaseResult::Absent(_) => None,
        };
        let steps = numbers.into_iter().zip(found.iter().map(is_better));
        let steps = steps.sorted_by(|a, b| a.0.total_cmp(&b.0)).collect_vec();
        items.push(Item {
            place,
            stalled: group.iter().any(|p| context.stalls_apart(p)),
            published: Some(format!("from {}", along.subject(from))),
            measured: Some(told(&steps, *along)),
            finding: found.into_iter().find_map(|i| i.finding),
            ..Item::of(state(&steps, claimed, *tolerance))
        });
    }
    if items.is_empty() {
        let name = along.name();
        let why = format!("the run compares them at one {name} only, or not at all");
        return Err(why);
    }
    let [value, against] = [&contrast.value, &contrast.against].map(|v| contrast.axis.subject(v));
    let (name, metric) = (along.name(), context.words(*metric));
    let subject = format!("the {name} from which {value} is better than {against} in {metric}");
    let expected = format!("about {}", along.subject(from));
    Ok(ClaimTest {
        note: context.copied_note(&pairs),
        ..ClaimTest::of(subject, expected, "place", items)
    })
}

/// What was decided along the axis against the value from which it is claimed to be better. The
/// claim falls where it is better already far below that value, and where it is not far above.
fn state(steps: &[Step], from: f64, tolerance: f64) -> CaseResult {
    let open = |why: &str| CaseResult::Open(why.to_owned());
    let (Some((least, _)), Some((most, _))) = (steps.first(), steps.last()) else {
        return open("nothing was measured along the axis");
    };
    let early = |(at, is): &Step| *is == Some(true) && *at < from / tolerance;
    let late = |(at, is): &Step| *is == Some(false) && *at > from && *at >= from * tolerance;
    if steps.iter().any(|s| early(s) || late(s)) {
        return CaseResult::NotMet;
    }
    if from > *most {
        return open("nothing was measured above the value that is claimed");
    }
    let last_not = steps.iter().rposition(|(_, is)| *is == Some(false));
    let above = &steps[last_not.map_or(0, |at| at + 1)..];
    let Some(first) = above.iter().position(|(_, is)| *is == Some(true)) else {
        return open("no comparison above the value that is claimed is decided");
    };
    let low = match last_not {
        Some(at) => steps[at].0,
        None if first > 0 => return open("the comparisons below it are not decided"),
        None if from < least / tolerance => {
            return open("nothing was measured near the value that is claimed");
        }
        None => return CaseResult::Met,
    };
    let high = above[first].0;
    let middle = (low.max(1.0) * high.max(1.0)).sqrt();
    let near = (middle / tolerance..=middle * tolerance).contains(&from);
    match (low..=high).contains(&from) || near {
        true => CaseResult::Met,
        false => open("the value is not known finely enough: measure more values between"),
    }
}

/// `not better at 2 KiB; better from 8 KiB to 128 KiB`.
fn told(steps: &[Step], along: Axis) -> String {
    let number = |number: f64| match along {
        Axis::Threads | Axis::Fields | Axis::Depth => units::number(number),
        _ => units::bytes_in_words(number.round().max(0.0) as u64),
    };
    let runs = steps.chunk_by(|a, b| a.1 == b.1).map(|run| {
        let word = match run[0].1 {
            Some(true) => "better",
            Some(false) => "not better",
            None => "undecided",
        };
        match run {
            [one] => format!("{word} at {}", number(one.0)),
            [first, .., last] => format!("{word} from {} to {}", number(first.0), number(last.0)),
            [] => String::new(),
        }
    });
    runs.collect_vec().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claimed_value_is_compared_with_what_is_decided_along_the_axis() {
        // Values 1, 2, 4 …; `+` is better, `-` is not, `?` is not decided.
        let check = |marks: &str, from: f64, met: Option<bool>| {
            let step = |(at, mark): (usize, char)| {
                let is = match mark {
                    '+' => Some(true),
                    '-' => Some(false),
                    _ => None,
                };
                (f64::from(1_u32 << at), is)
            };
            let steps: Vec<Step> = marks.chars().enumerate().map(step).collect();
            let is = match state(&steps, from, 2.0) {
                CaseResult::Met => Some(true),
                CaseResult::NotMet => Some(false),
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
        // What is not decided decides nothing.
        check("????", 4.0, None);
        check("?+++", 2.0, None);
        check("-??", 4.0, None);
        check("", 4.0, None);
    }

    #[test]
    fn what_was_found_is_told_from_the_least_value_to_the_greatest() {
        let steps = [
            (2048.0, Some(false)),
            (8192.0, None),
            (32_768.0, Some(true)),
            (131_072.0, Some(true)),
        ];
        assert_eq!(
            told(&steps, Axis::Size),
            "not better at 2 KiB; undecided at 8 KiB; better from 32 KiB to 128 KiB"
        );
    }
}
