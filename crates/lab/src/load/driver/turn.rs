//! What a client does when it is its turn: it connects, asks, hears, goes on or fails.

use std::cmp::Reverse;

use bytecost_sys::clock::monotonic_ns;
use rustix::event::epoll::{self, EventData, EventFlags};

use super::super::client::{Due, State, Trouble};
use super::super::outcome::record;
use super::super::{Pace, Span};
use super::{Driver, LONGEST_WAIT_NS};

/// How long a client rests after something went wrong, so that a server that refuses is not
/// overrun.
const BACK_OFF_NS: u64 = 10_000_000;

impl Driver<'_> {
    /// Its first attempt to connect is over.
    pub(super) fn tried(&mut self, i: u32) {
        if !std::mem::replace(&mut self.not_tried[i as usize], false) {
            return;
        }
        self.trying -= 1;
        if self.is_idle(i) {
            self.idle_trying -= 1;
            if self.idle_trying == 0 {
                self.set_out_askers(monotonic_ns());
            }
        }
    }

    pub(super) fn connect(&mut self, i: u32, intended_ns: u64) {
        let client = &mut self.clients[i as usize];
        client.wanted = Due {
            intended_ns,
            sent_ns: monotonic_ns(),
        };
        let name = EventData::new_u64(event_name(i, client.generation.wrapping_add(1)));
        let connected = match client.connect(self.load.address, self.load.congestion.as_deref()) {
            Ok(connected) => connected,
            Err(trouble) => return self.fail(i, trouble),
        };
        let flags = if connected {
            EventFlags::IN
        } else {
            EventFlags::OUT
        };
        let watched = match &client.socket {
            Some(socket) => epoll::add(&self.epoll, socket, name, flags),
            None => Ok(()),
        };
        if watched.is_err() {
            self.fail(i, Trouble::Local);
        } else if connected {
            self.settle(i);
        }
    }

    /// A connection is there.
    fn settle(&mut self, i: u32) {
        self.outcome.opened += 1;
        self.tried(i);
        let client = &mut self.clients[i as usize];
        client.state = State::Connected;
        let wanted = client.wanted;
        if self.is_idle(i) {
            return;
        }
        if !self.load.kept {
            self.ask(
                i,
                Due {
                    sent_ns: monotonic_ns(),
                    ..wanted
                },
            );
        } else if self.is_closed() {
            for _ in 0..self.load.depth {
                if self.clients[i as usize].state == State::Connected {
                    self.ask(i, Due::at(monotonic_ns()));
                }
            }
        } else {
            self.free.push_back((i, monotonic_ns()));
        }
    }

    /// Has a client ask, unless it has asked all that it was to. The clock is the caller's: reading
    /// it once for each request is a part of what a request costs the generator.
    pub(super) fn ask(&mut self, i: u32, due: Due) {
        let client = &mut self.clients[i as usize];
        if let (Span::Requests(most), true) = (
            self.load.span,
            matches!(self.load.pace, Pace::Closed { .. }),
        ) && client.asked >= most
        {
            return;
        }
        if client.is_sending() {
            return; // the server takes no more: it is asked again when it does
        }
        match client.ask(due, &mut self.tongue) {
            Ok(true) => {}
            Ok(false) => self.watch(i, EventFlags::IN | EventFlags::OUT),
            Err(trouble) => self.fail(i, trouble),
        }
    }

    fn watch(&mut self, i: u32, flags: EventFlags) {
        let client = &self.clients[i as usize];
        let name = EventData::new_u64(event_name(i, client.generation));
        let watched = match &client.socket {
            Some(socket) => epoll::modify(&self.epoll, socket, name, flags),
            None => Ok(()),
        };
        if watched.is_err() {
            self.fail(i, Trouble::Local);
        }
    }

    /// Deals with an event of the kernel.
    pub(super) fn happen(&mut self, name: u64, flags: EventFlags) {
        let (i, generation) = (name as u32, (name >> 32) as u32);
        let client = &mut self.clients[i as usize];
        if client.socket.is_none() || client.generation != generation {
            return; // of a connection that is gone
        }
        if client.state == State::Connecting {
            match client.connected() {
                Ok(()) => {
                    self.watch(i, EventFlags::IN);
                    self.settle(i);
                }
                Err(trouble) => self.fail(i, trouble),
            }
            return;
        }
        if flags.contains(EventFlags::OUT) {
            match client.send_rest(&mut self.tongue) {
                Ok(true) => {
                    self.watch(i, EventFlags::IN);
                    self.fill(i);
                }
                Ok(false) => {}
                Err(trouble) => return self.fail(i, trouble),
            }
        }
        if flags.intersects(EventFlags::IN | EventFlags::ERR | EventFlags::HUP) {
            self.hear(i);
        }
    }

    /// Pipelining: makes the requests that a full socket held up.
    fn fill(&mut self, i: u32) {
        let depth = self.load.depth as usize;
        while depth > 1 && self.clients[i as usize].state == State::Connected {
            let (client, before) = (&self.clients[i as usize], self.clients[i as usize].asked);
            if client.under_way.len() >= depth || client.is_sending() {
                break;
            }
            self.ask(i, Due::at(monotonic_ns()));
            if self.clients[i as usize].asked == before {
                break;
            }
        }
    }

    fn hear(&mut self, i: u32) {
        let client = &mut self.clients[i as usize];
        let complete = match client.hear(&mut self.tongue) {
            Ok(complete) => complete,
            Err(trouble) => return self.fail(i, trouble),
        };
        let now_ns = monotonic_ns();
        for _ in 0..complete {
            if let Some(due) = self.clients[i as usize].under_way.pop_front() {
                self.answered(i, due, now_ns);
            }
        }
        if complete > 0 {
            self.go_on(i, complete, now_ns);
        }
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
            (Span::Requests(_), _) => return true,
            (_, Pace::Closed { .. }) => now_ns,
            (_, Pace::Open { .. }) => due.intended_ns,
        };
        (self.opens_ns..self.closes_ns).contains(&decides_ns)
    }

    /// What a client does after so many answers.
    fn go_on(&mut self, i: u32, answers: usize, now_ns: u64) {
        let client = &mut self.clients[i as usize];
        if !self.load.kept {
            client.disconnect();
        }
        match (self.load.pace, self.load.span) {
            (Pace::Open { .. }, _) => self.free.push_back((i, now_ns)),
            (_, Span::Requests(most)) if client.asked >= most => self.finish(i),
            (Pace::Closed { think }, _) if !think.is_zero() => {
                let until_ns = now_ns + think.as_nanos() as u64;
                self.timers.push(Reverse((until_ns, i)));
            }
            _ if !self.load.kept => self.connect(i, monotonic_ns()),
            _ => {
                for _ in 0..answers {
                    if self.clients[i as usize].state == State::Connected {
                        // In the closed loop a request is due when the answer before it is there.
                        self.ask(i, Due::at(now_ns));
                    }
                }
            }
        }
    }

    fn finish(&mut self, i: u32) {
        let client = &mut self.clients[i as usize];
        if client.under_way.is_empty() && client.state != State::Done {
            client.state = State::Done;
            self.unfinished -= 1;
        }
    }

    /// Counts what went wrong, and has the client rest.
    fn fail(&mut self, i: u32, trouble: Trouble) {
        let now_ns = monotonic_ns();
        self.tried(i);
        let is_idle = self.is_idle(i);
        let client = &mut self.clients[i as usize];
        let is_done = client.state == State::Done;
        if is_done {
            client.socket = None;
            return;
        }
        if trouble == Trouble::Timeout
            && let Some(due) = client.under_way.front().copied()
            && self.counts(due, now_ns)
        {
            record(&mut self.outcome.latency_ns, now_ns - due.intended_ns);
        }
        let client = &mut self.clients[i as usize];
        let was_free = client.state == State::Connected && client.under_way.is_empty();
        let lost = client.disconnect();
        trouble.count(&mut self.outcome.errors, lost.max(1) as u64);
        if is_idle {
            return;
        }
        if lost == 0 && !was_free {
            client.asked += 1; // the request for which it was to connect
        }
        if let (Span::Requests(most), true) = (self.load.span, self.is_closed())
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
                State::Connecting => Some(client.wanted),
                _ => client.under_way.front().copied(),
            };
            if oldest.is_some_and(|due| due.sent_ns + patience_ns < now_ns) {
                self.fail(i as u32, Trouble::Timeout);
            }
        }
    }
}

fn event_name(i: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(i)
}
