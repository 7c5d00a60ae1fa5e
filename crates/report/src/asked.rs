//! The values that the study or the command line names: those without a result with the reason,
//! and those that a text does not show yet.

use bytecost_analysis::Analysis;
use bytecost_spec::{Axis, Cell, Value};
use itertools::Itertools as _;

use crate::question::place_in_words;

/// The label of cells of which every trial failed.
const FAILED: &str = "Failed";
/// The label of values that this machine refuses.
const NOT_AVAILABLE: &str = "Not available";
/// The label of values that the plan left out, or that the run did not reach.
const NOT_MEASURED: &str = "Not measured";

/// A value, or a way with a value of another axis, that has no result.
pub(crate) struct Missing {
    pub label: &'static str,
    /// The missing value in words: `` `select` with 2,000 connections ``.
    pub subject: String,
    pub why: String,
}

struct AbsentCell<'a> {
    cell: &'a Cell,
    label: &'static str,
    why: String,
}

/// The cells that were refused or of which every trial failed.
fn absent_cells(a: &Analysis) -> Vec<AbsentCell<'_>> {
    let failed = a.cells.iter().filter(|c| c.trials == 0).filter_map(|c| {
        // The two ends of a trial report in either order: what most trials begin with is the cause.
        let failures = a.failures.iter().filter(|f| f.cell == c.id);
        let counts = failures.map(|f| f.reason.as_str()).counts().into_iter();
        let (reason, _) = counts.max_by_key(|(reason, times)| (*times, *reason))?;
        Some(AbsentCell {
            cell: &c.cell,
            label: FAILED,
            why: format!("every trial failed: {reason}"),
        })
    });
    let refused = a.refused_cells.iter().map(|r| AbsentCell {
        cell: &r.cell,
        label: NOT_AVAILABLE,
        why: r.why.clone(),
    });
    failed.chain(refused).collect()
}

fn is_measured(a: &Analysis, values: &[(Axis, &Value)]) -> bool {
    let has = |cell: &Cell| values.iter().all(|(axis, v)| cell.value(*axis) == **v);
    a.cells.iter().any(|c| c.trials > 0 && has(&c.cell))
}

fn values(a: &Analysis) -> impl Iterator<Item = (Axis, &Value)> {
    let asked = a.study.asked.iter();
    asked.flat_map(|(axis, values)| values.iter().map(|value| (*axis, value)))
}

/// Values without a result: first those that no cell was measured with, then ways that were measured
/// elsewhere alone.
pub(crate) fn missing(a: &Analysis) -> Vec<Missing> {
    let absences = absent_cells(a);
    let lost: Vec<(Axis, &Value)> = values(a).filter(|v| !is_measured(a, &[*v])).collect();
    let has = |cell: &Cell, (axis, value): (Axis, &Value)| cell.value(axis) == *value;
    let mut missing = Vec::new();
    for &(axis, value) in &lost {
        // A value that the budget did not reach may be available, even if a cell with it is refused.
        let refused = absences
            .iter()
            .find(|absent| has(absent.cell, (axis, value)));
        let known = refused.filter(|_| !is_left_out(a, (axis, value)));
        missing.push(Missing {
            label: known.map_or(NOT_MEASURED, |absent| absent.label),
            subject: axis.subject(value),
            why: known.map_or_else(|| left_out(a), |absent| absent.why.clone()),
        });
    }
    for absent in &absences {
        if !lost.iter().any(|lost| has(absent.cell, *lost)) {
            missing.push(Missing {
                label: absent.label,
                subject: place_without_result(a, absent.cell),
                why: absent.why.clone(),
            });
        }
    }
    if !missing.iter().any(|m| m.label == NOT_MEASURED) {
        missing.extend(a.left_out.iter().map(|left| Missing {
            label: NOT_MEASURED,
            subject: left.what.clone(),
            why: left.why.clone(),
        }));
    }
    let unique = missing.into_iter().unique_by(|m| m.subject.clone());
    unique.collect()
}

/// Returns true if all that was measured has the same value of an axis.
pub(crate) fn is_constant(a: &Analysis, axis: Axis) -> bool {
    let measured = values(a).filter(|v| v.0 == axis && is_measured(a, &[*v]));
    measured.count() == 1
}

/// The way of a cell with the first value that it was never measured with; else all of the cell's
/// values.
fn place_without_result(a: &Analysis, cell: &Cell) -> String {
    let way = if cell.is_served() {
        Axis::Server
    } else {
        Axis::Mover
    };
    let name = cell.value(way);
    let mut others = values(a).filter(|(axis, value)| *axis != way && cell.value(*axis) == **value);
    let apart = others.find(|other| !is_measured(a, &[(way, &name), *other]));
    let subject = way.subject(&name);
    match apart {
        Some((axis, value)) => format!("{subject} {}", axis.circumstance(value)),
        None => {
            let axes = a.study.asked.iter().map(|(axis, _)| *axis);
            let place = axes
                .filter(|axis| *axis != way)
                .map(|axis| (axis, cell.value(axis)));
            format!("{subject} ({})", place_in_words(place))
        }
    }
}

fn is_left_out(a: &Analysis, (axis, value): (Axis, &Value)) -> bool {
    let mut groups = a.left_out.iter().flat_map(|left| &left.values);
    groups.any(|(left, values)| *left == axis && values.contains(value))
}

fn left_out(a: &Analysis) -> String {
    match &a.left_out[..] {
        [] => "the run has no trial of it".to_owned(),
        [one] => one.why.clone(),
        _ => "the budget did not pay for more".to_owned(),
    }
}

/// The values that were measured and are neither among these nor named in these texts.
pub(crate) fn unshown<'a>(
    a: &'a Analysis,
    shown: &[(Axis, Value)],
    texts: &[&str],
) -> Vec<(Axis, &'a Value)> {
    let is_shown = |(axis, value): (Axis, &Value)| {
        let subject = axis.subject(value);
        let in_table = shown.iter().any(|(of, v)| *of == axis && v == value);
        in_table || texts.iter().any(|text| names(text, &subject))
    };
    let measured = values(a).filter(|value| is_measured(a, &[*value]));
    measured.filter(|value| !is_shown(*value)).collect()
}

/// Returns true if the text contains the words as whole words: `1 MiB` is not in `11 MiB`.
fn names(text: &str, words: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric());
    let mut found = text.match_indices(words);
    found.any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + words.len()..].chars().next();
        !is_part(before) && !is_part(after)
    })
}
