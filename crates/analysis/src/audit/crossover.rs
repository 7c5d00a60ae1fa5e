//! From which value along an axis one way is better than another.

use std::collections::BTreeMap;

use bytecost_spec::claim::{Contrast, Quantity};
use bytecost_spec::{Axis, Cell, Metric, units};

use super::claim_test::{CaseResult, ClaimTest, Item};
use super::context::ClaimContext;
use crate::pairing::Pairing;
use crate::result::{Crossing, Crossover, Verdict};
use crate::{grid, phrases};

/// What is claimed of it.
pub(super) struct CrossoverClaim<'c> {
    pub(super) metric: Metric,
    pub(super) along: Axis,
    pub(super) from: &'c str,
    pub(super) tolerance: f64,
}

/// Where one way becomes better, as far as it is known: on the axis `along`, as numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Found {
    /// At the least value that was measured, and above.
    Always { least: f64 },
    /// Not up to the greatest value that was measured.
    Never { most: f64 },
    /// Somewhere between.
    Between { low: f64, high: f64 },
    /// The comparisons are not decided, or cross more than once.
    Open,
}

pub(super) fn draft(
    context: &ClaimContext<'_>,
    contrast: &Contrast,
    claimed: &CrossoverClaim<'_>,
    cells: Quantity,
) -> ClaimTest {
    let items = match crossovers(context, contrast, claimed) {
        found if found.is_empty() => by_findings(context, contrast, claimed),
        found => found,
    };
    let pairs = context.pairs(contrast);
    if items.is_empty() {
        let why = if pairs.is_empty() {
            context.no_cells(&contrast.place, Some(contrast))
        } else {
            format!(
                "the run compares them at one {} only, or not at all",
                claimed.along.name()
            )
        };
        return ClaimTest::missing(why);
    }
    let [value, against] = [&contrast.value, &contrast.against].map(|v| contrast.axis.subject(v));
    ClaimTest {
        subject: format!(
            "the {} from which {value} is better than {against} in {}",
            claimed.along.name(),
            phrases::metric(claimed.metric)
        ),
        expected: format!("about {}", claimed.along.subject(claimed.from)),
        noun: "place",
        cells,
        items,
        note: context.copied_note(&pairs),
        missing: None,
    }
}

/// The run's own crossovers of the contrast.
fn crossovers(
    context: &ClaimContext<'_>,
    contrast: &Contrast,
    claimed: &CrossoverClaim<'_>,
) -> Vec<Item> {
    let same = |c: &&Crossover| {
        c.metric == claimed.metric
            && c.axis == contrast.axis
            && c.along == claimed.along
            && c.value == contrast.value
            && c.baseline == contrast.against
            && contrast.place.iter().all(|(axis, values)| {
                let at = c.place.iter().chain(&context.analysis.study.constants);
                at.filter(|(a, _)| a == axis)
                    .all(|(_, v)| values.contains(v))
            })
    };
    let found: Vec<&Crossover> = context.analysis.crossovers.iter().filter(same).collect();
    let told = |(axis, value): &&(Axis, String)| {
        let here = found
            .iter()
            .filter_map(|c| c.place.iter().find(|(a, _)| a == axis));
        *axis == Axis::Threads || here.into_iter().any(|(_, v)| v != value)
    };
    found
        .iter()
        .map(|c| {
            let number = |text: &str| units::parse_bytes(text).map_or(f64::NAN, |n| n as f64);
            let (least, most) = (number(&c.range.0), number(&c.range.1));
            let found = match &c.outcome {
                Crossing::AlwaysBetter => Found::Always { least },
                Crossing::NeverBetter => Found::Never { most },
                Crossing::At(points) => match points.as_slice() {
                    [one] if one.better_above && one.low.is_some() => Found::Between {
                        low: one.low.as_deref().map_or(least, number),
                        high: one.high.as_deref().map_or(most, number),
                    },
                    _ => Found::Open,
                },
                Crossing::Undecided => Found::Open,
            };
            let place: Vec<(Axis, String)> = c.place.iter().filter(told).cloned().collect();
            let place = phrases::circumstances(&place);
            let stalled = stalled(context, contrast, &c.place, claimed.along);
            item(place, stalled, found, claimed, Vec::new())
        })
        .collect()
}

/// Whether a pair of the contrast at that place stalls on one side only.
fn stalled(
    context: &ClaimContext<'_>,
    contrast: &Contrast,
    place: &[(Axis, String)],
    along: Axis,
) -> bool {
    let pairs = context.pairs(contrast);
    let here = pairs.iter().filter(|p| {
        let at = place.iter().filter(|(axis, _)| *axis != along);
        at.into_iter()
            .all(|(axis, value)| p.other.cell.value(*axis) == *value)
    });
    here.into_iter().any(|p| context.stalls_apart(p))
}

/// The same from the verdicts of the run's findings, value by value.
fn by_findings(
    context: &ClaimContext<'_>,
    contrast: &Contrast,
    claimed: &CrossoverClaim<'_>,
) -> Vec<Item> {
    let pairs = context.pairs(contrast);
    let mut groups: BTreeMap<String, Vec<Pairing<'_, '_>>> = BTreeMap::new();
    for pair in &pairs {
        let group = pair.other.cell.id_without(&[contrast.axis, claimed.along]);
        groups.entry(group).or_default().push(*pair);
    }
    let firsts: Vec<&Cell> = groups.values().map(|g| g[0].other.cell).collect();
    let places = context.places(&firsts, &[contrast.axis, claimed.along]);
    let mut items = Vec::new();
    for (group, place) in groups.values().zip(places) {
        let values: Vec<String> = group
            .iter()
            .map(|p| p.other.cell.value(claimed.along))
            .collect();
        let Some(numbers) = grid::numbers(claimed.along, &values).filter(|n| n.len() > 1) else {
            continue;
        };
        let mut steps: Vec<(f64, Option<Verdict>)> = Vec::new();
        let mut findings = Vec::new();
        for (pair, number) in group.iter().zip(numbers) {
            let own = context.finding(claimed.metric, &pair.baseline.id, &pair.other.id);
            findings.extend(own.map(|(f, _)| f.id.clone()));
            steps.push((number, own.map(|(f, turned)| turn(f.verdict, turned))));
        }
        steps.sort_by(|a, b| a.0.total_cmp(&b.0));
        let stalled = group.iter().any(|p| context.stalls_apart(p));
        items.push(item(place, stalled, between(&steps), claimed, findings));
    }
    items
}

fn turn(verdict: Verdict, turned: bool) -> Verdict {
    match (verdict, turned) {
        (Verdict::Better, true) => Verdict::Worse,
        (Verdict::Worse, true) => Verdict::Better,
        (other, _) => other,
    }
}

/// Between the last value at which it is not better and the first from which on it always is.
fn between(steps: &[(f64, Option<Verdict>)]) -> Found {
    let better = |v: &Option<Verdict>| *v == Some(Verdict::Better);
    let not =
        |v: &Option<Verdict>| matches!(v, Some(Verdict::Worse | Verdict::NoDifferenceThatMatters));
    let (Some(least), Some(most)) = (steps.first(), steps.last()) else {
        return Found::Open;
    };
    let last_not = steps.iter().rposition(|(_, v)| not(v));
    let Some(last_not) = last_not else {
        return if steps.iter().all(|(_, v)| better(v)) {
            Found::Always { least: least.0 }
        } else {
            Found::Open
        };
    };
    if steps[..last_not].iter().any(|(_, v)| better(v)) {
        return Found::Open;
    }
    let above = &steps[last_not + 1..];
    match above.iter().position(|(_, v)| better(v)) {
        None if above.is_empty() => Found::Never { most: most.0 },
        None => Found::Open,
        Some(first) => Found::Between {
            low: steps[last_not].0,
            high: above[first].0,
        },
    }
}

fn item(
    place: String,
    stalled: bool,
    found: Found,
    claimed: &CrossoverClaim<'_>,
    findings: Vec<String>,
) -> Item {
    let told = |number: f64| match claimed.along {
        Axis::Threads | Axis::Fields | Axis::Depth => units::number(number),
        _ => size_in_words(number),
    };
    let measured = match found {
        Found::Always { least } => Some(format!("better from the least, {}, on", told(least))),
        Found::Never { most } => Some(format!("not better up to the greatest, {}", told(most))),
        Found::Between { low, high } => Some(format!(
            "better from between {} and {}",
            told(low),
            told(high)
        )),
        Found::Open => None,
    };
    let from = units::parse_bytes(claimed.from).map_or(f64::NAN, |n| n as f64);
    Item {
        value: 0.0,
        place,
        state: held(found, from, claimed.tolerance),
        published: Some(format!("from {}", claimed.along.subject(claimed.from))),
        measured,
        finding: findings.first().cloned(),
        stalled,
        twin: String::new(),
    }
}

/// A size that need not be whole: `21.6 KiB`.
fn size_in_words(bytes: f64) -> String {
    let whole = units::bytes_in_words(bytes.round().max(0.0) as u64);
    match bytes {
        b if !whole.ends_with(" B") || b < 1024.0 => whole,
        b if b < 1_048_576.0 => format!("{} KiB", units::number(b / 1024.0)),
        b => format!("{} MiB", units::number(b / 1_048_576.0)),
    }
}

/// What was found against the place that was claimed.
fn held(found: Found, from: f64, tolerance: f64) -> CaseResult {
    let open = |why: &str| CaseResult::Open(why.to_owned());
    match found {
        Found::Always { least } if from > least * tolerance => CaseResult::NotMet,
        Found::Always { least } if from < least / tolerance => {
            open("nothing was measured near the place that is claimed")
        }
        Found::Always { .. } => CaseResult::Met,
        Found::Never { most } if from > most => {
            open("nothing was measured above the place that is claimed")
        }
        Found::Never { .. } => CaseResult::NotMet,
        Found::Between { low, high } => {
            let middle = (low.max(1.0) * high.max(1.0)).sqrt();
            let near = |place: f64| (place / tolerance..=place * tolerance).contains(&from);
            if (low..=high).contains(&from) || near(middle) {
                CaseResult::Met
            } else if from < low / tolerance || from > high * tolerance {
                CaseResult::NotMet
            } else {
                open("the place is not known finely enough: measure more values between")
            }
        }
        Found::Open => {
            open("the comparisons along the axis are not all decided, or cross more than once")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_between_the_last_not_better_and_the_first_better() {
        let check = |verdicts: &str, expected: Found| {
            let steps: Vec<(f64, Option<Verdict>)> = verdicts
                .chars()
                .enumerate()
                .map(|(i, c)| {
                    let verdict = match c {
                        '+' => Some(Verdict::Better),
                        '-' => Some(Verdict::Worse),
                        '=' => Some(Verdict::NoDifferenceThatMatters),
                        '?' => Some(Verdict::NotDecided),
                        _ => None,
                    };
                    (f64::from(1 << i), verdict)
                })
                .collect();
            assert_eq!(between(&steps), expected, "{verdicts}");
        };
        check("++++", Found::Always { least: 1.0 });
        check("-==-", Found::Never { most: 8.0 });
        check(
            "-=++",
            Found::Between {
                low: 2.0,
                high: 4.0,
            },
        );
        check(
            "-?++",
            Found::Between {
                low: 1.0,
                high: 4.0,
            },
        );
        check("+-++", Found::Open);
        check("-??", Found::Open);
        check("?+++", Found::Open);
        check(" ", Found::Open);
        check("", Found::Open);
    }

    #[test]
    fn a_claimed_place_is_held_against_what_was_found() {
        let check = |found: Found, from: f64, met: Option<bool>| {
            let state = held(found, from, 2.0);
            let is = match state {
                CaseResult::Met => Some(true),
                CaseResult::NotMet => Some(false),
                _ => None,
            };
            assert_eq!(is, met, "{found:?} {from}");
        };
        let between = Found::Between {
            low: 4.0,
            high: 16.0,
        };
        for (from, met) in [
            (4.0, Some(true)),
            (10.0, Some(true)),
            (16.0, Some(true)),
            (3.0, None),
            (1.0, Some(false)),
            (64.0, Some(false)),
        ] {
            check(between, from, met);
        }
        check(Found::Always { least: 2.0 }, 8.0, Some(false));
        check(Found::Always { least: 2.0 }, 2.0, Some(true));
        check(Found::Always { least: 2.0 }, 0.5, None);
        check(Found::Never { most: 8.0 }, 4.0, Some(false));
        check(Found::Never { most: 8.0 }, 16.0, None);
        check(Found::Open, 4.0, None);
    }
}
