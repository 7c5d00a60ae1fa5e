//! How the command ends: every way out has its status.

use std::fmt;
use std::process::ExitCode;

/// What the shell gets to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All went well.
    Done,
    /// Something that was to be measured failed; the rest is kept.
    SomeFailed,
    /// Ended by Ctrl-C or SIGTERM; what was finished is kept.
    Interrupted,
}

impl Exit {
    /// The exit status.
    #[must_use]
    pub fn code(self) -> ExitCode {
        ExitCode::from(match self {
            Exit::Done => 0,
            Exit::SomeFailed => 1,
            Exit::Interrupted => 130,
        })
    }
}

/// A request that cannot be carried out: status 2.
#[derive(Debug)]
pub struct BadInput(pub String);

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

/// Told to end before there was anything to keep: status 130.
#[derive(Debug)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Makes an error one that is the caller's to mend.
pub fn bad_input(what: impl fmt::Display) -> anyhow::Error {
    BadInput(what.to_string()).into()
}
