//! Rounds: summaries of those of a run, and what earlier ones say of the variance between rounds.

use std::collections::{BTreeMap, BTreeSet};

use bytecost_spec::manifest::RoundNoise;
use bytecost_spec::round::MOST_COMPARISONS;
use bytecost_spec::sample::Block;
use bytecost_spec::study::Family;
use bytecost_spec::{RoundComparison, RoundConditions, RoundSummary, Sample};
use bytecost_stats::{FEWEST_ROUNDS, RoundEstimate};
use itertools::Itertools as _;

use crate::comparison::Comparison;
use crate::grouping::by_key;
use crate::input::Input;
use crate::round_noise::{PairRounds, noise_of_metric};
use crate::trials::Trials;

/// The rounds of a run that have the least number of blocks, each by itself, as later runs of the
/// machine are to know them. None of a machine without an id; of a run with several legs those of
/// the last one.
pub fn round_summaries(input: Input<'_>) -> Vec<RoundSummary> {
    let manifest = input.manifest;
    let (host, peer) = (manifest.measurer().host, manifest.peer.as_deref());
    let Some(conditions) = RoundConditions::new(&manifest.study, host, peer) else {
        return Vec::new();
    };
    let first = manifest.legs.last().map_or(0, |leg| leg.first_block);
    let stands = |b: &&Block| b.repeated_because.is_none() && b.block >= first;
    let standing = input.blocks.iter().filter(stands).cloned();
    let rounds = by_key(standing.map(|b| (manifest.round_of(b.block), b)));
    let least = manifest.study.round_blocks_least() as usize;
    let whole = rounds
        .into_iter()
        .filter(|(_, blocks)| blocks.len() >= least);
    let summary = |(round, blocks): (u32, Vec<Block>)| {
        let is_in = |sample: &&Sample| blocks.iter().any(|b| b.block == sample.trial.block);
        let samples: Vec<Sample> = input.samples.iter().filter(is_in).cloned().collect();
        let trials = Trials::of_run(&Input {
            samples: &samples,
            blocks: &blocks,
            failures: &[],
            ..input
        });
        let sum = |time: fn(&Block) -> u64| blocks.iter().map(time).sum::<u64>() as f64;
        RoundSummary {
            run: manifest.id.clone(),
            round,
            started: manifest.started.clone(),
            conditions: conditions.clone(),
            foreign_cpus: sum(|b| b.others_ns) / sum(|b| b.elapsed_ns).max(1.0),
            comparisons: comparisons(&trials),
        }
    };
    let summaries = whole.map(summary);
    summaries.filter(|s| !s.comparisons.is_empty()).collect()
}

/// All comparisons of the study with an interval, primary ones first.
fn comparisons(trials: &Trials<'_>) -> Vec<RoundComparison> {
    let found = trials.comparisons(None, |_| true);
    let summary = |c: &Comparison<'_>| {
        let location = c.contrast.within;
        let is_known = location.standard_error.is_finite() && location.degrees > 0.0;
        is_known.then(|| RoundComparison {
            metric: c.metric(),
            baseline: c.pairing().baseline.id.clone(),
            cell: c.pairing().other.id.clone(),
            log_ratio: location.value,
            variance: location.standard_error.powi(2),
            degrees: location.degrees,
            blocks: u32::try_from(location.count).unwrap_or(u32::MAX),
        })
    };
    found
        .iter()
        .sorted_by_key(|c| c.asked.family() != Family::Primary)
        .filter_map(summary)
        .take(MOST_COMPARISONS)
        .collect()
}

type InRound<'r> = (&'r RoundSummary, &'r RoundComparison);

/// The variance between rounds that earlier rounds under the same conditions let expect, metric by
/// metric; what is assumed of a metric that too few of them have. Rounds in which other programs used
/// the CPUs count where fewer than three others have the metric.
pub fn noise_between_rounds(rounds: &[RoundSummary]) -> RoundNoise {
    let compared = rounds.iter().flat_map(|round| {
        let comparisons = round.comparisons.iter();
        comparisons.map(move |comparison| (comparison.metric, (round, comparison)))
    });
    let mut noise = RoundNoise::ASSUMED;
    let mut runs = BTreeSet::new();
    for (metric, values) in by_key(compared) {
        let values = usable(values);
        if count_of_rounds(&values) < FEWEST_ROUNDS {
            continue;
        }
        runs.extend(values.iter().map(|(round, _)| &round.run));
        let (typical, comparisons) =
            noise_of_metric(metric, by_pair(values), RoundNoise::ASSUMED.assumed);
        noise.metrics.extend(typical);
        noise.comparisons.extend(comparisons);
    }
    let order = rounds.iter().map(|round| &round.run).unique();
    noise.runs = order.filter(|run| runs.contains(run)).cloned().collect();
    noise
}

/// Those of quiet rounds, where these are enough.
fn usable(values: Vec<InRound<'_>>) -> Vec<InRound<'_>> {
    let quiet: Vec<InRound<'_>> = (values.iter().copied())
        .filter(|(round, _)| round.is_quiet())
        .collect();
    if count_of_rounds(&quiet) >= FEWEST_ROUNDS {
        quiet
    } else {
        values
    }
}

fn count_of_rounds(values: &[InRound<'_>]) -> usize {
    let rounds = values.iter().map(|(round, _)| (&round.run, round.round));
    rounds.unique().count()
}

/// The rounds of each pair of cells. The same two the other way round have the opposite ratio.
fn by_pair(values: Vec<InRound<'_>>) -> Vec<PairRounds<'_>> {
    let mut pairs: BTreeMap<[&str; 2], Vec<RoundEstimate>> = BTreeMap::new();
    for (_, comparison) in values {
        let pair = [&*comparison.baseline, &*comparison.cell];
        let turned = [pair[1], pair[0]];
        let (pair, sign) = if pairs.contains_key(&turned) {
            (turned, -1.0)
        } else {
            (pair, 1.0)
        };
        pairs.entry(pair).or_default().push(RoundEstimate {
            value: sign * comparison.log_ratio,
            variance: comparison.variance,
            degrees: comparison.degrees,
        });
    }
    pairs.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    use bytecost_spec::Metric;
    use bytecost_spec::round::MachineKernel;
    use bytecost_stats::Generator;

    fn metric(name: &str) -> Metric {
        name.parse().unwrap()
    }

    fn comparison(name: &str, cells: [&str; 2], log_ratio: f64) -> RoundComparison {
        RoundComparison {
            metric: metric(name),
            baseline: cells[0].to_owned(),
            cell: cells[1].to_owned(),
            log_ratio,
            variance: 1e-6,
            degrees: 20.0,
            blocks: 25,
        }
    }

    fn round(run: usize, foreign_cpus: f64, comparisons: Vec<RoundComparison>) -> RoundSummary {
        RoundSummary {
            run: format!("run-{run}"),
            round: 0,
            started: String::new(),
            conditions: RoundConditions {
                machine: MachineKernel {
                    machine_id_hash: "m".to_owned(),
                    kernel: "k".to_owned(),
                },
                cpus_allowed: vec![0, 1],
                peer: None,
                warmup_ms: 10,
                window_ms: 20,
                design: None,
            },
            foreign_cpus,
            comparisons,
        }
    }

    /// Rounds of eight comparisons that differ by so much between them.
    fn rounds(name: &str, deviation: f64, foreign_cpus: f64, runs: usize) -> Vec<RoundSummary> {
        let mut g = Generator::new(runs as u64);
        let mut comparisons = || {
            let cells = ["b", "c", "d", "e", "f", "g", "h", "i"];
            let each = cells.map(|cell| comparison(name, ["a", cell], deviation * g.normal()));
            each.to_vec()
        };
        (0..runs)
            .map(|run| round(run, foreign_cpus, comparisons()))
            .collect()
    }

    fn deviation(noise: &RoundNoise, name: &str, cell: &str) -> f64 {
        noise.between(metric(name), "a", cell).variance.sqrt()
    }

    const COST: &str = "cpu_s_per_gb";
    const RATE: &str = "throughput_gbit_per_s";

    #[test]
    fn three_rounds_of_a_metric_replace_what_is_assumed_of_it_alone() {
        assert_eq!(
            noise_between_rounds(&rounds(COST, 0.1, 0.0, 2)),
            RoundNoise::ASSUMED
        );
        let noise = noise_between_rounds(&rounds(COST, 0.1, 0.0, 30));
        assert_eq!(noise.runs.len(), 30);
        for cell in ["b", "not in any round"] {
            let found = deviation(&noise, COST, cell);
            assert!((0.06..0.15).contains(&found), "{cell}: {found}");
        }
        assert_eq!(deviation(&noise, RATE, "b"), 0.035);
    }

    #[test]
    fn a_comparison_with_too_few_rounds_has_its_metrics_variance() {
        let mut rounds = rounds(COST, 0.1, 0.0, 20);
        for round in &mut rounds[..2] {
            round.comparisons.push(comparison(COST, ["a", "rare"], 0.0));
        }
        let noise = noise_between_rounds(&rounds);
        let rare = noise.comparisons.iter().find(|c| c.cell == "rare");
        assert!(rare.is_none());
        let typical = noise.metrics[0].between.variance.sqrt();
        assert_eq!(deviation(&noise, COST, "rare"), typical);
    }

    #[test]
    fn disturbed_rounds_count_only_where_fewer_than_three_are_quiet() {
        let disturbed = |runs| {
            let rounds = rounds(COST, 1.0, 0.3, runs).into_iter();
            rounds.map(|r| RoundSummary {
                run: format!("busy-{}", r.run),
                ..r
            })
        };
        let with_quiet = |runs: usize| {
            let quiet = rounds(COST, 0.02, 0.05, runs);
            noise_between_rounds(&quiet.into_iter().chain(disturbed(9)).collect::<Vec<_>>())
        };
        assert!(deviation(&with_quiet(2), COST, "b") > 0.3);
        let noise = with_quiet(3);
        assert!(deviation(&noise, COST, "b") < 0.1);
        assert_eq!(noise.runs, ["run-0", "run-1", "run-2"]);
    }

    #[test]
    fn two_cells_are_the_same_comparison_either_way_round() {
        let turned = |run: usize| {
            let ratio = 0.7 + 0.001 * run as f64;
            let pair = if run.is_multiple_of(2) {
                ["a", "b"]
            } else {
                ["b", "a"]
            };
            let sign = if run.is_multiple_of(2) { 1.0 } else { -1.0 };
            round(run, 0.0, vec![comparison(COST, pair, sign * ratio)])
        };
        let noise = noise_between_rounds(&(0..6).map(turned).collect::<Vec<_>>());
        assert_eq!(
            (noise.comparisons.len(), noise.comparisons[0].rounds),
            (1, 6)
        );
        let assumed = RoundNoise::ASSUMED.assumed.variance.sqrt();
        assert!(deviation(&noise, COST, "b") < assumed);
    }
}
