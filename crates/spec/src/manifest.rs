//! The manifest of a run: study, machine, survey and plan, written before the first trial.

use serde::{Deserialize, Serialize};

use crate::evidence::EvidenceAsked;
use crate::host::Host;
use crate::peer::{NetworkCard, PeerHost};
use crate::study::Study;
use crate::survey::Survey;

mod expectation;
mod leg;
mod plan;
mod rounds;

pub use expectation::{Expectation, RatioNoise};
pub use leg::{Difference, Leg, Measurer};
pub use plan::Plan;
pub use rounds::{ComparisonRounds, MetricRounds, RoundNoise, RoundVariance};

/// The format that this version writes, and the only one that it reads. It stays 1 until 0.1.0 is
/// released, whatever changes.
pub const FORMAT: u32 = 1;

/// The description of a run: its study, machine, survey and plan. It is written before the first trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Manifest {
    /// [`FORMAT`] of the writer.
    pub format: u32,
    /// The run's name, which is also its directory's.
    pub id: String,
    /// Version of bytecost that measured.
    pub bytecost_version: String,
    /// Build of bytecost that measured: the GNU build id of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
    /// Start of the run, RFC 3339, UTC.
    pub started: String,
    /// Seed of the order of trials.
    pub seed: u64,
    /// The command line as it was given.
    pub command: Vec<String>,
    /// The study with every choice of the command line in it.
    pub study: Study,
    /// The machine.
    pub host: Host,
    /// The features that work on the machine.
    pub survey: Survey,
    /// The other host; none if both sides run on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<Box<PeerHost>>,
    /// This machine's network cards on the path to the other host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own_cards: Vec<NetworkCard>,
    /// Evidence that the run gathers in addition to its trials.
    pub evidence: Vec<EvidenceAsked>,
    /// Segments of the run that were resumed under other conditions, in their order; mostly none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub legs: Vec<Leg>,
    /// The cells, and their order in each block.
    pub plan: Plan,
    /// The variance of ratios between rounds on this machine, as known before the run.
    pub rounds: RoundNoise,
    /// The first block of each round, in their order; empty if the run is one round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub round_blocks: Vec<u32>,
    /// Number of blocks that had begun each time that the run was resumed: its verdicts could be seen
    /// then, so that each of these looks has spent a part of the error rate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub looks: Vec<u32>,
}

impl Manifest {
    /// A manifest with a study, in the current format; all else is empty.
    pub fn new(study: Study) -> Manifest {
        Manifest {
            format: FORMAT,
            study,
            ..Manifest::default()
        }
    }

    /// Index of the leg that a block belongs to: 0 is the leg that the run began with.
    pub fn leg_of(&self, block: u32) -> usize {
        (self.legs.iter())
            .filter(|leg| leg.first_block <= block)
            .count()
    }

    /// Index of the round that a block belongs to: 0 is the first round.
    pub fn round_of(&self, block: u32) -> u32 {
        let begun = self.round_blocks.iter().filter(|first| **first <= block);
        (begun.count() as u32).saturating_sub(1)
    }

    /// The build and the host of the last leg.
    pub fn measurer(&self) -> Measurer<'_> {
        match self.legs.last() {
            Some(leg) => Measurer {
                version: &leg.bytecost_version,
                build: leg.build_id.as_deref(),
                host: &leg.host,
            },
            None => Measurer {
                version: &self.bytecost_version,
                build: self.build_id.as_deref(),
                host: &self.host,
            },
        }
    }

    /// The share of an error rate that is left for the next verdicts: each earlier look halves it, so
    /// that all looks together spend less than twice the rate (the union bound).
    pub fn rate_share(&self) -> f64 {
        self.looks.iter().fold(1.0, |share, _| share / 2.0)
    }
}
