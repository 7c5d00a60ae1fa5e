//! The summary of a round of a run, from which later runs on the same machine learn its variance.

use serde::{Deserialize, Serialize};

use crate::host::Host;
use crate::metric::Metric;
use crate::peer::{PeerHost, PeerSide};
use crate::study::Study;

/// The most comparisons that the summary of a round holds.
pub const MOST_COMPARISONS: usize = 1_000;

/// CPUs that other programs used in the mean over a round, above which the round is not quiet.
pub const QUIET_CPUS: f64 = 0.1;

/// The summary of a round: a group of blocks separated from the next by a pause, or another run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundSummary {
    /// The run's name.
    pub run: String,
    /// The round within the run, from 0.
    pub round: u32,
    /// Start of the run, RFC 3339, UTC.
    pub started: String,
    /// The conditions of its trials.
    pub conditions: RoundConditions,
    /// CPUs that other programs used, in the mean over its blocks.
    pub foreign_cpus: f64,
    /// Its comparisons, primary ones first, at most [`MOST_COMPARISONS`].
    pub comparisons: Vec<RoundComparison>,
}

/// A comparison of two cells in a round. All figures are of the natural logarithm of the ratio.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundComparison {
    /// The metric.
    pub metric: Metric,
    /// Id of the baseline cell.
    pub baseline: String,
    /// Id of the other cell.
    pub cell: String,
    /// The estimate.
    pub log_ratio: f64,
    /// Its squared standard error within the round.
    pub variance: f64,
    /// Degrees of freedom of that variance; need not be whole.
    pub degrees: f64,
    /// Blocks in which both cells were measured.
    pub blocks: u32,
}

/// The conditions that two rounds must share to be comparable. Boot and study are not among them:
/// cells have their own ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundConditions {
    /// The machine that measured.
    pub machine: MachineKernel,
    /// CPUs that the run might use there.
    pub cpus_allowed: Vec<u32>,
    /// The other host, and the side that plays there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<(MachineKernel, PeerSide)>,
    /// Time before the window of a trial, in ms.
    pub warmup_ms: u64,
    /// Length of the window, in ms.
    pub window_ms: u64,
    /// The design of a publication, where the run followed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub design: Option<String>,
}

/// A machine under a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineKernel {
    /// Hash of its machine-id(5).
    pub machine_id_hash: String,
    /// Release of its kernel.
    pub kernel: String,
}

impl MachineKernel {
    /// The machine and kernel of a host; none if its machine-id is unknown.
    pub fn from_host(host: &Host) -> Option<MachineKernel> {
        Some(MachineKernel {
            machine_id_hash: host.identity.machine_id_hash.clone()?,
            kernel: host.kernel.clone(),
        })
    }
}

impl RoundConditions {
    /// The conditions of a study on a host, with the other host of a run on two; none if a machine-id is unknown.
    pub fn new(study: &Study, host: &Host, peer: Option<&PeerHost>) -> Option<RoundConditions> {
        let peer = match peer {
            Some(peer) => Some((MachineKernel::from_host(&peer.host)?, peer.side)),
            None => None,
        };
        Some(RoundConditions {
            machine: MachineKernel::from_host(host)?,
            cpus_allowed: host.cpus_allowed.clone(),
            peer,
            warmup_ms: study.warmup_ms,
            window_ms: study.window_ms,
            design: study.design.clone(),
        })
    }
}

impl RoundSummary {
    /// Returns true if other programs used so few CPUs that ratios are the machine's own.
    pub fn is_quiet(&self) -> bool {
        self.foreign_cpus <= QUIET_CPUS
    }
}
