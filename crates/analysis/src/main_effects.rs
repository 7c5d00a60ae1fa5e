//! Main effects: one value of an axis against another over all places at once.
//!
//! The places are all values of one further axis, chosen by the study and never by the outcome. Only
//! blocks in which every place was measured count, so that all places have the same weight in each
//! block.

use bytecost_spec::study::{Compare, Family};
use bytecost_spec::{Axis, Metric, Value};
use bytecost_stats::{Location, holm};
use itertools::Itertools as _;

use crate::caveats;
use crate::confidence::{ERROR_RATE, LEVEL};
use crate::contrast::{PairsContrast, is_trimmed, moderations};
use crate::grid::{self, RANGES};
use crate::grouping::grouped;
use crate::judged_pair::{JudgedPair, verdict};
use crate::pairing::{Pairing, compared};
use crate::result::{CaveatKind, Finding, MainEffect, PlaceDeviation, PlaceEffect, Uncertain};
use crate::stages::Judged;

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
    let compares = &run.input.manifest.study.compare;
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
            Some((raw, raw.contrast.mean(run.trials, by)?))
        })
        .collect_vec();
    // An effect that a caveat withholds is not in the family.
    let is_tested = |raw: &RawEffect<'_>| raw.is_asked() && raw.withheld_by(run).is_none();
    let p_values: Vec<f64> = located
        .iter()
        .filter(|(raw, _)| is_tested(raw))
        .map(|(_, mean)| mean.p_value(0.0).unwrap_or(1.0))
        .collect();
    let mut corrected = holm(&p_values).into_iter();
    let effects = located.iter().filter_map(|(raw, mean)| {
        let p_corrected = is_tested(raw).then(|| corrected.next()).flatten();
        raw.effect(run, *mean, p_corrected)
    });
    effects.collect()
}

fn raw_effects<'v>(run: &'v Judged<'v>, compare: &'v Compare) -> Vec<RawEffect<'v>> {
    let study = &run.input.manifest.study;
    let Some(metric) = compare
        .metrics
        .first()
        .copied()
        .filter(|m| is_trimmed(m.measure))
    else {
        return Vec::new();
    };
    let mut pairings = compared(run.trials, compare);
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
    let effect = |(_, mut group): (String, Vec<Pairing<'v, 'v>>)| {
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
        pairings.find_map(|p| caveats::withheld_by(&run.caveats, self.metric, p))
    }

    /// The place that is furthest from the mean of all, in standard errors.
    fn furthest(&self, run: &Judged<'_>) -> Option<PlaceDeviation> {
        let count = self.places.len();
        let deviation = |place: usize| {
            let location = self.contrast.deviation(run.trials, place)?;
            let p = location.p_value(0.0)?;
            Some((place, location, (p * count as f64).min(1.0)))
        };
        let all = (0..count).filter_map(deviation);
        let (place, location, p) = all.min_by(|a, b| a.2.total_cmp(&b.2))?;
        // Together for all places, by Bonferroni.
        let level = 1.0 - ERROR_RATE / count as f64;
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
        let is_shown = |f: &&Finding| f.p * (self.places.len() as f64) < ERROR_RATE;
        let shown = || self.places.iter().map(|p| p.finding).filter(is_shown);
        let turns = shown().any(|f| f.ratio > 1.0) && shown().any(|f| f.ratio < 1.0);
        let study = &run.input.manifest.study;
        let bound = study.smallest_effect.ln_1p();
        let is_rest =
            |a: &&Axis| ![compare.axis, self.over].contains(a) && first.other.facts.applies(**a);
        let rest = run.varied().iter().filter(is_rest);
        let is_open = withheld.is_none() && !turns;
        let corrected = p_corrected
            .filter(|_| is_open)
            .map(|p| (p, run.error_rate()));
        let verdict = verdict(self.metric, (mean.value, interval), corrected, bound);
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
