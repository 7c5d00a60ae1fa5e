//! A question of the study as a table: the values of the compared axis down, another axis across.

use std::collections::{BTreeMap, BTreeSet};

use bytecost_analysis::{Analysis, CellResult, Estimate, Finding, Point, implied_axes};
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
    /// The value that the others are compared with.
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

    /// Reason why it was not measured.
    pub(crate) fn gap(&self) -> Option<&String> {
        match self {
            QuestionEntry::Measured(..) => None,
            QuestionEntry::Gap(why) => Some(why),
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

impl Key {
    /// The axes that a table varies.
    fn free(&self) -> Vec<Axis> {
        std::iter::once(self.axis).chain(self.x).collect()
    }
}

struct Grid<'a> {
    a: &'a Analysis,
    cells: BTreeMap<&'a str, &'a CellResult>,
    findings: BTreeMap<Key, Vec<&'a Finding>>,
    /// The axes that each compared axis implies.
    implied: BTreeMap<Axis, Vec<Axis>>,
}

impl<'a> Grid<'a> {
    fn new(a: &'a Analysis) -> Grid<'a> {
        let mut grid = Grid {
            a,
            cells: a.cells.iter().map(|c| (c.id.as_str(), c)).collect(),
            findings: BTreeMap::new(),
            implied: BTreeMap::new(),
        };
        for axis in a.findings.iter().map(|f| f.axis).unique() {
            grid.implied
                .insert(axis, implied_axes(axis, a.cells.iter().map(|c| &c.cell)));
        }
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
            rest: self.rest(&place, finding.axis, x),
        };
        let across = across(self.a, finding.metric, finding.axis);
        across.into_iter().map(key).collect()
    }

    /// The id of a place without the axes that a table varies, and those that its compared axis implies.
    fn rest(&self, place: &Cell, axis: Axis, x: Option<Axis>) -> String {
        let implied = self.implied(axis).iter().copied();
        place.id_without(&std::iter::once(axis).chain(x).chain(implied).collect_vec())
    }

    fn implied(&self, axis: Axis) -> &[Axis] {
        self.implied.get(&axis).map_or(&[][..], Vec::as_slice)
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
        let compared = self.columns(key);
        let Some(x) = key.x else {
            return compared;
        };
        let others = self.uncompared(key).filter(|c| c.trials > 0);
        let measured = others.map(|c| c.cell.value(x));
        let mut values = compared.into_iter().chain(measured).unique().collect_vec();
        sort_values(x, &mut values);
        values
    }

    /// Cells of a table that are in none of its comparisons: those with which they would be compared
    /// have no result, or they have none themselves.
    fn uncompared<'k>(&'k self, key: &'k Key) -> impl Iterator<Item = &'k CellResult> {
        let is_at_a_place = self.is_at_a_place(key);
        let mut asked = self.a.study.asked.iter();
        let named = asked
            .find(|(axis, _)| *axis == key.axis)
            .map_or(&[][..], |(_, values)| values);
        let is_compared = move |id: &String| {
            let mut findings = self.findings(key).iter();
            findings.any(|f| [&f.cell, &f.baseline].contains(&id))
        };
        self.a.cells.iter().filter(move |c| {
            c.cell.mover != NULL
                && named.contains(&c.cell.value(key.axis))
                && is_at_a_place(&c.cell)
                && !is_compared(&c.id)
        })
    }

    /// True for cells at the very place of one of a table's findings, axes that its compared axis implies
    /// included: a cell without a comparison may be of another task.
    fn is_at_a_place(&self, key: &Key) -> impl Fn(&Cell) -> bool + use<> {
        let free = key.free();
        let places = self.findings(key).iter().filter_map(|f| self.place(f));
        let ids: BTreeSet<String> = places.map(|place| place.id_without(&free)).collect();
        move |cell| ids.contains(&cell.id_without(&free))
    }

    fn findings(&self, key: &Key) -> &[&'a Finding] {
        self.findings.get(key).map_or(&[][..], Vec::as_slice)
    }

    fn question(&self, key: &Key) -> QuestionTable<'a> {
        let findings = self.findings(key);
        let columns = self.all_columns(key);
        let place = findings
            .first()
            .and_then(|f| self.place(f))
            .unwrap_or_default();
        let mut at_baseline = place.clone();
        let first_baseline = findings.first().map(|f| f.baseline.as_str());
        if let Some(baseline) = first_baseline.and_then(|id| self.cells.get(id)) {
            for axis in self.implied(key.axis) {
                let _ = at_baseline.set_value(*axis, &baseline.cell.value(*axis));
            }
        }
        let probe = |name: &Value| {
            let of_way = findings.iter().find(|f| f.value == *name);
            let cell = of_way.and_then(|f| self.cells.get(f.cell.as_str()));
            cell.map_or(&at_baseline, |c| &c.cell)
        };
        let row = |name: Value| QuestionRow {
            is_baseline: name == key.baseline,
            entries: (columns.iter())
                .map(|column| self.entry(key, probe(&name), &name, column))
                .collect(),
            name,
        };
        let free = key.free();
        let held = self
            .a
            .study
            .varied
            .iter()
            .filter(|axis| !free.contains(axis));
        QuestionTable {
            metric: key.metric,
            axis: key.axis,
            baseline: key.baseline.clone(),
            x: key.x,
            panel: held.map(|&axis| (axis, place.value(axis))).collect(),
            rows: self.names(key).into_iter().map(row).collect(),
            columns,
        }
    }

    /// Names of the rows: the baseline, the ways compared with it in no other table, and refused
    /// ways.
    fn names(&self, key: &Key) -> Vec<Value> {
        let findings = self.findings(key);
        let is_best = |f: &&&Finding| self.best_key(f).as_ref() == Some(key);
        let here: Vec<&Value> = (findings.iter().filter(is_best))
            .map(|f| &f.value)
            .collect();
        let values = findings.iter().map(|f| &f.value);
        let compared = values.filter(|value| here.contains(value)).cloned();
        let is_elsewhere = |value: &Value| {
            let mut others = self.a.findings.iter().filter(|f| f.axis == key.axis);
            !findings.iter().any(|f| f.value == *value) && others.any(|f| f.value == *value)
        };
        let uncompared = self.uncompared(key).map(|c| c.cell.value(key.axis));
        let refused_cells = self.a.refused_cells.iter().map(|r| &r.cell);
        let is_at_a_place = self.is_at_a_place(key);
        let refused = refused_cells.filter(|cell| is_at_a_place(cell));
        std::iter::once(key.baseline.clone())
            .chain(compared)
            .chain(uncompared.filter(|value| !is_elsewhere(value)))
            .chain(refused.map(|cell| cell.value(key.axis)))
            .unique()
            .collect()
    }

    fn entry(&self, key: &Key, probe: &Cell, name: &Value, column: &Value) -> QuestionEntry<'a> {
        let mut cell = probe.clone();
        let set = cell.set_value(key.axis, name).is_ok()
            && key.x.is_none_or(|x| cell.set_value(x, column).is_ok());
        let id = cell.id();
        let result = self.cells.get(id.as_str()).filter(|_| set);
        if let Some(estimate) = result.and_then(|r| r.estimates.get(&key.metric)) {
            let finding = self.findings(key).iter().find(|f| f.cell == id).copied();
            return QuestionEntry::Measured(*estimate, finding);
        }
        let absent = result.and_then(|r| r.gap(key.metric));
        let absent = absent.map(|gap| gap_in_words(&gap, self.a.study.unit));
        let refused = || {
            let found = self.a.refused_cells.iter().find(|r| r.cell == cell);
            found.map(|r| r.why.clone())
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
        let mut cells = self.a.cells.iter().map(|c| &c.cell);
        let is_deep = cells.any(|c| c.mover == cell.mover && c.depth > 1);
        let waits = cell.depth > 1 && !is_deep && self.cells.contains_key(alone.id().as_str());
        waits.then(|| ONE_IN_FLIGHT.to_owned())
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

/// Possible axes of columns: those of figures, the metric's first, else those that vary.
fn across(a: &Analysis, metric: Metric, axis: Axis) -> Vec<Option<Axis>> {
    let of_metric = a.figures.iter().filter(|f| f.y == metric).map(|f| f.x);
    let of_any = a.figures.iter().map(|f| f.x);
    let others = std::iter::once(Axis::Size).chain(a.study.varied.iter().copied());
    let axes = of_metric.chain(of_any).chain(others);
    let free = axes.filter(|x| *x != axis && a.study.varied.contains(x));
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
