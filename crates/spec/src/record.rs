//! Records: what the log of a run holds, one a line.

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
    /// A trial that went through.
    Sample(Sample),
    /// One that did not.
    Failure(Failure),
    /// One that was made to see what the kernel does.
    Evidence(TrialEvidence),
    /// The end of a block, which is no trial.
    Block(Block),
}

impl Record {
    /// Which trial it tells of; none of a block.
    pub fn trial(&self) -> Option<TrialKey> {
        match self {
            Record::Sample(s) => Some(s.trial),
            Record::Failure(f) => Some(f.trial),
            Record::Evidence(e) => Some(e.trial),
            Record::Block(_) => None,
        }
    }

    /// The id of the cell that it names, if any.
    pub fn cell_mut(&mut self) -> Option<&mut String> {
        match self {
            Record::Sample(s) => Some(&mut s.cell),
            Record::Failure(f) => Some(&mut f.cell),
            Record::Evidence(e) => Some(&mut e.cell),
            Record::Block(_) => None,
        }
    }

    /// The sample of a timed trial, or why there is none; none at all where it was not timed.
    pub fn timed(self) -> Option<Result<Sample, Failure>> {
        match self {
            Record::Sample(s) => Some(Ok(s)),
            Record::Failure(f) => Some(Err(f)),
            Record::Evidence(_) | Record::Block(_) => None,
        }
    }
}
