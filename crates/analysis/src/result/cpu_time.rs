//! Where the CPU time of a cell went, as findings.json tells it.

use bytecost_spec::evidence::{Kind, Party};
use serde::{Deserialize, Serialize};

/// Where the CPU time of a cell went, from looks at the CPUs in a trial of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CellTime {
    /// [`bytecost_spec::Cell::id`].
    pub cell: String,
    /// What the times are told for.
    pub per: TimePer,
    /// Looks that found one of the two sides at work.
    pub looks: u64,
    /// The sender's kinds of work, then the receiver's, then those of all else that ran, which no
    /// sum has in it; each in the order of the table of kinds. Those that no look found are left
    /// away.
    pub kinds: Vec<KindTime>,
    /// Functions of the kernel with most time, both sides together.
    pub functions: Vec<FunctionTime>,
    /// Share of the two sides' looks at functions that the map does not know.
    pub unattributed: f64,
    /// Share of the two sides' looks that landed in a function which works for its caller, or in
    /// which interrupts are switched on again, and that were given to the caller.
    pub moved: f64,
    /// Share of all looks at busy CPUs that found neither side.
    pub rest: f64,
    /// Share of looks that were lost.
    pub lost: f64,
}

/// What CPU time is told for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TimePer {
    /// Each KiB sent, of both sides together.
    Kib,
    /// Each request answered, of the server alone: its clients are the instrument.
    Request,
}

impl TimePer {
    /// `for each KiB`.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            TimePer::Kib => "for each KiB",
            TimePer::Request => "for each request",
        }
    }

    /// Whether a party's time is told.
    #[must_use]
    pub fn tells(self, party: Party) -> bool {
        match self {
            TimePer::Kib => party != Party::Rest,
            TimePer::Request => party == Party::Receiver,
        }
    }
}

/// CPU time of one side, or of the rest of the machine, in one kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KindTime {
    /// Whose.
    pub party: Party,
    /// The kind.
    pub kind: Kind,
    /// Looks that found it.
    pub looks: u64,
    /// CPU time in ns for each of what [`CellTime::per`] says.
    pub ns_per_unit: f64,
    /// Lower end of its 95 % interval, were looks to fall by chance (Poisson).
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// CPU time of a function of the kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FunctionTime {
    /// Its name.
    pub function: String,
    /// The kind that it counts as.
    pub kind: Kind,
    /// Share of the two sides' time.
    pub share: f64,
}
