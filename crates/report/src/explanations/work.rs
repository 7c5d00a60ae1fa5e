//! Evidence about work, files and servers that is not a comparison, in words.

use std::ops::RangeInclusive;

use bytecost_analysis::{CellResult, Fact, KERNEL_STACK_BYTES, Verdict};
use bytecost_spec::{Axis, Cache, Cell, Class, Measure, Metric, Nearness, Placement, Value, units};
use itertools::Itertools as _;

use super::why::{AnswerParts, Seen, Why, hull};
use crate::phrases;

/// Note that a cold page cache was not measured for ways to read a file, with the reason.
pub(super) fn no_cold_cache(why: &Why<'_>) -> Vec<String> {
    let cells = || why.pairs.iter().flat_map(|v| [v.baseline, v.cell]);
    if why.pairs.is_empty() || why.pairs.iter().any(|v| v.cell.cache == Cache::Cold) {
        return Vec::new();
    }
    let is_cold = |c: &Cell| c.cache == Cache::Cold && cells().any(|o| o.mover == c.mover);
    let reason = match refused(why, is_cold) {
        Some(reason) => format!(": {reason}"),
        None => " (--cache cold)".to_owned(),
    };
    vec![format!("a cold page cache was not measured{reason}")]
}

/// The reason for which a fitting cell was refused, without its full stop.
fn refused(why: &Why<'_>, fits: impl Fn(&Cell) -> bool) -> Option<String> {
    let mut refused = why.a.refused_cells.iter();
    let refusal = refused.find(|r| fits(&r.cell))?;
    Some(phrases::without_stop(&refusal.why).to_owned())
}

/// CPU time of the clients for a request and the share of the window in which they were busy, with the fewest
/// and the most connections.
pub(super) fn clients_share(why: &Why<'_>) -> AnswerParts {
    let row = |fact: &Fact| {
        let Fact::ClientWork {
            connections,
            cpu_us,
            busy,
        } = fact
        else {
            return None;
        };
        let with = Axis::Connections.circumstance(&Value::Count(u64::from(*connections)));
        let cpu = phrases::from_to(cpu_us.map(units::number));
        let busy = phrases::from_to(busy.map(phrases::percent));
        let took = format!("{with} {cpu} µs of CPU time for each request");
        Some(format!("{took}, busy {busy} of the window"))
    };
    let rows: Vec<String> = why.explanation.facts.iter().filter_map(row).collect();
    let ends = [rows.first(), rows.last()].into_iter().flatten().unique();
    AnswerParts {
        answer: format!("{}.", ends.format("; ")),
        // The answer has the first and the last row; rows are shown only if there are more.
        numbers: if rows.len() > 2 { rows } else { Vec::new() },
        evidence: vec!["the CPU time of the clients' process, and the time in which its busiest thread was busy".to_owned()],
    }
}

pub(super) fn memory(why: &Why<'_>) -> AnswerParts {
    // Servers that have a thread or process for each connection, or those that have none.
    let servers = |with_tasks: bool| {
        let facts = why.explanation.facts.iter();
        phrases::list(facts.filter_map(move |fact| match fact {
            Fact::ConnectionMemory {
                server,
                kib,
                has_tasks,
            } if *has_tasks == with_tasks => {
                Some(format!("{} KiB with `{server}`", units::number(*kib)))
            }
            _ => None,
        }))
    };
    let with = servers(true);
    let stack_kib = KERNEL_STACK_BYTES / 1024.0;
    let compared = match servers(false).as_str() {
        "" => String::new(),
        without => format!(", compared with {without}"),
    };
    AnswerParts {
        answer: format!("each further connection takes {with}{compared}."),
        numbers: Vec::new(),
        evidence: vec![format!(
            "anonymous memory and page tables of all processes, and a kernel stack of {stack_kib:.0} KiB for each thread; not the sockets' own memory, which is alike for all"
        )],
    }
}

pub(super) fn shared_core(why: &Why<'_>) -> AnswerParts {
    let cores = why.explanation.facts.iter().filter_map(|fact| {
        let Fact::Core {
            placement,
            is_shared,
        } = fact
        else {
            return None;
        };
        let finding = match is_shared {
            Some(true) => "two CPUs seem to share a core: a step costs more CPU time when both work",
            Some(false) => {
                "each CPU seems to have a core of its own: when both work, a step costs less than 12 % more CPU time"
            }
            None => "it is not decided whether the CPUs share a core",
        };
        Some(format!("with placement {placement} {finding}"))
    });
    let hypervisor = why.a.host.virtualization.iter();
    let evidence = hypervisor.map(|by| {
        format!("under {by}: which of the host's threads a CPU is may change from run to run")
    });
    AnswerParts {
        answer: format!("{}.", cores.format("; ")),
        numbers: Vec::new(),
        evidence: evidence.collect(),
    }
}

/// Rate at which free threads moved between CPUs.
pub(super) fn moves(why: &Why<'_>) -> Vec<String> {
    let free = why.pairs.iter().map(|v| v.baseline);
    let migrations = why.estimates(free, Metric::both(Measure::MigrationsPerS));
    let line = |moves| format!("moves of free threads between CPUs: {moves}");
    migrations.map(line).into_iter().collect()
}

/// Ratios that count as 2: two threads that take turns on one CPU take twice as long as on two CPUs.
const RATIOS_OF_TURNS: RangeInclusive<f64> = 1.9..=2.1;

pub(super) fn turns(why: &Why<'_>) -> AnswerParts {
    let are_siblings = |c: &Cell| c.placement == Placement::Near(Nearness::SmtSibling);
    let pairs = why.pairs.iter();
    let (shared, apart): (Vec<_>, Vec<_>) = pairs.partition(|v| are_siblings(v.cell));
    let ratio = |of: &[&Seen<'_>]| {
        let known = of.iter().filter(|v| v.has_amount()).copied().collect_vec();
        (!known.is_empty()).then(|| hull(&known))
    };
    let mark = if apart.iter().all(|v| RATIOS_OF_TURNS.contains(&v.ratio[0])) {
        ", so that a ratio of run times near 2 has the mark of taking turns"
    } else {
        ""
    };
    let verdict = if shared.iter().all(|v| v.is(Verdict::Better)) {
        "which is more: a core is shared there, and no CPU"
    } else {
        "which is not decided to be more: they may as well take turns"
    };
    let clauses = [
        ratio(&apart).map(|r| {
            format!("on two CPUs two threads get done {r} what they do by turns on one logical CPU{mark}")
        }),
        ratio(&shared).map(|r| format!("on the siblings of one core {r}, {verdict}")),
    ];
    let evidence = refused(why, are_siblings)
        .map(|why| format!("two threads of one core are not available: {why}"));
    AnswerParts {
        answer: format!("{}.", clauses.into_iter().flatten().format("; ")),
        numbers: Vec::new(),
        evidence: evidence.into_iter().collect(),
    }
}

pub(super) fn huge_pages() -> Vec<String> {
    let lines = [
        "which pages the memory lay in was read in /proc/self/smaps before each trial, and a trial whose memory lay in others failed",
        "an entry of the translation buffers (TLB) covers one page: beyond what all of them cover, an access must also find out where its page is, and a huge page is worth as many small ones as fit into it",
    ];
    lines.map(str::to_owned).to_vec()
}

pub(super) fn limits(why: &Why<'_>) -> Vec<String> {
    let is_limit = |c: &Cell| c.class == Class::Deadline || c.cgroup.quota_percent.is_some();
    let any = why.pairs.iter().any(|v| is_limit(v.cell));
    let line = "a deadline thread and a quota are limits as well: alone work gets done no more with them than they allow";
    any.then(|| line.to_owned()).into_iter().collect()
}

pub(super) fn throttled(why: &Why<'_>) -> Vec<String> {
    let is_of_pairs = |c: &&CellResult| why.pairs.iter().any(|v| v.cell.mover == c.cell.mover);
    let lines = why.a.cells.iter().filter(is_of_pairs).filter_map(|c| {
        let share = c.estimates.get(&Metric::both(Measure::ThrottledShare))?;
        let held = [Axis::Mover, Axis::Cgroup, Axis::Background].map(|a| (a, c.cell.value(a)));
        let place = phrases::circumstances(&held);
        let share = phrases::percent(share.value);
        Some(format!(
            "{place}: the quota held it back for {share} of the time"
        ))
    });
    lines.unique().collect()
}
