//! Exit statuses of the command, and its errors.

use std::fmt;
use std::io::{self, Write};
use std::ops::{Bound, RangeBounds};
use std::panic::PanicHookInfo;
use std::process::ExitCode;
use std::time::Duration;

use bytecost_host::{Roots, limits};
use bytecost_spec::units;
use itertools::Itertools as _;

/// The end of a command that had no error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Done,
    /// Part of the work failed, such as trials of a run; the results of the other part are stored.
    SomeFailed,
    /// Ctrl-C or SIGTERM ended it; trials that were over are stored.
    Interrupted,
}

impl Exit {
    /// `Done` if all parts of the work succeeded, else `SomeFailed`.
    pub fn from_success(all_succeeded: bool) -> Exit {
        if all_succeeded {
            Exit::Done
        } else {
            Exit::SomeFailed
        }
    }

    pub fn code(self) -> ExitCode {
        ExitCode::from(match self {
            Exit::Done => 0,
            // An interrupted run has no answer yet, like one whose cells failed. The status 130 of
            // shells is for a process that a second signal ends at once.
            Exit::SomeFailed | Exit::Interrupted => 1,
        })
    }
}

/// Reports a panic in one line. If the standard library could not start a thread, it names the limit
/// that was reached and ends the command.
pub fn report_panic(panic: &PanicHookInfo<'_>) {
    let payload = panic.payload();
    let message = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    let message = units::one_line(&message);
    if message.contains("failed to spawn thread") {
        let why = limits::thread_refusal(&Roots::real());
        let _ = writeln!(io::stderr(), "error: {why}");
        std::process::exit(1);
    }
    let place = panic
        .location()
        .map_or_else(String::new, |at| format!(" at {at}"));
    let _ = writeln!(
        io::stderr(),
        "error: a defect of bytecost{place}: {message}"
    );
}

/// A request that cannot be carried out: status 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadInput(String);

/// A write to standard output that failed: a success if its reader closed the pipe, as head(1) does.
#[derive(Debug, thiserror::Error)]
#[error("standard output: {0}")]
pub struct OutputFailed(#[from] io::Error);

impl OutputFailed {
    /// Returns true where the reader has closed its pipe.
    pub fn is_reader_gone(&self) -> bool {
        self.0.kind() == io::ErrorKind::BrokenPipe
    }
}

/// A signal that came before there was a run to store: status 1.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// An error that the user can mend, by another option or another file.
pub fn bad_input(reason: impl fmt::Display) -> anyhow::Error {
    BadInput(reason.to_string()).into()
}

/// The error for a name that no `thing` has, with all names that there are.
pub fn unknown<'a>(
    thing: &str,
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> anyhow::Error {
    let choices = known.into_iter().join(", ");
    bad_input(format!(
        "{thing} `{name}` is not known: choose from {choices}"
    ))
}

/// Refuses the value of a time option that is out of bounds.
pub fn check_time(
    option: &str,
    time: Duration,
    bounds: impl RangeBounds<Duration>,
) -> anyhow::Result<()> {
    if bounds.contains(&time) {
        return Ok(());
    }
    let limit = |bound: Bound<&Duration>| match bound {
        Bound::Included(edge) | Bound::Excluded(edge) => Some(units::duration(*edge)),
        Bound::Unbounded => None,
    };
    let range = match (limit(bounds.start_bound()), limit(bounds.end_bound())) {
        (Some(min), Some(max)) => format!("{min} to {max}"),
        (Some(min), None) => format!("at least {min}"),
        (None, max) => format!("at most {}", max.unwrap_or_default()),
    };
    Err(bad_input(format!(
        "{option} `{}` is out of bounds: {range}",
        units::duration(time)
    )))
}
