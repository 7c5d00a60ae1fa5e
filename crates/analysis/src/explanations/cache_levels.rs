//! The cache level that gains most from sending without a copy, and the effect of threads on it.

use bytecost_spec::evidence::Means;
use bytecost_spec::{Axis, Measure, Metric};
use itertools::Itertools as _;

use super::pairs::{Answer, MeasuredWay, PairQuery, Versus, ZERO_COPY};
use super::sockets::copied_facts;
use crate::caveats::zero_copy::is_no_zero_copy;
use crate::confidence::LEVEL;
use crate::footprint::against;
use crate::grouping::grouped;
use crate::mean_contrast::PairsContrast;
use crate::result::{
    CacheLevel, CellFootprint, Fact, LevelFootprint, LevelRatio, Missing, NoValue, NotTimed,
    Uncertain,
};
use crate::stages::Explained;

const LEVELS: [(CacheLevel, Measure); 2] = [
    (CacheLevel::L1Data, Measure::L1dLoadMissesPerKib),
    (CacheLevel::Last, Measure::LlcLoadMissesPerKib),
];

/// The first level whose misses no cell has, with the reason.
fn uncounted(run: &Explained<'_>) -> Option<(CacheLevel, NoValue)> {
    let has = |m: Measure| {
        let mut cells = run.measured.cells.iter();
        cells.any(|c| c.estimates.contains_key(&Metric::both(m)))
    };
    let (level, measure) = LEVELS.into_iter().find(|(_, m)| !has(*m))?;
    Some((level, run.why_absent(Metric::both(measure))))
}

const FLOWS: PairQuery = PairQuery {
    axes: &[Axis::Threads],
    pairs: |one, several| one.cell().threads == 1 && several.route().has_peer(),
    metrics: by_level,
};

/// The misses of each level.
fn by_level(_: &Explained<'_>) -> Vec<Vec<Metric>> {
    LEVELS.map(|(_, m)| vec![Metric::both(m)]).to_vec()
}

/// The effect of threads: the comparison of the largest messages, for each level and number of flows.
pub(super) fn with_threads(run: &Explained<'_>) -> Option<Answer> {
    if let Some((level, why)) = uncounted(run) {
        return Some(Answer {
            missing: Some(Missing::Misses { level, why }),
            ..Answer::default()
        });
    }
    let asked = run.ask(&FLOWS);
    let largest = asked.by_list.iter().flat_map(|found| {
        let largest = found.iter().map(|v| v.other.cell().size_bytes).max();
        let of_largest = found.iter();
        let own = of_largest.filter(move |v| Some(v.other.cell().size_bytes) == largest);
        // The first of equals: the order of the plan.
        own.unique_by(|v| v.other.cell().threads)
    });
    let pairs = largest.map(Versus::seen).collect_vec();
    Some(Answer {
        missing: pairs.is_empty().then_some(Missing::Cells),
        pairs,
        facts: Vec::new(),
    })
}

pub(super) fn gains_most(run: &Explained<'_>) -> Option<Answer> {
    let timed = timed(run);
    let mut found = match (uncounted(run), &timed) {
        (None, _) => counted(run),
        (Some(_), Some(timed)) => most_gained(run, timed.levels.clone()),
        (Some((level, why)), None) => Answer {
            missing: Some(Missing::MissesAndTiming {
                level,
                why,
                timing: not_timed(run),
            }),
            ..Answer::default()
        },
    };
    found
        .facts
        .extend(timed.into_iter().flat_map(|timed| timed.rows));
    Some(found)
}

fn not_timed(run: &Explained<'_>) -> NotTimed {
    match run.measured.input.asked_evidence(Means::Footprint) {
        None => NotTimed::Unasked,
        Some(asked) => (asked.refused.clone()).map_or(NotTimed::NoPair, NotTimed::Refused),
    }
}

fn counted(run: &Explained<'_>) -> Answer {
    let of_levels = PairQuery {
        metrics: by_level,
        ..ZERO_COPY
    };
    let asked = run.ask(&of_levels);
    let missing = |missing| Answer {
        missing: Some(missing),
        facts: copied_facts(run),
        ..Answer::default()
    };
    let Some(first) = asked.by_list[0].first() else {
        return missing(Missing::Cells);
    };
    if is_no_zero_copy(run.measured, &first.other.trials.id) {
        return missing(Missing::SavedCopy);
    }
    if !asked.all().all(|v| v.pair.has_amount()) {
        return missing(Missing::Amounts);
    }
    let way = &first.other.cell().mover;
    let of_first = |v: &&Versus<'_>| v.other.cell().mover == *way;
    let by_level = LEVELS.iter().zip(&asked.by_list);
    let levels = by_level.filter_map(|((level, _), of)| {
        let ratio = over_sizes(run, &of.iter().filter(of_first).collect_vec())?;
        Some(LevelRatio {
            level: *level,
            ratio,
        })
    });
    let found = Levels {
        way: way.clone(),
        baseline: first.baseline.cell().mover.clone(),
        by_timing: false,
        levels: levels.collect(),
    };
    most_gained(run, found)
}

/// The mean ratio over several sizes, of the blocks that have them all.
fn over_sizes(run: &Explained<'_>, of: &[&Versus<'_>]) -> Option<Uncertain> {
    let metric = of.first()?.pair.finding.metric;
    let pairings = of.iter().map(|v| v.pair.pairing).collect();
    let mean = PairsContrast::new(pairings, metric)?.mean(run.measured.trials, None)?;
    Uncertain::ratio_at(&mean, LEVEL)
}

/// Cache misses of two ways at each level.
#[derive(Clone)]
struct Levels {
    way: String,
    baseline: String,
    by_timing: bool,
    levels: Vec<LevelRatio>,
}

fn most_gained(run: &Explained<'_>, found: Levels) -> Answer {
    let levels = &found.levels;
    let least = levels
        .iter()
        .min_by(|a, b| a.ratio.value.total_cmp(&b.ratio.value));
    let gains = 1.0 / (1.0 + run.measured.input.manifest.study.smallest_effect);
    let is_shown = levels.iter().any(|l| l.ratio.high < gains);
    let is_least = |best: &LevelRatio| {
        let mut others = levels.iter().filter(|l| l.level != best.level);
        others.all(|l| best.ratio.high < l.ratio.low)
    };
    let missing = match least {
        None => Some(Missing::Level),
        Some(best) if is_shown && !is_least(best) => Some(Missing::LevelsApart),
        Some(_) => None,
    };
    Answer {
        missing,
        pairs: Vec::new(),
        facts: vec![Fact::Levels {
            way: found.way,
            baseline: found.baseline,
            by_timing: found.by_timing,
            is_shown,
            levels: found.levels,
        }],
    }
}

/// Data that a zero-copy and a copying way displaced from caches, by timing.
struct Timed {
    levels: Levels,
    rows: Vec<Fact>,
}

/// The first two ways with measured footprints; none where there is no such pair.
fn timed(run: &Explained<'_>) -> Option<Timed> {
    let ways = run
        .measured
        .footprints
        .iter()
        .filter_map(|f| {
            let mut all = run.measured.trials.moving();
            Some((run.way(all.find(|c| c.id == f.cell)?), f))
        })
        .collect_vec();
    let place = |w: &MeasuredWay<'_>| w.cell().id_without(&[Axis::Mover]);
    let compared = ways.iter().cartesian_product(&ways);
    let pairs = compared
        .filter(|((one, _), (other, _))| {
            (ZERO_COPY.pairs)(*one, *other) && place(one) == place(other)
        })
        .map(|((one, copying), (other, zero))| {
            let movers = [other, one].map(|w| w.cell().mover.clone());
            (movers, (*zero, *copying))
        });
    let ([way, baseline], pairs) = grouped(pairs).into_iter().next()?;
    let levels = pairs[0].0.levels.iter();
    let rows = levels.map(|l| displaced(l.level, &pairs)).collect_vec();
    let ratio = |row: &Fact| match row {
        Fact::Displaced {
            level,
            ratio: Some(ratio),
            ..
        } => Some(LevelRatio {
            level: CacheLevel::Number(*level),
            ratio: *ratio,
        }),
        _ => None,
    };
    Some(Timed {
        levels: Levels {
            way,
            baseline,
            by_timing: true,
            levels: rows.iter().filter_map(ratio).collect(),
        },
        rows,
    })
}

fn displaced(level: u32, pairs: &[(&CellFootprint, &CellFootprint)]) -> Fact {
    let both: Vec<(&LevelFootprint, &LevelFootprint)> = pairs
        .iter()
        .filter_map(|(zero, copying)| Some((zero.level(level)?, copying.level(level)?)))
        .collect();
    let mut all = both.iter().flat_map(|(a, b)| [a, b]);
    let missing = all.find_map(|l| l.missing.clone());
    let ratio = if missing.is_none() {
        against(&both)
    } else {
        None
    };
    Fact::Displaced {
        level,
        cells: pairs
            .iter()
            .map(|(zero, copying)| [&zero.cell, &copying.cell].map(Clone::clone))
            .collect(),
        ratio,
        missing,
    }
}
