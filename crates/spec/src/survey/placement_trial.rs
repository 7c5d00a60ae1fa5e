use serde::{Deserialize, Serialize};

/// One trial of several that show whether pinned ends make trials steadier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlacementTrial {
    /// Whether its ends were pinned, and not left free.
    pub pinned: bool,
    /// Which of the cells that were tried; in manifests of old their sizes tell them apart.
    #[serde(default)]
    pub place: u32,
    /// Bytes of a message.
    pub size_bytes: u64,
    /// CPU time of both sides in the window, in ns.
    pub cpu_ns: u64,
    /// Bytes of the window, above 0.
    pub bytes: u64,
}
