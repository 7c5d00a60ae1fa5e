//! What getrusage(2) counts, whoever tells it: the kernel, or `/proc` of another process.

use bytecost_spec::{Counter, Reading};
use bytecost_sys::process::ThreadUsage;

use crate::grown_if_read;

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

/// Whether a counter exists of a process as a whole, and is not the sum of its threads'.
pub fn is_of_process(counter: Counter) -> bool {
    OF_PROCESS.iter().any(|(of, _)| *of == counter)
}

/// The increase of a counter between two usages, where it is theirs; absent where one was not read.
pub(crate) fn between(
    counter: Counter,
    start: Option<&ThreadUsage>,
    end: Option<&ThreadUsage>,
    unread: &str,
) -> Option<Reading> {
    let (_, of) = OF_PROCESS.iter().find(|(of, _)| *of == counter)?;
    Some(grown_if_read(start.map(of), end.map(of), unread))
}
