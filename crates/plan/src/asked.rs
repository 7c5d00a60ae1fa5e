//! Axes that an option or a study file names, and the cells that they apply to.

use std::collections::BTreeSet;

use bytecost_spec::axis::{AXES, CellFacts};
use bytecost_spec::{Axis, Cell, Invalid, Study, Survey, Value};
use itertools::Itertools as _;

use crate::candidates::moves_nothing;

/// Checks that each of these axes has an effect. The error is about the first axis that applies to no cell of
/// the study and has a value that no cell uses all the same, and says which cells the axis is for.
pub fn check_asked(study: &Study, axes: &[Axis], survey: &Survey) -> Result<(), Invalid> {
    let cells = moving(study, survey);
    let is_unused = |axis: &&Axis| {
        let facts = || cells.iter().map(|cell| CellFacts::new(cell, survey));
        let is_used = |value: &&Value| facts().any(|c| c.normal().value(**axis) == **value);
        !facts().any(|c| c.applies(**axis)) && !values(study, **axis).iter().all(is_used)
    };
    let Some(axis) = axes.iter().find(is_unused) else {
        return Ok(());
    };
    Err(Invalid(format!(
        "{axis} {} applies to no cell of study `{}`: it is for {}; choose such cells, or leave {axis} out",
        values(study, *axis).iter().join(", "),
        study.name,
        axis.row().applies_to.words
    )))
}

/// The axes to which a study gives other values than the default.
pub fn named(study: &Study) -> Vec<Axis> {
    (AXES.iter().map(|row| row.axis))
        .filter(|axis| !values(study, *axis).is_empty())
        .collect()
}

/// Notes for the reader of a plan about axes of options that apply to some of its cells only.
pub(crate) fn notes(study: &Study, survey: &Survey) -> Vec<String> {
    let all = moving(study, survey);
    let note = |axis: &Axis| {
        let applies = |cell: &&Cell| CellFacts::new(cell, survey).applies(*axis);
        let (with, without): (Vec<&Cell>, Vec<&Cell>) = all.iter().partition(applies);
        if with.is_empty() || without.is_empty() || values(study, *axis).is_empty() {
            return None;
        }
        let subjects = |cells: &[&Cell], separating: Axis| -> BTreeSet<String> {
            (cells.iter().map(|cell| cell.value(separating)))
                .map(|value| separating.subject(&value))
                .collect()
        };
        // An axis that separates the cells to which the note's axis applies from the others.
        let (with, without) = AXES
            .iter()
            .map(|row| (subjects(&with, row.axis), subjects(&without, row.axis)))
            .find(|(with, without)| with.is_disjoint(without))?;
        let [with, without] = [with, without].map(|names| names.iter().join(", "));
        Some(format!(
            "{axis} is for {}: it is used with {with}, and not with {without}",
            axis.row().applies_to.words
        ))
    };
    study.asked.iter().filter_map(note).collect()
}

/// The cells of a study that move something; all cells if none does.
fn moving(study: &Study, survey: &Survey) -> Vec<Cell> {
    let cells: Vec<Cell> = study.cells().into_iter().map(|(_, cell)| cell).collect();
    let moving: Vec<Cell> = (cells.iter())
        .filter(|cell| !moves_nothing(survey, cell))
        .cloned()
        .collect();
    if moving.is_empty() { cells } else { moving }
}

/// The values of an axis in a study, without the default.
fn values(study: &Study, axis: Axis) -> Vec<&Value> {
    (study.tiers.iter().flat_map(|tier| tier.values(axis)))
        .filter(|value| *value != axis.row().default)
        .sorted()
        .dedup()
        .collect()
}
