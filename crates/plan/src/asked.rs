//! Axes that someone named, by option or in a study file, and the cells that they apply to.

use std::collections::BTreeSet;

use bytecost_spec::axis::{AXES, CellFacts};
use bytecost_spec::{Axis, Cell, Invalid, Study, Survey, Value};
use itertools::Itertools as _;

use crate::candidates::moves_nothing;

/// Sees to it that no axis of these was named for nothing: the error is the first one with a value
/// that no cell of the study makes use of, and what it is for.
pub fn check_asked(study: &Study, axes: &[Axis], survey: &Survey) -> Result<(), Invalid> {
    let cells = moving(study, survey);
    let is_unused = |axis: &&Axis| {
        let facts = || cells.iter().map(|cell| CellFacts::of(cell, survey));
        let is_had = |value: &&Value| facts().any(|c| c.normal().value(**axis) == **value);
        !facts().any(|c| c.applies(**axis)) && !values(study, **axis).iter().all(is_had)
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

/// The axes that a study names.
pub fn named(study: &Study) -> Vec<Axis> {
    let axes = AXES.iter().map(|row| row.axis);
    axes.filter(|axis| !values(study, *axis).is_empty())
        .collect()
}

/// What the reader of a plan must know of axes that were asked for and apply to some cells only.
pub(crate) fn notes(study: &Study, survey: &Survey) -> Vec<String> {
    let cells = moving(study, survey);
    let note = |axis: &Axis| {
        let applies = |cell: &&Cell| CellFacts::of(cell, survey).applies(*axis);
        let (with, without): (Vec<&Cell>, Vec<&Cell>) = cells.iter().partition(applies);
        if with.is_empty() || without.is_empty() || values(study, *axis).is_empty() {
            return None;
        }
        let apart = AXES.iter().find_map(|row| {
            let subjects = |cells: &[&Cell]| -> BTreeSet<String> {
                let values = cells.iter().map(|cell| cell.value(row.axis));
                values.map(|value| row.axis.subject(&value)).collect()
            };
            let (with, without) = (subjects(&with), subjects(&without));
            with.is_disjoint(&without).then_some((with, without))
        });
        let list = |all: BTreeSet<String>| all.iter().join(", ");
        let (with, without) = apart.map(|(with, without)| (list(with), list(without)))?;
        Some(format!(
            "{axis} is for {}: it is used with {with}, and not with {without}",
            axis.row().applies_to.words
        ))
    };
    study.asked.iter().filter_map(note).collect()
}

/// All where none moves anything.
fn moving(study: &Study, survey: &Survey) -> Vec<Cell> {
    let all: Vec<Cell> = study.cells().into_iter().map(|(_, cell)| cell).collect();
    let moves = |cell: &&Cell| !moves_nothing(survey, cell);
    let moving: Vec<Cell> = all.iter().filter(moves).cloned().collect();
    if moving.is_empty() { all } else { moving }
}

/// But for its default.
fn values(study: &Study, axis: Axis) -> Vec<&Value> {
    let all = study.tiers.iter().flat_map(|tier| tier.values(axis));
    let others = all.filter(|value| *value != axis.row().default);
    others.sorted().dedup().collect()
}
