//! What zero-copy displaces from the caches against copying, found by timing: for machines without
//! counters, and beside them on others.

use bytecost_spec::evidence::Means;
use bytecost_spec::{Axis, units};

use super::{MOST_ROWS, Why};
use crate::crossovers::Ratio;
use crate::footprint::against;
use crate::phrases;
use crate::result::{CellFootprint, LevelFootprint};

/// What was found of one cache.
struct Level {
    name: String,
    ratio: Option<Ratio>,
    row: String,
}

/// The two ways that are held against each other, and what they displace.
pub(super) struct Footprints {
    zero: &'static str,
    copying: &'static str,
    levels: Vec<Level>,
    evidence: Vec<String>,
}

type Pair<'v> = (&'v CellFootprint, &'v CellFootprint);

/// Zero-copy against copying in every place where both were looked at; none where no pair was.
pub(super) fn of(why: &Why<'_>) -> Option<Footprints> {
    let mut ways = why.zero_copy_pairs().into_iter();
    ways.find_map(|(zero, copying)| {
        let pairs = pairs(why, zero, copying);
        let (first, _) = pairs.first()?;
        let levels = first.levels.iter().map(|l| level(&pairs, l.level));
        Some(Footprints {
            zero,
            copying,
            levels: levels.collect(),
            evidence: evidence(&pairs),
        })
    })
}

/// What is said of it where it was not looked at: how to, or why it cannot be.
pub(super) fn how(why: &Why<'_>) -> String {
    let mut asked = why.view.input.manifest.evidence.iter();
    let refused = asked
        .find(|a| a.means == Means::Footprint)
        .map(|a| &a.refused);
    match refused {
        Some(Some(refused)) => format!("nor found by timing: {refused}"),
        Some(None) => "and timing found no pair of zero-copy and copying".to_owned(),
        None => {
            "--evidence footprint finds what is displaced by timing, without counters".to_owned()
        }
    }
}

fn pairs<'v>(why: &Why<'v>, zero: &str, copying: &str) -> Vec<Pair<'v>> {
    let cell = |f: &CellFootprint| {
        let mut all = why.view.cells.iter();
        all.find(|c| c.id == f.cell).map(|c| &c.cell)
    };
    let of = |mover: &str| -> Vec<(String, &'v CellFootprint)> {
        let own = why.view.footprints.iter().filter_map(|f| {
            let cell = cell(f)?;
            (cell.mover == mover).then(|| (cell.id_without(&[Axis::Mover]), f))
        });
        own.collect()
    };
    let copying = of(copying);
    let pair = |(place, zero): (String, &'v CellFootprint)| {
        let other = copying.iter().find(|(p, _)| *p == place)?;
        Some((zero, other.1))
    };
    of(zero).into_iter().filter_map(pair).collect()
}

fn level(pairs: &[Pair<'_>], level: u32) -> Level {
    let both: Vec<(&LevelFootprint, &LevelFootprint)> = pairs
        .iter()
        .filter_map(|(zero, copying)| Some((zero.level(level)?, copying.level(level)?)))
        .collect();
    let name = format!("L{level} cache");
    let missing = both
        .iter()
        .flat_map(|(a, b)| [a, b])
        .find_map(|l| l.missing.clone());
    let ratio = match missing {
        None => against(&both),
        Some(_) => None,
    };
    let row = match (&missing, &ratio, both.first()) {
        (Some(why), _, _) => format!("{name}: {why}"),
        (None, Some(r), Some((zero, copying))) => format!(
            "{name}, {} primed of {}: {} of what copying displaces; in the first place {} against {} KiB for each {} moved",
            units::bytes_in_words(zero.primed_bytes),
            units::bytes_in_words(zero.size_bytes),
            phrases::ratio(r.value, r.low, r.high),
            kib(zero),
            kib(copying),
            units::bytes_in_words(copying.moved_bytes)
        ),
        _ => format!(
            "{name}: copying displaces hardly more from it than goes in as much time in which nothing is moved"
        ),
    };
    Level { name, ratio, row }
}

fn kib(level: &LevelFootprint) -> String {
    let value = level.displaced_kib.as_ref().map(|e| e.value);
    value.map_or_else(|| "?".to_owned(), |v| format!("{v:.1}"))
}

/// How far the timing can be trusted, level by level, at its worst.
fn evidence(pairs: &[Pair<'_>]) -> Vec<String> {
    let cells: Vec<&CellFootprint> = pairs.iter().flat_map(|(a, b)| [*a, *b]).collect();
    let Some(first) = cells.first() else {
        return Vec::new();
    };
    let rows = first.levels.iter().filter_map(|l| {
        let all: Vec<&LevelFootprint> = cells.iter().filter_map(|c| c.level(l.level)).collect();
        let of = |of: fn(&LevelFootprint) -> f64| all.iter().map(move |l| of(l));
        let hit = of(|l| l.hit_ticks).fold(0.0, f64::max);
        let miss = of(|l| l.miss_ticks).fold(f64::INFINITY, f64::min);
        let idle = |l: &&LevelFootprint| {
            let kib = l.idle_kib.as_ref()?.value;
            Some(1024.0 * kib / (l.primed_bytes as f64).max(1.0))
        };
        let idle = all.iter().filter_map(idle).fold(0.0, f64::max);
        l.missing.is_none().then(|| {
            format!(
                "L{}: a line takes up to {hit:.0} ticks where it is there and {miss:.0} or more where it was displaced; as much time in which nothing is moved displaces at most {} of the set",
                l.level,
                phrases::percent(idle)
            )
        })
    });
    let means = format!(
        "prime and probe on the CPU of the first sending thread, in trials of their own: {}; no counters",
        phrases::count(cells.len(), "cell")
    );
    std::iter::once(means).chain(rows).collect()
}

impl Footprints {
    /// The level that gains most, found by timing, or why that is left open.
    pub(super) fn answer(&self, smallest_effect: f64) -> Result<String, String> {
        let known: Vec<(&str, &Ratio)> = self
            .levels
            .iter()
            .filter_map(|l| Some((l.name.as_str(), l.ratio.as_ref()?)))
            .collect();
        let least = known.iter().min_by(|a, b| a.1.value.total_cmp(&b.1.value));
        let Some((name, best)) = least else {
            return Err("timing tells nothing of any level here: its hits cannot be told from its misses, or others use the cache as much".to_owned());
        };
        let told = phrases::ratio(best.value, best.low, best.high);
        let gains = 1.0 / (1.0 + smallest_effect);
        if known.iter().all(|(_, r)| r.high >= gains) {
            return Ok(format!(
                "none was shown to gain, by timing: `{}` displaces {told} of what `{}` does from the {name}, where it does best.",
                self.zero, self.copying
            ));
        }
        let apart = known
            .iter()
            .filter(|(n, _)| n != name)
            .all(|(_, r)| best.high < r.low);
        if !apart {
            return Err(format!(
                "by timing, the {name} gains most from `{}`, but the intervals of the levels overlap",
                self.zero
            ));
        }
        Ok(format!(
            "the {name}, by timing and without counters: `{}` displaces {told} of what `{}` does from it.",
            self.zero, self.copying
        ))
    }

    /// A row for each level.
    pub(super) fn rows(&self) -> Vec<String> {
        let rows = self.levels.iter().take(MOST_ROWS);
        rows.map(|l| {
            format!(
                "by timing, `{}` against `{}`, {}",
                self.zero, self.copying, l.row
            )
        })
        .collect()
    }

    /// How far it can be trusted.
    pub(super) fn evidence(&self) -> Vec<String> {
        self.evidence.clone()
    }
}
