//! Where connections come in and say who they are, while the server does something else.
//!
//! However many there are, whatever they say or do not say: a bounded number of threads listens
//! to them, each for a bounded time.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Scope};
use std::time::Duration;

use bytecost_spec::{Axis, units};
use bytecost_sys::clock;
use rustix::net::{RecvFlags, Shutdown};

use super::greeting::{self, Answered, Said};
use super::wire::{Control, DeadlineReader, after, peer, peer_address};
use super::{Admission, LOOK, PATIENCE, SessionEvent, TURN};
use crate::greeters::{FlowKey, KEY_BYTES, UnusedKeys};
use crate::transports::Listen;

/// Connections that may be about to say who they are.
const MOST_GREETED: usize = 32;
/// Of these, connections from one address; the flows of the session that is being gathered are not
/// counted.
const MOST_GREETED_AN_ADDRESS: usize = 4;
/// Clients that may wait for their turn.
const MOST_WAITING: usize = 8;
/// Connections turned away that are told one by one; more are only counted.
const MOST_TOLD: u64 = 20;

/// A client that wants a session.
pub(super) struct WaitingClient {
    pub(super) control: Control,
    pub(super) from: String,
    pub(super) wishes: Vec<(Axis, String)>,
    until_ns: u64,
}

/// Who has come in.
pub(super) enum Incoming {
    Client(WaitingClient),
    Flow { socket: OwnedFd, key: FlowKey },
    Stranger(String),
}

/// Addresses of the connections that may be about to say who they are.
#[derive(Debug, Default)]
pub(super) struct Greeted {
    addresses: Mutex<Vec<IpAddr>>,
    /// Whose flows are being gathered.
    gathered: Mutex<Option<IpAddr>>,
}

impl Greeted {
    /// Takes one more, unless there are too many; why not.
    fn enter(&self, address: IpAddr) -> Result<(), &'static str> {
        let gathered = *self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        let mut addresses = self
            .addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if addresses.len() >= MOST_GREETED {
            return Err("too many connections at once: try again");
        }
        let same = addresses.iter().filter(|a| **a == address).count();
        if same >= MOST_GREETED_AN_ADDRESS && gathered != Some(address) {
            return Err("too many connections at once from your address: try again");
        }
        addresses.push(address);
        Ok(())
    }

    fn leave(&self, address: IpAddr) {
        let mut addresses = self
            .addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = addresses.iter().position(|a| *a == address) {
            addresses.swap_remove(at);
        }
    }

    fn gather(&self, address: Option<IpAddr>) {
        *self.gathered.lock().unwrap_or_else(PoisonError::into_inner) = address;
    }
}

/// Takes connections until `closing`; one thread for itself and one for each that is greeted.
pub(super) struct Acceptor<'a> {
    pub(super) listener: &'a (dyn Listen + Sync),
    pub(super) closing: &'a AtomicBool,
    pub(super) greeted: &'a Greeted,
    pub(super) access: &'a Admission,
    /// Connections sent away since there were too many at once.
    pub(super) excess: &'a AtomicU64,
}

impl<'a> Acceptor<'a> {
    /// The life of its thread.
    pub(super) fn keep<'s>(&self, scope: &'s Scope<'s, 'a>, tell: &SyncSender<Incoming>)
    where
        'a: 's,
    {
        let (closing, greeted, access) = (self.closing, self.greeted, self.access);
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
            let Some(from) = peer_address(&socket).map(|a| a.ip().to_canonical()) else {
                continue;
            };
            if !access.allows(from) {
                refuse(
                    &Control::in_clear(socket),
                    "your address is not among those that --allow names",
                );
                let why = format!("{from}: --allow does not name its address");
                if tell.try_send(Incoming::Stranger(why)).is_err() {
                    self.excess.fetch_add(1, Ordering::Relaxed);
                }
                continue;
            }
            if let Err(why) = greeted.enter(from) {
                refuse(&Control::in_clear(socket), why);
                self.excess.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let tell = tell.clone();
            let greeter = thread::Builder::new().spawn_scoped(scope, move || {
                let _ = tell.send(greet(socket, access, closing));
                greeted.leave(from);
            });
            if greeter.is_err() {
                greeted.leave(from);
                self.excess.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Listens to what a connection says first.
fn greet(socket: OwnedFd, access: &Admission, closing: &AtomicBool) -> Incoming {
    let from = peer(&socket);
    let mut first = [0; KEY_BYTES];
    let mut reader = DeadlineReader {
        socket: &socket,
        until_ns: after(PATIENCE),
        stop: closing,
    };
    if let Err(e) = reader.read_exact(&mut first) {
        return Incoming::Stranger(format!("{from} {}", unheard(&e)));
    }
    let Some((version, has_key)) = greeting::opened(&first) else {
        let key = FlowKey::said(first);
        return Incoming::Flow { socket, key };
    };
    if version != greeting::VERSION {
        let why = format!(
            "the client speaks version {version} and the server version {}: use the same bytecost on both ends",
            greeting::VERSION
        );
        refuse(&Control::in_clear(socket), &why);
        return Incoming::Stranger(format!("{from}: {why}"));
    }
    let control = match (&access.key, has_key) {
        (None, false) => Ok(Control::in_clear(socket)),
        (Some(key), true) => Control::with_key(socket, key, true, closing),
        (Some(_), false) => {
            refuse(
                &Control::in_clear(socket),
                "sessions here need the sender's key: give it with --key-file",
            );
            return Incoming::Stranger(format!("{from} has no key"));
        }
        (None, true) => {
            return Incoming::Stranger(format!(
                "{from} wants a session with a key, and this sender has none: give it one with --key-file"
            ));
        }
    };
    match control {
        Ok(control) => client(control, from, closing),
        Err(e) => Incoming::Stranger(format!("{from} {}", unheard(&e))),
    }
}

fn client(control: Control, from: String, closing: &AtomicBool) -> Incoming {
    match control.hear(after(PATIENCE), closing) {
        Ok(Said::Hello { version, wishes })
            if version == greeting::VERSION && wishes.len() <= greeting::MAX_WISHES =>
        {
            Incoming::Client(WaitingClient {
                control,
                from,
                wishes,
                until_ns: after(TURN),
            })
        }
        Ok(_) => {
            refuse(&control, "the first word is a greeting");
            Incoming::Stranger(format!("protocol error: unexpected message from {from}"))
        }
        Err(e) => Incoming::Stranger(format!("{from} {}", unheard(&e))),
    }
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
        io::ErrorKind::PermissionDenied => "did not prove that it has the key".to_owned(),
        io::ErrorKind::InvalidData => "said what bytecost does not understand".to_owned(),
        _ => units::one_line(&error.to_string()),
    }
}

/// Says no, and takes what has come, so that closing does not destroy the word on its way.
pub(super) fn refuse(control: &Control, reason: &str) {
    let reason = reason.to_owned();
    let socket = &control.socket;
    if control.say(&Answered::Refused { reason }).is_err() {
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
    greeted: &'a Greeted,
    /// The session that is being gathered: the keys of its flows, and a place for each.
    expected: Option<(UnusedKeys, Vec<Option<OwnedFd>>)>,
}

impl<'a> AcceptQueue<'a> {
    pub(super) fn new(
        incoming: Receiver<Incoming>,
        excess: &'a AtomicU64,
        greeted: &'a Greeted,
    ) -> AcceptQueue<'a> {
        AcceptQueue {
            incoming,
            excess,
            turned_away: 0,
            waiting: VecDeque::new(),
            greeted,
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
                Incoming::Flow { socket, key } => {
                    if let Some(why) = self.place(socket, &key) {
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
    fn place(&mut self, socket: OwnedFd, key: &FlowKey) -> Option<String> {
        if let Some((keys, places)) = &mut self.expected
            && let Some(flow) = keys.use_up(key)
            && let Some(place) = places.get_mut(flow)
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
    pub(super) fn expect(&mut self, client: &WaitingClient, keys: &[FlowKey]) {
        let from = peer_address(&client.control.socket);
        self.greeted.gather(from.map(|a| a.ip().to_canonical()));
        let places = keys.iter().map(|_| None).collect();
        self.expected = Some((UnusedKeys::new(keys), places));
    }

    /// The flows that were expected, once all have come in.
    pub(super) fn gathered(&mut self) -> Option<Vec<OwnedFd>> {
        let (_, places) = self.expected.as_ref()?;
        if !places.iter().all(Option::is_some) {
            return None;
        }
        let (_, places) = self.expected.take()?;
        self.greeted.gather(None);
        Some(places.into_iter().flatten().collect())
    }

    /// Expects nobody any more: flows that have come in are closed.
    pub(super) fn give_up(&mut self) {
        self.expected = None;
        self.greeted.gather(None);
    }

    /// Refuses a client, and tells it.
    pub(super) fn turn_away(
        &mut self,
        client: &WaitingClient,
        why: &str,
        events: &mut dyn FnMut(SessionEvent),
    ) {
        refuse(&client.control, why);
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
            refuse(&client.control, "the server is ending");
        }
    }
}

const BUSY: &str = "the server is busy with another session, and two would measure each other: try again when it has ended";
