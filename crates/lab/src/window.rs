//! A trial's window as the coordinator conducts it: the orders to its sides and to the observers of their
//! hosts.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytecost_spec::{Cell, Counter, Reading, Readings};
use bytecost_sys::clock;

use crate::endpoint_process::{Endpoint, GRACE_NS, next_answer, no_response, unexpected};
use crate::observers::TrialObservers;
use crate::passes::Passes;
use crate::protocol::{Done, FromEndpoint, Schedule, ToEndpoint};
use crate::trial_error::TrialError;
use crate::trial_output::ReadingsOfHosts;
use crate::warmup::may_grow;

/// Time from the order [`ToEndpoint::Go`] to the first byte, in which both sides must read the order.
pub(crate) const LEAD_NS: u64 = 500_000;
/// Time from the order [`ToEndpoint::Go`] to the window of a watched trial, in which the observer, which may
/// wait for a CPU, also sets counters.
const WATCHED_LEAD_NS: u64 = 10_000_000;
/// The longest warm-up of growing connections, as a multiple of the study's warm-up. Of 280 connections
/// over loopback on 2 CPUs one still grew at its end.
const WARMUPS_MOST: u64 = 5;

/// The times of a trial with its window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowTimes {
    /// The shortest warm-up before the window.
    warmup: Duration,
    /// True if the warm-up lasts until connections have stopped growing.
    until_steady: bool,
    window: Duration,
    /// The longest time for a pass, in ns; 0 without passes.
    pub(crate) slowest_ns: u64,
    /// Passes before the window.
    warmup_passes: u64,
    /// The longest time of a side's call without progress, in ns.
    pub(crate) timeout_ns: u64,
}

impl WindowTimes {
    /// The times of a cell's trial with a window of that length.
    pub(crate) fn new(
        cell: &Cell,
        window: Duration,
        warmup: Duration,
        timeout_ms: u64,
    ) -> WindowTimes {
        let passes = Passes::new(cell);
        WindowTimes {
            warmup,
            until_steady: may_grow(cell),
            window,
            slowest_ns: passes.map_or(0, |p| p.most_ns(cell.threads)),
            warmup_passes: passes.map_or(0, |p| p.warmup),
            timeout_ns: timeout_ms * 1_000_000,
        }
    }

    pub(crate) fn is_of_passes(self) -> bool {
        self.slowest_ns > 0
    }

    /// The longest time from a trial's first order to its end, in ns, for which background load must last.
    pub(crate) fn most_ns(self) -> u64 {
        let windows = WARMUPS_MOST * self.warmup_ns() + 2 * self.window.as_nanos() as u64;
        windows + 2 * (GRACE_NS + self.timeout_ns) + (7 + self.warmup_passes) * self.slowest_ns
    }

    fn warmup_ns(self) -> u64 {
        self.warmup.as_nanos() as u64
    }

    /// The schedule of a trial that begins now.
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

/// The orders to the sides and the observers of a trial, which are ready, and their answers.
pub(crate) struct TrialControl<'t> {
    /// The processes of the sides, the sender's last.
    pub(crate) endpoints: &'t mut [Endpoint],
    observers: TrialObservers<'t>,
    /// True if evidence of the trial is collected.
    is_watched: bool,
    stop: &'t AtomicBool,
    /// The longest time of a side's call without progress, in ns.
    timeout_ns: u64,
    /// For each side, true if its window has closed.
    closed: Vec<bool>,
    /// For each side, its result once it has sent it.
    done: Vec<Option<Done>>,
}

/// The results of a trial.
pub(crate) struct TrialResults {
    /// Those of its sides, the sender's last.
    pub(crate) sides: Vec<Done>,
    pub(crate) hosts: ReadingsOfHosts,
}

impl<'t> TrialControl<'t> {
    pub(crate) fn new(
        endpoints: &'t mut [Endpoint],
        observers: TrialObservers<'t>,
        is_watched: bool,
        stop: &'t AtomicBool,
        timeout_ns: u64,
    ) -> TrialControl<'t> {
        TrialControl {
            closed: vec![false; endpoints.len()],
            done: endpoints.iter().map(|_| None).collect(),
            endpoints,
            observers,
            is_watched,
            stop,
            timeout_ns,
        }
    }

    /// Sends an order to all sides.
    fn order(&mut self, order: &ToEndpoint) -> Result<(), TrialError> {
        self.endpoints
            .iter_mut()
            .try_for_each(|endpoint| endpoint.order(order))
    }

    /// Sends an order to the sender alone, the last of the sides; a receiver follows its connection.
    fn order_sender(&mut self, order: &ToEndpoint) -> Result<(), TrialError> {
        let mut sender = self.endpoints.last_mut().into_iter();
        sender.try_for_each(|endpoint| endpoint.order(order))
    }

    /// Waits for an answer of any side; an error if none comes before the deadline.
    fn next(&mut self, deadline_ns: u64) -> Result<(usize, FromEndpoint), TrialError> {
        while let Some((at, answer)) = self.next_of_all(deadline_ns)? {
            match at.checked_sub(self.endpoints.len()) {
                None => return Ok((at, answer)),
                Some(observer) => self.observers.on_answer(observer, answer)?,
            }
        }
        Err(no_response(&*self.endpoints))
    }

    /// Waits for an answer of a side, or of an observer, whose indices are those behind the sides'; none if
    /// none comes before `until_ns`.
    fn next_of_all(&mut self, until_ns: u64) -> Result<Option<(usize, FromEndpoint)>, TrialError> {
        let sides = self.endpoints.iter_mut();
        let mut all: Vec<&mut Endpoint> = sides.chain(self.observers.endpoints()).collect();
        next_answer(&mut all, until_ns, self.stop)
    }

    /// Handles answers until a condition holds; false if it does not by the deadline.
    fn has_reached(
        &mut self,
        is_reached: impl Fn(&TrialControl<'_>) -> bool,
        deadline_ns: impl Fn() -> u64,
    ) -> Result<bool, TrialError> {
        while !is_reached(self) {
            if !self.handle_message(deadline_ns())? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Handles answers until a condition of the sides holds; an error if it does not by the deadline.
    fn wait_until(
        &mut self,
        is_reached: impl Fn(&TrialControl<'_>) -> bool,
        deadline_ns: impl Fn() -> u64,
    ) -> Result<(), TrialError> {
        if self.has_reached(is_reached, deadline_ns)? {
            Ok(())
        } else {
            Err(no_response(&*self.endpoints))
        }
    }

    /// Handles answers until a condition of the observers holds; an error if it does not in time.
    fn wait_for_observers(
        &mut self,
        is_reached: impl Fn(&TrialObservers<'_>) -> bool,
    ) -> Result<(), TrialError> {
        let deadline_ns = clock::monotonic_ns() + GRACE_NS;
        if self.has_reached(|control| is_reached(&control.observers), || deadline_ns)? {
            Ok(())
        } else {
            Err(self.observers.give_up())
        }
    }

    /// Waits for an answer and handles it; false if none comes before `until_ns`.
    fn handle_message(&mut self, until_ns: u64) -> Result<bool, TrialError> {
        let Some((at, answer)) = self.next_of_all(until_ns)? else {
            return Ok(false);
        };
        match at.checked_sub(self.endpoints.len()) {
            None => self.on_answer(at, answer)?,
            Some(observer) => self.observers.on_answer(observer, answer)?,
        }
        Ok(true)
    }

    /// Records that a side has closed its window or, after that, its result; an error for other answers.
    fn on_answer(&mut self, side: usize, answer: FromEndpoint) -> Result<(), TrialError> {
        match answer {
            FromEndpoint::Closed if !self.closed[side] => self.closed[side] = true,
            FromEndpoint::Done(done) if self.closed[side] => self.done[side] = Some(*done),
            other => return Err(unexpected("endpoint", &other)),
        }
        Ok(())
    }

    fn wait_for_close(&mut self, deadline_ns: impl Fn() -> u64) -> Result<(), TrialError> {
        self.wait_until(
            |control| control.closed.iter().all(|closed| *closed),
            deadline_ns,
        )
    }

    /// Carries out a window by the clock: the observer of this host gets its schedule, and an order when
    /// all flows have closed theirs.
    pub(crate) fn conduct(&mut self, schedule: &Schedule) -> Result<(), TrialError> {
        self.observers.order_here(&ToEndpoint::Go(*schedule))?;
        let deadline_ns = schedule.window_to_ns + self.timeout_ns + GRACE_NS;
        self.wait_for_close(|| deadline_ns)?;
        self.close_observers()
    }

    /// Has the observers read the closing edge, or the network after it, and waits for that.
    fn close_observers(&mut self) -> Result<(), TrialError> {
        self.observers.order_here(&ToEndpoint::Close)?;
        self.wait_for_observers(|observers| observers.are_closed())
    }

    /// Has all observers report, while the sides end. Those of a watched trial count until all bytes have
    /// moved, and report after that.
    pub(crate) fn stop_observers(&mut self) -> Result<(), TrialError> {
        if self.is_watched {
            Ok(())
        } else {
            self.observers.order(&ToEndpoint::Stop)
        }
    }

    pub(crate) fn wait_for_done(
        &mut self,
        side: usize,
        deadline_ns: u64,
    ) -> Result<(), TrialError> {
        self.wait_until(|control| control.done[side].is_some(), || deadline_ns)
    }

    /// Waits for the results after the order to stop.
    pub(crate) fn results(mut self) -> Result<TrialResults, TrialError> {
        let deadline_ns = clock::monotonic_ns() + self.timeout_ns + GRACE_NS;
        self.wait_until(
            |control| control.done.iter().all(Option::is_some),
            || deadline_ns,
        )?;
        if self.is_watched {
            self.observers.order(&ToEndpoint::Stop)?;
        }
        self.wait_for_observers(|observers| observers.are_over())?;
        Ok(TrialResults {
            sides: self.done.into_iter().flatten().collect(),
            hosts: self.observers.readings(),
        })
    }

    /// Waits until the connections of all sides have stopped growing, if the schedule has `steady_by_ns`,
    /// and sends the sides a new schedule with the window. Returns the schedule that holds, and, if it
    /// waited, true where all connections have stopped growing.
    fn warmed_up(&mut self, schedule: Schedule) -> Result<(Schedule, Option<bool>), TrialError> {
        let Some(by_ns) = schedule.steady_by_ns else {
            return Ok((schedule, None));
        };
        let mut all_steady = true;
        for _ in 0..self.endpoints.len() {
            match self.next(by_ns + GRACE_NS)? {
                (_, FromEndpoint::Warm(steady)) => all_steady &= steady,
                (_, other) => return Err(unexpected("endpoint", &other)),
            }
        }
        let window_ns = schedule.window_to_ns - schedule.window_from_ns;
        let lead_ns = if self.is_watched {
            WATCHED_LEAD_NS
        } else {
            LEAD_NS
        };
        let window_from_ns = clock::monotonic_ns() + lead_ns;
        let with_window = Schedule {
            window_from_ns,
            window_to_ns: window_from_ns + window_ns,
            steady_by_ns: None,
            ..schedule
        };
        self.order(&ToEndpoint::Go(with_window))?;
        Ok((with_window, Some(all_steady)))
    }
}

/// Sends both sides the schedule, carries out the window by the clock, and has the sides end. Returns the
/// readings of the warm-up.
pub(crate) fn by_clock(
    control: &mut TrialControl<'_>,
    times: WindowTimes,
) -> Result<Readings, TrialError> {
    let schedule = times.schedule();
    control.order(&ToEndpoint::Go(schedule))?;
    let (schedule, steady) = control.warmed_up(schedule)?;
    control.conduct(&schedule)?;
    // Receivers end with their connections.
    control.order_sender(&ToEndpoint::Stop)?;
    control.stop_observers()?;
    let warmup_ns = schedule.window_from_ns - schedule.begin_ns;
    let bounded = steady.map(|s| (Counter::WarmupBounded, Reading::Measured(u64::from(!s))));
    let mut readings: Readings = [(Counter::WarmupNs, Reading::Measured(warmup_ns))].into();
    readings.extend(bounded);
    Ok(readings)
}

/// Carries out a window that is a number of passes, which the sides open when all are ready, and close;
/// then has the sides end.
pub(crate) fn by_passes(
    control: &mut TrialControl<'_>,
    times: WindowTimes,
) -> Result<(), TrialError> {
    let schedule = times.schedule();
    control.order(&ToEndpoint::Go(schedule))?;
    let timeout_ns = GRACE_NS + times.timeout_ns + 2 * times.slowest_ns;
    // A Java mover makes many passes before the window, each of which may be slow.
    let warmup_ns = times.warmup_passes * times.slowest_ns;
    for _ in 0..control.endpoints.len() {
        match control.next(schedule.begin_ns + warmup_ns + timeout_ns)? {
            (_, FromEndpoint::Opening) => {}
            (_, other) => return Err(unexpected("endpoint", &other)),
        }
    }
    control.observers.order(&ToEndpoint::Open)?;
    control.wait_for_observers(|observers| observers.are_open())?;
    control.order_sender(&ToEndpoint::Open)?;
    // The deadline is computed again for each answer; the last pass begins within the window.
    let close_ns = times.window.as_nanos() as u64 + timeout_ns;
    control.wait_for_close(|| clock::monotonic_ns() + close_ns)?;
    control.close_observers()?;
    // The flows are over, so receivers wait for the order as well.
    control.order(&ToEndpoint::Stop)?;
    control.stop_observers()
}
