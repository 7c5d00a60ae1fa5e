//! Where connections come in and say who they are, while the server does something else.
//!
//! However many there are, whatever they say or do not say: a bounded number of threads listens
//! to them, each for a bounded time.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::thread::{self, Scope};
use std::time::Duration;

use bytecost_spec::{Axis, units};
use bytecost_sys::clock;
use rustix::net::{RecvFlags, Shutdown};

use super::greeting::{self, Answered, Said};
use super::wire::{DeadlineReader, after, hear, peer, say};
use super::{LOOK, PATIENCE, SessionEvent, TURN};
use crate::transports::Listen;

/// Connections that may be about to say who they are.
const MOST_GREETED: usize = 32;
/// Clients that may wait for their turn.
const MOST_WAITING: usize = 8;
/// Connections turned away that are told one by one; more are only counted.
const MOST_TOLD: u64 = 20;

/// A client that wants a session.
pub(super) struct WaitingClient {
    pub(super) socket: OwnedFd,
    pub(super) from: String,
    pub(super) wishes: Vec<(Axis, String)>,
    until_ns: u64,
}

/// Who has come in.
pub(super) enum Incoming {
    Client(WaitingClient),
    Flow {
        socket: OwnedFd,
        token: u64,
        flow: u32,
    },
    Stranger(String),
}

/// Takes connections until `closing`; one thread for itself and one for each that is greeted.
pub(super) struct Acceptor<'a> {
    pub(super) listener: &'a (dyn Listen + Sync),
    pub(super) closing: &'a AtomicBool,
    pub(super) greeted: &'a AtomicUsize,
    /// Connections sent away since there were too many at once.
    pub(super) excess: &'a AtomicU64,
}

impl<'a> Acceptor<'a> {
    /// The life of its thread.
    pub(super) fn keep<'s>(&self, scope: &'s Scope<'s, 'a>, tell: &SyncSender<Incoming>)
    where
        'a: 's,
    {
        let (closing, greeted) = (self.closing, self.greeted);
        while !closing.load(Ordering::Relaxed) {
            let socket = match self.listener.accept(LOOK) {
                Ok(socket) => socket,
                Err(e) if e.kind() == io::ErrorKind::TimedOut => continue,
                Err(_) => {
                    // Out of descriptors, or the peer was gone again: neither lasts.
                    thread::sleep(LOOK);
                    continue;
                }
            };
            if greeted.fetch_add(1, Ordering::AcqRel) >= MOST_GREETED {
                refuse(&socket, "too many connections at once: try again");
                greeted.fetch_sub(1, Ordering::AcqRel);
                self.excess.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let tell = tell.clone();
            let greeter = thread::Builder::new().spawn_scoped(scope, move || {
                let _ = tell.send(greet(socket, closing));
                greeted.fetch_sub(1, Ordering::AcqRel);
            });
            if greeter.is_err() {
                greeted.fetch_sub(1, Ordering::AcqRel);
                self.excess.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Listens to what a connection says first.
fn greet(socket: OwnedFd, closing: &AtomicBool) -> Incoming {
    let from = peer(&socket);
    match introduced(&socket, closing) {
        Ok((greeting::NAME, greeting::VERSION)) => client(socket, from, closing),
        Ok((greeting::NAME, other)) => {
            let why = format!(
                "the client speaks version {other} and the server version {}: use the same bytecost on both ends",
                greeting::VERSION
            );
            refuse(&socket, &why);
            Incoming::Stranger(format!("{from}: {why}"))
        }
        Ok((token, flow)) => Incoming::Flow {
            socket,
            token,
            flow,
        },
        Err(e) => Incoming::Stranger(format!("{from} {}", unheard(&e))),
    }
}

fn client(socket: OwnedFd, from: String, closing: &AtomicBool) -> Incoming {
    match hear(&socket, after(PATIENCE), closing) {
        Ok(Said::Hello { version, wishes })
            if version == greeting::VERSION && wishes.len() <= greeting::MAX_WISHES =>
        {
            Incoming::Client(WaitingClient {
                socket,
                from,
                wishes,
                until_ns: after(TURN),
            })
        }
        Ok(_) => {
            refuse(&socket, "the first word is a greeting");
            Incoming::Stranger(format!("protocol error: unexpected message from {from}"))
        }
        Err(e) => Incoming::Stranger(format!("{from} {}", unheard(&e))),
    }
}

/// The twelve bytes that each connection begins with.
fn introduced(socket: &OwnedFd, closing: &AtomicBool) -> io::Result<(u64, u32)> {
    let mut hello = [0; 12];
    DeadlineReader {
        socket,
        until_ns: after(PATIENCE),
        stop: closing,
    }
    .read_exact(&mut hello)?;
    let (mut token, mut number) = ([0; 8], [0; 4]);
    token.copy_from_slice(&hello[..8]);
    number.copy_from_slice(&hello[8..]);
    Ok((u64::from_le_bytes(token), u32::from_le_bytes(number)))
}

/// What became of a connection that said nothing sensible.
fn unheard(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut => {
            format!("did not say who it is within {}", units::duration(PATIENCE))
        }
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
            "went away before it said who it is".to_owned()
        }
        io::ErrorKind::InvalidData => "said what bytecost does not understand".to_owned(),
        _ => units::one_line(&error.to_string()),
    }
}

/// Says no, and takes what has come, so that closing does not destroy the word on its way.
pub(super) fn refuse(socket: &OwnedFd, reason: &str) {
    let reason = reason.to_owned();
    if say(socket, &Answered::Refused { reason }).is_err() {
        return;
    }
    let _ = rustix::net::shutdown(socket, Shutdown::Write);
    let mut taken = [0; 4096];
    let _ = rustix::net::recv(socket, &mut taken[..], RecvFlags::DONTWAIT);
}

/// Who has come in and was not yet seen to.
pub(super) struct AcceptQueue<'a> {
    pub(super) incoming: Receiver<Incoming>,
    pub(super) excess: &'a AtomicU64,
    pub(super) turned_away: u64,
    waiting: VecDeque<WaitingClient>,
    /// The session that is being gathered: its token, and a place for each flow.
    expected: Option<(u64, Vec<Option<OwnedFd>>)>,
}

impl<'a> AcceptQueue<'a> {
    pub(super) fn new(incoming: Receiver<Incoming>, excess: &'a AtomicU64) -> AcceptQueue<'a> {
        AcceptQueue {
            incoming,
            excess,
            turned_away: 0,
            waiting: VecDeque::new(),
            expected: None,
        }
    }

    /// Sees to whoever comes in within `patience`; with no patience to those who are there.
    pub(super) fn look(&mut self, patience: Duration, events: &mut dyn FnMut(SessionEvent)) {
        let mut patience = patience;
        while let Ok(next) = self.incoming.recv_timeout(patience) {
            patience = Duration::ZERO;
            match next {
                Incoming::Client(client) if self.waiting.len() < MOST_WAITING => {
                    self.waiting.push_back(client);
                }
                Incoming::Client(client) => self.turn_away(&client, BUSY, events),
                Incoming::Flow {
                    socket,
                    token,
                    flow,
                } => {
                    if let Some(why) = self.place(socket, token, flow) {
                        self.tell(why, events);
                    }
                }
                Incoming::Stranger(why) => self.tell(why, events),
            }
        }
        self.turned_away += self.excess.swap(0, Ordering::Relaxed);
        let now_ns = clock::monotonic_ns();
        while self.waiting.front().is_some_and(|c| c.until_ns <= now_ns) {
            if let Some(client) = self.waiting.pop_front() {
                self.turn_away(&client, BUSY, events);
            }
        }
    }

    /// Puts a flow's connection in its place; why not, where it has none.
    fn place(&mut self, socket: OwnedFd, token: u64, flow: u32) -> Option<String> {
        if let Some((wanted, places)) = &mut self.expected
            && *wanted == token
            && let Some(place @ None) = places.get_mut(flow as usize)
        {
            *place = Some(socket);
            return None;
        }
        Some(format!("{} is of no session that is served", peer(&socket)))
    }

    /// The client whose turn it is.
    pub(super) fn next(&mut self) -> Option<WaitingClient> {
        self.waiting.pop_front()
    }

    /// Expects the flows of a session.
    pub(super) fn expect(&mut self, token: u64, flows: u32) {
        self.expected = Some((token, (0..flows).map(|_| None).collect()));
    }

    /// The flows that were expected, once all have come in.
    pub(super) fn gathered(&mut self) -> Option<Vec<OwnedFd>> {
        let (_, places) = self.expected.as_ref()?;
        if !places.iter().all(Option::is_some) {
            return None;
        }
        let (_, places) = self.expected.take()?;
        Some(places.into_iter().flatten().collect())
    }

    /// Expects nobody any more: flows that have come in are closed.
    pub(super) fn give_up(&mut self) {
        self.expected = None;
    }

    /// Refuses a client, and tells it.
    pub(super) fn turn_away(
        &mut self,
        client: &WaitingClient,
        why: &str,
        events: &mut dyn FnMut(SessionEvent),
    ) {
        refuse(&client.socket, why);
        self.tell(format!("{}: {why}", client.from), events);
    }

    fn tell(&mut self, why: String, events: &mut dyn FnMut(SessionEvent)) {
        self.turned_away += 1;
        if self.turned_away <= MOST_TOLD {
            events(SessionEvent::TurnedAway { why });
        }
    }

    /// Refuses all who still wait.
    pub(super) fn close(&mut self) {
        for client in self.waiting.drain(..) {
            refuse(&client.socket, "the server is ending");
        }
    }
}

const BUSY: &str = "the server is busy with another session, and two would measure each other: try again when it has ended";
