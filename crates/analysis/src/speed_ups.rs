//! The overview of a study: how many times as fast one way of each of its pairs is as the other.

use bytecost_spec::axis::AXES;
use bytecost_spec::claim::{has, is_at};
use bytecost_spec::study::Pair;
use bytecost_spec::{Axis, Better, Cell, Value};

use crate::comparison::{Pairing, contrasted};
use crate::grid;
use crate::result::{Estimate, Gap, Point, SpeedUp, SpeedUpRow};
use crate::stages::Judged;
use crate::trials::Trials;

/// Every pair that the study spans, in its order.
pub(crate) fn all(run: &Judged<'_>) -> Vec<SpeedUp> {
    let study = &run.measured.input.manifest.study;
    let spanned: Vec<Cell> = study.cells().into_iter().map(|(_, cell)| cell).collect();
    let pairs = study.pairs.iter().filter(|p| spans(p, &spanned));
    let speed_up = |pair: &Pair| SpeedUp {
        title: pair.title.clone(),
        metric: pair.metric,
        axis: pair.axis,
        against: pair.against.clone(),
        published: pair.published,
        note: pair.note.clone(),
        rows: rows(pair, run),
    };
    pairs.map(speed_up).collect()
}

fn spans(pair: &Pair, cells: &[Cell]) -> bool {
    let asks = |value: &Value| {
        let mut there = cells.iter().filter(|c| is_at(c, &pair.at));
        there.any(|c| has(c, pair.axis, value))
    };
    asks(&pair.against) && pair.values.iter().any(asks)
}

fn rows(pair: &Pair, run: &Judged<'_>) -> Vec<SpeedUpRow> {
    let of_value = |value: &Value| both_ways(pair, value, run.measured.trials);
    let found: Vec<Pairing<'_>> = pair.values.iter().flat_map(of_value).collect();
    if found.is_empty() {
        return vec![SpeedUpRow {
            value: pair.values.first().cloned().unwrap_or_default(),
            place: Vec::new(),
            cell: String::new(),
            baseline: String::new(),
            point: Point::Gap(why_none(pair, run)),
        }];
    }
    let own = grid::varied(found.iter().map(|p| p.other.cell));
    let theirs = grid::varied(found.iter().map(|p| p.baseline.cell));
    let apart = |p: &Pairing<'_>| -> Vec<(Axis, Value)> {
        let axes = AXES.iter().map(|row| row.axis).filter(|a| *a != pair.axis);
        axes.filter_map(|axis| match (own.contains(&axis), theirs.contains(&axis)) {
            (true, _) => Some((axis, p.other.cell.value(axis))),
            (false, true) => Some((axis, p.baseline.cell.value(axis))),
            (false, false) => None,
        })
        .collect()
    };
    let row = |p: &Pairing<'_>| SpeedUpRow {
        value: p.other.cell.value(pair.axis),
        place: apart(p),
        cell: p.other.id.clone(),
        baseline: p.baseline.id.clone(),
        point: point(pair, p, run),
    };
    found.iter().map(row).collect()
}

/// The pairs of a value with its baseline, and the baseline's own pairs that are not among them: a
/// way that takes a file whole has a pair with each block of one that does not.
fn both_ways<'t>(pair: &Pair, value: &Value, trials: &'t Trials<'t>) -> Vec<Pairing<'t>> {
    let mut found = contrasted(trials, pair.axis, value, &pair.against, &pair.at);
    let turned = contrasted(trials, pair.axis, &pair.against, value, &pair.at);
    for p in turned {
        if found.iter().all(|f| f.baseline.id != p.other.id) {
            found.push(p.turned());
        }
    }
    found
}

/// The ratio, turned over where less is faster.
fn point(pair: &Pair, p: &Pairing<'_>, run: &Judged<'_>) -> Point {
    if let Some(kind) = run.withheld_by(pair.metric, p) {
        return Point::Gap(Gap::Withheld(kind));
    }
    let faster = match pair.metric.better() {
        Better::Higher => *p,
        Better::Lower => p.turned(),
    };
    match run.measured.comparisons.contrast(&faster, pair.metric) {
        Some(contrast) => {
            let ratio = contrast.ratio();
            Point::Measured(Estimate {
                value: ratio.value,
                low: Some(ratio.low),
                high: Some(ratio.high),
                trials: contrast.location.count,
            })
        }
        None => Point::Gap(run.measured.gap(&[p.other, p.baseline], pair.metric)),
    }
}

/// The reason for which no two cells of a pair were planned: refused, or not reached by the budget.
fn why_none(pair: &Pair, run: &Judged<'_>) -> Gap {
    let asked = |value: &Value| {
        let mut refused = run.measured.input.refused.iter();
        let is_asked = |cell: &Cell| is_at(cell, &pair.at) && has(cell, pair.axis, value);
        Some(refused.find(|r| is_asked(&r.cell))?.why.clone())
    };
    let values = std::iter::once(&pair.against).chain(&pair.values);
    match values.into_iter().find_map(asked) {
        Some(why) => Gap::Refused(why),
        None if run.measured.input.left_out.is_empty() => Gap::NoPair,
        None => run.measured.left_out(),
    }
}
