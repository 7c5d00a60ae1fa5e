//! A question of the study as a table: the values of the compared axis down, another axis across.

use std::collections::BTreeMap;

use bytecost_analysis::{Analysis, CellResult, Estimate, Finding, Point};
use bytecost_spec::axis::AXES;
use bytecost_spec::{Axis, Cell, Metric, Value};
use itertools::Itertools as _;

use crate::missing_points::{ONE_IN_FLIGHT, gap_in_words};

/// The mover that moves nothing: its cells are the cost of the loop, and no way.
pub(crate) const NULL: &str = "null";

/// One table of the result: one metric compared along one axis, the rest held constant.
pub(crate) struct QuestionTable<'a> {
    pub metric: Metric,
    /// The axis whose values are compared, down.
    pub axis: Axis,
    /// The value that the others are held against.
    pub baseline: Value,
    /// The axis across, where anything else varies.
    pub x: Option<Axis>,
    pub columns: Vec<Value>,
    /// Values that the table holds constant, of the axes that vary in the study.
    pub panel: Vec<(Axis, Value)>,
    pub rows: Vec<QuestionRow<'a>>,
}

pub(crate) struct QuestionRow<'a> {
    pub name: Value,
    /// True for the row that the others are compared with.
    pub is_baseline: bool,
    pub entries: Vec<QuestionEntry<'a>>,
}

pub(crate) enum QuestionEntry<'a> {
    /// Measured, with the comparison where there is one.
    Measured(Estimate, Option<&'a Finding>),
    Gap(String),
}

impl<'a> QuestionEntry<'a> {
    pub(crate) fn finding(&self) -> Option<&'a Finding> {
        match self {
            QuestionEntry::Measured(_, finding) => *finding,
            QuestionEntry::Gap(_) => None,
        }
    }
}

/// All tables of a result, in the order of the first finding of each.
pub(crate) fn questions(a: &Analysis) -> Vec<QuestionTable<'_>> {
    let grid = Grid::new(a);
    let keys = a.findings.iter().filter_map(|f| grid.best_key(f));
    keys.unique().map(|key| grid.question(&key)).collect()
}

/// Common properties of the findings of one table.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    axis: Axis,
    metric: Metric,
    baseline: Value,
    x: Option<Axis>,
    rest: String,
}

struct Grid<'a> {
    a: &'a Analysis,
    cells: BTreeMap<&'a str, &'a CellResult>,
    refused: Vec<(&'a Cell, &'a str)>,
    findings: BTreeMap<Key, Vec<&'a Finding>>,
}

impl<'a> Grid<'a> {
    fn new(a: &'a Analysis) -> Grid<'a> {
        let refused = a.refused_cells.iter().map(|r| (&r.cell, r.why.as_str()));
        let mut grid = Grid {
            a,
            cells: a.cells.iter().map(|c| (c.id.as_str(), c)).collect(),
            refused: refused.collect(),
            findings: BTreeMap::new(),
        };
        for finding in &a.findings {
            for key in grid.keys(finding) {
                grid.findings.entry(key).or_default().push(finding);
            }
        }
        grid
    }

    /// Place of a finding: its cell, with the baseline's value along axes at their default in the cell.
    fn place(&self, finding: &Finding) -> Option<Cell> {
        let [cell, baseline] =
            [&finding.cell, &finding.baseline].map(|id| self.cells.get(id.as_str()));
        let mut place = cell?.cell.clone();
        for row in AXES.iter().filter(|row| row.axis != finding.axis) {
            if place.value(row.axis) == row.default {
                let value = baseline?.cell.value(row.axis);
                place.set_value(row.axis, &value).ok()?;
            }
        }
        Some(place)
    }

    /// Keys of the tables that may have a finding: one for each possible axis of columns.
    fn keys(&self, finding: &Finding) -> Vec<Key> {
        let Some(place) = self.place(finding) else {
            return Vec::new();
        };
        let key = |x: Option<Axis>| Key {
            axis: finding.axis,
            metric: finding.metric,
            baseline: finding.baseline_value.clone(),
            x,
            rest: place.id_without(&std::iter::once(finding.axis).chain(x).collect_vec()),
        };
        let across = across(self.a, finding.metric, finding.axis);
        across.into_iter().map(key).collect()
    }

    /// The table in which a finding has the most company across; the first of equals.
    fn best_key(&self, finding: &Finding) -> Option<Key> {
        let keys = self.keys(finding).into_iter().rev();
        keys.max_by_key(|key| self.columns(key).len())
    }

    fn columns(&self, key: &Key) -> Vec<Value> {
        let Some(x) = key.x else {
            return vec![Value::default()];
        };
        let findings = self.findings.get(key).into_iter().flatten();
        let cells = findings.filter_map(|f| self.cells.get(f.cell.as_str()));
        let mut values: Vec<Value> = cells.map(|c| c.cell.value(x)).unique().collect();
        sort_values(x, &mut values);
        values
    }

    /// Columns of a table, with the values of measured cells that no comparison has.
    fn all_columns(&self, key: &Key) -> Vec<Value> {
        let mut values = self.columns(key);
        if let Some(x) = key.x {
            let measured = self.uncompared(key).filter(|c| c.trials > 0);
            let measured = measured.map(|c| c.cell.value(x)).collect_vec();
            values = values.into_iter().chain(measured).unique().collect();
            sort_values(x, &mut values);
        }
        values
    }

    /// Cells of a table that are in none of its comparisons: those with which they would be compared
    /// have no result, or they have none themselves.
    fn uncompared<'k>(&'k self, key: &'k Key) -> impl Iterator<Item = &'k CellResult> {
        let free: Vec<Axis> = std::iter::once(key.axis).chain(key.x).collect();
        let named = self
            .a
            .study
            .asked
            .iter()
            .find(|(axis, _)| *axis == key.axis);
        let named = named.map_or(&[][..], |(_, values)| values);
        let compared = self.findings.get(key).map_or(&[][..], Vec::as_slice);
        let is_compared = |id: &String| {
            compared
                .iter()
                .any(|f| [&f.cell, &f.baseline].contains(&id))
        };
        self.a.cells.iter().filter(move |c| {
            c.cell.mover != NULL
                && named.contains(&c.cell.value(key.axis))
                && c.cell.id_without(&free) == key.rest
                && !is_compared(&c.id)
        })
    }

    fn question(&self, key: &Key) -> QuestionTable<'a> {
        let findings = self.findings.get(key).map_or(&[][..], Vec::as_slice);
        let columns = self.all_columns(key);
        let place = findings.first().and_then(|f| self.place(f));
        let place = place.unwrap_or_default();
        let probe = |name: &Value| {
            let own = findings.iter().find(|f| f.value == *name);
            let own = own.and_then(|f| self.cells.get(f.cell.as_str()));
            own.map_or(&place, |c| &c.cell)
        };
        let free: Vec<Axis> = std::iter::once(key.axis).chain(key.x).collect();
        let varied = self.a.study.varied.iter();
        let panel = varied.filter(|axis| !free.contains(axis));
        let panel = panel.map(|&axis| (axis, place.value(axis))).collect();
        let rows = self.names(key, findings, &free).into_iter().map(|name| {
            let entry = |column: &Value| self.entry(key, probe(&name), &name, column, findings);
            QuestionRow {
                is_baseline: name == key.baseline,
                entries: columns.iter().map(entry).collect(),
                name,
            }
        });
        let rows = rows.collect();
        QuestionTable {
            metric: key.metric,
            axis: key.axis,
            baseline: findings
                .first()
                .map_or_else(Value::default, |f| f.baseline_value.clone()),
            x: key.x,
            columns,
            panel,
            rows,
        }
    }

    /// Names of the rows: the baseline, the ways compared with it in no other table, and refused
    /// ways.
    fn names(&self, key: &Key, findings: &[&Finding], free: &[Axis]) -> Vec<Value> {
        let is_own = |f: &&&Finding| self.best_key(f).as_ref() == Some(key);
        let own = findings.iter().filter(is_own);
        let own = own.map(|f| &f.value).collect_vec();
        let compared = findings.iter().map(|f| &f.value);
        let compared = compared.filter(|value| own.contains(value)).cloned();
        let refused = self.refused.iter();
        let refused = refused.filter(|(cell, _)| cell.id_without(free) == key.rest);
        let refused = refused.map(|(cell, _)| cell.value(key.axis));
        let in_other = |value: &Value| {
            let mut others = self.a.findings.iter().filter(|f| f.axis == key.axis);
            !compared_here(findings, value) && others.any(|f| f.value == *value)
        };
        let uncompared = self.uncompared(key).map(|c| c.cell.value(key.axis));
        let uncompared = uncompared.filter(|value| !in_other(value));
        let names = std::iter::once(key.baseline.clone());
        let names = names.chain(compared).chain(uncompared).chain(refused);
        names.unique().collect()
    }

    fn entry(
        &self,
        key: &Key,
        probe: &Cell,
        name: &Value,
        column: &Value,
        findings: &[&'a Finding],
    ) -> QuestionEntry<'a> {
        let mut cell = probe.clone();
        let set = cell.set_value(key.axis, name).is_ok()
            && key.x.is_none_or(|x| cell.set_value(x, column).is_ok());
        let id = cell.id();
        let result = self.cells.get(id.as_str()).filter(|_| set);
        if let Some(estimate) = result.and_then(|r| r.estimates.get(&key.metric)) {
            let finding = findings.iter().find(|f| f.cell == id).copied();
            return QuestionEntry::Measured(*estimate, finding);
        }
        let absent = result.and_then(|r| r.absent.get(&key.metric).cloned());
        let refused = || {
            let found = self.refused.iter().find(|(c, _)| **c == cell);
            found.map(|(_, why)| (*why).to_owned())
        };
        let failed = || {
            let failed = result.filter(|r| r.trials == 0)?;
            let failure = self.a.failures.iter().find(|f| f.cell == failed.id)?;
            Some(format!("every trial failed: {}", failure.reason))
        };
        let why = failed()
            .or(absent)
            .or_else(refused)
            .or_else(|| self.drawn_gap(key, &cell, name, column))
            .or_else(|| self.waits_for_each(&cell))
            .unwrap_or_else(|| "not measured in this run".to_owned());
        QuestionEntry::Gap(why)
    }

    /// The reason of a gap at a depth where the mover never had more than one request in flight.
    fn waits_for_each(&self, cell: &Cell) -> Option<String> {
        let alone = Cell {
            depth: 1,
            ..cell.clone()
        };
        let same = |c: &&&CellResult| c.cell.mover == cell.mover;
        let deep = self.cells.values().filter(same).any(|c| c.cell.depth > 1);
        let there = cell.depth > 1 && !deep && self.cells.contains_key(alone.id().as_str());
        there.then(|| ONE_IN_FLIGHT.to_owned())
    }

    /// The reason that a figure gives for a gap of the table.
    fn drawn_gap(&self, key: &Key, cell: &Cell, name: &Value, column: &Value) -> Option<String> {
        let figure = self.a.figures.iter().find(|f| {
            f.y == key.metric
                && f.relative_to.is_none()
                && Some(f.x) == key.x
                && is_at(cell, &f.panel)
        })?;
        let at = figure.x_values.iter().position(|value| value == column)?;
        let series = figure.series.iter().find(|s| *name == s.name.as_str())?;
        match series.points.get(at)? {
            Point::Gap(why) => Some(gap_in_words(why, self.a.study.unit)),
            Point::Measured(_) => None,
        }
    }
}

fn compared_here(findings: &[&Finding], value: &Value) -> bool {
    findings.iter().any(|f| f.value == *value)
}

/// Possible axes of columns: those of figures, the metric's first, else those that vary.
fn across(a: &Analysis, metric: Metric, axis: Axis) -> Vec<Option<Axis>> {
    let of_metric = a.figures.iter().filter(|f| f.y == metric).map(|f| f.x);
    let of_any = a.figures.iter().map(|f| f.x);
    let others = std::iter::once(Axis::Size).chain(a.study.varied.iter().copied());
    let all = of_metric.chain(of_any).chain(others);
    let free = all.filter(|x| *x != axis && a.study.varied.contains(x));
    let mut found: Vec<Option<Axis>> = free.unique().map(Some).collect();
    if found.is_empty() {
        found.push(None);
    }
    found
}

pub(crate) fn is_at(cell: &Cell, place: &[(Axis, Value)]) -> bool {
    let mut values = place.iter();
    values.all(|(axis, value)| cell.value(*axis) == *value)
}

/// Way of a cell: its server, or its mover.
pub(crate) fn way(cell: &Cell) -> &String {
    cell.serving.server.as_ref().unwrap_or(&cell.mover)
}

/// Sorts values by their number, where all are numbers; else their order stays.
pub(crate) fn sort_values(axis: Axis, values: &mut [Value]) {
    if values.iter().all(|v| axis.number(v).is_some()) {
        values.sort();
    }
}

/// `threads 2`.
pub(crate) fn axis_in_words(axis: Axis, value: &Value) -> String {
    format!("{axis} {}", axis.in_words(value))
}

/// `send, 64 KiB, threads 2`: movers and sizes speak for themselves.
pub(crate) fn place_in_words(place: impl Iterator<Item = (Axis, Value)>) -> String {
    let mut words = place.map(|(axis, value)| match axis {
        Axis::Mover | Axis::Size => axis.in_words(&value),
        _ => axis_in_words(axis, &value),
    });
    words.join(", ")
}
