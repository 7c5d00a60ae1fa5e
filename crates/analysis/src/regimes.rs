//! Cells whose trials fall into two groups, and the reading of the trials that parts the groups.

use std::collections::BTreeMap;

use bytecost_spec::{Counter, Measure, Metric};
use bytecost_stats::{mean, median, quantile, variance};
use itertools::Itertools as _;

use crate::comparison::Pairing;
use crate::grouping::by_key;
use crate::logs::exp;
use crate::measures::MeasureKind;
use crate::result::{PartedBy, PartingReading, TrialGroup, TwoGroups};
use crate::trials::{CellTrials, Trials, block_value};
use crate::value::Trial;

/// The fewest trials or blocks of which groups are formed.
const FEWEST: usize = 12;
/// The least share of the trials in a group; fewer are outliers, which a trimmed mean leaves out.
const LEAST_SHARE: f64 = 0.15;
/// The least ratio between the groups.
const APART: f64 = 1.25;
/// Deviation of the log ratios, as a share of that of the cells' trials, up to which both cells
/// change groups in the same blocks. Cells that change groups independently have 1 to 1.4.
const COLLAPSED: f64 = 0.5;

/// Measures that follow from each other for trials of one cell.
const SAME_QUANTITY: [&[Measure]; 2] = [
    &[Measure::CpuSPerGb, Measure::CpuNsPerMessage],
    &[
        Measure::ThroughputGbitPerS,
        Measure::MessagesPerS,
        Measure::MsPerMessage,
    ],
];

/// A row of the table of readings by which two groups may be parted.
struct PartingRow {
    reading: PartingReading,
    value: fn(&Trial<'_>) -> Option<f64>,
    /// The least difference between the medians of the groups that matters.
    least: f64,
}

const fn row(
    reading: PartingReading,
    least: f64,
    value: fn(&Trial<'_>) -> Option<f64>,
) -> PartingRow {
    PartingRow {
        reading,
        value,
        least,
    }
}

/// In descending order of their likelihood, by which ties are decided.
const PARTING_READINGS: [PartingRow; 10] = [
    row(PartingReading::SegmentsPerMessage, 0.02, |t| {
        t.sent_over(Counter::TcpDataSegments, Counter::Messages)
    }),
    row(PartingReading::DelayedAcksPerMessage, 0.02, |t| {
        t.value(Metric::both(Measure::DelayedAcksPerMessage))
    }),
    row(PartingReading::ContextSwitchesPerMessage, 0.02, |t| {
        t.value(Metric::both(Measure::ContextSwitchesPerMessage))
    }),
    row(PartingReading::CallsPerMessage, 0.02, |t| {
        t.value(Metric::both(Measure::CallsPerMessage))
    }),
    row(PartingReading::PageFaultsPerMessage, 0.02, |t| {
        t.value(Metric::both(Measure::PageFaultsPerMessage))
    }),
    row(PartingReading::CopiedShare, 0.02, |t| {
        t.value(Metric::both(Measure::CopiedShare))
    }),
    row(PartingReading::CoreToCoreNs, 5.0, |t| {
        let before = t.of_all(Counter::CoreToCoreBeforeNs)?;
        Some((before * t.of_all(Counter::CoreToCoreAfterNs)?).sqrt())
    }),
    row(PartingReading::MigrationsPerS, 1.0, |t| {
        t.value(Metric::both(Measure::MigrationsPerS))
    }),
    row(PartingReading::NeighbourShare, 0.02, |t| {
        t.value(Metric::both(Measure::NeighbourShare))
    }),
    row(PartingReading::StealShare, 0.02, |t| {
        t.value(Metric::both(Measure::StealShare))
    }),
];
/// The least probability that a value of one group is larger than one of the other.
const CLEAR: f64 = 0.95;
/// Standard errors of the rank sum between the groups: at most 1 in 20 cells without a difference
/// has such a reading, over all of them.
const RANK_SUM_ERRORS: f64 = 2.8;

/// The groups of each cell in compared costs, rates and latencies, and in metrics that follow from
/// them.
pub(crate) fn groups_by_cell(trials: &Trials<'_>) -> BTreeMap<String, Vec<TwoGroups>> {
    let compares = trials.study.compare.iter();
    let groups = compares
        .flat_map(|c| c.metrics.iter().copied())
        .flat_map(|metric| {
            let same = SAME_QUANTITY
                .iter()
                .find(|measures| measures.contains(&metric.measure));
            let others = same.copied().into_iter().flatten().copied();
            let measures = others.chain([metric.measure]).unique();
            measures.map(move |measure| Metric::new(measure, metric.side))
        })
        .filter(|m| is_of_cost(m.measure))
        .sorted_unstable()
        .dedup()
        .flat_map(|metric| metric_groups(trials, metric));
    by_key(groups)
}

/// Returns true for CPU time, rates and latencies.
fn is_of_cost(measure: Measure) -> bool {
    let is_number =
        MeasureKind::from(measure) == MeasureKind::Number && measure != Measure::CpuUtilization;
    !is_number && measure != Measure::RoundTripNs
}

struct TimedTrial<'t, 'a> {
    block: u32,
    trial: &'t Trial<'a>,
    log: f64,
}

/// The groups of cells in a metric, after the median of each block is subtracted. Trials of twins count.
fn metric_groups(trials: &Trials<'_>, metric: Metric) -> Vec<(String, TwoGroups)> {
    let cells = trials
        .measured()
        .map(|c| (c, trials_of(c, metric)))
        .filter(|(_, of_cell)| !of_cell.is_empty())
        .collect_vec();
    let median_log = |of_cell: &[TimedTrial<'_, '_>]| {
        let logs = of_cell.iter().map(|t| t.log).collect_vec();
        median(&logs).unwrap_or_default()
    };
    let deviations = cells.iter().flat_map(|(_, of_cell)| {
        let middle = median_log(of_cell);
        of_cell.iter().map(move |t| (t.block, t.log - middle))
    });
    let blocks = by_key(deviations);
    let several = cells.len() > 2;
    let common = |block: &u32| median(&blocks[block]).filter(|_| several).unwrap_or(0.0);
    let found = cells.iter().filter_map(|(cell, of_cell)| {
        let sorted = of_cell
            .iter()
            .map(|t| (t.log - common(&t.block), t.trial))
            .sorted_by(|a, b| a.0.total_cmp(&b.0))
            .collect_vec();
        let all_logs = sorted.iter().map(|(log, _)| *log).collect_vec();
        let (low, high) = sorted.split_at(parted(&all_logs)?);
        let group = |of: &[(f64, &Trial<'_>)]| {
            let logs = of.iter().map(|(log, _)| *log).collect_vec();
            Some(TrialGroup {
                share: of.len() as f64 / of_cell.len() as f64,
                value: exp(mean(&logs)?),
                low: exp(quantile(&logs, 0.1)?),
                high: exp(quantile(&logs, 0.9)?),
            })
        };
        let groups = TwoGroups {
            metric,
            lower: group(low)?,
            upper: group(high)?,
            parted_by: parted_by([low, high].map(|of| of.iter().map(|(_, t)| *t).collect_vec())),
        };
        (groups.factor() >= APART).then(|| (cell.id.clone(), groups))
    });
    found.collect()
}

fn trials_of<'t, 'a>(cell: &'t CellTrials<'a>, metric: Metric) -> Vec<TimedTrial<'t, 'a>> {
    let trials = cell.by_block.keys().flat_map(|block| {
        cell.both(*block).filter_map(|trial| {
            let value = trial.value(metric).filter(|v| *v > 0.0)?;
            Some(TimedTrial {
                block: *block,
                trial,
                log: value.ln(),
            })
        })
    });
    trials.collect()
}

/// The size of the lower of two groups into which sorted values fall; none where they are one group.
/// The distance must be so many deviations within the groups that values of one group, normal or with
/// heavy tails, are parted in fewer than one of a thousand cells, and exponential ones in one of a
/// hundred.
fn parted(sorted: &[f64]) -> Option<usize> {
    let count = sorted.len();
    let least = ((LEAST_SHARE * count as f64).ceil() as usize).max(3);
    if count < FEWEST {
        return None;
    }
    let apart = |at: usize| {
        let (low, high) = sorted.split_at(at);
        let means = [low, high].map(|values| mean(values).unwrap_or_default());
        let squares = |values: &[f64], mean: f64| values.iter().map(|v| (v - mean).powi(2)).sum();
        let within: [f64; 2] = [squares(low, means[0]), squares(high, means[1])];
        let within = (within[0] + within[1]) / (count - 2) as f64;
        (means[1] - means[0]) / within.sqrt().max(1e-9)
    };
    let splits = (least..=count - least).map(|at| (at, apart(at)));
    let (at, most) = splits.max_by(|a, b| a.1.total_cmp(&b.1))?;
    (most >= 4.0 + 30.0 / count as f64).then_some(at)
}

/// The reading that parts two groups most clearly: values of one group are nearly always larger than
/// those of the other, and most of them do not overlap. None where no reading does.
fn parted_by([lower, upper]: [Vec<&Trial<'_>>; 2]) -> Option<PartedBy> {
    let parting = PARTING_READINGS.iter().filter_map(|row| {
        let read =
            |trials: &[&Trial<'_>]| trials.iter().filter_map(|t| (row.value)(t)).collect_vec();
        let [low, high] = [read(&lower), read(&upper)];
        let is_complete = low.len() == lower.len() && high.len() == upper.len();
        let ranges = [&low, &high].map(|v| Some([quantile(v, 0.1)?, quantile(v, 0.9)?]));
        let [Some(low_range), Some(high_range)] = ranges else {
            return None;
        };
        let [a, b] = [median(&low)?, median(&high)?];
        let matters = (a - b).abs() >= row.least && a.max(b) >= APART * a.min(b);
        let overlap = low_range[0] <= high_range[1] && high_range[0] <= low_range[1];
        let clear = clearness(&low, &high).filter(|_| is_complete && matters && !overlap)?;
        let parted_by = PartedBy {
            reading: row.reading,
            lower: low_range,
            upper: high_range,
        };
        Some((clear, parted_by))
    });
    // Of equals the first.
    let clearest = parting.reduce(|best, next| if next.0 > best.0 { next } else { best });
    clearest.map(|(_, parted_by)| parted_by)
}

/// The probability that a value of the larger group exceeds one of the other (Mann and Whitney, 1947);
/// none where it is not significant.
fn clearness(low: &[f64], high: &[f64]) -> Option<f64> {
    let pairs = (low.len() * high.len()) as f64;
    let above = low
        .iter()
        .cartesian_product(high)
        .map(|(a, b)| match a.total_cmp(b) {
            std::cmp::Ordering::Less => 1.0,
            std::cmp::Ordering::Equal => 0.5,
            std::cmp::Ordering::Greater => 0.0,
        });
    let rank_sum: f64 = above.sum();
    let probability = (rank_sum / pairs).max(1.0 - rank_sum / pairs);
    let error = (pairs * (low.len() + high.len() + 1) as f64 / 12.0).sqrt();
    let errors = (rank_sum - pairs / 2.0).abs() / error;
    (probability >= CLEAR && errors >= RANK_SUM_ERRORS).then_some(probability)
}

/// Returns true if the trials of two cells change groups in the same blocks, as where the machine
/// wakes threads late for a while: their ratios, of which a finding is made, then vary clearly less
/// than the trials, and fall into no two groups. Of fewer blocks that is not known.
pub(crate) fn change_together(pair: &Pairing<'_>, metric: Metric) -> bool {
    let by_block = pair.log_ratios_by_block(metric);
    let deviation = |values: &[f64]| variance(values).map(f64::sqrt);
    let of_cell = |cell: &CellTrials<'_>| {
        let values = by_block.iter().filter_map(|(block, _)| {
            let known = cell.known(*block, metric);
            block_value(&known).map(f64::ln)
        });
        deviation(&values.collect_vec())
    };
    let [Some(baseline), Some(other)] = [pair.baseline, pair.other].map(of_cell) else {
        return false;
    };
    let ratios = by_block
        .into_iter()
        .map(|(_, log)| log)
        .sorted_by(f64::total_cmp)
        .collect_vec();
    let is_collapsed = deviation(&ratios).is_some_and(|d| d <= COLLAPSED * baseline.max(other));
    let groups_apart = parted(&ratios).is_some_and(|at| {
        let (low, high) = ratios.split_at(at);
        let distance = mean(high)
            .zip(mean(low))
            .map_or(0.0, |(high, low)| high - low);
        distance >= APART.ln()
    });
    ratios.len() >= FEWEST && is_collapsed && !groups_apart
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

    #[test]
    fn chance_parts_two_groups_seldom() {
        let mut g = Generator::new(8);
        let mut values = |count: usize| (0..count).map(|_| g.normal()).collect_vec();
        for (low, high) in [(6, 6), (4, 17), (20, 20)] {
            let clear = (0..5000).filter(|_| clearness(&values(low), &values(high)).is_some());
            let share = clear.count() as f64 / 5000.0;
            assert!(
                PARTING_READINGS.len() as f64 * share <= 0.06,
                "{low} {high} {share}"
            );
        }
        assert_eq!(clearness(&[1.0; 8], &[2.0; 8]), Some(1.0));
    }
}
