//! What is counted in a trial of its own: how often bytes were copied, and what else a message took.

use serde::{Deserialize, Serialize};

use crate::metric::Side;
use crate::reading::Reading;

/// A means by which copies are told, the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CopyMeans {
    /// Bytes through the kernel's functions that copy, as these return (fexit).
    Functions,
    /// Bytes by the flags of packets and by what system calls returned (tp_btf).
    Tracepoints,
    /// What the kernel says of zero-copy buffers as it gives them back.
    CompletionFlags,
}

impl CopyMeans {
    /// What it is called for readers.
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
        /// Between two places of the kernel's, since a reader may not hold a sender's pages.
        Delivery,
        /// From the kernel's memory to the reader's.
        ToReader,
    }
}

impl CopyPlace {
    /// What it is called in figures and sentences.
    pub fn title(self) -> &'static str {
        match self {
            CopyPlace::FromFile => "out of the page cache",
            CopyPlace::IntoKernel => "into the kernel",
            CopyPlace::IntoFile => "into the page cache",
            CopyPlace::Delivery => "on delivery",
            CopyPlace::ToReader => "to the reader",
        }
    }

    /// Which side it counts for: delivery is done for the receiver.
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
    /// Where.
    pub leg: CopyPlace,
    /// By what means that was counted; none where it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub means: Option<CopyMeans>,
    /// How many.
    pub bytes: Reading,
}

/// The bytes that were copied in one trial, from the first to the last that moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CopiedBytes {
    /// Payload that was moved meanwhile.
    pub payload_bytes: u64,
    /// Each place that the cell has, in the order of [`CopyPlace::ALL`].
    pub legs: Vec<Copied>,
    /// What could not be hooked in this kernel, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
}

/// Whose an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventOf {
    /// Counted for each process.
    Process,
    /// Counted once, for the connections.
    Connection,
}

rows! {
    /// Something that is counted besides bytes. Its row in [`EVENTS`] says what.
    enum CountedEvent;
    /// A row of the table of events.
    struct EventRow {
        event,
        /// Whose it is.
        of: EventOf,
        /// What it is called, in the plural.
        title: &'static str,
        /// What is counted, and where.
        summary: &'static str,
    }
    /// All events, in the order of tables.
    const EVENTS;
    SystemCalls "system-calls" { of: EventOf::Process, title: "system calls", summary: "entries into the kernel by a call, those of the loop included (tracepoint sys_enter)" }
    ContextSwitches "context-switches" { of: EventOf::Process, title: "context switches", summary: "times that a thread of the side left its CPU (sched_switch)" }
    WakeUps "wake-ups" { of: EventOf::Process, title: "wake-ups", summary: "times that a thread of the side was woken (sched_waking)" }
    PageFaults "page-faults" { of: EventOf::Process, title: "page faults", summary: "page_fault_user and page_fault_kernel, x86-64" }
    TlbFlushes "tlb-flushes" { of: EventOf::Process, title: "TLB flushes", summary: "flushes while the side ran, those of switching to it included (tlb_flush, x86-64)" }
    Packets "packets" { of: EventOf::Connection, title: "packets", summary: "packets with payload as they are queued to the device, of up to 64 KiB each (net_dev_queue)" }
    Segments "segments" { of: EventOf::Connection, title: "segments", summary: "segments that these packets are of (gso_segs)" }
    Acknowledgements "acknowledgements" { of: EventOf::Connection, title: "acknowledgements", summary: "packets without payload from the receiver (net_dev_queue)" }
    Retransmits "retransmits" { of: EventOf::Connection, title: "retransmits", summary: "packets sent again (tcp_retransmit_skb)" }
}

/// How often something happened within the window of a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EventCount {
    /// What.
    pub event: CountedEvent,
    /// On which side; both for what is the connection's.
    pub side: Side,
    /// How often, or why that was not counted.
    pub count: Reading,
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_way_of_a_byte_goes_from_the_sender_to_the_receiver() {
        assert!(super::CopyPlace::ALL.is_sorted_by_key(|place| place.side()));
    }
}
