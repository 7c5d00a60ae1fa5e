//! Figures: lines of estimates, with gaps that know their reason.

use std::collections::{BTreeSet, HashMap};

use bytecost_spec::axis::{AXES, CellFacts};
use bytecost_spec::study::Figure;
use bytecost_spec::survey::{InFlight, MoverFacts};
use bytecost_spec::{Axis, Cell, Invalid, Measure, Metric, Value};
use itertools::Itertools as _;

use crate::grid;
use crate::grouping::grouped;
use crate::result::{
    AbsentMetric, CeilingLine, CellResult, Estimate, FigureData, Finding, Gap, Point, Series,
};
use crate::stages::Judged;
use crate::trials::idle;

pub(crate) fn all(run: &Judged<'_>) -> Vec<FigureData> {
    let drawing = Drawing::new(run);
    let figures = run.measured.input.manifest.study.figures.iter();
    figures.flat_map(|figure| drawing.figure(figure)).collect()
}

struct Drawing<'v> {
    run: &'v Judged<'v>,
    /// Planned or refused cells that move something: what spans the panels.
    shown: Vec<Cell>,
    /// All that the study spans, the left out included.
    whole: Vec<Cell>,
    spanned: BTreeSet<String>,
    results: HashMap<&'v str, &'v CellResult>,
    refused: HashMap<String, &'v str>,
}

impl<'v> Drawing<'v> {
    fn new(run: &'v Judged<'v>) -> Drawing<'v> {
        let manifest = run.measured.input.manifest;
        let refusals = run.measured.input.refused.iter();
        let refused: HashMap<String, &str> = refusals.map(|r| (r.cell.id(), &*r.why)).collect();
        let whole = manifest
            .study
            .cells()
            .into_iter()
            .map(|(_, c)| c)
            .filter(|c| !idle(&manifest.survey, &c.mover))
            .collect_vec();
        let planned: BTreeSet<&Cell> = run.measured.trials.cells.iter().map(|c| c.cell).collect();
        let is_refused = |c: &&Cell| !planned.contains(c) && refused.contains_key(&*c.id());
        let moving = run.measured.trials.moving().map(|c| c.cell);
        let shown = moving.chain(whole.iter().filter(is_refused)).cloned();
        let results = run.measured.cells.iter();
        Drawing {
            run,
            shown: shown.collect(),
            spanned: whole.iter().map(Cell::id).collect(),
            results: results.map(|c| (c.id.as_str(), c)).collect(),
            refused,
            whole,
        }
    }

    /// The figure's panels. Where no cell has its metric, they show its other metric, if it has one,
    /// and else gaps with their reasons.
    fn figure(&self, figure: &Figure) -> Vec<FigureData> {
        let of_y = self.panels(figure, figure.y, true);
        let Some(why) = self.why_absent(figure).filter(|_| of_y.is_empty()) else {
            return of_y;
        };
        let mut panels = figure
            .or
            .map_or_else(Vec::new, |or| self.panels(figure, or, true));
        if panels.is_empty() {
            return self.panels(figure, figure.y, false);
        }
        for panel in &mut panels {
            panel.replaced = Some(AbsentMetric {
                metric: figure.y,
                why: why.clone(),
            });
        }
        panels
    }

    /// The reason for which no cell has the figure's metric; none where one has it, or it has no
    /// meaning for any.
    fn why_absent(&self, figure: &Figure) -> Option<Gap> {
        let results = |c: &Cell| self.results.get(c.id().as_str());
        let cells = || self.shown.iter().filter_map(results);
        let is_known = cells().any(|r| r.estimates.contains_key(&figure.y));
        cells().find_map(|r| r.gap(figure.y)).filter(|_| !is_known)
    }

    /// The panels of a figure over a metric: those with a measured point, or all.
    fn panels(&self, figure: &Figure, y: Metric, measured: bool) -> Vec<FigureData> {
        let figure = Figure {
            y,
            ..figure.clone()
        };
        let free = [figure.x, figure.series];
        let by_name: HashMap<String, Vec<&Cell>> = alike(&self.whole, &free).into_iter().collect();
        let panel = |(name, cells): &(String, Vec<&Cell>)| {
            let whole = by_name.get(name).map_or(&[][..], Vec::as_slice);
            self.panel(&figure, cells, whole, measured)
        };
        let groups = self.joined(alike(&self.shown, &free), &free);
        let mut panels: Vec<FigureData> = groups.iter().filter_map(panel).collect();
        // One line among panels of several compares nothing: a table has its numbers.
        if panels.iter().any(|p| p.series.len() > 1) {
            panels.retain(|p| p.series.len() > 1);
        }
        panels
    }

    /// A panel, if it has two values across or more and, where that is asked for, a measured point.
    fn panel(
        &self,
        figure: &Figure,
        cells: &[&Cell],
        whole: &[&Cell],
        some: bool,
    ) -> Option<FigureData> {
        let first = *cells.first()?;
        let study = &self.run.measured.input.manifest.study;
        let applies = |c: &&&Cell| self.facts(c).applies(figure.x);
        let applicable = cells.iter().filter(applies);
        let among: BTreeSet<Value> = applicable.map(|c| c.value(figure.x)).collect();
        let mut x_values = grid::values(study, figure.x, cells.iter().copied());
        x_values.retain(|v| among.contains(v));
        if x_values.len() < 2 {
            return None;
        }
        let free = [figure.x, figure.series];
        let across = |cell: &&Cell| among.contains(&cell.value(figure.x));
        let lines: BTreeSet<Value> = (cells.iter().chain(whole).copied())
            .filter(across)
            .map(|c| c.value(figure.series))
            .collect();
        let mut names = grid::values(study, figure.series, cells.iter().copied());
        names.retain(|n| lines.contains(n));
        let series = names
            .into_iter()
            .map(|line| self.series(figure, cells, line, &x_values))
            .collect_vec();
        let measured = |p: &Point| p.measured().is_some();
        if some && !series.iter().any(|s| s.points.iter().any(measured)) {
            return None;
        }
        let held = self
            .run
            .measured
            .study
            .varied
            .iter()
            .filter(|a| !free.contains(a));
        let panel = grid::coordinates(first, held);
        let ceiling = self.ceiling(figure, first, &series, &x_values);
        Some(FigureData {
            title: figure.title.clone(),
            panel,
            x: figure.x,
            x_numbers: grid::numbers(figure.x, &x_values),
            x_values,
            y: figure.y,
            relative_to: self.baseline(figure).filter(|_| figure.relative).cloned(),
            series,
            replaced: None,
            ceiling,
        })
    }

    /// The highest rates of the machine for a panel of throughputs: of several ceilings the highest.
    fn ceiling(
        &self,
        figure: &Figure,
        like: &Cell,
        series: &[Series],
        x_values: &[Value],
    ) -> Option<CeilingLine> {
        if figure.relative || figure.y != Metric::both(Measure::ThroughputGbitPerS) {
            return None;
        }
        let highest = |x: &Value| {
            let rates = series.iter().filter_map(|line| {
                let mut cell = like.clone();
                cell.set_value(figure.x, x).ok()?;
                cell.set(figure.series, &line.name).ok()?;
                let share = self.results.get(cell.id().as_str())?.ceiling.as_ref()?;
                // A rate that the cell exceeds is not its ceiling.
                share.share?;
                Some((share.ceiling.kind, share.ceiling.gbit_per_s.value))
            });
            rates.max_by(|a, b| a.1.total_cmp(&b.1))
        };
        let highest = x_values.iter().map(highest).collect_vec();
        let mut kinds = highest.iter().flatten().map(|(kind, _)| *kind);
        let first = kinds.next()?;
        Some(CeilingLine {
            kind: kinds.all(|kind| kind == first).then_some(first),
            points: highest.iter().map(|most| Some((*most)?.1)).collect(),
        })
    }

    /// Groups; what does not apply to a cell keeps it out of none, so that some are part of others.
    fn joined<'c>(
        &self,
        groups: Vec<(String, Vec<&'c Cell>)>,
        free: &[Axis],
    ) -> Vec<(String, Vec<&'c Cell>)> {
        let applied = |cell: &Cell| {
            let facts = self.facts(cell);
            AXES.iter().filter(|row| facts.applies(row.axis)).count()
        };
        let find_host = |own: &[&Cell]| {
            groups.iter().position(|(_, cells)| {
                let first = self.facts(cells[0]);
                own.iter().all(|cell| {
                    applied(cell) < applied(cells[0]) && first.agrees(&self.facts(cell), free)
                })
            })
        };
        let hosts: Vec<Option<usize>> = groups.iter().map(|(_, own)| find_host(own)).collect();
        let mut joined = groups.clone();
        for (at, host) in hosts.iter().enumerate() {
            if let Some(host) = host {
                let own = std::mem::take(&mut joined[at].1);
                joined[*host].1.extend(own);
            }
        }
        joined.retain(|(_, cells)| !cells.is_empty());
        joined
    }

    fn facts<'c>(&self, cell: &'c Cell) -> CellFacts<'c>
    where
        'v: 'c,
    {
        CellFacts::new(cell, &self.run.measured.input.manifest.survey)
    }

    fn series(&self, figure: &Figure, cells: &[&Cell], name: Value, x_values: &[Value]) -> Series {
        let point = |x: &Value| -> Result<Point, Invalid> {
            let mut cell = cells[0].clone();
            cell.set_value(figure.x, x)?;
            cell.set_value(figure.series, &name)?;
            let normal = self.facts(&cell).normal();
            let is_here = normal.value(figure.x) == *x && cells.contains(&&normal);
            Ok(self.point(figure, if is_here { &normal } else { &cell }))
        };
        let points = x_values
            .iter()
            .map(point)
            .map(|p| p.unwrap_or(Point::Gap(Gap::NotInStudy)));
        Series {
            points: points.collect(),
            name: name.to_string(),
        }
    }

    fn baseline(&self, figure: &Figure) -> Option<&Value> {
        let mut compares = self.run.measured.input.manifest.study.compare.iter();
        compares
            .find(|c| c.axis == figure.series)
            .map(|c| &c.baseline)
    }

    /// The ratio of a cell to its baseline; none where there is no comparison.
    fn ratio(&self, figure: &Figure, cell: &Cell, id: &str) -> Option<Estimate> {
        if Some(&cell.value(figure.series)) == self.baseline(figure) {
            let estimate = self.results.get(id)?.estimates.get(&figure.y)?;
            return Some(Estimate::bare(1.0, estimate.trials));
        }
        let is_of = |f: &&Finding| f.axis == figure.series && f.metric == figure.y && f.cell == id;
        let finding = self.run.findings.iter().find(is_of)?;
        Some(Estimate {
            value: finding.ratio,
            low: Some(finding.low),
            high: Some(finding.high),
            trials: finding.blocks,
        })
    }

    fn point(&self, figure: &Figure, cell: &Cell) -> Point {
        let id = cell.id();
        if figure.relative
            && let Some(ratio) = self.ratio(figure, cell, &id)
        {
            return Point::Measured(ratio);
        }
        let Some(result) = self.results.get(id.as_str()) else {
            return Point::Gap(self.why_not_planned(&id, cell));
        };
        match self.run.measured.point(result, figure.y) {
            Point::Measured(_) if figure.relative => Point::Gap(Gap::NoBaseline),
            point => point,
        }
    }

    fn why_not_planned(&self, id: &str, cell: &Cell) -> Gap {
        if let Some(why) = self.refused.get(id) {
            return Gap::Refused((*why).to_owned());
        }
        if !self.spanned.contains(id) {
            return Gap::NotInStudy;
        }
        let survey = &self.run.measured.input.manifest.survey;
        let waits = |m: &MoverFacts| m.route.is_of_files() && m.in_flight == InFlight::One;
        if cell.depth > 1 && survey.mover(&cell.mover).is_some_and(waits) {
            return Gap::OneInFlight;
        }
        refusal(&survey.movers, &cell.mover, cell)
            .or_else(|| refusal(&survey.receivers, &cell.receiver, cell))
            .map_or_else(|| self.run.measured.left_out(), Gap::Refused)
    }
}

/// Cells that differ in the free axes only, together; in the order of their first cells.
fn alike<'c>(cells: &'c [Cell], free: &[Axis]) -> Vec<(String, Vec<&'c Cell>)> {
    grouped(cells.iter().map(|cell| (cell.id_without(free), cell)))
}

/// The refusal of a cell in the survey; none where it was not tried or works.
fn refusal(rows: &[bytecost_spec::Support], name: &str, cell: &Cell) -> Option<String> {
    rows.iter()
        .find(|r| r.name == name && r.transport == cell.transport)?
        .refused
        .clone()
}
