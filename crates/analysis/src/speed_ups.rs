//! The overview of a study: how many times as fast one way of each of its pairs is as the other.

use bytecost_spec::axis::AXES;
use bytecost_spec::claim::{has, is_at};
use bytecost_spec::study::Pair;
use bytecost_spec::{Axis, Better, Cell, units};

use crate::caveats;
use crate::contrast::PairContrast;
use crate::grid;
use crate::pairing::{Pairing, contrasted};
use crate::phrases;
use crate::result::{AnswerSentence, Estimate, Finding, Input, Point, SpeedUp, SpeedUpRow};
use crate::trials::Trials;
use crate::view::View;

/// Every pair that the study spans, in its order.
pub(crate) fn all(view: &View<'_>) -> Vec<SpeedUp> {
    let study = &view.input.manifest.study;
    if study.pairs.is_empty() {
        return Vec::new();
    }
    let spanned: Vec<Cell> = study.cells().into_iter().map(|(_, cell)| cell).collect();
    let pairs = study.pairs.iter().filter(|p| spans(p, &spanned));
    pairs
        .map(|pair| SpeedUp {
            title: pair.title.clone(),
            metric: pair.metric,
            axis: pair.axis,
            against: pair.against.clone(),
            published: pair.published,
            note: pair.note.clone(),
            rows: rows(pair, view),
        })
        .collect()
}

/// Whether a study asks for both ways of a pair.
fn spans(pair: &Pair, cells: &[Cell]) -> bool {
    let asks = |value: &String| {
        let mut there = cells.iter().filter(|c| is_at(c, &pair.at));
        there.any(|c| has(c, pair.axis, value))
    };
    asks(&pair.against) && pair.values.iter().any(asks)
}

fn rows(pair: &Pair, view: &View<'_>) -> Vec<SpeedUpRow> {
    let of_value = |value: &String| both_ways(pair, value, view.trials);
    let found: Vec<Pairing<'_, '_>> = pair.values.iter().flat_map(of_value).collect();
    if found.is_empty() {
        return vec![SpeedUpRow {
            value: pair.values.first().cloned().unwrap_or_default(),
            place: Vec::new(),
            cell: String::new(),
            baseline: String::new(),
            point: Point::Gap(why_none(pair, view.input)),
        }];
    }
    let own = grid::varied(found.iter().map(|p| p.other.cell));
    let theirs = grid::varied(found.iter().map(|p| p.baseline.cell));
    let apart = |p: &Pairing<'_, '_>| -> Vec<(Axis, String)> {
        let axes = AXES.iter().map(|row| row.axis).filter(|a| *a != pair.axis);
        axes.filter_map(|axis| match (own.contains(&axis), theirs.contains(&axis)) {
            (true, _) => Some((axis, p.other.cell.value(axis))),
            (false, true) => Some((axis, p.baseline.cell.value(axis))),
            (false, false) => None,
        })
        .collect()
    };
    let row = |p: &Pairing<'_, '_>| SpeedUpRow {
        value: p.other.cell.value(pair.axis),
        place: apart(p),
        cell: p.other.id.clone(),
        baseline: p.baseline.id.clone(),
        point: point(pair, p, view),
    };
    found.iter().map(row).collect()
}

/// The pairs of a value, and those of what it is held against that are in none: what takes a file
/// whole stands against each block of what does not.
fn both_ways<'t, 'a>(pair: &Pair, value: &str, trials: &'t Trials<'a>) -> Vec<Pairing<'t, 'a>> {
    let mut found = contrasted(trials, pair.axis, value, &pair.against, &pair.at);
    let turned = contrasted(trials, pair.axis, &pair.against, value, &pair.at);
    for p in turned {
        if found.iter().all(|f| f.baseline.id != p.other.id) {
            found.push(Pairing {
                axis: p.axis,
                baseline: p.other,
                other: p.baseline,
            });
        }
    }
    found
}

/// The ratio, turned over where less is faster.
fn point(pair: &Pair, p: &Pairing<'_, '_>, view: &View<'_>) -> Point {
    let cells = [p.baseline.id.as_str(), p.other.id.as_str()];
    if let Some(why) = caveats::because(view.caveats, (pair.metric.measure, pair.axis), cells) {
        return Point::Gap(format!("withheld: {why}"));
    }
    let (axis, metric) = (p.axis, pair.metric);
    let (baseline, other) = match metric.better() {
        Better::Higher => (p.baseline, p.other),
        Better::Lower => (p.other, p.baseline),
    };
    let turned = Pairing {
        axis,
        baseline,
        other,
    };
    match PairContrast::of(turned, metric, &view.trials.moderations) {
        Some(contrast) => {
            let ratio = contrast.ratio();
            Point::Measured(Estimate {
                value: ratio.value,
                low: Some(ratio.low),
                high: Some(ratio.high),
                trials: contrast.location.count,
            })
        }
        None => Point::Gap(why_no_ratio(pair, p, view)),
    }
}

/// Why the two cells of a pair have no ratio.
fn why_no_ratio(pair: &Pair, p: &Pairing<'_, '_>, view: &View<'_>) -> String {
    let both = [p.other, p.baseline];
    let absent = |id: &str| {
        let result = view.cells.iter().find(|r| r.id == id)?;
        result.absent.get(&pair.metric).cloned()
    };
    let failed = || both.iter().find_map(|c| c.failures.first());
    if let Some(why) = both.iter().find_map(|c| absent(&c.id)) {
        why
    } else if let Some(failure) = failed() {
        format!("trials failed: {}", failure.reason)
    } else if let Some(why) = view.input.ended_early {
        format!("the run ended before three blocks had both: {why}")
    } else {
        "fewer than three blocks have both".to_owned()
    }
}

/// Why no two cells of a pair were planned: they were refused, or the budget did not reach them.
fn why_none(pair: &Pair, input: &Input<'_>) -> String {
    let asked = |value: &str| {
        let refusals = input.refusals.iter();
        let mut told = refusals.filter_map(|r| Some((Cell::from_id(&r.what)?, &r.why)));
        told.find(|(cell, _)| is_at(cell, &pair.at) && has(cell, pair.axis, value))
            .map(|(_, why)| why.clone())
    };
    let values = std::iter::once(&pair.against).chain(&pair.values);
    if let Some(why) = values.into_iter().find_map(|value| asked(value)) {
        return why;
    }
    match input.left_out {
        [] => "no two cells were planned that differ in nothing else".to_owned(),
        [one] => format!("left out: {}", one.why),
        _ => "left out: the budget did not reach it".to_owned(),
    }
}

/// A sentence for each pair, with what was published of it.
pub(crate) fn answers(speed_ups: &[SpeedUp], findings: &[Finding]) -> Vec<AnswerSentence> {
    let told = speed_ups.iter().map(|s| {
        let is_of = |f: &&Finding| {
            let ends = [f.cell.as_str(), f.baseline.as_str()];
            let rows = || {
                s.rows
                    .iter()
                    .map(|r| [r.cell.as_str(), r.baseline.as_str()])
            };
            f.metric == s.metric && rows().any(|r| r == ends || r == [ends[1], ends[0]])
        };
        AnswerSentence {
            sentence: format!("{}: {}{}.", s.title, found(s), published(s)),
            findings: findings
                .iter()
                .filter(is_of)
                .map(|f| f.id.clone())
                .collect(),
        }
    });
    told.collect()
}

/// `0.12× to 0.81× as fast in 3 cells`.
fn found(speed_up: &SpeedUp) -> String {
    let measured: Vec<&Estimate> = speed_up
        .rows
        .iter()
        .filter_map(|row| match &row.point {
            Point::Measured(e) => Some(e),
            Point::Gap(_) => None,
        })
        .collect();
    let least = measured.iter().min_by(|a, b| a.value.total_cmp(&b.value));
    let most = measured.iter().max_by(|a, b| a.value.total_cmp(&b.value));
    let why = speed_up.rows.iter().find_map(|row| match &row.point {
        Point::Gap(why) => Some(why.trim_end_matches('.')),
        Point::Measured(_) => None,
    });
    match (least, most) {
        (Some(one), Some(_)) if measured.len() == 1 => {
            let (low, high) = (one.low.unwrap_or(one.value), one.high.unwrap_or(one.value));
            format!("{} as fast", phrases::ratio(one.value, low, high))
        }
        (Some(least), Some(most)) => {
            let [from, to] = [least.value, most.value].map(units::number);
            let span = if from == to {
                format!("{to}×")
            } else {
                format!("{from}× to {to}×")
            };
            let cells = phrases::count(measured.len(), "cell");
            format!("{span} as fast in {cells}")
        }
        _ => format!("not measured here: {}", why.unwrap_or("no such cells")),
    }
}

fn published(speed_up: &SpeedUp) -> String {
    speed_up.published.map_or_else(String::new, |times| {
        format!("; published {}×", units::number(times))
    })
}
