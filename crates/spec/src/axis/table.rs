//! The table of axes: one row defines one axis. The rows give the variants of `Axis`, the fields of
//! `Cell` and their places in ids, the options with their headings in `--help`, columns and words.
//!
//! A new axis is one row and the code that obeys it.
//!
//! The row is `Variant => field: Type, VALUES, { … }`; `row.rs` has its columns, `values.rs` the sets of
//! values. It stands below the placement, since ids have the values up to there by position, or among the
//! axes of servers. The field names its unit (`size_bytes`). VALUES parse and check; `kind` says how values
//! are sorted and worded, and is `Word` where it is left out. `applies_to` is the only rule of which cells
//! the axis means something to: others have the default, and a study that names the axis for no such cell
//! is refused with the rule's words. `phrase` is the value in a sentence.
//!
//! The code that obeys it is in the lab: options of sockets in `transports/tcp.rs` and `transports/unix.rs`,
//! before the handshake; what a mover or receiver is given in `flow_setup.rs`; links in
//! `transports/link.rs`. An option that rustix lacks gets a function in `crates/sys/src/tcp.rs`. No other
//! file asks for an arm. Those that may need a line:
//!
//! - `crates/plan/src/refusal.rs`, for a value that a host may lack, or that another value rules out;
//! - `RECEIVER_AXES` of `crates/lab/src/live.rs`, for an option of the receiver, and `NOT_LIVE` of
//!   `crates/bytecost/src/args/axes.rs`, for one that live sessions do not have;
//! - `known` of `crates/lab/src/lab/evidence_trials/known.rs`, for a property of the path;
//! - `crates/analysis/src/advice/conditions.rs`, for a value with a condition of its use, and `title` of
//!   `crates/report/src/advice.rs`, for a title other than its name.
//!
//! Tests have rows for it in `crates/spec/src/cell/tests.rs` (values and errors), `cells.rs` and
//! `refusals.rs` of `crates/plan/src/tests`, and `conducts` of `crates/lab/tests/conformance.rs`, which
//! moves every byte with a value. The schemas have one property more, and `samples.csv` one column.

use serde::{Deserialize, Serialize};
use strum::VariantNames;

use super::row::{AppliesTo, AxisGroup, AxisRow, DEFAULT_ROW, ValueKind, cells};
use super::values::{
    Bytes, Name, Number, OnOff, OneOf, Or, OrBytes, Text, Time, Values, count, default_of,
};
use crate::cell::{
    Access, Answer, Arrivals, Cache, Cgroup, Class, CompetingLoad, Connect, Device, HugePages,
    MAX_CALL_BYTES, MAX_CONNECTIONS, MAX_DEPTH, MAX_FIELDS, MAX_RATE_PER_S, MAX_RING_BYTES,
    MAX_SIZE_BYTES, MAX_SOCKET_BUFFER_BYTES, MAX_THINK_NS, MAX_THREADS, MOST_NODES, MTU_BYTES,
    Nodelay, Pattern, Payload, Placement, ReadSize, Reaping, Ring, SEGMENT_BYTES, Transport,
};

const SERVERS: AppliesTo = cells("servers: name one with --server", |c| c.is_served());
const BUT_SERVERS: AppliesTo = cells("all but servers", |c| !c.is_served());
const OVER_TCP: AppliesTo = cells("movers that send over TCP", |c| c.is_sent_by_tcp());
const LINKS: AppliesTo = cells(
    "links that are made for the run: --transport veth or wire",
    |c| c.has_a_link(),
);
const OVER_WIRE: AppliesTo = cells("--transport wire", |c| c.is_sent() && !c.is_received());
const OF_FILES: AppliesTo = cells("movers of files", |c| c.has_a_file());
const RECEIVED: AppliesTo = cells("messages that are received: not over wire", |c| {
    c.is_received()
});

/// The value of the axis `server` in a cell without one.
const NO_SERVER: &str = "none";

axes! {
    /// One point of a study's grid. Its [`Cell::id`] names it everywhere.
    #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    #[serde(deny_unknown_fields)]
    Cell {
        /// Path between the two ends.
        Transport => transport: Transport, OneOf, {
            group: AxisGroup::Path,
            default: "loopback",
            help: "path between the two ends: loopback, unix, veth or wire",
            phrase: "over {}",
            applies_to: cells("messages over sockets", |c| c.is_sent() || c.is_served()),
        }
        /// Stream, or request and response.
        Pattern => pattern: Pattern, OneOf, {
            group: AxisGroup::Message,
            default: "stream",
            help: "stream: send without pause; request-response: wait for the response to each message",
            otherwise: |c| if c.is_served() { "request-response" } else { "" },
            applies_to: cells("movers that send", |c| c.is_sent()),
        }
        /// Name of the mover, a row of the engine's table.
        Mover => mover: String, Name, {
            group: AxisGroup::Method,
            default: "send",
            help: "how a message is sent",
            phrase: "with `{}`",
            applies_to: BUT_SERVERS,
        }
        /// Name of the receiver, a row of the engine's table.
        Receiver => receiver: String, Name, {
            group: AxisGroup::Method,
            default: "recv",
            help: "how it is received",
            phrase: "into `{}`",
            applies_to: RECEIVED,
        }
        /// Bytes of one message.
        Size => size_bytes: u64, Bytes(1..=MAX_SIZE_BYTES), {
            kind: ValueKind::Bytes,
            group: AxisGroup::Message,
            default: "64KiB",
            help: "bytes of one message",
            phrase: "at {}",
            otherwise: |c| if c.is_ping() { "8" } else { "64" },
            applies_to: cells("all but ping-pongs and services without a size", |c| c.has_size()),
        }
        /// Number of pieces of memory that a message consists of.
        Fields => fields: u32, count(1, MAX_FIELDS), {
            kind: ValueKind::Number,
            group: AxisGroup::Message,
            default: "8",
            help: "pieces of memory that a message consists of",
            phrase: "with {} field{s}",
            applies_to: cells("movers that send", |c| c.is_sent() || c.stays_in_memory()),
        }
        /// Number of flows.
        Threads => threads: u32, count(1, MAX_THREADS), {
            kind: ValueKind::Number,
            group: AxisGroup::Load,
            default: "1",
            help: "flows: connections, each with one sender thread and one receiver thread; with a server, threads of its clients",
            phrase: "with {} thread{s}",
        }
        /// Name of the TCP congestion control, or `default` for the system's.
        Congestion => congestion: String, Name, {
            group: AxisGroup::Socket,
            default: "cubic",
            help: "TCP congestion control of each socket; `default` is the system's",
            otherwise: |c| if c.is_sent() { "default" } else { "" },
            applies_to: cells("messages over TCP", |c| c.is_sent_by_tcp() || c.is_served()),
        }
        /// SO_SNDBUF and SO_RCVBUF in bytes; none leaves the kernel's tuning on.
        SocketBuffer => socket_buffer_bytes: Option<u64>, Or(&["auto"], Bytes(1..=MAX_SOCKET_BUFFER_BYTES)), {
            kind: ValueKind::Bytes,
            group: AxisGroup::Socket,
            default: "auto",
            help: "SO_SNDBUF and SO_RCVBUF; `auto` leaves the kernel's tuning on",
            applies_to: cells("movers that send", |c| c.is_sent()),
        }
        /// Bytes that the receiver asks for in one call.
        ReadSize => read_size: ReadSize, OrBytes(&[ReadSize::Field, ReadSize::Message], MAX_CALL_BYTES), {
            kind: ValueKind::Bytes,
            group: AxisGroup::Socket,
            default: "256KiB",
            help: "bytes that the receiver asks for in one call, `field` or `message`",
            applies_to: RECEIVED,
        }
        /// Payload memory of one flow, as requested; [`Cell::ring_slots`] is the number of messages in it.
        Ring => ring: Ring, OrBytes(&[Ring::Message], MAX_RING_BYTES), {
            kind: ValueKind::Bytes,
            group: AxisGroup::Message,
            default: "4MiB",
            help: "size of the sender's payload buffer: at least four messages, or exactly one; for files, their length",
            applies_to: cells("movers of messages and files", |c| c.is_sent() || c.is_of_files() || c.stays_in_memory()),
        }
        /// TCP_NODELAY of the sockets.
        Nodelay => nodelay: Nodelay, OneOf, {
            kind: ValueKind::Switch,
            group: AxisGroup::Socket,
            default: "auto",
            help: "TCP_NODELAY: on, off, or auto: on with --pattern request-response alone",
            applies_to: OVER_TCP,
        }
        /// CPUs of the two ends.
        Placement => placement: Placement, Text, {
            kind: ValueKind::Lists,
            group: AxisGroup::Placement,
            default: "free",
            help: "where the two ends run: free, pinned (to the nearest two cores), same-cpu, smt-sibling, same-cache, cross-cache, cross-node, or CPUs: 0:1 is SENDER:RECEIVER or SERVER:CLIENTS, 0-3 is one list for both; pairs: all pairs of CPUs, or some of each distance where there are many",
        }
        /// Payload written once before the trial, or again before each message.
        Payload => payload: Payload, OneOf, {
            group: AxisGroup::Message,
            default: "prepared",
            help: "prepared: written once before the trial; refilled: every field is filled by memset before each message",
            applies_to: cells("movers that send", |c| c.is_sent()),
        }
        /// Size of a response, where the sender waits for one.
        Response => answer: Answer, OrBytes(&[Answer::Field], MAX_CALL_BYTES), {
            kind: ValueKind::Bytes,
            group: AxisGroup::Message,
            default: "64",
            help: "bytes of a response, or `field`; never more than the message",
            applies_to: cells("messages with a response: --pattern request-response", |c| c.is_sent() && c.cell().pattern == Pattern::RequestResponse),
        }
        /// Treatment of zero-copy completions.
        Reaping => reaping: Reaping, OneOf, {
            group: AxisGroup::Socket,
            default: "full",
            help: "zero-copy completions: full waits for all of them before a buffer is used again; one-look and never use it at once",
            applies_to: cells("movers with zero-copy completions", |c| c.completes()),
        }
        /// True if TCP_CORK is set around each message.
        Cork => cork: bool, OnOff, {
            kind: ValueKind::Switch,
            group: AxisGroup::Socket,
            default: "off",
            help: "TCP_CORK: on before each message and off after it",
            applies_to: OVER_TCP,
        }
        /// True if the receiver sets TCP_QUICKACK before each receive.
        Quickack => quickack: bool, OnOff, {
            kind: ValueKind::Switch,
            group: AxisGroup::Socket,
            default: "off",
            help: "TCP_QUICKACK set by the receiver before each receive; off leaves it to the kernel",
            applies_to: cells("messages over TCP that are received: not over wire", |c| c.is_sent_by_tcp() && c.is_received()),
        }
        /// MTU of the link in bytes; none is the transport's own.
        Mtu => mtu_bytes: Option<u32>, Or(&["1500", "auto"], Number(MTU_BYTES, "bytes")), {
            kind: ValueKind::PlainBytes,
            group: AxisGroup::Path,
            default: "1500",
            help: "MTU of veth and wire in bytes; `auto` is 1500",
            applies_to: LINKS,
        }
        /// Largest packet that TCP hands to the link's device (GSO), in bytes; none is the device's own
        /// limit.
        Segment => segment_bytes: Option<u32>, Or(&["auto"], Bytes(SEGMENT_BYTES)), {
            kind: ValueKind::Bytes,
            group: AxisGroup::Path,
            default: "auto",
            help: "most bytes that TCP hands to the device of veth and wire in one packet, before a network card would cut it by the MTU; `auto` is the device's own, 64KiB",
            phrase: "with packets of up to {}",
            applies_to: LINKS,
        }
        /// Device that [`Transport::Wire`] is made of.
        Device => device: Device, OneOf, {
            group: AxisGroup::Path,
            default: "tun",
            help: "what wire is made of: tun, or veth: one end of a pair, with Ethernet frames as a network card has",
            applies_to: OVER_WIRE,
        }
        /// Bytes after which the far end of [`Transport::Wire`] acknowledges.
        AckBytes => ack_bytes: u64, Bytes(1..=MAX_CALL_BYTES), {
            kind: ValueKind::Bytes,
            group: AxisGroup::Path,
            default: "128KiB",
            help: "bytes of a flow after which the far end of wire acknowledges; fewer when the flow pauses",
            applies_to: OVER_WIRE,
        }
        /// Bytes of one call of a mover that copies a file block by block.
        Block => block_bytes: u64, Bytes(1..=MAX_CALL_BYTES), {
            kind: ValueKind::Bytes,
            group: AxisGroup::File,
            default: "64KiB",
            help: "bytes of one call of a mover that copies a file block by block",
            phrase: "with blocks of {}",
            applies_to: cells("movers that copy a file through memory block by block", |c| c.goes_by_blocks()),
        }
        /// Number of requests in flight.
        Depth => depth: u32, count(1, MAX_DEPTH), {
            kind: ValueKind::Number,
            group: AxisGroup::File,
            default: "1",
            help: "requests in flight, for movers that can have several",
            phrase: "at depth {}",
            applies_to: cells("servers, and movers of files that can have several requests in flight", |c| c.has_depth()),
        }
        /// State of the file's pages when they are read.
        Cache => cache: Cache, OneOf, {
            group: AxisGroup::File,
            default: "memory",
            help: "memory: a memory file; warm: in the page cache; cold: dropped from the page cache first; direct: O_DIRECT",
            applies_to: OF_FILES,
        }
        /// Order of the requests to a file.
        Access => access: Access, OneOf, {
            group: AxisGroup::File,
            default: "sequential",
            help: "order of the requests to a file: sequential or random",
            applies_to: OF_FILES,
        }
        /// NUMA node of the payload's memory; none is the node where the thread runs.
        MemNode => mem_node: Option<u32>, Or(&["auto"], Number(0..=MOST_NODES - 1, "a number")), {
            group: AxisGroup::Placement,
            default: "auto",
            help: "NUMA node that both ends take memory from (set_mempolicy); `auto` is where each thread runs",
            applies_to: BUT_SERVERS,
        }
        /// Background load during the trial.
        Background => neighbour: CompetingLoad, Text, {
            kind: ValueKind::Lists,
            group: AxisGroup::Load,
            default: "idle",
            phrase: "with background load {}",
            help: "background load during each trial: idle; spin, stream or chase, where the scheduler puts it, or at a place: spin@smt-sibling, seen from the sender's CPU, spin@all, or spin@2,3; awake, which takes no time from the trial and keeps its CPUs from falling asleep",
            applies_to: BUT_SERVERS,
        }
        /// Transparent huge pages of the memory that work is done on.
        HugePages => huge_pages: HugePages, OneOf, {
            kind: ValueKind::Switch,
            group: AxisGroup::Placement,
            default: "auto",
            help: "transparent huge pages for the memory that work is done on: on and off are checked in /proc/self/smaps; auto is the system's choice",
            applies_to: cells("movers that work on memory, such as work-random", |c| c.is_work()),
        }
        /// Scheduler class of the threads.
        Class => class: Class, Text, {
            group: AxisGroup::Placement,
            default: "other",
            help: "scheduler class of the threads: other, batch, idle, fifo, rr or deadline; other and batch also with a nice value: other:nice=10",
            applies_to: BUT_SERVERS,
        }
        /// Limits of the control group of the trial's processes.
        Cgroup => cgroup: Cgroup, Text, {
            kind: ValueKind::Lists,
            group: AxisGroup::Placement,
            default: "none",
            help: "control group of the trial's processes: none, or its limits joined by +: max=50% (of one CPU), weight=10, cpuset, cpuset=0-1",
            applies_to: BUT_SERVERS,
        }
    }
    /// A server and the load on it. Without a server the other fields have no meaning.
    #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    #[serde(deny_unknown_fields)]
    Serving {
        /// Name of the server, a row of the engine's table; none where a mover moves the bytes.
        Server => server: Option<String>, Or(&[NO_SERVER], Name), {
            group: AxisGroup::Server,
            default: NO_SERVER,
            help: "concurrency model of a server with many clients, or `none`: the mover moves the bytes",
            phrase: "with `{}`",
        }
        /// Name of the service, a row of the engine's table.
        Service => service: String, Name, {
            group: AxisGroup::Server,
            default: "echo",
            help: "what the server responds with: top, or echo and fixed of --size bytes",
            applies_to: SERVERS,
        }
        /// Number of connections that send requests.
        Connections => connections: u32, count(1, MAX_CONNECTIONS), {
            kind: ValueKind::Number,
            group: AxisGroup::Server,
            default: "1",
            help: "connections that send requests to the server",
            phrase: "with {} connection{s}",
            applies_to: SERVERS,
        }
        /// Number of additional connections that stay idle.
        Idle => idle: u32, count(0, MAX_CONNECTIONS), {
            kind: ValueKind::Number,
            group: AxisGroup::Server,
            default: "0",
            help: "additional connections that are idle",
            phrase: "with {} idle connection{s} in addition",
            applies_to: SERVERS,
        }
        /// Connections kept by the clients, or opened for each request.
        Connect => connect: Connect, OneOf, {
            group: AxisGroup::Server,
            default: "kept",
            help: "kept: each client keeps its connection; new: it opens one for each request",
            phrase: "with {} connections",
            applies_to: SERVERS,
        }
        /// Requests per second of an open loop; none is a closed loop, in which a response releases the
        /// next request.
        Rate => rate_per_s: Option<u64>, Or(&["closed"], Number(1..=MAX_RATE_PER_S, "requests per second")), {
            kind: ValueKind::Number,
            group: AxisGroup::Load,
            default: "closed",
            help: "closed loop: each client sends its next request when it has the response; or open loop: requests per second of all clients, whatever the server does",
            phrase: "at {} requests/s",
            applies_to: SERVERS,
        }
        /// Distribution of the requests of an open loop over time. [`crate::Study`] names one wherever it
        /// names a rate.
        Arrivals => arrivals: Arrivals, OneOf, {
            group: AxisGroup::Load,
            default: "fixed",
            help: "when requests are due with --rate: poisson, as those of many independent clients, where none is named; or fixed, at even distances",
            phrase: "with {} arrivals",
            applies_to: cells("servers in an open loop: give a --rate", |c| c.is_served() && !c.is_closed_loop()),
        }
        /// Time from a response to the next request of a closed loop, in ns.
        Think => think_ns: u64, Time(MAX_THINK_NS), {
            group: AxisGroup::Load,
            default: "0",
            help: "time from a response to the next request, with --rate closed",
            applies_to: cells("servers in a closed loop: leave --rate out", |c| c.is_closed_loop()),
        }
        /// True if perf events count both sides.
        Perf => perf: bool, OnOff, {
            kind: ValueKind::Switch,
            group: AxisGroup::Server,
            default: "off",
            help: "count perf events of server and clients, children included, as perf stat does; makes context switches more expensive",
            applies_to: SERVERS,
        }
    }
}
