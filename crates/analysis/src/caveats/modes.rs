//! Cells whose trials fall into two groups.

use std::ops::Range;

use bytecost_spec::{Measure, Metric, units};
use bytecost_stats::median;
use itertools::Itertools as _;

use super::{Caveat, caveat, ids, in_cells, is_cpu_time, is_of_time};
use crate::cells::exp;
use crate::grid;
use crate::grouping::by_key;
use crate::pairing::Pairing;
use crate::phrases::{self, percent};
use crate::trials::{CellTrials, of_block};
use crate::view::View;

/// Fewest blocks over which groups are looked for.
const FEWEST: usize = 12;
/// Least share of the trials that is a group; fewer are outliers, which a trimmed mean leaves out.
const LEAST_SHARE: f64 = 0.15;
/// How far the groups lie apart at least, as a factor.
const APART: f64 = 1.25;
/// From which factor on neither stands for the other, and no interval of one number holds.
const FAR_APART: f64 = 1.5;
const MOST_SHOWN: usize = 3;

struct Modes<'v> {
    cell: &'v CellTrials<'v>,
    metric: Metric,
    /// Their means on a log scale, taken back.
    values: [f64; 2],
    /// The share of the trials in the upper one.
    upper: f64,
}

fn mean_of(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Where sorted values part into two groups: how many are in the lower one. The groups must lie many
/// deviations within them apart; so far that values of one group, normal or with heavy tails, are
/// parted in fewer than one of a thousand cells, and exponential ones in one of a hundred.
fn parted(sorted: &[f64]) -> Option<usize> {
    let count = sorted.len();
    let least = ((LEAST_SHARE * count as f64).ceil() as usize).max(3);
    if count < FEWEST {
        return None;
    }
    let apart = |at: usize| {
        let (low, high) = sorted.split_at(at);
        let means = [low, high].map(mean_of);
        let squares = |of: &[f64], mean: f64| of.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
        let within = (squares(low, means[0]) + squares(high, means[1])) / (count - 2) as f64;
        (means[1] - means[0]) / within.sqrt().max(1e-9)
    };
    let all = (least..=count - least).map(|at| (at, apart(at)));
    let (at, most) = all.max_by(|a, b| a.1.total_cmp(&b.1))?;
    (most >= 4.0 + 30.0 / count as f64).then_some(at)
}

/// The cells of a metric, without what whole blocks have in common.
fn of_metric<'v>(view: &View<'v>, metric: Metric) -> Vec<Modes<'v>> {
    let of_cell = |cell: &'v CellTrials<'v>| {
        let known = cell.by_block.keys().filter_map(|b| {
            let value = of_block(&cell.known(*b, metric)).filter(|v| *v > 0.0)?;
            Some((*b, value.ln()))
        });
        let logs = known.collect_vec();
        let middle = median(&logs.iter().map(|(_, log)| *log).collect_vec())?;
        Some((cell, middle, logs))
    };
    let cells = view.measured().filter_map(of_cell).collect_vec();
    let blocks =
        by_key(cells.iter().flat_map(|(_, middle, logs)| {
            logs.iter().map(move |(block, log)| (*block, log - middle))
        }));
    let several = cells.len() > 2;
    let common = |block: &u32| median(&blocks[block]).filter(|_| several).unwrap_or(0.0);
    let found = cells.iter().filter_map(|(cell, _, logs)| {
        let own = logs.iter().map(|(b, log)| log - common(b));
        let own = own.sorted_unstable_by(f64::total_cmp).collect_vec();
        let (low, high) = own.split_at(parted(&own)?);
        let values = [low, high].map(|of| exp(mean_of(of)));
        Some(Modes {
            cell,
            metric,
            values,
            upper: high.len() as f64 / own.len() as f64,
        })
    });
    found.collect()
}

/// Whether the trials of two cells change groups in the same blocks, as where the machine wakes
/// threads late for a while: then their ratios, of which a finding is made, are in one group.
pub(super) fn shared(pair: &Pairing<'_, '_>, metric: Metric) -> bool {
    let mut logs = pair.log_ratios(metric);
    logs.sort_unstable_by(f64::total_cmp);
    // Of fewer blocks that is not known.
    let distance = |at| {
        let (low, high) = logs.split_at(at);
        mean_of(high) - mean_of(low)
    };
    logs.len() >= FEWEST && parted(&logs).is_none_or(|at| distance(at) < FAR_APART.ln())
}

pub(super) fn near(view: &View<'_>) -> Option<Caveat> {
    told(view, |m| is_cpu_time(m) || is_of_time(m), APART..FAR_APART)
}

/// Groups of such measures that no one number stands for.
pub(super) fn far(view: &View<'_>, of: fn(Measure) -> bool) -> Option<Caveat> {
    told(view, of, FAR_APART..f64::INFINITY)
}

/// Of those of the compared metrics that are asked for, so far apart.
fn told(view: &View<'_>, of: fn(Measure) -> bool, apart: Range<f64>) -> Option<Caveat> {
    let compares = view.input.manifest.study.compare.iter();
    let metrics = compares.flat_map(|c| c.metrics.iter().copied());
    let metrics = metrics.filter(|m| of(m.measure)).sorted_unstable().dedup();
    let modes = metrics.flat_map(|m| of_metric(view, m));
    let modes = modes.filter(|m| apart.contains(&(m.values[1] / m.values[0])));
    let modes = modes.collect_vec();
    let cells = modes.iter().map(|m| m.cell);
    let cells = ids(cells.dedup_by(|a, b| a.id == b.id));
    let varied = grid::varied(view.known.cells.iter().map(|c| &c.cell));
    let shown = modes.iter().take(MOST_SHOWN).map(|m| {
        let unit = m.metric.measure.row().unit;
        let [low, high] = m.values.map(|v| format!("{} {unit}", units::number(v)));
        let [fewer, more] = [1.0 - m.upper, m.upper].map(percent);
        let place = phrases::circumstances(&grid::coordinates(m.cell.cell, &varied));
        let noun = view.words(m.metric);
        format!("{place}, {noun}: {low} in {fewer} of the trials, {high} in {more}")
    });
    let more = modes.len().saturating_sub(MOST_SHOWN);
    let more = (more > 0).then(|| format!("{more} more"));
    let place = in_cells(cells.len());
    caveat(
        format!("The trials fall into two groups {place}. No single number stands for both."),
        shown.chain(more).join("; "),
        "`--placement pinned`, where it was free, so that each end stays on its CPU; samples.csv has the trials",
        cells,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytecost_stats::Generator;

    #[test]
    fn two_groups_are_parted_and_one_is_not() {
        let mut g = Generator::new(5);
        let mut share = |count: usize, apart: f64| {
            let found = (0..2000).filter(|_| {
                let mut values: Vec<f64> = (0..count)
                    .map(|_| g.normal() + if g.below(10) < 4 { apart } else { 0.0 })
                    .collect();
                values.sort_unstable_by(f64::total_cmp);
                parted(&values).is_some()
            });
            found.count() as f64 / 2000.0
        };
        for count in [12, 21, 40] {
            assert!(share(count, 0.0) <= 0.003, "{count}");
        }
        assert!(share(21, 8.0) > 0.9);
    }
}
