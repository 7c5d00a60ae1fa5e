//! The progress of a run, for lists of runs.

/// One line of a list of runs; a run that cannot be read has only its name and the error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunProgress {
    /// Its name below the root directory.
    pub id: String,
    /// Its start, RFC 3339, UTC.
    pub started: String,
    /// Name of its study.
    pub study: String,
    /// Number of complete lines of its log.
    pub records: u64,
    /// Its state in words: whether a process is appending to it, how it ended, whether it can be resumed.
    pub state: String,
}
