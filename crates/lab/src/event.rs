//! What happens while a plan is carried out. Events go out; nothing comes back.

use bytecost_spec::{Record, TrialKey};

/// One thing that happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// A trial begins.
    TrialStarted {
        /// Which.
        trial: TrialKey,
    },
    /// A trial is over, well or not. To be kept at once: a later failure must not lose it.
    TrialEnded(Box<Record>),
    /// All cells of a block were tried: what else ran, and whether it is measured again. Kept, too.
    BlockEnded(Box<Record>),
}
