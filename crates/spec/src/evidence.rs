//! Evidence: observations of the kernel while a cell's messages are moved, in trials of their own.

use serde::{Deserialize, Serialize};

use crate::sample::TrialKey;

mod accounts;
mod counted;

pub use accounts::{CPU_USERS, CpuAccounts, CpuLine, CpuUser, CpuUserRow};
pub use counted::{
    Copied, CopiedBytes, CopyMeans, CopyPlace, CountedEvent, CountedFor, EVENTS, EventCount,
    EventRow,
};

words! {
    /// A method of gathering evidence.
    pub enum Means {
        /// CPU time by kind of work, by sampling.
        Time,
        /// Number of copies of each byte, by place.
        Copies,
        /// Number of calls, context switches, page faults and packets; CPU time of every process.
        Counts,
        /// Cache lines that moving messages displaces, by timing.
        Footprint,
    }
}

impl Means {
    /// The means that a run uses without being asked, where they are permitted: they cost little.
    pub const BY_DEFAULT: &[Means] = &[Means::Copies, Means::Counts];
}

/// A means of evidence of a run, or the reason why it is not available.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EvidenceAsked {
    /// The means.
    pub means: Means,
    /// The reason why it is not available on this host; none where it is.
    pub refused: Option<String>,
    /// True if no option asked for it, so that it may take [`UNASKED_SHARE`] of the budget at most.
    #[serde(default, skip_serializing_if = "crate::defaults::is_default")]
    pub unasked: bool,
}

/// Fewest trials of a cell whose counts are compared: fewer give no useful interval.
pub const COUNTED_TRIALS: usize = 5;

/// The share of the budget that evidence may take if no option asked for it.
pub const UNASKED_SHARE: f64 = 0.1;

rows! {
    /// A kind of work that CPU time is spent on.
    enum Kind;
    /// A row of the table of kinds.
    struct KindRow {
        kind,
        /// Its noun in figures and sentences.
        title: &'static str,
        /// The work that belongs to it.
        summary: &'static str,
    }
    /// All kinds, in the order in which figures stack them, the copying of bytes first.
    const KINDS;
    DataCopy "data-copy" { title: "data copy", summary: "loops that copy payload between user memory, kernel memory and the page cache" }
    Pinning "pinning" { title: "page pinning and completion", summary: "taking hold of user pages and giving them back, and telling that it is over" }
    Skb "skb" { title: "skb management", summary: "making, filling, cloning and freeing packets' buffers" }
    Memory "memory" { title: "memory", summary: "allocating and freeing memory, page tables, memory accounting" }
    Protocol "protocol" { title: "TCP/IP", summary: "TCP, IP, UDP and Unix sockets: segments, acknowledgements, timers, routing, filters" }
    Device "device" { title: "device and softirq", summary: "queueing to a device, soft interrupts, receive processing, interrupts" }
    Socket "socket" { title: "socket and locks", summary: "socket layer, locks and their waits" }
    Scheduling "scheduling" { title: "scheduling and wake-ups", summary: "waking, sleeping, switching, waiting for descriptors, timers" }
    Entry "entry" { title: "system-call entry", summary: "entering and leaving the kernel, finding descriptors, io_uring's own work" }
    Files "files" { title: "file system and page cache", summary: "page cache, file systems, pipes and splice, block devices" }
    User "user" { title: "user", summary: "outside of the kernel: the loop and the mover themselves" }
    Unattributed "unattributed" { title: "unattributed", summary: "functions that the map does not know" }
}

impl Kind {
    /// The kind of that name.
    pub fn named(name: &str) -> Option<Kind> {
        KINDS.iter().find(|r| r.name == name).map(|r| r.kind)
    }
}

/// The owner of CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Party {
    /// The sending process, or the process that works on a file.
    Sender,
    /// The receiving process.
    Receiver,
    /// Everything else: kernel threads, interrupts of idle CPUs, other processes.
    Rest,
}

/// CPU samples with the same owner, kind of work and function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CpuSamples {
    /// The owner of the time.
    pub party: Party,
    /// The kind of work, by the table of functions of this version.
    pub kind: Kind,
    /// The function that the kind was taken from; empty in user code.
    pub function: String,
    /// Number of samples.
    pub count: u64,
    /// Number of them that hit another function, which enables interrupts again or serves all kinds of
    /// work, and that were attributed to this one by their call chain.
    pub moved: u64,
}

/// The CPU time of one trial by kind of work, from samples of the CPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TimeByKind {
    /// Time between two samples of a CPU, in ns.
    pub every_ns: u64,
    /// Length of the window that was sampled, in ns.
    pub elapsed_ns: u64,
    /// Samples of busy CPUs, grouped; most first.
    pub looks: Vec<CpuSamples>,
    /// Samples of idle CPUs.
    pub idle: u64,
    /// Samples that were lost because the buffer was full.
    pub lost: u64,
}

/// The cache lines that moving messages displaced on the CPU of the sending thread, by prime and
/// probe: a working set is read until it is cached, messages are moved, and each of its lines is
/// then timed (after Osvik, Shamir and Tromer, CT-RSA 2006). Only the first flow is probed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Footprint {
    /// One probe for each data cache of the CPU, nearest first.
    pub levels: Vec<LevelProbe>,
}

/// The probes of one cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LevelProbe {
    /// 1, 2, 3 …
    pub level: u32,
    /// The cache's size, as the kernel reports it.
    pub size_bytes: u64,
    /// The working set that was primed.
    pub primed_bytes: u64,
    /// Lines of it that are timed; each stands for as large a part of the set.
    pub lines: u32,
    /// The distinction of hits and misses; absent with a reason where they cannot be distinguished.
    pub calibration: Calibration,
    /// The rounds of probing, in their order.
    pub rounds: Vec<ProbeRound>,
}

/// The distinction of hits and misses of a cache, made within the trial itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// The bound of one timing: a line that takes more ticks counts as so many. An access beyond the
    /// next cache and one that an interrupt delayed count as displaced, and no more.
    pub most_ticks: u32,
    /// Ticks of all lines together if nothing runs between priming and probing, one number a round.
    pub hit_ticks: Vec<u64>,
    /// Ticks of all lines together if twice the cache's size is read between priming and probing.
    pub miss_ticks: Vec<u64>,
    /// The reason why hits and misses cannot be distinguished; there are then no rounds.
    pub refused: Option<String>,
}

/// One round: primed, moved and probed; and primed, idle for as long and probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProbeRound {
    /// Messages that were moved.
    pub messages: u64,
    /// Payload bytes that were moved.
    pub bytes: u64,
    /// Ticks of all lines together after moving.
    pub ticks: u64,
    /// Ticks of all lines together after an idle time of the same length.
    pub idle_ticks: u64,
}

/// The evidence of one trial. Its times are not compared, because observation changes them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TrialEvidence {
    /// The trial; its block is the means of evidence, its attempt counts the cell's trials of it.
    pub trial: TrialKey,
    /// [`crate::Cell::id`] of its cell.
    pub cell: String,
    /// Start of the trial, since the start of the run.
    pub started_ms: u64,
    /// Payload bytes that the sending side moved within the window.
    pub sent_bytes: u64,
    /// Messages that the sending side moved within the window.
    pub sent_messages: u64,
    /// Duration of the whole trial, set-up included.
    pub trial_ms: u64,
    /// Length of the sending side's window.
    pub elapsed_ns: u64,
    /// CPU time by kind of work, if the trial sampled it.
    pub time: Option<TimeByKind>,
    /// Copied bytes, if the trial counted them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<CopiedBytes>,
    /// Counted events, if the trial counted them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counts: Vec<EventCount>,
    /// CPU time of every process in the window, if the trial counted events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accounts: Option<CpuAccounts>,
    /// Displaced cache lines of the sending CPU, if the trial probed them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub footprint: Option<Footprint>,
}
