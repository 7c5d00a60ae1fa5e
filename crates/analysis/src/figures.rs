//! Figures: lines of estimates, with gaps that know their reason.

use std::collections::{BTreeSet, HashMap};

use bytecost_spec::axis::{AXES, CellFacts};
use bytecost_spec::study::Figure;
use bytecost_spec::survey::{InFlight, MoverFacts};
use bytecost_spec::{Axis, Cell, Measure, Metric, Unit};

use crate::grid;
use crate::phrases;
use crate::result::{
    CeilingKind, CeilingLine, CellResult, Estimate, FigureData, Finding, Input, Point, Series,
};
use crate::trials::{Trials, idle};

/// All figures of the study, each with its panels in the order of the plan.
pub(crate) fn all(
    input: &Input<'_>,
    trials: &Trials<'_>,
    cells: &[CellResult],
    findings: &[Finding],
    varied: &[Axis],
) -> Vec<FigureData> {
    let drawing = Drawing::new(input, trials, cells, findings, varied);
    let figures = input.manifest.study.figures.iter();
    figures.flat_map(|figure| drawing.figure(figure)).collect()
}

struct Drawing<'i, 'd> {
    input: &'i Input<'i>,
    /// Planned or refused cells that move something: what spans the panels.
    shown: Vec<Cell>,
    /// All that the study spans, the left out included.
    whole: Vec<Cell>,
    /// Their ids.
    spanned: BTreeSet<String>,
    results: HashMap<&'d str, &'d CellResult>,
    findings: &'d [Finding],
    failures: HashMap<&'d str, &'d str>,
    refused: HashMap<&'i str, &'i str>,
    varied: &'d [Axis],
    unit: Unit,
}

impl<'i, 'd> Drawing<'i, 'd> {
    fn new(
        input: &'i Input<'i>,
        trials: &'d Trials<'_>,
        cells: &'d [CellResult],
        findings: &'d [Finding],
        varied: &'d [Axis],
    ) -> Drawing<'i, 'd> {
        let refused: HashMap<&str, &str> = input
            .refusals
            .iter()
            .map(|r| (r.what.as_str(), r.why.as_str()))
            .collect();
        let survey = &input.manifest.survey;
        let mut whole: Vec<Cell> = input
            .manifest
            .study
            .cells()
            .into_iter()
            .map(|(_, c)| c)
            .collect();
        whole.retain(|c| !idle(survey, &c.mover));
        let mut shown: Vec<Cell> = trials.moving().map(|c| c.cell.clone()).collect();
        let planned: BTreeSet<&Cell> = trials.cells.iter().map(|c| c.cell).collect();
        shown.extend(
            whole
                .iter()
                .filter(|c| !planned.contains(c) && refused.contains_key(c.id().as_str()))
                .cloned(),
        );
        Drawing {
            input,
            shown,
            spanned: whole.iter().map(Cell::id).collect(),
            whole,
            results: cells.iter().map(|c| (c.id.as_str(), c)).collect(),
            findings,
            failures: trials
                .cells
                .iter()
                .filter_map(|c| Some((c.id.as_str(), c.failures.last()?.reason.as_str())))
                .collect(),
            refused,
            varied,
            unit: trials.unit,
        }
    }

    /// The figure's panels; with another metric where its own cannot be had in any cell. One
    /// that can be had nowhere is drawn as gaps with their reasons, if cells that it is about were
    /// measured at all.
    fn figure(&self, figure: &Figure) -> Vec<FigureData> {
        let panels = self.panels(figure, figure.y, true);
        let Some(why) = self.why_nowhere(figure).filter(|_| panels.is_empty()) else {
            return panels;
        };
        let Some(or) = figure.or else {
            return self.panels(figure, figure.y, false);
        };
        let mut panels = self.panels(figure, or, true);
        for panel in &mut panels {
            panel.note = Some(format!(
                "{} instead of {}, which is not available on this machine: {}.",
                phrases::capital(&phrases::metric(or, self.unit)),
                phrases::metric(figure.y, self.unit),
                why.trim_end_matches('.')
            ));
        }
        if panels.is_empty() {
            return self.panels(figure, figure.y, false);
        }
        panels
    }

    /// Why the figure's metric cannot be had; none where a cell has it, or where it has no
    /// meaning for any.
    fn why_nowhere(&self, figure: &Figure) -> Option<String> {
        let cells = || {
            self.shown
                .iter()
                .filter_map(|c| self.results.get(c.id().as_str()))
        };
        let had = cells().any(|r| r.estimates.contains_key(&figure.y));
        let why = cells().find_map(|r| r.absent.get(&figure.y));
        why.filter(|_| !had).cloned()
    }

    /// The panels of a figure over a metric: those with a measured point, or all.
    fn panels(&self, figure: &Figure, y: Metric, measured: bool) -> Vec<FigureData> {
        let figure = Figure {
            y,
            ..figure.clone()
        };
        let free = [figure.x, figure.series];
        let whole: HashMap<String, Vec<&Cell>> = grouped(&self.whole, &free).into_iter().collect();
        self.joined(grouped(&self.shown, &free), &free)
            .iter()
            .filter_map(|(name, cells)| {
                let whole = whole.get(name).map_or(&[][..], Vec::as_slice);
                self.panel(&figure, cells, whole, measured)
            })
            .collect()
    }

    /// A panel, if it has at least two values across and, where that is asked for, one that is
    /// measured.
    fn panel(
        &self,
        figure: &Figure,
        cells: &[&Cell],
        whole: &[&Cell],
        some: bool,
    ) -> Option<FigureData> {
        let first = *cells.first()?;
        let study = &self.input.manifest.study;
        let applies = |c: &&&Cell| self.facts(c).applies(figure.x);
        // A size that a run added for two ways alone would leave a gap in the line of each other one.
        let added = self.input.manifest.bisection.as_ref();
        let is_planned = |c: &&&Cell| added.is_none_or(|added| !added.cells.contains(c));
        let among: BTreeSet<String> = (cells.iter().filter(applies))
            .filter(is_planned)
            .map(|c| c.value(figure.x))
            .collect();
        let mut x_values = grid::values(study, figure.x, cells.iter().copied());
        x_values.retain(|v| among.contains(v));
        if x_values.len() < 2 {
            return None;
        }
        let free = [figure.x, figure.series];
        let across = |cell: &&Cell| among.contains(&cell.value(figure.x));
        let lines: BTreeSet<String> = cells
            .iter()
            .chain(whole)
            .copied()
            .filter(across)
            .map(|c| c.value(figure.series))
            .collect();
        let mut names = grid::values(study, figure.series, cells.iter().copied());
        names.retain(|n| lines.contains(n));
        let series: Vec<Series> = names
            .into_iter()
            .map(|line| self.series(figure, cells, line, &x_values))
            .collect();
        let measured = |p: &Point| matches!(p, Point::Measured(_));
        if some && !series.iter().any(|s| s.points.iter().any(measured)) {
            return None;
        }
        let held: Vec<Axis> = self
            .varied
            .iter()
            .copied()
            .filter(|a| !free.contains(a))
            .collect();
        let panel = grid::coordinates(first, &held);
        let ceiling = self.ceiling(figure, first, &series, &x_values);
        Some(FigureData {
            title: match phrases::circumstances(&panel) {
                place if place.is_empty() => figure.title.clone(),
                place => format!("{}, {place}", figure.title),
            },
            panel,
            x: figure.x,
            x_numbers: grid::numbers(figure.x, &x_values),
            x_values,
            y: figure.y,
            relative_to: figure.relative.then(|| self.baseline(figure).to_owned()),
            series,
            note: None,
            ceiling,
        })
    }

    /// What the cells of a panel of throughputs could reach at most: where several do not share
    /// one ceiling, the highest.
    fn ceiling(
        &self,
        figure: &Figure,
        like: &Cell,
        series: &[Series],
        x_values: &[String],
    ) -> Option<CeilingLine> {
        if figure.relative || figure.y != Metric::both(Measure::ThroughputGbitPerS) {
            return None;
        }
        let mut kinds = BTreeSet::new();
        let points: Vec<Option<f64>> = x_values
            .iter()
            .map(|x| {
                let rates = series.iter().filter_map(|line| {
                    let mut cell = like.clone();
                    cell.set(figure.x, x).ok()?;
                    cell.set(figure.series, &line.name).ok()?;
                    let share = self.results.get(cell.id().as_str())?.ceiling.as_ref()?;
                    // What a cell exceeds is no ceiling of it.
                    share.share?;
                    Some((share.ceiling.kind, share.ceiling.gbit_per_s.value))
                });
                let most = rates.max_by(|a, b| a.1.total_cmp(&b.1))?;
                kinds.insert(most.0);
                Some(most.1)
            })
            .collect();
        let words = match kinds.into_iter().collect::<Vec<CeilingKind>>()[..] {
            [] => return None,
            [kind] => kind.words(),
            _ => "the most that was reached here",
        };
        Some(CeilingLine {
            words: words.to_owned(),
            points,
        })
    }

    /// Groups, without those whose cells all stand in another: what does not apply to a cell keeps
    /// it out of none.
    fn joined<'c>(
        &self,
        groups: Vec<(String, Vec<&'c Cell>)>,
        free: &[Axis],
    ) -> Vec<(String, Vec<&'c Cell>)> {
        let applied = |cell: &Cell| {
            let facts = self.facts(cell);
            AXES.iter().filter(|row| facts.applies(row.axis)).count()
        };
        let host = |own: &[&Cell]| {
            groups.iter().position(|(_, cells)| {
                let first = self.facts(cells[0]);
                own.iter().all(|cell| {
                    applied(cell) < applied(cells[0]) && first.agrees(&self.facts(cell), free)
                })
            })
        };
        let hosts: Vec<Option<usize>> = groups.iter().map(|(_, own)| host(own)).collect();
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
        'i: 'c,
    {
        CellFacts::of(cell, &self.input.manifest.survey)
    }

    fn series(
        &self,
        figure: &Figure,
        cells: &[&Cell],
        name: String,
        x_values: &[String],
    ) -> Series {
        let points = x_values
            .iter()
            .map(|x| {
                let mut cell = cells[0].clone();
                match cell
                    .set(figure.x, x)
                    .and_then(|()| cell.set(figure.series, &name))
                {
                    Ok(()) => {
                        let normal = self.facts(&cell).normal();
                        let is_here = normal.value(figure.x) == *x && cells.contains(&&normal);
                        self.point(figure, if is_here { &normal } else { &cell })
                    }
                    Err(why) => Point::Gap(why.to_string()),
                }
            })
            .collect();
        Series { name, points }
    }

    /// What a relative figure's points are ratios to.
    fn baseline(&self, figure: &Figure) -> &str {
        let compare = &self.input.manifest.study.compare;
        let over = compare.iter().find(|c| c.axis == figure.series);
        over.map_or("", |c| c.baseline.as_str())
    }

    /// The ratio of a cell to its baseline; none where there is no comparison.
    fn ratio(&self, figure: &Figure, cell: &Cell, id: &str) -> Option<Estimate> {
        if cell.value(figure.series) == self.baseline(figure) {
            let estimate = self.results.get(id)?.estimates.get(&figure.y)?;
            return Some(Estimate {
                value: 1.0,
                low: None,
                high: None,
                trials: estimate.trials,
            });
        }
        let finding = self
            .findings
            .iter()
            .find(|f| f.axis == figure.series && f.metric == figure.y && f.cell == id)?;
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
        if let Some(estimate) = result.estimates.get(&figure.y) {
            if figure.relative {
                return Point::Gap("nothing to compare it with".to_owned());
            }
            return Point::Measured(*estimate);
        }
        Point::Gap(if let Some(why) = result.absent.get(&figure.y) {
            why.clone()
        } else if result.trials > 0 {
            format!(
                "{} has no meaning here",
                phrases::metric(figure.y, self.unit)
            )
        } else if let Some(why) = self.failures.get(id.as_str()) {
            format!("failed: {why}")
        } else if let Some(why) = self.refused.get(id.as_str()) {
            (*why).to_owned()
        } else if let Some(why) = self.input.ended_early {
            format!("the run ended before its turn: {why}")
        } else {
            "no trial reached it".to_owned()
        })
    }

    fn why_not_planned(&self, id: &str, cell: &Cell) -> String {
        if let Some(why) = self.refused.get(id) {
            return (*why).to_owned();
        }
        if !self.spanned.contains(id) {
            return "not part of the study".to_owned();
        }
        let survey = &self.input.manifest.survey;
        let waits = |m: &MoverFacts| m.route.is_of_files() && m.in_flight == InFlight::One;
        if cell.depth > 1 && survey.mover(&cell.mover).is_some_and(waits) {
            return "it has one request in flight: see depth 1".to_owned();
        }
        if let Some(why) = refusal(survey.movers.as_slice(), &cell.mover, cell)
            .or_else(|| refusal(survey.receivers.as_slice(), &cell.receiver, cell))
        {
            return why;
        }
        match self.input.left_out {
            [one] => format!("left out: {}", one.why),
            _ => "left out: the budget did not reach it".to_owned(),
        }
    }
}

/// Cells that differ in the free axes only, together; in the order of their first cells.
fn grouped<'c>(cells: &'c [Cell], free: &[Axis]) -> Vec<(String, Vec<&'c Cell>)> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut groups: Vec<(String, Vec<&Cell>)> = Vec::new();
    for cell in cells {
        let name = cell.id_without(free);
        let place = *places.entry(name.clone()).or_insert(groups.len());
        if place == groups.len() {
            groups.push((name, Vec::new()));
        }
        groups[place].1.push(cell);
    }
    groups
}

/// Why a row of the survey refuses a cell, where it was tried and does.
fn refusal(rows: &[bytecost_spec::Support], name: &str, cell: &Cell) -> Option<String> {
    rows.iter()
        .find(|r| r.name == name && r.transport == cell.transport)?
        .refused
        .clone()
}
