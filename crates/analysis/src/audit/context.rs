//! Lookups for tests of claims: cells and pairs of cells, caveats, published numbers.

use bytecost_spec::axis::AXES;
use bytecost_spec::claim::{Claim, Contrast, Expected, NAGLE_STALL, Test, has, is_at};
use bytecost_spec::{Axis, Cell, Measure, Metric, Placement, Published, Route};
use itertools::Itertools as _;

use crate::cells::refused_here;
use crate::comparison::{PairContrast, Pairing, contrasted};
use crate::confidence::FEWEST;
use crate::grid;
use crate::input::Grounds;
use crate::result::{
    AbsentReason, CasePlace, CaveatKind, Gap, NotTested, PublishedNumber, TestCases,
};
use crate::stages::{Judged, Measured};
use crate::trials::CellTrials;

pub(super) struct ClaimContext<'d> {
    pub(super) measured: &'d Measured<'d>,
    pub(super) run: &'d Judged<'d>,
    pub(super) grounds: &'d Grounds,
    pub(super) claim: &'d Claim,
    pub(super) test: &'d Test,
}

/// A metric with the number that a claim expects of it.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub(super) metric: Metric,
    pub(super) expect: Expected,
}

/// The cases that a run has for a test, or why it has none.
pub(super) type Cases = Result<TestCases, NotTested>;

/// The socket options that decide if a small write waits for a timer.
pub(super) const TIMER_OPTIONS: [Axis; 3] = [Axis::Nodelay, Axis::Cork, Axis::Quickack];

/// Axes on which a published cell must agree with a measured one, in addition to those in which published
/// cells differ.
const IDENTIFYING: [Axis; 5] = [
    Axis::Transport,
    Axis::Pattern,
    Axis::Mover,
    Axis::Size,
    Axis::Threads,
];

/// Two cells with their place.
pub(super) type PlacedPair<'p> = (Pairing<'p>, CasePlace);

pub(super) fn counts_calls(metric: Metric) -> bool {
    [Measure::CallsPerMessage, Measure::CallsPerMib].contains(&metric.measure)
}

impl<'d> ClaimContext<'d> {
    /// Cells of the run that fulfil the conditions, without idle ones. If some of them have free ends, these alone
    /// (see [`Self::has_free_ends`]).
    pub(super) fn cells(&self) -> impl Iterator<Item = &CellTrials<'d>> {
        let only_free = self.has_free_ends();
        let cells = self.measured.trials.moving();
        cells
            .filter(|c| is_at(c.cell, &self.test.place))
            .filter(move |c| !only_free || c.cell.placement == Placement::Free)
    }

    /// Returns true if the place names no CPUs and the run has cells with free ends there. Such a claim is about a
    /// program whose threads were not pinned, so that it is compared with those cells alone.
    fn has_free_ends(&self) -> bool {
        let place = &self.test.place;
        let names_cpus = place.iter().any(|(axis, _)| *axis == Axis::Placement);
        let mut cells = self.measured.trials.moving();
        let is_free = |c: &CellTrials<'_>| c.cell.placement == Placement::Free;
        !names_cpus && cells.any(|c| is_free(c) && is_at(c.cell, place))
    }

    /// The pairs of a contrast with their places, in the order of the plan.
    pub(super) fn pairs<'p>(
        &'p self,
        contrast: &Contrast,
    ) -> Result<Vec<PlacedPair<'p>>, NotTested> {
        let c = contrast;
        let mut pairs = contrasted(
            self.measured.trials,
            c.axis,
            &c.value,
            &c.against,
            &self.test.place,
        );
        if c.axis != Axis::Placement && self.has_free_ends() {
            pairs.retain(|p| p.other.cell.placement == Placement::Free);
        }
        if pairs.is_empty() {
            return Err(self.no_cells(Some(contrast)));
        }
        Ok(self.placed(pairs))
    }

    /// Each pair with its place, which leaves out the axis in which its cells differ: the same one for all pairs.
    pub(super) fn placed<'p>(&self, pairs: Vec<Pairing<'p>>) -> Vec<PlacedPair<'p>> {
        let cells = pairs.iter().map(|p| p.other.cell).collect_vec();
        let axis = pairs.iter().map(|p| p.axis).take(1).collect_vec();
        let places = self.places(&cells, &axis);
        pairs.into_iter().zip(places).collect()
    }

    /// The ratio of two cells in a metric; none of fewer than three blocks.
    pub(super) fn contrast(&self, pair: &Pairing<'_>, metric: Metric) -> Option<PairContrast> {
        self.measured.comparisons.contrast(pair, metric)
    }

    /// The natural logarithm of the least ratio that matters.
    pub(super) fn smallest_log_ratio(&self) -> f64 {
        self.measured.input.manifest.study.smallest_effect.ln_1p()
    }

    /// The caveat of the run that withholds the verdict on a pair. Stalls do not count if one side alone has them,
    /// or if the pair differs in an option that decides on them: the claim's test handles these itself.
    pub(super) fn withheld_by(&self, metric: Metric, pair: &Pairing<'_>) -> Option<CaveatKind> {
        let test_handles_stalls = TIMER_OPTIONS.contains(&pair.axis) || self.one_side_stalls(pair);
        self.run.withheld_by_one(metric, pair, |c| {
            !(test_handles_stalls && c.kind == NAGLE_STALL)
        })
    }

    /// The caveat that withholds a metric of a cell by itself. A stall does not, since some claims are about
    /// messages that wait for a timer.
    pub(super) fn cell_withheld_by(
        &self,
        cell: &CellTrials<'_>,
        metric: Metric,
    ) -> Option<CaveatKind> {
        // A pair of the cell with itself, on an axis that no caveat exempts.
        let alone = Pairing {
            axis: Axis::Mover,
            baseline: cell,
            other: cell,
        };
        self.run
            .withheld_by_one(metric, &alone, |c| c.kind != NAGLE_STALL)
    }

    /// The reason for which cells have no number in a metric.
    pub(super) fn absent(&self, cells: &[&CellTrials<'_>], metric: Metric) -> AbsentReason {
        let survey = &self.measured.input.manifest.survey;
        match self.measured.gap(cells, metric) {
            Gap::Absent(why) if refused_here(survey, metric.measure).is_some() => {
                AbsentReason::RefusedMetric(metric, why)
            }
            gap => AbsentReason::Gap {
                metric,
                gap,
                blocks: FEWEST,
            },
        }
    }

    /// Returns true if a caveat of this kind applies to the cell with this id. One that names no cells applies to
    /// all.
    pub(super) fn affected(&self, kind: &str, id: &str) -> bool {
        let mut caveats = self.run.caveats.iter().filter(|c| c.kind == kind);
        caveats.any(|caveat| caveat.cells.is_empty() || caveat.cells.iter().any(|c| c == id))
    }

    /// Returns true if exactly one cell of the pair waits for a timer, although they do not differ in an option that
    /// decides on it.
    pub(super) fn one_side_stalls(&self, pair: &Pairing<'_>) -> bool {
        !TIMER_OPTIONS.contains(&pair.axis)
            && self.affected(NAGLE_STALL, &pair.baseline.id)
                != self.affected(NAGLE_STALL, &pair.other.id)
    }

    /// The first of the compared zero-copy movers whose buffers the kernel copied after all.
    pub(super) fn copied_mover(&self, pairs: &[PlacedPair<'_>]) -> Option<String> {
        let mut cells = pairs.iter().flat_map(|(p, _)| [p.other, p.baseline]);
        let copied = cells.find(|c| self.affected("zero-copy-copied", &c.id))?;
        Some(copied.cell.mover.clone())
    }

    /// The axis values that distinguish these cells in a report: on the axes in which they differ, on mover, size and
    /// threads if the study varies them, and on background load if there is any; none on the axes in `except`.
    pub(super) fn places(&self, cells: &[&Cell], except: &[Axis]) -> Vec<CasePlace> {
        let apart = grid::varied(cells.iter().copied());
        let by_study = [Axis::Mover, Axis::Size, Axis::Threads];
        let is_varied = |a: Axis| by_study.contains(&a) && self.measured.study.varied.contains(&a);
        // Without background load the numbers mean something else.
        let is_loaded =
            |a: Axis| a == Axis::Background && cells.iter().any(|c| !c.neighbour.is_idle());
        let axes = AXES
            .iter()
            .map(|row| row.axis)
            .filter(|a| !except.contains(a))
            .filter(|a| apart.contains(a) || is_varied(*a) || is_loaded(*a))
            .collect_vec();
        let survey = &self.measured.input.manifest.survey;
        let is_of_memory = |cell: &Cell| {
            let route = survey.mover(&cell.mover).map(|m| m.route);
            matches!(route, None | Some(Route::Nowhere | Route::MemoryToSocket))
        };
        let place = |cell: &&Cell| {
            let fields = u64::from(cell.fields);
            let has_parts =
                is_of_memory(cell) && fields > 1 && cell.size_bytes.is_multiple_of(fields);
            CasePlace::Cells {
                values: axes.iter().map(|axis| (*axis, cell.value(*axis))).collect(),
                // Their number, and the bytes of each.
                fields: has_parts.then(|| [fields, cell.field_bytes()]),
                flows: None,
            }
        };
        cells.iter().map(place).collect()
    }

    pub(super) fn published(&self, cell: &Cell, metric: Metric) -> Option<f64> {
        let published = self.publication()?;
        let index = index_of_like(published, cell)?;
        published.cells[index].values.get(&metric).copied()
    }

    /// The published values of the first cell and of the second; none if both are the same published cell.
    pub(super) fn published_pair(
        &self,
        cells: [&Cell; 2],
        metric: Metric,
    ) -> Option<PublishedNumber> {
        let published = self.publication()?;
        let numerator = index_of_like(published, cells[0])?;
        let denominator = index_of_like(published, cells[1])?;
        let value = |index: usize| published.cells[index].values.get(&metric).copied();
        let above = value(numerator).filter(|_| numerator != denominator)?;
        Some(PublishedNumber::Ratio([above, value(denominator)?]))
    }

    fn publication(&self) -> Option<&'d Published> {
        let of_source = |p: &&Published| p.source == self.claim.source;
        self.grounds.published.iter().find(of_source)
    }

    /// The reason for which the run has no such cells.
    pub(super) fn no_cells(&self, contrast: Option<&Contrast>) -> NotTested {
        let is_side = |cell: &Cell, c: &Contrast| {
            has(cell, c.axis, &c.value) || has(cell, c.axis, &c.against)
        };
        let asked =
            |c: &Cell| is_at(c, &self.test.place) && contrast.is_none_or(|of| is_side(c, of));
        let mut refused = self.measured.input.refused.iter();
        if let Some(refused) = refused.find(|r| asked(&r.cell)) {
            return NotTested::Refused(refused.why.clone());
        }
        let mut studies = self.claim.studies.iter();
        NotTested::NotMeasured {
            study: studies.find(|s| self.has_study(s)).cloned(),
            is_left_out: !self.measured.input.left_out.is_empty(),
        }
    }

    /// Returns true if this version has the study.
    pub(super) fn has_study(&self, name: &str) -> bool {
        self.grounds.studies.contains(&name)
    }
}

/// The index of the first published cell that agrees in the identifying axes and in those in which published
/// cells differ. A publication that does not name its transport matches cells of every transport.
fn index_of_like(published: &Published, cell: &Cell) -> Option<usize> {
    let mut axes = grid::varied(published.cells.iter().map(|c| &c.cell));
    axes.extend(IDENTIFYING);
    let named = &published.named;
    axes.retain(|a| named.is_empty() || named.contains(a) || *a != Axis::Transport);
    let alike = |other: &Cell| axes.iter().all(|a| other.value(*a) == cell.value(*a));
    published.cells.iter().position(|c| alike(&c.cell))
}

/// The published values for a run's cells, each under the run's cell and the id of that cell, in the order of
/// `cells`; those that were not published are left out.
pub fn published_cells(published: &Published, cells: &[Cell]) -> Published {
    let found = cells.iter().filter_map(|cell| {
        let mut values = published.cells[index_of_like(published, cell)?].clone();
        values.id = cell.id();
        values.cell = cell.clone();
        Some(values)
    });
    Published {
        cells: found.collect(),
        ..published.clone()
    }
}
