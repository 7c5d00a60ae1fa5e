//! Events while trials are made.

use bytecost_spec::{Record, TrialKey};

/// The start or the end of a trial.
#[derive(Clone, Debug)]
pub enum Event {
    /// A trial begins.
    TrialStarted {
        /// Its key.
        trial: TrialKey,
    },
    /// A trial is over, also if it failed. To be stored at once: a later failure must not lose it.
    TrialEnded(Box<Record>),
}
