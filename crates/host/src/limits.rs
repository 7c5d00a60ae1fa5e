//! Limits that a process of this user may use up, getrlimit(2), cgroups(7), proc_sys_kernel(5):
//! threads, memory, locked memory, address space, stack. Each is read with what is in use of it.

use std::fs;

use bytecost_spec::host::ResourceLimit;
use bytecost_spec::units::bytes_in_words;

use crate::capabilities;
use crate::cgroups::{self, Version};
use crate::machine::{limit, memory};
use crate::roots::{Roots, value};

/// The most entries of `/proc` that are looked at.
const MOST_ENTRIES: usize = 1 << 16;
/// Limits of version 1 from here on are none: the counter's largest value, in whole pages.
const NO_BYTES: u64 = 1 << 60;

/// The limit of threads and processes of which least is left. Threads of other users that hide
/// theirs are not seen.
pub fn thread_limit(roots: &Roots) -> Option<ResourceLimit> {
    let of_system = ["threads-max", "pid_max"].into_iter().filter_map(|name| {
        let limit = roots.proc_number(&format!("sys/kernel/{name}"))?;
        Some(ResourceLimit {
            name: format!("kernel.{name}"),
            limit,
            used: all_threads(roots).unwrap_or(0),
        })
    });
    let of_groups = cgroups::around(roots, "pids", |_, dir| {
        Some(ResourceLimit {
            name: format!("pids.max of /sys/{dir}"),
            limit: roots.sys_as(&format!("{dir}/pids.max"))?,
            used: roots.sys_as(&format!("{dir}/pids.current")).unwrap_or(0),
        })
    });
    let all = of_system
        .chain(of_user(roots))
        .chain(of_groups.unwrap_or_default());
    all.min_by_key(ResourceLimit::left)
}

/// RLIMIT_NPROC with the threads of this user; none for those who are not held to it.
fn of_user(roots: &Roots) -> Option<ResourceLimit> {
    let limit = limit(roots, "Max processes").flatten()?;
    let user = user(&roots.proc("self/status").ok()?)?;
    if user == "0" || capabilities::read(roots).lift_limits() {
        return None;
    }
    let entries = fs::read_dir(&roots.proc).ok()?.take(MOST_ENTRIES).flatten();
    let of_this_user = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let is_process = name.bytes().all(|b| b.is_ascii_digit());
        let status = is_process.then(|| roots.proc(&format!("{name}/status")).ok())??;
        let threads: u64 = value(&status, "Threads")?.parse().ok()?;
        (self::user(&status)? == user).then_some(threads)
    });
    Some(ResourceLimit {
        name: "RLIMIT_NPROC (ulimit -u)".to_owned(),
        limit,
        used: of_this_user.sum(),
    })
}

/// The real user of a process, by its status.
fn user(status: &str) -> Option<String> {
    let users = value(status, "Uid")?;
    users.split_whitespace().next().map(str::to_owned)
}

/// All threads of the machine, proc_loadavg(5).
fn all_threads(roots: &Roots) -> Option<u64> {
    let load = roots.proc("loadavg").ok()?;
    let (_, all) = load.split_whitespace().nth(3)?.split_once('/')?;
    all.parse().ok()
}

/// The limit of memory among this process's control groups of which least is left, in bytes. What a
/// group has in the page cache and has not used for long counts as free.
pub fn group_memory_limit(roots: &Roots) -> Option<ResourceLimit> {
    let groups = cgroups::around(roots, "memory", |version, dir| {
        let read = |file: &str| roots.sys(&format!("{dir}/{file}")).ok();
        let stat = read("memory.stat").unwrap_or_default();
        let of_stat = |name: &str| -> Option<u64> {
            let mut lines = stat.lines().filter_map(|line| line.split_once(' '));
            lines.find(|(of, _)| *of == name)?.1.trim().parse().ok()
        };
        let (limits, used, unused) = match version {
            Version::V2 => (
                ["memory.max", "memory.high"],
                "memory.current",
                "inactive_file",
            ),
            Version::V1 => (
                ["memory.limit_in_bytes", "memory.limit_in_bytes"],
                "memory.usage_in_bytes",
                "total_inactive_file",
            ),
        };
        let own = limits.map(|file| Some((file, read(file)?.parse().ok()?)));
        // Of groups that a container does not see.
        let above = of_stat("hierarchical_memory_limit").map(|limit| (limits[0], limit));
        let all = own.into_iter().flatten().chain(above);
        let (file, limit) = all.min_by_key(|(_, limit): &(&str, u64)| *limit)?;
        let used: u64 = read(used)?.parse().ok()?;
        (limit < NO_BYTES).then(|| ResourceLimit {
            name: format!("{file} of /sys/{dir}"),
            limit,
            used: used.saturating_sub(of_stat(unused).unwrap_or(0)),
        })
    });
    groups.ok()?.into_iter().min_by_key(ResourceLimit::left)
}

/// Memory in bytes that can still be taken: the machine's, or what a control group leaves.
pub fn available_memory(roots: &Roots) -> Option<u64> {
    let of_machine = memory(roots, "MemAvailable");
    let of_groups = group_memory_limit(roots).map(|limit| limit.left());
    of_machine.into_iter().chain(of_groups).min()
}

/// The limit that refused a thread or a process (EAGAIN), with its remedy.
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

/// The limits of memory that a process may have met, with the remedy.
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

/// A limit of one process, and the least of it with which bytecost works.
pub(crate) struct ProcessLimit {
    /// Its row of /proc/self/limits.
    pub(crate) row: &'static str,
    /// Its name, with the option of ulimit.
    name: &'static str,
    /// Bytes that the command takes itself, measured with `bytecost list`.
    least_bytes: u64,
}

/// Address space, data and the stack of the first thread.
pub(crate) const PROCESS_LIMITS: [ProcessLimit; 3] = [
    ProcessLimit {
        row: "Max address space",
        name: "RLIMIT_AS (`ulimit -v`)",
        least_bytes: 512 << 20,
    },
    ProcessLimit {
        row: "Max data size",
        name: "RLIMIT_DATA (`ulimit -d`)",
        least_bytes: 256 << 20,
    },
    ProcessLimit {
        row: "Max stack size",
        name: "RLIMIT_STACK (`ulimit -s`)",
        least_bytes: 384 << 10,
    },
];

/// A limit of this process below which it would be ended in mid-run, with the remedy.
pub fn limit_too_small(roots: &Roots) -> Option<String> {
    PROCESS_LIMITS.iter().find_map(|of| {
        let bytes = limit(roots, of.row).flatten()?;
        let [is, needs] = [bytes, of.least_bytes].map(bytes_in_words);
        (bytes < of.least_bytes)
            .then(|| format!("{} is {is}, and bytecost needs {needs}: raise it", of.name))
    })
}

/// The limits of this process's memory that are set, in words.
pub fn process_memory_limits(roots: &Roots) -> Vec<String> {
    let [address_space, data, _] = &PROCESS_LIMITS;
    let set = [address_space, data].into_iter().filter_map(|of| {
        let bytes = limit(roots, of.row).flatten()?;
        Some(format!("{} is {}", of.name, bytes_in_words(bytes)))
    });
    set.collect()
}

/// Processes of a control group around this one that the kernel has ended for want of memory.
pub fn oom_kills(roots: &Roots) -> u64 {
    let counts = cgroups::around(roots, "memory", |version, dir| {
        let file = match version {
            Version::V2 => "memory.events",
            Version::V1 => "memory.oom_control",
        };
        let text = roots.sys(&format!("{dir}/{file}")).ok()?;
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        lines
            .find(|(name, _)| *name == "oom_kill")?
            .1
            .trim()
            .parse()
            .ok()
    });
    let counts: Vec<u64> = counts.unwrap_or_default();
    counts.into_iter().max().unwrap_or(0)
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
    fn of_all_limits_of_threads_the_one_with_least_left_is_given() {
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
        let found = thread_limit(&roots).unwrap();
        assert_eq!((found.limit, found.used), (5, 3));
        assert!(found.name.contains("RLIMIT_NPROC"), "{found:?}");
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
    fn memory_is_the_least_of_the_machines_and_what_groups_leave() {
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
    fn a_limit_of_the_process_that_is_too_small_is_named_with_what_is_needed() {
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
    fn limits_of_version_1_hold_also_where_the_group_that_has_them_is_not_seen() {
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
