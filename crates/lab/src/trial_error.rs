//! Reasons for a trial without a sample.

use std::ops::Not;
use std::{fmt, io};

use bytecost_engine::WrongBytes;
use rustix::io::Errno;
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialFailure {
    /// The reason, with the remedy.
    pub reason: String,
    /// True if bytes were not the right ones.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub wrong_bytes: bool,
    /// True if memory, threads or processes were lacking, which other programs may free at any moment.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub lacks_resources: bool,
    /// True if the side failed as the other one had closed its connection.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub is_consequence: bool,
    /// The reason without the name of the side; none if no side, or more than one, has reported a cause.
    #[serde(skip)]
    pub side_reason: Option<String>,
}

impl fmt::Display for TrialFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl TrialFailure {
    /// The failure of a side by this error, with a reason that explains it.
    pub(crate) fn from_error(error: &io::Error, reason: String) -> TrialFailure {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        TrialFailure {
            reason,
            wrong_bytes: WrongBytes::is_in(error),
            lacks_resources: is_lacking(error),
            is_consequence: matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof),
            side_reason: None,
        }
    }

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
            ..TrialFailure::default()
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

    /// True if the same trial may succeed as soon as another program has freed memory, threads or processes.
    pub(crate) fn lacks_resources(&self) -> bool {
        matches!(self, TrialError::Failed(failure) if failure.lacks_resources)
    }
}

impl From<io::Error> for TrialError {
    fn from(error: io::Error) -> TrialError {
        TrialError::Failed(TrialFailure {
            reason: error.to_string(),
            lacks_resources: is_lacking(&error),
            ..TrialFailure::default()
        })
    }
}

/// Returns true for an error of lack of memory, threads or processes: other programs of the user count too
/// (RLIMIT_MEMLOCK, RLIMIT_NPROC), and the kernel frees the memory of a closed ring later.
pub(crate) fn is_lacking(error: &io::Error) -> bool {
    let is_errno = |errno| matches!(errno, Errno::NOMEM | Errno::NOBUFS | Errno::AGAIN);
    Errno::from_io_error(error).is_some_and(is_errno) || error.kind() == io::ErrorKind::WouldBlock
}
