//! The comparison that prices a pattern, and its price.

use bytecost_spec::{Cell, Measure, Metric, Side, Transport, units};
use serde::{Deserialize, Serialize};

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

    pub(super) fn metric(&self) -> Metric {
        Metric::new(Measure::CpuSPerGb, self.side)
    }

    /// Bytes of one call of a cell.
    pub(super) fn bytes(&self, cell: &Cell) -> u64 {
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
