//! CSV in the layouts of others: which columns, and how each is computed from a run, both ways.

use bytecost_spec::{Axis, Cell, Counter, Measure, Side};

mod export;
mod form;
mod import;
mod runs;

pub use export::{csv, csv_of_imported};
pub use form::Form;
pub use import::{import, study};
pub use runs::{RUNS, Runs};

/// Fields of a message in all of these layouts.
pub(crate) const FIELDS: u32 = 8;

/// A layout: whose columns, and what they mean.
#[derive(Debug)]
pub struct ColumnLayout {
    /// Its name, which is also that of the study that sets it up again.
    pub name: &'static str,
    /// What is worth knowing of how its columns are computed, a sentence each.
    pub notes: &'static [&'static str],
    /// What its programs did, where that is not a column.
    pub axes: &'static [(Axis, &'static str)],
    /// Their names of implementations, with the movers.
    pub impls: &'static [(&'static str, &'static str)],
    /// Whether its size is that of one field, not of the message.
    pub sizes_are_of_fields: bool,
    /// The side whose counters it tells.
    pub counted: Side,
    /// What its rows are sorted by.
    pub order: [What; 3],
    /// Its columns, in their order.
    pub columns: &'static [Column],
}

/// A column.
#[derive(Debug)]
pub struct Column {
    /// Its name in the header.
    pub name: &'static str,
    /// What stands in it.
    pub what: What,
    /// Decimals as they are written there, where three digits need no more.
    pub decimals: usize,
}

/// What stands in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Their name of the mover.
    Impl,
    /// The size, of a field or of the message.
    Size,
    /// Clients, each with a thread.
    Threads,
    /// Payload bits that the client took in the window, in Gbit/s.
    Throughput,
    /// Payload bytes that the client took in the window.
    Bytes,
    /// Messages that the client took in the window.
    Messages,
    /// The window, in s.
    Duration,
    /// The window over its messages, in µs.
    Latency,
    /// Counters of the counted side, all threads, summed; and the measure that it is with one
    /// thread, where the bytes are known.
    Counters(&'static [Counter], Option<Measure>),
    /// Something that bytecost does not read: always empty.
    Nothing,
}

const fn column(name: &'static str, what: What, decimals: usize) -> Column {
    Column {
        name,
        what,
        decimals,
    }
}

const SWITCHES: &[Counter] = &[
    Counter::ContextSwitchesVoluntary,
    Counter::ContextSwitchesInvoluntary,
];

/// Every layout, in the order of the documentation.
pub const LAYOUTS: &[ColumnLayout] = &[
    ColumnLayout {
        name: "pa02-a",
        notes: &[
            "msg_size is the size of one of the 8 fields of a message: 256 is a message of 2 KiB.",
            "throughput_gbps and latency_us (elapsed time over messages) are those of the first client for a run with --as-published, as their program prints them, and of all clients otherwise.",
            "Counters are the client's, user and kernel, all threads, for one window. cache_misses is the last level's load misses, the nearest that bytecost counts.",
        ],
        axes: &[
            (Axis::Transport, "loopback"),
            (Axis::Pattern, "ask"),
            (Axis::Nodelay, "off"),
            (Axis::Payload, "refilled"),
            (Axis::Answer, "field"),
            (Axis::ReadSize, "field"),
            (Axis::Ring, "message"),
            (Axis::Reaping, "one-look"),
        ],
        impls: &[
            ("A1", "send-fields"),
            ("A2", "sendmsg"),
            ("A3", "send-zerocopy"),
        ],
        sizes_are_of_fields: true,
        counted: Side::Receiver,
        order: [What::Size, What::Threads, What::Impl],
        columns: &[
            column("impl", What::Impl, 0),
            column("msg_size", What::Size, 0),
            column("threads", What::Threads, 0),
            column("throughput_gbps", What::Throughput, 3),
            column("latency_us", What::Latency, 3),
            column(
                "cycles",
                What::Counters(&[Counter::Cycles], Some(Measure::CyclesPerByte)),
                0,
            ),
            column(
                "instructions",
                What::Counters(&[Counter::Instructions], Some(Measure::InstructionsPerByte)),
                0,
            ),
            column(
                "cache_misses",
                What::Counters(
                    &[Counter::LlcLoadMisses],
                    Some(Measure::LlcLoadMissesPerKib),
                ),
                0,
            ),
            column("context_switches", What::Counters(SWITCHES, None), 0),
        ],
    },
    ColumnLayout {
        name: "pa02-b",
        notes: &[
            "msg_size is the size of the whole message of 8 fields.",
            "throughput_gbps, total_bytes, total_messages, duration_s and latency_us are those of the first client for a run with --as-published, as their program prints them, and of all clients otherwise.",
            "latency_us is the window over its messages at the client; theirs is a sample of the same waits, one of each hundred.",
            "Counters are the server's, all threads, for one window. cache_misses is empty: bytecost does not count that event, and llc_load_misses is next to it.",
        ],
        axes: &[
            (Axis::Transport, "veth"),
            (Axis::Pattern, "stream"),
            (Axis::Receiver, "recv-waitall"),
            (Axis::Nodelay, "off"),
            (Axis::ReadSize, "message"),
            (Axis::Ring, "message"),
            (Axis::Reaping, "never"),
        ],
        impls: &[
            ("TwoCopy", "send-fields"),
            ("OneCopy", "sendmsg"),
            ("ZeroCopy", "send-zerocopy"),
        ],
        sizes_are_of_fields: false,
        counted: Side::Sender,
        order: [What::Impl, What::Size, What::Threads],
        columns: &[
            column("impl", What::Impl, 0),
            column("msg_size", What::Size, 0),
            column("threads", What::Threads, 0),
            column("throughput_gbps", What::Throughput, 2),
            column("total_bytes", What::Bytes, 0),
            column("total_messages", What::Messages, 0),
            column("duration_s", What::Duration, 2),
            column("latency_us", What::Latency, 2),
            column(
                "cycles",
                What::Counters(&[Counter::Cycles], Some(Measure::CyclesPerByte)),
                0,
            ),
            column("cache_misses", What::Nothing, 0),
            column(
                "l1d_load_misses",
                What::Counters(
                    &[Counter::L1dLoadMisses],
                    Some(Measure::L1dLoadMissesPerKib),
                ),
                0,
            ),
            column(
                "llc_load_misses",
                What::Counters(
                    &[Counter::LlcLoadMisses],
                    Some(Measure::LlcLoadMissesPerKib),
                ),
                0,
            ),
            column(
                "context_switches",
                What::Counters(SWITCHES, Some(Measure::ContextSwitchesPerMessage)),
                0,
            ),
        ],
    },
];

impl ColumnLayout {
    /// The layout of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static ColumnLayout> {
        LAYOUTS.iter().find(|l| l.name == name)
    }

    /// Their name of a mover.
    pub(crate) fn name_of(&self, mover: &str) -> Option<&'static str> {
        let row = self.impls.iter().find(|(_, m)| *m == mover);
        row.map(|(theirs, _)| *theirs)
    }

    /// Their size of a cell.
    pub(crate) fn size_of(&self, cell: &Cell) -> u64 {
        if self.sizes_are_of_fields {
            cell.size_bytes / u64::from(FIELDS)
        } else {
            cell.size_bytes
        }
    }

    /// What a row is sorted by.
    pub(crate) fn place_of(&self, cell: &Cell) -> [u64; 3] {
        let mover = self.impls.iter().position(|(_, m)| *m == cell.mover);
        self.order.map(|what| match what {
            What::Impl => mover.unwrap_or(usize::MAX) as u64,
            What::Size => cell.size_bytes,
            _ => u64::from(cell.threads),
        })
    }
}
