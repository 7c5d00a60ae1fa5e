//! Why the two cells of a finding differ, as findings.json tells it.

use bytecost_spec::evidence::CountedEvent;
use serde::{Deserialize, Serialize};

/// A number with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Uncertain {
    /// The estimate.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// What a message of one way takes more of than a message of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CauseOf {
    /// Copies of each of its bytes.
    Copies,
    /// An event.
    Event(CountedEvent),
}

/// An event of which the way that takes more has more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cause {
    /// What.
    pub of: CauseOf,
    /// How often for a message of the baseline, of copies for a byte.
    pub from: f64,
    /// How often for a message of the other.
    pub to: f64,
    /// What the difference costs for each message, in ns, by the cost of one such event on the
    /// machine; none where that was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_ns: Option<Uncertain>,
    /// The cost as a share of the difference; none where the costs do not add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Uncertain>,
}

/// Why the cells of a decided finding differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FindingCauses {
    /// [`super::Finding::id`].
    pub finding: String,
    /// Whether trials of their own have counted in both cells; else timed trials alone did.
    pub counted: bool,
    /// How much more time the dearer one takes for a message, in ns.
    pub difference_ns: Uncertain,
    /// What accounts for it, the most costly first. None where the counts do not explain it.
    pub causes: Vec<Cause>,
    /// How much of the difference all of them account for; none where the costs do not add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explained: Option<Uncertain>,
}

/// Arithmetic of positive numbers that are known independently of each other.
impl Uncertain {
    pub(crate) fn exact(value: f64) -> Uncertain {
        Uncertain {
            value,
            low: value,
            high: value,
        }
    }

    pub(crate) fn times(self, by: Uncertain) -> Uncertain {
        self.scaled(self.value * by.value, by.value / by.low, by.high / by.value)
    }

    pub(crate) fn over(self, by: Uncertain) -> Uncertain {
        self.scaled(self.value / by.value, by.high / by.value, by.value / by.low)
    }

    /// A product: the factors between a value and its ends add in squares of their logarithms.
    fn scaled(self, value: f64, down: f64, up: f64) -> Uncertain {
        let reach = |a: f64, b: f64| a.ln().hypot(b.ln()).exp();
        Uncertain {
            value,
            low: value / reach(self.value / self.low, down),
            high: value * reach(self.high / self.value, up),
        }
    }

    pub(crate) fn sum(all: impl Iterator<Item = Uncertain>) -> Option<Uncertain> {
        all.reduce(|a, b| Uncertain {
            value: a.value + b.value,
            low: a.value + b.value - (a.value - a.low).hypot(b.value - b.low),
            high: a.value + b.value + (a.high - a.value).hypot(b.high - b.value),
        })
    }
}
