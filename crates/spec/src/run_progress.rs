//! How far a run has come.

/// A run in a line; of one that cannot be read its name alone, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunProgress {
    /// Its name under the root.
    pub id: String,
    /// Its start, RFC 3339, UTC.
    pub started: String,
    /// Name of its study.
    pub study: String,
    /// Whole lines of its log.
    pub records: u64,
    /// How it stands, in words: whether a process appends to it now, how it ended, and whether it can
    /// be resumed.
    pub state: String,
}
