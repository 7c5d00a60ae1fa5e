//! The description of a machine. The host crate reads it, and reports print it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::circumstance::CircumstanceKind;
use crate::units::bytes_in_words;

mod distance;
mod identity;

pub use distance::Distance;
pub use identity::Identity;

/// A cache, as the kernel reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuCache {
    /// 1, 2, 3 …
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Bytes.
    pub size_bytes: u64,
    /// CPUs that share it.
    pub shared_by: Vec<u32>,
}

impl fmt::Display for CpuCache {
    /// `L1d 32 KiB shared by 2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind.as_str() {
            "Data" => "d",
            "Instruction" => "i",
            _ => "",
        };
        let size = bytes_in_words(self.size_bytes);
        write!(f, "L{}{kind} {size}", self.level)?;
        match self.shared_by.len() {
            0 | 1 => Ok(()),
            n => write!(f, " shared by {n}"),
        }
    }
}

/// One logical CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cpu {
    /// Its number.
    pub cpu: u32,
    /// Package (socket), where the kernel shows it.
    pub package: Option<u32>,
    /// Core within the package, where the kernel shows it.
    pub core: Option<u32>,
    /// NUMA node, where the kernel shows it.
    pub node: Option<u32>,
    /// Hardware threads of the same core, itself included.
    pub siblings: Vec<u32>,
    /// Frequency governor, where there is one.
    pub governor: Option<String>,
    /// Cores that the kernel groups below the cache that all share, itself included; empty where
    /// it shows no such group.
    pub cluster: Vec<u32>,
    /// Kind of core: 0 is the fastest, 1 the next. 0 throughout where all are alike.
    pub kind: u32,
}

/// A circumstance that was found, with its place: something that disturbs measurements.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Obstacle {
    /// The kind of circumstance.
    pub kind: CircumstanceKind,
    /// The device, network or control group.
    pub place: String,
    /// The finding with its figures: `tbf, 2.00 Gbit/s`.
    pub found: String,
    /// True if it limits rates or delays packets; else it makes each packet cost more.
    pub limits: bool,
}

impl Obstacle {
    /// The instruction that removes it: the remedy of its row, with the device and the hook that were found.
    pub fn remedy(&self) -> String {
        let remedy = self.kind.row().remedy;
        if self.place.contains(['/', ' ']) {
            return remedy.to_owned();
        }
        let hook = (["clsact", "ingress"].into_iter())
            .find(|hook| self.found.starts_with(hook))
            .unwrap_or("root");
        remedy
            .replace("dev DEVICE root", &format!("dev DEVICE {hook}"))
            .replace("DEVICE", &self.place)
    }
}

/// The tightest limit of a resource, at the time of reading.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResourceLimit {
    /// Its name, with the place where it is set: `RLIMIT_NPROC`, `pids.max of /sys/fs/cgroup/a`.
    pub name: String,
    /// The limit: threads, or bytes.
    pub limit: u64,
    /// The amount in use, in the same unit.
    pub used: u64,
}

impl ResourceLimit {
    /// The amount that is not in use.
    pub fn left(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }
}

/// One fact in the output of `bytecost doctor` and in the host section of reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Check {
    /// The thing that was examined.
    pub name: String,
    /// The finding.
    pub found: String,
    /// Its importance for results.
    pub level: Level,
    /// Its meaning for results.
    pub means: String,
    /// The remedy, if there is one.
    pub remedy: Option<String>,
}

/// The importance of a fact for results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// As it should be.
    Good,
    /// Worth knowing.
    Note,
    /// Weakens results or refuses something.
    Warning,
}

/// The description of a machine, as the host crate read it before a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Host {
    /// Kernel release, `uname -r`.
    pub kernel: String,
    /// Distribution, from os-release.
    pub distribution: Option<String>,
    /// Machine architecture, `uname -m`.
    pub architecture: String,
    /// CPU model.
    pub cpu_model: String,
    /// CPUs online.
    pub cpus: Vec<Cpu>,
    /// CPUs that this process may use.
    pub cpus_allowed: Vec<u32>,
    /// CPUs that exist and are offline.
    pub cpus_offline: Vec<u32>,
    /// NUMA nodes whose memory this process may use.
    pub memory_nodes: Vec<u32>,
    /// Caches, each once.
    pub caches: Vec<CpuCache>,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Hypervisor, where one is detected.
    pub virtualization: Option<String>,
    /// The system's congestion control.
    pub congestion_default: Option<String>,
    /// Congestion controls that may be chosen.
    pub congestion_available: Vec<String>,
    /// RLIMIT_MEMLOCK in bytes; none is unlimited.
    pub memlock_limit_bytes: Option<u64>,
    /// True if CAP_IPC_LOCK lifts that limit.
    pub memlock_exempt: bool,
    /// RLIMIT_NOFILE.
    pub nofile_limit: u64,
    /// The limit of threads and processes with the least left; none where none is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads_limit: Option<ResourceLimit>,
    /// The memory limit of this process's control groups with the least left, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<ResourceLimit>,
    /// RLIMIT_AS in bytes; none is unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_space_limit_bytes: Option<u64>,
    /// net.core.optmem_max in bytes.
    pub optmem_max_bytes: Option<u64>,
    /// net.core.wmem_max in bytes.
    pub wmem_max_bytes: Option<u64>,
    /// net.core.rmem_max in bytes.
    pub rmem_max_bytes: Option<u64>,
    /// Circumstances at the start of the run: of the whole run, and of loopback.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub obstacles: Vec<Obstacle>,
    /// All facts that were checked, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
    /// Identity of the machine and the boot, and the kernel's settings.
    #[serde(default, skip_serializing_if = "crate::defaults::is_default")]
    pub identity: Identity,
}

impl Host {
    /// Number of CPUs that the run may use.
    pub fn usable_cpus(&self) -> usize {
        match self.cpus_allowed.len() {
            0 => self.cpus.len(),
            allowed => allowed,
        }
    }

    /// The data cache farthest from the CPUs.
    pub fn last_data_cache(&self) -> Option<&CpuCache> {
        (self.caches.iter())
            .filter(|cache| cache.kind != "Instruction")
            .max_by_key(|cache| (cache.level, cache.size_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_names_the_device_and_the_hook_that_were_found() {
        let remedy = |kind, place: &str, found: &str| {
            let (place, found) = (place.to_owned(), found.to_owned());
            let obstacle = Obstacle {
                kind,
                place,
                found,
                limits: false,
            };
            obstacle.remedy()
        };
        for (found, command) in [
            ("tbf, 2.00 Gbit/s", "`tc qdisc del dev lo root`"),
            ("clsact", "`tc qdisc del dev lo clsact`"),
            ("ingress", "`tc qdisc del dev lo ingress`"),
        ] {
            let remedy = remedy(CircumstanceKind::Qdisc, "lo", found);
            assert!(remedy.contains(command), "{remedy}");
        }
        let there = remedy(CircumstanceKind::Qdisc, "eth0 on db7", "tbf");
        assert!(there.contains("dev DEVICE root"), "{there}");
        let filter = remedy(
            CircumstanceKind::TcFilter,
            "lo",
            "2 filters of tc at ingress",
        );
        assert!(
            filter.contains("`tc filter del dev lo ingress`"),
            "{filter}"
        );
    }
}
