//! Counts of trials of their own: bytes that were copied, and events of the kernel.

use serde::{Deserialize, Serialize};

use crate::metric::Side;
use crate::reading::Reading;

/// A method of counting copies, the most reliable first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CopyMeans {
    /// Return values of the kernel's copying functions (fexit).
    Functions,
    /// Flags of packets and return values of system calls (tp_btf).
    Tracepoints,
    /// Flags of zero-copy completions.
    CompletionFlags,
}

impl CopyMeans {
    /// Its noun for readers.
    pub fn title(self) -> &'static str {
        match self {
            CopyMeans::Functions => "functions that copy",
            CopyMeans::Tracepoints => "tracepoints",
            CopyMeans::CompletionFlags => "completion flags",
        }
    }
}

words! {
    /// A place on a byte's way where it may be copied.
    pub enum CopyPlace {
        /// From the page cache to memory.
        FromFile,
        /// From the sender's memory to the kernel's.
        IntoKernel,
        /// From memory to the page cache.
        IntoFile,
        /// From kernel memory to kernel memory, because a reader may not hold a sender's pages.
        Delivery,
        /// From the kernel's memory to the reader's.
        ToReader,
    }
}

impl CopyPlace {
    /// Its phrase in figures and sentences.
    pub fn title(self) -> &'static str {
        match self {
            CopyPlace::FromFile => "out of the page cache",
            CopyPlace::IntoKernel => "into the kernel",
            CopyPlace::IntoFile => "into the page cache",
            CopyPlace::Delivery => "on delivery",
            CopyPlace::ToReader => "to the reader",
        }
    }

    /// The side that the copy counts for: delivery is work of the receiver.
    pub fn side(self) -> Side {
        match self {
            CopyPlace::FromFile | CopyPlace::IntoKernel | CopyPlace::IntoFile => Side::Sender,
            CopyPlace::Delivery | CopyPlace::ToReader => Side::Receiver,
        }
    }
}

/// Bytes that were copied at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Copied {
    /// The place.
    pub leg: CopyPlace,
    /// The method by which they were counted; none where they were not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub means: Option<CopyMeans>,
    /// The number of bytes, or why it is not available.
    pub bytes: Reading,
}

/// The bytes that were copied in one trial, from its first payload byte to its last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CopiedBytes {
    /// Payload bytes that were moved in that time.
    pub payload_bytes: u64,
    /// Copies at each place on the cell's path, in the order of [`CopyPlace::ALL`].
    pub legs: Vec<Copied>,
    /// Functions that could not be hooked in this kernel, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
}

/// The object that an event is counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedFor {
    /// Counted for each process.
    Process,
    /// Counted once for all connections.
    Connection,
}

rows! {
    /// An event that is counted in addition to bytes. Its row in [`EVENTS`] describes it.
    enum CountedEvent;
    /// A row of the table of events.
    struct EventRow {
        event,
        /// The object that it is counted for.
        of: CountedFor,
        /// Its noun, in the plural.
        title: &'static str,
        /// Its definition, with the tracepoint.
        summary: &'static str,
    }
    /// All events, in the order of tables.
    const EVENTS;
    SystemCalls "system-calls" { of: CountedFor::Process, title: "system calls", summary: "entries into the kernel by a call, those of the loop included (tracepoint sys_enter)" }
    ContextSwitches "context-switches" { of: CountedFor::Process, title: "context switches", summary: "times that a thread of the side left its CPU (sched_switch)" }
    WakeUps "wake-ups" { of: CountedFor::Process, title: "wake-ups", summary: "times that a thread of the side was woken (sched_waking)" }
    PageFaults "page-faults" { of: CountedFor::Process, title: "page faults", summary: "page_fault_user and page_fault_kernel, x86-64" }
    TlbFlushes "tlb-flushes" { of: CountedFor::Process, title: "TLB flushes", summary: "flushes while the side ran, those of switching to it included (tlb_flush, x86-64)" }
    Packets "packets" { of: CountedFor::Connection, title: "packets", summary: "packets with payload as they are queued to the device, of up to 64 KiB each (net_dev_queue)" }
    Segments "segments" { of: CountedFor::Connection, title: "segments", summary: "segments that these packets are of (gso_segs)" }
    Acknowledgements "acknowledgements" { of: CountedFor::Connection, title: "acknowledgements", summary: "packets without payload from the receiver (net_dev_queue)" }
    Retransmits "retransmits" { of: CountedFor::Connection, title: "retransmits", summary: "packets sent again (tcp_retransmit_skb)" }
}

/// The number of events of one kind within the window of a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EventCount {
    /// The event.
    pub event: CountedEvent,
    /// The side; both for an event of the connections.
    pub side: Side,
    /// The number, or why it is not available.
    pub count: Reading,
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_way_of_a_byte_goes_from_the_sender_to_the_receiver() {
        assert!(super::CopyPlace::ALL.is_sorted_by_key(|place| place.side()));
    }
}
