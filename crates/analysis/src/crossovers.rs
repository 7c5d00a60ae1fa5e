//! From which size on one way is better than another: between the sizes that findings decide.

use std::collections::BTreeSet;

use bytecost_spec::{Axis, Metric};
use itertools::Itertools as _;

use crate::contrast::{PairContrast, Standing};
use crate::grid;
use crate::grouping::grouped;
use crate::pairing::{Pairing, pairings};
use crate::result::{Crossing, CrossingPoint, Crossover, Finding, Verdict};
use crate::view::View;

mod sentence;

/// Two values of an axis over the numbers of another axis, all else alike.
struct Curve<'v> {
    along: Axis,
    /// By rising number: the value along, as text, and the pair there.
    points: Vec<(String, Pairing<'v, 'v>)>,
    /// What both hold constant, of the axes that vary in the study.
    place: Vec<(Axis, String)>,
}

/// Every crossover of the study's comparisons: by comparison, metric and axis along, then in the
/// order of the plan.
pub(crate) fn all(view: &View<'_>) -> Vec<Crossover> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for compare in &view.input.manifest.study.compare {
        for along in alongs(view, compare.axis) {
            let curves = curves(view, compare.axis, &compare.baseline, along);
            for metric in &compare.metrics {
                let told = curves.iter().filter_map(|c| c.crossover(view, *metric));
                found.extend(told.filter(|c| seen.insert(key(c))));
            }
        }
    }
    found
}

fn key(c: &Crossover) -> String {
    let place: Vec<String> = c.place.iter().map(|(a, v)| format!("{a:?} {v}")).collect();
    format!(
        "{} {:?} {} {} {:?} {}",
        c.metric,
        c.axis,
        c.baseline,
        c.value,
        c.along,
        place.join(" ")
    )
}

/// The axes along which something can cross: their values are numbers and vary. None where the
/// compared axis is one of numbers itself.
fn alongs(view: &View<'_>, compared: Axis) -> Vec<Axis> {
    let numeric = |axis: Axis| {
        let cells = view.trials.moving().map(|c| c.cell.value(axis));
        let values: BTreeSet<String> = cells.collect();
        grid::numbers(axis, &values.into_iter().collect::<Vec<_>>()).is_some()
    };
    if numeric(compared) {
        return Vec::new();
    }
    let mut axes: Vec<Axis> = view
        .varied
        .iter()
        .copied()
        .filter(|a| numeric(*a))
        .collect();
    axes.sort_by_key(|a| *a != Axis::Size);
    axes
}

/// The curves of one comparison along an axis, in the order of the plan; those of at least two
/// points. Cells that wait for a timer are left out: where they cross says nothing of the ways.
fn curves<'v>(view: &View<'v>, axis: Axis, baseline: &str, along: Axis) -> Vec<Curve<'v>> {
    let study = &view.input.manifest.study;
    let points = pairings(study, view.trials, axis, baseline).into_iter();
    let points = points.filter_map(|pairing| {
        let cell = pairing.other.cell;
        let x = cell.value(along);
        let number = along.number(&x).filter(|n| *n > 0.0)?;
        let stalls = view.stalls.any([&pairing.baseline.id, &pairing.other.id]);
        (!stalls).then(|| (cell.id_without(&[along]), (number, x, pairing)))
    });
    let curves = grouped(points).into_iter();
    let curves = curves.filter(|(_, points)| points.len() > 1);
    let curve = |points: Vec<(f64, String, Pairing<'v, 'v>)>| {
        let (base, other) = (points[0].2.baseline.cell, points[0].2.other.cell);
        let held = |a: &&Axis| **a != axis && **a != along && base.value(**a) == other.value(**a);
        let held = view.varied.iter().filter(held);
        let place = held.map(|a| (*a, other.value(*a))).collect();
        let points = points.into_iter().sorted_by(|a, b| a.0.total_cmp(&b.0));
        Curve {
            along,
            points: points.map(|(_, x, pairing)| (x, pairing)).collect(),
            place,
        }
    };
    curves.map(|(_, points)| curve(points)).collect()
}

impl<'v> Curve<'v> {
    /// Where the two cross in a metric; none where fewer than two points have it.
    fn crossover(&self, view: &View<'v>, metric: Metric) -> Option<Crossover> {
        let is_judged = |f: &Finding| f.verdict != Verdict::NotJudged;
        let asked = self.points.iter();
        let asked = asked.filter_map(|(x, pairing)| Some((x, view.contrast(*pairing, metric)?)));
        let judged = asked.filter(|(_, c)| c.finding().is_none_or(is_judged));
        let contrasts: Vec<(&String, PairContrast<'v>)> = judged.collect();
        let [(least, _), .., (most, _)] = contrasts.as_slice() else {
            return None;
        };
        let steps: Vec<(&str, Standing<'_>)> = contrasts
            .iter()
            .map(|(x, c)| (x.as_str(), c.standing()))
            .collect();
        let open = steps.iter().filter(|(_, s)| is_better(*s).is_none());
        let findings = contrasts.iter().filter_map(|(_, c)| c.finding());
        let pairing = self.points[0].1;
        let mut crossover = Crossover {
            metric,
            axis: pairing.axis,
            baseline: pairing.baseline.cell.value(pairing.axis),
            value: pairing.other.cell.value(pairing.axis),
            along: self.along,
            range: ((*least).to_owned(), (*most).to_owned()),
            place: self.place.clone(),
            outcome: crossing(&steps),
            findings: findings.map(|f| f.id.clone()).collect(),
            open: open.map(|(x, _)| (*x).to_owned()).collect(),
            sentence: String::new(),
        };
        let smallest = view.input.manifest.study.smallest_effect;
        crossover.sentence = sentence::of(&crossover, smallest, view.trials.unit);
        Some(crossover)
    }
}

/// Whether the other is decided to be better, or decided not to be.
fn is_better(standing: Standing<'_>) -> Option<bool> {
    match standing {
        Standing::Decided(Verdict::NotDecided) | Standing::Withheld(_) | Standing::NotJudged => {
            None
        }
        Standing::Decided(verdict) => Some(verdict == Verdict::Better),
    }
}

/// What becomes of two ways along values in their order. A place lies between the last decided
/// value on its one side and the first on its other: values that are not decided widen it.
fn crossing(steps: &[(&str, Standing<'_>)]) -> Crossing {
    let decided: Vec<(&str, bool, bool)> = (steps.iter())
        .filter_map(|(x, s)| {
            let same = *s == Standing::Decided(Verdict::NoDifferenceThatMatters);
            Some((*x, is_better(*s)?, same))
        })
        .collect();
    let whole = decided.len() == steps.len();
    if !decided.iter().any(|(_, better, _)| *better) {
        return match whole && !decided.is_empty() {
            true => Crossing::NeverBetter,
            false => Crossing::Undecided,
        };
    }
    if whole && decided.iter().all(|(_, better, _)| *better) {
        return Crossing::AlwaysBetter;
    }
    let place = |low: Option<&(&str, bool, bool)>, high: Option<&(&str, bool, bool)>| {
        let value = |end: Option<&(&str, bool, bool)>| end.map(|(x, ..)| (*x).to_owned());
        CrossingPoint {
            better_above: high.is_some_and(|(_, better, _)| *better),
            fades: [low, high].into_iter().flatten().any(|(.., same)| *same),
            low: value(low),
            high: value(high),
        }
    };
    let mut points = Vec::new();
    // Values beyond the first and the last decided one leave the end open.
    let (first, last) = (decided.first(), decided.last());
    let is_end = |end: Option<&(&str, bool, bool)>, step: Option<&(&str, Standing<'_>)>| {
        end.zip(step)
            .is_some_and(|(end, step)| end.1 && end.0 != step.0)
    };
    if is_end(first, steps.first()) {
        points.push(place(None, first));
    }
    let pairs = decided.iter().zip(decided.iter().skip(1));
    let turns = pairs.filter(|(one, other)| one.1 != other.1);
    points.extend(turns.map(|(one, other)| place(Some(one), Some(other))));
    if is_end(last, steps.last()) {
        points.push(place(last, None));
    }
    Crossing::At(points)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_lie_between_decided_values() {
        // Better, worse, same, not decided and withheld at 1, 2, 3 and so on; the place is written
        // `2<4` where it is better above, `2>4` where it is below, with `~` where it fades.
        let check = |verdicts: &str, expected: &str| {
            let names: Vec<String> = (1..=verdicts.len()).map(|n| n.to_string()).collect();
            let standing = |c| match c {
                '+' => Standing::Decided(Verdict::Better),
                '-' => Standing::Decided(Verdict::Worse),
                '=' => Standing::Decided(Verdict::NoDifferenceThatMatters),
                '?' => Standing::Decided(Verdict::NotDecided),
                'w' => Standing::Withheld("the receiver was the limit"),
                _ => Standing::NotJudged,
            };
            let steps = names.iter().zip(verdicts.chars());
            let steps: Vec<_> = steps.map(|(x, c)| (x.as_str(), standing(c))).collect();
            let found = match crossing(&steps) {
                Crossing::AlwaysBetter => "always".to_owned(),
                Crossing::NeverBetter => "never".to_owned(),
                Crossing::Undecided => "undecided".to_owned(),
                Crossing::At(points) => {
                    let written = points.iter().map(|p| {
                        let end = |end: &Option<String>| end.clone().unwrap_or_default();
                        let sign = if p.better_above { "<" } else { ">" };
                        let fades = if p.fades { "~" } else { "" };
                        format!("{}{sign}{}{fades}", end(&p.low), end(&p.high))
                    });
                    written.collect::<Vec<String>>().join(" ")
                }
            };
            assert_eq!(found, expected, "{verdicts}");
        };
        check("++++", "always");
        check("-==-", "never");
        check("--++", "2<3");
        check("-?++", "1<3");
        check("-w++", "1<3");
        check("=?++", "1<3~");
        check("++=-", "2>3~");
        check("-++-", "1<2 3>4");
        check("+--+", "1>2 3<4");
        check("?+++", "<2");
        check("++??", "2>");
        check("?-?+?", "2<4 4>");
        check("????", "undecided");
        check("--??", "undecided");
        check("-- -", "undecided");
        check("", "undecided");
    }
}
