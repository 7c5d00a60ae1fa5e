//! The background load of a trial: a process of the lab's own that keeps CPUs busy.

use std::slice;
use std::sync::atomic::AtomicBool;

use bytecost_spec::{Cell, Held, Host, LoadKind};
use bytecost_sys::clock;

use crate::endpoint_process::{Endpoint, all_ended, unexpected, wait};
use crate::program::Program;
use crate::protocol::{BackgroundTask, FromEndpoint, Role, ToEndpoint};
use crate::trial_error::TrialError;

/// The longest time until its memory is ready, and until it ends, in ns.
const TIMEOUT_NS: u64 = 30_000_000_000;
/// The time for which a load that keeps CPUs awake stays for later trials, in ns.
const KEPT_NS: u64 = 600_000_000_000;
/// The least and the most memory that it works on, in bytes.
const MEMORY_BYTES: (u64, u64) = (32 << 20, 256 << 20);

pub(crate) struct BackgroundLoad {
    task: BackgroundTask,
    /// The time until which it is needed, in ns of CLOCK_MONOTONIC.
    needed_ns: u64,
}

impl BackgroundLoad {
    /// The load of a cell on these CPUs, for a trial of `most_ns` at most; none for a cell without one.
    /// It ends by itself after that, and some minutes later where it is kept for other trials.
    pub(crate) fn new(
        cell: &Cell,
        cpus: Vec<u32>,
        host: &Host,
        most_ns: u64,
    ) -> Option<BackgroundLoad> {
        let noise = cell.neighbour.noise;
        let needed_ns = clock::monotonic_ns() + TIMEOUT_NS + most_ns;
        let kept_ns = if noise == LoadKind::Awake { KEPT_NS } else { 0 };
        // Twice the largest cache, within bounds, so that it reaches memory and is soon ready.
        let largest = host.caches.iter().map(|c| c.size_bytes).max().unwrap_or(0);
        let (least, most) = MEMORY_BYTES;
        (!cell.neighbour.is_idle()).then(|| BackgroundLoad {
            task: BackgroundTask {
                noise,
                cpus,
                memory_bytes: largest.saturating_mul(2).clamp(least, most),
                mem_node: cell.mem_node,
                until_ns: needed_ns + kept_ns,
            },
            needed_ns,
        })
    }

    /// Starts its process, which has busy threads then; the former one where that has the same load.
    pub(crate) fn start(
        self,
        former: Option<BackgroundProcess>,
        program: &Program,
        stop: &AtomicBool,
    ) -> Result<BackgroundProcess, TrialError> {
        let BackgroundLoad { task, needed_ns } = self;
        let is_same = |running: &BackgroundProcess| {
            let until_ns = running.task.until_ns;
            until_ns >= needed_ns
                && BackgroundTask {
                    until_ns,
                    ..task.clone()
                } == running.task
        };
        if let Some(former) = former.filter(is_same) {
            return Ok(former);
        }
        let mut end = Endpoint::start(program, Role::Background, None)?;
        end.order(&ToEndpoint::Background(task.clone()))?;
        match answer(&mut end, stop)? {
            FromEndpoint::Busy(held) => Ok(BackgroundProcess { end, task, held }),
            other => Err(unexpected(Role::Background.name(), &other)),
        }
    }
}

/// The process of the background load, which ends when this is dropped.
pub(crate) struct BackgroundProcess {
    end: Endpoint,
    task: BackgroundTask,
    pub(crate) held: Vec<Held>,
}

impl BackgroundProcess {
    pub(crate) fn pid(&self) -> u32 {
        // It always plays on this host.
        self.end.local_pid().unwrap_or(0)
    }

    /// Ends it, unless it keeps CPUs awake: asleep between trials, the host could move them.
    pub(crate) fn trial_ended(
        mut self,
        stop: &AtomicBool,
    ) -> Result<Option<BackgroundProcess>, TrialError> {
        if self.task.noise == LoadKind::Awake {
            return self.end.check_alive().map(|()| Some(self));
        }
        self.end.order(&ToEndpoint::Stop)?;
        match answer(&mut self.end, stop)? {
            FromEndpoint::Done(_) => all_ended(vec![self.end], stop).map(|()| None),
            other => Err(unexpected(Role::Background.name(), &other)),
        }
    }
}

fn answer(end: &mut Endpoint, stop: &AtomicBool) -> Result<FromEndpoint, TrialError> {
    let until_ns = clock::monotonic_ns() + TIMEOUT_NS;
    Ok(wait(slice::from_mut(end), until_ns, stop)?.1)
}
