//! Network namespaces, as they are seen from outside.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The network that a process is in, as the kernel names it: `net:[4026531840]`.
pub fn network(process: &Path) -> Option<PathBuf> {
    fs::read_link(process.join("ns/net")).ok()
}

pub fn process(pid: u32) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

/// Whether any process is in one of these networks, or holds one by a descriptor or a mount:
/// that is all that can keep a network, see namespaces(7).
pub fn is_held(networks: &BTreeSet<PathBuf>) -> bool {
    let is_one = |link: Option<PathBuf>| link.is_some_and(|l| networks.contains(&l));
    let mounted = |process: &Path| {
        let mounts = fs::read_to_string(process.join("mountinfo")).unwrap_or_default();
        networks
            .iter()
            .any(|n| mounts.contains(n.to_str().unwrap()))
    };
    fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let process = entry.path();
        let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten();
        is_one(network(&process))
            || descriptors
                .flatten()
                .any(|d| is_one(fs::read_link(d.path()).ok()))
            || mounted(&process)
    })
}
