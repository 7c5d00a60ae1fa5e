//! The one query: a metric of two cells that differ in one axis, over the blocks that have both.
//!
//! Its result is the paired ratio of the two. All comparisons of a run are made here, each once; verdicts are
//! corrected within families ([`crate::families`]).

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytecost_spec::claim::{Place, has};
use bytecost_spec::study::{Compare, Family};
use bytecost_spec::{Axis, Measure, Metric, Value};
use bytecost_stats::{
    BetweenRounds, Interval, Location, Moderation, RatioVariation, RoundEstimate, TestedLocation,
    mean_of_rounds, student_mean, tail_ratio, tail_with_rounds, trimmed_mean,
};
use itertools::Itertools as _;

use crate::confidence::{FEWEST, LEVEL};
use crate::grid;
use crate::grouping::by_key;
use crate::logs::{as_share, exp};
use crate::measures::{is_extreme, is_trimmed, tail_share};
use crate::outside_time::{holds_interrupts, log_of_one_more, with_error};
use crate::result::Uncertain;
use crate::trials::{CellTrials, Moderations, Trials, block_value};

/// Two cells that differ in an axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pairing<'t> {
    pub(crate) axis: Axis,
    pub(crate) baseline: &'t CellTrials<'t>,
    pub(crate) other: &'t CellTrials<'t>,
}

/// Two cells that the study compares in one of the metrics of a comparison.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AskedPair<'t> {
    pub(crate) compare: &'t Compare,
    /// Index among the study's comparisons.
    pub(crate) number: usize,
    pub(crate) metric: Metric,
    pub(crate) pairing: Pairing<'t>,
}

impl AskedPair<'_> {
    /// Returns true if the metric is the first of its comparison.
    pub(crate) fn is_in_main_metric(&self) -> bool {
        self.compare.metrics.first() == Some(&self.metric)
    }

    /// The same two cells in other trials, such as the first attempts at all blocks; none if these
    /// lack a cell.
    fn within(&self, others: &Trials<'_>) -> Option<PairContrast> {
        let pairing = Pairing {
            axis: self.pairing.axis,
            baseline: others.by_id(&self.pairing.baseline.id)?,
            other: others.by_id(&self.pairing.other.id)?,
        };
        others.contrast(&pairing, self.metric)
    }

    pub(crate) fn family(&self) -> Family {
        let facts = &self.pairing.other.facts;
        self.compare.family_of(facts, self.metric)
    }
}

/// The baselines of comparisons along one axis, found by the other axes of a cell.
struct Baselines<'t> {
    axis: Axis,
    cells: Vec<&'t CellTrials<'t>>,
    /// The index of the first cell for each id without the axis.
    by_id: HashMap<String, usize>,
}

impl<'t> Baselines<'t> {
    fn new(axis: Axis, cells: Vec<&'t CellTrials<'t>>) -> Baselines<'t> {
        let mut by_id = HashMap::new();
        for (index, cell) in cells.iter().enumerate() {
            let id = cell.cell.id_without(&[axis]);
            by_id.entry(id).or_insert(index);
        }
        Baselines { axis, cells, by_id }
    }

    /// The index of the baseline of a cell: of the one that differs from it in the axis alone, else of
    /// the first one that agrees on all other axes that apply to both. So a mover that can have only one
    /// request in flight is the baseline of all depths. `may_pair` excludes baselines.
    fn index_for(
        &self,
        other: &CellTrials<'_>,
        may_pair: impl Fn(&CellTrials<'_>) -> bool,
    ) -> Option<usize> {
        let agrees =
            |c: &&CellTrials<'_>| c.facts.agrees(&other.facts, &[self.axis]) && may_pair(c);
        let exact = self
            .by_id
            .get(&other.cell.id_without(&[self.axis]))
            .copied()
            .filter(|index| agrees(&self.cells[*index]));
        exact.or_else(|| self.cells.iter().position(agrees))
    }
}

/// The pairings of a baseline value with all other values of an axis, in the plan's order of baselines, then
/// in the study's order of values. Movers that move nothing are left out. Reading a file is not
/// compared with writing it.
fn pairings<'t>(trials: &'t Trials<'t>, axis: Axis, baseline: &Value) -> Vec<Pairing<'t>> {
    let order = grid::values(trials.study, axis, trials.moving().map(|c| c.cell));
    let (baselines, mut others): (Vec<&CellTrials<'_>>, Vec<&CellTrials<'_>>) = trials
        .moving()
        .partition(|c| c.cell.value(axis) == *baseline);
    others.sort_by_cached_key(|c| order.iter().position(|v| *v == c.cell.value(axis)));
    let baselines = Baselines::new(axis, baselines);
    let found = others
        .into_iter()
        .filter_map(|other| {
            let index = baselines.index_for(other, |_| true)?;
            let pairing = Pairing {
                axis,
                baseline: baselines.cells[index],
                other,
            };
            Some((index, pairing))
        })
        .sorted_by_key(|(index, _)| *index);
    found.map(|(_, pairing)| pairing).collect()
}

/// The pairings of one comparison of the study.
pub(crate) fn compared<'t>(trials: &'t Trials<'t>, compare: &Compare) -> Vec<Pairing<'t>> {
    let mut found = pairings(trials, compare.axis, &compare.baseline);
    found.retain(|p| compare.compares(&p.other.cell.value(compare.axis)));
    found
}

/// The pairings of two values of an axis at a place, in the order of the plan. An axis of the place that
/// does not apply to one of the two cells has to fit the other one.
pub(crate) fn contrasted<'t>(
    trials: &'t Trials<'t>,
    axis: Axis,
    value: &Value,
    against: &Value,
    place: &Place,
) -> Vec<Pairing<'t>> {
    let fulfils = |c: &CellTrials<'_>, (place_axis, values): &(Axis, Vec<Value>)| {
        values.iter().any(|v| has(c.cell, *place_axis, v))
    };
    let fits = |c: &CellTrials<'_>| place.iter().all(|p| fulfils(c, p) || !c.facts.applies(p.0));
    let cells_with = |wanted: &Value| -> Vec<&'t CellTrials<'t>> {
        let cells = trials.moving().filter(|c| has(c.cell, axis, wanted));
        cells.filter(|c| fits(c)).collect()
    };
    let baselines = Baselines::new(axis, cells_with(against));
    let pair = |other: &'t CellTrials<'t>| {
        let may_pair =
            |c: &CellTrials<'_>| place.iter().all(|p| fulfils(c, p) || fulfils(other, p));
        let baseline = baselines.cells[baselines.index_for(other, may_pair)?];
        Some(Pairing {
            axis,
            baseline,
            other,
        })
    };
    cells_with(value).into_iter().filter_map(pair).collect()
}

impl Trials<'_> {
    /// The comparisons of the study, by comparison, then metric, then the order of the plan.
    pub(crate) fn asked(&self) -> impl Iterator<Item = AskedPair<'_>> {
        let compares = self.study.compare.iter().enumerate();
        compares.flat_map(move |(number, compare)| {
            let pairings = compared(self, compare);
            let each = compare.metrics.iter().cartesian_product(pairings);
            each.map(move |(&metric, pairing)| AskedPair {
                compare,
                number,
                metric,
                pairing,
            })
        })
    }
}

impl<'t> Pairing<'t> {
    fn key(&self, metric: Metric) -> (Metric, [String; 2]) {
        (metric, [self.baseline, self.other].map(|c| c.id.clone()))
    }

    /// The pairing with the two cells exchanged.
    pub(crate) fn turned(self) -> Pairing<'t> {
        Pairing {
            axis: self.axis,
            baseline: self.other,
            other: self.baseline,
        }
    }
}

/// The ratio of two cells in a metric, within blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PairContrast {
    pub(crate) metric: Metric,
    /// The mean log ratio of the other cell to the baseline, with the variance between rounds.
    pub(crate) location: Location,
    pub(crate) interval: Interval,
    /// Two-sided and not corrected.
    pub(crate) p: f64,
    /// The same by this run's own rounds alone.
    pub(crate) within: Location,
    pub(crate) within_interval: Interval,
    /// The variance between rounds of that mean.
    pub(crate) between: BetweenRounds,
}

impl Uncertain {
    /// The ratio of which this is the logarithm.
    pub(crate) fn ratio_at(log: &Location, level: f64) -> Option<Uncertain> {
        Some(Uncertain::ratio(*log, log.interval(level)?))
    }

    fn ratio(log: Location, interval: Interval) -> Uncertain {
        Uncertain {
            value: exp(log.value),
            low: exp(interval.low),
            high: exp(interval.high),
        }
    }
}

/// A comparison of the study without a verdict.
pub(crate) struct Comparison<'t> {
    pub(crate) asked: AskedPair<'t>,
    pub(crate) contrast: PairContrast,
    /// The same by the first attempts at blocks that were measured again; none where these have too few.
    pub(crate) by_first_attempts: Option<PairContrast>,
}

/// Ratios by metric, baseline and other cell; none of pairs with too few blocks.
type Contrasts = HashMap<(Metric, [String; 2]), Option<PairContrast>>;

/// The comparisons of a run, each made once.
pub(crate) struct Comparisons<'t> {
    trials: &'t Trials<'t>,
    /// Every comparison of the study with at least three blocks, in its order.
    pub(crate) of_study: Vec<Comparison<'t>>,
    /// Their ratios, and those that speed-ups, claims and advice add when they first use them.
    contrasts: RefCell<Contrasts>,
}

impl<'t> Comparisons<'t> {
    /// The comparisons of a run, of which some blocks may have first attempts that do not count.
    pub(crate) fn new(trials: &'t Trials<'t>, first: Option<&Trials<'_>>) -> Comparisons<'t> {
        let of_study = trials.comparisons(first, |_| true);
        let contrast = |c: &Comparison<'_>| (c.pairing().key(c.metric()), Some(c.contrast));
        Comparisons {
            trials,
            contrasts: RefCell::new(of_study.iter().map(contrast).collect()),
            of_study,
        }
    }

    /// The ratio of two cells in a metric; none of fewer than three blocks.
    pub(crate) fn contrast(&self, pairing: &Pairing<'_>, metric: Metric) -> Option<PairContrast> {
        let mut contrasts = self.contrasts.borrow_mut();
        *contrasts
            .entry(pairing.key(metric))
            .or_insert_with(|| self.trials.contrast(pairing, metric))
    }
}

impl<'t> Comparison<'t> {
    pub(crate) fn metric(&self) -> Metric {
        self.asked.metric
    }

    pub(crate) fn pairing(&self) -> &Pairing<'t> {
        &self.asked.pairing
    }

    /// Returns true if it is judged, in the first metric of its comparison.
    pub(crate) fn is_first(&self) -> bool {
        self.asked.is_in_main_metric() && self.is_judged()
    }

    pub(crate) fn is_judged(&self) -> bool {
        self.asked.family().rate().is_some()
    }

    pub(crate) fn blocks(&self) -> usize {
        self.contrast.within.count
    }

    /// Half the width of its interval within the run's rounds, as a share.
    pub(crate) fn half_width(&self) -> f64 {
        as_share(self.contrast.within_interval.half_width())
    }
}

/// The location of log ratios within a run's rounds, with a variance that is moderated by those of
/// other comparisons.
pub(crate) fn located(
    rounds: &[Vec<f64>],
    locate: fn(&[f64]) -> Option<Location>,
    by: Option<&Moderation>,
) -> Option<Location> {
    let own = match rounds {
        [one] => locate(one)?,
        several => mean_of_rounds(several, locate)?.0,
    };
    let enough = Some(own).filter(|l| l.count >= FEWEST)?;
    Some(by.map_or(enough, |by| by.moderate(enough)))
}

/// The estimator of a measure's log ratios: of the maximum the mean.
fn locator(measure: Measure) -> fn(&[f64]) -> Option<Location> {
    if is_extreme(measure) {
        student_mean
    } else {
        trimmed_mean
    }
}

/// The mean log ratio of some pairs with the errors of the interrupts on idle CPUs in the costs of their
/// cells. Each is one number for all blocks, so that the variance between blocks does not include it.
pub(crate) fn with_interrupts(
    location: Location,
    pairings: &[Pairing<'_>],
    metric: Metric,
) -> Location {
    let charged = pairings
        .iter()
        .flat_map(|p| [p.baseline, p.other])
        .filter_map(|c| c.outside.charged())
        .filter(|_| holds_interrupts(metric));
    charged.map(log_of_one_more).fold(location, |sum, share| {
        let standard_error = share.standard_error / pairings.len() as f64;
        with_error(
            sum,
            &Location {
                standard_error,
                ..share
            },
        )
    })
}

/// With the interval and the p value of Student's distribution.
fn tested(location: Location) -> Option<TestedLocation> {
    Some(TestedLocation {
        location,
        interval: location.interval(LEVEL)?,
        p: location.p_value(0.0)?,
    })
}

impl PairContrast {
    /// A pair in a metric by the run's own rounds alone; none where fewer than three blocks have both. Its
    /// ratio is the trimmed mean over blocks, with a variance that is moderated by the run's other
    /// comparisons in that metric; for a quantile of the tail the ratio of the quantiles of all trials; for
    /// the maximum the mean, since extreme trials are its subject.
    fn within_rounds(
        pairing: &Pairing<'_>,
        metric: Metric,
        moderations: &Moderations,
    ) -> Option<PairContrast> {
        let measure = metric.measure;
        let TestedLocation {
            location,
            interval,
            p,
        } = if let Some(share) = tail_share(measure) {
            let of_block =
                |block: &u32| [pairing.other, pairing.baseline].map(|c| c.spread(*block));
            let blocks: Vec<_> = (pairing.baseline.by_block.keys().map(of_block))
                .filter(|b| b.iter().all(|t| !t.is_empty()))
                .collect();
            tail_ratio(&blocks, share, LEVEL)?
        } else {
            let rounds = pairing.log_ratios_by_round(metric);
            let location = located(&rounds, locator(measure), moderations.get(&metric))?;
            tested(with_interrupts(
                location,
                std::slice::from_ref(pairing),
                metric,
            ))?
        };
        Some(PairContrast {
            metric,
            location,
            interval,
            p,
            within: location,
            within_interval: interval,
            between: BetweenRounds::NONE,
        })
    }

    /// The same with a variance between rounds.
    fn with_rounds(self, between: BetweenRounds, rounds: usize) -> Option<PairContrast> {
        let TestedLocation {
            location,
            interval,
            p,
        } = if tail_share(self.metric.measure).is_some() {
            let within = TestedLocation {
                location: self.within,
                interval: self.within_interval,
                p: self.p,
            };
            tail_with_rounds(within, (between, rounds), LEVEL)?
        } else {
            tested(self.within.with_rounds(between, rounds))?
        };
        Some(PairContrast {
            location,
            interval,
            p,
            between: BetweenRounds {
                variance: between.variance / rounds as f64,
                ..between
            },
            ..self
        })
    }

    /// The variances of its log ratios.
    pub(crate) fn noise(&self) -> RatioVariation {
        RatioVariation {
            deviation: self.within.deviation(),
            known: self.within.replicates(),
            between: self.between,
        }
    }

    pub(crate) fn ratio(&self) -> Uncertain {
        Uncertain::ratio(self.location, self.interval)
    }
}

/// The prior of the variance of log ratios, by metric.
pub(crate) fn moderations(of: impl IntoIterator<Item = (Metric, Location)>) -> Moderations {
    let by_metric = by_key(of).into_iter();
    by_metric
        .filter_map(|(metric, all)| Some((metric, Moderation::fit(&all)?)))
        .collect()
}

impl Trials<'_> {
    /// The comparisons of the study that fulfil a condition and have at least three blocks, in its order.
    pub(crate) fn comparisons(
        &self,
        first: Option<&Trials<'_>>,
        is_wanted: impl Fn(&AskedPair<'_>) -> bool,
    ) -> Vec<Comparison<'_>> {
        let key = |asked: &AskedPair<'_>| {
            let Pairing {
                axis,
                baseline,
                other,
            } = asked.pairing;
            (asked.metric, other.id.clone(), baseline.cell.value(axis))
        };
        self.asked()
            .filter(is_wanted)
            .unique_by(key)
            .filter_map(|asked| {
                let contrast = self.contrast(&asked.pairing, asked.metric)?;
                let by_first_attempts = match first {
                    Some(first) => asked.within(first),
                    None => Some(contrast),
                };
                Some(Comparison {
                    asked,
                    contrast,
                    by_first_attempts,
                })
            })
            .collect()
    }

    /// Two cells in a metric, with a variance between rounds; none of fewer than three blocks.
    pub(crate) fn contrast(&self, pairing: &Pairing<'_>, metric: Metric) -> Option<PairContrast> {
        let within = PairContrast::within_rounds(pairing, metric, self.moderations())?;
        within.with_rounds(self.between_rounds(metric, pairing), pairing.rounds())
    }

    /// The priors of the variance by metric, from every comparison of the study with at least three blocks.
    pub(crate) fn moderations(&self) -> &Moderations {
        self.moderations.get_or_init(|| {
            let mut seen = BTreeSet::new();
            let mut locations = Vec::new();
            for asked in self.asked().filter(|a| is_trimmed(a.metric.measure)) {
                let (pairing, metric) = (asked.pairing, asked.metric);
                if seen.insert((&pairing.baseline.id, &pairing.other.id, metric)) {
                    let own = located(&pairing.log_ratios_by_round(metric), trimmed_mean, None);
                    locations.extend(own.map(|location| (metric, location)));
                }
            }
            moderations(locations)
        })
    }
}

impl Trials<'_> {
    /// The log ratio of two cells in one metric less that in another, block by block, so that
    /// disturbances of both metrics cancel. It has the variances between rounds of both.
    pub(crate) fn relative_contrast(
        &self,
        pairing: &Pairing<'_>,
        metrics: [Metric; 2],
    ) -> Option<Location> {
        let [first, second] = metrics.map(|m| pairing.log_ratios_by_block(m));
        let by_block: BTreeMap<u32, f64> = first.into_iter().collect();
        let logs = second
            .into_iter()
            .filter_map(|(block, log)| Some((block, by_block.get(&block)? - log)));
        let rounds = pairing.by_round(logs);
        let within = located(&rounds, trimmed_mean, None)?;
        let between_rounds = metrics.map(|m| self.between_rounds(m, pairing));
        let with = |l: Location, between| l.with_rounds(between, rounds.len());
        Some(between_rounds.into_iter().fold(within, with))
    }
}

impl CellTrials<'_> {
    /// The cell's twin over the cell itself, in the blocks of the run; none of fewer than three, or
    /// where one has a zero.
    pub(crate) fn twin_contrast(&self, metric: Metric) -> Option<Location> {
        let both = self.by_block.iter().filter_map(|(block, own)| {
            let twin = self.twin.get(block)?.value(metric)?;
            Some(log_ratio(twin, own.value(metric)?))
        });
        let logs: Vec<f64> = both.collect();
        // A zero on either side has no ratio, and leaving it out would bend the rest.
        if logs.len() < FEWEST || logs.iter().any(|l| !l.is_finite()) {
            return None;
        }
        trimmed_mean(&logs)
    }
}

/// The ratio of two quantities that were measured apart, by the ends of their intervals, which is
/// conservative.
pub(crate) fn ratio_by_ends(above: Uncertain, below: Uncertain) -> Uncertain {
    Uncertain {
        value: above.value / below.value,
        low: above.low / below.high,
        high: above.high / below.low,
    }
}

fn log_ratio(above: f64, below: f64) -> f64 {
    (above / below).ln()
}

impl Pairing<'_> {
    /// The estimates of a pair in each round of the run by itself; none for quantiles of the tail.
    pub(crate) fn round_estimates(&self, metric: Metric) -> Option<Vec<RoundEstimate>> {
        let rounds = self.log_ratios_by_round(metric);
        let is_located = tail_share(metric.measure).is_none();
        is_located
            .then(|| mean_of_rounds(&rounds, locator(metric.measure)))?
            .map(|(_, estimates)| estimates)
    }

    /// The log ratios by round; a run without rounds has one.
    pub(crate) fn log_ratios_by_round(&self, metric: Metric) -> Vec<Vec<f64>> {
        self.by_round(self.log_ratios_by_block(metric))
    }

    pub(crate) fn by_round(&self, values: impl IntoIterator<Item = (u32, f64)>) -> Vec<Vec<f64>> {
        let in_rounds = values
            .into_iter()
            .map(|(block, value)| (self.round_of(block), value));
        by_key(in_rounds).into_values().collect()
    }

    /// The number of rounds in which both cells were measured.
    pub(crate) fn rounds(&self) -> usize {
        let has_other = |block: &&u32| self.other.by_block.contains_key(*block);
        let blocks = self.baseline.by_block.keys().filter(has_other);
        blocks.map(|b| self.round_of(*b)).unique().count().max(1)
    }

    pub(crate) fn round_of(&self, block: u32) -> u32 {
        self.baseline.manifest.round_of(block)
    }

    /// The log ratios of the other cell's metric to the baseline's, one for each block that has both. There
    /// are none if any value is zero: leaving out zeros would bias the others.
    ///
    /// The value of a cell with a twin is the mean of both on a log scale. They are the same measurement,
    /// so that with equal noise the variance of the ratio is smaller by a quarter (1 + 1/2 instead of
    /// 1 + 1). A disturbance of the whole block still cancels.
    pub(crate) fn log_ratios_by_block(&self, metric: Metric) -> Vec<(u32, f64)> {
        let mut logs = Vec::with_capacity(self.baseline.by_block.len());
        for block in self.baseline.by_block.keys() {
            let known = [self.baseline, self.other].map(|cell| cell.known(*block, metric));
            let [Some(below), Some(above)] = known.each_ref().map(|values| block_value(values))
            else {
                continue;
            };
            if known.iter().flatten().any(|v| *v <= 0.0) {
                return Vec::new();
            }
            logs.push((*block, log_ratio(above, below)));
        }
        logs.retain(|(_, l)| l.is_finite());
        logs
    }
}
