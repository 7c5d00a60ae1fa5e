//! Reasons for a trial without a sample.

use std::ops::Not;
use std::{fmt, io};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The end of a trial without a sample.
#[derive(Debug, Error)]
pub(crate) enum TrialError {
    #[error("interrupted")]
    Interrupted,
    #[error("{0}")]
    Failed(TrialFailure),
}

/// The failure of a trial, as the side says it that it failed on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialFailure {
    /// The reason, with the remedy.
    pub reason: String,
    /// True if bytes were not the right ones.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub wrong_bytes: bool,
}

impl fmt::Display for TrialFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl TrialFailure {
    /// The same failure with another reason, made from the one that it has.
    pub(crate) fn map(self, reason: impl FnOnce(&str) -> String) -> TrialFailure {
        TrialFailure {
            reason: reason(&self.reason),
            ..self
        }
    }
}

impl From<String> for TrialFailure {
    fn from(reason: String) -> TrialFailure {
        TrialFailure {
            reason,
            wrong_bytes: false,
        }
    }
}

impl From<TrialError> for TrialFailure {
    fn from(error: TrialError) -> TrialFailure {
        match error {
            TrialError::Failed(failure) => failure,
            TrialError::Interrupted => error.to_string().into(),
        }
    }
}

impl TrialError {
    /// A failure for that reason.
    pub(crate) fn failed(reason: impl Into<String>) -> TrialError {
        TrialError::Failed(reason.into().into())
    }
}

impl From<io::Error> for TrialError {
    fn from(error: io::Error) -> TrialError {
        TrialError::failed(error.to_string())
    }
}
