//! What a transport that is made for a run can lie on, as it was tried.

use serde::{Deserialize, Serialize};

use crate::cell::{Device, Transport};

/// A transport on a device, as the kernel of this host answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkSupport {
    /// The transport.
    pub transport: Transport,
    /// What it was made of, where that can be chosen.
    pub device: Device,
    /// The most that the kernel hands its device in one packet, in bytes; none where it does not
    /// say (before Linux 5.19), or there is no such device.
    pub segment_bytes_most: Option<u32>,
    /// None where it can be made; else the reason.
    pub refused: Option<String>,
}
