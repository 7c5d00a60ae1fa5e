//! The window of a trial, as the coordinator keeps it: it says when, and reads the machine and
//! the network at the edges.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytecost_engine::Mover;
use bytecost_meter::NetworkMeter;
use bytecost_spec::{Cell, Counter, Pattern, Reading, Readings};
use bytecost_sys::clock;

use crate::endpoint_process::{Endpoint, TrialError, wait, wait_until};
use crate::passes::Passes;
use crate::protocol::{Done, FromEndpoint, Schedule, ToEndpoint};
use crate::watch::Watch;
use crate::whole_machine::WholeMachine;

/// From the order to go to the first byte: both sides must have read it by then.
pub(crate) const LEAD_NS: u64 = 500_000;
/// How long a side may take for anything outside of its schedule.
pub(crate) const GRACE_NS: u64 = 10_000_000_000;
/// The longest warm-up of connections that still grow, in warm-ups of the study. Here, on loopback
/// and 2 CPUs, 1 of 280 connections still grew then.
const WARMUPS_MOST: u64 = 5;

/// Whether a cell's connections grow before a window by the clock: streams of TCP, whose buffers
/// the kernel sizes by what it sees of them.
pub(crate) fn may_grow(cell: &Cell) -> bool {
    let has_peer = Mover::named(&cell.mover).is_some_and(|m| m.has_peer());
    let streams = cell.transport.is_tcp() && cell.pattern == Pattern::Stream;
    has_peer && streams && Passes::of(cell).is_none()
}

/// How long things last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowTimes {
    /// Time before the window, at least.
    pub(crate) warmup: Duration,
    /// Whether the warm-up goes on until connections have stopped growing.
    pub(crate) until_steady: bool,
    /// The window's.
    pub(crate) window: Duration,
    /// How long a pass may take, in ns; 0 without passes.
    pub(crate) slowest_ns: u64,
}

impl WindowTimes {
    /// How long a trial may take from its first order on, in ns; for who must end by itself.
    pub(crate) fn most_ns(self) -> u64 {
        let windows = WARMUPS_MOST * self.warmup_ns() + 2 * self.window.as_nanos() as u64;
        windows + 2 * GRACE_NS + 8 * self.slowest_ns
    }

    fn warmup_ns(self) -> u64 {
        self.warmup.as_nanos() as u64
    }

    fn schedule(self) -> Schedule {
        let begin_ns = clock::monotonic_ns() + LEAD_NS;
        let window_from_ns = begin_ns + self.warmup_ns();
        let longest_ns = WARMUPS_MOST * self.warmup_ns();
        Schedule {
            begin_ns,
            window_from_ns,
            window_to_ns: window_from_ns + self.window.as_nanos() as u64,
            steady_by_ns: self.until_steady.then_some(begin_ns + longest_ns),
        }
    }
}

/// Waits until the connections of all sides have stopped growing, where the schedule says so, and
/// gives them another one with the window: that, and whether they have.
fn warmed_up(
    ends: &mut [Endpoint],
    schedule: Schedule,
    stop: &AtomicBool,
) -> Result<(Schedule, Option<bool>), TrialError> {
    let Some(by_ns) = schedule.steady_by_ns else {
        return Ok((schedule, None));
    };
    let mut all_steady = true;
    for _ in 0..ends.len() {
        match wait(ends, by_ns + GRACE_NS, stop)? {
            (_, FromEndpoint::Warm { steady }) => all_steady &= steady,
            (_, other) => return Err(out_of_turn(&other)),
        }
    }
    let window_ns = schedule.window_to_ns - schedule.window_from_ns;
    let window_from_ns = clock::monotonic_ns() + LEAD_NS;
    let schedule = Schedule {
        window_from_ns,
        window_to_ns: window_from_ns + window_ns,
        steady_by_ns: None,
        ..schedule
    };
    for end in ends {
        end.order(&ToEndpoint::Go(schedule))?;
    }
    Ok((schedule, Some(all_steady)))
}

/// Gives both sides the schedule, reads the machine and the network at its edges, and has them end.
pub(crate) fn by_clock(
    meter: &mut WholeMachine<'_>,
    ends: &mut [Endpoint],
    network: &NetworkMeter,
    span: WindowTimes,
    mut watch: Option<&mut Watch>,
    stop: &AtomicBool,
) -> Result<Readings, TrialError> {
    let schedule = span.schedule();
    for end in ends.iter_mut() {
        end.order(&ToEndpoint::Go(schedule))?;
    }
    let (schedule, steady) = warmed_up(ends, schedule, stop)?;
    if let Some(watch) = &mut watch {
        watch.schedule(&schedule);
    }
    let mut edges = Vec::with_capacity(2);
    let mut opened = None;
    let mut open = ends.len();
    for at_ns in [schedule.window_from_ns, schedule.window_to_ns] {
        if let (Some(watch), false) = (&mut watch, edges.is_empty()) {
            while let Some((_, early)) = watch.wait_until(ends, at_ns, stop)? {
                closed(&early, &mut open)?;
            }
        }
        // A side may be quicker to close its window than this process is to wake up.
        while let Some((_, early)) = wait_until(ends, at_ns, stop)? {
            closed(&early, &mut open)?;
        }
        let machine = if edges.is_empty() {
            meter.read_start()
        } else {
            meter.read_end()
        };
        edges.push(machine);
        opened.get_or_insert_with(|| network.read());
        match &mut watch {
            Some(watch) if edges.len() == 1 => watch.begin()?,
            Some(watch) => watch.end()?,
            None => {}
        }
    }
    let mut machine = meter.difference(&edges[0], &edges[1]);
    let warmup_ns = schedule.window_from_ns - schedule.begin_ns;
    let bounded = steady.map(|s| (Counter::WarmupBounded, Reading::Measured(u64::from(!s))));
    machine.insert(Counter::WarmupNs, Reading::Measured(warmup_ns));
    machine.extend(bounded);
    let deadline_ns = schedule.window_to_ns + GRACE_NS;
    while open > 0 {
        let (_, answer) = wait(ends, deadline_ns, stop)?;
        closed(&answer, &mut open)?;
    }
    // An exchange under way is finished first, and its packets belong to the flows' windows.
    if let Some(opened) = opened {
        machine.extend(network.difference(&opened, &network.read()));
    }
    // The sender's is the last; receivers end with their connections.
    if let Some(sender) = ends.last_mut() {
        sender.order(&ToEndpoint::Stop)?;
    }
    Ok(machine)
}

/// As [`by_clock`], where a window is a number of passes: the sender says when its warm-up is
/// over, and the window lasts until both sides have closed it.
pub(crate) fn by_passes(
    meter: &mut WholeMachine<'_>,
    ends: &mut [Endpoint],
    network: &NetworkMeter,
    span: WindowTimes,
    mut watch: Option<&mut Watch>,
    stop: &AtomicBool,
) -> Result<Readings, TrialError> {
    let schedule = span.schedule();
    for end in ends.iter_mut() {
        end.order(&ToEndpoint::Go(schedule))?;
    }
    let patience_ns = GRACE_NS + 2 * span.slowest_ns;
    match wait(ends, schedule.begin_ns + patience_ns, stop)? {
        (_, FromEndpoint::Opening) => {}
        (_, other) => return Err(out_of_turn(&other)),
    }
    if let Some(watch) = &mut watch {
        watch.begin()?;
    }
    ends.iter().for_each(Endpoint::window_opens);
    let (opened, before) = (meter.read_start(), network.read());
    if let Some(sender) = ends.last_mut() {
        sender.order(&ToEndpoint::Open)?;
    }
    let window_ns = span.window.as_nanos() as u64;
    let mut open = ends.len();
    while open > 0 {
        // Each pass has its time: the last one begins within the window.
        let deadline_ns = clock::monotonic_ns() + window_ns + patience_ns;
        let answer = match &mut watch {
            Some(watch) => watch.wait_until(ends, deadline_ns, stop)?,
            None => None,
        };
        let (_, answer) = match answer {
            Some(answer) => answer,
            None => wait(ends, deadline_ns, stop)?,
        };
        closed(&answer, &mut open)?;
    }
    let over = meter.read_end();
    if let Some(watch) = watch {
        watch.end()?;
    }
    let mut machine = meter.difference(&opened, &over);
    machine.extend(network.difference(&before, &network.read()));
    // The connections are over, so receivers wait for it as well.
    for end in ends.iter_mut() {
        end.order(&ToEndpoint::Stop)?;
    }
    Ok(machine)
}

/// What both sides bring back, once they were told to stop: the receiver's first, where there is
/// one.
pub(crate) fn brought_back(
    ends: &mut [Endpoint],
    stop: &AtomicBool,
) -> Result<Vec<Done>, TrialError> {
    let deadline_ns = clock::monotonic_ns() + GRACE_NS;
    let mut done: Vec<Option<Done>> = ends.iter().map(|_| None).collect();
    for _ in 0..ends.len() {
        match wait(ends, deadline_ns, stop)? {
            (i, FromEndpoint::Done(d)) => done[i] = Some(*d),
            (_, other) => return Err(out_of_turn(&other)),
        }
    }
    Ok(done.into_iter().flatten().collect())
}

/// Counts a side that has closed its window; nothing else may be said before all have.
fn closed(answer: &FromEndpoint, open: &mut usize) -> Result<(), TrialError> {
    match answer {
        FromEndpoint::Closed if *open > 0 => {
            *open -= 1;
            Ok(())
        }
        other => Err(out_of_turn(other)),
    }
}

pub(crate) fn out_of_turn(answer: &FromEndpoint) -> TrialError {
    TrialError::Failed(format!(
        "protocol error: unexpected message from the endpoint: {answer:?}"
    ))
}
