//! Facts about the machine: kernel, CPUs and caches, limits, settings, and obstacles to measuring.
//!
//! [`Roots`] are the directories of `/proc`, `/sys`, `/etc` and `/boot`, so that tests read recorded
//! machines. [`Probes`] are results of system calls that the caller has made. [`read`] makes a
//! [`bytecost_spec::Host`] from both, with the checks of the table in `checks.rs`. [`placement`] and
//! [`pairs`] choose CPUs of a `Host`. [`cgroups`], [`quota`], [`limits`] and [`scheduler_classes`] read
//! the permissions of this process and explain refusals. [`cards`] reads network devices, and
//! [`ProcessTable`] processes.
//!
//! This crate changes no setting and measures nothing. It reads a bounded part of each file, does not
//! panic at any content, and leaves a fact that it cannot read absent. Start with [`read`].

mod capabilities;
pub mod cards;
pub mod cgroups;
mod checks;
pub mod filters;
mod identity;
pub mod limits;
mod machine;
pub mod pairs;
pub mod placement;
pub mod process_state;
mod processes;
pub mod quota;
mod roots;
pub mod scheduler_classes;
pub mod socket_memory;
mod topology;
mod virtualization;

use bytecost_spec::Host;
use bytecost_spec::round::MachineKernel;

pub use checks::Probes;
pub use identity::boot_id;
pub use machine::congestion_available;
pub use processes::{ProcessStat, ProcessTable};
pub use roots::Roots;

/// Returns true if the kernel is built with CONFIG_IRQ_TIME_ACCOUNTING, which a boot option may switch off;
/// none if its configuration cannot be read.
pub fn accounts_for_interrupts(roots: &Roots) -> Option<bool> {
    let config = roots.kernel_config()?;
    Some(config.lines().any(|l| l == "CONFIG_IRQ_TIME_ACCOUNTING=y"))
}

/// The id of the machine with its kernel; none if the machine has no id.
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

/// Reads all facts of the machine, and rates them by the checks.
///
/// ```
/// use bytecost_host::{Probes, Roots, read};
/// # let probes = Probes {
/// #     hardware_counters: Err("no PMU".to_owned()),
/// #     io_uring: Ok(()),
/// #     clock_resolution_ns: 1,
/// #     timer_overshoot_ns: 55_000,
/// #     obstacles: Vec::new(),
/// #     unseen: Vec::new(),
/// #     cpu_clock: Default::default(),
/// #     congestion_controls: Vec::new(),
/// # };
/// let host = read(&Roots::real(), &probes);
/// for check in &host.checks {
///     println!("{}: {}", check.name, check.found);
/// }
/// ```
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
        cpu_model: machine::distinct_of_cpus(roots, machine::model).unwrap_or_else(unknown),
        cpus_allowed: machine::cpus_allowed(roots, &cpus),
        caches: topology::caches(roots, &cpus),
        cpus_offline: topology::offline(roots, &cpus),
        memory_nodes: topology::memory_nodes(roots),
        cpus,
        memory_bytes: machine::memory(roots, "MemTotal").unwrap_or(0),
        virtualization: virtualization::name(roots),
        congestion_default: congestion.filter(|name| !name.is_empty()),
        congestion_available: congestion_available(roots),
        memlock_limit_bytes: limit("Max locked memory").flatten(),
        memlock_exempt: capabilities.exempt_from_memlock(),
        nofile_limit: limit("Max open files").map_or(0, |l| l.unwrap_or(u64::MAX)),
        threads_limit: limits::thread_limit(roots),
        memory_limit: limits::group_memory_limit(roots),
        address_space_limit_bytes: limit("Max address space").flatten(),
        optmem_max_bytes: roots.proc_number("sys/net/core/optmem_max"),
        wmem_max_bytes: roots.proc_number("sys/net/core/wmem_max"),
        rmem_max_bytes: roots.proc_number("sys/net/core/rmem_max"),
        obstacles: [
            process_state::obstacles(roots),
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
