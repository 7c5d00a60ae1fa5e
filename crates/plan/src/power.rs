//! What a plan can decide: the effects that so many blocks find in primary comparisons.

use std::collections::BTreeSet;

use bytecost_spec::Study;
use bytecost_spec::axis::CellFacts;
use bytecost_spec::manifest::{Expectation, RatioNoise};
use bytecost_spec::study::{ERROR_RATE, Family};
use bytecost_stats::{BetweenRounds, POWER, RatioVariation, Replicates, least};

use crate::candidates::{Candidate, Norm, baselines};

/// The largest effect that a comparison must find: cells are left out rather than measured in so
/// few blocks that not even half as much again is found.
const LARGEST_EFFECT: f64 = 0.5;
/// Blocks of which a noise is taken to be known: as good as certain.
const KNOWN_BLOCKS: usize = 1000;

/// The comparisons of a study that are primary, among its candidates.
pub(crate) struct Primaries {
    /// The places of a cell and of its baseline, and in how many metrics they are compared.
    pairs: Vec<(usize, usize, u32)>,
}

impl Primaries {
    pub(crate) fn of(candidates: &[Candidate], study: &Study, norm: &Norm<'_>) -> Primaries {
        let mut pairs = Vec::new();
        let baselines = baselines(candidates, study, norm);
        for (compare, of) in study.compare.iter().zip(baselines) {
            for (place, baseline) in of.into_iter().enumerate() {
                let cell = &candidates[place].cell;
                let facts = CellFacts::of(cell, norm.survey);
                let is_primary = |metric| compare.family_of(&facts, metric) == Family::Primary;
                let metrics = compare.metrics.iter().filter(|m| is_primary(**m)).count();
                if let (Some(baseline), 1..) = (baseline, metrics) {
                    pairs.push((place, baseline, metrics as u32));
                }
            }
        }
        Primaries { pairs }
    }

    /// How many there are where cells are measured, and the places of those that they are of.
    pub(crate) fn among(&self, kept: &[usize]) -> (u32, BTreeSet<usize>) {
        let kept: BTreeSet<usize> = kept.iter().copied().collect();
        let pairs = self.pairs.iter();
        let pairs =
            pairs.filter(|(cell, baseline, _)| kept.contains(cell) && kept.contains(baseline));
        pairs.fold((0, BTreeSet::new()), |(count, mut cells), pair| {
            cells.extend([pair.0, pair.1]);
            (count + pair.2, cells)
        })
    }
}

/// In ms: of all cells, and of those that primary comparisons are of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockLength {
    pub(crate) all_ms: u64,
    pub(crate) primary_ms: u64,
}

#[derive(Clone, Copy)]
pub(crate) struct Power<'p> {
    pub(crate) noise: &'p RatioNoise,
    pub(crate) study: &'p Study,
}

impl Power<'_> {
    pub(crate) fn blocks_least(&self, primaries: u32) -> u32 {
        let least = self.study.blocks_least;
        let finds = |blocks: &u32| self.chance(*blocks, primaries, LARGEST_EFFECT) >= POWER;
        (least..=self.study.blocks_most.max(least))
            .find(finds)
            .unwrap_or(least)
    }

    /// Blocks of all cells that a time pays for, within the bounds of the study.
    pub(crate) fn blocks(&self, length: BlockLength, time_ms: u64) -> u32 {
        let least = self.study.blocks_least;
        let paid = time_ms.checked_div(length.all_ms).unwrap_or(0);
        let paid = u32::try_from(paid).unwrap_or(u32::MAX);
        paid.clamp(least, self.study.blocks_most.max(least))
    }

    /// Whether so many blocks find the smallest effect of the study 80 % of the time.
    pub(crate) fn reaches(&self, blocks: u32, primaries: u32) -> bool {
        self.chance(blocks, primaries, self.study.smallest_effect) >= POWER
    }

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

    /// To a tenth of a percent, with the variance between rounds, which no number of blocks lessens.
    fn smallest_effect(&self, blocks: u32, primaries: u32) -> Option<f64> {
        let between = self.noise.between.map(|between| BetweenRounds {
            variance: between.variance,
            degrees: between.degrees,
        });
        let between = between.unwrap_or(BetweenRounds::NONE);
        let effect = |tenths: usize| tenths as f64 / 1000.0;
        let finds = |tenths| self.found(blocks, primaries, effect(tenths), between) >= POWER;
        least(1, 10_000, finds).map(effect)
    }

    /// That one of so many primary comparisons finds an effect of this run's minute at the level that
    /// is left to it.
    fn chance(&self, blocks: u32, primaries: u32, effect: f64) -> f64 {
        self.found(blocks, primaries, effect, BetweenRounds::NONE)
    }

    fn found(&self, blocks: u32, primaries: u32, effect: f64, between: BetweenRounds) -> f64 {
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
