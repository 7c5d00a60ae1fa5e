//! The table of circumstances: conditions of the machine or the path that change or limit results.
//!
//! A row has every word about a circumstance; `bytecost doctor`, caveats and the first screen read
//! it. Circumstances of the path are detected in the lab, those of the machine in the host crate,
//! those of the course of a run in the analysis.

use serde::{Deserialize, Serialize};

/// A kind of circumstance; its row in [`CIRCUMSTANCES`] describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CircumstanceKind {
    /// A queueing discipline, tc(8).
    Qdisc,
    /// An MTU that is not the usual one.
    Mtu,
    /// An offload that is off, or a bound on what a device is handed in one packet.
    Offload,
    /// An XDP program.
    Xdp,
    /// Filters of tc(8) with their actions.
    TcFilter,
    /// Rules of a packet filter.
    Filter,
    /// Connection tracking.
    Tracking,
    /// Bounds of socket buffers below those that a kernel sets.
    SocketMemory,
    /// A packet socket that takes the packets of trials too.
    PacketSocket,
    /// A quota of CPU time of a control group around the whole run.
    Quota,
    /// One CPU for both ends.
    OneCpu,
    /// Other processes on the CPUs in some blocks.
    OtherProcesses,
    /// Other processes on the CPUs in so many blocks that results may be due to them.
    BusyMachine,
    /// Other processes on the CPUs of the other host.
    PeerBusy,
    /// Threads that were ready and got no CPU.
    OffCpu,
    /// CPU time that a hypervisor took.
    Steal,
    /// A frequency of the CPUs that changed.
    Frequency,
    /// CPUs that were slowed down for heat.
    Throttled,
    /// CPU time that is unaccounted for.
    BooksOpen,
    /// A congestion control that paces.
    Pacing,
    /// A tracer of the processes, as strace and debuggers are.
    Tracer,
    /// A nice value that this process was started with.
    Nice,
    /// A scheduler class that this process was started with.
    SchedulerClass,
    /// A set of CPUs that this process was started with, smaller than the machine's.
    Affinity,
    /// CPUs that the scheduler uses only for pinned threads (isolcpus, nohz_full).
    IsolatedCpus,
    /// A limit of the memory of a control group.
    MemoryLimit,
    /// A limit of the threads of a user or of a control group.
    ThreadLimit,
    /// A limit of a process: address space, data, stack.
    ProcessLimit,
    /// Huge pages that are switched off.
    HugePagesOff,
    /// Processes of other users that `/proc` does not show.
    HiddenProcesses,
    /// A kernel's queue of new connections that is shorter than usual, or overflowed.
    ListenQueue,
    /// A loopback device that is down.
    LoopbackDown,
    /// A coordinator that was stopped, or a machine that was suspended.
    Suspended,
    /// Fewer ports for new connections than usual.
    Ports,
}

/// The time at which a circumstance is detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noticed {
    /// Before the run, and by `bytecost doctor`.
    Before,
    /// In each trial or block.
    During,
    /// From the samples of the run.
    After,
}

/// The effect of a circumstance on verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CircumstanceEffect {
    /// Verdicts stand.
    Annotates,
    /// Rates and latencies of its cells have no verdict.
    WithholdsTimes,
    /// CPU time, rates and latencies of its cells have no verdict, except the comparison of one
    /// congestion control with another.
    WithholdsCosts,
    /// Its cells have no verdict.
    WithholdsAll,
    /// Amounts, and verdicts that there is no difference, are withheld; the other verdicts stand if
    /// the first attempts at the blocks confirm them.
    WithholdsUnconfirmed,
}

/// A row of the table: a kind of circumstance with its effect and its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Circumstance {
    /// Its kind.
    pub kind: CircumstanceKind,
    /// Its name, and that of its caveat where it has a caveat.
    pub name: &'static str,
    /// The times at which it is detected.
    pub noticed: &'static [Noticed],
    /// Its effect on verdicts.
    pub effect: CircumstanceEffect,
    /// Its meaning for results, as a clause.
    pub means: &'static str,
    /// The remedy, as an instruction.
    pub remedy: &'static str,
    /// Names of caveats that a cell with this circumstance does not get, since this cause is nearer.
    pub excludes: &'static [&'static str],
}

use CircumstanceEffect::{
    Annotates, WithholdsAll, WithholdsCosts, WithholdsTimes, WithholdsUnconfirmed,
};
use Noticed::{After, Before, During};

const RECEIVE_WINDOW: &str = "receive-window";

/// A circumstance of the path of packets: `doctor` finds it on loopback, each trial on its own path.
const fn of_path(
    kind: CircumstanceKind,
    name: &'static str,
    means: &'static str,
    remedy: &'static str,
) -> Circumstance {
    Circumstance {
        noticed: &[Before, During],
        ..of_process(kind, name, means, remedy)
    }
}

/// A circumstance of the process: inherited at its start, or a limit. It is found before the run.
const fn of_process(
    kind: CircumstanceKind,
    name: &'static str,
    means: &'static str,
    remedy: &'static str,
) -> Circumstance {
    Circumstance {
        kind,
        name,
        noticed: &[Before],
        effect: Annotates,
        means,
        remedy,
        excludes: &[],
    }
}

const NEW_NETWORK: &str =
    "run in a new network, which has no rules: `unshare --net`, then `ip link set lo up`";

/// Every circumstance, in the order of [`CircumstanceKind`].
pub const CIRCUMSTANCES: &[Circumstance] = &[
    of_path(
        CircumstanceKind::Qdisc,
        "qdisc",
        "every packet passes the queueing discipline",
        "remove it (`tc qdisc del dev DEVICE root`), or run in a new network: `unshare --net`, then `ip link set lo up`",
    ),
    of_path(
        CircumstanceKind::Mtu,
        "mtu",
        "the same bytes take another number of packets than usual",
        "as root: `ip link set lo mtu 65536`",
    ),
    of_path(
        CircumstanceKind::Offload,
        "offload",
        "the kernel divides packets and computes checksums where it usually does not",
        "as root: `ethtool -K DEVICE tx on sg on tso on gso on`, `ip link set DEVICE gso_max_size 65536 gso_max_segs 65535`",
    ),
    of_path(
        CircumstanceKind::Xdp,
        "xdp",
        "a program runs for each packet",
        "as root: `ip link set dev DEVICE xdp off`",
    ),
    of_path(
        CircumstanceKind::TcFilter,
        "tc-filter",
        "each packet is compared with the filters, whose actions may limit, drop or redirect it",
        "remove them (`tc filter del dev DEVICE ingress`, and `egress`), or run in a new network: `unshare --net`, then `ip link set lo up`",
    ),
    of_path(
        CircumstanceKind::Filter,
        "filter",
        "each packet is compared with the rules",
        NEW_NETWORK,
    ),
    of_path(
        CircumstanceKind::Tracking,
        "tracking",
        "each packet is looked up in a table of connections",
        NEW_NETWORK,
    ),
    of_path(
        CircumstanceKind::SocketMemory,
        "socket-memory",
        "buffers of sockets are smaller than usual: they may hold back either end",
        "as root: `sysctl -w net.ipv4.tcp_wmem='4096 16384 4194304' net.ipv4.tcp_rmem='4096 131072 6291456' net.core.wmem_max=212992 net.core.rmem_max=212992 net.core.wmem_default=212992 net.core.rmem_default=212992`",
    ),
    Circumstance {
        kind: CircumstanceKind::PacketSocket,
        name: "packet-socket",
        noticed: &[Before, During],
        effect: Annotates,
        means: "each packet socket takes a copy of what passes its device: the kernel copies what a zero-copy send left where it was, for everyone",
        remedy: "end what holds it (tcpdump, a monitor, a DHCP client; `ss -0 -p` names it) and run again",
        excludes: &[],
    },
    Circumstance {
        kind: CircumstanceKind::Quota,
        name: "quota-around",
        noticed: &[Before, During],
        effect: WithholdsTimes,
        means: "when it is used up all threads stop until the next period: windows fall into the pauses",
        remedy: "run in a group without a quota (`cpu.max`; `docker run` without --cpus, a pod without a CPU limit)",
        excludes: &[RECEIVE_WINDOW],
    },
    Circumstance {
        kind: CircumstanceKind::OneCpu,
        name: "one-cpu",
        noticed: &[Before],
        effect: Annotates,
        means: "both ends take turns on one CPU: rates are bounded by the sum of both, and no wake-up crosses CPUs",
        remedy: "two CPUs for the process (`taskset`, or the cpuset of its container), and a --placement with different CPUs for the two ends",
        excludes: &[RECEIVE_WINDOW],
    },
    Circumstance {
        kind: CircumstanceKind::OtherProcesses,
        name: "other-processes",
        noticed: &[Before, During],
        effect: Annotates,
        means: "blocks that other programs disturb are repeated, and reported if that does not help",
        remedy: "stop these programs (`top` shows them) and run again",
        excludes: &[],
    },
    Circumstance {
        kind: CircumstanceKind::BusyMachine,
        name: "busy-machine",
        noticed: &[During],
        effect: WithholdsUnconfirmed,
        means: "what others do on the CPUs, and where, is in costs and rates alike",
        remedy: "stop these programs (`top` shows them) and run again",
        excludes: &[RECEIVE_WINDOW, "books-open"],
    },
    Circumstance {
        kind: CircumstanceKind::PeerBusy,
        name: "peer-busy",
        noticed: &[During],
        effect: Annotates,
        means: "what others do on the CPUs of the other host is in its costs and rates",
        remedy: "stop other programs there and run again",
        excludes: &[RECEIVE_WINDOW],
    },
    Circumstance {
        kind: CircumstanceKind::OffCpu,
        name: "off-cpu",
        noticed: &[During],
        effect: Annotates,
        means: "threads that are ready wait for a CPU, and rates and latencies include the wait",
        remedy: "stop what else runs; --placement with a CPU for each end",
        excludes: &[RECEIVE_WINDOW],
    },
    Circumstance {
        kind: CircumstanceKind::Steal,
        name: "steal",
        noticed: &[Before, During],
        effect: Annotates,
        means: "time that the hypervisor gave to others; it does not show all of their work",
        remedy: "run on a machine of one's own, or at a quieter hour; compare CPU time rather than rates",
        excludes: &[],
    },
    Circumstance {
        kind: CircumstanceKind::Frequency,
        name: "frequency",
        noticed: &[Before, During],
        effect: Annotates,
        means: "numbers of single cells depend on when they were taken, and so do their ratios where trials of a block differ",
        remedy: "a fixed frequency: `cpupower frequency-set -g performance`, turbo off; cycles per byte where there are counters",
        excludes: &[],
    },
    Circumstance {
        kind: CircumstanceKind::Throttled,
        name: "throttled",
        noticed: &[During],
        effect: Annotates,
        means: "heat makes the CPUs slower",
        remedy: "cool the machine, or hold its frequency below what it can keep up",
        excludes: &[],
    },
    Circumstance {
        kind: CircumstanceKind::BooksOpen,
        name: "books-open",
        noticed: &[After],
        effect: Annotates,
        means: "something works for the cells, or beside them, that no clock of ours has",
        remedy: "stop other programs that start many short processes; as root, --evidence counts shows exactly who used the CPUs",
        excludes: &[],
    },
    Circumstance {
        kind: CircumstanceKind::Pacing,
        name: "pacing",
        noticed: &[Before, During],
        effect: WithholdsCosts,
        means: "the sender waits for timers of its congestion control: what it costs depends on what else runs, and rates are what pacing allows",
        remedy: "--congestion reno, which does not pace and needs no root",
        excludes: &[],
    },
    Circumstance {
        kind: CircumstanceKind::Tracer,
        name: "tracer",
        noticed: &[Before, During],
        effect: WithholdsAll,
        means: "a tracer stops threads at system calls and signals, which costs more than most of these calls",
        remedy: "run without it (strace, ltrace, gdb); `perf trace` and BPF programs disturb less",
        excludes: &["books-open", RECEIVE_WINDOW],
    },
    of_process(
        CircumstanceKind::Nice,
        "nice",
        "with a nice value above 0 other programs come first, and with one below 0 last: results depend on what else runs",
        "start it without `nice`; --class nice:N measures what a nice value changes",
    ),
    of_process(
        CircumstanceKind::SchedulerClass,
        "scheduler-class",
        "all threads of a trial inherit the class, so that they run before those of other classes, or after them",
        "start it without `chrt`; --class measures what a class changes",
    ),
    of_process(
        CircumstanceKind::Affinity,
        "affinity",
        "threads run on these CPUs alone, and interrupts and other programs on others too",
        "start it without `taskset`, in a control group with all CPUs; --placement chooses CPUs for each end",
    ),
    of_process(
        CircumstanceKind::IsolatedCpus,
        "isolated-cpus",
        "the scheduler puts no thread on isolated CPUs by itself: those of a placement `free` share the others",
        "--placement with CPUs of the isolated ones, or boot without isolcpus and nohz_full",
    ),
    of_process(
        CircumstanceKind::MemoryLimit,
        "memory-limit",
        "when it is used up the kernel takes pages back in mid-trial, and then ends a process",
        "a group with more memory (`memory.max`; `docker run --memory`, a pod's memory limit), or a smaller --ring and --threads",
    ),
    of_process(
        CircumstanceKind::ThreadLimit,
        "thread-limit",
        "when it is used up no thread and no process can be started",
        "raise it (`ulimit -u`, nproc in /etc/security/limits.conf, TasksMax= of a unit, `docker run --pids-limit`), or choose fewer --threads",
    ),
    of_process(
        CircumstanceKind::ProcessLimit,
        "process-limit",
        "when it is used up memory is refused, and a process ends",
        "raise it (`ulimit -v`, `ulimit -d`, `ulimit -s`), or choose a smaller --ring and --threads",
    ),
    of_process(
        CircumstanceKind::HugePagesOff,
        "huge-pages-off",
        "memory that is to lie in huge pages lies in small ones: each page is pinned and copied by itself",
        "as root: `echo madvise > /sys/kernel/mm/transparent_hugepage/enabled`",
    ),
    Circumstance {
        kind: CircumstanceKind::HiddenProcesses,
        name: "hidden-processes",
        noticed: &[Before, During],
        effect: Annotates,
        means: "no CPU time of other programs is read: cells have no books, and blocks that others disturb are not repeated",
        remedy: "run as root, or with a /proc of its own PID namespace that is mounted without hidepid (`unshare --pid --fork --mount-proc`)",
        excludes: &[],
    },
    Circumstance {
        kind: CircumstanceKind::ListenQueue,
        name: "listen-queue",
        noticed: &[Before, During],
        effect: WithholdsTimes,
        means: "connections that find the queue full are tried again after 1 s or more, whatever the server does",
        remedy: "as root: `sysctl -w net.core.somaxconn=4096 net.ipv4.tcp_syncookies=1`, or fewer --connections",
        excludes: &[RECEIVE_WINDOW],
    },
    Circumstance {
        kind: CircumstanceKind::LoopbackDown,
        name: "loopback-down",
        noticed: &[Before],
        effect: Annotates,
        means: "nothing can be sent over it, so no trial can be made",
        remedy: "as root: `ip link set lo up`",
        excludes: &[],
    },
    Circumstance {
        kind: CircumstanceKind::Suspended,
        name: "suspended",
        noticed: &[During],
        effect: Annotates,
        means: "time goes by in which nothing moves or nobody looks: such a block is measured again",
        remedy: "let it run to its end, without Ctrl-Z, SIGSTOP or `docker pause`; `systemd-inhibit bytecost run …` keeps the machine awake",
        excludes: &[],
    },
    of_process(
        CircumstanceKind::Ports,
        "ports",
        "each connection needs a port, which stays taken for 60 s after its end (TIME_WAIT): with none left connections fail",
        "as root: `sysctl -w net.ipv4.ip_local_port_range='32768 60999'`, or wait for 60 s",
    ),
];

impl CircumstanceKind {
    /// The row of the kind.
    pub const fn row(self) -> &'static Circumstance {
        &CIRCUMSTANCES[self as usize]
    }
}

impl CircumstanceKind {
    /// Returns true for a setting with which the process was started, which headers name.
    pub const fn is_start(self) -> bool {
        use CircumstanceKind::{Nice, SchedulerClass, Tracer};
        matches!(self, Nice | SchedulerClass | Tracer)
    }
}

/// The row with this name.
pub fn named(name: &str) -> Option<&'static Circumstance> {
    CIRCUMSTANCES.iter().find(|row| row.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_the_order_of_kinds_and_have_distinct_names() {
        for (position, row) in CIRCUMSTANCES.iter().enumerate() {
            assert_eq!(row.kind as usize, position, "{}", row.name);
            assert_eq!(row.kind.row(), row);
            assert_eq!(named(row.name), Some(row));
        }
        assert_eq!(named("nothing"), None);
    }

    #[test]
    fn no_circumstance_excludes_itself_and_each_has_a_remedy() {
        for row in CIRCUMSTANCES {
            assert!(!row.excludes.contains(&row.name), "{}", row.name);
            assert!(
                !row.noticed.is_empty() && !row.remedy.is_empty(),
                "{}",
                row.name
            );
        }
    }
}
