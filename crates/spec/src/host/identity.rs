//! Which machine it is, which boot of it, and how its kernel was set.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Which machine, which boot of it, and the kernel's settings. What cannot be read is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Identity {
    /// A salted hash of /etc/machine-id, 32 hexadecimal digits. The id itself is not kept:
    /// machine-id(5) asks that it stay on its machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_id_hash: Option<String>,
    /// The boot, /proc/sys/kernel/random/boot_id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// How and when the kernel was built, `uname -v`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_version: Option<String>,
    /// The kernel's command line, without what says where it boots from and what is for init.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_command_line: Option<String>,
    /// Version of the CPUs' microcode; several, joined by ` + `, where they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub microcode: Option<String>,
    /// Settings of the kernel that bear on results, by name: `net.ipv4.tcp_rmem`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}
