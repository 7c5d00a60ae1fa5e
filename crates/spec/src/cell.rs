//! A cell: one point of a study's grid.

use itertools::Itertools as _;

use crate::axis::{AXES, Axis, Value};

mod bounds;
mod choices;
mod isolation;
mod places;

pub use crate::axis::{Cell, Serving};
pub use bounds::*;
pub use choices::*;
pub use isolation::{
    Cgroup, Class, DEADLINE_PERIOD_NS, DEADLINE_RUNTIME_NS, MOST_QUOTA_PERCENT, NICE,
    QUOTA_PERIOD_US, WEIGHTS,
};
pub use places::{MOST_CPUS, Nearness, Neighbour, Noise, PAIRS, PINNED, Placement, Spot};

/// What ends the name of a twin.
const TWIN: &str = "/twin";

impl Cell {
    /// The value of one axis, written so that [`Cell::set`] reads the same.
    pub fn value(&self, axis: Axis) -> Value {
        (axis.row().value)(self)
    }

    /// Sets one axis from text; else what is wrong and what to write instead. Names of movers,
    /// receivers and congestion controls are not looked up: the vocabulary does not know the
    /// tables.
    pub fn set(&mut self, axis: Axis, text: &str) -> Result<(), Invalid> {
        (axis.row().set)(self, text)
    }

    /// Sets one axis to a value, with the bounds and errors of [`Cell::set`].
    pub fn set_value(&mut self, axis: Axis, value: &Value) -> Result<(), Invalid> {
        self.set(axis, &value.to_string())
    }

    /// The cell's name: its values in the order of [`AXES`], joined by `/`, those that are not
    /// [always told](Axis::is_always_told) as `axis=value`; `/twin` ends that of a twin.
    pub fn id(&self) -> String {
        self.id_without(&[])
    }

    /// The name of what the cell shares with all cells that differ in `axes` only.
    pub fn id_without(&self, axes: &[Axis]) -> String {
        let mut values = AXES.iter().filter_map(|row| {
            let value = self.value(row.axis);
            match (row.axis.is_always_told(), axes.contains(&row.axis)) {
                (true, true) => Some("*".to_owned()),
                (true, false) => Some(value.to_string()),
                (false, false) if value != row.default => Some(format!("{}={value}", row.name)),
                _ => None,
            }
        });
        let mut name = values.join("/");
        if self.twin {
            name.push_str(TWIN);
        }
        name
    }

    /// The same cell under the other name: of a baseline its twin, of a twin its baseline.
    pub fn other_twin(&self) -> Cell {
        Cell {
            twin: !self.twin,
            ..self.clone()
        }
    }

    /// The name of the baseline, where a name is that of its twin; else the name itself.
    pub fn without_twin(id: &str) -> &str {
        id.strip_suffix(TWIN).unwrap_or(id)
    }

    /// The cell of that name, as [`Cell::id`] writes it; none where it is no name of a cell.
    pub fn from_id(id: &str) -> Option<Cell> {
        let (id, twin) = id.strip_suffix(TWIN).map_or((id, false), |id| (id, true));
        let mut cell = Cell {
            twin,
            ..Cell::default()
        };
        let mut words = id.split('/');
        for row in AXES.iter().filter(|row| row.axis.is_always_told()) {
            cell.set(row.axis, words.next()?).ok()?;
        }
        for word in words {
            let (name, value) = word.split_once('=')?;
            cell.set(Axis::named(name)?, value).ok()?;
        }
        Some(cell)
    }

    /// Whether a server is asked by many clients, instead of bytes moved by a mover.
    pub fn is_served(&self) -> bool {
        self.serving.server.is_some()
    }

    /// Bytes of one field.
    pub fn field_bytes(&self) -> u64 {
        (self.size_bytes / u64::from(self.fields.max(1))).max(1)
    }

    /// MTU of the link that is made for the cell, in bytes.
    pub fn link_mtu_bytes(&self) -> u32 {
        self.mtu_bytes.unwrap_or(LINK_MTU_BYTES)
    }

    /// What the receiver asks for in one call, in bytes.
    pub fn read_bytes(&self) -> u64 {
        match self.read_size {
            ReadSize::Bytes(bytes) => bytes,
            ReadSize::Field => self.field_bytes(),
            ReadSize::Message => self.size_bytes,
        }
        .min(MAX_CALL_BYTES)
    }

    /// Bytes of an answer; never more than the message has.
    pub fn answer_bytes(&self) -> u64 {
        match self.answer {
            Answer::Bytes(bytes) => bytes.min(self.size_bytes),
            Answer::Field => self.field_bytes(),
        }
    }

    /// Whether TCP_NODELAY is set on the cell's sockets.
    pub fn sends_at_once(&self) -> bool {
        match self.nodelay {
            Nodelay::Auto => self.pattern == Pattern::Ask,
            Nodelay::On => true,
            Nodelay::Off => false,
        }
    }

    /// How many messages the payload memory holds: one where the ring is exactly a message (the
    /// hottest there is), else at least four, so that a zero-copy mover can have several in flight.
    pub fn ring_slots(&self) -> u64 {
        match self.ring {
            Ring::Message => 1,
            Ring::Bytes(bytes) if bytes == self.size_bytes => 1,
            Ring::Bytes(bytes) => (bytes / self.size_bytes.max(1)).max(4),
        }
    }

    /// How many requests one pass of a flow through its part of the file takes: the file is as
    /// long as the ring, and each flow has a part of its own. 0 where not even one fits.
    pub fn file_slots(&self) -> u64 {
        let bytes = match self.ring {
            Ring::Message => self.size_bytes.saturating_mul(u64::from(self.threads)),
            Ring::Bytes(bytes) => bytes,
        };
        bytes / self.size_bytes.max(1) / u64::from(self.threads.max(1))
    }
}

impl Serving {
    /// Connections of both kinds.
    pub fn all_connections(&self) -> u64 {
        u64::from(self.connections) + u64::from(self.idle)
    }
}

#[cfg(test)]
mod tests;
