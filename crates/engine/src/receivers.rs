//! The table of receivers: each row a way to take bytes in. A file has one call.
//!
//! They all read into whole pages of their own. Where a buffer begins matters: memory from the
//! heap that begins a few bytes into a page made the kernel's copy several times slower on some
//! processors, whose string moves stumble over such an offset.

use crate::receiver::Receiver;

mod recv;
mod recvmsg;

/// All receivers, in the order of the documentation.
pub const RECEIVERS: &[Receiver] = &[recv::RECV, recvmsg::RECEIVER, recv::DISCARD, recv::WAITALL];

impl Receiver {
    /// The row of that name.
    pub fn named(name: &str) -> Option<&'static Receiver> {
        RECEIVERS.iter().find(|r| r.name == name)
    }
}
