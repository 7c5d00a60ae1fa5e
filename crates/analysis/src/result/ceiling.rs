//! The ceiling of a machine in the result.

use serde::{Deserialize, Serialize};

use super::{Estimate, OthersLoad};

/// The operation whose highest rate a ceiling gives.
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

/// The highest measured rate of an operation, with the request that reached it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CeilingRate {
    /// The operation.
    pub kind: CeilingKind,
    /// The mover that reached it.
    pub mover: String,
    /// Bytes of a request.
    pub size_bytes: u64,
    /// Bytes of memory or of a file that the requests pass through repeatedly.
    pub working_set_bytes: u64,
    /// Requests in flight.
    pub depth: u32,
    /// The rate, in Gbit/s.
    pub gbit_per_s: Estimate,
}

/// The highest rates of a machine, as one run measured them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ceiling {
    /// The run's name.
    pub run: String,
    /// Its start, RFC 3339.
    pub started: String,
    /// The directory of the files with which the disk was measured.
    pub dir: Option<String>,
    /// The device of that directory (`st_dev` of stat(2)).
    pub device: Option<u64>,
    /// The CPU use of other processes during the run, where it was above the study's bound.
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
    /// The cell's throughput over it: 0.62 is 62 %. Absent where it would be above 1, so that the cell
    /// does not pass each byte through the operation, or the ceiling was measured too low.
    pub share: Option<f64>,
    /// Lower end of the 95 % interval; absent where either has none.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

/// The line of a ceiling in a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct CeilingLine {
    /// The operation whose highest rate it is; none where that differs between points.
    pub kind: Option<CeilingKind>,
    /// The rate at each value across, in Gbit/s; none at a value without a ceiling.
    pub points: Vec<Option<f64>>,
}
