//! Data that each cell displaced from the caches, by the rounds of its trial for evidence.

use bytecost_spec::evidence::{LevelProbe, ProbeRound};
use bytecost_stats::{median, trimmed_mean, trimmed_mean_value};

use crate::comparison::ratio_by_ends;
use crate::confidence::{FEWEST, LEVEL};
use crate::input::Input;
use crate::result::{CellFootprint, Estimate, LevelFootprint, NoValue, Uncertain};

const KIB: f64 = 1024.0;
/// The displaced share of a set below which the set counts as untouched.
const UNTOUCHED: f64 = 0.02;
/// The largest share of the displaced data that an idle machine displaces too; above it other processes
/// use the cache.
const OWN: f64 = 0.5;

/// Every probed cell, in the order of the plan; the first evidence of a cell counts.
pub(crate) fn all(input: &Input<'_>) -> Vec<CellFootprint> {
    let probed = input.evidence_by_cell(|e| e.footprint.is_some());
    let footprints = probed.into_iter().filter_map(|(_, evidence)| {
        let levels = evidence[0].footprint.as_ref()?.levels.iter();
        Some(CellFootprint {
            cell: evidence[0].cell.clone(),
            levels: levels.map(level).collect(),
        })
    });
    footprints.collect()
}

fn level(probe: &LevelProbe) -> LevelFootprint {
    let c = &probe.calibration;
    let lines = f64::from(probe.lines.max(1));
    let a_line = |ticks: &[u64]| {
        let shares: Vec<f64> = ticks.iter().map(|t| *t as f64 / lines).collect();
        median(&shares).unwrap_or(0.0)
    };
    let (hit_ticks, miss_ticks) = (a_line(&c.hit_ticks), a_line(&c.miss_ticks));
    let missing = match &c.refused {
        Some(why) => Some(NoValue::Recorded(why.clone())),
        None if miss_ticks <= hit_ticks => Some(NoValue::IndistinctMisses),
        None if probe.rounds.len() < FEWEST => Some(NoValue::FewRounds {
            ended: probe.rounds.len(),
            needed: FEWEST,
        }),
        None => None,
    };
    let kib = |ticks: fn(&ProbeRound) -> u64| -> Option<Estimate> {
        if missing.is_some() {
            return None;
        }
        let displaced = |round: &ProbeRound| {
            let above = ticks(round) as f64 / lines - hit_ticks;
            let share = (above / (miss_ticks - hit_ticks)).clamp(0.0, 1.0);
            share * probe.primed_bytes as f64 / KIB
        };
        estimate(&probe.rounds.iter().map(displaced).collect::<Vec<f64>>())
    };
    let moved: Vec<f64> = probe.rounds.iter().map(|r| r.bytes as f64).collect();
    LevelFootprint {
        level: probe.level,
        size_bytes: probe.size_bytes,
        primed_bytes: probe.primed_bytes,
        moved_bytes: median(&moved).unwrap_or(0.0) as u64,
        displaced_kib: kib(|r| r.ticks),
        idle_kib: kib(|r| r.idle_ticks),
        hit_ticks,
        miss_ticks,
        missing,
    }
}

/// On the scale of the values: many rounds displace nothing.
fn estimate(kib: &[f64]) -> Option<Estimate> {
    let interval = trimmed_mean(kib).and_then(|l| l.interval(LEVEL));
    Some(Estimate {
        value: trimmed_mean_value(kib)?,
        low: interval.map(|i| i.low.max(0.0)),
        high: interval.map(|i| i.high),
        trials: kib.len(),
    })
}

impl CellFootprint {
    /// The footprint at a cache level; none where that was not probed.
    pub(crate) fn level(&self, level: u32) -> Option<&LevelFootprint> {
        self.levels.iter().find(|l| l.level == level)
    }
}

/// The ratio of the data that two ways displace from a cache, summed over all places, and its interval
/// by the ends of theirs, which is conservative. None where either is unknown, or the other displaces
/// next to nothing, or hardly more than an idle machine does in the same time.
///
/// It has no variance between rounds: lines are counted in one trial, next to an idle period.
pub(crate) fn against(pairs: &[(&LevelFootprint, &LevelFootprint)]) -> Option<Uncertain> {
    let one = displaced(pairs.iter().map(|(one, _)| *one))?;
    let others = || pairs.iter().map(|(_, other)| *other);
    let other = displaced(others())?;
    let primed = others().map(|level| level.primed_bytes as f64 / KIB);
    let more_idle = |pair: &(&LevelFootprint, &LevelFootprint)| {
        let idle_kib = |level: &LevelFootprint| level.idle_kib.as_ref().map(|kib| kib.value);
        Some(f64::max(idle_kib(pair.0)?, idle_kib(pair.1)?))
    };
    let idle: f64 = pairs.iter().map(more_idle).sum::<Option<f64>>()?;
    let is_clear = other.low > UNTOUCHED * primed.sum::<f64>() && idle < OWN * other.value;
    is_clear.then(|| ratio_by_ends(one, other))
}

/// The sum over several places of the data displaced from a cache, with the sums of the ends of their
/// intervals.
fn displaced<'l>(mut levels: impl Iterator<Item = &'l LevelFootprint>) -> Option<Uncertain> {
    levels.try_fold(Uncertain::exact(0.0), |sum, level| {
        let kib = level.displaced_kib.as_ref()?;
        Some(Uncertain {
            value: sum.value + kib.value,
            low: sum.low + kib.low?,
            high: sum.high + kib.high?,
        })
    })
}
