//! A cell: one point of a study's grid.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::axis::{AXES, Axis, Told};
use crate::units;

mod choices;
mod device;
mod isolation;
mod places;
mod serving;
mod text;

pub use choices::{
    Access, Answer, Cache, HugePages, Nodelay, Pattern, Payload, ReadSize, Reaping, Ring, Transport,
};
pub use device::{Device, SEGMENT_BYTES};
pub use isolation::{
    Cgroup, Class, DEADLINE_PERIOD_NS, DEADLINE_RUNTIME_NS, MOST_QUOTA_PERCENT, NICE,
    QUOTA_PERIOD_US, WEIGHTS,
};
pub use places::{MOST_CPUS, Nearness, Neighbour, Noise, PAIRS, Placement, Spot};
pub use serving::{Connect, MAX_CONNECTIONS, Serving};
use text::{count, mtu, name, node, on_or_off, one_of, segment, size, switch};

/// The largest message, in bytes: a file that is sent whole is one.
pub const MAX_SIZE_BYTES: u64 = 4 << 30;
/// The largest buffer that is read into or sent from in one call, in bytes.
pub const MAX_CALL_BYTES: u64 = 64 << 20;
/// The most requests in flight.
pub const MAX_DEPTH: u32 = 4096;
/// The largest MTU, in bytes, and the least: what IPv4 allows.
pub const MTU_BYTES: std::ops::RangeInclusive<u32> = 576..=65_535;
/// One more than the largest number of a node (the kernel's MAX_NUMNODES at most).
pub const MOST_NODES: u32 = 1024;
/// The MTU of veth and wire where a cell names none, in bytes: Ethernet's, and the kernel's default.
pub const LINK_MTU_BYTES: u32 = 1500;
/// The most fields of a message: what one `sendmsg` takes (UIO_MAXIOV).
pub const MAX_FIELDS: u32 = 1024;
/// The most flows.
pub const MAX_THREADS: u32 = 256;
/// The most payload memory of one flow, in bytes.
pub const MAX_RING_BYTES: u64 = 4 << 30;
/// The largest socket buffer that can be asked for, in bytes.
pub const MAX_SOCKET_BUFFER_BYTES: u64 = 1 << 30;

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
    pub read_size: ReadSize,
    /// Payload memory of one flow, as asked; see [`Cell::ring_slots`].
    pub ring: Ring,
    /// TCP_NODELAY.
    pub nodelay: Nodelay,
    /// CPUs.
    pub placement: Placement,
    /// Whether the payload is written anew before each message.
    pub payload: Payload,
    /// What an answer consists of, where one is waited for.
    pub answer: Answer,
    /// What is done about zero-copy completions.
    pub reaping: Reaping,
    /// TCP_CORK around each message.
    pub cork: bool,
    /// TCP_QUICKACK, set anew before each receive.
    pub quickack: bool,
    /// MTU of the link, or none for the transport's own.
    pub mtu_bytes: Option<u32>,
    /// The most that TCP hands to the link's device in one packet, in bytes, or none for the
    /// device's own.
    #[serde(default)]
    pub segment_bytes: Option<u32>,
    /// What [`Transport::Wire`] and [`Transport::WireUdp`] are made of.
    #[serde(default)]
    pub device: Device,
    /// Bytes after which the far end of [`Transport::Wire`] acknowledges.
    pub ack_bytes: u64,
    /// Bytes of one call of a mover that works through a file.
    pub block_bytes: u64,
    /// Requests in flight.
    pub depth: u32,
    /// Where the file's pages are.
    pub cache: Cache,
    /// In which order a file is gone through.
    pub access: Access,
    /// The node that the payload's memory is taken from, or none for where the thread runs.
    #[serde(default)]
    pub mem_node: Option<u32>,
    /// What keeps CPUs busy beside the trial.
    #[serde(default)]
    pub neighbour: Neighbour,
    /// Whether the memory that work is done on lies in huge pages.
    #[serde(default)]
    pub huge_pages: HugePages,
    /// Scheduler class of the threads.
    #[serde(default)]
    pub class: Class,
    /// What the processes' own control group is given.
    #[serde(default)]
    pub cgroup: Cgroup,
    /// The server and the load on it, where there is one.
    #[serde(default)]
    pub serving: Serving,
    /// Whether it is the second measurement of a baseline, under a name of its own. No axis: the
    /// plan alone sets it, and cells without it are written as they were before there were twins.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub twin: bool,
}

/// What ends the name of a twin.
const TWIN: &str = "/twin";

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
            read_size: ReadSize::Message,
            ring: Ring::Message,
            nodelay: Nodelay::Auto,
            placement: Placement::Free,
            payload: Payload::Prepared,
            answer: Answer::Field,
            reaping: Reaping::Full,
            cork: false,
            quickack: false,
            mtu_bytes: None,
            segment_bytes: None,
            device: Device::default(),
            ack_bytes: 0,
            block_bytes: 0,
            depth: 1,
            cache: Cache::Memory,
            access: Access::Sequential,
            mem_node: None,
            neighbour: Neighbour::default(),
            huge_pages: HugePages::default(),
            class: Class::default(),
            cgroup: Cgroup::default(),
            serving: Serving::default(),
            twin: false,
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
            Axis::ReadSize => self.read_size.to_string(),
            Axis::Ring => self.ring.to_string(),
            Axis::Nodelay => self.nodelay.name().to_owned(),
            Axis::Placement => self.placement.to_string(),
            Axis::Payload => self.payload.name().to_owned(),
            Axis::Answer => self.answer.to_string(),
            Axis::Reaping => self.reaping.name().to_owned(),
            Axis::Cork => on_or_off(self.cork).to_owned(),
            Axis::Quickack => on_or_off(self.quickack).to_owned(),
            Axis::Mtu => self
                .mtu_bytes
                .map_or_else(|| "auto".to_owned(), |n| n.to_string()),
            Axis::Segment => self
                .segment_bytes
                .map_or_else(|| "auto".to_owned(), |n| units::bytes(n.into())),
            Axis::Device => self.device.name().to_owned(),
            Axis::AckBytes => units::bytes(self.ack_bytes),
            Axis::Block => units::bytes(self.block_bytes),
            Axis::Depth => self.depth.to_string(),
            Axis::Cache => self.cache.name().to_owned(),
            Axis::Access => self.access.name().to_owned(),
            Axis::MemNode => self
                .mem_node
                .map_or_else(|| "auto".to_owned(), |n| n.to_string()),
            Axis::Neighbour => self.neighbour.to_string(),
            Axis::HugePages => self.huge_pages.name().to_owned(),
            Axis::Class => self.class.to_string(),
            Axis::Cgroup => self.cgroup.to_string(),
            of_serving => self.serving.value(of_serving).unwrap_or_default(),
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
            Axis::ReadSize => {
                self.read_size = match text {
                    "field" => ReadSize::Field,
                    "message" => ReadSize::Message,
                    _ => ReadSize::Bytes(size(axis, text, MAX_CALL_BYTES)?),
                }
            }
            Axis::Ring => {
                self.ring = match text {
                    "message" => Ring::Message,
                    _ => Ring::Bytes(size(axis, text, MAX_RING_BYTES)?),
                }
            }
            Axis::Nodelay => self.nodelay = one_of(axis, text, Nodelay::ALL, |n| n.name())?,
            Axis::Placement => self.placement = text.parse()?,
            Axis::Payload => self.payload = one_of(axis, text, Payload::ALL, |p| p.name())?,
            Axis::Answer => {
                self.answer = match text {
                    "field" => Answer::Field,
                    _ => Answer::Bytes(size(axis, text, MAX_CALL_BYTES)?),
                }
            }
            Axis::Reaping => self.reaping = one_of(axis, text, Reaping::ALL, |r| r.name())?,
            Axis::Cork => self.cork = switch(axis, text)?,
            Axis::Quickack => self.quickack = switch(axis, text)?,
            Axis::Mtu => {
                self.mtu_bytes = match text {
                    "auto" => None,
                    _ => Some(mtu(text)?),
                }
            }
            Axis::Segment => {
                self.segment_bytes = match text {
                    "auto" => None,
                    _ => Some(segment(text)?),
                }
            }
            Axis::Device => self.device = one_of(axis, text, Device::ALL, |d| d.name())?,
            Axis::AckBytes => self.ack_bytes = size(axis, text, MAX_CALL_BYTES)?,
            Axis::Block => self.block_bytes = size(axis, text, MAX_CALL_BYTES)?,
            Axis::Depth => self.depth = count(axis, text, MAX_DEPTH)?,
            Axis::Cache => self.cache = one_of(axis, text, Cache::ALL, |c| c.name())?,
            Axis::Access => self.access = one_of(axis, text, Access::ALL, |a| a.name())?,
            Axis::MemNode => {
                self.mem_node = match text {
                    "auto" => None,
                    _ => Some(node(text)?),
                }
            }
            Axis::Neighbour => self.neighbour = text.parse()?,
            Axis::HugePages => self.huge_pages = one_of(axis, text, HugePages::ALL, |h| h.name())?,
            Axis::Class => self.class = text.parse()?,
            Axis::Cgroup => self.cgroup = text.parse()?,
            of_serving => self.serving.set(of_serving, text)?,
        }
        Ok(())
    }

    /// The cell's name: its values in the order of [`AXES`], joined by `/`; those of axes that
    /// are told only where they matter stand behind them as `axis=value`, unless they are at
    /// their default; `/twin` ends that of a twin.
    #[must_use]
    pub fn id(&self) -> String {
        self.id_without(&[])
    }

    /// The name of what the cell shares with all cells that differ in `axes` only.
    #[must_use]
    pub fn id_without(&self, axes: &[Axis]) -> String {
        let values = AXES.iter().filter_map(|row| {
            let without = axes.contains(&row.axis);
            match row.told {
                Told::Always if without => Some("*".to_owned()),
                Told::Always => Some(self.value(row.axis)),
                Told::WhereItMatters if without => None,
                Told::WhereItMatters => {
                    let value = self.value(row.axis);
                    row.axis
                        .tells(&value)
                        .then(|| format!("{}={value}", row.name))
                }
            }
        });
        let mut name = values.collect::<Vec<_>>().join("/");
        if self.twin {
            name.push_str(TWIN);
        }
        name
    }

    /// The same cell under the other name: of a baseline its twin, of a twin its baseline.
    #[must_use]
    pub fn other_twin(&self) -> Cell {
        Cell {
            twin: !self.twin,
            ..self.clone()
        }
    }

    /// The cell of that name, as [`Cell::id`] writes it; none where it is no name of a cell.
    #[must_use]
    pub fn from_id(id: &str) -> Option<Cell> {
        let (id, twin) = id.strip_suffix(TWIN).map_or((id, false), |id| (id, true));
        let mut cell = Cell {
            twin,
            ..Cell::default()
        };
        let mut words = id.split('/');
        for row in AXES.iter().filter(|row| row.told == Told::Always) {
            cell.set(row.axis, words.next()?).ok()?;
        }
        for word in words {
            let (name, value) = word.split_once('=')?;
            cell.set(Axis::named(name)?, value).ok()?;
        }
        Some(cell)
    }

    /// Bytes of one field.
    #[must_use]
    pub fn field_bytes(&self) -> u64 {
        (self.size_bytes / u64::from(self.fields.max(1))).max(1)
    }

    /// MTU of the link that is made for the cell, in bytes.
    #[must_use]
    pub fn link_mtu_bytes(&self) -> u32 {
        self.mtu_bytes.unwrap_or(LINK_MTU_BYTES)
    }

    /// What the receiver asks for in one call, in bytes.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        match self.read_size {
            ReadSize::Bytes(bytes) => bytes,
            ReadSize::Field => self.field_bytes(),
            ReadSize::Message => self.size_bytes,
        }
        .min(MAX_CALL_BYTES)
    }

    /// Bytes of an answer; never more than the message has.
    #[must_use]
    pub fn answer_bytes(&self) -> u64 {
        match self.answer {
            Answer::Bytes(bytes) => bytes.min(self.size_bytes),
            Answer::Field => self.field_bytes(),
        }
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
        match self.ring {
            Ring::Message => 1,
            Ring::Bytes(bytes) if bytes == self.size_bytes => 1,
            Ring::Bytes(bytes) => (bytes / self.size_bytes.max(1)).max(4),
        }
    }

    /// How many requests one pass of a flow through its part of the file takes: the file is as
    /// long as the ring, and each flow has a part of its own. 0 where not even one fits.
    #[must_use]
    pub fn file_slots(&self) -> u64 {
        let bytes = match self.ring {
            Ring::Message => self.size_bytes.saturating_mul(u64::from(self.threads)),
            Ring::Bytes(bytes) => bytes,
        };
        bytes / self.size_bytes.max(1) / u64::from(self.threads.max(1))
    }
}

#[cfg(test)]
mod tests;
