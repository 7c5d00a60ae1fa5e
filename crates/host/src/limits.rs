//! Limits of threads, memory, address space and stack, getrlimit(2), cgroups(7), proc_sys_kernel(5),
//! with the part that is in use, and explanations for a process that has met one.

use std::fs;

use bytecost_spec::host::ResourceLimit;
use bytecost_spec::units::bytes_in_words;

use crate::capabilities;
use crate::cgroups::{self, Version};
use crate::machine::{limit, memory};
use crate::roots::{Roots, value};

/// The most entries of `/proc` that are read.
const MOST_ENTRIES: usize = 1 << 16;
/// A limit of version 1 that is at least so large is none: the kernel shows the largest value of its
/// counter, in whole pages.
const UNLIMITED_BYTES: u64 = 1 << 60;

/// The limit of threads and processes with the smallest rest. Threads of other users are not counted
/// where `/proc` hides them.
pub fn thread_limit(roots: &Roots) -> Option<ResourceLimit> {
    let of_system = ["threads-max", "pid_max"].into_iter().filter_map(|name| {
        let limit = roots.proc_number(&format!("sys/kernel/{name}"))?;
        Some(ResourceLimit {
            name: format!("kernel.{name}"),
            limit,
            used: system_threads(roots).unwrap_or(0),
        })
    });
    let of_groups = cgroups::read_ancestors(roots, "pids", |_, dir| {
        Some(ResourceLimit {
            name: format!("pids.max of /sys/{dir}"),
            limit: roots.sys_as(&format!("{dir}/pids.max"))?,
            used: roots.sys_as(&format!("{dir}/pids.current")).unwrap_or(0),
        })
    });
    of_system
        .chain(user_limit(roots))
        .chain(of_groups.unwrap_or_default())
        .min_by_key(ResourceLimit::left)
}

/// RLIMIT_NPROC with the threads of this user; none for root and with capabilities that lift it.
fn user_limit(roots: &Roots) -> Option<ResourceLimit> {
    let limit = limit(roots, "Max processes").flatten()?;
    let user = real_user(&roots.proc("self/status").ok()?)?;
    if user == "0" || capabilities::read(roots).exempt_from_nproc() {
        return None;
    }
    let entries = fs::read_dir(&roots.proc).ok()?.take(MOST_ENTRIES).flatten();
    let of_this_user = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let is_process = name.bytes().all(|b| b.is_ascii_digit());
        let status = is_process.then(|| roots.proc(&format!("{name}/status")).ok())??;
        let threads: u64 = value(&status, "Threads")?.parse().ok()?;
        (real_user(&status)? == user).then_some(threads)
    });
    Some(ResourceLimit {
        name: "RLIMIT_NPROC (ulimit -u)".to_owned(),
        limit,
        used: of_this_user.sum(),
    })
}

/// The real user id of a process, from its status file.
fn real_user(status: &str) -> Option<String> {
    let users = value(status, "Uid")?;
    users.split_whitespace().next().map(str::to_owned)
}

/// The number of threads of the machine, proc_loadavg(5).
fn system_threads(roots: &Roots) -> Option<u64> {
    let load = roots.proc("loadavg").ok()?;
    let (_, all) = load.split_whitespace().nth(3)?.split_once('/')?;
    all.parse().ok()
}

/// The names of a version's files of the memory controller, and of a row of its `memory.stat`.
struct MemoryFiles {
    limits: &'static [&'static str],
    used: &'static str,
    /// Inactive pages of the page cache, in bytes.
    inactive: &'static str,
}

const MEMORY_V1: MemoryFiles = MemoryFiles {
    limits: &["memory.limit_in_bytes"],
    used: "memory.usage_in_bytes",
    inactive: "total_inactive_file",
};
const MEMORY_V2: MemoryFiles = MemoryFiles {
    limits: &["memory.max", "memory.high"],
    used: "memory.current",
    inactive: "inactive_file",
};

/// The memory limit with the smallest rest among this process's control groups, in bytes. Inactive
/// pages of the page cache count as free.
pub fn group_memory_limit(roots: &Roots) -> Option<ResourceLimit> {
    let groups = cgroups::read_ancestors(roots, "memory", |version, dir| {
        let read = |file: &str| roots.sys(&format!("{dir}/{file}")).ok();
        let stat = read("memory.stat").unwrap_or_default();
        let of_stat = |name: &str| -> Option<u64> {
            let mut lines = stat.lines().filter_map(|line| line.split_once(' '));
            lines.find(|(key, _)| *key == name)?.1.trim().parse().ok()
        };
        let files = match version {
            Version::V2 => &MEMORY_V2,
            Version::V1 => &MEMORY_V1,
        };
        let own = (files.limits.iter()).filter_map(|file| Some((*file, read(file)?.parse().ok()?)));
        // Limits of ancestors that a container does not see are in the statistics of version 1.
        let of_ancestors =
            of_stat("hierarchical_memory_limit").map(|limit| (files.limits[0], limit));
        let (file, limit) = own
            .chain(of_ancestors)
            .min_by_key(|(_, limit): &(&str, u64)| *limit)?;
        let used: u64 = read(files.used)?.parse().ok()?;
        (limit < UNLIMITED_BYTES).then(|| ResourceLimit {
            name: format!("{file} of /sys/{dir}"),
            limit,
            used: used.saturating_sub(of_stat(files.inactive).unwrap_or(0)),
        })
    });
    groups.ok()?.into_iter().min_by_key(ResourceLimit::left)
}

/// Memory in bytes that this process can still allocate: what the machine has available, or less
/// where a control group limits it.
pub fn available_memory(roots: &Roots) -> Option<u64> {
    let of_machine = memory(roots, "MemAvailable");
    let of_groups = group_memory_limit(roots).map(|limit| limit.left());
    of_machine.into_iter().chain(of_groups).min()
}

/// An explanation, with the remedy, of EAGAIN from clone(2): the thread limit that was reached.
pub fn thread_refusal(roots: &Roots) -> String {
    let remedy = "raise it, or choose fewer --threads";
    match thread_limit(roots) {
        Some(limit) => format!(
            "no more threads and processes: {} allows {}: {remedy}",
            limit.name, limit.limit
        ),
        None => format!("no more threads and processes are allowed: {remedy}"),
    }
}

/// An explanation, with the remedy, of a failed allocation: the memory limits of this process.
pub fn memory_refusal(roots: &Roots) -> String {
    let of_group = group_memory_limit(roots).map(|group| {
        format!(
            "{} is {}, of which {} are left",
            group.name,
            bytes_in_words(group.limit),
            bytes_in_words(group.left())
        )
    });
    let limits: Vec<String> = of_group
        .into_iter()
        .chain(process_memory_limits(roots))
        .collect();
    match limits.as_slice() {
        [] => "the memory of this machine is used up: choose a smaller --ring and --threads"
            .to_owned(),
        limits => format!(
            "no more memory: {}: raise it, or choose a smaller --ring and --threads",
            limits.join("; ")
        ),
    }
}

/// A resource limit of one process, and the smallest value with which bytecost works.
pub(crate) struct ProcessLimit {
    /// The name of its row in /proc/self/limits.
    pub(crate) row: &'static str,
    /// Its name, with the option of ulimit.
    name: &'static str,
    /// Bytes that the coordinator of a run needs, rounded up. Its threads reserve 64 MiB of address space each,
    /// and those of a survey are the most.
    min_bytes: u64,
}

/// The limits of address space, data, and the stack of the first thread.
pub(crate) const PROCESS_LIMITS: [ProcessLimit; 3] = [
    ProcessLimit {
        row: "Max address space",
        name: "RLIMIT_AS (`ulimit -v`)",
        min_bytes: 2 << 30,
    },
    ProcessLimit {
        row: "Max data size",
        name: "RLIMIT_DATA (`ulimit -d`)",
        min_bytes: 256 << 20,
    },
    ProcessLimit {
        row: "Max stack size",
        name: "RLIMIT_STACK (`ulimit -s`)",
        min_bytes: 384 << 10,
    },
];

/// The first limit of this process, in words and with the remedy, that is too small for a run to end.
pub fn limit_too_small(roots: &Roots) -> Option<String> {
    PROCESS_LIMITS.iter().find_map(|row| {
        let bytes = limit(roots, row.row).flatten()?;
        let [is, needs] = [bytes, row.min_bytes].map(bytes_in_words);
        (bytes < row.min_bytes)
            .then(|| format!("{} is {is}, and bytecost needs {needs}: raise it", row.name))
    })
}

/// The limits of address space and data that are set for this process, in words.
pub fn process_memory_limits(roots: &Roots) -> Vec<String> {
    let [address_space, data, _] = &PROCESS_LIMITS;
    ([address_space, data].into_iter())
        .filter_map(|row| {
            let bytes = limit(roots, row.row).flatten()?;
            Some(format!("{} is {}", row.name, bytes_in_words(bytes)))
        })
        .collect()
}

/// The number of processes that the kernel has killed for lack of memory in a control group of this
/// process: the largest count among its groups, 0 where none can be read.
pub fn oom_kills(roots: &Roots) -> u64 {
    let counts = cgroups::read_ancestors(roots, "memory", |version, dir| {
        let file = match version {
            Version::V2 => "memory.events",
            Version::V1 => "memory.oom_control",
        };
        let text = roots.sys(&format!("{dir}/{file}")).ok()?;
        let mut rows = text.lines().filter_map(|line| line.split_once(' '));
        let (_, count) = rows.find(|(name, _)| *name == "oom_kill")?;
        count.trim().parse::<u64>().ok()
    });
    counts.unwrap_or_default().into_iter().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::machine;

    const LIMITS: &str = "Limit                     Soft Limit           Hard Limit           Units
Max processes             5                    5                    processes
Max address space         unlimited            unlimited            bytes
";

    fn status(user: u32, threads: u32) -> String {
        format!(
            "Name:\tx\nUid:\t{user}\t{user}\t{user}\t{user}\nThreads:\t{threads}\nCapEff:\t0000000000000000\n"
        )
    }

    #[test]
    fn the_thread_limit_with_the_smallest_rest_is_given() {
        let (own, other) = (status(7, 1), status(8, 90));
        let files = [
            ("proc/self/limits", LIMITS),
            ("proc/self/status", own.as_str()),
            ("proc/12/status", &status(7, 3)),
            ("proc/13/status", &other),
            ("proc/loadavg", "0.1 0.1 0.1 1/200 99"),
            ("proc/sys/kernel/threads-max", "1000"),
            ("proc/self/cgroup", "5:pids:/a/b\n"),
        ];
        let (dir, roots) = machine(&files);
        let of_user = thread_limit(&roots).unwrap();
        assert_eq!((of_user.limit, of_user.used), (5, 3));
        assert!(of_user.name.contains("RLIMIT_NPROC"), "{of_user:?}");
        // A group above has less room.
        crate::tests::put(dir.path(), "sys/fs/cgroup/pids/a/pids.max", "20");
        crate::tests::put(dir.path(), "sys/fs/cgroup/pids/a/pids.current", "19");
        crate::tests::put(dir.path(), "sys/fs/cgroup/pids/a/b/pids.max", "max");
        let found = thread_limit(&roots).unwrap();
        assert_eq!(
            (found.name.as_str(), found.left()),
            ("pids.max of /sys/fs/cgroup/pids/a", 1)
        );
        assert!(
            thread_refusal(&roots)
                .contains("pids.max of /sys/fs/cgroup/pids/a allows 20: raise it")
        );
        // Root is held to its group alone.
        crate::tests::put(dir.path(), "sys/fs/cgroup/pids/a/pids.max", "max");
        crate::tests::put(dir.path(), "proc/self/status", &status(0, 1));
        assert_eq!(thread_limit(&roots).unwrap().name, "kernel.threads-max");
    }

    #[test]
    fn available_memory_is_the_smaller_of_the_machines_and_the_groups() {
        let mib = |n: u64| (n << 20).to_string();
        let (dir, roots) = machine(&[
            (
                "proc/meminfo",
                "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB",
            ),
            ("proc/self/cgroup", "0::/a/b\n"),
        ]);
        let put = |path: &str, text: &str| {
            crate::tests::put(dir.path(), &format!("sys/fs/cgroup/{path}"), text);
        };
        assert_eq!(available_memory(&roots), Some(8 << 30));
        put("a/b/memory.max", "max");
        put("a/b/memory.current", "4096");
        assert_eq!(group_memory_limit(&roots), None);
        put("a/memory.max", &mib(96));
        put("a/memory.current", &mib(80));
        put(
            "a/memory.stat",
            &format!("anon 1\ninactive_file {}", mib(30)),
        );
        put("a/memory.events", "low 0\noom_kill 3\n");
        let found = group_memory_limit(&roots).unwrap();
        assert_eq!(found.name, "memory.max of /sys/fs/cgroup/a");
        assert_eq!((found.limit, found.left()), (96 << 20, 46 << 20));
        assert_eq!(available_memory(&roots), Some(46 << 20));
        assert_eq!(oom_kills(&roots), 3);
        assert!(
            memory_refusal(&roots)
                .contains("memory.max of /sys/fs/cgroup/a is 96 MiB, of which 46 MiB are left")
        );
        put("a/b/memory.high", &mib(8));
        assert_eq!(group_memory_limit(&roots).unwrap().limit, 8 << 20);
    }

    #[test]
    fn a_process_limit_that_is_too_small_is_named_with_the_needed_bytes() {
        let check = |row: &str, bytes: u64, expected: &[&str]| {
            let line = format!("{row:<26}{bytes}  {bytes}  bytes");
            let (_dir, roots) = machine(&[("proc/self/limits", &line)]);
            let why = limit_too_small(&roots).unwrap_or_default();
            assert_eq!(why.is_empty(), expected.is_empty(), "{why}");
            assert!(expected.iter().all(|part| why.contains(part)), "{why}");
        };
        check(
            "Max stack size",
            64 << 10,
            &["RLIMIT_STACK", "is 64 KiB", "needs 384 KiB", "ulimit -s"],
        );
        check("Max stack size", 8 << 20, &[]);
        check("Max address space", 100 << 20, &["RLIMIT_AS", "is 100 MiB"]);
        check("Max data size", 1 << 20, &["RLIMIT_DATA"]);
        check("Max locked memory", 1, &[]);
    }

    #[test]
    fn a_limit_of_version_1_is_found_even_if_its_group_is_not_visible() {
        let none = "9223372036854771712";
        let (dir, roots) = machine(&[("proc/self/cgroup", "9:memory:/docker/b\n")]);
        let put = |path: &str, text: &str| {
            crate::tests::put(dir.path(), &format!("sys/fs/cgroup/memory/{path}"), text);
        };
        put("memory.limit_in_bytes", none);
        put("memory.usage_in_bytes", "1048576");
        put(
            "memory.oom_control",
            "oom_kill_disable 0\nunder_oom 0\noom_kill 2",
        );
        assert_eq!(group_memory_limit(&roots), None);
        put("memory.stat", "hierarchical_memory_limit 100663296\n");
        let found = group_memory_limit(&roots).unwrap();
        assert_eq!((found.limit, found.used), (96 << 20, 1 << 20));
        assert_eq!(oom_kills(&roots), 2);
    }
}
