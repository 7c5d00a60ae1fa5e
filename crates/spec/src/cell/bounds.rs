//! The bounds of values, and the error for a value out of bounds.

use crate::units;

/// The most cells of a study.
pub const MAX_CELLS: usize = 20_000;
/// The largest message, in bytes: a file that is sent whole is one.
pub const MAX_SIZE_BYTES: u64 = 4 << 30;
/// The largest buffer that is read into or sent from in one call, in bytes.
pub const MAX_CALL_BYTES: u64 = 64 << 20;
/// The most requests in flight.
pub const MAX_DEPTH: u32 = 4096;
/// Bounds of an MTU, in bytes: those of IPv4.
pub const MTU_BYTES: std::ops::RangeInclusive<u64> = 576..=65_535;
/// Bounds of a packet that a device is handed, in bytes: the least MTU of IPv4, and the kernel's
/// GSO_MAX_SIZE (include/linux/netdevice.h).
pub const SEGMENT_BYTES: std::ops::RangeInclusive<u64> = 576..=524_280;
/// One more than the largest number of a node (the kernel's MAX_NUMNODES at most).
pub const MOST_NODES: u64 = 1024;
/// The MTU of veth and wire where a cell names none, in bytes: Ethernet's, and the kernel's default.
pub const LINK_MTU_BYTES: u32 = 1500;
/// The most fields of a message: UIO_MAXIOV, the most pieces of one `sendmsg`.
pub const MAX_FIELDS: u32 = 1024;
/// The most flows of a cell.
pub const MAX_THREADS: u32 = 256;
/// The most payload memory of one flow, in bytes.
pub const MAX_RING_BYTES: u64 = 4 << 30;
/// The largest socket buffer that can be asked for, in bytes.
pub const MAX_SOCKET_BUFFER_BYTES: u64 = 1 << 30;
/// The most active connections of a cell, and the most idle ones.
pub const MAX_CONNECTIONS: u32 = 100_000;
/// The most requests per second of an open loop.
pub const MAX_RATE_PER_S: u64 = 100_000_000;
/// The longest pause of a client between response and request, in ns.
pub const MAX_THINK_NS: u64 = 1_000_000_000;

/// A value that an axis does not take; the message says what is wrong and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", units::one_line(.0))]
pub struct Invalid(pub String);
