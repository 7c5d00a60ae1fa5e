//! A cell: one point of a study's grid.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::axis::{AXES, Axis};
use crate::units;

/// The largest message, in bytes.
pub const MAX_SIZE_BYTES: u64 = 64 << 20;
/// The most fields of a message: what one `sendmsg` takes (UIO_MAXIOV).
pub const MAX_FIELDS: u32 = 1024;
/// The most flows.
pub const MAX_THREADS: u32 = 256;
/// The most payload memory of one flow, in bytes.
pub const MAX_RING_BYTES: u64 = 4 << 30;
/// The largest socket buffer that can be asked for, in bytes.
pub const MAX_SOCKET_BUFFER_BYTES: u64 = 1 << 30;

/// What lies between the two ends.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// TCP over the loopback device.
    Loopback,
    /// A stream socket of the Unix domain.
    Unix,
}

impl Transport {
    /// All transports, in the order of the documentation.
    pub const ALL: &[Transport] = &[Transport::Loopback, Transport::Unix];

    /// The transport's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Transport::Loopback => "loopback",
            Transport::Unix => "unix",
        }
    }

    /// What it is, for lists.
    #[must_use]
    pub fn summary(self) -> &'static str {
        match self {
            Transport::Loopback => "TCP over 127.0.0.1; zero-copy sends are copied on delivery",
            Transport::Unix => "a Unix stream socket",
        }
    }

    /// Whether it speaks TCP, so that congestion control and TCP_NODELAY mean something.
    #[must_use]
    pub fn is_tcp(self) -> bool {
        matches!(self, Transport::Loopback)
    }
}

/// Who waits for whom.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// The sender sends without pause.
    Stream,
    /// The sender waits for an answer after each message.
    Ask,
}

impl Pattern {
    /// The pattern's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Stream => "stream",
            Pattern::Ask => "ask",
        }
    }
}

/// Which CPUs the two ends run on. Flow `i` takes the `i`-th of each list, going round.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// The scheduler decides.
    #[default]
    Free,
    /// Pinned.
    Cpus {
        /// CPUs of the sender's threads; never empty.
        sender: Vec<u32>,
        /// CPUs of the receiver's threads; never empty.
        receiver: Vec<u32>,
    },
}

/// TCP_NODELAY: whether small writes go out at once.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Nodelay {
    /// On where answers are waited for, off while streaming: what a careful program does.
    #[default]
    Auto,
    /// On.
    On,
    /// Off: the system's default.
    Off,
}

impl Nodelay {
    const ALL: &[Nodelay] = &[Nodelay::Auto, Nodelay::On, Nodelay::Off];

    fn name(self) -> &'static str {
        match self {
            Nodelay::Auto => "auto",
            Nodelay::On => "on",
            Nodelay::Off => "off",
        }
    }
}

/// A value that an axis cannot take: what is wrong, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", units::one_line(.0))]
pub struct Invalid(pub String);

/// One point of a study's grid. Its [`Cell::id`] names it everywhere.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// What lies between the two ends.
    pub transport: Transport,
    /// Who waits for whom.
    pub pattern: Pattern,
    /// A name of the engine's table of movers.
    pub mover: String,
    /// A name of the engine's table of receivers.
    pub receiver: String,
    /// One whole message.
    pub size_bytes: u64,
    /// Pieces of a message.
    pub fields: u32,
    /// Flows.
    pub threads: u32,
    /// Name of the congestion control, or `default`.
    pub congestion: String,
    /// SO_SNDBUF and SO_RCVBUF, or none for the kernel's own tuning.
    pub socket_buffer_bytes: Option<u64>,
    /// What the receiver asks for in one call.
    pub read_size_bytes: u64,
    /// Payload memory of one flow, as asked; see [`Cell::ring_slots`].
    pub ring_bytes: u64,
    /// TCP_NODELAY.
    pub nodelay: Nodelay,
    /// CPUs.
    pub placement: Placement,
}

impl Default for Cell {
    fn default() -> Self {
        let mut cell = Cell {
            transport: Transport::Loopback,
            pattern: Pattern::Stream,
            mover: String::new(),
            receiver: String::new(),
            size_bytes: 0,
            fields: 1,
            threads: 1,
            congestion: String::new(),
            socket_buffer_bytes: None,
            read_size_bytes: 0,
            ring_bytes: 0,
            nodelay: Nodelay::Auto,
            placement: Placement::Free,
        };
        for row in AXES {
            let set = cell.set(row.axis, row.default);
            debug_assert_eq!(set, Ok(()), "the default of {}", row.name);
        }
        cell
    }
}

impl Cell {
    /// The value of one axis, written so that [`Cell::set`] reads the same.
    #[must_use]
    pub fn value(&self, axis: Axis) -> String {
        match axis {
            Axis::Transport => self.transport.name().to_owned(),
            Axis::Pattern => self.pattern.name().to_owned(),
            Axis::Mover => self.mover.clone(),
            Axis::Receiver => self.receiver.clone(),
            Axis::Size => units::bytes(self.size_bytes),
            Axis::Fields => self.fields.to_string(),
            Axis::Threads => self.threads.to_string(),
            Axis::Congestion => self.congestion.clone(),
            Axis::SocketBuffer => self
                .socket_buffer_bytes
                .map_or_else(|| "auto".to_owned(), units::bytes),
            Axis::ReadSize => units::bytes(self.read_size_bytes),
            Axis::Ring => units::bytes(self.ring_bytes),
            Axis::Nodelay => self.nodelay.name().to_owned(),
            Axis::Placement => self.placement.to_string(),
        }
    }

    /// Sets one axis from text. Names of movers, receivers and congestion controls are not
    /// looked up here: the vocabulary does not know the tables.
    ///
    /// # Errors
    /// What is wrong and what to write instead, when the text is no value of that axis.
    pub fn set(&mut self, axis: Axis, text: &str) -> Result<(), Invalid> {
        match axis {
            Axis::Transport => self.transport = one_of(axis, text, Transport::ALL, |t| t.name())?,
            Axis::Pattern => {
                self.pattern = one_of(axis, text, &[Pattern::Stream, Pattern::Ask], |p| p.name())?
            }
            Axis::Mover => self.mover = name(axis, text)?,
            Axis::Receiver => self.receiver = name(axis, text)?,
            Axis::Size => self.size_bytes = size(axis, text, MAX_SIZE_BYTES)?,
            Axis::Fields => self.fields = count(axis, text, MAX_FIELDS)?,
            Axis::Threads => self.threads = count(axis, text, MAX_THREADS)?,
            Axis::Congestion => self.congestion = name(axis, text)?,
            Axis::SocketBuffer => {
                self.socket_buffer_bytes = match text {
                    "auto" => None,
                    _ => Some(size(axis, text, MAX_SOCKET_BUFFER_BYTES)?),
                }
            }
            Axis::ReadSize => self.read_size_bytes = size(axis, text, MAX_SIZE_BYTES)?,
            Axis::Ring => self.ring_bytes = size(axis, text, MAX_RING_BYTES)?,
            Axis::Nodelay => self.nodelay = one_of(axis, text, Nodelay::ALL, |n| n.name())?,
            Axis::Placement => self.placement = text.parse()?,
        }
        Ok(())
    }

    /// The cell's name: all its values in the order of [`AXES`], joined by `/`.
    #[must_use]
    pub fn id(&self) -> String {
        let values: Vec<String> = AXES.iter().map(|r| self.value(r.axis)).collect();
        values.join("/")
    }

    /// The name of what the cell shares with all cells that differ in `axes` only.
    #[must_use]
    pub fn id_without(&self, axes: &[Axis]) -> String {
        let values: Vec<String> = AXES
            .iter()
            .map(|r| {
                if axes.contains(&r.axis) {
                    "*".to_owned()
                } else {
                    self.value(r.axis)
                }
            })
            .collect();
        values.join("/")
    }

    /// Whether TCP_NODELAY is set on the cell's sockets.
    #[must_use]
    pub fn sends_at_once(&self) -> bool {
        match self.nodelay {
            Nodelay::Auto => self.pattern == Pattern::Ask,
            Nodelay::On => true,
            Nodelay::Off => false,
        }
    }

    /// How many messages the payload memory holds: one where the ring is exactly a message (the
    /// hottest there is), else at least four, so that a zero-copy mover can have several in flight.
    #[must_use]
    pub fn ring_slots(&self) -> u64 {
        if self.ring_bytes == self.size_bytes {
            return 1;
        }
        (self.ring_bytes / self.size_bytes.max(1)).max(4)
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |cpus: &[u32]| {
            cpus.iter()
                .map(u32::to_string)
                .collect::<Vec<_>>()
                .join(",")
        };
        match self {
            Placement::Free => f.write_str("free"),
            Placement::Cpus { sender, receiver } => {
                write!(f, "{}:{}", list(sender), list(receiver))
            }
        }
    }
}

impl std::str::FromStr for Placement {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        if text == "free" {
            return Ok(Placement::Free);
        }
        let wrong = || {
            Invalid(format!(
                "placement `{text}`: write `free`, or CPUs as SENDER:RECEIVER, for example 0:1 or 0,2:1,3"
            ))
        };
        let list = |part: &str| -> Result<Vec<u32>, Invalid> {
            part.split(',')
                .map(|cpu| cpu.trim().parse().map_err(|_| wrong()))
                .collect()
        };
        let (sender, receiver) = text.split_once(':').ok_or_else(wrong)?;
        Ok(Placement::Cpus {
            sender: list(sender)?,
            receiver: list(receiver)?,
        })
    }
}

fn one_of<T: Copy>(
    axis: Axis,
    text: &str,
    values: &[T],
    name: impl Fn(&T) -> &'static str,
) -> Result<T, Invalid> {
    values
        .iter()
        .copied()
        .find(|v| name(v) == text)
        .ok_or_else(|| {
            let known: Vec<&str> = values.iter().map(name).collect();
            Invalid(format!(
                "{} `{text}` is not known: choose from {}",
                axis.name(),
                known.join(", ")
            ))
        })
}

fn name(axis: Axis, text: &str) -> Result<String, Invalid> {
    let fits = !text.is_empty()
        && text.len() <= 64
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if fits {
        Ok(text.to_owned())
    } else {
        Err(Invalid(format!("{} `{text}` is not a name", axis.name())))
    }
}

fn size(axis: Axis, text: &str, most: u64) -> Result<u64, Invalid> {
    let n = units::parse_bytes(text).map_err(|e| Invalid(format!("{}: {e}", axis.name())))?;
    if (1..=most).contains(&n) {
        Ok(n)
    } else {
        Err(Invalid(format!(
            "{} `{text}` is out of bounds: from 1 byte to {}",
            axis.name(),
            units::bytes(most)
        )))
    }
}

fn count(axis: Axis, text: &str, most: u32) -> Result<u32, Invalid> {
    match text.trim().parse() {
        Ok(n) if (1..=most).contains(&n) => Ok(n),
        _ => Err(Invalid(format!(
            "{} `{text}` is out of bounds: a whole number from 1 to {most}",
            axis.name()
        ))),
    }
}

#[cfg(test)]
mod tests;
