//! CSV in the layouts of others: which columns, how each is computed from a run, and as what metric a
//! published one is read.
//!
//! A new layout is a row here (a row a cell: axes that all of its cells have, their names of our
//! movers, columns) or in `layout/runs.rs` (a row a run). A column of a new kind is a variant of `What`.

use std::fmt::Debug;

use bytecost_spec::{Axis, Cell, Counter, Measure, Sample, Side};

mod export;
mod published;
mod runs;

pub use runs::{RUNS, Runs, layouts};

/// Fields of a message in all layouts of cells.
pub(crate) const FIELDS: u32 = 8;

/// A layout: of cells in rows, or of single runs of programs.
pub trait TableLayout: Debug {
    /// Name of the layout, and of the study that measures it again.
    fn name(&self) -> &'static str;

    /// Renders a run in the layout; `as_published` where it has the published design.
    ///
    /// # Errors
    /// The run has no cell that the layout has a row for; the error says which cells those would
    /// be.
    fn csv(&self, cells: &[Cell], samples: &[Sample], as_published: bool)
    -> Result<String, String>;
}

/// A layout with a row for each cell: its columns and their meaning. published/README.md defines them.
#[derive(Debug)]
pub struct ColumnLayout {
    /// Name of the layout, and of the study that measures it again.
    pub name: &'static str,
    /// Values of the published programs for axes without a column.
    pub axes: &'static [(Axis, &'static str)],
    /// Their names of implementations, with the movers.
    pub impls: &'static [(&'static str, &'static str)],
    /// True if the size column has the size of one field, not of the message.
    pub sizes_are_of_fields: bool,
    /// The side whose counters the layout has.
    pub counted: Side,
    /// Columns that rows are sorted by, the most significant first.
    pub order: [What; 3],
    /// Its columns, in their order.
    pub columns: &'static [Column],
}

/// A column.
#[derive(Debug)]
pub struct Column {
    /// Name of the column in the header.
    pub name: &'static str,
    /// Quantity in the column.
    pub what: What,
    /// Decimals as they are written there, where three digits need no more.
    pub decimals: usize,
}

/// Quantity that a column of a layout has.
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
const CYCLES: What = What::Counters(&[Counter::Cycles], Some(Measure::CyclesPerByte));
const INSTRUCTIONS: What =
    What::Counters(&[Counter::Instructions], Some(Measure::InstructionsPerByte));
const L1D_MISSES: What = What::Counters(
    &[Counter::L1dLoadMisses],
    Some(Measure::L1dLoadMissesPerKib),
);
const LLC_MISSES: What = What::Counters(
    &[Counter::LlcLoadMisses],
    Some(Measure::LlcLoadMissesPerKib),
);

/// Every layout, in the order of the documentation.
pub const LAYOUTS: &[ColumnLayout] = &[
    ColumnLayout {
        name: "pa02-a",
        axes: &[
            (Axis::Transport, "loopback"),
            (Axis::Pattern, "request-response"),
            (Axis::Nodelay, "off"),
            (Axis::Payload, "refilled"),
            (Axis::Response, "field"),
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
            column("cycles", CYCLES, 0),
            column("instructions", INSTRUCTIONS, 0),
            column("cache_misses", LLC_MISSES, 0),
            column("context_switches", What::Counters(SWITCHES, None), 0),
        ],
    },
    ColumnLayout {
        name: "pa02-b",
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
            column("cycles", CYCLES, 0),
            column("cache_misses", What::Nothing, 0),
            column("l1d_load_misses", L1D_MISSES, 0),
            column("llc_load_misses", LLC_MISSES, 0),
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
    pub fn named(name: &str) -> Option<&'static ColumnLayout> {
        LAYOUTS.iter().find(|l| l.name == name)
    }

    pub(crate) fn name_of(&self, mover: &str) -> Option<&'static str> {
        let row = self.impls.iter().find(|(_, m)| *m == mover);
        row.map(|(theirs, _)| *theirs)
    }

    /// Number of sizes that make up one message.
    pub(crate) fn sizes_a_message(&self) -> u64 {
        if self.sizes_are_of_fields {
            u64::from(FIELDS)
        } else {
            1
        }
    }

    pub(crate) fn place_of(&self, cell: &Cell) -> [u64; 3] {
        let mover = self.impls.iter().position(|(_, m)| *m == cell.mover);
        self.order.map(|what| match what {
            What::Impl => mover.unwrap_or(usize::MAX) as u64,
            What::Size => cell.size_bytes,
            _ => u64::from(cell.threads),
        })
    }
}
