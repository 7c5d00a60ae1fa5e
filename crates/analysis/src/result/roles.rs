//! What each role of a server used, as findings.json tells it.

use bytecost_spec::Side;
use serde::{Deserialize, Serialize};

/// Counters of a server, or of its clients, threads and children included, for each request that
/// was answered: the columns of a published table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoleCounters {
    /// [`bytecost_spec::Cell::id`].
    pub cell: String,
    /// The server or its clients.
    pub role: Side,
    /// Length of the window, typically, in ms.
    pub window_ms: f64,
    /// Requests that were answered in it, typically.
    pub requests: f64,
    /// The counters, in the order of the published table.
    pub counters: Vec<RoleCounter>,
}

/// A counter for each request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoleCounter {
    /// What it is called there, with its unit.
    pub name: String,
    /// Typically: the trimmed mean of the trials.
    pub per_request: Option<f64>,
    /// Why there is none, where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
}
