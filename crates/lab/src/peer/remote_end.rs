//! An endpoint of the other host, as its trial here knows it.

use std::path::PathBuf;
use std::sync::Arc;

use bytecost_spec::Readings;
use bytecost_sys::clock;

use super::channel::ToAgent;
use super::link_state::LinkState;
use crate::files::FileTask;
use crate::meters::Meters;
use crate::protocol::{Task, ToEndpoint};

/// The endpoint; dropping it has it ended there.
pub(crate) struct RemoteEnd {
    pub(super) id: u64,
    pub(super) link: Arc<LinkState>,
}

impl RemoteEnd {
    /// Tells it something. False when the other host is lost.
    pub(crate) fn order(&self, order: &ToEndpoint) -> bool {
        let order = match order {
            ToEndpoint::Prepare(task) => ToEndpoint::Prepare(Box::new(of_no_host(task))),
            other => other.clone(),
        };
        self.link.say(ToAgent::To {
            id: self.id,
            now_ns: clock::monotonic_ns(),
            order: Box::new(order),
        })
    }

    pub(crate) fn window_opens(&self) {
        self.link.say(ToAgent::Opens { id: self.id });
    }

    /// What the machine there did in the window, once the endpoint has said its last word.
    pub(crate) fn machine(&self) -> Readings {
        self.link.machine(self.id)
    }

    /// The other host, for words.
    pub(crate) fn host(&self) -> &str {
        &self.link.name
    }

    /// Why nothing comes from it any more.
    pub(crate) fn why_gone(&self) -> String {
        let why = self.link.why_down();
        why.unwrap_or_else(|| format!("the endpoint on {} is gone", self.link.name))
    }
}

impl Drop for RemoteEnd {
    fn drop(&mut self) {
        self.link.forget(self.id);
        self.link.say(ToAgent::End { id: self.id });
    }
}

/// A task without what is of this host alone: paths, CPUs, means of reading.
fn of_no_host(task: &Task) -> Task {
    Task {
        pins: Vec::new(),
        file: task.file.as_ref().map(|file| FileTask {
            path: PathBuf::new(),
            own: file.own,
            target: None,
        }),
        java: None,
        probed: Vec::new(),
        doors: Vec::new(),
        meters: Meters::default(),
        ..task.clone()
    }
}
