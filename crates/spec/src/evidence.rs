//! Evidence: what the kernel did while a cell's messages were moved, from trials of its own.

use serde::{Deserialize, Serialize};

use crate::sample::TrialKey;

mod accounts;
mod counted;

pub use accounts::{CPU_USERS, CpuAccounts, CpuLine, CpuUser, CpuUserRow};
pub use counted::{
    Copied, CopiedBytes, CopyMeans, CopyPlace, CountedEvent, EVENTS, EventCount, EventOf, EventRow,
};

words! {
    /// A means of evidence.
    pub enum Means {
        /// Where the CPU time goes, by kind of work.
        Time,
        /// How often each byte is copied, and where.
        Copies,
        /// What else a message takes: calls, switches, faults, packets; and who used the CPUs.
        Counts,
        /// Which lines of the caches are displaced, found by timing.
        Footprint,
    }
}

impl Means {
    /// Those that a run gathers unasked, where that is permitted: they cost little.
    pub const BY_DEFAULT: &[Means] = &[Means::Copies, Means::Counts];
}

/// A means of evidence that a run was asked for, and why it cannot be had where it cannot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EvidenceAsked {
    /// Which.
    pub means: Means,
    /// Why not, where it cannot be had here.
    pub refused: Option<String>,
    /// Whether nobody asked for it, so that it may take [`UNASKED_SHARE`] of the budget at most.
    #[serde(default, skip_serializing_if = "crate::usual::is_usual")]
    pub unasked: bool,
}

/// Trials of a cell whose counts are compared: with fewer there is no interval worth the name.
pub const COUNTED_TRIALS: usize = 5;

/// What evidence that nobody asked for may take, as a share of the budget.
pub const UNASKED_SHARE: f64 = 0.1;

rows! {
    /// A kind of work that CPU time goes into.
    enum Kind;
    /// A row of the table of kinds.
    struct KindRow {
        kind,
        /// What it is called in figures and sentences.
        title: &'static str,
        /// What belongs to it.
        summary: &'static str,
    }
    /// All kinds, in the order in which figures stack them: the bytes themselves first.
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

/// Whose time it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Party {
    /// The sending process, or the one that works on a file.
    Sender,
    /// The receiving process.
    Receiver,
    /// Everything else that ran: kernel threads, interrupts of idle CPUs, other processes.
    Rest,
}

/// Looks at the CPUs that found the same work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Looks {
    /// Whose time it was.
    pub party: Party,
    /// The kind of work, by the map that this version has.
    pub kind: Kind,
    /// The function that the kind was taken from; empty in user code.
    pub function: String,
    /// How many looks.
    pub count: u64,
    /// How many of them landed in another function, where interrupts are switched on again or
    /// which serves all kinds, and were given to this one by their call chain.
    pub moved: u64,
}

/// Where the CPU time of one trial went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TimeByKind {
    /// From one look at a CPU to the next, in ns.
    pub every_ns: u64,
    /// Length of the window in which it was looked.
    pub elapsed_ns: u64,
    /// What was found, idle CPUs left out; most first.
    pub looks: Vec<Looks>,
    /// Looks that found a CPU idle.
    pub idle: u64,
    /// Looks that were lost: nobody had taken the earlier ones in time.
    pub lost: u64,
}

/// What moving messages displaced from the caches of the CPU that the sending thread ran on, by
/// prime and probe: a working set is read until it is in a cache, messages are moved, and each of
/// its lines is then timed (after Osvik, Shamir and Tromer, CT-RSA 2006). The first flow's alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Footprint {
    /// One for each cache of data that the CPU has, nearest first.
    pub levels: Vec<LevelProbe>,
}

/// What was found of one cache.
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
    /// How well hits and misses can be told apart; absent with a reason where they cannot.
    pub calibration: Calibration,
    /// What was found, round by round.
    pub rounds: Vec<ProbeRound>,
}

/// How hits and misses of a cache were told apart, within the trial itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// What is timed at once and takes more ticks counts as so many: what comes from further away
    /// than the next cache, and what an interrupt held up, is no more than displaced.
    pub most_ticks: u32,
    /// Ticks of all lines together where nothing came between priming and probing, a number a
    /// round.
    pub hit_ticks: Vec<u64>,
    /// The same where twice the cache's size was read between.
    pub miss_ticks: Vec<u64>,
    /// Why the two cannot be told apart, where they cannot: there are then no rounds.
    pub refused: Option<String>,
}

/// One round: primed, moved and probed; and primed, waited for as long and probed.
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
    /// Ticks of all lines together after nothing was moved for as long.
    pub idle_ticks: u64,
}

/// What one trial for evidence found. It is never compared by its times: looking disturbs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TrialEvidence {
    /// Which trial; its block is the kind of evidence, its attempt counts the cell's trials of it.
    pub trial: TrialKey,
    /// [`crate::Cell::id`] of its cell.
    pub cell: String,
    /// Start of the trial, since the start of the run.
    pub started_ms: u64,
    /// Payload bytes that the sending side moved within the window.
    pub sent_bytes: u64,
    /// Messages that the sending side moved within the window.
    pub sent_messages: u64,
    /// Whole time that the trial took, set-up included.
    pub trial_ms: u64,
    /// Length of the sending side's window.
    pub elapsed_ns: u64,
    /// Where the CPU time went, where that was asked for.
    pub time: Option<TimeByKind>,
    /// How often bytes were copied, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<CopiedBytes>,
    /// What else happened within the window, where that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counts: Vec<EventCount>,
    /// Who used the CPUs within the window, where counts were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accounts: Option<CpuAccounts>,
    /// What moving displaced from the caches of the sending CPU, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub footprint: Option<Footprint>,
}
