//! What a client does when it is its turn: it connects, asks, hears, goes on or fails.

use std::cmp::Reverse;

use super::super::client::{ClientState, Due};
use super::super::client_loop::{ClientLoop, LoopEvent};
use super::super::outcome::{LoadError, record};
use super::super::{LoadSpan, Pace};
use super::{Driver, LONGEST_WAIT_NS, Phase};

/// How long a client rests after a failure, so that a server that refuses is not overrun.
const BACK_OFF_NS: u64 = 10_000_000;

impl<W: ClientLoop> Driver<'_, W> {
    /// Whether a client is not to set out yet, since too many wait to be greeted.
    pub(super) fn is_held_up(&self, i: u32) -> bool {
        let is_new = self.not_tried[i as usize] && !self.is_idle(i);
        let most = self.load.greeted_at_once as usize;
        is_new && self.greeting.is_some_and(|n| n >= most)
    }

    /// Its first attempt to connect is over, or its part of the first round.
    pub(super) fn tried(&mut self, i: u32) {
        if !std::mem::replace(&mut self.not_tried[i as usize], false) {
            return;
        }
        self.trying -= 1;
        if let Some(greeting) = self.greeting.as_mut().filter(|_| i < self.load.connections) {
            *greeting = greeting.saturating_sub(1);
        }
        if self.is_idle(i) {
            self.idle_trying -= 1;
            if self.idle_trying == 0 {
                self.set_out(0..self.load.connections, self.wire.now_ns());
            }
        }
    }

    pub(super) fn connect(&mut self, i: u32, intended_ns: u64) {
        let client = &mut self.clients[i as usize];
        client.wanted = Due {
            intended_ns,
            sent_ns: self.wire.now_ns(),
        };
        let is_asker = i < self.load.connections;
        if let Some(greeting) = self.greeting.as_mut().filter(|_| is_asker)
            && self.not_tried[i as usize]
        {
            *greeting += 1;
        }
        self.outcome.made.connections += 1;
        match self.wire.connect(i) {
            Ok(connected) => {
                client.state = ClientState::Connecting;
                if connected {
                    self.settle(i);
                }
            }
            Err(trouble) => self.fail(i, trouble),
        }
    }

    fn settle(&mut self, i: u32) {
        self.outcome.opened += 1;
        self.refused.0 = 0;
        let client = &mut self.clients[i as usize];
        client.state = ClientState::Connected;
        let wanted = client.wanted;
        let now_ns = self.wire.now_ns();
        if self.greeting.is_some() && self.phase == Phase::Connecting && !self.is_idle(i) {
            return self.ask(i, Due::at(now_ns), 1);
        }
        self.tried(i);
        if self.is_idle(i) {
            return;
        }
        if !self.load.kept {
            let sent_ns = now_ns;
            self.ask(i, Due { sent_ns, ..wanted }, 1);
        } else if self.is_closed() {
            self.begin(i);
        } else {
            self.free.push_back((i, now_ns));
        }
    }

    /// Closed loop: has a client ask, if it is there and has not as much under way as it may.
    pub(super) fn begin(&mut self, i: u32) {
        let client = &self.clients[i as usize];
        let missing = (self.load.depth as usize).saturating_sub(client.under_way.len());
        if client.state == ClientState::Connected && missing > 0 {
            self.ask(i, Due::at(self.wire.now_ns()), missing);
        }
    }

    /// Has all ask at the same time, and not again before all are answered: who was early would be
    /// served twice while others wait.
    pub(super) fn begin_round(&mut self, now_ns: u64) {
        self.phase = Phase::FirstRound;
        self.round_from_ns = now_ns;
        for i in 0..self.load.connections {
            if self.clients[i as usize].state == ClientState::Connected {
                self.not_tried[i as usize] = true;
                self.trying += 1;
                self.begin(i);
            }
        }
    }

    /// Has a client ask so many times, unless it has asked all; short requests due together go
    /// together. The caller has read the clock, which for each request would cost the generator.
    pub(super) fn ask(&mut self, i: u32, due: Due, times: usize) {
        let client = &self.clients[i as usize];
        let mut left = times;
        if let (LoadSpan::Requests(most), true) = (self.load.span, self.is_closed()) {
            left = left.min(usize::try_from(most.saturating_sub(client.asked)).unwrap_or(left));
        }
        while left > 0 {
            let client = &mut self.clients[i as usize];
            if client.sends > 0 {
                // The server takes no more now: it is asked when it does.
                client.held = Some(due).filter(|_| self.load.depth == 1);
                return;
            }
            let times = left.min(self.at_once);
            left -= times;
            client.ask(due, times);
            self.outcome.made.requests += times as u64;
            self.send(i);
            if self.clients[i as usize].state != ClientState::Connected {
                return;
            }
        }
    }

    fn send(&mut self, i: u32) {
        let client = &self.clients[i as usize];
        let question = &*self.tongue.question;
        match self.wire.send(i, |out| client.compose(question, out)) {
            Ok(true) => self.clients[i as usize].sends = 0,
            Ok(false) => {}
            Err(trouble) => self.fail(i, trouble),
        }
    }

    pub(super) fn happen(&mut self, happened: LoopEvent<W::Piece>) {
        match happened {
            LoopEvent::Connected(i, Ok(())) => self.settle(i),
            LoopEvent::Received(i, Ok(piece)) => self.receive(i, piece),
            LoopEvent::Room(i) => {
                self.send(i);
                self.fill(i);
            }
            LoopEvent::Sent(i, Ok(())) => {
                self.clients[i as usize].sends = 0;
                self.fill(i);
            }
            LoopEvent::Connected(i, Err(trouble))
            | LoopEvent::Received(i, Err(trouble))
            | LoopEvent::Sent(i, Err(trouble)) => self.fail(i, trouble),
        }
    }

    /// Makes the requests that a socket without room held up.
    fn fill(&mut self, i: u32) {
        let is_leaving = self.is_leaving();
        let client = &mut self.clients[i as usize];
        if client.sends > 0 || client.state != ClientState::Connected || is_leaving {
            return;
        }
        if let Some(due) = client.held.take() {
            self.ask(i, due, 1);
        } else if self.load.depth > 1 {
            let missing = (self.load.depth as usize).saturating_sub(client.under_way.len());
            let due = Due::at(self.wire.now_ns());
            self.ask(i, due, missing);
        }
    }

    fn receive(&mut self, i: u32, piece: W::Piece) {
        let client = &mut self.clients[i as usize];
        let received = client.receive(&self.tongue, self.wire.bytes(&piece));
        self.wire.give_back(piece);
        let complete = match received {
            Ok(complete) => complete,
            Err(trouble) => return self.fail(i, trouble),
        };
        let now_ns = self.wire.now_ns();
        for _ in 0..complete {
            if let Some(due) = self.clients[i as usize].under_way.pop_front() {
                self.answered(i, due, now_ns);
            }
        }
        if complete > 0 {
            self.go_on(i, complete, now_ns);
        }
        self.wire.listen(i);
    }

    fn answered(&mut self, i: u32, due: Due, now_ns: u64) {
        let in_window = (self.opens_ns..self.closes_ns).contains(&now_ns);
        self.outcome.answers_in_window += u64::from(in_window);
        if self.counts(due, now_ns) {
            self.outcome.answers += 1;
            self.outcome.answers_by_connection[i as usize] += 1;
            record(&mut self.outcome.latency_ns, now_ns - due.intended_ns);
        }
    }

    /// Whether a request belongs to the window: see [`Outcome::answers`].
    fn counts(&self, due: Due, now_ns: u64) -> bool {
        let decides_ns = match (self.load.span, self.load.pace) {
            (LoadSpan::Requests(_), _) => return true,
            (_, Pace::Closed { .. }) => now_ns,
            (_, Pace::Open { .. }) => due.intended_ns,
        };
        (self.opens_ns..self.closes_ns).contains(&decides_ns)
    }

    fn go_on(&mut self, i: u32, answers: usize, now_ns: u64) {
        let client = &mut self.clients[i as usize];
        if !self.load.kept {
            client.disconnect();
            self.wire.hang_up(i);
        }
        self.tried(i);
        let waits = matches!(self.phase, Phase::Connecting | Phase::FirstRound);
        if waits && self.greeting.is_some() && self.is_closed() {
            return; // it goes on when all are there
        }
        if self.is_leaving() {
            return;
        }
        let client = &self.clients[i as usize];
        match (self.load.pace, self.load.span) {
            (Pace::Open { .. }, _) => self.free.push_back((i, now_ns)),
            (_, LoadSpan::Requests(most)) if client.asked >= most => self.finish(i),
            (Pace::Closed { think }, _) if !think.is_zero() => {
                let until_ns = now_ns + think.as_nanos() as u64;
                self.timers.push(Reverse((until_ns, i)));
            }
            _ if !self.load.kept => self.connect(i, now_ns),
            // In the closed loop a request is due when the answer before it is there.
            _ => self.ask(i, Due::at(now_ns), answers),
        }
    }

    fn finish(&mut self, i: u32) {
        let client = &mut self.clients[i as usize];
        if client.under_way.is_empty() && client.state != ClientState::Done {
            client.state = ClientState::Done;
            self.unfinished -= 1;
        }
    }

    /// Counts what went wrong, and has the client rest.
    fn fail(&mut self, i: u32, trouble: LoadError) {
        let now_ns = self.wire.now_ns();
        self.tried(i);
        self.wire.hang_up(i);
        let is_idle = self.is_idle(i);
        let client = &self.clients[i as usize];
        if client.state == ClientState::Done {
            return;
        }
        if trouble == LoadError::Timeout
            && let Some(due) = client.under_way.front().copied()
            && self.counts(due, now_ns)
        {
            record(&mut self.outcome.latency_ns, now_ns - due.intended_ns);
        }
        let client = &mut self.clients[i as usize];
        let was_free = client.state == ClientState::Connected && client.under_way.is_empty();
        let lost = client.disconnect();
        self.outcome.errors.count(trouble, lost.max(1) as u64);
        if trouble == LoadError::Refused {
            let (count, since_ns) = &mut self.refused;
            if *count == 0 {
                *since_ns = now_ns;
            }
            *count += 1;
        }
        if is_idle {
            return;
        }
        if lost == 0 && !was_free {
            client.asked += 1; // the request for which it was to connect
        }
        if let (LoadSpan::Requests(most), true) = (self.load.span, self.is_closed())
            && self.clients[i as usize].asked >= most
        {
            return self.finish(i);
        }
        if was_free {
            // It stands in the row of the free, or its timer runs: neither may happen twice.
            self.free.retain(|(free, _)| *free != i);
            self.timers.retain(|Reverse((_, resting))| *resting != i);
        }
        self.timers.push(Reverse((now_ns + BACK_OFF_NS, i)));
    }

    /// Gives up those who have waited too long, now and then.
    pub(super) fn sweep(&mut self, now_ns: u64) {
        if now_ns < self.next_sweep_ns {
            return;
        }
        let patience_ns = self.load.patience.as_nanos() as u64;
        self.next_sweep_ns = now_ns + (patience_ns / 8).clamp(1_000_000, LONGEST_WAIT_NS);
        for i in 0..self.clients.len() {
            let client = &self.clients[i];
            let oldest = match client.state {
                ClientState::Connecting => Some(client.wanted),
                _ => client.under_way.front().copied(),
            };
            if oldest.is_some_and(|due| due.sent_ns + patience_ns < now_ns) {
                self.fail(i as u32, LoadError::Timeout);
            }
        }
    }
}
