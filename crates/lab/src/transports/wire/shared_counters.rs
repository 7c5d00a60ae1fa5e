//! Counters of each flow by the program on the device: `crates/lab/bpf/wire.bpf.c`, `struct board`.

use std::io;
use std::os::fd::AsFd;

use bytecost_sys::file_map::FileMap;

/// Flows that there is room for: one for each port.
const FLOWS: usize = 1 << 16;
/// Words of one: a cache line, so that no two flows write to the same.
const WORDS: usize = 8;

/// The counters of all flows, mapped into memory.
#[derive(Debug)]
pub(crate) struct WireCounters(FileMap);

/// The part of a flow that has come so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlowReceived {
    /// Sequence number of the first byte of payload.
    pub(crate) start: u32,
    /// Bytes of payload that came in order.
    pub(crate) bytes: u64,
    /// Packets with payload: of up to 64 KiB each, which a card would cut.
    pub(crate) packets: u64,
    /// Packets that begin after the expected byte. They count as lost.
    pub(crate) gaps: u64,
    pub(crate) repeats: u64,
    pub(crate) closed: bool,
    /// True if it has given up.
    pub(crate) reset: bool,
}

impl WireCounters {
    pub(crate) fn new(map: impl AsFd) -> io::Result<WireCounters> {
        Ok(WireCounters(FileMap::new(map, 0, FLOWS * WORDS * 8)?))
    }

    /// The counters of a port's flow: read at different moments, but none older than at the last call.
    pub(crate) fn seen(&self, port: u16) -> FlowReceived {
        let word = |at| self.0.word(usize::from(port) * WORDS + at);
        // Read before the bytes, after which the program writes it.
        let ended = word(5);
        FlowReceived {
            start: word(0) as u32,
            bytes: word(1),
            packets: word(2),
            gaps: word(3),
            repeats: word(4),
            closed: ended & 1 != 0,
            reset: ended & 2 != 0,
        }
    }
}
