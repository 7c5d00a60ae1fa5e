//! The records of a run's log, one a line.

use serde::{Deserialize, Serialize};

use crate::evidence::TrialEvidence;
use crate::sample::{Block, Failure, Sample, TrialKey};

/// One line of the sample log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
// Nearly every record is a sample, so that a box would save nothing.
#[allow(clippy::large_enum_variant)]
pub enum Record {
    /// A trial that was completed.
    Sample(Sample),
    /// A trial that failed.
    Failure(Failure),
    /// A trial that gathered evidence.
    Evidence(TrialEvidence),
    /// The end of a block of trials.
    Block(Block),
}

impl Record {
    /// The trial of the record; none for the end of a block.
    pub fn trial(&self) -> Option<TrialKey> {
        match self {
            Record::Sample(s) => Some(s.trial),
            Record::Failure(f) => Some(f.trial),
            Record::Evidence(e) => Some(e.trial),
            Record::Block(_) => None,
        }
    }

    /// Returns true for a trial for evidence, one that failed included.
    pub fn is_for_evidence(&self) -> bool {
        match self {
            Record::Evidence(_) => true,
            Record::Failure(f) => f.for_evidence,
            Record::Sample(_) | Record::Block(_) => false,
        }
    }

    /// The id of the record's cell; none for the end of a block.
    pub fn cell_mut(&mut self) -> Option<&mut String> {
        match self {
            Record::Sample(s) => Some(&mut s.cell),
            Record::Failure(f) => Some(&mut f.cell),
            Record::Evidence(e) => Some(&mut e.cell),
            Record::Block(_) => None,
        }
    }

    /// The result of a timed trial, a sample or a failure; none for another record.
    pub fn timed(self) -> Option<Result<Sample, Failure>> {
        match self {
            Record::Sample(s) => Some(Ok(s)),
            Record::Failure(f) => Some(Err(f)),
            Record::Evidence(_) | Record::Block(_) => None,
        }
    }
}
