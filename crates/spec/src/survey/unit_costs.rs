//! The CPU time of single events on a host, measured before a run.

use serde::{Deserialize, Serialize};

rows! {
    /// An event whose cost is measured. Its row in [`PRICED`] defines it.
    enum Priced;
    /// A row of the table of events with a cost.
    struct PricedRow {
        event,
        /// Its definition.
        summary: &'static str,
    }
    /// All events with a cost, in the order of tables.
    const PRICED;
    SystemCall "system-call" { summary: "a system call that does nothing: getppid(2)" }
    SocketCall "socket-call" { summary: "one more send(2) for the same bytes, to a corked TCP connection" }
    FileCall "file-call" { summary: "one more pread(2) for the same bytes, out of the page cache" }
    SwitchSameCpu "switch-same-cpu" { summary: "a thread sleeps and is woken, by a pipe, by another thread on its CPU" }
    SwitchOtherCpu "switch-other-cpu" { summary: "the same with the other thread on another CPU, that of the waker included" }
    PageFault "page-fault" { summary: "the first write to a page of fresh memory" }
    Packet "packet" { summary: "one more packet over loopback for the same bytes and calls, with its reception" }
    CopyNear "copy-near" { summary: "a byte copied between two places within 256 KiB" }
    CopyMiddle "copy-middle" { summary: "a byte copied between two places within 4 MiB" }
    CopyFar "copy-far" { summary: "a byte copied between two places within 64 MiB" }
    CopyOtherCpu "copy-other-cpu" { summary: "a byte copied out of 128 KiB that another CPU has just written" }
}

/// One repetition of the measurement of an event: CPU time of work with it, less that of the same work without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostTrial {
    /// CPU time in ns; negative if the work without the events took longer.
    pub cpu_ns: i64,
    /// Number of events.
    pub events: u64,
    /// CPUs that other processes used meanwhile, in thousandths; none if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_cpus_thousandths: Option<u64>,
}

/// CPUs that other processes may use in a repetition, in thousandths.
const MOST_OTHER_CPUS_THOUSANDTHS: u64 = 100;

impl CostTrial {
    /// Returns true if other processes used at most a tenth of a CPU, or if that is unknown.
    pub fn is_undisturbed(&self) -> bool {
        self.other_cpus_thousandths
            .is_none_or(|n| n <= MOST_OTHER_CPUS_THOUSANDTHS)
    }
}

/// The cost of one kind of event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnitCost {
    /// The event.
    pub event: Priced,
    /// Repetitions, interleaved with those of the other events.
    pub trials: Vec<CostTrial>,
    /// The reason why the cost is unknown; none if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
}

/// Fewest undisturbed repetitions of a cost.
const FEWEST_UNDISTURBED: usize = 3;

impl UnitCost {
    /// The costs of all events, none of which was measured for this reason.
    pub fn all_absent(why: &str) -> Vec<UnitCost> {
        let events = PRICED.iter().map(|row| row.event);
        events
            .map(|event| UnitCost {
                event,
                trials: Vec::new(),
                absent: Some(why.to_owned()),
            })
            .collect()
    }

    /// The undisturbed repetitions; none if they are too few.
    pub fn undisturbed(&self) -> Vec<CostTrial> {
        let trials: Vec<CostTrial> = (self.trials.iter().copied())
            .filter(CostTrial::is_undisturbed)
            .collect();
        if trials.len() < FEWEST_UNDISTURBED {
            return Vec::new();
        }
        trials
    }

    /// Returns true if it was measured, but fewer than three repetitions are undisturbed.
    pub fn is_disturbed(&self) -> bool {
        !self.trials.is_empty() && self.undisturbed().is_empty()
    }
}
