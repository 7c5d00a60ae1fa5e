//! Checks of this process: its tracer, nice value and scheduler class, and its resource limits.

use bytecost_spec::CircumstanceKind;
use bytecost_spec::units::bytes_in_words;

use super::{Assessment, CheckInput};
use crate::limits::PROCESS_LIMITS;
use crate::machine;

/// Threads and processes that eight flows take, with room for what starts meanwhile.
const ENOUGH_THREADS: u64 = 64;
/// Memory that eight flows with rings of 4 MiB at both ends take, and what a program needs besides.
const ENOUGH_BYTES: u64 = 1 << 30;
/// A thread reserves more of it than it uses.
const ENOUGH_ADDRESS_SPACE: u64 = 4 << 30;
/// The least stack of the first thread that is not remarkable.
const ENOUGH_STACK: u64 = 1 << 20;

pub(super) fn tracer(input: &CheckInput<'_>) -> Assessment {
    start(
        input,
        CircumstanceKind::Tracer,
        "none",
        "nothing stops threads at their system calls",
    )
}

pub(super) fn nice(input: &CheckInput<'_>) -> Assessment {
    start(input, CircumstanceKind::Nice, "0", "the usual one")
}

pub(super) fn class(input: &CheckInput<'_>) -> Assessment {
    start(
        input,
        CircumstanceKind::SchedulerClass,
        "SCHED_OTHER",
        "the usual one",
    )
}

/// The check of a circumstance among the host's obstacles.
fn start(input: &CheckInput<'_>, kind: CircumstanceKind, usual: &str, means: &str) -> Assessment {
    match input.host.obstacles.iter().find(|o| o.kind == kind) {
        Some(obstacle) => Assessment::disturbed(kind, obstacle.found.as_str()),
        None => Assessment::good(usual, means),
    }
}

pub(super) fn threads(input: &CheckInput<'_>) -> Assessment {
    let kind = CircumstanceKind::ThreadLimit;
    let Some(limit) = &input.host.threads_limit else {
        return Assessment::unknown("/proc has no limit", kind.row().means);
    };
    let found = format!("{} of {} left ({})", limit.left(), limit.limit, limit.name);
    if limit.left() >= ENOUGH_THREADS {
        Assessment::good(
            found,
            "a flow needs a thread on each side, and each side a process",
        )
    } else {
        Assessment::disturbed(kind, found)
    }
}

pub(super) fn limits(input: &CheckInput<'_>) -> Assessment {
    let kind = CircumstanceKind::ProcessLimit;
    let expected = [
        ("address space", ENOUGH_ADDRESS_SPACE),
        ("data", ENOUGH_BYTES),
        ("stack", ENOUGH_STACK),
    ];
    let mut found = Vec::new();
    let mut is_small = false;
    for (process_limit, (name, enough)) in PROCESS_LIMITS.iter().zip(expected) {
        let Some(limit) = machine::limit(input.roots, process_limit.row) else {
            continue;
        };
        found.push(match limit {
            Some(bytes) => format!("{name} {}", bytes_in_words(bytes)),
            None => format!("{name} without limit"),
        });
        is_small |= limit.is_some_and(|bytes| bytes < enough);
    }
    if found.is_empty() {
        return Assessment::unknown("/proc/self/limits has none", kind.row().means);
    }
    let words = found.join(", ");
    if is_small {
        Assessment::disturbed(kind, words)
    } else {
        Assessment::good(words, "payload and stacks fit")
    }
}
