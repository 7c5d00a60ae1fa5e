//! Checks of how this process was started, and of the limits that it has.

use bytecost_spec::CircumstanceKind;
use bytecost_spec::units::bytes_in_words;

use super::{CheckInput, Told};
use crate::limits::PROCESS_LIMITS;
use crate::machine;

/// Threads and processes that eight flows take, with room for what starts meanwhile.
const ENOUGH_THREADS: u64 = 64;
/// Memory that eight flows with rings of 4 MiB at both ends take, and what a program needs besides.
const ENOUGH_BYTES: u64 = 1 << 30;
/// The least stack of the first thread that is not remarkable.
const ENOUGH_STACK: u64 = 1 << 20;

pub(super) fn tracer(seen: &CheckInput<'_>) -> Told {
    start(
        seen,
        CircumstanceKind::Tracer,
        "none",
        "nothing stops threads at their system calls",
    )
}

pub(super) fn nice(seen: &CheckInput<'_>) -> Told {
    start(seen, CircumstanceKind::Nice, "0", "the usual one")
}

pub(super) fn class(seen: &CheckInput<'_>) -> Told {
    start(
        seen,
        CircumstanceKind::SchedulerClass,
        "SCHED_OTHER",
        "the usual one",
    )
}

fn start(seen: &CheckInput<'_>, kind: CircumstanceKind, usual: &str, means: &str) -> Told {
    match seen.host.obstacles.iter().find(|o| o.kind == kind) {
        Some(obstacle) => Told::disturbed(kind, obstacle.found.as_str()),
        None => Told::good(usual, means),
    }
}

pub(super) fn threads(seen: &CheckInput<'_>) -> Told {
    let kind = CircumstanceKind::ThreadLimit;
    let Some(limit) = &seen.host.threads_limit else {
        return Told::unknown("/proc has no limit", kind.row().means);
    };
    let found = format!("{} of {} left ({})", limit.left(), limit.limit, limit.name);
    if limit.left() >= ENOUGH_THREADS {
        Told::good(
            found,
            "a flow needs a thread on each side, and each side a process",
        )
    } else {
        Told::disturbed(kind, found)
    }
}

pub(super) fn limits(seen: &CheckInput<'_>) -> Told {
    let kind = CircumstanceKind::ProcessLimit;
    let enough = [
        ("address space", ENOUGH_BYTES),
        ("data", ENOUGH_BYTES),
        ("stack", ENOUGH_STACK),
    ];
    let rows = PROCESS_LIMITS.iter().zip(enough);
    let read = rows.filter_map(|(of, (name, enough))| {
        let limit = machine::limit(seen.roots, of.row)?;
        Some((name, limit, enough))
    });
    let read: Vec<_> = read.collect();
    if read.is_empty() {
        return Told::unknown("/proc/self/limits has none", kind.row().means);
    }
    let words = read.iter().map(|(name, limit, _)| match limit {
        Some(bytes) => format!("{name} {}", bytes_in_words(*bytes)),
        None => format!("{name} without limit"),
    });
    let found = words.collect::<Vec<String>>().join(", ");
    let is_small =
        |(_, limit, enough): &(&str, Option<u64>, u64)| limit.is_some_and(|n| n < *enough);
    if read.iter().any(is_small) {
        Told::disturbed(kind, found)
    } else {
        Told::good(found, "payload and stacks fit")
    }
}
