//! The background load of a trial: a process of the lab's own that keeps CPUs busy.

use std::slice;
use std::sync::atomic::AtomicBool;

use bytecost_spec::{Cell, Held, Host, Noise};
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
const MEMORY_BYTES: std::ops::RangeInclusive<u64> = 32 << 20..=256 << 20;

/// The process of the background load, which ends when this is dropped.
pub(crate) struct BackgroundProcess {
    end: Endpoint,
    what: BackgroundTask,
    pub(crate) held: Vec<Held>,
}

impl BackgroundProcess {
    /// A cell's background load, once its threads are busy; the former one where it does the same. It
    /// ends by itself after `most_ns`, or some minutes later where it is kept.
    pub(crate) fn beside(
        former: Option<BackgroundProcess>,
        program: &Program,
        cell: &Cell,
        cpus: Vec<u32>,
        host: &Host,
        most_ns: u64,
        stop: &AtomicBool,
    ) -> Result<Option<BackgroundProcess>, TrialError> {
        if cell.neighbour.is_idle() {
            return Ok(None);
        }
        let needed_ns = clock::monotonic_ns() + TIMEOUT_NS + most_ns;
        let noise = cell.neighbour.noise;
        let kept_ns = if noise == Noise::Awake { KEPT_NS } else { 0 };
        let what = BackgroundTask {
            noise,
            cpus,
            memory_bytes: memory_bytes(host),
            mem_node: cell.mem_node,
            until_ns: needed_ns + kept_ns,
        };
        let does_it = |former: &BackgroundProcess| {
            let until_ns = what.until_ns;
            let does = former.what.clone();
            does.until_ns >= needed_ns && BackgroundTask { until_ns, ..does } == what
        };
        if let Some(former) = former.filter(does_it) {
            return Ok(Some(former));
        }
        let mut end = Endpoint::start(program, Role::Background, None)?;
        end.order(&ToEndpoint::Background(what.clone()))?;
        match answer(&mut end, stop)? {
            FromEndpoint::Busy(held) => Ok(Some(BackgroundProcess { end, what, held })),
            other => Err(unexpected(Role::Background.name(), &other)),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        // It always plays on this host.
        self.end.local_pid().unwrap_or(0)
    }

    /// Ends it, unless it keeps CPUs awake: asleep between trials, the host could move them.
    pub(crate) fn trial_ended(
        mut self,
        stop: &AtomicBool,
    ) -> Result<Option<BackgroundProcess>, TrialError> {
        if self.what.noise == Noise::Awake {
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

/// Twice the largest cache, within bounds, so that it reaches memory and is soon ready.
fn memory_bytes(host: &Host) -> u64 {
    let largest = host.caches.iter().map(|c| c.size_bytes).max().unwrap_or(0);
    largest
        .saturating_mul(2)
        .clamp(*MEMORY_BYTES.start(), *MEMORY_BYTES.end())
}
