//! Samples, the raw readings of trials, and the records of failed trials and of blocks.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::cell::Class;
use crate::host::Obstacle;
use crate::reading::{Counter, Reading, Readings};

/// The name of a trial within a run: block, cell and attempt.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrialKey {
    /// The block, from 0.
    pub block: u32,
    /// Index of the cell in the plan, from 0.
    pub cell: u32,
    /// Number of earlier attempts at the block.
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

    /// The block and the attempt at it; the order of these pairs is the order of a run.
    pub fn attempt_at_block(&self) -> (u32, u32) {
        (self.block, self.attempt)
    }
}

/// The work of one thread of a side within its window.
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

/// The CPUs, memory node and class of a thread, as the kernel reported them when its window closed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Held {
    /// CPUs that it could run on (sched_getaffinity).
    pub cpus: Vec<u32>,
    /// CPU that it ran on last (getcpu).
    pub last_cpu: u32,
    /// Node of its memory, where the cell chose one (get_mempolicy).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_node: Option<u32>,
    /// Its scheduler class, where the cell chose one (sched_getattr).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
}

/// The work of a side in each eighth of its window, in their order, all flows together. If a thread
/// was off its CPU when an eighth ended, that eighth and the next are both in the later one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SubWindows {
    /// Payload bytes; whole messages if nothing is moved.
    pub amount: Vec<u64>,
    /// Length, mean over the flows.
    pub elapsed_ns: Vec<u64>,
    /// CPU time of the flows' own threads.
    pub cpu_ns: Vec<u64>,
}

/// All readings of one side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SideReadings {
    /// Counters, summed over the side's threads.
    pub readings: Readings,
    /// One entry for each flow, in their order.
    pub flows: Vec<FlowReading>,
    /// One entry for each flow, in their order, where a cell chose CPUs or memory for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<Held>,
    /// The eighths of the window; none if the window is a number of passes, and for sides without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_windows: Option<SubWindows>,
}

/// A packet socket that receives a copy of every packet of a trial's device. It makes the kernel copy
/// the payload of zero-copy sends, which would otherwise stay where it was (packet(7), ETH_P_ALL).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PacketSocket {
    /// The device that it is bound to; none if it is bound to no device and receives packets of all.
    pub device: Option<String>,
    /// The process that holds it: `tcpdump (pid 812)`; none where it cannot be determined.
    pub holder: Option<String>,
}

/// The checks of the payload over the whole trial, warm-up included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Truth {
    /// Bytes that the sender counted.
    pub sent_bytes: u64,
    /// Bytes that the receiver counted; equal, or the trial fails.
    pub received_bytes: u64,
    /// Bytes whose content was compared with that of the sent bytes.
    pub compared_bytes: u64,
    /// The check that the receiver could make: `content` or `count`.
    pub checked: String,
}

/// The raw readings of one trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sample {
    /// The trial.
    pub trial: TrialKey,
    /// [`crate::Cell::id`] of its cell, so that a sample can be read without the plan.
    pub cell: String,
    /// Start of the trial, since the start of the run.
    pub started_ms: u64,
    /// Duration of the whole trial, set-up included.
    pub trial_ms: u64,
    /// The sending side.
    pub sender: SideReadings,
    /// The receiving side; none for a mover without a peer.
    pub receiver: Option<SideReadings>,
    /// The machine as a whole.
    pub machine: Readings,
    /// The readings of the other host, where one side runs there.
    #[serde(default, skip_serializing_if = "Readings::is_empty")]
    pub peer_machine: Readings,
    /// The checks of the payload; none for a mover that moves nothing.
    pub truth: Option<Truth>,
    /// Latencies in ns, all flows merged, as HdrHistogram V2 in base64: round-trip times with responses,
    /// times of requests to a file, or delays of wake-ups.
    pub latency_ns_histogram: Option<String>,
    /// The threads of the background load, where there was one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbour: Vec<Held>,
    /// Packet sockets that received the trial's packets, as far as they existed at its end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packet_sockets: Vec<PacketSocket>,
    /// Circumstances on the path of its packets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub obstacles: Vec<Obstacle>,
}

impl SideReadings {
    /// The number that a counter read; none if it is absent.
    pub fn measured(&self, counter: Counter) -> Option<u64> {
        self.readings.get(&counter).and_then(Reading::measured)
    }
}

impl Sample {
    /// Both sides, the sender first; the sender alone where there is no receiver.
    pub fn sides_mut(&mut self) -> impl Iterator<Item = &mut SideReadings> {
        std::iter::once(&mut self.sender).chain(&mut self.receiver)
    }
}

/// A failed trial with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Failure {
    /// The trial.
    pub trial: TrialKey,
    /// Its cell.
    pub cell: String,
    /// Start of the trial, since the start of the run.
    pub started_ms: u64,
    /// The error with the side where it occurred, and the remedy.
    pub reason: String,
    /// Time for which a flow stood still for a timer of TCP; none for other failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stood_still_ns: Option<u64>,
    /// True if the bytes that arrived, or that the file held, were not the right ones.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wrong_bytes: bool,
    /// True for a trial for evidence. The block of its key is its evidence round, as in the records of evidence.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub for_evidence: bool,
}

impl Failure {
    /// The beginning of the reason of a trial in which a flow moved nothing and used almost no CPU time.
    pub const STOOD_STILL: &'static str = "a flow moved nothing and used no CPU";

    /// Returns true if a flow stood still. The CPU time per byte is the same without such a trial.
    pub fn stood_still(&self) -> bool {
        self.stood_still_ns.is_some()
    }
}

/// A process that is not bytecost's, with its CPU time in a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OtherProcess {
    /// Its name, as the kernel has it (at most 15 bytes).
    pub name: String,
    /// Its process id.
    pub pid: u32,
    /// CPU time of its threads within the block, and of children that it has waited for.
    pub cpu_ns: u64,
}

/// The end of a block: the other users of the CPUs during its trials, and whether the block is
/// measured again.
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
    /// Time for which the coordinator was stopped or the machine suspended; `elapsed_ns` does not
    /// include it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stopped_ns: u64,
    /// CPU time of all processes that are neither bytecost's nor kernel threads.
    pub others_ns: u64,
    /// The processes with the most CPU time.
    pub others: Vec<OtherProcess>,
    /// CPU time of kernel threads.
    pub kernel_threads_ns: u64,
    /// Factors by which the windows of cells are longer than the study's from the next block on, by the
    /// cell's id. Trials from before the last change of a cell's factor do not count.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub longer: BTreeMap<String, u32>,
    /// The reason why the block is measured again; none if it is not.
    pub repeated_because: Option<Repeat>,
}

/// The reason for which a block is measured again as a whole. It is never an effect of the block's own
/// movers, which would select trials by their outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Repeat {
    /// Processes of others used more CPUs than the study allows.
    OtherProcesses {
        /// CPUs that they used, in thousandths, mean over the block.
        cpus_thousandths: u64,
    },
    /// The coordinator was stopped, or the machine suspended.
    Stopped {
        /// Duration in ms.
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
    /// CPUs that other processes used, mean over the block.
    pub fn other_cpus(&self) -> f64 {
        self.others_ns as f64 / self.elapsed_ns.max(1) as f64
    }
}

/// The first blocks of a run, in which windows may become longer. Blocks up to the last one with trials
/// of a shorter window do not count against the limits of a study.
pub const GROWING_BLOCKS: u32 = 6;

/// The last trial of each cell whose window was too short, by the cell's id: block and attempt
/// ([`TrialKey::attempt_at_block`]). Trials up to it do not count, later ones do. Cells whose windows
/// never changed are absent.
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
    fn windows_are_too_short_up_to_the_block_after_which_they_grew() {
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
