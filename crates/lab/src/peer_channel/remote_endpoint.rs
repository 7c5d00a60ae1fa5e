//! An endpoint of the other host.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytecost_sys::clock;

use super::{LinkState, ToAgent};
use crate::protocol::{ObserverTask, Task, ToEndpoint};

/// The longest time for an answer to be written to the socket of its endpoint.
const WRITTEN_WITHIN: Duration = Duration::from_secs(1);

/// The part of a task that the other host gets.
fn elsewhere(task: &Task) -> Box<Task> {
    Box::new(Task {
        here: task.here.elsewhere(),
        ..task.clone()
    })
}

/// The endpoint; dropping it has it ended there.
pub(crate) struct RemoteEndpoint {
    id: u64,
    window_ns: u64,
    link: Arc<LinkState>,
}

impl RemoteEndpoint {
    /// An endpoint for a window of that length, which starts with its first order; and the socket of its
    /// answers.
    pub(crate) fn new(
        link: &Arc<LinkState>,
        window: Duration,
    ) -> io::Result<(RemoteEndpoint, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        theirs.set_write_timeout(Some(WRITTEN_WITHIN))?;
        let endpoint = RemoteEndpoint {
            id: link.next_id.fetch_add(1, Ordering::Relaxed),
            window_ns: window.as_nanos() as u64,
            link: Arc::clone(link),
        };
        link.begin(endpoint.id, theirs);
        Ok((endpoint, ours))
    }

    /// Sends an order; false when the other host is lost.
    pub(crate) fn order(&self, order: &ToEndpoint) -> bool {
        let id = self.id;
        if let ToEndpoint::Trial(_) = order {
            self.link.begin_trial(id);
        }
        let (is_first, order) = match order {
            ToEndpoint::Prepare(task) => (true, ToEndpoint::Prepare(elsewhere(task))),
            ToEndpoint::Observe(_) => (true, ToEndpoint::Observe(ObserverTask::default())),
            ToEndpoint::Trial(trial) => (false, ToEndpoint::Trial(Box::new(trial.elsewhere()))),
            other => (false, other.clone()),
        };
        let order = Box::new(order);
        self.link.send(if is_first {
            ToAgent::Start {
                id,
                window_ns: self.window_ns,
                order,
            }
        } else {
            ToAgent::To {
                id,
                now_ns: clock::monotonic_ns(),
                order,
            }
        })
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.link.why_down().is_none()
    }

    pub(crate) fn host(&self) -> &str {
        &self.link.name
    }

    pub(crate) fn why_gone(&self) -> String {
        let why = self.link.why_down();
        why.unwrap_or_else(|| format!("the endpoint on {} is gone", self.link.name))
    }
}

impl Drop for RemoteEndpoint {
    fn drop(&mut self) {
        self.link.end(self.id);
    }
}
