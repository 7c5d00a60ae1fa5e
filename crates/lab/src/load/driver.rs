//! One thread of the load generator: its clients, the times at which they ask, and the window.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use bytecost_sys::clock::{monotonic_ns, thread_cpu_ns};

use super::arrivals::ArrivalTimes;
use super::client::{Client, ClientState, Codec, Due};
use super::client_loop::ClientLoop;
use super::outcome::{LoadOutcome, record};
use super::start_gate::StartGate;
use super::{Load, LoadSpan, Pace, Stage};

mod turn;

/// The longest wait, so that a stop is heard.
const LONGEST_WAIT_NS: u64 = 50_000_000;
/// Waits that are shorter are spent asking again and again: waking up from sleep takes longer
/// than the rest of them (timers are late by 50 µs by default, prctl(2) PR_SET_TIMERSLACK).
const SHORTEST_WAIT_NS: u64 = 80_000;
/// Time from one check to the next whether another client may connect, in ns.
const RECHECK_NS: u64 = 1_000_000;
/// Numbers of clients that a thread has for itself, since its requests carry them.
const IDS_OF_A_THREAD: u32 = 1 << 20;

/// Longest wait for the responses that are under way at the end of a closed loop.
const DRAIN_NS: u64 = 500_000_000;
/// Unanswered requests that are counted one by one, and groups of equal size for the rest of them: an
/// open loop may have any number, and somebody may wait for its end.
const COUNTED: u32 = 1 << 20;
const GROUPS: u64 = 1 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Connecting,
    /// All ask at the same time, and until each has been answered.
    FirstRound,
    WarmUp,
    Window,
    /// Open loop: what was due in the window is still asked and answered.
    Rest,
    Over,
}

pub(super) struct Driver<'a, W> {
    load: &'a Load,
    client_loop: W,
    codec: Codec,
    clients: Vec<Client>,
    /// Times at which resting clients act again.
    timers: BinaryHeap<Reverse<(u64, u32)>>,
    /// Open loop: connections without a request under way, and since when.
    free: VecDeque<(u32, u64)>,
    /// Open loop: times at which requests are due.
    arrivals: Option<ArrivalTimes>,
    /// Open loop: requests that were given to clients so far.
    dispatched: u64,
    at_once: usize,
    /// The earliest times at which the requests that the next wait sends could have been sent.
    sendable_ns: Vec<u64>,
    /// True for clients that have not tried to connect once; in the first round, for those without a
    /// response.
    is_pending: Vec<bool>,
    pending: usize,
    /// Clients that connect and are not confirmed; none for a load that confirms no connection.
    unconfirmed: Option<usize>,
    start: &'a StartGate,
    is_ready: bool,
    /// The beginning of the first round; 0 before, and where there is none.
    round_from_ns: u64,
    idle_pending: u32,
    unfinished: usize,
    phase: Phase,
    base_ns: u64,
    opens_ns: u64,
    closes_ns: u64,
    busy_ns: u64,
    cpu_from_ns: u64,
    next_sweep_ns: u64,
    /// Refused connections since one was opened, and the time of the first of them.
    refused: (usize, u64),
    outcome: LoadOutcome,
}

impl<'a, W: ClientLoop> Driver<'a, W> {
    pub(super) fn new(
        load: &'a Load,
        client_loop: W,
        nth: u32,
        start: &'a StartGate,
    ) -> Driver<'a, W> {
        let all = load.connections + load.idle;
        let client = |i| Client::new(nth * IDS_OF_A_THREAD + i, load.depth as usize);
        Driver {
            client_loop,
            codec: Codec::new(load.service, &load.asking),
            clients: (0..all).map(client).collect(),
            timers: BinaryHeap::with_capacity(all as usize + 1),
            free: VecDeque::with_capacity(all as usize + 1),
            arrivals: match load.pace {
                Pace::Open { per_s } => Some(ArrivalTimes::new(load, per_s, nth)),
                Pace::Closed { .. } => None,
            },
            dispatched: 0,
            at_once: load.at_once(),
            sendable_ns: Vec::with_capacity(all as usize + 1),
            is_pending: vec![true; all as usize],
            pending: all as usize,
            unconfirmed: load.confirms().then_some(0),
            start,
            is_ready: false,
            round_from_ns: 0,
            idle_pending: load.idle,
            unfinished: load.connections as usize,
            phase: Phase::Connecting,
            base_ns: 0,
            opens_ns: u64::MAX,
            closes_ns: u64::MAX,
            busy_ns: 0,
            cpu_from_ns: 0,
            next_sweep_ns: 0,
            refused: (0, 0),
            outcome: LoadOutcome::new(load.connections),
            load,
        }
    }

    pub(super) fn run(
        mut self,
        stop: &AtomicBool,
        on_stage: &dyn Fn(Stage),
    ) -> io::Result<LoadOutcome> {
        let start_ns = monotonic_ns();
        let (asking, all) = (self.load.connections, self.clients.len() as u32);
        let first = if asking < all { asking..all } else { 0..all };
        self.schedule_connects(first, start_ns);
        let mut woke_ns = start_ns;
        let mut worked = false;
        loop {
            let now_ns = self.client_loop.now_ns();
            if worked {
                self.count_busy(woke_ns, now_ns);
            }
            if stop.load(Ordering::Relaxed) || self.start.is_given_up() {
                self.closes_ns = self.closes_ns.min(now_ns);
                self.close_window(now_ns, on_stage);
                self.phase = Phase::Over;
            }
            self.advance(now_ns, on_stage);
            if self.load.ends_with_server && self.is_ready {
                self.check_server(now_ns, on_stage);
            }
            if self.phase == Phase::Over {
                break;
            }
            worked |= self.send_due(now_ns) | self.dispatch(now_ns);
            self.sweep(now_ns);
            let waited = self.client_loop.wait(self.wait_ns(now_ns))?;
            for could_ns in self.sendable_ns.drain(..) {
                let late_ns = waited.from_ns.saturating_sub(could_ns);
                record(&mut self.outcome.generator.late_ns, late_ns);
            }
            if worked {
                self.count_busy(now_ns, waited.from_ns);
            }
            woke_ns = waited.to_ns;
            worked = false;
            while let Some(event) = self.client_loop.next_event() {
                worked = true;
                self.on_event(event);
            }
        }
        if !self.drains() {
            self.count_unanswered();
        }
        Ok(self.outcome)
    }

    /// Counts the part of this time that lies within the window.
    fn count_busy(&mut self, from_ns: u64, to_ns: u64) {
        let within_ns = from_ns.max(self.opens_ns)..to_ns.min(self.closes_ns);
        self.busy_ns += within_ns.end.saturating_sub(within_ns.start);
    }

    fn is_closed(&self) -> bool {
        matches!(self.load.pace, Pace::Closed { .. })
    }

    fn is_idle(&self, i: u32) -> bool {
        i >= self.load.connections
    }

    /// Schedules the connects of some clients evenly over the ramp of all.
    fn schedule_connects(&mut self, some: Range<u32>, start_ns: u64) {
        if some.start == 0 && self.is_closed() && matches!(self.load.span, LoadSpan::Requests(_)) {
            self.opens_ns = start_ns;
        }
        let all = self.clients.len() as u64;
        let ramp_ns = self.load.ramp.as_nanos() as u64;
        for (order, i) in (0..).zip(some) {
            let at_ns = start_ns + ramp_ns * order / all;
            self.timers.push(Reverse((at_ns, i)));
        }
    }

    fn advance(&mut self, now_ns: u64, on_stage: &dyn Fn(Stage)) {
        if matches!(self.phase, Phase::Connecting | Phase::FirstRound) {
            self.start_if_ready(now_ns, on_stage);
        }
        if self.phase == Phase::WarmUp && now_ns >= self.opens_ns {
            self.phase = Phase::Window;
            self.cpu_from_ns = thread_cpu_ns();
            on_stage(Stage::WindowOpens);
        }
        if self.phase == Phase::Window && (now_ns >= self.closes_ns || self.has_asked_all()) {
            self.close_window(now_ns, on_stage);
        }
        if self.phase == Phase::Rest {
            let timeout_ns = self.load.timeout.as_nanos() as u64;
            let is_answered = self.next_due_ns().is_none() && self.under_way() == 0;
            let timeout_ns = match (self.is_closed(), self.drains()) {
                (false, _) => timeout_ns,
                (true, true) => timeout_ns.min(DRAIN_NS),
                (true, false) => 0,
            };
            if is_answered || now_ns >= self.closes_ns + timeout_ns {
                self.phase = Phase::Over;
            }
        }
    }

    /// Schedules the window once every client of all threads has tried to connect, and the first round
    /// is over.
    fn start_if_ready(&mut self, now_ns: u64, on_stage: &dyn Fn(Stage)) {
        if self.pending == 0 && !self.is_ready {
            if self.phase == Phase::Connecting && self.load.takes_round() {
                return self.start_round(now_ns);
            }
            self.is_ready = true;
            let round_ns = match self.phase {
                Phase::FirstRound => now_ns - self.round_from_ns,
                _ => 0,
            };
            self.start.ready(now_ns, 2 * LONGEST_WAIT_NS, round_ns);
        }
        let base_ns = match (self.load.span, self.start.at_ns()) {
            // All requests count, from the first on.
            (LoadSpan::Requests(_), _) if self.is_closed() && self.opens_ns != u64::MAX => now_ns,
            (_, Some(at_ns)) => at_ns,
            (_, None) => return,
        };
        self.base_ns = base_ns;
        match self.load.span {
            LoadSpan::Requests(_) => self.opens_ns = self.opens_ns.min(base_ns),
            LoadSpan::Time { warmup, window } => {
                // All have begun at the same time, and are as far apart as ever after a round.
                let round_ns = self.start.round_ns();
                let rounds_ns = u64::from(self.load.rounds_least) * round_ns;
                self.opens_ns = base_ns + round_ns.max(warmup.as_nanos() as u64);
                self.closes_ns = self.opens_ns + rounds_ns.max(window.as_nanos() as u64);
            }
        }
        self.phase = Phase::WarmUp;
        on_stage(Stage::Connected(self.opens_ns..self.closes_ns));
        if self.unconfirmed.is_some() && self.is_closed() {
            for i in 0..self.load.connections {
                self.fill_pipeline(i);
            }
        }
    }

    fn close_window(&mut self, now_ns: u64, on_stage: &dyn Fn(Stage)) {
        if self.phase != Phase::Window {
            return;
        }
        self.closes_ns = self.closes_ns.min(now_ns);
        self.outcome.window_ns = self.closes_ns - self.opens_ns;
        // A server that has gone may have cut the window to nothing.
        let span_ns = match self.outcome.server_gone_ns {
            Some(_) => now_ns.saturating_sub(self.opens_ns),
            None => self.outcome.window_ns,
        };
        self.outcome.generator.busy_share = self.busy_ns as f64 / span_ns.max(1) as f64;
        self.outcome.generator.cpu_ns = thread_cpu_ns() - self.cpu_from_ns;
        self.phase = Phase::Rest;
        if self.drains() {
            self.count_unanswered();
        }
        on_stage(Stage::WindowCloses);
    }

    /// Returns true if what is under way when the window of a closed loop closes is still answered:
    /// a connection that is closed with a response under way is reset.
    fn drains(&self) -> bool {
        self.load.ends_with_server && self.is_closed()
    }

    /// Returns true if nothing new is asked: the window of the closed loop is over.
    fn is_draining(&self) -> bool {
        self.phase == Phase::Rest && self.is_closed()
    }

    /// Ends the window at the moment at which the server went, if it has.
    fn check_server(&mut self, now_ns: u64, on_stage: &dyn Fn(Stage)) {
        let asks = &self.clients[..self.load.connections as usize];
        if self.refused.0 < asks.len() {
            return;
        }
        if asks.iter().any(|c| c.state == ClientState::Connected) {
            self.refused.0 = 0;
            return;
        }
        let gone_ns = self.refused.1.max(self.opens_ns);
        self.outcome.server_gone_ns = Some(gone_ns - self.opens_ns);
        self.closes_ns = self.closes_ns.min(gone_ns);
        self.close_window(now_ns, on_stage);
        self.phase = Phase::Over;
    }

    fn has_asked_all(&self) -> bool {
        match (self.load.span, self.is_closed()) {
            (LoadSpan::Time { .. }, _) => false,
            (LoadSpan::Requests(_), true) => self.unfinished == 0,
            (LoadSpan::Requests(_), false) => self.next_due_ns().is_none() && self.under_way() == 0,
        }
    }

    fn under_way(&self) -> usize {
        let asks = self.clients[..self.load.connections as usize].iter();
        asks.filter(|c| !c.under_way.is_empty() || c.state == ClientState::Connecting)
            .count()
    }

    /// Open loop: when the next request is due, if one is.
    fn next_due_ns(&self) -> Option<u64> {
        let due_ns = self.base_ns + self.arrivals.as_ref()?.next_ns();
        let is_last = match self.load.span {
            LoadSpan::Time { .. } => due_ns >= self.closes_ns,
            LoadSpan::Requests(_) => self.dispatched >= self.most_requests(),
        };
        (!is_last && self.phase != Phase::Connecting).then_some(due_ns)
    }

    fn most_requests(&self) -> u64 {
        match self.load.span {
            LoadSpan::Time { .. } => u64::MAX,
            LoadSpan::Requests(each) => each.saturating_mul(self.load.connections.into()),
        }
    }

    fn count_dispatch(&mut self) {
        self.dispatched += 1;
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.advance();
        }
    }

    fn wait_ns(&self, now_ns: u64) -> u64 {
        let mut until_ns = (now_ns + LONGEST_WAIT_NS).min(self.next_sweep_ns);
        if let Some(Reverse((at_ns, i))) = self.timers.peek() {
            let held_up_ns = now_ns + RECHECK_NS;
            until_ns = until_ns.min(if self.must_wait(*i) {
                held_up_ns
            } else {
                *at_ns
            });
        }
        if let Some(due_ns) = self.next_due_ns().filter(|_| !self.free.is_empty()) {
            until_ns = until_ns.min(due_ns);
        }
        match self.phase {
            Phase::WarmUp => until_ns = until_ns.min(self.opens_ns),
            Phase::Window => until_ns = until_ns.min(self.closes_ns),
            _ => {}
        }
        let mut wait_ns = until_ns.saturating_sub(now_ns);
        if !self.is_closed() {
            wait_ns = wait_ns.saturating_sub(SHORTEST_WAIT_NS);
        }
        wait_ns
    }

    fn send_due(&mut self, now_ns: u64) -> bool {
        let mut has_sent = false;
        if self.is_draining() {
            return has_sent;
        }
        while let Some(Reverse((at_ns, i))) = self.timers.peek().copied() {
            if at_ns > now_ns {
                break;
            }
            if self.must_wait(i) {
                break;
            }
            has_sent = true;
            self.timers.pop();
            let sent_ns = self.client_loop.now_ns();
            let is_asker = !self.is_idle(i);
            if is_asker && !self.is_closed() && !self.load.kept {
                self.on_first_attempt(i);
                self.free.push_back((i, sent_ns));
            } else if is_asker && self.clients[i as usize].state == ClientState::Connected {
                self.sendable_ns.push(at_ns);
                self.ask(i, Due::at(sent_ns), 1);
            } else {
                self.connect(i, sent_ns);
            }
        }
        has_sent
    }

    /// Open loop: gives requests that are due to free connections.
    fn dispatch(&mut self, now_ns: u64) -> bool {
        let mut has_dispatched = false;
        while let Some(due_ns) = self.next_due_ns().filter(|due_ns| *due_ns <= now_ns) {
            let Some((i, since_ns)) = self.free.pop_front() else {
                break;
            };
            if !self.load.kept || self.clients[i as usize].state == ClientState::Connected {
                has_dispatched = true;
                self.count_dispatch();
                self.sendable_ns.push(due_ns.max(since_ns));
                if self.load.kept {
                    let due = Due {
                        intended_ns: due_ns,
                        sent_ns: self.client_loop.now_ns(),
                    };
                    self.ask(i, due, 1);
                } else {
                    self.connect(i, due_ns);
                }
            }
        }
        has_dispatched
    }

    /// Counts requests that were due and have no response, as having waited until now.
    fn count_unanswered(&mut self) {
        if self.outcome.window_ns == 0 {
            return; // it was stopped before it began
        }
        let now_ns = monotonic_ns();
        let counted = if self.is_closed() {
            0..self.opens_ns
        } else {
            self.opens_ns..self.closes_ns
        };
        for client in &self.clients {
            for due in (client.under_way.iter()).filter(|d| counted.contains(&d.intended_ns)) {
                self.outcome.unanswered += 1;
                record(&mut self.outcome.latency_ns, now_ns - due.intended_ns);
            }
        }
        let Pace::Open { per_s } = self.load.pace else {
            return;
        };
        // Later ones are due later.
        for _ in 0..COUNTED {
            let Some(due_ns) = self.next_due_ns().filter(|due_ns| *due_ns < counted.end) else {
                return;
            };
            self.count_dispatch();
            if counted.contains(&due_ns) {
                self.outcome.unanswered += 1;
                record(&mut self.outcome.latency_ns, now_ns.saturating_sub(due_ns));
            }
        }
        let Some(due_ns) = self.next_due_ns() else {
            return;
        };
        let from_ns = due_ns.max(counted.start);
        let due = (counted.end.saturating_sub(from_ns) as f64 / 1e9 * per_s) as u64;
        let rest = due.min(self.most_requests() - self.dispatched);
        for group in 0..GROUPS {
            let at = |groups: u64| rest * groups / GROUPS;
            let middle = (at(group) + at(group + 1)) / 2;
            let middle_ns = from_ns + (middle as f64 / per_s * 1e9) as u64;
            let waited_ns = now_ns.saturating_sub(middle_ns).max(1);
            let number = at(group + 1) - at(group);
            self.outcome.unanswered += number;
            self.outcome
                .latency_ns
                .saturating_record_n(waited_ns, number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::client_loop::epoll::EpollLoop;
    use super::*;

    #[test]
    fn a_thread_that_is_refused_at_once_does_not_hold_up_the_others() {
        let (start, mut load) = (StartGate::new(2), super::super::tests::load());
        load.ends_with_server = true;
        let (warmup, window) = (load.ramp, load.timeout);
        load.span = LoadSpan::Time { warmup, window };
        let wire = EpollLoop::new(&load).unwrap();
        let one = Driver::new(&load, wire, 0, &start).run(&AtomicBool::new(false), &|_| ());
        assert_eq!(one.unwrap().server_gone_ns, Some(0));
        start.ready(1, 0, 0);
        assert_eq!(start.at_ns(), Some(1));
    }
}
