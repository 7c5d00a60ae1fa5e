//! The steps of a client: it connects, sends requests, receives responses, and rests or fails.

use std::cmp::Reverse;

use super::super::client::{ClientState, Due};
use super::super::client_loop::{ClientLoop, LoopEvent};
use super::super::outcome::{LoadError, record};
use super::super::{LoadSpan, Pace};
use super::{Driver, LONGEST_WAIT_NS, Phase};

/// The rest of a client after a failure, so that a server that refuses is not overrun.
const BACK_OFF_NS: u64 = 10_000_000;

impl<W: ClientLoop> Driver<'_, W> {
    /// Returns true if a client may not connect yet, since too many connections are not confirmed.
    pub(super) fn must_wait(&self, i: u32) -> bool {
        let is_new = self.is_pending[i as usize] && !self.is_idle(i);
        let most = self.load.confirmed_at_once as usize;
        is_new && self.unconfirmed.is_some_and(|n| n >= most)
    }

    /// Notes that a client's first attempt to connect is over, or its part of the first round.
    pub(super) fn on_first_attempt(&mut self, i: u32) {
        if !std::mem::replace(&mut self.is_pending[i as usize], false) {
            return;
        }
        self.pending -= 1;
        let is_asker = !self.is_idle(i);
        if let Some(unconfirmed) = self.unconfirmed.as_mut().filter(|_| is_asker) {
            *unconfirmed = unconfirmed.saturating_sub(1);
        }
        if self.is_idle(i) {
            self.idle_pending -= 1;
            if self.idle_pending == 0 {
                self.schedule_connects(0..self.load.connections, self.client_loop.now_ns());
            }
        }
    }

    pub(super) fn connect(&mut self, i: u32, intended_ns: u64) {
        let client = &mut self.clients[i as usize];
        client.connecting_for = Due {
            intended_ns,
            sent_ns: self.client_loop.now_ns(),
        };
        let is_asker = i < self.load.connections;
        if let Some(unconfirmed) = self.unconfirmed.as_mut().filter(|_| is_asker)
            && self.is_pending[i as usize]
        {
            *unconfirmed += 1;
        }
        self.outcome.made.connections += 1;
        match self.client_loop.connect(i) {
            Ok(connected) => {
                client.state = ClientState::Connecting;
                if connected {
                    self.on_connected(i);
                }
            }
            Err(error) => self.fail(i, error),
        }
    }

    fn on_connected(&mut self, i: u32) {
        self.outcome.opened += 1;
        self.refused.0 = 0;
        let client = &mut self.clients[i as usize];
        client.state = ClientState::Connected;
        let due = client.connecting_for;
        let now_ns = self.client_loop.now_ns();
        if self.unconfirmed.is_some() && self.phase == Phase::Connecting && !self.is_idle(i) {
            return self.ask(i, Due::at(now_ns), 1);
        }
        self.on_first_attempt(i);
        if self.is_idle(i) {
            return;
        }
        if !self.load.kept {
            let sent_ns = now_ns;
            self.ask(i, Due { sent_ns, ..due }, 1);
        } else if self.is_closed() {
            self.fill_pipeline(i);
        } else {
            self.free.push_back((i, now_ns));
        }
    }

    /// Closed loop: sends requests of a client up to its depth, if it is connected.
    pub(super) fn fill_pipeline(&mut self, i: u32) {
        let client = &self.clients[i as usize];
        let missing = (self.load.depth as usize).saturating_sub(client.under_way.len());
        if client.state == ClientState::Connected && missing > 0 {
            self.ask(i, Due::at(self.client_loop.now_ns()), missing);
        }
    }

    /// Sends a request of each client, and no second one before all have their responses: an early
    /// client would be served twice while others wait.
    pub(super) fn start_round(&mut self, now_ns: u64) {
        self.phase = Phase::FirstRound;
        self.round_from_ns = now_ns;
        for i in 0..self.load.connections {
            if self.clients[i as usize].state == ClientState::Connected {
                self.is_pending[i as usize] = true;
                self.pending += 1;
                self.fill_pipeline(i);
            }
        }
    }

    /// Sends so many requests of a client, as far as it has any left; short ones go together. The
    /// caller has read the clock, which for each request would cost the generator.
    pub(super) fn ask(&mut self, i: u32, due: Due, times: usize) {
        let asked = self.clients[i as usize].asked;
        let mut left = times;
        if let (LoadSpan::Requests(most), true) = (self.load.span, self.is_closed()) {
            left = left.min(usize::try_from(most.saturating_sub(asked)).unwrap_or(left));
        }
        while left > 0 {
            let client = &mut self.clients[i as usize];
            if client.unsent > 0 {
                // The server takes no more now: it is asked when it does.
                client.deferred = Some(due).filter(|_| self.load.depth == 1);
                return;
            }
            let together = left.min(self.at_once);
            left -= together;
            client.ask(due, together);
            self.outcome.made.requests += together as u64;
            self.send(i);
            if self.clients[i as usize].state != ClientState::Connected {
                return;
            }
        }
    }

    fn send(&mut self, i: u32) {
        let client = &self.clients[i as usize];
        let requester = &*self.codec.requester;
        match self
            .client_loop
            .send(i, |out| client.compose(requester, out))
        {
            Ok(true) => self.clients[i as usize].unsent = 0,
            Ok(false) => {}
            Err(error) => self.fail(i, error),
        }
    }

    pub(super) fn on_event(&mut self, event: LoopEvent<W::Piece>) {
        match event {
            LoopEvent::Connected(i, Ok(())) => self.on_connected(i),
            LoopEvent::Received(i, Ok(piece)) => self.receive(i, piece),
            LoopEvent::Room(i) => {
                self.send(i);
                self.send_deferred(i);
            }
            LoopEvent::Sent(i, Ok(())) => {
                self.clients[i as usize].unsent = 0;
                self.send_deferred(i);
            }
            LoopEvent::Connected(i, Err(error))
            | LoopEvent::Received(i, Err(error))
            | LoopEvent::Sent(i, Err(error)) => self.fail(i, error),
        }
    }

    /// Sends the requests that waited for room in a socket.
    fn send_deferred(&mut self, i: u32) {
        let is_draining = self.is_draining();
        let client = &mut self.clients[i as usize];
        if client.unsent > 0 || client.state != ClientState::Connected || is_draining {
            return;
        }
        if let Some(due) = client.deferred.take() {
            self.ask(i, due, 1);
        } else if self.load.depth > 1 {
            let missing = (self.load.depth as usize).saturating_sub(client.under_way.len());
            let due = Due::at(self.client_loop.now_ns());
            self.ask(i, due, missing);
        }
    }

    fn receive(&mut self, i: u32, piece: W::Piece) {
        let client = &mut self.clients[i as usize];
        let received = client.receive(&self.codec, self.client_loop.bytes(&piece));
        self.client_loop.release(piece);
        let complete = match received {
            Ok(complete) => complete,
            Err(error) => return self.fail(i, error),
        };
        let now_ns = self.client_loop.now_ns();
        for _ in 0..complete {
            if let Some(due) = self.clients[i as usize].under_way.pop_front() {
                self.count_response(i, due, now_ns);
            }
        }
        if complete > 0 {
            self.on_responses(i, complete, now_ns);
        }
        self.client_loop.receive_more(i);
    }

    fn count_response(&mut self, i: u32, due: Due, now_ns: u64) {
        let in_window = (self.opens_ns..self.closes_ns).contains(&now_ns);
        self.outcome.answers_in_window += u64::from(in_window);
        if self.counts(due, now_ns) {
            self.outcome.answers += 1;
            self.outcome.answers_by_connection[i as usize] += 1;
            record(&mut self.outcome.latency_ns, now_ns - due.intended_ns);
        }
    }

    /// Returns true if a request belongs to the window: see [`super::LoadOutcome::answers`].
    fn counts(&self, due: Due, now_ns: u64) -> bool {
        let decides_ns = match (self.load.span, self.load.pace) {
            (LoadSpan::Requests(_), _) => return true,
            (_, Pace::Closed { .. }) => now_ns,
            (_, Pace::Open { .. }) => due.intended_ns,
        };
        (self.opens_ns..self.closes_ns).contains(&decides_ns)
    }

    fn on_responses(&mut self, i: u32, answers: usize, now_ns: u64) {
        if !self.load.kept {
            self.clients[i as usize].disconnect();
            self.client_loop.close(i);
        }
        self.on_first_attempt(i);
        let waits = matches!(self.phase, Phase::Connecting | Phase::FirstRound);
        if waits && self.unconfirmed.is_some() && self.is_closed() {
            return; // it continues when all are connected
        }
        if self.is_draining() {
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

    /// Counts an error, and has the client rest.
    fn fail(&mut self, i: u32, error: LoadError) {
        let now_ns = self.client_loop.now_ns();
        self.on_first_attempt(i);
        self.client_loop.close(i);
        let is_idle = self.is_idle(i);
        let failed = &self.clients[i as usize];
        if failed.state == ClientState::Done {
            return;
        }
        if error == LoadError::Timeout
            && let Some(due) = failed.under_way.front().copied()
            && self.counts(due, now_ns)
        {
            record(&mut self.outcome.latency_ns, now_ns - due.intended_ns);
        }
        let client = &mut self.clients[i as usize];
        let was_free = client.state == ClientState::Connected && client.under_way.is_empty();
        let lost = client.disconnect();
        self.outcome.errors.count(error, lost.max(1) as u64);
        if error == LoadError::Refused {
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
            // It is among the free, or its timer runs: neither may happen twice.
            self.free.retain(|(free, _)| *free != i);
            self.timers.retain(|Reverse((_, resting))| *resting != i);
        }
        self.timers.push(Reverse((now_ns + BACK_OFF_NS, i)));
    }

    /// Gives up clients that have waited longer than the timeout; checks a few times within it.
    pub(super) fn sweep(&mut self, now_ns: u64) {
        if now_ns < self.next_sweep_ns {
            return;
        }
        let timeout_ns = self.load.timeout.as_nanos() as u64;
        self.next_sweep_ns = now_ns + (timeout_ns / 8).clamp(1_000_000, LONGEST_WAIT_NS);
        for i in 0..self.clients.len() {
            let client = &self.clients[i];
            let oldest = match client.state {
                ClientState::Connecting => Some(client.connecting_for),
                _ => client.under_way.front().copied(),
            };
            if oldest.is_some_and(|due| due.sent_ns + timeout_ns < now_ns) {
                self.fail(i as u32, LoadError::Timeout);
            }
        }
    }
}
