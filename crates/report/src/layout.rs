//! CSV files in the layouts of published programs: their columns, the computation of each column from a
//! run, and the metric of each published column.
//!
//! A new layout with a row for each cell is a row of [`LAYOUTS`]; one with a row for each run of a program
//! is a row in `layout/runs.rs`. A new kind of column is a variant of [`Quantity`].

use std::fmt::Debug;

use bytecost_spec::{Axis, Cell, Counter, Measure, Sample, Side};

mod export;
mod published;
mod runs;

pub use runs::{RUNS, Runs, layouts};

/// Fields of a message in each of [`LAYOUTS`].
pub(crate) const FIELDS: u32 = 8;

/// A layout, with a row for each cell or for each run of a program.
pub trait TableLayout: Debug {
    /// Name of the layout, and of the study that measures it again.
    fn name(&self) -> &'static str;

    /// A run as CSV. `as_published` is true if the study repeats the published design.
    ///
    /// # Errors
    /// The run has no cell for a row of the layout. The error names the cells that would have one.
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
    /// The published names of implementations, each with our mover.
    pub impls: &'static [(&'static str, &'static str)],
    /// True if the size column has the size of one field, not of the message.
    pub sizes_are_of_fields: bool,
    /// The side whose counters are in the columns.
    pub counted: Side,
    /// Columns that rows are sorted by, the most significant first.
    pub order: [Quantity; 3],
    /// Its columns, in their order.
    pub columns: &'static [Column],
}

/// A column.
#[derive(Debug)]
pub struct Column {
    /// Name of the column in the header.
    pub name: &'static str,
    /// Quantity in the column.
    pub quantity: Quantity,
    /// Decimals of the published values. A small value has more, so that three digits remain.
    pub decimals: usize,
}

/// The quantity of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// The published name of the mover.
    Impl,
    /// The size, of a field or of the message.
    Size,
    /// The number of clients, each with a thread.
    Threads,
    /// Payload bits that the client received in the window, in Gbit/s.
    Throughput,
    /// Payload bytes that the client received in the window.
    Bytes,
    /// Messages that the client received in the window.
    Messages,
    /// The length of the window, in s.
    Duration,
    /// The length of the window divided by its messages, in µs.
    Latency,
    /// The sum of counters over the threads of the counted side. With one thread a published value
    /// gives the measure, if the layout has the bytes.
    Counters(&'static [Counter], Option<Measure>),
    /// A counter that bytecost does not read: the column is always empty.
    Unread,
}

const fn column(name: &'static str, quantity: Quantity, decimals: usize) -> Column {
    Column {
        name,
        quantity,
        decimals,
    }
}

const SWITCHES: &[Counter] = &[
    Counter::ContextSwitchesVoluntary,
    Counter::ContextSwitchesInvoluntary,
];
const CYCLES: Quantity = Quantity::Counters(&[Counter::Cycles], Some(Measure::CyclesPerByte));
const INSTRUCTIONS: Quantity =
    Quantity::Counters(&[Counter::Instructions], Some(Measure::InstructionsPerByte));
const L1D_MISSES: Quantity = Quantity::Counters(
    &[Counter::L1dLoadMisses],
    Some(Measure::L1dLoadMissesPerKib),
);
const LLC_MISSES: Quantity = Quantity::Counters(
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
        order: [Quantity::Size, Quantity::Threads, Quantity::Impl],
        columns: &[
            column("impl", Quantity::Impl, 0),
            column("msg_size", Quantity::Size, 0),
            column("threads", Quantity::Threads, 0),
            column("throughput_gbps", Quantity::Throughput, 3),
            column("latency_us", Quantity::Latency, 3),
            column("cycles", CYCLES, 0),
            column("instructions", INSTRUCTIONS, 0),
            column("cache_misses", LLC_MISSES, 0),
            column("context_switches", Quantity::Counters(SWITCHES, None), 0),
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
        order: [Quantity::Impl, Quantity::Size, Quantity::Threads],
        columns: &[
            column("impl", Quantity::Impl, 0),
            column("msg_size", Quantity::Size, 0),
            column("threads", Quantity::Threads, 0),
            column("throughput_gbps", Quantity::Throughput, 2),
            column("total_bytes", Quantity::Bytes, 0),
            column("total_messages", Quantity::Messages, 0),
            column("duration_s", Quantity::Duration, 2),
            column("latency_us", Quantity::Latency, 2),
            column("cycles", CYCLES, 0),
            column("cache_misses", Quantity::Unread, 0),
            column("l1d_load_misses", L1D_MISSES, 0),
            column("llc_load_misses", LLC_MISSES, 0),
            column(
                "context_switches",
                Quantity::Counters(SWITCHES, Some(Measure::ContextSwitchesPerMessage)),
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

    /// The published name of a mover; none if the layout has no such implementation.
    pub(crate) fn implementation(&self, mover: &str) -> Option<&'static str> {
        let row = self.impls.iter().find(|(_, m)| *m == mover);
        row.map(|(published_name, _)| *published_name)
    }

    /// The factor from the value of the size column to the bytes of a message.
    pub(crate) fn sizes_per_message(&self) -> u64 {
        if self.sizes_are_of_fields {
            u64::from(FIELDS)
        } else {
            1
        }
    }

    pub(crate) fn sort_key(&self, cell: &Cell) -> [u64; 3] {
        let mover = self.impls.iter().position(|(_, m)| *m == cell.mover);
        self.order.map(|quantity| match quantity {
            Quantity::Impl => mover.unwrap_or(usize::MAX) as u64,
            Quantity::Size => cell.size_bytes,
            _ => u64::from(cell.threads),
        })
    }
}
