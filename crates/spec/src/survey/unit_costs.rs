//! What one event costs in CPU time on a host, measured before a run.

use serde::{Deserialize, Serialize};

macro_rules! priced {
    ($($variant:ident $name:literal $summary:literal;)*) => {
        /// An event whose cost is measured. Its row in [`PRICED`] says how.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[allow(missing_docs)] // told by the rows
        pub enum Priced { $(#[serde(rename = $name)] $variant,)* }

        /// All of them, each with its name in files and what is measured.
        pub const PRICED: &[PricedRow] = &[
            $(PricedRow { event: Priced::$variant, name: $name, summary: $summary },)*
        ];
    };
}

/// A row of the table of events with a cost.
#[derive(Clone, Copy, Debug)]
pub struct PricedRow {
    /// The event.
    pub event: Priced,
    /// Its name in files.
    pub name: &'static str,
    /// What is measured.
    pub summary: &'static str,
}

priced! {
    SystemCall "system-call" "a system call that does nothing: getppid(2)";
    SocketCall "socket-call" "one more send(2) for the same bytes, to a corked TCP connection";
    FileCall "file-call" "one more pread(2) for the same bytes, out of the page cache";
    SwitchSameCpu "switch-same-cpu" "a thread sleeps and is woken, by a pipe, by another thread on its CPU";
    SwitchOtherCpu "switch-other-cpu" "the same with the other thread on another CPU, that of the waker included";
    PageFault "page-fault" "the first write to a page of fresh memory";
    Packet "packet" "one more packet over loopback for the same bytes and calls, with its reception";
    CopyNear "copy-near" "a byte copied between two places within 256 KiB";
    CopyMiddle "copy-middle" "a byte copied between two places within 4 MiB";
    CopyFar "copy-far" "a byte copied between two places within 64 MiB";
}

impl Priced {
    /// The event's name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        let row = PRICED.iter().find(|r| r.event == self);
        row.map_or("", |r| r.name)
    }
}

/// One measurement: CPU time of so many events, less that of the same work without them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostTrial {
    /// CPU time in ns; negative where the work without them took longer.
    pub cpu_ns: i64,
    /// How many events.
    pub events: u64,
}

/// What one kind of event costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnitCost {
    /// The event.
    pub event: Priced,
    /// Repetitions, in turns with those of the other events.
    pub trials: Vec<CostTrial>,
    /// Why it is not known, where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_priced_event_has_its_own_row_and_name() {
        for row in PRICED {
            let written = serde_json::to_string(&row.event).unwrap();
            assert_eq!(written, format!("\"{}\"", row.name));
            assert_eq!(row.event.name(), row.name);
        }
    }
}
