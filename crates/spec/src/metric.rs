//! The metrics that are computed from samples and compared. A metric is a measure of a side.
//!
//! A new measure is a row here and its formula in `crates/analysis/src/value.rs`, with a case in
//! `crates/analysis/tests/findings.rs`; columns, tables and `findings.json` follow from the row.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units;

words! {
    /// The part of the work that a metric is about.
    pub enum Side {
        /// Both together, or the path as a whole.
        Both,
        /// The sending side.
        Sender,
        /// The receiving side.
        Receiver,
        /// The server, where there is one.
        Server,
        /// Its clients.
        Client,
    }
}

/// The better direction of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

rows! {
    /// A quantity that is computed from the samples of a cell. Its row in [`MEASURES`] defines it.
    enum Measure;
    /// A row of the table of measures.
    struct MeasureRow {
        measure,
        /// Its name for readers: axis titles and tables.
        title: &'static str,
        /// Its unit for readers.
        unit: &'static str,
        /// The better direction.
        better: Better,
        /// True if it exists for each side separately.
        by_side: bool,
        /// Its definition.
        summary: &'static str,
    }
    /// All measures, in the order of tables and columns.
    const MEASURES;
    ThroughputGbitPerS "throughput_gbit_per_s" { title: "Throughput", unit: "Gbit/s", better: Better::Higher, by_side: false, summary: "payload bits that the receiver took per second, all flows (the sender's, where there is no receiver)" }
    CpuSPerGb "cpu_s_per_gb" { title: "CPU time per byte", unit: "s/GB", better: Better::Lower, by_side: true, summary: "CPU seconds of the side's threads per 10^9 payload bytes, the same number as ns per byte" }
    CpuNsPerMessage "cpu_ns_per_message" { title: "CPU time per message", unit: "ns", better: Better::Lower, by_side: true, summary: "CPU time of the side's threads per message" }
    MessagesPerS "messages_per_s" { title: "Message rate", unit: "1/s", better: Better::Higher, by_side: false, summary: "messages sent per second, all flows; with responses and of a server, those with a response" }
    CallsPerMessage "calls_per_message" { title: "System calls per message", unit: "", better: Better::Lower, by_side: true, summary: "system calls of the mover or receiver per message" }
    CallsPerMib "calls_per_mib" { title: "System calls per MiB", unit: "1/MiB", better: Better::Lower, by_side: true, summary: "system calls of the mover or receiver, as it counts them itself, per 2^20 payload bytes" }
    MsPerMessage "ms_per_message" { title: "Time per message", unit: "ms", better: Better::Lower, by_side: false, summary: "elapsed time over messages, of one flow; with responses up to the response. Where a message is a whole file, the time per file" }
    RoundTripNs "round_trip_ns" { title: "Round trip", unit: "ns", better: Better::Lower, by_side: false, summary: "of two threads that take turns: elapsed time over turns there and back" }
    LatencyUsP50 "latency_us_p50" { title: "Latency, median", unit: "µs", better: Better::Lower, by_side: false, summary: "from the start of a message to its response, of a request to a file to its end, of a request to a server from when it was due, of a wake-up from its beat until the thread runs" }
    LatencyUsP90 "latency_us_p90" { title: "Latency, p90", unit: "µs", better: Better::Lower, by_side: false, summary: "as latency_us_p50" }
    LatencyUsP99 "latency_us_p99" { title: "Latency, p99", unit: "µs", better: Better::Lower, by_side: false, summary: "as latency_us_p50" }
    LatencyUsP999 "latency_us_p99_9" { title: "Latency, p99.9", unit: "µs", better: Better::Lower, by_side: false, summary: "as latency_us_p50" }
    LatencyUsMax "latency_us_max" { title: "Latency, maximum", unit: "µs", better: Better::Lower, by_side: false, summary: "as latency_us_p50" }
    SystemShare "system_share" { title: "System share of CPU time", unit: "", better: Better::Lower, by_side: true, summary: "system CPU time over user and system" }
    CpuUtilization "cpu_utilization" { title: "CPUs in use", unit: "", better: Better::Lower, by_side: true, summary: "CPU time of the side's threads over elapsed time" }
    ContextSwitchesPerMessage "context_switches_per_message" { title: "Context switches per message", unit: "", better: Better::Lower, by_side: true, summary: "voluntary and not" }
    MigrationsPerS "migrations_per_s" { title: "Migrations", unit: "1/s", better: Better::Lower, by_side: true, summary: "moves to another CPU per second" }
    PageFaultsPerMessage "page_faults_per_message" { title: "Page faults per message", unit: "", better: Better::Lower, by_side: true, summary: "minor and major" }
    CyclesPerByte "cycles_per_byte" { title: "Cycles per byte", unit: "", better: Better::Lower, by_side: true, summary: "hardware cycles, kernel included" }
    InstructionsPerByte "instructions_per_byte" { title: "Instructions per byte", unit: "", better: Better::Lower, by_side: true, summary: "hardware instructions, kernel included" }
    L1dLoadMissesPerKib "l1d_load_misses_per_kib" { title: "L1d load misses per KiB", unit: "", better: Better::Lower, by_side: true, summary: "kernel included" }
    LlcLoadMissesPerKib "llc_load_misses_per_kib" { title: "LLC load misses per KiB", unit: "", better: Better::Lower, by_side: true, summary: "kernel included" }
    BranchMissesPerMessage "branch_misses_per_message" { title: "Branch misses per message", unit: "", better: Better::Lower, by_side: true, summary: "kernel included" }
    CopiedShare "copied_share" { title: "Zero-copy buffers copied after all", unit: "", better: Better::Lower, by_side: false, summary: "completions that the kernel flagged as copied, over all completions" }
    CopiesPerByte "copies_per_byte" { title: "Copies per byte", unit: "", better: Better::Lower, by_side: true, summary: "how often the kernel copied each payload byte, counted in a trial of its own (--evidence copies); copying on delivery is the receiver's" }
    DelayedAcksPerMessage "delayed_acks_per_message" { title: "Delayed acknowledgements per message", unit: "", better: Better::Lower, by_side: false, summary: "acknowledgements that the timer of delayed ones sent, per message sent; of the whole host on loopback, of the trial alone on veth" }
    CyclesPerMessage "cycles_per_message" { title: "Cycles per message", unit: "", better: Better::Lower, by_side: true, summary: "hardware cycles, kernel included; of a server only with --perf on" }
    InstructionsPerMessage "instructions_per_message" { title: "Instructions per message", unit: "", better: Better::Lower, by_side: true, summary: "as cycles_per_message" }
    CacheMissesPerMessage "cache_misses_per_message" { title: "Cache misses per message", unit: "", better: Better::Lower, by_side: true, summary: "misses of the last level, as perf stat counts them; of a server only with --perf on" }
    ErrorsPerMessage "errors_per_message" { title: "Failed requests per response", unit: "", better: Better::Lower, by_side: false, summary: "requests and connections to a server that failed, over those with a right response" }
    LeastServedShare "least_served_share" { title: "Least served connection", unit: "", better: Better::Higher, by_side: false, summary: "responses to the connection that got fewest, over those to the median one" }
    MemoryKibPerConnection "memory_kib_per_connection" { title: "Server memory per connection", unit: "KiB", better: Better::Lower, by_side: false, summary: "anonymous memory, page tables and kernel stacks of the server's processes, over all connections; sockets are not in it" }
    ThrottledShare "throttled_share" { title: "Throttled", unit: "", better: Better::Lower, by_side: false, summary: "time for which the quota of the cell's control group kept its threads from running, over elapsed time; a sum over CPUs" }
    NeighbourShare "neighbour_share" { title: "CPU time of others", unit: "", better: Better::Lower, by_side: false, summary: "CPU time of anything but the two sides and the cell's background load, over CPUs times elapsed time" }
    StealShare "steal_share" { title: "Steal", unit: "", better: Better::Lower, by_side: false, summary: "time taken by the hypervisor, over CPUs times elapsed time" }
}

/// The noun for one operation: the unit that counts are per. Names of measures say `message`; words
/// for readers use this noun instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Bytes that are sent from one end to the other.
    #[default]
    Message,
    /// A request to a file or to a server.
    Request,
    /// A whole file.
    File,
    /// A step of work of a CPU.
    Step,
    /// A turn of two threads, there and back.
    RoundTrip,
    /// A wake-up of a thread by its timer.
    WakeUp,
    /// The common noun of several of these.
    Operation,
}

impl Unit {
    /// The common unit of a run's cells; `Operation` where they have several.
    pub fn of_all(units: impl IntoIterator<Item = Unit>) -> Unit {
        let mut units = units.into_iter();
        let first = units.next().unwrap_or_default();
        if units.all(|unit| unit == first) {
            first
        } else {
            Unit::Operation
        }
    }

    /// Its noun.
    pub fn noun(self) -> &'static str {
        match self {
            Unit::Message => "message",
            Unit::Request => "request",
            Unit::File => "file",
            Unit::Step => "step",
            Unit::RoundTrip => "round trip",
            Unit::WakeUp => "wake-up",
            Unit::Operation => "operation",
        }
    }

    /// A text about messages with this noun: `CPU time per request` from `CPU time per message`.
    pub fn in_words(self, text: &str) -> String {
        let noun = self.noun();
        let first = noun[..1].to_uppercase() + &noun[1..];
        let article = if self == Unit::Operation { "an" } else { "a" };
        text.replace("a message", &format!("{article} {noun}"))
            .replace("message", noun)
            .replace("Message", &first)
    }
}

/// A measure of one side: `cpu_s_per_gb`, `sender_cpu_s_per_gb`, `receiver_cpu_s_per_gb`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(feature = "schema", schemars(with = "String"))]
pub struct Metric {
    /// The measure.
    pub measure: Measure,
    /// The side.
    pub side: Side,
}

impl Metric {
    /// A measure of both sides together.
    pub const fn both(measure: Measure) -> Metric {
        Metric {
            measure,
            side: Side::Both,
        }
    }

    /// A measure of one side, or of both.
    pub const fn new(measure: Measure, side: Side) -> Metric {
        Metric { measure, side }
    }

    /// All metrics, in the order of columns: each measure, then its sides.
    pub fn all() -> impl Iterator<Item = Metric> {
        MEASURES.iter().flat_map(|r| {
            let sides = if r.by_side { Side::ALL } else { &[Side::Both] };
            sides.iter().map(|&side| Metric {
                measure: r.measure,
                side,
            })
        })
    }

    /// Its title for readers: `CPU time per byte, sender`.
    pub fn title(self, unit: Unit) -> String {
        let title = unit.in_words(self.measure.row().title);
        match self.side {
            Side::Both => title,
            Side::Sender => format!("{title}, sender"),
            Side::Receiver => format!("{title}, receiver"),
            Side::Server => format!("{title}, server"),
            Side::Client => format!("{title}, clients"),
        }
    }

    /// The better direction.
    pub fn better(self) -> Better {
        self.measure.row().better
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.side != Side::Both {
            write!(f, "{}_", self.side.name())?;
        }
        f.write_str(self.measure.row().name)
    }
}

impl std::str::FromStr for Metric {
    type Err = String;

    fn from_str(text: &str) -> Result<Metric, String> {
        Metric::all()
            .find(|m| m.to_string() == text)
            .ok_or_else(|| {
                let known = units::unknown("metric", text, MEASURES.iter().map(|r| r.name));
                format!("{known}; most also with sender_, receiver_, server_ or client_ in front")
            })
    }
}

impl TryFrom<String> for Metric {
    type Error = String;
    fn try_from(text: String) -> Result<Metric, String> {
        text.parse()
    }
}

impl From<Metric> for String {
    fn from(metric: Metric) -> String {
        metric.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_parsed_from_its_name() {
        for metric in Metric::all() {
            assert_eq!(metric.to_string().parse(), Ok(metric));
        }
        assert!("sender_throughput_gbit_per_s".parse::<Metric>().is_err());
    }
}
