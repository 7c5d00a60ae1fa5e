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
    /// A trial is over, well or not. To be kept at once: a later failure must not lose it.
    TrialEnded(Box<Record>),
    /// All cells of a block were tried: what else ran, and whether it is measured again. Kept, too.
    BlockEnded(Box<Record>),
}
