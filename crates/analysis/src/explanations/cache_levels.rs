//! Which cache level gains most from sending without a copy; and how threads interact with caches.

use bytecost_spec::evidence::Means;
use bytecost_spec::{Axis, Measure, Metric, units};
use itertools::Itertools as _;

use super::asked::{MeasuredWay, PairQuery, Versus, joined};
use super::sockets::{ZERO_COPY, is_about_sockets, sends_without_a_copy, withheld};
use super::{Answered, Answers, Explained, MOST_ROWS, Question};
use crate::caveats::zero_copy::is_no_zero_copy;
use crate::confidence::LEVEL;
use crate::contrast::{PairsContrast, Ratio};
use crate::footprint::against;
use crate::grouping::{by_key, grouped};
use crate::phrases;
use crate::result::{CellFootprint, LevelFootprint};

pub(super) const QUESTIONS: &[Question] = &[
    Question {
        key: "threads-and-caches",
        text: "How do threads interact with the caches, apart from there being more threads than CPUs?",
        asks: is_about_sockets,
        answers: Answers::Own(with_threads),
        would_change: "a machine with more CPUs, threads that are kept on CPUs of their own (--placement), or payload that does not fit into the caches (--ring)",
    },
    Question {
        key: "cache-level",
        text: "Which cache level gains most from sending without a copy?",
        asks: sends_without_a_copy,
        answers: Answers::Own(gains_most),
        would_change: "payload from memory that is in no cache (--ring), other sizes, or a path on which the kernel does not copy after all",
    },
];

const LEVELS: [(&str, Measure); 2] = [
    ("L1 data cache", Measure::L1dLoadMissesPerKib),
    ("last level cache", Measure::LlcLoadMissesPerKib),
];

/// The first level whose misses no cell has.
fn uncounted(run: &Explained<'_>) -> Option<&'static str> {
    let has = |m: Measure| {
        let mut cells = run.cells.iter();
        cells.any(|c| c.estimates.contains_key(&Metric::both(m)))
    };
    LEVELS.iter().find(|(_, m)| !has(*m)).map(|(name, _)| *name)
}

type Level = (String, Ratio);

/// Threads of one flow: one sends, one receives.
const THREADS_OF_A_FLOW: usize = 2;

const FLOWS: PairQuery = PairQuery {
    axes: &[Axis::Threads],
    pairs: |one, several| one.cell().threads == 1 && several.route().has_peer(),
    metrics: |_| {
        let [first, last] = LEVELS.map(|(_, measure)| measure);
        let all = [first, last, Measure::ThroughputGbitPerS];
        all.map(|measure| vec![Metric::both(measure)]).to_vec()
    },
    along: &[Axis::Threads],
    together: false,
    needs: "needs cells with several numbers of flows (--threads 1,2,4)",
};

fn with_threads(run: &Explained<'_>) -> Option<Answered> {
    let asked = run.ask(&FLOWS);
    let flows = phrases::count(run.cpus() / THREADS_OF_A_FLOW, "flow");
    let cpus = phrases::count(run.cpus(), "CPU");
    let answer = match uncounted(run) {
        Some(level) => {
            let reason = run.why_absent(Metric::both(LEVELS[1].1));
            Err(format!("misses of the {level} are not counted: {reason}"))
        }
        None => misses_by_flows(run, &asked.aspects),
    };
    Some(Answered {
        is_never: uncounted(run).is_some(),
        evidence: vec![format!(
            "{cpus}, {THREADS_OF_A_FLOW} threads a flow: up to {flows} each thread has a CPU"
        )],
        ..Answered::of(answer)
    })
}

/// By the largest messages: with a CPU for each thread, and with most flows of all.
fn misses_by_flows(run: &Explained<'_>, aspects: &[Vec<Versus<'_>>]) -> Result<String, String> {
    let misses = LEVELS.iter().zip(aspects).flat_map(|((name, _), found)| {
        let largest = found.iter().map(|v| v.other.cell().size_bytes).max();
        let is_largest = move |v: &&Versus<'_>| Some(v.other.cell().size_bytes) == largest;
        let own = found.iter().filter(is_largest);
        // The first of equals: the order of the plan.
        let by_flows = own.unique_by(|v| v.other.cell().threads);
        by_flows.map(move |v| {
            let told = format!("{} in the {name}", v.amount());
            (v.other.cell().threads as usize, told)
        })
    });
    let by_flows = by_key(misses);
    let fits = |flows: usize| THREADS_OF_A_FLOW * flows <= run.cpus();
    let clause = |head: &str, (flows, misses): (&usize, &Vec<String>)| {
        let misses = phrases::list(misses);
        format!("{head} from 1 flow to {flows} flows the load misses per KiB become {misses}")
    };
    let alone = by_flows.iter().rev().find(|(flows, _)| fits(**flows));
    let most = by_flows.last_key_value();
    let crowded = most.filter(|(flows, _)| !fits(**flows));
    let clauses = [
        alone.map(|of| clause("with a CPU for each thread,", of)),
        crowded.map(|of| clause("with threads that take turns on the CPUs,", of)),
    ];
    joined(clauses.into_iter().flatten(), FLOWS.needs)
}

fn gains_most(run: &Explained<'_>) -> Option<Answered> {
    let timed = Timed::of(run);
    let mut found = match uncounted(run) {
        Some(name) => uncounted_answer(run, timed.as_ref(), name),
        None => counted(run),
    };
    if let Some(timed) = &timed {
        let rows = timed.rows.iter();
        let rows = rows.map(|row| format!("by timing, {}, {row}", timed.who));
        found.numbers.extend(rows.take(MOST_ROWS));
        found.evidence.push(timed.evidence.clone());
    }
    Some(found)
}

fn uncounted_answer(run: &Explained<'_>, timed: Option<&Timed>, name: &str) -> Answered {
    if let Some(timed) = timed {
        let Timed { who, levels, .. } = timed;
        let words =
            |r: &str, name: &str| format!("{who}: {r} of what copying displaces from the {name}");
        let how = ", by timing and without counters";
        return Answered::of(most_gained(run, levels, how, words));
    }
    let reason = run.why_absent(Metric::both(LEVELS[0].1));
    let by_timing = match run.asked(Means::Footprint).map(|a| &a.refused) {
        Some(Some(refused)) => format!("nor timed: {refused}"),
        Some(None) => "and no pair of zero-copy and copying was timed".to_owned(),
        None => "--evidence footprint finds it by timing".to_owned(),
    };
    let why = format!("misses of the {name} are not counted: {reason}; {by_timing}");
    Answered::of(Err(why))
}

fn counted(run: &Explained<'_>) -> Answered {
    let of_levels = PairQuery {
        metrics: |_| LEVELS.map(|(_, m)| vec![Metric::both(m)]).to_vec(),
        ..ZERO_COPY
    };
    let asked = run.ask(&of_levels);
    let Some(first) = asked.aspects[0].first() else {
        let why = "no way without a copy was measured next to one that copies";
        return Answered::of(Err(why.to_owned()));
    };
    let of_first = |v: &&Versus<'_>| v.value() == first.value();
    let levels = LEVELS
        .iter()
        .zip(&asked.aspects)
        .filter_map(|((name, _), of)| {
            let ratio = over_sizes(run, &of.iter().filter(of_first).collect_vec())?;
            Some(((*name).to_owned(), ratio))
        });
    let levels: Vec<Level> = levels.collect();
    let who = Axis::Mover.subject(&first.value());
    let base = Axis::Mover.subject(&first.baseline.cell().value(Axis::Mover));
    let words = |r: &str, name: &str| {
        format!("{who} has {r} of the load misses per KiB of {base} in the {name}")
    };
    let has_amounts = asked.all().all(|v| v.pair.has_amount());
    let answer = if is_no_zero_copy(run, &first.other.trials.id) {
        Err(withheld(run))
    } else if has_amounts {
        most_gained(run, &levels, "", words)
    } else {
        Err("amounts are withheld, and levels differ in these alone".to_owned())
    };
    Answered::of(answer)
}

/// The mean ratio over several sizes, of the blocks that have them all.
fn over_sizes(run: &Explained<'_>, of: &[&Versus<'_>]) -> Option<Ratio> {
    let metric = of.first()?.pair.finding.metric;
    let pairings = of.iter().map(|v| v.pair.pairing).collect();
    let mean = PairsContrast::new(pairings, metric)?.mean(run.trials, None)?;
    Ratio::at(&mean, LEVEL)
}

fn most_gained(
    run: &Explained<'_>,
    levels: &[Level],
    how: &str,
    words: impl Fn(&str, &str) -> String,
) -> Result<String, String> {
    let least = levels.iter().min_by(|a, b| a.1.value.total_cmp(&b.1.value));
    let Some((name, best)) = least else {
        return Err("hits cannot be told from misses here, or others use the cache as much".into());
    };
    let told = words(&phrases::ratio(best.value, best.low, best.high), name);
    let gains = 1.0 / (1.0 + run.input.manifest.study.smallest_effect);
    if levels.iter().all(|(_, ratio)| ratio.high >= gains) {
        let best = format!("none was shown to gain{how}: {told}, where it does best.");
        return Ok(best);
    }
    let mut others = levels.iter().filter(|(other, _)| other != name);
    match others.all(|(_, ratio)| best.high < ratio.low) {
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
    fn of(run: &Explained<'_>) -> Option<Timed> {
        let ways = run.footprints.iter().filter_map(|f| {
            let mut all = run.trials.moving();
            Some((run.way(all.find(|c| c.id == f.cell)?), f))
        });
        let ways = ways.collect_vec();
        let place = |w: &MeasuredWay<'_>| w.cell().id_without(&[Axis::Mover]);
        let pairs = ways.iter().cartesian_product(&ways);
        let pairs = pairs.filter(|((one, _), (other, _))| {
            (ZERO_COPY.pairs)(*one, *other) && place(one) == place(other)
        });
        let pairs = pairs.map(|((one, copying), (other, zero))| {
            let [one, other] = [one, other].map(|w| &w.cell().mover);
            (
                format!("`{other}` compared with `{one}`"),
                (*zero, *copying),
            )
        });
        let (who, pairs) = grouped(pairs).into_iter().next()?;
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
    let mut all = both.iter().flat_map(|(a, b)| [a, b]);
    let missing = all.find_map(|l| l.missing.as_ref());
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
    let sizes = [zero.primed_bytes, zero.size_bytes, copying.moved_bytes];
    let [primed, size, moved] = sizes.map(units::bytes_in_words);
    let times = phrases::ratio(ratio.value, ratio.low, ratio.high);
    let [zero, copying] = [*zero, *copying].map(kib);
    let told = format!(
        "{name}, {primed} primed of {size}: {times} of what copying displaces; in the first place {zero} and {copying} KiB for each {moved} moved"
    );
    levels.push((name, ratio));
    told
}

fn how_far(cells: &[&CellFootprint]) -> String {
    let idle = |l: &LevelFootprint| {
        let kib = l.idle_kib.as_ref()?.value;
        Some(1024.0 * kib / (l.primed_bytes as f64).max(1.0))
    };
    let idle = cells.iter().flat_map(|c| &c.levels).filter_map(idle);
    let idle = phrases::percent(idle.fold(0.0, f64::max));
    let cells = phrases::count(cells.len(), "cell");
    format!(
        "prime and probe on the CPU of the first sending thread, in trials of their own: {cells}; as much time in which nothing is moved displaces at most {idle} of a set"
    )
}
