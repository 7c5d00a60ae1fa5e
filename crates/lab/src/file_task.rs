//! The file of a side that works on one.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The file of a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileTask {
    /// The path at which it is opened.
    pub path: PathBuf,
    /// True if it is bytecost's own, so that its content is known.
    pub own: bool,
    /// The file that is written, bytecost's own, where there are two.
    pub target: Option<PathBuf>,
}

impl FileTask {
    /// A file of the other host, whose path is nobody's business here.
    pub(crate) fn elsewhere(own: bool) -> FileTask {
        let (path, target) = (PathBuf::new(), None);
        FileTask { path, own, target }
    }
}
