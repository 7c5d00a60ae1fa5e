//! The ceiling of a machine in the result.

use serde::{Deserialize, Serialize};

use super::{Estimate, OthersLoad};

/// What a ceiling is the ceiling of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CeilingKind {
    /// One core's memcpy from memory to memory.
    UserCopy,
    /// One core's copy within the kernel, out of a memory file.
    KernelRead,
    /// One core's copy within the kernel, into a memory file.
    KernelWrite,
    /// The disk past the page cache, one large request after the other in its order.
    DiskSequential,
    /// The disk past the page cache, small requests in random order.
    DiskRandom,
}

/// A rate that was reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CeilingRate {
    /// What of.
    pub kind: CeilingKind,
    /// The mover that reached it.
    pub mover: String,
    /// Bytes of a request.
    pub size_bytes: u64,
    /// Bytes that were gone through again and again.
    pub working_set_bytes: u64,
    /// Requests in flight.
    pub depth: u32,
    /// The rate, in Gbit/s.
    pub gbit_per_s: Estimate,
}

/// What a machine reached at most, as one run measured it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ceiling {
    /// The run's name.
    pub run: String,
    /// Its start, RFC 3339.
    pub started: String,
    /// Where the disk's files lay.
    pub dir: Option<String>,
    /// The device that this is on, as stat(2) tells it.
    pub device: Option<u64>,
    /// What something else took of the machine meanwhile, where it was too much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbed: Option<OthersLoad>,
    /// The rates, by kind and working set.
    pub rates: Vec<CeilingRate>,
}

/// A cell's throughput as a share of a ceiling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CeilingShare {
    /// The ceiling that it is compared with.
    pub ceiling: CeilingRate,
    /// The cell's throughput over it, at most 1: 0.62 is 62 %. Absent where it is withheld.
    pub share: Option<f64>,
    /// Lower end of the 95 % interval; absent where either has none.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Why there is no share, where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
}

/// What is drawn of a ceiling.
#[derive(Clone, Debug, PartialEq)]
pub struct CeilingLine {
    /// Whose most it is, in words.
    pub words: String,
    /// The rate at each value across, in Gbit/s; none where there is none.
    pub points: Vec<Option<f64>>,
}
