//! Caches in words: which level gains, what threads do to it, and where an access steps up.

use bytecost_analysis::{AccessCost, CacheLevel, Fact, LevelFootprint, LevelRatio};
use bytecost_spec::host::CpuCache;
use bytecost_spec::units::{bytes_in_words, number};
use bytecost_spec::{HugePages, Measure};
use itertools::Itertools as _;

use super::why::{AnswerParts, Seen, Why};
use crate::{no_value, phrases};

/// Threads of one flow: one sends, one receives.
const THREADS_OF_A_FLOW: usize = 2;

pub(super) fn name(level: CacheLevel) -> String {
    match level {
        CacheLevel::L1Data => "L1 data cache".to_owned(),
        CacheLevel::Last => "last level cache".to_owned(),
        CacheLevel::Number(number) => format!("L{number} cache"),
    }
}

/// With a CPU for each thread, and with most flows of all.
pub(super) fn with_threads(why: &Why<'_>) -> AnswerParts {
    let host = &why.a.host;
    let cpus = host.usable_cpus();
    let misses_in_words = |v: &Seen<'_>| {
        let level = match v.finding.metric.measure {
            Measure::L1dLoadMissesPerKib => CacheLevel::L1Data,
            _ => CacheLevel::Last,
        };
        format!("{} in the {}", v.amount(), name(level))
    };
    let by_flows = (why.pairs.iter())
        .map(|v| (v.cell.threads as usize, misses_in_words(v)))
        .into_group_map();
    let by_flows = Vec::from_iter(by_flows.into_iter().sorted());
    let fits = |flows: usize| THREADS_OF_A_FLOW * flows <= cpus;
    let clause = |head: &str, (flows, misses): &(usize, Vec<String>)| {
        let misses = phrases::list(misses);
        format!("{head} from 1 flow to {flows} flows the load misses per KiB become {misses}")
    };
    let alone = by_flows.iter().rev().find(|(flows, _)| fits(*flows));
    let crowded = by_flows.last().filter(|(flows, _)| !fits(*flows));
    let clauses = [
        alone.map(|of| clause("with a CPU for each thread,", of)),
        crowded.map(|of| clause("with threads that take turns on the CPUs,", of)),
    ];
    let flows = phrases::count(cpus / THREADS_OF_A_FLOW, "flow");
    let cpus = phrases::count(cpus, "CPU");
    AnswerParts {
        answer: format!("{}.", clauses.into_iter().flatten().format("; ")),
        numbers: Vec::new(),
        evidence: vec![format!(
            "{cpus}, {THREADS_OF_A_FLOW} threads a flow: up to {flows} each thread has a CPU"
        )],
    }
}

pub(super) fn gains_most(why: &Why<'_>) -> AnswerParts {
    let facts = &why.explanation.facts;
    AnswerParts {
        answer: facts.iter().find_map(level).unwrap_or_default(),
        numbers: (facts.iter())
            .filter_map(|fact| displaced(why, fact))
            .collect(),
        evidence: idle(why).into_iter().collect(),
    }
}

fn level(fact: &Fact) -> Option<String> {
    let Fact::Levels {
        way,
        baseline,
        by_timing,
        is_shown,
        levels,
    } = fact
    else {
        return None;
    };
    let value = |level: &&LevelRatio| level.ratio.value;
    let least = (levels.iter()).min_by(|a, b| value(a).total_cmp(&value(b)))?;
    let ratio = phrases::ratio(least.ratio.value, least.ratio.low, least.ratio.high);
    let level = name(least.level);
    let means = if *by_timing {
        ", by timing and without counters"
    } else {
        ""
    };
    let gain = if *by_timing {
        format!("`{way}` displaces {ratio} of what `{baseline}` does from the {level}")
    } else {
        format!("`{way}` has {ratio} of the load misses per KiB of `{baseline}` in the {level}")
    };
    Some(if *is_shown {
        format!("the {level}{means}: {gain}.")
    } else {
        format!("none was shown to gain{means}: {gain}, where it does best.")
    })
}

/// Displacement from a cache level by each way, by timing.
fn displaced(why: &Why<'_>, fact: &Fact) -> Option<String> {
    let Fact::Displaced {
        level,
        cells,
        ratio,
        missing,
    } = fact
    else {
        return None;
    };
    let name = name(CacheLevel::Number(*level));
    let displacement = match (missing, ratio) {
        (Some(reason), _) => format!("{name}: {}", no_value::words(reason)),
        (None, None) => format!(
            "{name}: copying displaces hardly more from it than goes in as much time in which nothing is moved"
        ),
        (None, Some(ratio)) => {
            let [zero, copying] = cells.first()?;
            let zero = footprint(why, zero, *level)?;
            let copying = footprint(why, copying, *level)?;
            let sizes = [zero.primed_bytes, zero.size_bytes, copying.moved_bytes];
            let [primed, size, moved] = sizes.map(bytes_in_words);
            let times = phrases::ratio(ratio.value, ratio.low, ratio.high);
            let [zero, copying] = [zero, copying].map(|l| match &l.displaced_kib {
                Some(kib) => format!("{:.1}", kib.value),
                None => "?".to_owned(),
            });
            format!(
                "{name}, {primed} primed of {size}: {times} of what copying displaces; in the first place {zero} and {copying} KiB for each {moved} moved"
            )
        }
    };
    Some(format!("by timing, {displacement}"))
}

fn footprint<'a>(why: &Why<'a>, cell: &str, level: u32) -> Option<&'a LevelFootprint> {
    let cell = why.a.footprints.iter().find(|f| f.cell == cell)?;
    cell.levels.iter().find(|l| l.level == level)
}

/// Method of the timing of caches, and the displacement by time alone; none where caches were not
/// timed.
fn idle(why: &Why<'_>) -> Option<String> {
    let cells = why.explanation.facts.iter().find_map(|fact| match fact {
        Fact::Displaced { cells, .. } => Some(cells),
        _ => None,
    })?;
    let is_of = |cell: &String| cells.iter().flatten().contains(cell);
    let footprints = why.a.footprints.iter().filter(|f| is_of(&f.cell));
    let levels = footprints.flat_map(|f| &f.levels);
    let idle = levels.filter_map(|l| {
        let kib = l.idle_kib.as_ref()?.value;
        Some(1024.0 * kib / (l.primed_bytes as f64).max(1.0))
    });
    let idle = phrases::percent(idle.fold(0.0, f64::max));
    let cells = phrases::count(2 * cells.len(), "cell");
    Some(format!(
        "prime and probe on the CPU of the first sending thread, in trials of their own: {cells}; as much time in which nothing is moved displaces at most {idle} of a set"
    ))
}

/// The rise of an access's cost from one working set to another.
#[derive(Clone, Copy)]
struct Step {
    from: AccessCost,
    to: AccessCost,
}

pub(super) fn steps(why: &Why<'_>) -> AnswerParts {
    let of_data = why.a.host.caches.iter().filter(|c| c.kind != "Instruction");
    let caches: Vec<&CpuCache> = (of_data.unique_by(|c| c.level))
        .sorted_by_key(|c| c.size_bytes)
        .collect();
    let facts = &why.explanation.facts;
    let kinds = facts
        .iter()
        .filter(|fact| matches!(fact, Fact::Steps { .. }));
    let is_one_kind = kinds.count() == 1;
    let mut numbers = Vec::new();
    let mut evidence = Vec::new();
    let mut answers = Vec::new();
    for fact in facts {
        let Fact::Steps {
            pages,
            costs,
            steps: ends,
        } = fact
        else {
            continue;
        };
        let of_pages = match pages {
            // A single kind of pages is not named.
            _ if is_one_kind => "",
            HugePages::Auto => "in the system's pages, ",
            HugePages::Off => "in small pages, ",
            HugePages::On => "in huge pages, ",
        };
        let step_at = |[from, to]: &[usize; 2]| Step {
            from: costs[*from],
            to: costs[*to],
        };
        let steps = ends.iter().map(step_at).collect_vec();
        let answer = format!("{of_pages}{}", by_cache(costs, &steps, &caches));
        answers.push(phrases::capital(&answer));
        for s in &steps {
            numbers.push(format!("{of_pages}{}", step(s, &caches)));
        }
        for c in costs {
            let [ns, low, high] = [c.ns.value, c.ns.low, c.ns.high].map(number);
            let size = bytes_in_words(c.bytes);
            evidence.push(format!(
                "{of_pages}{size}: {ns} ns (95 % interval {low} to {high})"
            ));
        }
    }
    AnswerParts {
        answer: answers.join(" "),
        numbers,
        evidence,
    }
}

/// Returns true if a step begins below twice a cache and ends above half of it.
fn is_of(step: &Step, cache: &CpuCache) -> bool {
    step.from.bytes < cache.size_bytes.saturating_mul(2) && step.to.bytes > cache.size_bytes / 2
}

fn named(cache: &CpuCache) -> String {
    format!("L{} of {}", cache.level, bytes_in_words(cache.size_bytes))
}

fn step(step: &Step, caches: &[&CpuCache]) -> String {
    let mut names = caches.iter().filter(|c| is_of(step, c)).map(|c| named(c));
    let place = match names.join(" and the ").as_str() {
        "" => "no cache that the kernel reports is of that size".to_owned(),
        names => format!("where the kernel reports the {names}"),
    };
    let ends = [step.from, step.to];
    let [from, to] = ends.map(|c| bytes_in_words(c.bytes));
    let [less, more] = ends.map(|c| number(c.ns.value));
    format!("from {from} to {to} an access goes from {less} to {more} ns: {place}")
}

fn by_cache(costs: &[AccessCost], steps: &[Step], caches: &[&CpuCache]) -> String {
    let sizes = costs.iter().map(|c| c.bytes).minmax().into_option();
    let (least, most) = sizes.unwrap_or_default();
    let of_cache = |cache: &&CpuCache| {
        let size = cache.size_bytes;
        let place = match steps.iter().find(|s| is_of(s, cache)) {
            Some(step) => {
                let [from, to] = [step.from, step.to].map(|c| bytes_in_words(c.bytes));
                format!("found between {from} and {to}")
            }
            None if size < least || size.saturating_mul(2) > most => {
                "beyond the sizes that were measured".to_owned()
            }
            None => "no step is seen".to_owned(),
        };
        format!("{}: {place}", named(cache))
    };
    let mut parts = caches.iter().map(of_cache).collect_vec();
    let is_other = |s: &&Step| !caches.iter().any(|c| is_of(s, c));
    let others = steps.iter().filter(is_other).count();
    if others > 0 || parts.is_empty() {
        let other_steps = phrases::count(others, "step");
        parts.push(format!("{other_steps} where no cache is reported"));
    }
    format!("{}.", parts.join("; "))
}
