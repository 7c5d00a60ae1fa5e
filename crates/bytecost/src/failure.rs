//! How the command ends: every way out has its status.

use std::fmt;
use std::io::{self, Write};
use std::ops::{Bound, RangeBounds};
use std::panic::PanicHookInfo;
use std::process::ExitCode;
use std::time::Duration;

use bytecost_host::{Roots, limits};
use bytecost_spec::units;
use itertools::Itertools as _;

/// What the shell gets to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Done,
    /// Something that was to be measured failed; the rest is kept.
    SomeFailed,
    /// Ended by Ctrl-C or SIGTERM; what was finished is kept.
    Interrupted,
}

impl Exit {
    /// How a command ends that did all of its work, whether all of that went well or not.
    pub fn of(went_well: bool) -> Exit {
        match went_well {
            true => Exit::Done,
            false => Exit::SomeFailed,
        }
    }

    pub fn code(self) -> ExitCode {
        ExitCode::from(match self {
            Exit::Done => 0,
            // An interrupted run has no answer yet, as one whose cells failed. Only what a signal ends at
            // once has the status that a shell gives such a process.
            Exit::SomeFailed | Exit::Interrupted => 1,
        })
    }
}

/// Reports a panic in one line. A thread that the standard library could not start is a limit that
/// was met, and ends the command with its name.
pub fn report_panic(panic: &PanicHookInfo<'_>) {
    let payload = panic.payload();
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    let text = units::one_line(&text.unwrap_or_default());
    if text.contains("failed to spawn thread") {
        let why = limits::thread_refusal(&Roots::real());
        let _ = writeln!(io::stderr(), "error: {why}");
        std::process::exit(1);
    }
    let place = panic
        .location()
        .map_or_else(String::new, |at| format!(" at {at}"));
    let _ = writeln!(io::stderr(), "error: a defect of bytecost{place}: {text}");
}

/// A request that cannot be carried out: status 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadInput(String);

/// Standard output takes no more. One whose reader is gone is a success: the reader has what it wanted.
#[derive(Debug, thiserror::Error)]
#[error("standard output: {0}")]
pub struct OutputFailed(#[from] io::Error);

impl OutputFailed {
    /// Returns true where the reader has closed its pipe.
    pub fn is_reader_gone(&self) -> bool {
        self.0.kind() == io::ErrorKind::BrokenPipe
    }
}

/// Told to end before there was anything to keep: status 1.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Makes an error one that is the caller's to mend.
pub fn bad_input(what: impl fmt::Display) -> anyhow::Error {
    BadInput(what.to_string()).into()
}

/// There is no such thing of that name, and these there are.
pub fn unknown<'a>(
    thing: &str,
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> anyhow::Error {
    let known = known.into_iter().join(", ");
    bad_input(format!(
        "{thing} `{name}` is not known: choose from {known}"
    ))
}

/// Refuses a time that is out of bounds.
pub fn check_time(
    option: &str,
    time: Duration,
    bounds: impl RangeBounds<Duration>,
) -> anyhow::Result<()> {
    if bounds.contains(&time) {
        return Ok(());
    }
    let told = |bound: Bound<&Duration>| match bound {
        Bound::Included(time) | Bound::Excluded(time) => Some(units::duration(*time)),
        Bound::Unbounded => None,
    };
    let bounds = match (told(bounds.start_bound()), told(bounds.end_bound())) {
        (Some(least), Some(most)) => format!("{least} to {most}"),
        (Some(least), None) => format!("at least {least}"),
        (None, most) => format!("at most {}", most.unwrap_or_default()),
    };
    Err(bad_input(format!(
        "{option} `{}` is out of bounds: {bounds}",
        units::duration(time)
    )))
}
