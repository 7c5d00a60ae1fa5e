//! The identity of a machine, of its boot, and of its kernel's settings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The identity of a machine and of its boot, with the kernel's settings. Unreadable facts are absent.
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
    /// Build of the kernel with its date, `uname -v`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_version: Option<String>,
    /// The kernel's command line, without the boot device and the parameters for init.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_command_line: Option<String>,
    /// Version of the CPUs' microcode; several, joined by ` + `, where they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub microcode: Option<String>,
    /// Kernel settings that influence results, by name: `net.ipv4.tcp_rmem`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}
