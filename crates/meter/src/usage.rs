//! What getrusage(2) counts, whoever tells it: the kernel, or `/proc` of another process.

use bytecost_spec::{Counter, Reading};
use bytecost_sys::process::ThreadUsage;

use crate::grown_if_read;

/// The counters of a usage, which exist of a thread and of a process as a whole.
pub const PROCESS_COUNTERS: &[Counter] = &[
    Counter::UserNs,
    Counter::SystemNs,
    Counter::ContextSwitchesVoluntary,
    Counter::ContextSwitchesInvoluntary,
    Counter::PageFaultsMinor,
    Counter::PageFaultsMajor,
];

pub(crate) const NO_USAGE: &str =
    "getrusage is refused: let the seccomp filter of the container pass it";

/// What a usage says of a counter; none of one that is not of [`PROCESS_COUNTERS`].
pub(crate) fn value(usage: &ThreadUsage, counter: Counter) -> Option<u64> {
    Some(match counter {
        Counter::UserNs => usage.user_ns,
        Counter::SystemNs => usage.system_ns,
        Counter::ContextSwitchesVoluntary => usage.switches_voluntary,
        Counter::ContextSwitchesInvoluntary => usage.switches_involuntary,
        Counter::PageFaultsMinor => usage.faults_minor,
        Counter::PageFaultsMajor => usage.faults_major,
        _ => return None,
    })
}

/// The increase of a counter between two usages, where it is theirs; absent where one was not read.
pub(crate) fn between(
    counter: Counter,
    start: Option<&ThreadUsage>,
    end: Option<&ThreadUsage>,
    unread: &str,
) -> Option<Reading> {
    let of = |usage: Option<&ThreadUsage>| value(usage?, counter);
    PROCESS_COUNTERS
        .contains(&counter)
        .then(|| grown_if_read(of(start), of(end), unread))
}
