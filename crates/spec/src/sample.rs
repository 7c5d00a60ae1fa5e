//! Samples: the raw readings of one trial, and what is kept of a trial that failed.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::cell::Class;
use crate::host::Obstacle;
use crate::reading::{Counter, Reading, Readings};

/// Which trial: its block, its cell and the attempt.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrialKey {
    /// The block, from 0.
    pub block: u32,
    /// The cell's place in the plan, from 0.
    pub cell: u32,
    /// 0, or how often the trial was repeated before.
    pub attempt: u32,
}

impl TrialKey {
    /// The first attempt at a cell in a block.
    pub fn first(block: u32, cell: u32) -> TrialKey {
        TrialKey {
            block,
            cell,
            attempt: 0,
        }
    }

    /// The block and the attempt at it, in the order in which a run makes them.
    pub fn attempt_at_block(&self) -> (u32, u32) {
        (self.block, self.attempt)
    }
}

/// What one thread of a side moved within its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowReading {
    /// Payload bytes.
    pub bytes: u64,
    /// Whole messages.
    pub messages: u64,
    /// Length of this thread's window.
    pub elapsed_ns: u64,
}

/// Where a thread was held, as the kernel said of it when its window was over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Held {
    /// CPUs that it could run on (sched_getaffinity).
    pub cpus: Vec<u32>,
    /// CPU that it ran on last (getcpu).
    pub last_cpu: u32,
    /// Node that it took memory from, where that was chosen (get_mempolicy).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_node: Option<u32>,
    /// Its scheduler class, where that was chosen (sched_getattr).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
}

/// What a side did in each eighth of its window, in their order, all flows together. A thread that
/// was off its CPU when an eighth ended has that one and the next together in the later of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SubWindows {
    /// Payload bytes; whole messages, where nothing is moved.
    pub amount: Vec<u64>,
    /// Length, mean over the flows.
    pub elapsed_ns: Vec<u64>,
    /// CPU time of the flows' own threads.
    pub cpu_ns: Vec<u64>,
}

/// All that one side read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SideReadings {
    /// Counters, summed over the side's threads.
    pub readings: Readings,
    /// One entry a flow, in their order.
    pub flows: Vec<FlowReading>,
    /// One entry a flow, in their order, where a cell chose CPUs or memory for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<Held>,
    /// The course of the window; none where it is a number of passes, and of sides that have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_windows: Option<SubWindows>,
}

/// A packet socket that takes a copy of every packet of a trial's device, and so makes the kernel
/// copy what a zero-copy send left where it was (packet(7), ETH_P_ALL).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PacketSocket {
    /// The device that it is bound to; none where it takes packets of all.
    pub device: Option<String>,
    /// Who holds it: `tcpdump (pid 812)`; none where that cannot be seen.
    pub holder: Option<String>,
}

/// What was checked of the payload over the whole trial, warm-up included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Truth {
    /// Bytes that the sender counted.
    pub sent_bytes: u64,
    /// Bytes that the receiver counted; equal, or the trial fails.
    pub received_bytes: u64,
    /// Bytes whose content was compared with what was sent.
    pub compared_bytes: u64,
    /// What the receiver could compare: `content` or `count`.
    pub checked: String,
}

/// The raw readings of one trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sample {
    /// Which trial.
    pub trial: TrialKey,
    /// [`crate::Cell::id`] of its cell, so that a sample can be read without the plan.
    pub cell: String,
    /// Start of the trial, since the start of the run.
    pub started_ms: u64,
    /// Whole time that the trial took, set-up included.
    pub trial_ms: u64,
    /// The sending side.
    pub sender: SideReadings,
    /// The receiving side; none for a mover without a peer.
    pub receiver: Option<SideReadings>,
    /// The machine as a whole.
    pub machine: Readings,
    /// The same of the other host, where one side plays there.
    #[serde(default, skip_serializing_if = "Readings::is_empty")]
    pub peer_machine: Readings,
    /// What was checked; none for a mover that moves nothing.
    pub truth: Option<Truth>,
    /// Round-trip times of the `ask` pattern, times of requests to a file, or how late a thread woke after each beat, in ns, all flows merged: HdrHistogram V2, base64.
    pub latency_ns_histogram: Option<String>,
    /// The threads of the neighbour beside it, where there was one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbour: Vec<Held>,
    /// Packet sockets that took the trial's packets too, as far as they were there at its end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packet_sockets: Vec<PacketSocket>,
    /// What was in the way of its packets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub obstacles: Vec<Obstacle>,
}

impl SideReadings {
    /// A counter's number, where there is one.
    pub fn measured(&self, counter: Counter) -> Option<u64> {
        self.readings.get(&counter).and_then(Reading::measured)
    }
}

impl Sample {
    /// Both sides, the sending one first; it alone where there is no other.
    pub fn sides_mut(&mut self) -> impl Iterator<Item = &mut SideReadings> {
        std::iter::once(&mut self.sender).chain(&mut self.receiver)
    }
}

/// A trial that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Failure {
    /// Which trial.
    pub trial: TrialKey,
    /// Its cell.
    pub cell: String,
    /// Start of the trial, since the start of the run.
    pub started_ms: u64,
    /// What happened, on which side, and what to do.
    pub reason: String,
    /// How long its flow stood still for a timer of TCP; none of other failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stood_still_ns: Option<u64>,
}

/// Parts of the reasons of trials whose bytes were not those that were sent, written or held.
const WRONG_BYTES: [&str; 2] = ["is not what", "bytes were sent,"];

impl Failure {
    /// Begins the reason of a trial in which a flow moved nothing and next to no CPU time was used.
    pub const STOOD_STILL: &'static str = "a flow moved nothing and used no CPU";

    /// Whether it failed so: what a byte costs in CPU time is the same without it.
    pub fn stood_still(&self) -> bool {
        self.reason.starts_with(Failure::STOOD_STILL)
    }

    /// Whether the trial failed since its bytes were wrong.
    pub fn has_wrong_bytes(&self) -> bool {
        WRONG_BYTES.iter().any(|part| self.reason.contains(part))
    }
}

/// A process that is none of ours, in a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OtherProcess {
    /// Its name, as the kernel has it (at most 15 bytes).
    pub name: String,
    /// Its number.
    pub pid: u32,
    /// CPU time of its threads within the block, and of children that it has waited for.
    pub cpu_ns: u64,
}

/// The end of a block: what else used the CPUs while its trials were made, and whether all of them
/// are made again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Block {
    /// The block, from 0.
    pub block: u32,
    /// The attempt of its trials.
    pub attempt: u32,
    /// Its end, since the start of the run.
    pub ended_ms: u64,
    /// Its length.
    pub elapsed_ns: u64,
    /// How long the coordinator was stopped meanwhile, or the machine suspended, which `elapsed_ns`
    /// leaves out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stopped_ns: u64,
    /// CPU time of all processes that are neither ours nor kernel threads.
    pub others_ns: u64,
    /// The largest of them.
    pub others: Vec<OtherProcess>,
    /// CPU time of kernel threads.
    pub kernel_threads_ns: u64,
    /// How many times as long as the study's the windows of a cell are from the next block on, by its
    /// id. Trials that were made before its number changed last do not count.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub longer: BTreeMap<String, u32>,
    /// Why all its trials are made again, where they are.
    pub repeated_because: Option<Repeat>,
}

/// Why a block is measured again as a whole. It is never for what one of its movers may have done
/// itself: that would choose trials by their outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Repeat {
    /// Processes that are not ours used more CPUs than the study allows.
    OtherProcesses {
        /// CPUs in use, in thousandths, in the mean over the block.
        cpus_thousandths: u64,
    },
    /// The coordinator was stopped, or the machine suspended.
    Stopped {
        /// For how long, in ms.
        ms: u64,
    },
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl fmt::Display for Repeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Repeat::OtherProcesses { cpus_thousandths } => {
                let cpus = *cpus_thousandths as f64 / 1e3;
                write!(f, "other processes used {cpus:.2} CPUs")
            }
            Repeat::Stopped { ms } => {
                write!(f, "the run was stopped for {:.1} s", *ms as f64 / 1e3)
            }
        }
    }
}

impl Block {
    /// CPUs that other processes used, in the mean over the block.
    pub fn other_cpus(&self) -> f64 {
        self.others_ns as f64 / self.elapsed_ns.max(1) as f64
    }
}

/// The first blocks of a run, in which windows may become longer. Blocks up to the last one that had
/// trials of a shorter window do not count against the limits of a study.
pub const GROWING_BLOCKS: u32 = 6;

/// The last trial of each cell, by its id, that had a window too short for its flows: block and
/// attempt ([`TrialKey::attempt_at_block`]). Later trials of the cell count, this one and earlier ones
/// do not. Cells whose windows never changed are absent.
pub fn last_short_windows(blocks: &[Block]) -> BTreeMap<&str, (u32, u32)> {
    let mut last = BTreeMap::new();
    let mut times: BTreeMap<&str, u32> = BTreeMap::new();
    for block in blocks {
        for (cell, longer) in &block.longer {
            if times.insert(cell, *longer) != Some(*longer) {
                last.insert(cell.as_str(), (block.block, block.attempt));
            }
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_short_up_to_the_last_block_before_they_grew() {
        let block = |block, attempt, longer: &[(&str, u32)]| Block {
            block,
            attempt,
            longer: longer
                .iter()
                .map(|(id, n)| ((*id).to_owned(), *n))
                .collect(),
            ..Block::default()
        };
        let blocks = [
            block(0, 0, &[]),
            block(1, 0, &[("a", 4)]),
            block(1, 1, &[("a", 16)]),
            block(2, 0, &[("a", 16), ("b", 4)]),
            block(3, 0, &[("a", 16), ("b", 4)]),
        ];
        let expected = [("a", (1, 1)), ("b", (2, 0))];
        assert_eq!(last_short_windows(&blocks), BTreeMap::from(expected));
        assert_eq!(last_short_windows(&blocks[..1]), BTreeMap::new());
    }
}
