//! Reasons for a trial without a sample.

use std::io;

use thiserror::Error;

/// The end of a trial without a sample.
#[derive(Debug, Error)]
pub(crate) enum TrialError {
    #[error("interrupted")]
    Interrupted,
    #[error("{0}")]
    Failed(String),
}

impl From<io::Error> for TrialError {
    fn from(error: io::Error) -> TrialError {
        TrialError::Failed(error.to_string())
    }
}
