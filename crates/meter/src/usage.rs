//! The counters of getrusage(2), which are read by it or, for another process, from `/proc`.

use bytecost_spec::{Counter, Reading};
use bytecost_sys::process::ThreadUsage;

use crate::increase_if_read;

type FieldOfUsage = fn(&ThreadUsage) -> u64;

/// The counters of a usage, which exist of a thread and of a process as a whole.
pub(crate) const OF_PROCESS: [(Counter, FieldOfUsage); 6] = [
    (Counter::UserNs, |u| u.user_ns),
    (Counter::SystemNs, |u| u.system_ns),
    (Counter::ContextSwitchesVoluntary, |u| u.switches_voluntary),
    (Counter::ContextSwitchesInvoluntary, |u| {
        u.switches_involuntary
    }),
    (Counter::PageFaultsMinor, |u| u.faults_minor),
    (Counter::PageFaultsMajor, |u| u.faults_major),
];

pub(crate) const NO_USAGE: &str =
    "getrusage is refused: let the seccomp filter of the container pass it";

/// Returns true for a counter that the kernel has of a process as a whole.
pub fn is_of_process(counter: Counter) -> bool {
    OF_PROCESS.iter().any(|(known, _)| *known == counter)
}

/// The increase of a counter between two usages, absent if one was not read; none for a counter that a
/// usage does not have.
pub(crate) fn between(
    counter: Counter,
    start: Option<&ThreadUsage>,
    end: Option<&ThreadUsage>,
    unread: &str,
) -> Option<Reading> {
    let (_, field) = OF_PROCESS.iter().find(|(known, _)| *known == counter)?;
    Some(increase_if_read(start.map(field), end.map(field), unread))
}
