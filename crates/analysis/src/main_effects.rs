//! Main effects: one value of an axis against another over all places at once.
//!
//! The places are all values of one further axis, chosen by the study and never by the outcome. Only
//! blocks in which every place was measured count, so that all places have the same weight in each
//! block.

use bytecost_spec::study::{Compare, Family};
use bytecost_spec::{Axis, Metric, Value};
use bytecost_stats::Location;
use itertools::Itertools as _;

use crate::comparison::{Pairing, compared, moderations};
use crate::confidence::{ERROR_RATE, LEVEL};
use crate::corrections::{TestFamily, corrected, level_of_each};
use crate::families::verdict;
use crate::grid::{self, RANGES};
use crate::grouping::grouped;
use crate::mean_contrast::PairsContrast;
use crate::measures::is_trimmed;
use crate::result::{CaveatKind, MainEffect, PlaceDeviation, PlaceEffect, Uncertain};
use crate::stages::{Judged, JudgedPair};

struct RawEffect<'v> {
    compare: &'v Compare,
    metric: Metric,
    over: Axis,
    /// The comparison at each place, in the order of the axis.
    places: Vec<JudgedPair<'v>>,
    contrast: PairsContrast<'v>,
}

/// The main effects of a study's comparisons in their first metric, in the order of the plan: over
/// the axis that the study asks for, else over the first range that varies.
pub(crate) fn all<'v>(run: &'v Judged<'v>) -> Vec<MainEffect> {
    let compares = &run.measured.input.manifest.study.compare;
    let raws: Vec<RawEffect<'_>> = compares
        .iter()
        .filter(|compare| compare.family != Family::Exploratory)
        .flat_map(|compare| raw_effects(run, compare))
        .unique_by(RawEffect::key)
        .collect();
    let within = raws
        .iter()
        .filter_map(|r| Some((r.metric, r.contrast.within()?)));
    let moderations = moderations(within);
    let located = raws
        .iter()
        .filter_map(|raw| {
            let by = moderations.get(&raw.metric);
            Some((raw, raw.contrast.mean(run.measured.trials, by)?))
        })
        .collect_vec();
    // An effect that a caveat withholds is not in the family.
    let is_tested = |raw: &RawEffect<'_>| raw.is_asked() && raw.withheld_by(run).is_none();
    let p_values: Vec<f64> = located
        .iter()
        .filter(|(raw, _)| is_tested(raw))
        .map(|(_, mean)| mean.p_value(0.0).unwrap_or(1.0))
        .collect();
    let mut corrected = corrected(TestFamily::MainEffects, &p_values).into_iter();
    let effects = located.iter().filter_map(|(raw, mean)| {
        let p_corrected = is_tested(raw).then(|| corrected.next()).flatten();
        raw.effect(run, *mean, p_corrected)
    });
    effects.collect()
}

fn raw_effects<'v>(run: &'v Judged<'v>, compare: &'v Compare) -> Vec<RawEffect<'v>> {
    let study = &run.measured.input.manifest.study;
    let Some(metric) = compare
        .metrics
        .first()
        .copied()
        .filter(|m| is_trimmed(m.measure))
    else {
        return Vec::new();
    };
    let mut pairings = compared(run.measured.trials, compare);
    let varied = grid::varied(pairings.iter().map(|p| p.other.cell));
    let mut ranges = RANGES.into_iter().filter(|a| *a != compare.axis);
    let over = compare.over.or_else(|| ranges.find(|a| varied.contains(a)));
    let Some(over) = over else {
        return Vec::new();
    };
    pairings.retain(|p| p.other.facts.applies(over));
    let order = grid::values(study, over, pairings.iter().map(|p| p.other.cell));
    let groups = grouped(
        pairings
            .into_iter()
            .map(|p| (p.other.cell.id_without(&[over]), p)),
    );
    let effect = |(_, mut group): (String, Vec<Pairing<'v>>)| {
        group.sort_by_key(|p| order.iter().position(|v| *v == p.other.cell.value(over)));
        let places = group.iter().map(|p| run.pair(*p, metric));
        Some(RawEffect {
            compare,
            metric,
            over,
            places: places.collect::<Option<Vec<_>>>().filter(|p| p.len() > 1)?,
            contrast: PairsContrast::new(group, metric)?,
        })
    };
    groups.into_iter().filter_map(effect).collect()
}

impl RawEffect<'_> {
    fn key(&self) -> (Metric, Axis, Value, String) {
        let other = self.places[0].pairing.other.cell.id_without(&[self.over]);
        let baseline = self.compare.baseline.clone();
        (self.metric, self.compare.axis, baseline, other)
    }

    fn is_asked(&self) -> bool {
        self.compare.over == Some(self.over)
    }

    fn value_at(&self, place: usize) -> Value {
        self.places[place].pairing.other.cell.value(self.over)
    }

    fn withheld_by(&self, run: &Judged<'_>) -> Option<CaveatKind> {
        let mut pairings = self.places.iter().map(|p| &p.pairing);
        pairings.find_map(|p| run.withheld_by(self.metric, p))
    }

    /// The place that is furthest from the mean of all, in standard errors.
    fn furthest(&self, run: &Judged<'_>) -> Option<PlaceDeviation> {
        let deviation = |place: usize| {
            let location = self.contrast.deviation(run.measured.trials, place)?;
            Some((location.p_value(0.0)?, place, location))
        };
        let all = (0..self.places.len()).filter_map(deviation).collect_vec();
        let p_values = all.iter().map(|(p, ..)| *p).collect_vec();
        let corrected = corrected(TestFamily::PlacesOfAnEffect, &p_values).into_iter();
        let (p, (_, place, location)) = corrected.zip(all).min_by(|a, b| a.0.total_cmp(&b.0))?;
        let level = 1.0 - level_of_each(ERROR_RATE, self.places.len());
        let ratio = Uncertain::ratio_at(&location, level)?;
        Some(PlaceDeviation {
            value: self.value_at(place),
            ratio: ratio.value,
            low: ratio.low,
            high: ratio.high,
            p,
        })
    }

    fn effect(
        &self,
        run: &Judged<'_>,
        mean: Location,
        p_corrected: Option<f64>,
    ) -> Option<MainEffect> {
        let compare = self.compare;
        let first = self.places[0].pairing;
        let withheld = self.withheld_by(run);
        let (ratio, interval) = (Uncertain::ratio_at(&mean, LEVEL)?, mean.interval(LEVEL)?);
        let places = self.places.iter().enumerate().map(|(place, pair)| {
            let at_place = pair.ratio();
            PlaceEffect {
                value: self.value_at(place),
                ratio: at_place.value,
                low: at_place.low,
                high: at_place.high,
            }
        });
        let p_values = self.places.iter().map(|p| p.finding.p).collect_vec();
        let shown = corrected(TestFamily::PlacesOfAnEffect, &p_values)
            .into_iter()
            .zip(&self.places)
            .filter(|(p, _)| *p < ERROR_RATE)
            .map(|(_, place)| place.finding.ratio)
            .collect_vec();
        let turns = shown.iter().any(|r| *r > 1.0) && shown.iter().any(|r| *r < 1.0);
        let study = &run.measured.input.manifest.study;
        let bound = study.smallest_effect.ln_1p();
        let is_rest =
            |a: &&Axis| ![compare.axis, self.over].contains(a) && first.other.facts.applies(**a);
        let rest = run.measured.study.varied.iter().filter(is_rest);
        let is_open = withheld.is_none() && !turns;
        let tested = p_corrected
            .filter(|_| is_open)
            .map(|p| (p, run.measured.error_rate()));
        let verdict = verdict(self.metric, (mean.value, interval), tested, bound);
        Some(MainEffect {
            metric: self.metric,
            axis: compare.axis,
            baseline_value: compare.baseline.clone(),
            value: first.other.cell.value(compare.axis),
            over: self.over,
            place: grid::coordinates(first.other.cell, rest),
            ratio: ratio.value,
            low: ratio.low,
            high: ratio.high,
            blocks: mean.count,
            p: mean.p_value(0.0)?,
            p_corrected,
            verdict,
            places: places.collect(),
            furthest: self.furthest(run)?,
            turns,
            withheld,
        })
    }
}
