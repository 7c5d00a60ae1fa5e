//! A cell, one point of a study's grid: its id, its values by axis, and sizes derived from them.

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
pub use places::{CompetingLoad, LoadKind, LoadPosition, Nearness, PAIRS, PINNED, Placement};

/// The suffix of a twin's id.
const TWIN: &str = "/twin";

impl Cell {
    /// The value on an axis, in the form that [`Cell::set`] parses to the same value.
    pub fn value(&self, axis: Axis) -> Value {
        (axis.row().value)(self)
    }

    /// Parses and sets the value on an axis. The error says what is wrong and what to write instead.
    /// Names of movers, receivers and congestion controls are not looked up: this crate does not have
    /// their tables.
    pub fn set(&mut self, axis: Axis, text: &str) -> Result<(), Invalid> {
        (axis.row().set)(self, text)
    }

    /// The same cell with other values on these axes, with the errors of [`Cell::set`].
    pub fn with(mut self, values: &[(Axis, &str)]) -> Result<Cell, Invalid> {
        for (axis, value) in values {
            self.set(*axis, value)?;
        }
        Ok(self)
    }

    /// Sets the value on an axis, with the bounds and errors of [`Cell::set`].
    pub fn set_value(&mut self, axis: Axis, value: &Value) -> Result<(), Invalid> {
        self.set(axis, &value.to_string())
    }

    /// The cell's id: its values in the order of [`AXES`], joined by `/`; those that are not
    /// [always named](Axis::is_always_in_id) as `axis=value`; `/twin` ends the id of a twin.
    pub fn id(&self) -> String {
        self.id_without(&[])
    }

    /// The id with `*` in place of these axes: the same for all cells that differ only in them.
    pub fn id_without(&self, axes: &[Axis]) -> String {
        let mut values = AXES.iter().filter_map(|row| {
            let value = self.value(row.axis);
            match (row.axis.is_always_in_id(), axes.contains(&row.axis)) {
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

    /// The twin of a baseline, or the baseline of a twin.
    pub fn other_twin(&self) -> Cell {
        Cell {
            twin: !self.twin,
            ..self.clone()
        }
    }

    /// The id of the baseline if the id is a twin's; else the id itself.
    pub fn without_twin(id: &str) -> &str {
        id.strip_suffix(TWIN).unwrap_or(id)
    }

    /// Parses an id that [`Cell::id`] has written; none for any other text.
    pub fn from_id(id: &str) -> Option<Cell> {
        let mut cell = Cell {
            twin: id.ends_with(TWIN),
            ..Cell::default()
        };
        let mut words = Cell::without_twin(id).split('/');
        for row in AXES.iter().filter(|row| row.axis.is_always_in_id()) {
            cell.set(row.axis, words.next()?).ok()?;
        }
        for word in words {
            let (name, value) = word.split_once('=')?;
            cell.set(Axis::named(name)?, value).ok()?;
        }
        Some(cell)
    }

    /// Returns true if clients send requests to a server; else a mover moves the bytes.
    pub fn is_served(&self) -> bool {
        self.serving.server.is_some()
    }

    /// Bytes of one field: an even part of the message, at least 1.
    pub fn field_bytes(&self) -> u64 {
        (self.size_bytes / u64::from(self.fields.max(1))).max(1)
    }

    /// MTU of the link that is made for the cell, in bytes; [`LINK_MTU_BYTES`] where none is named.
    pub fn link_mtu_bytes(&self) -> u32 {
        self.mtu_bytes.unwrap_or(LINK_MTU_BYTES)
    }

    /// Bytes that the receiver asks for in one call.
    pub fn read_bytes(&self) -> u64 {
        match self.read_size {
            ReadSize::Bytes(bytes) => bytes,
            ReadSize::Field => self.field_bytes(),
            ReadSize::Message => self.size_bytes,
        }
        .min(MAX_CALL_BYTES)
    }

    /// Bytes of a response; never more than the message has.
    pub fn answer_bytes(&self) -> u64 {
        match self.answer {
            Answer::Bytes(bytes) => bytes.min(self.size_bytes),
            Answer::Field => self.field_bytes(),
        }
    }

    /// Returns true if TCP_NODELAY is set on the cell's sockets.
    pub fn sends_at_once(&self) -> bool {
        match self.nodelay {
            Nodelay::Auto => self.pattern == Pattern::RequestResponse,
            Nodelay::On => true,
            Nodelay::Off => false,
        }
    }

    /// Number of messages in the payload memory: one where the ring is exactly a message, which then
    /// stays in the nearest cache, else at least four, so that a zero-copy mover can have several in flight.
    pub fn ring_slots(&self) -> u64 {
        match self.ring {
            Ring::Message => 1,
            Ring::Bytes(bytes) if bytes == self.size_bytes => 1,
            Ring::Bytes(bytes) => (bytes / self.size_bytes.max(1)).max(4),
        }
    }

    /// Number of requests in one pass of a flow over its part of the file; 0 if not even one fits. The
    /// file is as long as the ring, and all flows have equal parts.
    pub fn file_slots(&self) -> u64 {
        let bytes = match self.ring {
            Ring::Message => self.size_bytes.saturating_mul(u64::from(self.threads)),
            Ring::Bytes(bytes) => bytes,
        };
        bytes / self.size_bytes.max(1) / u64::from(self.threads.max(1))
    }
}

impl Serving {
    /// Number of connections, active and idle.
    pub fn all_connections(&self) -> u64 {
        u64::from(self.connections) + u64::from(self.idle)
    }
}

#[cfg(test)]
mod tests;
