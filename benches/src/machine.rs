//! Kernel, CPUs and load of the machine that benches run on.

use std::fs;

use anyhow::{Context as _, Result};

/// Kernel, CPU model and number of CPUs.
pub fn describe() -> String {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo
        .lines()
        .find_map(|l| l.strip_prefix("model name")?.split_once(':'))
        .map_or("unknown CPU", |(_, name)| name.trim());
    let cpus = std::thread::available_parallelism().map_or(0, |n| n.get());
    format!(
        "Machine: Linux {}, {model}, {cpus} CPUs; bytecost {}",
        kernel.trim(),
        env!("CARGO_PKG_VERSION")
    )
}

/// The load averages over 1, 5 and 15 minutes, proc(5).
pub fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let averages: Vec<&str> = text.split_whitespace().take(3).collect();
    if averages.is_empty() {
        return "unknown, /proc/loadavg cannot be read".to_owned();
    }
    format!("{} (1, 5, 15 minutes)", averages.join(", "))
}

/// The first two CPUs that this process may use; the same one twice if there is only one.
pub fn two_cpus() -> Result<(u32, u32)> {
    let allowed = bytecost_sys::process::affinity()?;
    let first = *allowed.first().context("no CPU may be used")?;
    Ok((first, *allowed.get(1).unwrap_or(&first)))
}
