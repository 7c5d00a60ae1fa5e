//! An endpoint of the other host, and what all of them share with the threads of the link.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use bytecost_spec::host::Obstacle;
use bytecost_spec::{Readings, units};
use bytecost_sys::clock;

use super::channel::{FromAgent, Shift, ToAgent};
use crate::protocol::{self, FromEndpoint, Task, ToEndpoint};

/// The most obstacles that are kept of one answer.
const MOST_OBSTACLES: usize = 16;

#[derive(Debug)]
pub(crate) struct LinkState {
    /// What the other host is called in words: the command's own.
    pub(super) name: String,
    pub(super) say: mpsc::Sender<ToAgent>,
    pub(super) ends: Mutex<BTreeMap<u64, AnswersOf>>,
    pub(super) down: Mutex<Option<String>>,
    /// The first line of what came in place of the agent's first word.
    pub(super) printed: Mutex<Option<String>>,
}

/// Where what an endpoint says is written to, and what its machine did.
#[derive(Debug)]
pub(super) struct AnswersOf {
    pub(super) to: UnixStream,
    pub(super) machine: Readings,
    pub(super) obstacles: Vec<Obstacle>,
}

pub(super) fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LinkState {
    /// False when nobody hears it any more.
    pub(super) fn say(&self, word: ToAgent) -> bool {
        held(&self.down).is_none() && self.say.send(word).is_ok()
    }

    pub(super) fn why_down(&self) -> Option<String> {
        held(&self.down).clone()
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
                obstacles,
            } => {
                let answer = Shift::heard_now(now_ns).answer(plain(*answer));
                if let Some(end) = held(&self.ends).get_mut(&id) {
                    end.machine.extend(machine);
                    let named = obstacles.into_iter().take(MOST_OBSTACLES);
                    let there = named.map(|obstacle| Obstacle {
                        place: units::one_line(&obstacle.place),
                        found: units::one_line(&obstacle.found),
                        ..obstacle
                    });
                    end.obstacles.extend(there);
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
        FromEndpoint::Failed(reason) => FromEndpoint::Failed(units::one_line(&reason)),
        FromEndpoint::Listening { address, .. } => FromEndpoint::Listening {
            address: units::one_line(&address),
            process: None,
        },
        other => other,
    }
}

/// The endpoint; dropping it has it ended there.
pub(crate) struct RemoteEnd {
    pub(super) id: u64,
    pub(super) window_ns: u64,
    pub(super) link: Arc<LinkState>,
}

impl RemoteEnd {
    /// False when the other host is lost.
    pub(crate) fn order(&self, order: &ToEndpoint) -> bool {
        let id = self.id;
        self.link.say(match order {
            ToEndpoint::Prepare(task) => ToAgent::Start {
                id,
                window_ns: self.window_ns,
                task: Box::new(Task {
                    here: task.here.elsewhere(),
                    ..Task::clone(task)
                }),
            },
            other => ToAgent::To {
                id,
                now_ns: clock::monotonic_ns(),
                order: Box::new(other.clone()),
            },
        })
    }

    pub(crate) fn window_opens(&self) {
        self.link.say(ToAgent::Opens { id: self.id });
    }

    /// What the machine there did in the window, once the endpoint has said its last word.
    pub(crate) fn machine(&self) -> Readings {
        let mut ends = held(&self.link.ends);
        let end = ends.get_mut(&self.id);
        end.map(|end| std::mem::take(&mut end.machine))
            .unwrap_or_default()
    }

    /// What was in the way on the card there, once the endpoint has said its last word.
    pub(crate) fn obstacles(&self) -> Vec<Obstacle> {
        let mut ends = held(&self.link.ends);
        let end = ends.get_mut(&self.id);
        end.map(|end| std::mem::take(&mut end.obstacles))
            .unwrap_or_default()
    }

    pub(crate) fn host(&self) -> &str {
        &self.link.name
    }

    pub(crate) fn why_gone(&self) -> String {
        let why = self.link.why_down();
        why.unwrap_or_else(|| format!("the endpoint on {} is gone", self.link.name))
    }
}

impl Drop for RemoteEnd {
    fn drop(&mut self) {
        held(&self.link.ends).remove(&self.id);
        self.link.say(ToAgent::End { id: self.id });
    }
}
