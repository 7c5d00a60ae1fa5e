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

/// A value along the axis, and how two ways stand there.
type Step<'s> = (&'s str, Standing<'s>);

/// Two values of an axis over the numbers of another axis, all else alike.
struct Curve<'v> {
    along: Axis,
    /// By rising number: the value along, as text, and the pair there.
    points: Vec<(String, Pairing<'v, 'v>)>,
    /// What both hold constant, of the axes that vary in the study.
    place: Vec<(Axis, String)>,
}

/// Every crossover: by comparison, axis along and metric, then in the order of the plan.
pub(crate) fn all(view: &View<'_>) -> Vec<Crossover> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for compare in &view.input.manifest.study.compare {
        for along in alongs(view, compare.axis) {
            let curves = curves(view, compare.axis, &compare.baseline, along);
            for metric in &compare.metrics {
                let told = curves.iter().filter_map(|c| c.crossover(view, *metric));
                found.extend(told.filter(|c| {
                    let ways = (c.axis, c.baseline.clone(), c.value.clone());
                    seen.insert((c.metric, ways, c.along, c.place.clone()))
                }));
            }
        }
    }
    found
}

/// The axes of numbers that vary; none where the compared axis is one of numbers itself.
fn alongs(view: &View<'_>, compared: Axis) -> Vec<Axis> {
    let is_numeric = |axis: &Axis| {
        let values = view.trials.moving().map(|c| c.cell.value(*axis));
        grid::numbers(*axis, &values.unique().collect_vec()).is_some()
    };
    if is_numeric(&compared) {
        return Vec::new();
    }
    let axes = view.varied().iter().copied().filter(is_numeric);
    axes.sorted_by_key(|a| *a != Axis::Size).collect()
}

/// The curves of one comparison along an axis, in the order of the plan; those of at least two
/// points. Cells that wait for a timer are left out: where they cross says nothing of the ways.
fn curves<'v>(view: &View<'v>, axis: Axis, baseline: &str, along: Axis) -> Vec<Curve<'v>> {
    let points = pairings(view.trials, axis, baseline).into_iter();
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
        let (base, other) = (points[0].2.baseline.cell, points[0].2.other);
        // A baseline without a depth, say, is that of all depths, each of which has its own place.
        let is_of = |a: Axis| base.value(a) == other.cell.value(a) || other.facts.applies(a);
        let held = |a: &&Axis| **a != axis && **a != along && is_of(**a);
        let place = grid::coordinates(other.cell, view.varied().iter().filter(held));
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
    fn crossover(&self, view: &'v View<'v>, metric: Metric) -> Option<Crossover> {
        let is_judged = |f: &Finding| f.verdict != Verdict::NotJudged;
        let asked = self.points.iter();
        let asked = asked.filter_map(|(x, pairing)| Some((x, view.contrast(*pairing, metric)?)));
        let judged = asked.filter(|(_, c)| c.finding().is_none_or(is_judged));
        let contrasts: Vec<(&String, PairContrast<'v>)> = judged.collect();
        let [(least, _), .., (most, _)] = contrasts.as_slice() else {
            return None;
        };
        let steps = contrasts.iter().map(|(x, c)| (x.as_str(), c.standing()));
        let steps = steps.collect_vec();
        let open = steps.iter().filter(|(_, s)| decided(*s).is_none());
        let findings = contrasts.iter().filter_map(|(_, c)| c.finding());
        let pairing = self.points[0].1;
        Some(Crossover {
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
        })
    }
}

fn decided(standing: Standing<'_>) -> Option<Verdict> {
    match standing {
        Standing::Decided(Verdict::NotDecided) | Standing::Withheld(_) | Standing::NotJudged => {
            None
        }
        Standing::Decided(verdict) => Some(verdict),
    }
}

/// What becomes of two ways along values in their order. A place lies between the last decided
/// value on its one side and the first on its other: values that are not decided widen it.
fn crossing(steps: &[Step<'_>]) -> Crossing {
    type Known<'s> = (&'s str, Verdict);
    let known = steps.iter().filter_map(|(x, s)| Some((*x, decided(*s)?)));
    let known: Vec<Known<'_>> = known.collect();
    let is_better = |step: &Known<'_>| step.1 == Verdict::Better;
    let whole = known.len() == steps.len();
    if !known.iter().any(is_better) {
        return match whole && !known.is_empty() {
            true => Crossing::NeverBetter,
            false => Crossing::Undecided,
        };
    }
    if whole && known.iter().all(is_better) {
        return Crossing::AlwaysBetter;
    }
    let place = |low: Option<&Known<'_>>, high: Option<&Known<'_>>| {
        let mut ends = [low, high].into_iter().flatten();
        CrossingPoint {
            better_above: high.is_some_and(is_better),
            fades: ends.any(|step| step.1 == Verdict::NoDifferenceThatMatters),
            low: low.map(|(x, _)| (*x).to_owned()),
            high: high.map(|(x, _)| (*x).to_owned()),
        }
    };
    let mut points = Vec::new();
    // Values beyond the first and the last decided one leave the end open.
    let (first, last) = (known.first(), known.last());
    let is_end = |end: Option<&Known<'_>>, step: Option<&Step<'_>>| {
        let ends = end.zip(step);
        ends.is_some_and(|(end, step)| is_better(end) && end.0 != step.0)
    };
    if is_end(first, steps.first()) {
        points.push(place(None, first));
    }
    let pairs = known.iter().tuple_windows();
    let turns = pairs.filter(|(one, other)| is_better(one) != is_better(other));
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
