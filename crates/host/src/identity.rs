//! The identity of the machine and of its boot, and the settings of its kernel: by them two runs are
//! recognised as runs of one machine.

use std::collections::BTreeMap;

use bytecost_spec::host::Identity;
use bytecost_spec::units;
use sha2::{Digest, Sha256};

use crate::machine;
use crate::roots::{Roots, value};

/// A prefix of what is hashed, so that other programs' hashes of the id differ from ours.
const SALT: &str = "bytecost machine id\0";
const HASH_BYTES: usize = 16;

/// Settings that influence the cost of a byte, by sysctl(8)'s names; others are fields of the host.
const SYSCTLS: &[&str] = &[
    "net.core.busy_poll",
    "net.core.busy_read",
    "net.core.default_qdisc",
    "net.core.high_order_alloc_disable",
    "net.core.netdev_budget",
    "net.core.netdev_max_backlog",
    "net.core.rmem_default",
    "net.core.skb_defer_max",
    "net.core.somaxconn",
    "net.core.wmem_default",
    "net.ipv4.tcp_adv_win_scale",
    "net.ipv4.tcp_autocorking",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_limit_output_bytes",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_min_tso_segs",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_no_ssthresh_metrics_save",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_tso_rtt_log",
    "net.ipv4.tcp_tso_win_divisor",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_wmem",
];
/// Parameters of the kernel that are kept with their values, since they influence the cost of a byte.
/// Of all others the name alone is kept: a value may be a secret (`ks=http://user:password@…`).
const KEPT_PARAMETERS: &[&str] = &[
    "amd_pstate",
    "audit",
    "cgroup_disable",
    "cgroup_enable",
    "cgroup_no_v1",
    "clocksource",
    "default_hugepagesz",
    "hugepages",
    "hugepagesz",
    "idle",
    "init_on_alloc",
    "init_on_free",
    "intel_idle.max_cstate",
    "intel_iommu",
    "intel_pstate",
    "iommu",
    "iommu.passthrough",
    "iommu.strict",
    "irqaffinity",
    "isolcpus",
    "kpti",
    "l1tf",
    "maxcpus",
    "mds",
    "mem",
    "mitigations",
    "nohz",
    "nohz_full",
    "nosmt",
    "nospectre_v2",
    "nr_cpus",
    "numa",
    "numa_balancing",
    "preempt",
    "processor.max_cstate",
    "psi",
    "pti",
    "randomize_kstack_offset",
    "rcu_nocbs",
    "retbleed",
    "skew_tick",
    "slab_nomerge",
    "slub_debug",
    "spec_store_bypass_disable",
    "spectre_v2",
    "systemd.unified_cgroup_hierarchy",
    "threadirqs",
    "transparent_hugepage",
    "tsc",
    "tsx",
];
/// Files in /sys/kernel/mm/transparent_hugepage, each with a choice in brackets.
const HUGE_PAGES: &[&str] = &["enabled", "defrag", "shmem_enabled"];

pub(crate) fn read(roots: &Roots) -> Identity {
    let not_empty = |read: Result<String, String>| read.ok().filter(|text| !text.is_empty());
    Identity {
        machine_id_hash: not_empty(roots.etc("machine-id")).and_then(|id| machine_id_hash(&id)),
        boot_id: boot_id(roots),
        kernel_version: not_empty(roots.proc("sys/kernel/version")),
        kernel_command_line: not_empty(roots.proc("cmdline")).map(|line| without_secrets(&line)),
        microcode: machine::distinct_of_cpus(roots, |block| value(block, "microcode")),
        settings: settings(roots),
    }
}

/// The random id of this boot (random(4)), which no two machines share; none where it cannot be read.
pub fn boot_id(roots: &Roots) -> Option<String> {
    let id = roots.proc("sys/kernel/random/boot_id").ok();
    id.filter(|id| !id.is_empty())
}

/// The salted hash of a machine id; none of another text, such as `uninitialized` before the first
/// boot of an image, machine-id(5).
fn machine_id_hash(id: &str) -> Option<String> {
    let is_id = id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit());
    let digest = is_id.then(|| Sha256::digest(format!("{SALT}{}", id.to_lowercase())))?;
    Some(units::hexadecimal(&digest[..HASH_BYTES]))
}

/// A kernel command line with the values of [`KEPT_PARAMETERS`] alone, and without the words after
/// `--`, which are arguments of init.
fn without_secrets(line: &str) -> String {
    line.split_whitespace()
        .take_while(|word| *word != "--")
        .map(|word| match word.split_once('=') {
            Some((name, _)) if !KEPT_PARAMETERS.contains(&name) => name,
            _ => word,
        })
        .collect::<Vec<_>>()
        .join(" ")
}

/// Each setting by its name, where this kernel has it.
fn settings(roots: &Roots) -> BTreeMap<String, String> {
    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let sysctl = |name: &str| {
        let value = roots.proc(&format!("sys/{}", name.replace('.', "/")));
        Some((name.to_owned(), words(value.ok()?)))
    };
    let huge = |name: &&str| {
        let choices = (roots.sys(&format!("kernel/mm/transparent_hugepage/{name}"))).ok()?;
        let (chosen, _) = choices.split_once('[')?.1.split_once(']')?;
        Some((format!("transparent_hugepage/{name}"), chosen.to_owned()))
    };
    (SYSCTLS.iter().filter_map(|name| sysctl(name)))
        .chain(HUGE_PAGES.iter().filter_map(huge))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{machine_id_hash, without_secrets};

    #[test]
    fn values_of_other_parameters_are_left_out() {
        let line = "BOOT_IMAGE=/vmlinuz root=UUID=7 ro  isolcpus=2 ks=http://me:pw@host quiet luks.key=/k -- --key x";
        let kept = "BOOT_IMAGE root ro isolcpus=2 ks quiet luks.key";
        assert_eq!(without_secrets(line), kept);
        assert_eq!(without_secrets(""), "");
    }

    #[test]
    fn a_machine_id_is_hashed_and_anything_else_is_none() {
        let id = "0123456789abcdef0123456789ABCDEF";
        let hash = "d92da27fcb3a685c763c09980f4b05b2";
        assert_eq!(machine_id_hash(id).as_deref(), Some(hash));
        assert_eq!(machine_id_hash("uninitialized"), None);
        assert_eq!(machine_id_hash(&"g".repeat(32)), None);
        assert_eq!(machine_id_hash(&id[1..]), None);
    }
}
