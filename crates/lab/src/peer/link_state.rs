//! What the threads of a link share: what is said over it, and who is told what comes.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};

use bytecost_spec::{Readings, units};

use super::channel::{FromAgent, Shift, ToAgent};
use crate::protocol::{self, FromEndpoint};

pub(crate) struct LinkState {
    /// What the other host is called in words: the command's own.
    pub(super) name: String,
    pub(super) say: mpsc::Sender<ToAgent>,
    pub(super) ends: Mutex<BTreeMap<u64, AnswersOf>>,
    pub(super) down: Mutex<Option<String>>,
}

/// Where what an endpoint says is written to, and what its machine did.
pub(super) struct AnswersOf {
    pub(super) to: UnixStream,
    pub(super) machine: Readings,
}

pub(super) fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LinkState {
    /// Says a word. False when nobody hears it any more.
    pub(super) fn say(&self, word: ToAgent) -> bool {
        held(&self.down).is_none() && self.say.send(word).is_ok()
    }

    pub(super) fn why_down(&self) -> Option<String> {
        held(&self.down).clone()
    }

    pub(super) fn machine(&self, id: u64) -> Readings {
        let mut ends = held(&self.ends);
        let end = ends.get_mut(&id);
        end.map(|end| std::mem::take(&mut end.machine))
            .unwrap_or_default()
    }

    pub(super) fn forget(&self, id: u64) {
        held(&self.ends).remove(&id);
    }

    /// Nothing more will come: all who wait are told by the end of their sockets.
    pub(super) fn goes_down(&self, why: String) {
        held(&self.down).get_or_insert(why);
        held(&self.ends).clear();
    }

    /// Passes on what an endpoint says, and gives back what is nobody's.
    pub(super) fn pass(&self, word: FromAgent) -> Option<FromAgent> {
        match word {
            FromAgent::Beat => None,
            FromAgent::From {
                id,
                now_ns,
                answer,
                machine,
            } => {
                let answer = Shift::heard_now(now_ns).answer(plain(*answer));
                if let Some(end) = held(&self.ends).get_mut(&id) {
                    end.machine.extend(machine);
                    // Who is gone is not waited for.
                    let _ = protocol::write(&mut end.to, &answer);
                }
                None
            }
            other => Some(other),
        }
    }
}

/// An answer without what is of its host alone, and with no line that ends where it should not.
fn plain(answer: FromEndpoint) -> FromEndpoint {
    match answer {
        FromEndpoint::Failed { reason } => FromEndpoint::Failed {
            reason: units::one_line(&reason),
        },
        FromEndpoint::Listening { address, .. } => FromEndpoint::Listening {
            address: units::one_line(&address),
            process: None,
        },
        other => other,
    }
}
