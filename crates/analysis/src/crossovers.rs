//! From which size on one way is better than another, with an interval from resampled blocks.

use std::collections::{BTreeMap, BTreeSet};

use bytecost_spec::{Axis, Better, Metric};
use bytecost_stats::{Course, GainEdge, Gains, Resampling, course};

use crate::cells::exp;
use crate::confidence::{FEWEST, LEVEL};
pub(crate) use crate::contrast::Ratio;
use crate::grid;
use crate::pairing::{Pairing, pairings};
use crate::result::{Crossing, CrossingPoint, Crossover};
use crate::view::View;

mod sentence;

pub(crate) use sentence::is_open;

/// How often the blocks of a crossover are drawn again.
const RESAMPLES: usize = 1000;

/// Two values of an axis over the numbers of another axis, all else alike.
pub(crate) struct Curve<'v> {
    pub(crate) axis: Axis,
    pub(crate) along: Axis,
    pub(crate) baseline: String,
    pub(crate) value: String,
    /// What both hold constant, of the axes that vary in the study.
    pub(crate) place: Vec<(Axis, String)>,
    /// By rising number.
    pub(crate) points: Vec<CurvePoint<'v>>,
}

/// A pair of cells of a curve.
pub(crate) struct CurvePoint<'v> {
    /// Its value along, as text.
    pub(crate) x: String,
    number: f64,
    pub(crate) pairing: Pairing<'v, 'v>,
}

/// Every crossover of the study's comparisons: by comparison, metric and axis along, then in the
/// order of the plan.
pub(crate) fn all(view: &View<'_>, varied: &[Axis]) -> Vec<Crossover> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for compare in &view.input.manifest.study.compare {
        for along in alongs(view, compare.axis, varied) {
            let curves = curves(view, varied, compare.axis, &compare.baseline, along);
            for metric in &compare.metrics {
                let told = curves.iter().filter_map(|c| c.crossover(view, *metric));
                found.extend(told.filter(|c| seen.insert(key(c))));
            }
        }
    }
    found
}

fn key(c: &Crossover) -> String {
    let place: Vec<String> = c.place.iter().map(|(a, v)| format!("{a:?} {v}")).collect();
    format!(
        "{} {:?} {} {} {:?} {}",
        c.metric,
        c.axis,
        c.baseline,
        c.value,
        c.along,
        place.join(" ")
    )
}

/// The axes along which something can cross: their values are numbers and vary. None where the
/// compared axis is one of numbers itself.
fn alongs(view: &View<'_>, compared: Axis, varied: &[Axis]) -> Vec<Axis> {
    let numeric = |axis: Axis| {
        let cells = view.trials.moving().map(|c| c.cell.value(axis));
        let values: BTreeSet<String> = cells.collect();
        grid::numbers(axis, &values.into_iter().collect::<Vec<_>>()).is_some()
    };
    if numeric(compared) {
        return Vec::new();
    }
    let mut axes: Vec<Axis> = varied.iter().copied().filter(|a| numeric(*a)).collect();
    axes.sort_by_key(|a| *a != Axis::Size);
    axes
}

/// The curves of one comparison along an axis, in the order of the plan; those of at least two
/// points. Cells that wait for a timer are left out: where they cross says nothing of the ways.
pub(crate) fn curves<'v>(
    view: &View<'v>,
    varied: &[Axis],
    axis: Axis,
    baseline: &str,
    along: Axis,
) -> Vec<Curve<'v>> {
    let study = &view.input.manifest.study;
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut curves: Vec<Curve<'_>> = Vec::new();
    for pairing in pairings(study, view.trials, axis, baseline) {
        let cell = pairing.other.cell;
        let x = cell.value(along);
        let number =
            grid::numbers(along, std::slice::from_ref(&x)).and_then(|n| n.first().copied());
        let cells = [&pairing.baseline.id, &pairing.other.id];
        let Some(number) = number.filter(|n| *n > 0.0 && !view.stalls.any(cells)) else {
            continue;
        };
        let point = CurvePoint { x, number, pairing };
        let at = *places
            .entry(cell.id_without(&[along]))
            .or_insert(curves.len());
        match curves.get_mut(at) {
            Some(curve) => curve.points.push(point),
            None => curves.push(Curve::starting_with(point, varied, axis, baseline, along)),
        }
    }
    for curve in &mut curves {
        curve.points.sort_by(|a, b| a.number.total_cmp(&b.number));
    }
    curves.retain(|c| c.points.len() > 1);
    curves
}

impl<'v> Curve<'v> {
    fn starting_with(
        point: CurvePoint<'v>,
        varied: &[Axis],
        axis: Axis,
        baseline: &str,
        along: Axis,
    ) -> Curve<'v> {
        let (base, other) = (point.pairing.baseline.cell, point.pairing.other.cell);
        let held = varied
            .iter()
            .copied()
            .filter(|a| *a != axis && *a != along && base.value(*a) == other.value(*a));
        Curve {
            axis,
            along,
            baseline: baseline.to_owned(),
            value: other.value(axis),
            place: held.map(|a| (a, other.value(a))).collect(),
            points: vec![point],
        }
    }

    /// The ratio at each point at which enough blocks have it.
    pub(crate) fn ratios(&self, metric: Metric) -> Vec<(&str, Ratio)> {
        let ratios = self.points.iter().filter_map(|point| {
            let ratio = Ratio::of(&point.pairing.log_ratios(metric))?;
            Some((point.x.as_str(), ratio))
        });
        ratios.collect()
    }

    /// Where the two cross in a metric; none where fewer than two points have it.
    pub(crate) fn crossover(&self, view: &View<'_>, metric: Metric) -> Option<Crossover> {
        let study = &view.input.manifest.study;
        let sign = match metric.better() {
            Better::Higher => 1.0,
            Better::Lower => -1.0,
        };
        let logs = self.points.iter().map(|p| {
            let logs = p.pairing.log_ratios_by_block(metric);
            (p, logs)
        });
        let had: Vec<_> = logs.filter(|(_, logs)| logs.len() >= FEWEST).collect();
        let ((first, _), (last, _)) = (had.first()?, had.last()?);
        let numbers: BTreeSet<u32> = had
            .iter()
            .flat_map(|(_, l)| l.iter().map(|l| l.0))
            .collect();
        let by_block: Vec<BTreeMap<u32, f64>> = had
            .iter()
            .map(|(_, logs)| logs.iter().copied().collect())
            .collect();
        let rows: Vec<Vec<Option<f64>>> = numbers
            .iter()
            .map(|n| by_block.iter().map(|b| Some(sign * b.get(n)?)).collect())
            .collect();
        let places: Vec<f64> = had.iter().map(|(p, _)| p.number.ln()).collect();
        let gains = Gains {
            places: &places,
            blocks: &rows,
            bound: study.smallest_effect.ln_1p(),
        };
        let resampling = Resampling {
            level: LEVEL,
            times: RESAMPLES,
            seed: view.input.manifest.seed ^ self.hash(metric),
        };
        let outcome = match course(gains, resampling)? {
            Course::Always => Crossing::AlwaysBetter,
            Course::Never => Crossing::NeverBetter,
            Course::Open => Crossing::Undecided,
            Course::Edges(edges) => Crossing::At(edges.iter().map(point).collect()),
        };
        let of_curve = |f: &&crate::result::Finding| {
            let mut points = had.iter().map(|(p, _)| &p.pairing);
            f.metric == metric
                && f.axis == self.axis
                && points.any(|p| p.other.id == f.cell && p.baseline.id == f.baseline)
        };
        let mut crossover = Crossover {
            metric,
            axis: self.axis,
            baseline: self.baseline.clone(),
            value: self.value.clone(),
            along: self.along,
            range: (first.x.clone(), last.x.clone()),
            place: self.place.clone(),
            outcome,
            findings: view
                .findings
                .iter()
                .filter(of_curve)
                .map(|f| f.id.clone())
                .collect(),
            sentence: String::new(),
        };
        crossover.sentence = sentence::of(&crossover, study.smallest_effect);
        Some(crossover)
    }

    /// A number of the curve's own, so that no two draw the same blocks (FNV-1a).
    fn hash(&self, metric: Metric) -> u64 {
        let cell = self
            .points
            .first()
            .map_or("", |p| p.pairing.other.id.as_str());
        let name = format!("{metric} {} {} {cell}", self.baseline, self.along.name());
        name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        })
    }
}

fn point(edge: &GainEdge) -> CrossingPoint {
    CrossingPoint {
        better_above: edge.rising,
        fades: edge.fades,
        value: exp(edge.at),
        low: edge.low.map(exp),
        high: edge.high.map(exp),
    }
}
