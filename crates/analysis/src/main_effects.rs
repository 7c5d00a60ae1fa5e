//! Main effects: one value of an axis against another over all places at once.
//!
//! Which places are averaged is decided by the study, never by what came out: all values of one
//! further axis. Only blocks in which every place was measured count, so that no place weighs more
//! in one block than in another.

use std::collections::{BTreeMap, BTreeSet};

use bytecost_spec::study::Compare;
use bytecost_spec::{Axis, Metric};
use bytecost_stats::{Location, holm, mean, trimmed_mean};
use itertools::Itertools as _;

use crate::caveats;
use crate::confidence::{ERROR_RATE, FEWEST, LEVEL};
use crate::contrast::{Ratio, is_trimmed, located, moderations, with_interrupts};
use crate::findings::verdict;
use crate::grid::{self, RANGES};
use crate::grouping::{by_key, grouped};
use crate::pairing::{Pairing, compared};
use crate::result::{MainEffect, PlaceDeviation, PlaceEffect};
use crate::view::View;

struct RawEffect<'v> {
    compare: &'v Compare,
    metric: Metric,
    over: Axis,
    /// One pair a place, in the order of the axis.
    pairings: Vec<Pairing<'v, 'v>>,
    /// Of each place the log ratios of the blocks that have all places.
    logs: Vec<Vec<f64>>,
    /// The round of each of these blocks.
    rounds: Vec<u32>,
    mean: Location,
}

/// The main effects of a study's comparisons in their first metric, in the order of the plan: over
/// the axis that the study asks for, else over the first range that varies.
pub(crate) fn all(view: &View<'_>) -> Vec<MainEffect> {
    let mut seen = BTreeSet::new();
    let mut raws: Vec<RawEffect<'_>> = Vec::new();
    for compare in &view.input.manifest.study.compare {
        let of_compare = of_compare(view, compare).into_iter();
        raws.extend(of_compare.filter(|raw| seen.insert(raw.key())));
    }
    let moderations = moderations(raws.iter().map(|raw| (raw.metric, raw.mean)));
    for raw in &mut raws {
        if let Some(by) = moderations.get(&raw.metric) {
            raw.mean = by.moderate(raw.mean);
        }
        let mean = with_interrupts(raw.mean, &raw.pairings, raw.metric);
        let trials = view.trials;
        let between = trials.between_rounds_of_mean(raw.metric, &raw.pairings);
        raw.mean = mean.with_rounds(between, raw.rounds());
    }
    // What a caveat withholds is no part of the family.
    let is_tested = |raw: &RawEffect<'_>| raw.is_asked() && raw.withheld(view).is_none();
    let p = |raw: &RawEffect<'_>| raw.mean.p_value(0.0).unwrap_or(1.0);
    let tested: Vec<f64> = raws.iter().filter(|raw| is_tested(raw)).map(p).collect();
    let mut corrected = holm(&tested).into_iter();
    let effects = raws.iter().filter_map(|raw| {
        let p_corrected = is_tested(raw).then(|| corrected.next()).flatten();
        raw.effect(view, p_corrected)
    });
    effects.collect()
}

fn of_compare<'v>(view: &View<'v>, compare: &'v Compare) -> Vec<RawEffect<'v>> {
    let study = &view.input.manifest.study;
    let metric = compare.metrics.first().copied();
    let mut pairings = compared(view.trials, compare);
    let varied = grid::varied(pairings.iter().map(|p| p.other.cell));
    let mut ranges = RANGES.into_iter().filter(|a| *a != compare.axis);
    let over = compare.over.or_else(|| ranges.find(|a| varied.contains(a)));
    let (Some(metric), Some(over)) = (metric.filter(|m| is_trimmed(m.measure)), over) else {
        return Vec::new();
    };
    pairings.retain(|p| p.other.facts.applies(over));
    let order = grid::values(study, over, pairings.iter().map(|p| p.other.cell));
    let key = |p: &Pairing<'_, '_>| p.other.cell.id_without(&[over]);
    let groups = grouped(pairings.into_iter().map(|p| (key(&p), p)));
    let effect = |(_, mut pairings): (String, Vec<Pairing<'v, 'v>>)| {
        pairings.sort_by_key(|p| order.iter().position(|v| *v == p.other.cell.value(over)));
        RawEffect::of(compare, metric, over, pairings)
    };
    groups.into_iter().filter_map(effect).collect()
}

impl<'v> RawEffect<'v> {
    /// None of fewer than two places and three blocks that have them all.
    fn of(
        compare: &'v Compare,
        metric: Metric,
        over: Axis,
        pairings: Vec<Pairing<'v, 'v>>,
    ) -> Option<RawEffect<'v>> {
        let mut by_block: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for pairing in &pairings {
            for (block, log) in pairing.log_ratios_by_block(metric) {
                by_block.entry(block).or_default().push(log);
            }
        }
        by_block.retain(|_, logs| logs.len() == pairings.len());
        if pairings.len() < 2 || by_block.len() < FEWEST {
            return None;
        }
        let of_place = |place: usize| by_block.values().map(|logs| logs[place]).collect();
        let manifest = pairings[0].baseline.manifest;
        let rounds: Vec<u32> = by_block.keys().map(|b| manifest.round_of(*b)).collect();
        let means = by_block.values().filter_map(|logs| mean(logs));
        let by_round = by_key(rounds.iter().copied().zip(means));
        let by_round: Vec<Vec<f64>> = by_round.into_values().collect();
        Some(RawEffect {
            compare,
            metric,
            over,
            logs: (0..pairings.len()).map(of_place).collect(),
            pairings,
            rounds,
            mean: located(&by_round, trimmed_mean, None)?,
        })
    }

    fn key(&self) -> (Metric, Axis, String, String) {
        let other = self.pairings[0].other.cell.id_without(&[self.over]);
        let baseline = self.compare.baseline.clone();
        (self.metric, self.compare.axis, baseline, other)
    }

    fn is_asked(&self) -> bool {
        self.compare.over == Some(self.over)
    }

    fn value_at(&self, place: usize) -> String {
        self.pairings[place].other.cell.value(self.over)
    }

    fn rounds(&self) -> usize {
        self.rounds.iter().unique().count()
    }

    /// Where values of the blocks lie at a place, with its variance between rounds.
    fn located(&self, view: &View<'_>, place: usize, values: &[f64]) -> Option<Location> {
        let by_round = by_key(self.rounds.iter().copied().zip(values.iter().copied()));
        let by_round: Vec<Vec<f64>> = by_round.into_values().collect();
        let between = view
            .trials
            .between_rounds(self.metric, &self.pairings[place]);
        let location = located(&by_round, trimmed_mean, None)?;
        let location = with_interrupts(location, [&self.pairings[place]], self.metric);
        Some(location.with_rounds(between, self.rounds()))
    }

    fn withheld(&self, view: &View<'_>) -> Option<&'static str> {
        let because = |p| caveats::because(&view.known.caveats, self.metric, p);
        self.pairings.iter().find_map(because)
    }

    fn places(&self, view: &View<'_>) -> Option<Vec<(PlaceEffect, Location)>> {
        let place = |(place, logs): (usize, &Vec<f64>)| {
            let location = self.located(view, place, logs)?;
            let ratio = Ratio::at(&location, LEVEL)?;
            let effect = PlaceEffect {
                value: self.value_at(place),
                ratio: ratio.value,
                low: ratio.low,
                high: ratio.high,
            };
            Some((effect, location))
        };
        self.logs.iter().enumerate().map(place).collect()
    }

    /// The place that is furthest from the mean of all, in standard errors.
    fn furthest(&self, view: &View<'_>) -> Option<PlaceDeviation> {
        let count = self.logs.len();
        let of_block = |b: usize| mean(&self.logs.iter().map(|l| l[b]).collect::<Vec<f64>>());
        let means: Vec<f64> = (0..self.logs[0].len()).filter_map(of_block).collect();
        let deviation = |(place, logs): (usize, &Vec<f64>)| {
            let own: Vec<f64> = logs.iter().zip(&means).map(|(l, m)| l - m).collect();
            let location = self.located(view, place, &own)?;
            let p = location.p_value(0.0)?;
            Some((place, location, (p * count as f64).min(1.0)))
        };
        let all = self.logs.iter().enumerate().filter_map(deviation);
        let (place, location, p) = all.min_by(|a, b| a.2.total_cmp(&b.2))?;
        // Together for all places, by Bonferroni.
        let level = 1.0 - ERROR_RATE / count as f64;
        let ratio = Ratio::at(&location, level)?;
        Some(PlaceDeviation {
            value: self.value_at(place),
            ratio: ratio.value,
            low: ratio.low,
            high: ratio.high,
            p,
        })
    }

    fn effect(&self, view: &View<'_>, p_corrected: Option<f64>) -> Option<MainEffect> {
        let compare = self.compare;
        let first = &self.pairings[0];
        let withheld = self.withheld(view);
        let location = self.mean;
        let (ratio, interval) = (Ratio::at(&location, LEVEL)?, location.interval(LEVEL)?);
        let (places, locations): (Vec<_>, Vec<_>) = self.places(view)?.into_iter().unzip();
        let is_shown = |l: &&Location| {
            let p = l.p_value(0.0).unwrap_or(1.0);
            p * (locations.len() as f64) < ERROR_RATE
        };
        let shown = || locations.iter().filter(is_shown);
        let turns = shown().any(|l| l.value > 0.0) && shown().any(|l| l.value < 0.0);
        let study = &view.input.manifest.study;
        let bound = study.smallest_effect.ln_1p();
        let is_rest =
            |a: &&Axis| ![compare.axis, self.over].contains(a) && first.other.facts.applies(**a);
        let rest = view.varied().iter().filter(is_rest);
        let is_open = withheld.is_none() && !turns;
        let corrected = p_corrected.filter(|_| is_open);
        let corrected = corrected.map(|p| (p, view.error_rate()));
        let verdict = verdict(self.metric, (location.value, interval), corrected, bound);
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
            blocks: location.count,
            p: location.p_value(0.0)?,
            p_corrected,
            verdict,
            places,
            furthest: self.furthest(view)?,
            turns,
            withheld: withheld.map(str::to_owned),
        })
    }
}
