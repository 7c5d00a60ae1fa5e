//! A session that runs: what both of its sides do alike.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytecost_spec::Side;
use bytecost_spec::hand::{Begun, Second, SessionEnd, SessionPart, Stretch};
use bytecost_sys::clock;

use super::flow_threads::{FlowThreads, is_cut, is_late};
use super::greeting::SessionWord;
use super::wire::{Control, after, is_readable};
use super::{GRACE, LAST_WORD, LOOK, PATIENCE, SessionEvent};
use crate::endpoint::explain;

/// How long a second's line of the receiving side waits for the sender's figures of it.
const PEER_LATE: Duration = Duration::from_millis(300);

/// One side of a session, and the other as it is heard.
pub(super) struct Session<'a> {
    pub(super) begun: Begun,
    pub(super) control: Control,
    pub(super) flow_threads: FlowThreads,
    pub(super) stop: &'a AtomicBool,
    /// How long it lasts at most, and how it has ended then.
    pub(super) most: Option<(Duration, SessionEnd)>,
    /// What became of the other side, where it can no longer be heard.
    broken: Option<&'static str>,
    asks_to_stop: bool,
    /// When this side goes whatever becomes of the other, where the user has ended the session.
    leave_ns: u64,
    /// Its last word.
    part: Option<SessionPart>,
    /// Its figures of the newest second that it told.
    heard: Option<(u64, Stretch)>,
    /// A second that waits for these, and until when.
    pending: Option<(Second, u64)>,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        begun: Begun,
        control: Control,
        flow_threads: FlowThreads,
        stop: &'a AtomicBool,
    ) -> Session<'a> {
        Session {
            begun,
            control,
            flow_threads,
            stop,
            most: None,
            broken: None,
            asks_to_stop: false,
            leave_ns: u64::MAX,
            part: None,
            heard: None,
            pending: None,
        }
    }

    fn sends(&self) -> bool {
        self.begun.own != Side::Receiver
    }

    pub(super) fn gone(&self) -> &'static str {
        match self.sends() {
            true => "the client went away in mid-session",
            false => "the server went away in mid-session",
        }
    }

    /// Has the flows begin, and tells second by second, until something ends the session.
    pub(super) fn watch(
        &mut self,
        events: &mut dyn FnMut(SessionEvent),
        mut aside: impl FnMut(&mut dyn FnMut(SessionEvent)),
    ) -> SessionEnd {
        self.flow_threads.go();
        let began_ns = clock::monotonic_ns();
        let most = self.most.as_ref();
        let over_ns = most.map_or(u64::MAX, |(most, _)| after(*most));
        let mut number = 1;
        loop {
            if let Some(end) = self.ended(over_ns) {
                return end;
            }
            let next_ns = began_ns + number * 1_000_000_000;
            let late_ns = self.pending.as_ref().map_or(u64::MAX, |(_, late)| *late);
            if is_readable(&self.control.socket, next_ns.min(over_ns).min(late_ns)) {
                self.hear(after(PATIENCE).min(over_ns));
            }
            self.tell(false, events);
            aside(events);
            if clock::monotonic_ns() >= next_ns && next_ns <= over_ns {
                self.second(number);
                self.tell(false, events);
                // Seconds that were slept through are not made up for.
                number = number.max((clock::monotonic_ns() - began_ns) / 1_000_000_000) + 1;
            }
        }
    }

    fn ended(&mut self, over_ns: u64) -> Option<SessionEnd> {
        if self.stop.load(Ordering::Relaxed) {
            self.leave_ns = after(GRACE);
            return Some(SessionEnd::Here);
        }
        if clock::monotonic_ns() >= over_ns {
            return self.most.as_ref().map(|(_, end)| end.clone());
        }
        let has_ended = self.flow_threads.has_ended();
        if !self.sends() {
            let is_over = has_ended || self.broken.is_some() || self.part.is_some();
            return is_over.then_some(SessionEnd::There);
        }
        // The client may have asked to stop and cut them off before this side looked up. And the
        // control connection may tell a moment later that its process is gone.
        let is_silent = !self.asks_to_stop && self.part.is_none() && self.broken.is_none();
        if has_ended && is_silent && is_readable(&self.control.socket, after(LOOK)) {
            self.hear(after(PATIENCE).min(over_ns));
        }
        let failed = |why: &str| Some(SessionEnd::Failed(why.to_owned()));
        match self.broken {
            _ if self.asks_to_stop || self.part.is_some() => Some(SessionEnd::There),
            Some(why) => failed(why),
            None if has_ended => failed("a flow ended before its time"),
            None => None,
        }
    }

    /// Reads what the flows did in a second. The sender's figures go to the other side at once.
    fn second(&mut self, number: u64) {
        let own = self.flow_threads.second();
        let mut wait = PEER_LATE;
        if self.sends() {
            let stretch = Box::new(own.clone());
            let word = SessionWord::Second { number, stretch };
            // What it said before it went is heard first.
            if self.control.say(&word).is_err() && !is_readable(&self.control.socket, 0) {
                self.broken = Some(self.gone());
            }
            wait = Duration::ZERO;
        }
        let peer = None;
        self.pending = Some((Second { number, own, peer }, after(wait)));
    }

    fn hear(&mut self, until_ns: u64) {
        // The caller's flag is of no use here: it may be set, and a word that began is soon whole.
        match (self.control.hear(until_ns, None), self.sends()) {
            (Ok(SessionWord::Second { number, stretch }), false) => {
                self.heard = Some((number, *stretch));
            }
            (Ok(SessionWord::Stop), true) => self.asks_to_stop = true,
            (Ok(SessionWord::Done(part)), _) => self.part = Some(*part),
            (Err(e), _) if e.kind() != io::ErrorKind::InvalidData => {
                self.broken = Some(self.gone());
            }
            _ => self.broken = Some("protocol error: unexpected message from the receiver"),
        }
    }

    /// Tells the second that waits, with the other side's figures, or without them when they are
    /// late or no more are to come.
    fn tell(&mut self, are_all_in: bool, events: &mut dyn FnMut(SessionEvent)) {
        let newest = self.heard.as_ref().map_or(0, |(number, _)| *number);
        let due = self.pending.take_if(|(second, late_ns)| {
            are_all_in || newest >= second.number || clock::monotonic_ns() >= *late_ns
        });
        if let Some((mut second, _)) = due {
            let heard = self.heard.take();
            let heard = heard.filter(|(number, _)| *number == second.number);
            second.peer = heard.map(|(_, stretch)| stretch);
            events(SessionEvent::Second(Box::new(second)));
        }
    }

    /// What the flows come to, and in words what went wrong with them. In a session that a side has
    /// ended, a flow that meets the other side's end was cut off: one of both did not keep up.
    pub(super) fn end_flows(&mut self, end: &SessionEnd) -> (SessionPart, Option<String>) {
        let (mut part, failed) = self.flow_threads.end_by(after(GRACE).min(self.leave_ns));
        let was_cut = match (&failed, end) {
            (Some(e), SessionEnd::Here | SessionEnd::Limit(_)) => is_cut(e) || is_late(e),
            (Some(e), SessionEnd::There) if is_cut(e) => {
                // A sender's client has said so; a client's server does not before its flows end.
                if !self.sends() {
                    self.hear_out(after(LAST_WORD), || {});
                }
                self.asks_to_stop || self.part.is_some()
            }
            _ => false,
        };
        part.cut |= was_cut;
        let explained = |e: io::Error| match is_cut(&e) {
            true => self.gone().to_owned(),
            false => explain(&e),
        };
        (part, failed.filter(|_| !was_cut).map(explained))
    }

    /// Hears the other side to its last word or end; a Ctrl-C that comes meanwhile ends the wait.
    fn hear_out(&mut self, until_ns: u64, mut aside: impl FnMut()) {
        let stop = self.stop.load(Ordering::Relaxed);
        while self.broken.is_none() && self.part.is_none() && clock::monotonic_ns() < until_ns {
            match is_readable(&self.control.socket, until_ns) {
                true => self.hear(until_ns),
                false if self.stop.load(Ordering::Relaxed) != stop => return,
                false => aside(),
            }
        }
    }

    /// Tells the other side what was done, and hears what it did.
    pub(super) fn last_words(
        &mut self,
        own: &SessionPart,
        end: &SessionEnd,
        events: &mut dyn FnMut(SessionEvent),
        mut aside: impl FnMut(&mut dyn FnMut(SessionEvent)),
    ) -> Option<SessionPart> {
        let _ = (self.control).say(&SessionWord::Done(Box::new(own.clone())));
        let is_there = own.failed.is_none() && (!own.cut || *end == SessionEnd::There);
        let until_ns = after(if is_there { LAST_WORD } else { GRACE });
        self.hear_out(until_ns.min(self.leave_ns), || aside(events));
        self.tell(true, events);
        self.part.take()
    }
}
