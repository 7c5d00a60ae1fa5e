//! What can go wrong with a run directory: one line each, ending in what to do.

use std::io;
use std::path::{Path, PathBuf};

/// What went wrong with a run directory.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A name that is no run's name.
    #[error(
        "`{0}` is no name for a run: letters, digits, `-`, `_` and `.`, at most 128, not starting with `.` or `-`"
    )]
    BadId(String),
    /// A start that no name can be made of.
    #[error("`{0}` is no start of a run: expected UTC like 2026-11-21T14:15:03Z")]
    BadStart(String),
    /// A name that is taken.
    #[error("{} exists: choose another name, or continue it with --resume", .0.display())]
    Exists(PathBuf),
    /// No such run.
    #[error("no run `{what}` in {}: `bytecost runs` lists those that are there", root.display())]
    NoRun {
        /// What was asked for.
        what: String,
        /// Where it was looked for.
        root: PathBuf,
    },
    /// A directory without a manifest.
    #[error(
        "{} has no manifest.json: it is no run, or one that was killed before its first trial; delete it, or name another",
        .0.display()
    )]
    NoManifest(PathBuf),
    /// A manifest or ending that cannot be read.
    #[error("{} cannot be read: {why}; restore it from a copy, or delete the run", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A run of a later version.
    #[error(
        "{}: this run was written by a newer bytecost (format {format}, this one reads up to {reads}): update bytecost",
        path.display()
    )]
    Newer {
        /// The run.
        path: PathBuf,
        /// Its format.
        format: u64,
        /// The newest format known here.
        reads: u32,
    },
    /// A file that is larger than anything that bytecost writes.
    #[error("{} is larger than {most} bytes, which bytecost never writes: it is damaged, or no file of a run", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The bound.
        most: u64,
    },
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
        /// What is wrong with it.
        why: String,
    },
    /// A record too large for a line.
    #[error("a record of {bytes} bytes is more than a line of the log may have ({most})")]
    RecordTooLarge {
        /// Its size.
        bytes: usize,
        /// The bound.
        most: usize,
    },
    /// Another process appends to the run.
    #[error("{}: another bytecost is writing to this run: wait until it has ended, or stop it", .0.display())]
    Locked(PathBuf),
    /// No room left, for the reason told.
    #[error(
        "{}: {what}; the finished trials are kept. Make room, then continue with `bytecost run --resume`",
        path.display()
    )]
    Full {
        /// What could not be written.
        path: PathBuf,
        /// `the disk is full`, or which quota or limit.
        what: &'static str,
    },
    /// A log whose last write could be neither finished nor taken back.
    #[error(
        "{}: an earlier write failed and could not be taken back; `bytecost run --resume` repairs the log",
        .0.display()
    )]
    Spoilt(PathBuf),
    /// An output that may not be written under that name.
    #[error(
        "`{0}` is no name for an output: a plain file name, not one of the run's own files, not starting with `.`"
    )]
    BadOutput(String),
    /// Something else than a plain file where a run has one: a link, a pipe.
    #[error("{} is no plain file: bytecost never makes that; remove it, or name another run", .0.display())]
    NoFile(PathBuf),
    /// A directory that somebody else can change, for root.
    #[error(
        "{} belongs to user {owner} or is open to all, and root does not write there: call bytecost as that user or by sudo from it, or choose another with --runs-dir",
        path.display()
    )]
    OfAnother {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
    },
    /// Anything else that the system refused.
    #[error("cannot {doing} {}: {why}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        why: io::Error,
    },
}

impl StoreError {
    /// The error for a system's answer: [`StoreError::Full`] where there is no room.
    pub(crate) fn io(doing: &'static str, path: &Path, why: io::Error) -> StoreError {
        let what = match why.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::WriteZero => "the disk is full",
            io::ErrorKind::QuotaExceeded => "the disk quota is used up",
            io::ErrorKind::FileTooLarge => "the limit on file sizes is reached (`ulimit -f`)",
            _ => {
                return StoreError::Io {
                    doing,
                    path: path.to_owned(),
                    why,
                };
            }
        };
        StoreError::Full {
            path: path.to_owned(),
            what,
        }
    }
}
