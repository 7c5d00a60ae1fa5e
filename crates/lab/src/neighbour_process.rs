//! A neighbour beside a trial: a process of the lab's own that keeps CPUs busy.

use std::slice;
use std::sync::atomic::AtomicBool;

use bytecost_spec::{Cell, Held, Host};
use bytecost_sys::clock;

use crate::endpoint_process::{Endpoint, TrialError, wait};
use crate::program::Program;
use crate::protocol::{Disturb, FromEndpoint, Role, ToEndpoint};

/// How long it may take to have its memory ready, and to end.
const PATIENCE_NS: u64 = 30_000_000_000;
/// The least and the most memory that it works on, in bytes.
const MEMORY_BYTES: std::ops::RangeInclusive<u64> = 32 << 20..=256 << 20;

/// The neighbour's process; ended when this is dropped.
pub(crate) struct NeighbourProcess {
    end: Endpoint,
}

impl NeighbourProcess {
    /// Starts a cell's neighbour, and waits until all its threads are busy; none where it has
    /// none. It ends by itself after `most_ns`, whatever happens here.
    ///
    /// # Errors
    /// What it says is wrong, or that it was told to stop.
    pub(crate) fn start(
        program: &Program,
        cell: &Cell,
        cpus: Vec<u32>,
        host: &Host,
        most_ns: u64,
        stop: &AtomicBool,
    ) -> Result<Option<NeighbourProcess>, TrialError> {
        if cell.neighbour.is_idle() {
            return Ok(None);
        }
        let mut end = Endpoint::start(program, Role::Neighbour, None)?;
        end.order(&ToEndpoint::Disturb(Disturb {
            noise: cell.neighbour.noise,
            cpus,
            memory_bytes: memory_bytes(host),
            mem_node: cell.mem_node,
            until_ns: clock::monotonic_ns() + PATIENCE_NS + most_ns,
        }))?;
        match answer(&mut end, stop)? {
            FromEndpoint::Ready => Ok(Some(NeighbourProcess { end })),
            other => Err(out_of_turn(&other)),
        }
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        // It always plays on this host.
        self.end.local_pid().unwrap_or(0)
    }

    /// Has it end, and says where its threads were held.
    ///
    /// # Errors
    /// That it ended before, or what it says went wrong.
    pub(crate) fn end(&mut self, stop: &AtomicBool) -> Result<Vec<Held>, TrialError> {
        self.end.order(&ToEndpoint::Stop)?;
        match answer(&mut self.end, stop)? {
            FromEndpoint::Done(done) => Ok(done.side.held),
            other => Err(out_of_turn(&other)),
        }
    }
}

fn answer(end: &mut Endpoint, stop: &AtomicBool) -> Result<FromEndpoint, TrialError> {
    let until_ns = clock::monotonic_ns() + PATIENCE_NS;
    Ok(wait(slice::from_mut(end), until_ns, stop)?.1)
}

fn out_of_turn(answer: &FromEndpoint) -> TrialError {
    TrialError::Failed(format!(
        "protocol error: unexpected message from the background load: {answer:?}"
    ))
}

/// Twice the largest cache, within bounds, so that it reaches memory without taking long to be
/// ready.
fn memory_bytes(host: &Host) -> u64 {
    let largest = host.caches.iter().map(|c| c.size_bytes).max().unwrap_or(0);
    largest
        .saturating_mul(2)
        .clamp(*MEMORY_BYTES.start(), *MEMORY_BYTES.end())
}
