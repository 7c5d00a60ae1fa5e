//! Who comes to a sender: clients, flows of the session that is gathered, strangers, side by side.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use bytecost_spec::{Axis, units};
use bytecost_sys::clock;
use rustix::net::Shutdown;

use super::greeting::{self, SessionWord};
use super::session_key::{Cipher, GREETING_BYTES, SessionKey};
use super::wire::{Control, after, peer};
use super::{Admission, PATIENCE, SessionEvent, TURN};
use crate::greeters::{Came, FlowKey, Greeters, Hearing, Newcomer, Unheard, address};
use crate::transports::{Listener, Socket};

/// Connections from one address that may be about to speak, beside the gathered session's flows.
const MOST_GREETED_AN_ADDRESS: usize = 4;
/// Clients that may wait for their turn.
const MOST_WAITING: usize = 8;
/// Refused connections that are kept until they have heard it; of more, the oldest is closed.
const MOST_PARTING: usize = 32;
/// Connections turned away that are told one by one; more are only counted.
const MOST_TOLD: u64 = 20;
/// Seen to at a time, so that a crowd does not keep the server from its session.
const MOST_AT_ONCE: usize = 256;

pub(super) struct WaitingClient {
    pub(super) control: Control,
    pub(super) from: String,
    pub(super) wishes: Vec<(Axis, String)>,
    until_ns: u64,
}

/// What a connection is to say next.
#[derive(Default)]
pub(super) enum AwaitedWord {
    /// That it opens a session, or the key of a flow.
    #[default]
    Opening,
    /// The greeting by this key.
    Proof(SessionKey),
    /// What session it wants.
    Hello(Cipher),
}

/// Who has come in and was not yet seen to.
pub(super) struct AcceptQueue {
    listener: [Listener; 1],
    key: Option<SessionKey>,
    greeters: Greeters<AwaitedWord>,
    turned_away: u64,
    waiting: VecDeque<WaitingClient>,
    /// Those who were refused before they had spoken, and until when they may.
    parting: VecDeque<(Control, u64)>,
    /// A place for each flow of the session that is gathered.
    expected: Vec<Option<OwnedFd>>,
}

impl AcceptQueue {
    pub(super) fn new(listener: Listener, access: &Admission) -> AcceptQueue {
        AcceptQueue {
            listener: [listener],
            key: access.key.clone(),
            greeters: Greeters::hearing(Hearing {
                patience: PATIENCE,
                most_an_address: MOST_GREETED_AN_ADDRESS,
                allow: access.allow.clone(),
            }),
            turned_away: 0,
            waiting: VecDeque::new(),
            parting: VecDeque::new(),
            expected: Vec::new(),
        }
    }

    /// Sees to whoever comes in within `patience`; with no patience to those who are there.
    pub(super) fn look(&mut self, patience: Duration, events: &mut dyn FnMut(SessionEvent)) {
        let mut until_ns = after(patience);
        for _ in 0..MOST_AT_ONCE {
            let Ok(came) = self.greeters.come(&self.listener, until_ns) else {
                break;
            };
            until_ns = 0;
            match came {
                Came::Flow(flow, socket) => self.expected[flow] = Some(socket),
                Came::Said(newcomer) => match self.heard(newcomer) {
                    Ok(Some(client)) if self.waiting.len() < MOST_WAITING => {
                        self.waiting.push_back(client);
                    }
                    Ok(Some(client)) => self.turn_away(client, BUSY, events),
                    Ok(None) => {}
                    Err(why) => self.tell(why, events),
                },
                Came::Unheard(newcomer, why) => self.unheard(newcomer, why, events),
            }
        }
        let now_ns = clock::monotonic_ns();
        self.parting.retain(|(_, until_ns)| *until_ns > now_ns);
        while self.waiting.front().is_some_and(|c| c.until_ns <= now_ns) {
            if let Some(client) = self.waiting.pop_front() {
                self.turn_away(client, BUSY, events);
            }
        }
    }

    /// Takes what a connection has said: a client, where that was all; else why it is none.
    fn heard(
        &mut self,
        mut newcomer: Newcomer<AwaitedWord>,
    ) -> Result<Option<WaitingClient>, String> {
        let from = peer(&newcomer.socket);
        let said = std::mem::take(&mut newcomer.said);
        let stage = match std::mem::take(&mut newcomer.stage) {
            AwaitedWord::Opening => match self.opened(&said, &from) {
                Ok(stage) => stage,
                Err((refusal, why)) => {
                    if let Some(refusal) = refusal {
                        self.refuse(Control::in_clear(newcomer.socket), &refusal);
                    }
                    return Err(why);
                }
            },
            AwaitedWord::Proof(key) => {
                let cipher = key.greet(true, &said[..], Socket(&newcomer.socket));
                AwaitedWord::Hello(cipher.map_err(|e| unheard(&from, &e))?)
            }
            AwaitedWord::Hello(cipher) => {
                let word = cipher.read(&mut &said[..]);
                let socket = newcomer.socket;
                let control = Control { socket, cipher };
                return self.client(control, from, word).map(Some);
            }
        };
        let most = match &stage {
            AwaitedWord::Hello(cipher) => cipher.most(),
            AwaitedWord::Opening | AwaitedWord::Proof(_) => GREETING_BYTES,
        };
        self.greeters.hear_frame(newcomer, most, stage);
        Ok(None)
    }

    fn client(
        &mut self,
        control: Control,
        from: String,
        word: io::Result<SessionWord>,
    ) -> Result<WaitingClient, String> {
        match word {
            Ok(SessionWord::Hello { version, wishes })
                if version == greeting::VERSION && wishes.len() <= greeting::MAX_WISHES =>
            {
                Ok(WaitingClient {
                    control,
                    from,
                    wishes,
                    until_ns: after(TURN),
                })
            }
            Ok(_) => {
                self.refuse(control, "the first word is a greeting");
                Err(format!("protocol error: unexpected message from {from}"))
            }
            Err(e) => Err(unheard(&from, &e)),
        }
    }

    /// What it is to say next; else what it is told, and what the server's user is.
    fn opened(&self, said: &[u8], from: &str) -> Result<AwaitedWord, (Option<String>, String)> {
        let opened = said.first_chunk().and_then(greeting::opened);
        Err(match (opened, &self.key) {
            (None, _) => (None, format!("{from} is of no session that is served")),
            (Some((version, _)), _) if version != greeting::VERSION => {
                let why = format!(
                    "the client speaks version {version} and the server version {}: use the same bytecost on both ends",
                    greeting::VERSION
                );
                (Some(why.clone()), format!("{from}: {why}"))
            }
            (Some((_, false)), None) => return Ok(AwaitedWord::Hello(Cipher::default())),
            (Some((_, true)), Some(key)) => return Ok(AwaitedWord::Proof(key.clone())),
            (Some((_, false)), Some(_)) => {
                let refusal = "sessions here need the sender's key: give it with --key-file";
                (Some(refusal.to_owned()), format!("{from} has no key"))
            }
            (Some((_, true)), None) => {
                let why = "wants a session with a key, and this sender has none";
                (None, format!("{from} {why}: give it one with --key-file"))
            }
        })
    }

    fn unheard(
        &mut self,
        newcomer: Newcomer<AwaitedWord>,
        why: Unheard,
        events: &mut dyn FnMut(SessionEvent),
    ) {
        match why {
            Unheard::NotAllowed => {
                let ip = address(&newcomer.socket).map(|a| a.ip().to_canonical());
                let from = ip.map_or_else(|| peer(&newcomer.socket), |ip| ip.to_string());
                let refusal = "your address is not among those that --allow names";
                self.refuse(Control::in_clear(newcomer.socket), refusal);
                self.tell(format!("{from}: --allow does not name its address"), events);
            }
            Unheard::TooMany(why) => {
                self.refuse(Control::in_clear(newcomer.socket), why);
                self.turned_away += 1;
            }
            Unheard::Failed(e) => self.tell(unheard(&peer(&newcomer.socket), &e), events),
        }
    }

    /// Says no, the last word. It may still be speaking: closed at once, it might not hear that.
    fn refuse(&mut self, control: Control, reason: &str) {
        let reason = reason.to_owned();
        if control.say(&SessionWord::Refused { reason }).is_ok() {
            let _ = rustix::net::shutdown(&control.socket, Shutdown::Write);
        }
        if self.parting.len() == MOST_PARTING {
            self.parting.pop_front();
        }
        self.parting.push_back((control, after(TURN)));
    }

    pub(super) fn next(&mut self) -> Option<WaitingClient> {
        self.waiting.pop_front()
    }

    /// Connections that did not become part of a session.
    pub(super) fn turned_away(&self) -> u64 {
        self.turned_away + self.greeters.strangers()
    }

    pub(super) fn expect(&mut self, client: &WaitingClient, keys: &[FlowKey]) {
        let from = address(&client.control.socket).map(|a| a.ip().to_canonical());
        self.greeters.expect(keys, from);
        self.expected = keys.iter().map(|_| None).collect();
    }

    /// The flows that were expected, once all have come in.
    pub(super) fn gathered(&mut self) -> Option<Vec<OwnedFd>> {
        if !self.expected.iter().all(Option::is_some) {
            return None;
        }
        let flows = std::mem::take(&mut self.expected);
        self.give_up();
        Some(flows.into_iter().flatten().collect())
    }

    /// Expects nobody any more: flows that have come in are closed.
    pub(super) fn give_up(&mut self) {
        self.greeters.expect(&[], None);
        self.expected.clear();
    }

    pub(super) fn turn_away(
        &mut self,
        client: WaitingClient,
        why: &str,
        events: &mut dyn FnMut(SessionEvent),
    ) {
        self.refuse(client.control, why);
        self.tell(format!("{}: {why}", client.from), events);
    }

    fn tell(&mut self, why: String, events: &mut dyn FnMut(SessionEvent)) {
        self.turned_away += 1;
        if self.turned_away <= MOST_TOLD {
            events(SessionEvent::TurnedAway(why));
        }
    }

    pub(super) fn close(&mut self) {
        while let Some(client) = self.waiting.pop_front() {
            self.refuse(client.control, "the server is ending");
        }
    }
}

fn unheard(from: &str, error: &io::Error) -> String {
    let what = match error.kind() {
        io::ErrorKind::TimedOut => {
            let most = units::duration(PATIENCE);
            return format!("{from} did not say who it is within {most}");
        }
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
            "went away before it said who it is"
        }
        io::ErrorKind::PermissionDenied => "did not prove that it has the key",
        io::ErrorKind::InvalidData => "said what bytecost does not understand",
        _ => &units::one_line(&error.to_string()),
    };
    format!("{from} {what}")
}

const BUSY: &str = "the server is busy with another session, and two would measure each other: try again when it has ended";
