//! The axes: the things that a study can vary, one row each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One thing that a study varies.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)] // each is told by its row in `AXES`
pub enum Axis {
    Transport,
    Pattern,
    Mover,
    Receiver,
    Size,
    Fields,
    Threads,
    Congestion,
    SocketBuffer,
    ReadSize,
    Ring,
    Nodelay,
    Placement,
    Payload,
    Answer,
    Reaping,
    Cork,
    Quickack,
    Mtu,
    Segment,
    Device,
    AckBytes,
    Block,
    Depth,
    Cache,
    Access,
    MemNode,
    Neighbour,
    HugePages,
    Class,
    Cgroup,
    Server,
    Service,
    Connections,
    Idle,
    Connect,
    Rate,
    Think,
    Perf,
}

/// A row of the table of axes.
#[derive(Clone, Copy, Debug)]
pub struct AxisRow {
    /// The axis.
    pub axis: Axis,
    /// Its name in study files, on the command line and in tables.
    pub name: &'static str,
    /// What it says, for help texts and legends.
    pub summary: &'static str,
    /// Its value where a study names none.
    pub default: &'static str,
    /// Where a cell's name tells it.
    pub told: Told,
}

/// Where a cell's name tells the value of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Always, by its place.
    Always,
    /// Only where it is not the default, as `axis=value`.
    WhereItMatters,
}

const fn row(
    axis: Axis,
    name: &'static str,
    default: &'static str,
    summary: &'static str,
) -> AxisRow {
    AxisRow {
        axis,
        name,
        summary,
        default,
        told: Told::Always,
    }
}

const fn further(
    axis: Axis,
    name: &'static str,
    default: &'static str,
    summary: &'static str,
) -> AxisRow {
    AxisRow {
        told: Told::WhereItMatters,
        ..row(axis, name, default, summary)
    }
}

/// All axes, in the order in which a cell is written.
pub const AXES: &[AxisRow] = &[
    row(
        Axis::Transport,
        "transport",
        "loopback",
        "what lies between the two ends",
    ),
    row(
        Axis::Pattern,
        "pattern",
        "stream",
        "stream: send without pause; ask: wait for an answer to each message",
    ),
    row(Axis::Mover, "mover", "send", "how a message is sent"),
    row(Axis::Receiver, "receiver", "recv", "how it is taken in"),
    row(Axis::Size, "size", "64KiB", "bytes of one whole message"),
    row(
        Axis::Fields,
        "fields",
        "8",
        "pieces of memory that a message consists of, for movers that gather",
    ),
    row(
        Axis::Threads,
        "threads",
        "1",
        "flows: connections, each with one sender thread and one receiver thread; of a server, threads of its clients",
    ),
    row(
        Axis::Congestion,
        "congestion",
        "cubic",
        "TCP congestion control of each socket; `default` is the system's",
    ),
    row(
        Axis::SocketBuffer,
        "socket-buffer",
        "auto",
        "SO_SNDBUF and SO_RCVBUF; `auto` leaves the kernel's tuning on",
    ),
    row(
        Axis::ReadSize,
        "read-size",
        "256KiB",
        "bytes that the receiver asks for in one call",
    ),
    row(
        Axis::Ring,
        "ring",
        "4MiB",
        "payload memory that the sender goes round in: at least four messages, or exactly one",
    ),
    row(
        Axis::Nodelay,
        "nodelay",
        "auto",
        "TCP_NODELAY: on, off, or auto, which is on only where answers are waited for",
    ),
    row(
        Axis::Placement,
        "placement",
        "free",
        "where the two ends run: free, same-cpu, smt-sibling, same-cache, cross-cache, cross-node, or CPUs: 0:1 is SENDER:RECEIVER, or SERVER:CLIENTS; 0-3 a list for both; pairs stands for all pairs of CPUs, or for some of each distance where there are many",
    ),
    further(
        Axis::Payload,
        "payload",
        "prepared",
        "prepared: written once before the trial; refilled: every field filled with memset before each message",
    ),
    further(
        Axis::Answer,
        "answer",
        "64",
        "bytes of an answer, or `field`; never more than the message",
    ),
    further(
        Axis::Reaping,
        "reaping",
        "full",
        "zero-copy completions: full takes them all before a buffer is used again; one-look and never use it at once",
    ),
    further(
        Axis::Cork,
        "cork",
        "off",
        "TCP_CORK on before each message and off after it",
    ),
    further(
        Axis::Quickack,
        "quickack",
        "off",
        "TCP_QUICKACK set by the receiver before each receive; off leaves it to the kernel",
    ),
    further(
        Axis::Mtu,
        "mtu",
        "auto",
        "MTU of veth and wire in bytes; `auto` is 1500",
    ),
    further(
        Axis::Segment,
        "segment",
        "auto",
        "bytes that TCP hands to the device of veth and wire in one packet at most, which a card would cut by the MTU; `auto` is the device's own, 64KiB",
    ),
    further(
        Axis::Device,
        "device",
        "tun",
        "what wire and wire-udp are made of: tun, or veth, one end of a pair, as a card with frames of Ethernet",
    ),
    further(
        Axis::AckBytes,
        "ack-bytes",
        "128KiB",
        "bytes of a flow after which the far end of wire acknowledges; less where nothing more comes",
    ),
    further(
        Axis::Block,
        "block",
        "64KiB",
        "bytes of one call of a mover that works through a file",
    ),
    further(
        Axis::Depth,
        "depth",
        "1",
        "requests in flight, for movers that can have several",
    ),
    further(
        Axis::Cache,
        "cache",
        "memory",
        "memory: a memory file; warm: in the page cache; cold: dropped from it first; direct: past it, by O_DIRECT",
    ),
    further(
        Axis::Access,
        "access",
        "sequential",
        "order in which a file is gone through: sequential or random",
    ),
    further(
        Axis::MemNode,
        "mem-node",
        "auto",
        "NUMA node that both ends take memory from (set_mempolicy); `auto` is where each thread runs",
    ),
    further(
        Axis::Neighbour,
        "neighbour",
        "idle",
        "what keeps CPUs busy beside each trial: idle, spin, stream or chase, where the scheduler puts it, or at a place: spin@smt-sibling, seen from the sender's CPU, spin@all, or spin@2,3",
    ),
    further(
        Axis::HugePages,
        "huge-pages",
        "auto",
        "transparent huge pages under the memory that work is done on: on and off are checked in /proc/self/smaps; auto leaves it to the system",
    ),
    further(
        Axis::Class,
        "class",
        "other",
        "scheduler class of the threads: other, batch, idle, fifo, rr or deadline; other and batch also with a nice value: other:nice=10",
    ),
    further(
        Axis::Cgroup,
        "cgroup",
        "none",
        "control group of the trial's processes: none, or what it is given: max=50% (of one CPU), weight=10, cpuset, cpuset=0-1; joined by +",
    ),
    further(
        Axis::Server,
        "server",
        "none",
        "concurrency model of a server that many clients ask, or `none`: bytes are moved by the mover",
    ),
    further(
        Axis::Service,
        "service",
        "echo",
        "what the server answers: top, or echo and fixed of --size",
    ),
    further(
        Axis::Connections,
        "connections",
        "1",
        "connections that ask the server",
    ),
    further(
        Axis::Idle,
        "idle",
        "0",
        "connections beside them that are only there",
    ),
    further(
        Axis::Connect,
        "connect",
        "kept",
        "kept: each client keeps its connection; new: it opens one for each request",
    ),
    further(
        Axis::Rate,
        "rate",
        "closed",
        "closed: who has an answer asks again; or requests per second of all clients, whatever the server does",
    ),
    further(
        Axis::Think,
        "think",
        "0",
        "time from an answer to the next request, where the rate is closed",
    ),
    further(
        Axis::Perf,
        "perf",
        "off",
        "perf events of server and clients, children included, as perf stat counts; they make each context switch dearer",
    ),
];

impl Axis {
    /// The axis's row.
    #[must_use]
    pub fn row(self) -> &'static AxisRow {
        AXES.iter().find(|r| r.axis == self).unwrap_or(&AXES[0])
    }

    /// Whether a value of the axis is told: always, or where it is not the default.
    #[must_use]
    pub fn tells(self, value: &str) -> bool {
        let row = self.row();
        row.told == Told::Always || value != row.default
    }

    /// The axis's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Whether it can be on and off, so that `both` on the command line means the two.
    #[must_use]
    pub fn is_switch(self) -> bool {
        matches!(
            self,
            Axis::Nodelay | Axis::Cork | Axis::Quickack | Axis::HugePages | Axis::Perf
        )
    }

    /// The axis of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Axis> {
        AXES.iter().find(|r| r.name == name).map(|r| r.axis)
    }
}

/// Axes that mean nothing to some cells: what a cell has there says nothing about it.
pub const CONDITIONAL: [Axis; 12] = [
    Axis::Congestion,
    Axis::Nodelay,
    Axis::Cork,
    Axis::Quickack,
    Axis::Mtu,
    Axis::Segment,
    Axis::Device,
    Axis::AckBytes,
    Axis::Answer,
    Axis::Reaping,
    Axis::Depth,
    Axis::Block,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_axis_has_its_own_row_and_name() {
        for r in AXES {
            assert_eq!(r.axis.name(), r.name);
            assert_eq!(Axis::named(r.name), Some(r.axis));
            assert_eq!(
                serde_json::to_string(&r.axis).unwrap(),
                format!("\"{}\"", r.name)
            );
        }
    }
}
