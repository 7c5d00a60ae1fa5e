//! From which size on one way is better than another: between the sizes that findings decide.

use bytecost_spec::study::Compare;
use bytecost_spec::{Axis, Metric, Value};
use itertools::Itertools as _;

use crate::grid;
use crate::grouping::grouped;
use crate::result::{Crossing, CrossingPoint, Crossover, Verdict};
use crate::stages::Judged;
use crate::stages::JudgedPair;

/// A value along the axis, and what is decided of two ways there, if anything is.
type Step<'s> = (&'s Value, Option<Verdict>);

/// Two values of an axis over the numbers of another axis, all else alike, by rising number.
type Curve<'v> = Vec<(Value, JudgedPair<'v>)>;

/// Every crossover: by comparison, axis along and metric, then in the order of the plan.
pub(crate) fn all<'v>(run: &'v Judged<'v>) -> Vec<Crossover> {
    let mut found = Vec::new();
    for compare in &run.measured.input.manifest.study.compare {
        for along in alongs(run, compare.axis) {
            let curves = curves(run, compare, along);
            found.extend(curves.iter().map(|curve| crossover(run, along, curve)));
        }
    }
    let same = |c: &Crossover| {
        let ways = (c.axis, c.baseline.clone(), c.value.clone());
        (c.metric, ways, c.along, c.place.clone())
    };
    found.into_iter().unique_by(same).collect()
}

/// The axes of numbers that vary; none where the compared axis is one of numbers itself.
fn alongs(run: &Judged<'_>, compared: Axis) -> Vec<Axis> {
    let is_numeric = |axis: &Axis| {
        let values = run.measured.trials.moving().map(|c| c.cell.value(*axis));
        grid::numbers(*axis, &values.unique().collect_vec()).is_some()
    };
    if is_numeric(&compared) {
        return Vec::new();
    }
    let axes = run.measured.study.varied.iter().copied().filter(is_numeric);
    axes.sorted_by_key(|a| *a != Axis::Size).collect()
}

/// The judged pairs of one comparison along an axis, those of two points or more. Cells that wait for
/// a timer are left out: where they cross says nothing of the ways.
fn curves<'v>(run: &'v Judged<'v>, compare: &Compare, along: Axis) -> Vec<Curve<'v>> {
    let asked_points = run.pairs().filter_map(|pair| {
        let finding = pair.finding;
        let is_judged = finding.verdict != Verdict::NotJudged;
        let is_asked = finding.is_of(compare) && is_judged && !run.measured.stalls.touch(finding);
        let cell = pair.pairing.other.cell;
        let x = cell.value(along);
        let number = along.number(&x).filter(|n| is_asked && *n > 0.0)?;
        let key = (finding.metric, cell.id_without(&[along]));
        Some((key, (number, x, pair)))
    });
    let place = |metric: &Metric| compare.metrics.iter().position(|m| m == metric);
    let curves = grouped(asked_points)
        .into_iter()
        .filter(|(_, points)| points.len() > 1)
        .sorted_by_key(|((metric, _), _)| place(metric));
    let curve = |points: Vec<(f64, Value, JudgedPair<'v>)>| {
        points
            .into_iter()
            .sorted_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, x, pair)| (x, pair))
            .collect()
    };
    curves.map(|(_, points)| curve(points)).collect()
}

fn crossover(run: &Judged<'_>, along: Axis, curve: &Curve<'_>) -> Crossover {
    let decided = |pair: &JudgedPair<'_>| pair.verdict().filter(|_| pair.is_decided());
    let steps = curve
        .iter()
        .map(|(x, pair)| (x, decided(pair)))
        .collect_vec();
    let open = steps.iter().filter(|(_, verdict)| verdict.is_none());
    let (finding, pairing) = (curve[0].1.finding, curve[0].1.pairing);
    let (base, other) = (pairing.baseline.cell, pairing.other);
    // A baseline without a depth, say, is that of all depths, each of which has its own place.
    let is_of = |a: Axis| base.value(a) == other.cell.value(a) || other.facts.applies(a);
    let is_held = |a: &&Axis| **a != pairing.axis && **a != along && is_of(**a);
    Crossover {
        metric: finding.metric,
        axis: finding.axis,
        baseline: finding.baseline_value.clone(),
        value: finding.value.clone(),
        along,
        range: (curve[0].0.clone(), curve[curve.len() - 1].0.clone()),
        place: grid::coordinates(other.cell, run.measured.study.varied.iter().filter(is_held)),
        outcome: crossing(&steps),
        findings: curve.iter().map(|(_, p)| p.finding.number).collect(),
        open: open.map(|(x, _)| (*x).clone()).collect(),
    }
}

/// The outcome of two ways along an axis. A crossing point lies between the last decided value on one
/// side and the first on the other, so that undecided values widen it.
fn crossing(steps: &[Step<'_>]) -> Crossing {
    type Known<'s> = (&'s Value, Verdict);
    let known: Vec<Known<'_>> = steps
        .iter()
        .filter_map(|(x, verdict)| Some((*x, (*verdict)?)))
        .collect();
    let is_better = |step: &Known<'_>| step.1 == Verdict::Better;
    let whole = known.len() == steps.len();
    if !known.iter().any(is_better) {
        return if whole && !known.is_empty() {
            Crossing::NeverBetter
        } else {
            Crossing::Undecided
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
            low: low.map(|(x, _)| (*x).clone()),
            high: high.map(|(x, _)| (*x).clone()),
        }
    };
    let mut points = Vec::new();
    // Values beyond the first and the last decided one leave the end open.
    let (first, last) = (known.first(), known.last());
    let is_end = |decided: Option<&Known<'_>>, outermost: Option<&Step<'_>>| {
        let ends = decided.zip(outermost);
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
        // Better, worse, same and not decided at 1, 2, 3 and so on; the place is written
        // `2<4` where it is better above, `2>4` where it is below, with `~` where it fades.
        let check = |verdicts: &str, expected: &str| {
            let names: Vec<Value> = (1..=verdicts.len() as u64).map(Value::Count).collect();
            let standing = |c| match c {
                '+' => Some(Verdict::Better),
                '-' => Some(Verdict::Worse),
                '=' => Some(Verdict::NoDifferenceThatMatters),
                _ => None,
            };
            let signs = verdicts.chars().map(standing);
            let steps: Vec<_> = names.iter().zip(signs).collect();
            let found = match crossing(&steps) {
                Crossing::AlwaysBetter => "always".to_owned(),
                Crossing::NeverBetter => "never".to_owned(),
                Crossing::Undecided => "undecided".to_owned(),
                Crossing::At(points) => {
                    let written = points.iter().map(|p| {
                        let end = |end: &Option<Value>| end.clone().unwrap_or_default();
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
