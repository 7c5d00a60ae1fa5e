//! Which cache level gains most from sending without a copy: by counters, or by timing what is
//! displaced.

use bytecost_spec::evidence::Means;
use bytecost_spec::{Axis, Measure, Metric, units};
use bytecost_stats::mean;
use itertools::Itertools as _;

use super::asked::{MeasuredWay, Versus};
use super::sockets::{ZERO_COPY, sends_without_a_copy, withheld};
use super::{Answers, Explained, MOST_ROWS, Missing, Question, View, why_absent};
use crate::caveats::zero_copy::is_no_zero_copy;
use crate::contrast::Ratio;
use crate::footprint::against;
use crate::grouping::grouped;
use crate::phrases;
use crate::result::{CellFootprint, LevelFootprint};

pub(super) const QUESTION: Question = Question {
    key: "cache-level",
    text: "Which cache level gains most from sending without a copy?",
    asks: sends_without_a_copy,
    answers: Answers::Own(ask),
    would_change: "payload from memory that is in no cache (--ring), other sizes, or a path on which the kernel does not copy after all",
};

/// The levels that can be counted.
pub(super) const LEVELS: [(&str, Measure); 2] = [
    ("L1 data cache", Measure::L1dLoadMissesPerKib),
    ("last level cache", Measure::LlcLoadMissesPerKib),
];

/// The first level whose misses no cell has.
pub(super) fn uncounted(view: &View<'_>) -> Option<&'static str> {
    let has = |m: Measure| {
        let mut cells = view.cells.iter();
        cells.any(|c| c.estimates.contains_key(&Metric::both(m)))
    };
    LEVELS.iter().find(|(_, m)| !has(*m)).map(|(name, _)| *name)
}

/// A cache in which zero-copy is compared with copying.
struct Level {
    name: String,
    ratio: Ratio,
}

fn ask(view: &View<'_>) -> Option<Explained> {
    let timed = Timed::of(view);
    let mut found = match uncounted(view) {
        Some(name) => uncounted_answer(view, timed.as_ref(), name),
        None => counted(view),
    };
    if let Some(timed) = &timed {
        let rows = timed.rows.iter();
        let rows = rows.map(|row| format!("by timing, {}, {row}", timed.who));
        found.numbers.extend(rows.take(MOST_ROWS));
        found.evidence.push(timed.evidence.clone());
    }
    Some(found)
}

/// The answer where misses are not counted: by timing, or how that is asked for.
fn uncounted_answer(view: &View<'_>, timed: Option<&Timed>, name: &str) -> Explained {
    if let Some(timed) = timed {
        let words = |r: &str, name: &str| {
            format!(
                "{}: {r} of what copying displaces from the {name}",
                timed.who
            )
        };
        return Explained::of(most_gained(
            view,
            &timed.levels,
            ", by timing and without counters",
            words,
        ));
    }
    let reason = why_absent(view, Metric::both(LEVELS[0].1));
    let by_timing = match view.asked(Means::Footprint).map(|a| &a.refused) {
        Some(Some(refused)) => format!("nor timed: {refused}"),
        Some(None) => "and no pair of zero-copy and copying was timed".to_owned(),
        None => "--evidence footprint finds it by timing".to_owned(),
    };
    Explained::of(Err(format!(
        "misses of the {name} are not counted: {reason}; {by_timing}"
    )
    .into()))
}

fn counted(view: &View<'_>) -> Explained {
    let found = LEVELS.map(|(name, m)| (name, view.versus(&ZERO_COPY, Metric::both(m))));
    let rows: Vec<Vec<Versus<'_>>> = found.iter().map(|(_, of)| of.clone()).collect();
    let numbers = view.rows(&ZERO_COPY, &rows);
    let Some(first) = rows[0].first() else {
        return Explained::of(Err(
            "no way without a copy was measured next to one that copies".into(),
        ));
    };
    if is_no_zero_copy(view, &first.other.trials.id) {
        return Explained {
            numbers,
            ..Explained::of(Err(withheld(view)))
        };
    }
    let of_first = |v: &&Versus<'_>| v.value() == first.value();
    let levels = found.iter().filter_map(|(name, of)| {
        let own: Vec<&Versus<'_>> = of.iter().filter(of_first).collect();
        Some(Level {
            name: (*name).to_owned(),
            ratio: over_sizes(&own)?,
        })
    });
    let levels: Vec<Level> = levels.collect();
    let who = Axis::Mover.subject(&first.value());
    let base = Axis::Mover.subject(&first.baseline.cell().mover);
    let words = |r: &str, name: &str| {
        format!("{who} has {r} of the load misses per KiB of {base} in the {name}")
    };
    Explained {
        numbers,
        ..Explained::of(most_gained(view, &levels, "", words))
    }
}

/// The ratio of the misses, as a mean over the sizes within each block.
fn over_sizes(of: &[&Versus<'_>]) -> Option<Ratio> {
    let logs = of
        .iter()
        .map(|v| v.contrast.pairing.log_ratios_by_block(v.contrast.metric));
    let by_block = grouped(logs.flatten()).into_iter();
    let whole = by_block.filter(|(_, logs)| logs.len() == of.len());
    Ratio::of(
        &whole
            .filter_map(|(_, logs)| mean(&logs))
            .collect::<Vec<f64>>(),
    )
}

/// The level of the least ratio, where its interval lies below those of all others.
fn most_gained(
    view: &View<'_>,
    levels: &[Level],
    how: &str,
    words: impl Fn(&str, &str) -> String,
) -> Result<String, Missing> {
    let least = levels
        .iter()
        .min_by(|a, b| a.ratio.value.total_cmp(&b.ratio.value));
    let Some(Level { name, ratio: best }) = least else {
        return Err("hits cannot be told from misses here, or others use the cache as much".into());
    };
    let told = words(&phrases::ratio(best.value, best.low, best.high), name);
    let gains = 1.0 / (1.0 + view.input.manifest.study.smallest_effect);
    if levels.iter().all(|l| l.ratio.high >= gains) {
        return Ok(format!(
            "none was shown to gain{how}: {told}, where it does best."
        ));
    }
    let mut others = levels.iter().filter(|l| l.name != *name);
    match others.all(|l| best.high < l.ratio.low) {
        true => Ok(format!("the {name}{how}: {told}.")),
        false => Err("the intervals of the levels overlap".into()),
    }
}

/// What zero-copy displaces against copying, found by timing.
struct Timed {
    who: String,
    levels: Vec<Level>,
    rows: Vec<String>,
    evidence: String,
}

impl Timed {
    /// Of the first two ways that were looked at; none where no such pair was.
    fn of(view: &View<'_>) -> Option<Timed> {
        let find = |f: &CellFootprint| {
            let mut all = view.trials.moving();
            all.find(|c| c.id == f.cell).map(|c| view.way(c))
        };
        let ways = view.footprints.iter();
        let ways = ways.filter_map(|f| Some((find(f)?, f))).collect_vec();
        let place = |w: &MeasuredWay<'_>| w.cell().id_without(&[Axis::Mover]);
        let is_pair = |one: &MeasuredWay<'_>, other: &MeasuredWay<'_>| {
            (ZERO_COPY.pairs)(*one, *other) && place(one) == place(other)
        };
        let pairs = ways.iter().cartesian_product(&ways);
        let pairs = pairs.filter(|((one, _), (other, _))| is_pair(one, other));
        let who = |(one, other): (&MeasuredWay<'_>, &MeasuredWay<'_>)| {
            format!(
                "`{}` compared with `{}`",
                other.cell().mover,
                one.cell().mover
            )
        };
        let pairs = grouped(pairs.map(|((one, a), (other, b))| (who((one, other)), (*b, *a))));
        let (who, pairs) = pairs.into_iter().next()?;
        let mut levels = Vec::new();
        let rows = pairs[0].0.levels.iter().map(|l| {
            let both = pairs.iter().filter_map(|(zero, copying)| {
                Some((zero.level(l.level)?, copying.level(l.level)?))
            });
            row(l.level, &both.collect_vec(), &mut levels)
        });
        Some(Timed {
            rows: rows.collect(),
            who,
            levels,
            evidence: how_far(&pairs.iter().flat_map(|(a, b)| [*a, *b]).collect_vec()),
        })
    }
}

fn row(
    number: u32,
    both: &[(&LevelFootprint, &LevelFootprint)],
    levels: &mut Vec<Level>,
) -> String {
    let name = format!("L{number} cache");
    let missing = both
        .iter()
        .flat_map(|(a, b)| [a, b])
        .find_map(|l| l.missing.as_ref());
    let (None, Some((zero, copying))) = (missing, both.first()) else {
        return format!("{name}: {}", missing.map_or("not timed", String::as_str));
    };
    let Some(ratio) = against(both) else {
        return format!(
            "{name}: copying displaces hardly more from it than goes in as much time in which nothing is moved"
        );
    };
    let kib = |l: &LevelFootprint| {
        let value = l.displaced_kib.as_ref().map(|e| e.value);
        value.map_or_else(|| "?".to_owned(), |v| format!("{v:.1}"))
    };
    let told = format!(
        "{name}, {} primed of {}: {} of what copying displaces; in the first place {} and {} KiB for each {} moved",
        units::bytes_in_words(zero.primed_bytes),
        units::bytes_in_words(zero.size_bytes),
        phrases::ratio(ratio.value, ratio.low, ratio.high),
        kib(zero),
        kib(copying),
        units::bytes_in_words(copying.moved_bytes)
    );
    levels.push(Level { name, ratio });
    told
}

/// How far the timing can be trusted; the table of footprints has the levels.
fn how_far(cells: &[&CellFootprint]) -> String {
    let idle = |l: &LevelFootprint| {
        let kib = l.idle_kib.as_ref()?.value;
        Some(1024.0 * kib / (l.primed_bytes as f64).max(1.0))
    };
    let idle = cells.iter().flat_map(|c| &c.levels).filter_map(idle);
    format!(
        "prime and probe on the CPU of the first sending thread, in trials of their own: {}; as much time in which nothing is moved displaces at most {} of a set",
        phrases::count(cells.len(), "cell"),
        phrases::percent(idle.fold(0.0, f64::max))
    )
}
