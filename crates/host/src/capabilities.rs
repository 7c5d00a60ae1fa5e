//! Effective capabilities (capabilities(7)), and whether they reach beyond a user namespace.

use crate::roots::{Roots, value};

pub(crate) struct CapabilityRow {
    bit: u32,
    pub(crate) name: &'static str,
    pub(crate) opens: &'static str,
}

const fn row(bit: u32, name: &'static str, opens: &'static str) -> CapabilityRow {
    CapabilityRow { bit, name, opens }
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
    pub(crate) effective: Result<u64, String>,
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

    /// Whether RLIMIT_MEMLOCK does not bind: CAP_IPC_LOCK counts in the first user namespace.
    pub(crate) fn lift_memlock(&self) -> bool {
        self.first_namespace && self.named("IPC_LOCK")
    }

    /// Returns true if RLIMIT_NPROC does not bind.
    pub(crate) fn lift_limits(&self) -> bool {
        self.first_namespace && (self.named("SYS_RESOURCE") || self.named("SYS_ADMIN"))
    }

    pub(crate) fn schedule(&self) -> bool {
        self.first_namespace && self.named("SYS_NICE")
    }

    /// Whether perf_event_paranoid does not bind.
    pub(crate) fn count_kernel(&self) -> bool {
        self.first_namespace && (self.named("PERFMON") || self.named("SYS_ADMIN"))
    }

    fn named(&self, name: &str) -> bool {
        ROWS.iter().any(|row| row.name == name && self.has(row))
    }
}
