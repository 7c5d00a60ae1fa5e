//! The errors of run directories: one line each, which ends with the remedy.

use std::io;
use std::path::{Path, PathBuf};

use bytecost_spec::manifest::FORMAT;

/// An error of a run directory. Its `Display` is one line with the remedy.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A name that is no run's name.
    #[error(
        "`{0}` is no name for a run: letters, digits, `-`, `_` and `.`, at most 128, not starting with `.` or `-`"
    )]
    BadId(String),
    /// A name that is taken.
    #[error("{} exists: choose another name, or continue it with --resume", .0.display())]
    Exists(PathBuf),
    /// No run of that name below that root.
    #[error("no run `{}` in {}: `bytecost runs` lists those that are there", .0, .1.display())]
    NoRun(String, PathBuf),
    /// A directory without a manifest.
    #[error(
        "{} has no manifest.json: it is no run, or one that was killed before its first trial; delete it, or name another",
        .0.display()
    )]
    NoManifest(PathBuf),
    /// A manifest or ending that cannot be read, with the reason.
    #[error("{} cannot be read: {}; restore it from a copy, or delete the run", .0.display(), .1)]
    Unreadable(PathBuf, String),
    /// A run of another version, with its format.
    #[error(
        "{}: this run was written by another version of bytecost (format {}, this one reads {}): use that version, or measure again",
        .0.display(), .1, FORMAT
    )]
    OtherFormat(PathBuf, u64),
    /// A file that is larger than any that bytecost writes, with the bound in bytes.
    #[error("{} is larger than {} bytes, which bytecost never writes: it is damaged, or no file of a run", .0.display(), .1)]
    TooLarge(PathBuf, u64),
    /// A line of the log that cannot be read, with others after it.
    #[error(
        "{}, line {line}: {why}; restore the file from a copy, or delete that line to do without its trial",
        path.display()
    )]
    BrokenLine {
        /// The log.
        path: PathBuf,
        /// Line, from 1.
        line: u64,
        /// The fault.
        why: String,
    },
    /// The first line of the history of rounds that is no round, from 1.
    #[error("{}, line {}: no round of a run; delete that line: until then no round is added", .0.display(), .1)]
    BrokenHistory(PathBuf, usize),
    /// A record too large for a line: its size and the bound, in bytes.
    #[error("a record of {0} bytes is more than a line of the log may have ({1})")]
    RecordTooLarge(usize, usize),
    /// Another process appends to the run.
    #[error("{}: another bytecost is writing to this run: wait until it has ended, or stop it", .0.display())]
    Locked(PathBuf),
    /// No space for a file, with the reason: `the disk is full`, or a quota or limit.
    #[error(
        "{}: {}; the finished trials are kept. Make room, then continue the run with --resume",
        .0.display(), .1
    )]
    Full(PathBuf, &'static str),
    /// A log of the greatest length, in bytes.
    #[error(
        "{} has {} bytes, which is all that a log may have: the finished trials are kept, and what is left needs a run of its own",
        .0.display(), .1
    )]
    LogFull(PathBuf, u64),
    /// A log whose last write could be neither completed nor undone.
    #[error(
        "{}: an earlier write failed and could not be taken back; --resume repairs the log of the run",
        .0.display()
    )]
    Spoilt(PathBuf),
    /// A name that an output cannot have.
    #[error(
        "`{0}` is no name for an output: a plain file name, not one of the run's own files, not starting with `.`"
    )]
    BadOutput(String),
    /// Something other than a regular file where a run has one: a link, a pipe.
    #[error("{} is no plain file: bytecost never makes that; remove it, or name another run", .0.display())]
    NoFile(PathBuf),
    /// A directory or file that another user can change, for root; with its owner.
    #[error(
        "{} belongs to user {} or is open to all, and root does not write there: call bytecost as that user or by sudo from it, or choose another with --runs-dir",
        .0.display(), .1
    )]
    OfAnother(PathBuf, u32),
    /// Any other error of the system.
    #[error("cannot {doing} {}: {why}", path.display())]
    Io {
        /// The operation.
        doing: &'static str,
        /// Its object.
        path: PathBuf,
        /// The error.
        why: io::Error,
    },
}

impl StoreError {
    /// The error without the remedy of a run.
    pub fn reason(&self) -> String {
        match self {
            StoreError::Full(path, why) => format!("{}: {why}", path.display()),
            StoreError::OfAnother(path, user) => format!(
                "{} belongs to user {user} or is open to all, and root does not write there",
                path.display()
            ),
            _ => self.to_string(),
        }
    }

    /// The error for an operation that the system refused: [`StoreError::Full`] if there is no space.
    pub(crate) fn io(doing: &'static str, path: &Path, why: impl Into<io::Error>) -> StoreError {
        let (path, why) = (path.to_owned(), why.into());
        match why.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::WriteZero => {
                StoreError::Full(path, "the disk is full")
            }
            io::ErrorKind::QuotaExceeded => StoreError::Full(path, "the disk quota is used up"),
            io::ErrorKind::FileTooLarge => {
                StoreError::Full(path, "the limit on file sizes is reached (`ulimit -f`)")
            }
            _ => StoreError::Io { doing, path, why },
        }
    }
}
