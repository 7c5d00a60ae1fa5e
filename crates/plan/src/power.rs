//! The power of a plan: the effects that a number of blocks detects in primary comparisons.

use std::collections::BTreeSet;

use bytecost_spec::Study;
use bytecost_spec::axis::CellFacts;
use bytecost_spec::manifest::{Expectation, RatioNoise};
use bytecost_spec::study::{ERROR_RATE, Family};
use bytecost_stats::{BetweenRounds, POWER, RatioVariation, Replicates, least};

use crate::candidates::{Candidate, PlanContext, baselines};

/// The largest effect that a comparison must detect: cells are left out if the budget would otherwise
/// pay for so few blocks that not even a factor of 1.5 is detected.
const LARGEST_EFFECT: f64 = 0.5;
/// The number of blocks by which the noise is assumed to be known: so many that it counts as exact.
const KNOWN_BLOCKS: usize = 1000;

/// The primary comparisons of a study's candidates.
pub(crate) struct Primaries {
    pairs: Vec<PrimaryPair>,
}

/// A cell and its baseline, by index, in a primary comparison.
struct PrimaryPair {
    cell: usize,
    baseline: usize,
    /// Number of metrics in which they are compared.
    metrics: u32,
}

impl Primaries {
    pub(crate) fn new(
        candidates: &[Candidate],
        study: &Study,
        context: &PlanContext<'_>,
    ) -> Primaries {
        let mut pairs = Vec::new();
        let baselines = baselines(candidates, study, context);
        for (compare, baseline_of) in study.compare.iter().zip(baselines) {
            for (cell, baseline) in baseline_of.into_iter().enumerate() {
                let facts = CellFacts::new(&candidates[cell].cell, context.survey);
                let is_primary = |metric| compare.family_of(&facts, metric) == Family::Primary;
                let metrics = compare.metrics.iter().filter(|m| is_primary(**m)).count();
                if let (Some(baseline), 1..) = (baseline, metrics) {
                    pairs.push(PrimaryPair {
                        cell,
                        baseline,
                        metrics: metrics as u32,
                    });
                }
            }
        }
        Primaries { pairs }
    }

    /// The number of primary comparisons among these cells, and the indices of the compared cells.
    pub(crate) fn among(&self, indices: &[usize]) -> (u32, BTreeSet<usize>) {
        let kept: BTreeSet<usize> = indices.iter().copied().collect();
        let mut count = 0;
        let mut cells = BTreeSet::new();
        for pair in &self.pairs {
            if kept.contains(&pair.cell) && kept.contains(&pair.baseline) {
                count += pair.metrics;
                cells.extend([pair.cell, pair.baseline]);
            }
        }
        (count, cells)
    }
}

/// The duration of a block, in ms: of all its cells, and of those in primary comparisons.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockLength {
    pub(crate) all_ms: u64,
    pub(crate) primary_ms: u64,
}

/// The power of a study's primary comparisons at a given noise.
#[derive(Clone, Copy)]
pub(crate) struct Power<'p> {
    pub(crate) noise: &'p RatioNoise,
    pub(crate) study: &'p Study,
}

impl Power<'_> {
    /// The fewest blocks that detect [`LARGEST_EFFECT`], at least those of the study.
    pub(crate) fn blocks_least(&self, primaries: u32) -> u32 {
        let least = self.study.blocks_least;
        let detects = |blocks: &u32| self.chance(*blocks, primaries, LARGEST_EFFECT) >= POWER;
        (least..=self.study.blocks_most.max(least))
            .find(detects)
            .unwrap_or(least)
    }

    /// The number of blocks of all cells that fit into a time, within the bounds of the study.
    pub(crate) fn blocks(&self, length: BlockLength, time_ms: u64) -> u32 {
        let least = self.study.blocks_least;
        let fitting = time_ms.checked_div(length.all_ms).unwrap_or(0);
        u32::try_from(fitting)
            .unwrap_or(u32::MAX)
            .clamp(least, self.study.blocks_most.max(least))
    }

    /// Returns true if so many blocks detect the smallest effect of the study with the usual power.
    pub(crate) fn reaches(&self, blocks: u32, primaries: u32) -> bool {
        self.chance(blocks, primaries, self.study.smallest_effect) >= POWER
    }

    /// The effects that so many blocks are expected to detect.
    pub(crate) fn expectation(&self, blocks: u32, primaries: u32) -> Expectation {
        Expectation {
            noise: self.noise.clone(),
            primaries,
            blocks,
            smallest_effect: (primaries > 0)
                .then(|| self.smallest_effect(blocks, primaries))
                .flatten(),
        }
    }

    /// The smallest effect that is detected, as a share in steps of 0.001. It includes the variance between
    /// rounds, which more blocks do not reduce.
    fn smallest_effect(&self, blocks: u32, primaries: u32) -> Option<f64> {
        let between = (self.noise.between).map_or(BetweenRounds::NONE, |between| BetweenRounds {
            variance: between.variance,
            degrees: between.degrees,
        });
        let effect = |thousandths: usize| thousandths as f64 / 1000.0;
        let detects = |n| self.chance_with(blocks, primaries, effect(n), between) >= POWER;
        least(1, 10_000, detects).map(effect)
    }

    /// The probability that a primary comparison detects an effect at its corrected level, without the
    /// variance between rounds.
    fn chance(&self, blocks: u32, primaries: u32, effect: f64) -> f64 {
        self.chance_with(blocks, primaries, effect, BetweenRounds::NONE)
    }

    /// That probability with a variance between rounds.
    fn chance_with(&self, blocks: u32, primaries: u32, effect: f64, between: BetweenRounds) -> f64 {
        let replicates = |count| Replicates {
            count,
            lent: self.noise.lent,
        };
        let alpha = ERROR_RATE / f64::from(primaries.max(1));
        let noise = RatioVariation {
            deviation: self.noise.deviation,
            known: replicates(KNOWN_BLOCKS),
            between,
        };
        let blocks = replicates(blocks as usize);
        noise.power(blocks, effect.ln_1p(), alpha).unwrap_or(0.0)
    }
}
