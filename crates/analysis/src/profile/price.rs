//! The cost of another way on this machine, from a run that has measured both.

use bytecost_spec::{Axis, Cell, Measure, Metric, Side, Transport, units};
use serde::{Deserialize, Serialize};

use crate::caveats;
use crate::pairing::Pairing;
use crate::result::{CaveatKind, Input};
use crate::trials::{CellTrials, Trials};
use crate::{judge, measure};

/// The most that the ratio may differ by in another program, whose buffers lie otherwise in caches and whose
/// threads otherwise on CPUs than those that were measured. `make bench-profile` tries it.
const OTHER_PROGRAM: f64 = 0.05;
/// A measured length stands for those up to twice as long or as short.
const NEAR: f64 = 2.0;

/// The axis of a cell that says how many bytes one call moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallLength {
    /// A call moves a message.
    Size,
    /// A call moves a block of a file.
    Block,
    /// A call moves one of the fields of a message.
    Field,
}

/// The measured comparison that prices a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    /// The study that measures it.
    pub study: &'static str,
    /// The mover that does as the program does.
    pub now: &'static str,
    /// The mover that it could do as.
    pub instead: &'static str,
    /// Bytes of one call of `now`.
    pub length: CallLength,
    /// Bytes of one call of `instead`, where that is another number.
    pub instead_bytes: Option<u64>,
    /// The side whose CPU time it is.
    pub side: Side,
}

impl Price {
    /// The command that measures it for calls of so many bytes.
    pub fn command(&self, bytes: u64, transport: Transport) -> String {
        let near = bytes.max(1).next_power_of_two();
        let size = match (self.length, self.instead_bytes) {
            (CallLength::Size, Some(other)) => {
                format!(
                    "--size {},{} --cache warm",
                    units::bytes(near),
                    units::bytes(other)
                )
            }
            (CallLength::Size, None) => format!("--size {}", units::bytes(near)),
            (CallLength::Block, _) => format!("--block {}", units::bytes(near)),
            (CallLength::Field, _) => format!("--size {}", units::bytes(8 * near)),
        };
        let movers = if self.now == self.instead {
            self.now.to_owned()
        } else {
            format!("{},{}", self.now, self.instead)
        };
        let transport = match transport {
            Transport::Unix => " --transport unix",
            _ => "",
        };
        format!(
            "bytecost run {} --mover {movers} {size}{transport}",
            self.study
        )
    }

    fn metric(&self) -> Metric {
        Metric::new(Measure::CpuSPerGb, self.side)
    }

    /// Bytes of one call of a cell.
    fn bytes(&self, cell: &Cell) -> u64 {
        match self.length {
            CallLength::Size if cell.mover == "read-write" => cell.size_bytes.min(cell.block_bytes),
            CallLength::Size => cell.size_bytes,
            CallLength::Block => cell.size_bytes.min(cell.block_bytes),
            CallLength::Field => cell.size_bytes / u64::from(cell.fields.max(1)),
        }
    }
}

/// CPU time per byte of the other way over that of the program's way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Priced {
    /// The ratio.
    pub ratio: f64,
    /// The interval in which it lies, with the variance between runs and 0.05 for another program.
    pub low: f64,
    /// Its other end.
    pub high: f64,
    /// Bytes of one call at which both were measured.
    pub call_bytes: u64,
}

/// Prices a pattern with calls of so many bytes by a run; none where the run has not measured both
/// ways at such a length over that transport, else the caveat for which it says nothing about them.
pub fn price(
    input: Input<'_>,
    price: &Price,
    bytes: f64,
    transport: Transport,
) -> Option<Result<Priced, CaveatKind>> {
    let trials = Trials::of_run(&input);
    let run = judge(measure(&input, &trials));
    let distance = |cell: &CellTrials<'_>| {
        let measured = price.bytes(cell.cell) as f64;
        measured.max(bytes) / measured.min(bytes)
    };
    let mut now: Vec<&CellTrials<'_>> = run
        .trials
        .measured()
        .filter(|c| c.cell.mover == price.now && c.cell.transport == transport)
        .filter(|c| distance(c) <= NEAR)
        .collect();
    // The nearest cell, then that of the longest file, as the program made many calls, then that with the
    // shortest id, which has the fewest unusual values.
    let file_bytes = |cell: &CellTrials<'_>| match price.length {
        CallLength::Block => cell.cell.size_bytes,
        CallLength::Size | CallLength::Field => 0,
    };
    now.sort_by(|a, b| {
        distance(a)
            .total_cmp(&distance(b))
            .then(file_bytes(b).cmp(&file_bytes(a)))
            .then(a.id.len().cmp(&b.id.len()))
    });
    let pairing = now.iter().find_map(|cell| {
        let is_other = |other: &&CellTrials<'_>| is_instead(price, cell.cell, other.cell);
        let other = run.trials.measured().find(is_other)?;
        Some(Pairing {
            axis: Axis::Mover,
            baseline: cell,
            other,
        })
    })?;
    if let Some(kind) = caveats::withheld_by(&run.caveats, price.metric(), &pairing) {
        return Some(Err(kind));
    }
    let ratio = run.trials.contrast(pairing, price.metric())?.ratio();
    Some(Ok(Priced {
        ratio: ratio.value,
        low: (ratio.low - OTHER_PROGRAM).max(0.0),
        high: ratio.high + OTHER_PROGRAM,
        call_bytes: price.bytes(pairing.baseline.cell),
    }))
}

/// Returns true if a cell moves the same bytes by the other way, and differs in nothing else.
fn is_instead(price: &Price, now: &Cell, other: &Cell) -> bool {
    let free = [Axis::Mover, Axis::Block, Axis::Size];
    let has_size = match price.instead_bytes {
        Some(bytes) => other.size_bytes == bytes,
        None => other.size_bytes == now.size_bytes,
    };
    other.mover == price.instead && has_size && other.id_without(&free) == now.id_without(&free)
}
