//! What machine is this: kernel, CPUs, limits, knobs.
//!
//! [`read`] fills a [`bytecost_spec::Host`] from `/proc`, `/sys` and `/etc` below the caller's
//! roots, so that recorded machines test it; system calls come in as [`Probes`]. What cannot be
//! read is absent.

mod capabilities;
pub mod cards;
pub mod cgroups;
mod checks;
pub mod classes;
pub mod filters;
mod identity;
pub mod limits;
mod machine;
pub mod pairs;
pub mod placement;
mod processes;
pub mod quota;
mod roots;
pub mod socket_memory;
pub mod start;
mod topology;
mod virtualization;

use bytecost_spec::Host;
use bytecost_spec::round::MachineKernel;

pub use checks::Probes;
pub use identity::boot_id;
pub use machine::congestion_available;
pub use processes::{ProcessStat, ProcessTable};
pub use roots::Roots;

/// CONFIG_IRQ_TIME_ACCOUNTING, which a boot option may still switch off; none where it cannot be
/// read.
pub fn accounts_for_interrupts(roots: &Roots) -> Option<bool> {
    let config = roots.kernel_config()?;
    Some(config.lines().any(|l| l == "CONFIG_IRQ_TIME_ACCOUNTING=y"))
}

/// Which machine this is, and its kernel; none of a machine without an id.
pub fn machine_kernel(roots: &Roots) -> Option<MachineKernel> {
    MachineKernel::from_host(&Host {
        kernel: kernel(roots),
        identity: identity::read(roots),
        ..Host::default()
    })
}

fn kernel(roots: &Roots) -> String {
    let release = roots.proc("sys/kernel/osrelease");
    release.unwrap_or_else(|_| "unknown".to_owned())
}

/// Reads what machine this is.
pub fn read(roots: &Roots, probes: &Probes) -> Host {
    let capabilities = capabilities::read(roots);
    let cpus = topology::cpus(roots);
    let limit = |name| machine::limit(roots, name);
    let unknown = || "unknown".to_owned();
    let congestion = roots.proc("sys/net/ipv4/tcp_congestion_control").ok();
    let mut host = Host {
        kernel: kernel(roots),
        distribution: machine::distribution(roots),
        architecture: machine::architecture(roots),
        cpu_model: machine::of_each_cpu(roots, machine::model).unwrap_or_else(unknown),
        cpus_allowed: machine::cpus_allowed(roots, &cpus),
        caches: topology::caches(roots, &cpus),
        cpus_offline: topology::offline(roots, &cpus),
        memory_nodes: topology::memory_nodes(roots),
        cpus,
        memory_bytes: machine::memory(roots, "MemTotal").unwrap_or(0),
        virtualization: virtualization::seen(roots),
        congestion_default: congestion.filter(|name| !name.is_empty()),
        congestion_available: congestion_available(roots),
        memlock_limit_bytes: limit("Max locked memory").flatten(),
        memlock_exempt: capabilities.lift_memlock(),
        nofile_limit: limit("Max open files").map_or(0, |l| l.unwrap_or(u64::MAX)),
        threads_limit: limits::thread_limit(roots),
        memory_limit: limits::group_memory_limit(roots),
        address_space_limit_bytes: limit("Max address space").flatten(),
        optmem_max_bytes: roots.proc_number("sys/net/core/optmem_max"),
        wmem_max_bytes: roots.proc_number("sys/net/core/wmem_max"),
        rmem_max_bytes: roots.proc_number("sys/net/core/rmem_max"),
        obstacles: [
            start::obstacles(roots),
            quota::obstacles(roots).unwrap_or_default(),
            probes.obstacles.clone(),
        ]
        .concat(),
        checks: Vec::new(),
        identity: identity::read(roots),
    };
    host.checks = checks::all(&checks::CheckInput {
        roots,
        probes,
        host: &host,
        capabilities,
    });
    host
}

#[cfg(test)]
mod tests;
