//! The mean ratio of several pairs of cells.

use bytecost_spec::Metric;
use bytecost_stats::{Location, Moderation, mean, trimmed_mean};
use itertools::Itertools as _;

use crate::comparison::{Pairing, located, with_interrupts};
use crate::confidence::FEWEST;
use crate::grouping::by_key;
use crate::trials::Trials;

/// Several pairs in a metric over the blocks that have them all, so that no pair weighs more in one
/// block than in another.
pub(crate) struct PairsContrast<'v> {
    pub(crate) pairings: Vec<Pairing<'v>>,
    metric: Metric,
    /// For each pair the log ratios of these blocks.
    logs: Vec<Vec<f64>>,
    /// The round of each of these blocks.
    rounds: Vec<u32>,
}

impl<'v> PairsContrast<'v> {
    /// None without a pair, or with fewer than three such blocks.
    pub(crate) fn new(pairings: Vec<Pairing<'v>>, metric: Metric) -> Option<PairsContrast<'v>> {
        let first = *pairings.first()?;
        let log_ratios = pairings.iter().flat_map(|p| p.log_ratios_by_block(metric));
        let mut by_block = by_key(log_ratios);
        by_block.retain(|_, logs| logs.len() == pairings.len());
        let of_pair = |pair: usize| by_block.values().map(|logs| logs[pair]).collect();
        (by_block.len() >= FEWEST).then(|| PairsContrast {
            metric,
            logs: (0..pairings.len()).map(of_pair).collect(),
            rounds: by_block.keys().map(|b| first.round_of(*b)).collect(),
            pairings,
        })
    }

    /// The location of the mean log ratio of all pairs within the run's rounds.
    pub(crate) fn within(&self) -> Option<Location> {
        self.located(&self.means())
    }

    /// The same with a variance between rounds, moderated by other such means.
    pub(crate) fn mean(&self, trials: &Trials<'_>, by: Option<&Moderation>) -> Option<Location> {
        let within = self.within()?;
        let within = by.map_or(within, |by| by.moderate(within));
        let mean = with_interrupts(within, &self.pairings, self.metric);
        let between = trials.between_rounds_of_mean(self.metric, &self.pairings);
        Some(mean.with_rounds(between, self.rounds()))
    }

    /// The deviation of a pair from the mean of all, with the variance between rounds.
    pub(crate) fn deviation(&self, trials: &Trials<'_>, pair: usize) -> Option<Location> {
        let means = self.means().into_iter();
        let own: Vec<f64> = self.logs[pair]
            .iter()
            .zip(means)
            .map(|(l, m)| l - m)
            .collect();
        let pairing = self.pairings[pair];
        let location = with_interrupts(self.located(&own)?, &[pairing], self.metric);
        let between = trials.between_rounds(self.metric, &pairing);
        Some(location.with_rounds(between, self.rounds()))
    }

    fn rounds(&self) -> usize {
        self.rounds.iter().unique().count()
    }

    fn means(&self) -> Vec<f64> {
        let of_block = |block: usize| {
            let logs: Vec<f64> = self.logs.iter().map(|logs| logs[block]).collect();
            mean(&logs).unwrap_or_default()
        };
        (0..self.rounds.len()).map(of_block).collect()
    }

    /// The location of values of the blocks.
    fn located(&self, values: &[f64]) -> Option<Location> {
        let in_rounds = self.rounds.iter().copied().zip(values.iter().copied());
        let by_round: Vec<Vec<f64>> = by_key(in_rounds).into_values().collect();
        located(&by_round, trimmed_mean, None)
    }
}
