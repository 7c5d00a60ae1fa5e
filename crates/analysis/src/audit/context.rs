//! What tests look things up in: cells and pairs of cells, caveats, published numbers.

use bytecost_spec::axis::AXES;
use bytecost_spec::claim::{Claim, Contrast, NAGLE_STALL, Place, has, is_at};
use bytecost_spec::{Axis, Cell, Measure, Metric, Placement, Published, Route, units};
use itertools::Itertools as _;

use super::claim_test::ClaimFamily;
use crate::caveats;
use crate::confidence::FEWEST;
use crate::grid;
use crate::pairing::{Pairing, contrasted};
use crate::phrases;
use crate::result::{Caveat, Gap, Grounds};
use crate::stages::Judged;
use crate::trials::CellTrials;

pub(super) struct ClaimContext<'d> {
    pub(super) run: &'d Judged<'d>,
    pub(super) grounds: &'d Grounds,
    pub(super) claim: &'d Claim,
    pub(super) family: &'d ClaimFamily,
}

/// What decides whether a small write waits for a timer.
pub(super) const TIMERS: [Axis; 3] = [Axis::Nodelay, Axis::Cork, Axis::Quickack];

/// Axes by which a published cell is told apart; what else it varies in comes to them.
const TOLD_APART: [Axis; 5] = [
    Axis::Transport,
    Axis::Pattern,
    Axis::Mover,
    Axis::Size,
    Axis::Threads,
];

pub(super) fn counts_calls(metric: Metric) -> bool {
    [Measure::CallsPerMessage, Measure::CallsPerMib].contains(&metric.measure)
}

impl<'d> ClaimContext<'d> {
    /// Cells of the run that fulfil the conditions and have another end.
    pub(super) fn cells<'p>(
        &'p self,
        place: &'p Place,
    ) -> impl Iterator<Item = &'p CellTrials<'p>> + 'p {
        let only_free = self.has_free_ends(place);
        let cells = self.run.trials.moving().filter(|c| is_at(c.cell, place));
        cells.filter(move |c| !only_free || c.cell.placement == Placement::Free)
    }

    /// Returns true if the run has cells with free ends at a place that names no CPUs: a program whose
    /// threads were not pinned is compared with these alone.
    fn has_free_ends(&self, place: &Place) -> bool {
        let names_cpus = place.iter().any(|(axis, _)| *axis == Axis::Placement);
        let mut cells = self.run.trials.moving();
        let is_free = |c: &CellTrials<'_>| c.cell.placement == Placement::Free;
        !names_cpus && cells.any(|c| is_free(c) && is_at(c.cell, place))
    }

    /// The pairs of a contrast with their places in words, in the order of the plan.
    pub(super) fn pairs<'p>(
        &'p self,
        contrast: &Contrast,
        place: &Place,
    ) -> Result<Vec<(Pairing<'p, 'p>, String)>, String> {
        let c = contrast;
        let mut pairs = contrasted(self.run.trials, c.axis, &c.value, &c.against, place);
        if c.axis != Axis::Placement && self.has_free_ends(place) {
            pairs.retain(|p| p.other.cell.placement == Placement::Free);
        }
        if pairs.is_empty() {
            return Err(self.no_cells(place, Some(contrast)));
        }
        Ok(self.placed(pairs))
    }

    pub(super) fn placed<'p>(&self, pairs: Vec<Pairing<'p, 'p>>) -> Vec<(Pairing<'p, 'p>, String)> {
        let cells = pairs.iter().map(|p| p.other.cell).collect_vec();
        let axis = pairs.iter().map(|p| p.axis).take(1).collect_vec();
        let places = self.places(&cells, &axis);
        pairs.into_iter().zip(places).collect()
    }

    /// The least difference that matters, on a log scale.
    pub(super) fn smallest_effect(&self) -> f64 {
        self.run.input.manifest.study.smallest_effect.ln_1p()
    }

    /// Why nothing is decided of a pair in a measure, where a caveat of the run withholds it. A
    /// stall of one side is weighed by the claim's test itself.
    pub(super) fn withheld(&self, metric: Metric, pair: &Pairing<'_, '_>) -> Option<String> {
        let is_weighed = TIMERS.contains(&pair.axis) || self.stalls_apart(pair);
        self.because(metric, pair, |c| !(is_weighed && c.kind == NAGLE_STALL))
    }

    /// Why nothing is said of a cell by itself, where a caveat withholds its measure. That a message
    /// waits for a timer is what some claims are about.
    pub(super) fn withheld_all(&self, cell: &CellTrials<'_>, metric: Metric) -> Option<String> {
        let alone = Pairing {
            axis: Axis::Mover,
            baseline: cell,
            other: cell,
        };
        self.because(metric, &alone, |c| c.kind != NAGLE_STALL)
    }

    fn because(
        &self,
        metric: Metric,
        pair: &Pairing<'_, '_>,
        weighs: impl Fn(&Caveat) -> bool,
    ) -> Option<String> {
        let caveats = self.run.caveats.iter().filter(|c| weighs(c));
        let why = caveats::because(caveats, metric, pair)?;
        Some(format!("there is no verdict: {why}"))
    }

    /// Why cells have no number.
    pub(super) fn absent(&self, cells: &[&CellTrials<'_>], metric: Metric) -> String {
        let noun = self.words(metric);
        let mut refused = self.run.input.manifest.survey.counters_refused.iter();
        match self.run.gap(cells, metric) {
            Gap::Absent(why) if refused.any(|refusal| refusal.why == why) => {
                format!("{noun} is not available on this machine: {why}")
            }
            Gap::Absent(why) => format!("{noun} is not available: {why}"),
            Gap::Failed(why) => format!("trials failed: {why}"),
            _ => format!("too few blocks have {noun}: an interval takes {FEWEST}"),
        }
    }

    pub(super) fn words(&self, metric: Metric) -> String {
        phrases::metric(metric, self.run.trials.unit)
    }

    pub(super) fn affected(&self, kind: &str, id: &str) -> bool {
        let mut caveats = self.run.caveats.iter().filter(|d| d.kind == kind);
        caveats.any(|d| d.cells.is_empty() || d.cells.iter().any(|c| c == id))
    }

    /// Whether one side alone waits for a timer, where that is not what they differ in.
    pub(super) fn stalls_apart(&self, pair: &Pairing<'_, '_>) -> bool {
        !TIMERS.contains(&pair.axis)
            && self.affected(NAGLE_STALL, &pair.baseline.id)
                != self.affected(NAGLE_STALL, &pair.other.id)
    }

    /// Said where the kernel copied the buffers of a zero-copy mover that is compared.
    pub(super) fn copied_note(&self, pairs: &[(Pairing<'_, '_>, String)]) -> Option<String> {
        let mut cells = pairs.iter().flat_map(|(p, _)| [p.other, p.baseline]);
        let copied = cells.find(|c| self.affected("zero-copy-copied", &c.id))?;
        let mover = &copied.cell.mover;
        let note = format!("The kernel copied the buffers of `{mover}` after all.");
        Some(note)
    }

    /// Where cells are, in words: by the axes in which they differ, and by mover, size and threads
    /// where the study varies those; with a neighbour, where there is one; but for some.
    pub(super) fn places(&self, cells: &[&Cell], but: &[Axis]) -> Vec<String> {
        let apart = grid::varied(cells.iter().copied());
        let always = [Axis::Mover, Axis::Size, Axis::Threads];
        let varied = |a: &Axis| always.contains(a) && self.run.study.varied.contains(a);
        let axes = AXES.iter().map(|row| row.axis);
        // A neighbour is told where there is one: without it the numbers mean something else.
        let beside =
            |a: &Axis| *a == Axis::Background && cells.iter().any(|c| !c.neighbour.is_idle());
        let is_told = |a: &Axis| !but.contains(a) && (apart.contains(a) || varied(a) || beside(a));
        let axes = axes.filter(is_told).collect_vec();
        let survey = &self.run.input.manifest.survey;
        let of_memory = |cell: &Cell| {
            let route = survey.mover(&cell.mover).map(|m| m.route);
            matches!(route, None | Some(Route::Nowhere | Route::MemoryToSocket))
        };
        let places = cells.iter().map(|c| in_words(c, &axes, of_memory(c)));
        places.collect()
    }

    pub(super) fn published(&self, cell: &Cell, metric: Metric) -> Option<f64> {
        let published = self.publication()?;
        let like = like(published, cell)?;
        published.cells[like].values.get(&metric).copied()
    }

    /// The ratio of two published cells where they are not the same one there, with both.
    pub(super) fn published_pair(&self, cells: [&Cell; 2], metric: Metric) -> Option<String> {
        let published = self.publication()?;
        let [one, other] = [like(published, cells[0])?, like(published, cells[1])?];
        let value = |place: usize| published.cells[place].values.get(&metric).copied();
        let (above, below) = (value(one).filter(|_| one != other)?, value(other)?);
        let both = format!("{} against {}", units::number(above), units::number(below));
        let ratio = (below > 0.0).then(|| units::number(above / below));
        Some(ratio.map_or(both.clone(), |ratio| format!("{ratio}× ({both})")))
    }

    fn publication(&self) -> Option<&'d Published> {
        let of_source = |p: &&Published| p.source == self.claim.source;
        self.grounds.published.iter().find(of_source)
    }

    pub(super) fn study(&self, name: &str) -> String {
        match self.grounds.studies.contains(&name) {
            true => format!("a run of the study `{name}` (`bytecost run {name}`)"),
            false => format!("a study of {name}, which this version does not have"),
        }
    }

    /// Why the run has no such cells: the refusal, or how they would be had.
    pub(super) fn no_cells(&self, place: &Place, contrast: Option<&Contrast>) -> String {
        let is_side = |cell: &Cell, c: &Contrast| {
            has(cell, c.axis, &c.value) || has(cell, c.axis, &c.against)
        };
        let asked = |c: &Cell| is_at(c, place) && contrast.is_none_or(|of| is_side(c, of));
        let mut refused = self.run.input.refused.iter();
        if let Some(refused) = refused.find(|r| asked(&r.cell)) {
            return format!(
                "the cells are not available on this machine: {}",
                refused.why
            );
        }
        let wanted = place.iter();
        let wanted = wanted.map(|(axis, of)| format!("{} {}", axis.name(), of.iter().join(" or ")));
        let both = contrast.map(|c| format!("{} {} and {}", c.axis.name(), c.value, c.against));
        let wanted = phrases::list(wanted.chain(both));
        let mut runnable = self.claim.studies.iter();
        let runnable = runnable.find(|s| self.grounds.studies.contains(&s.as_str()));
        let left_out = match self.run.input.left_out {
            [] => "",
            _ => " with a larger --budget",
        };
        let remedy = |study| format!("; `bytecost run {study}`{left_out} measures them");
        let remedy = runnable.map(remedy).unwrap_or_default();
        format!("no cells with {wanted} were measured{remedy}")
    }
}

/// Where a cell is; a size with its fields, where it has some, since some publications count those.
fn in_words(cell: &Cell, axes: &[Axis], has_fields: bool) -> String {
    let fields = u64::from(cell.fields);
    let parts = has_fields && fields > 1 && cell.size_bytes.is_multiple_of(fields);
    let words = axes.iter().map(|axis| {
        let circumstance = axis.circumstance(&cell.value(*axis));
        match axis {
            Axis::Size if parts => {
                let field = units::bytes_in_words(cell.field_bytes());
                format!("{circumstance} ({fields} × {field})")
            }
            _ => circumstance,
        }
    });
    words.collect_vec().join(", ")
}

fn like(published: &Published, cell: &Cell) -> Option<usize> {
    let mut axes = grid::varied(published.cells.iter().map(|c| &c.cell));
    axes.extend(TOLD_APART);
    let tells = &published.tells;
    axes.retain(|a| tells.is_empty() || tells.contains(a) || *a != Axis::Transport);
    let alike = |other: &Cell| axes.iter().all(|a| other.value(*a) == cell.value(*a));
    published.cells.iter().position(|c| alike(&c.cell))
}

/// A published table by the cells of a run that set it up again, so that each has the id of the
/// cell that it stands beside: in the order of `cells`, those that were not published left out.
pub fn beside(published: &Published, cells: &[Cell]) -> Published {
    let found = cells.iter().filter_map(|cell| {
        let mut like = published.cells[like(published, cell)?].clone();
        like.id = cell.id();
        like.cell = cell.clone();
        Some(like)
    });
    Published {
        cells: found.collect(),
        ..published.clone()
    }
}
