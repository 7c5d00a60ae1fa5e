//! Events while a plan is carried out. Events go out; nothing comes back.

use bytecost_spec::{Record, TrialKey};

/// An event of a run.
#[derive(Clone, Debug)]
pub enum Event {
    /// A trial begins.
    TrialStarted {
        /// Its key.
        trial: TrialKey,
    },
    /// A trial is over, also if it failed. To be stored at once: a later failure must not lose it.
    TrialEnded(Box<Record>),
    /// All cells of a block were tried: the record has the CPU time of others, and says if it is measured
    /// again. To be stored, too.
    BlockEnded(Box<Record>),
}
