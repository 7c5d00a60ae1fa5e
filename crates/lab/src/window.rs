//! A trial's window as the coordinator keeps it, with machine and network read at its edges.

use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytecost_meter::{NetworkMeter, NetworkSnapshot};
use bytecost_spec::{Counter, Reading, Readings};
use bytecost_sys::clock;

use crate::endpoint_process::{Endpoint, wait, wait_until};
use crate::protocol::{Done, FromEndpoint, Schedule, ToEndpoint};
use crate::trial_error::TrialError;
use crate::watch::Watch;
use crate::whole_machine::{MachineEdge, WholeMachine};

/// From the order to go to the first byte: both sides must have read it by then.
pub(crate) const LEAD_NS: u64 = 500_000;
/// The same where counters are set meanwhile, by a coordinator that may wait for a CPU.
const WATCHED_LEAD_NS: u64 = 10_000_000;
/// How long behind an edge of a window the machine is read: as a rule the sides have read their own
/// clocks by then, which brings the kernel's account of a thread that runs on up to date. Where they
/// come after the machine at one edge and before it at the other, up to a tick is too much.
const BEHIND_EDGE_NS: u64 = 250_000;
/// How long a side may take for anything outside of its schedule.
pub(crate) const GRACE_NS: u64 = 10_000_000_000;
/// In the study's warm-ups. Here, on loopback and 2 CPUs, 1 of 280 connections still grew then.
const WARMUPS_MOST: u64 = 5;

#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowTimes {
    /// Time before the window, at least.
    pub(crate) warmup: Duration,
    /// Whether the warm-up goes on until connections have stopped growing.
    pub(crate) until_steady: bool,
    pub(crate) window: Duration,
    /// How long a pass may take, in ns; 0 without passes.
    pub(crate) slowest_ns: u64,
    /// Passes before the window.
    pub(crate) warmup_passes: u64,
    /// How long a call of a side's may go without progress, in ns.
    pub(crate) patience_ns: u64,
}

impl WindowTimes {
    /// How long a trial may take from its first order on, in ns; for who must end by itself.
    pub(crate) fn most_ns(self) -> u64 {
        let windows = WARMUPS_MOST * self.warmup_ns() + 2 * self.window.as_nanos() as u64;
        windows + 2 * (GRACE_NS + self.patience_ns) + (7 + self.warmup_passes) * self.slowest_ns
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

/// What is said in a trial whose sides are ready: to them, and by them.
pub(crate) struct Talk<'t> {
    pub(crate) ends: &'t mut [Endpoint],
    pub(crate) watch: Option<&'t mut Watch>,
    stop: &'t AtomicBool,
    /// As in [`WindowTimes`].
    patience_ns: u64,
    closed: Vec<bool>,
    done: Vec<Option<Done>>,
    /// Whether the samplers have to be looked after.
    is_watched: bool,
}

impl<'t> Talk<'t> {
    pub(crate) fn new(
        ends: &'t mut [Endpoint],
        watch: Option<&'t mut Watch>,
        stop: &'t AtomicBool,
        patience_ns: u64,
    ) -> Talk<'t> {
        Talk {
            closed: vec![false; ends.len()],
            done: ends.iter().map(|_| None).collect(),
            ends,
            watch,
            stop,
            patience_ns,
            is_watched: false,
        }
    }

    fn order(&mut self, order: &ToEndpoint) -> Result<(), TrialError> {
        self.ends.iter_mut().try_for_each(|end| end.order(order))
    }

    /// Gives the sender an order, who is the last; a receiver goes by the connection.
    fn order_sender(&mut self, order: &ToEndpoint) -> Result<(), TrialError> {
        let mut sender = self.ends.last_mut().into_iter();
        sender.try_for_each(|end| end.order(order))
    }

    pub(crate) fn next(&mut self, deadline_ns: u64) -> Result<(usize, FromEndpoint), TrialError> {
        wait(self.ends, deadline_ns, self.stop)
    }

    pub(crate) fn until(&mut self, at_ns: u64) -> Result<(), TrialError> {
        while self.hear(at_ns)? {}
        Ok(())
    }

    fn until_so(
        &mut self,
        is_so: impl Fn(&Talk<'_>) -> bool,
        deadline_ns: impl Fn() -> u64,
    ) -> Result<(), TrialError> {
        while !is_so(self) {
            let by_ns = deadline_ns();
            if !self.hear(by_ns)? {
                let (end, answer) = self.next(by_ns)?;
                self.take(end, answer)?;
            }
        }
        Ok(())
    }

    fn hear(&mut self, until_ns: u64) -> Result<bool, TrialError> {
        let heard = match &mut self.watch {
            Some(watch) if self.is_watched => watch.wait_until(self.ends, until_ns, self.stop)?,
            _ => wait_until(self.ends, until_ns, self.stop)?,
        };
        let Some((end, answer)) = heard else {
            return Ok(false);
        };
        self.take(end, answer).map(|()| true)
    }

    /// A side closes its window once, and is done after that; nothing else may be said.
    fn take(&mut self, end: usize, answer: FromEndpoint) -> Result<(), TrialError> {
        match answer {
            FromEndpoint::Closed if !self.closed[end] => self.closed[end] = true,
            FromEndpoint::Done(done) if self.closed[end] => self.done[end] = Some(*done),
            other => return Err(out_of_turn(&other)),
        }
        Ok(())
    }

    fn until_all_closed(&mut self, deadline_ns: impl Fn() -> u64) -> Result<(), TrialError> {
        self.until_so(|talk| talk.closed.iter().all(|closed| *closed), deadline_ns)
    }

    pub(crate) fn done(&mut self, end: usize, deadline_ns: u64) -> Result<(), TrialError> {
        self.until_so(|talk| talk.done[end].is_some(), || deadline_ns)
    }

    /// What the sides bring back, once they were told to stop: the receiver's first.
    pub(crate) fn brought_back(mut self) -> Result<Vec<Done>, TrialError> {
        let deadline_ns = clock::monotonic_ns() + self.patience_ns + GRACE_NS;
        self.until_so(|talk| talk.done.iter().all(Option::is_some), || deadline_ns)?;
        Ok(self.done.into_iter().flatten().collect())
    }

    /// Waits until the connections of all sides have stopped growing, where the schedule says so,
    /// and gives them another one with the window: that, and whether they have.
    fn warmed_up(&mut self, schedule: Schedule) -> Result<(Schedule, Option<bool>), TrialError> {
        let Some(by_ns) = schedule.steady_by_ns else {
            return Ok((schedule, None));
        };
        let mut all_steady = true;
        for _ in 0..self.ends.len() {
            match self.next(by_ns + GRACE_NS)? {
                (_, FromEndpoint::Warm(steady)) => all_steady &= steady,
                (_, other) => return Err(out_of_turn(&other)),
            }
        }
        let window_ns = schedule.window_to_ns - schedule.window_from_ns;
        let lead_ns = self.watch.as_ref().map_or(LEAD_NS, |_| WATCHED_LEAD_NS);
        let window_from_ns = clock::monotonic_ns() + lead_ns;
        let schedule = Schedule {
            window_from_ns,
            window_to_ns: window_from_ns + window_ns,
            steady_by_ns: None,
            ..schedule
        };
        self.order(&ToEndpoint::Go(schedule))?;
        Ok((schedule, Some(all_steady)))
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Edges {
    By(Schedule),
    /// As soon as the sender is told, until all have closed it: each word may take so long.
    Passes {
        each_ns: u64,
    },
}

/// When the machine is read in a window by the clock. Processes that end with their connections as
/// soon as it is over (`ends_there`) have no clocks after that.
pub(crate) fn machine_edges_ns(schedule: &Schedule, ends_there: bool) -> Range<u64> {
    let behind_ns = if ends_there { 0 } else { BEHIND_EDGE_NS };
    schedule.window_from_ns + behind_ns..schedule.window_to_ns + behind_ns
}

/// A window that is to open. Its states follow each other: open, closed, over.
pub(crate) struct UpcomingWindow<'w, 'm> {
    pub(crate) around: &'w mut WholeMachine<'m>,
    pub(crate) network: &'w NetworkMeter,
    pub(crate) edges: Edges,
    /// Whether connections, and processes with them, end with the window.
    pub(crate) ends_there: bool,
}

/// A window whose first edge was read.
struct OpenWindow<'w, 'm> {
    window: UpcomingWindow<'w, 'm>,
    packets: NetworkSnapshot,
    machine: MachineEdge,
}

/// A window whose two edges were read, while sides may not have closed it yet.
struct ClosedWindow<'w, 'm> {
    open: OpenWindow<'w, 'm>,
    machine: MachineEdge,
    /// The network, where connections have ended with the window.
    packets: Option<NetworkSnapshot>,
}

impl<'w, 'm> UpcomingWindow<'w, 'm> {
    /// Carries it out: what machine and network did between its edges.
    pub(crate) fn readings(self, talk: &mut Talk<'_>) -> Result<Readings, TrialError> {
        self.wait_for_open(talk)?
            .wait_for_close(talk)?
            .readings(talk)
    }

    fn wait_for_open(self, talk: &mut Talk<'_>) -> Result<OpenWindow<'w, 'm>, TrialError> {
        if let Edges::By(schedule) = self.edges {
            talk.until(schedule.window_from_ns)?;
        }
        let packets = self.network.read();
        if let Edges::By(schedule) = self.edges {
            talk.until(machine_edges_ns(&schedule, self.ends_there).start)?;
        }
        let machine = self.around.read_start();
        if let Some(watch) = &mut talk.watch {
            watch.begin()?;
            talk.is_watched = true;
        }
        Ok(OpenWindow {
            window: self,
            packets,
            machine,
        })
    }
}

impl<'w, 'm> OpenWindow<'w, 'm> {
    fn wait_for_close(self, talk: &mut Talk<'_>) -> Result<ClosedWindow<'w, 'm>, TrialError> {
        match self.window.edges {
            Edges::By(schedule) => {
                talk.until(machine_edges_ns(&schedule, self.window.ends_there).end)?;
            }
            Edges::Passes { each_ns } => {
                talk.order_sender(&ToEndpoint::Open)?;
                talk.until_all_closed(|| clock::monotonic_ns() + each_ns)?;
            }
        }
        let machine = self.window.around.read_end();
        let packets = (self.window.ends_there).then(|| self.window.network.read());
        if let Some(watch) = &mut talk.watch {
            watch.end()?;
            talk.is_watched = false;
        }
        Ok(ClosedWindow {
            open: self,
            machine,
            packets,
        })
    }
}

impl ClosedWindow<'_, '_> {
    /// Waits until all sides have closed it: an exchange is finished first, whose packets are in
    /// the windows of flows, unless connections have ended.
    fn readings(self, talk: &mut Talk<'_>) -> Result<Readings, TrialError> {
        let UpcomingWindow {
            around, network, ..
        } = self.open.window;
        let mut readings = around.difference(&self.open.machine, &self.machine);
        let deadline_ns = clock::monotonic_ns() + talk.patience_ns + GRACE_NS;
        talk.until_all_closed(|| deadline_ns)?;
        let after = self.packets.unwrap_or_else(|| network.read());
        readings.extend(network.difference(&self.open.packets, &after));
        Ok(readings)
    }
}

/// Gives both sides the schedule, carries out the window, and has them end.
pub(crate) fn by_clock(
    around: &mut WholeMachine<'_>,
    talk: &mut Talk<'_>,
    network: &NetworkMeter,
    span: WindowTimes,
) -> Result<Readings, TrialError> {
    let schedule = span.schedule();
    talk.order(&ToEndpoint::Go(schedule))?;
    let (schedule, steady) = talk.warmed_up(schedule)?;
    if let Some(watch) = &mut talk.watch {
        watch.schedule(&schedule)?;
    }
    let window = UpcomingWindow {
        around,
        network,
        edges: Edges::By(schedule),
        ends_there: false,
    };
    let mut machine = window.readings(talk)?;
    let warmup_ns = schedule.window_from_ns - schedule.begin_ns;
    let bounded = steady.map(|s| (Counter::WarmupBounded, Reading::Measured(u64::from(!s))));
    machine.insert(Counter::WarmupNs, Reading::Measured(warmup_ns));
    machine.extend(bounded);
    // Receivers end with their connections.
    talk.order_sender(&ToEndpoint::Stop)?;
    Ok(machine)
}

/// As [`by_clock`], where a window is a number of passes: the sides say when, and close it.
pub(crate) fn by_passes(
    around: &mut WholeMachine<'_>,
    talk: &mut Talk<'_>,
    network: &NetworkMeter,
    span: WindowTimes,
) -> Result<Readings, TrialError> {
    let schedule = span.schedule();
    talk.order(&ToEndpoint::Go(schedule))?;
    let patience_ns = GRACE_NS + span.patience_ns + 2 * span.slowest_ns;
    // A mover whose program compiles itself has many of them, each of which may be slow.
    let warmup_ns = span.warmup_passes * span.slowest_ns;
    for _ in 0..talk.ends.len() {
        match talk.next(schedule.begin_ns + warmup_ns + patience_ns)? {
            (_, FromEndpoint::Opening) => {}
            (_, other) => return Err(out_of_turn(&other)),
        }
    }
    talk.ends.iter().for_each(Endpoint::window_opens);
    // Each pass has its time: the last one begins within the window.
    let each_ns = span.window.as_nanos() as u64 + patience_ns;
    let window = UpcomingWindow {
        around,
        network,
        edges: Edges::Passes { each_ns },
        ends_there: false,
    };
    let machine = window.readings(talk)?;
    // The connections are over, so receivers wait for it as well.
    talk.order(&ToEndpoint::Stop)?;
    Ok(machine)
}

pub(crate) fn out_of_turn(answer: &FromEndpoint) -> TrialError {
    TrialError::Failed(format!(
        "protocol error: unexpected message from the endpoint: {answer:?}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_read_behind_both_edges_alike_unless_processes_end_there() {
        let schedule = Schedule {
            begin_ns: 0,
            window_from_ns: 10_000_000,
            window_to_ns: 30_000_000,
            steady_by_ns: None,
        };
        let machine_ns = machine_edges_ns(&schedule, false);
        assert!(machine_ns.start > schedule.window_from_ns);
        assert_eq!(machine_ns.end - machine_ns.start, 20_000_000);
        let at_once = machine_edges_ns(&schedule, true);
        assert_eq!(at_once, schedule.window_from_ns..schedule.window_to_ns);
    }
}
