//! The effective capabilities of this process, capabilities(7), and its user namespace: in any but the
//! first one, a capability does not lift limits of the machine.

use crate::roots::{Roots, value};

/// A capability that some measurement needs.
pub(crate) struct CapabilityRow {
    /// Its number in `linux/capability.h`.
    bit: u32,
    /// Its name without `CAP_`.
    pub(crate) name: &'static str,
    /// The operations that it permits, in words.
    pub(crate) permits: &'static str,
}

const fn row(bit: u32, name: &'static str, permits: &'static str) -> CapabilityRow {
    CapabilityRow { bit, name, permits }
}

pub(crate) const ROWS: &[CapabilityRow] = &[
    row(
        12,
        "NET_ADMIN",
        "network namespaces, links, every congestion control",
    ),
    row(13, "NET_RAW", "packet sockets"),
    row(14, "IPC_LOCK", "locked memory without limit"),
    row(21, "SYS_ADMIN", "namespaces, and much else"),
    row(23, "SYS_NICE", "real-time classes and nice values below 0"),
    row(24, "SYS_RESOURCE", "raising limits"),
    row(38, "PERFMON", "counting inside the kernel"),
    row(39, "BPF", "programs that show what the kernel copies"),
];

#[derive(Clone, Debug)]
pub(crate) struct Capabilities {
    /// The mask `CapEff` of /proc/self/status, or why it cannot be read.
    pub(crate) effective: Result<u64, String>,
    /// True in the first user namespace, user_namespaces(7).
    pub(crate) first_namespace: bool,
}

pub(crate) fn read(roots: &Roots) -> Capabilities {
    let effective = roots.proc("self/status").and_then(|status| {
        let hex = value(&status, "CapEff");
        hex.and_then(|hex| u64::from_str_radix(&hex, 16).ok())
            .ok_or_else(|| "/proc/self/status has no CapEff".to_owned())
    });
    // user_namespaces(7): the first one maps every id to itself.
    let first_namespace = roots.proc("self/uid_map").map_or(true, |map| {
        map.split_whitespace().eq(["0", "0", "4294967295"])
    });
    Capabilities {
        effective,
        first_namespace,
    }
}

impl Capabilities {
    pub(crate) fn has(&self, row: &CapabilityRow) -> bool {
        let bits = self.effective.as_ref();
        bits.is_ok_and(|bits| bits >> row.bit & 1 == 1)
    }

    /// Returns true if RLIMIT_MEMLOCK does not apply to this process.
    pub(crate) fn exempt_from_memlock(&self) -> bool {
        self.first_namespace && self.has_named("IPC_LOCK")
    }

    /// Returns true if RLIMIT_NPROC does not apply to this process.
    pub(crate) fn exempt_from_nproc(&self) -> bool {
        self.first_namespace && (self.has_named("SYS_RESOURCE") || self.has_named("SYS_ADMIN"))
    }

    /// Returns true if this process may set real-time classes and nice values below 0.
    pub(crate) fn may_schedule(&self) -> bool {
        self.first_namespace && self.has_named("SYS_NICE")
    }

    /// Returns true if perf_event_paranoid does not apply to this process.
    pub(crate) fn may_count_kernel(&self) -> bool {
        self.first_namespace && (self.has_named("PERFMON") || self.has_named("SYS_ADMIN"))
    }

    fn has_named(&self, name: &str) -> bool {
        ROWS.iter().any(|row| row.name == name && self.has(row))
    }
}
