//! Connections to a side that listens: first flows of a session, the next flows of the one that is
//! about to begin, and strangers.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use bytecost_engine::servers::Addresses;
use bytecost_spec::units;
use bytecost_sys::clock;

use super::greeting::{BadGreeting, GREETING_BYTES, Greeting, Kind};
use super::{LiveEvent, TIMEOUT, TURN};
use crate::deadline::after;
use crate::flow_acceptor::{
    Incoming, PendingConnection, PendingConnections, PendingLimits, Rejection, address,
};
use crate::transports::{Listener, Socket};

/// The most connections from one address whose eight bytes are awaited; the other side connects one
/// flow after the other.
const MOST_SILENT_AN_ADDRESS: usize = 4;
/// First flows that may wait for the end of a session.
const MOST_WAITING: usize = 8;
/// Connections turned away of which each has a line; more are only counted.
const MOST_LINES: u64 = 20;
/// The most connections handled at a time, so that a crowd does not keep the program from its session.
const MOST_AT_ONCE: usize = 256;

/// A connection that has begun with a greeting.
pub(super) struct Arrival {
    pub(super) socket: OwnedFd,
    pub(super) from: SocketAddr,
    pub(super) greeting: Greeting,
    until_ns: u64,
}

impl Arrival {
    pub(super) fn answer(&self, own: Greeting) -> io::Result<()> {
        Socket(&self.socket).write_all(&own.to_bytes())
    }
}

pub(super) struct AcceptQueue {
    listener: [Listener; 1],
    pending: PendingConnections,
    turned_away: u64,
    /// First flows.
    waiting: VecDeque<Arrival>,
    /// The address of the next flows, where a session gathers them.
    expected_from: Option<IpAddr>,
    next: VecDeque<Arrival>,
}

impl AcceptQueue {
    pub(super) fn new(listener: Listener, allow: &[Addresses]) -> AcceptQueue {
        AcceptQueue {
            listener: [listener],
            pending: PendingConnections::new(PendingLimits {
                length: GREETING_BYTES,
                timeout: TIMEOUT,
                most_an_address: MOST_SILENT_AN_ADDRESS,
                allow: allow.to_vec(),
            }),
            turned_away: 0,
            waiting: VecDeque::new(),
            expected_from: None,
            next: VecDeque::new(),
        }
    }

    /// Handles all connections that come within `timeout`, and then those that are there already.
    pub(super) fn accept_within(&mut self, timeout: Duration, events: &mut dyn FnMut(LiveEvent)) {
        let mut until_ns = after(timeout);
        for _ in 0..MOST_AT_ONCE {
            let Ok(Some(incoming)) = self.pending.next(&self.listener, until_ns) else {
                break;
            };
            until_ns = 0;
            let sorted = match incoming {
                Incoming::Complete(connection) => self.sort(connection),
                Incoming::Rejected(connection, why) => Err(rejected(&connection, &why)),
            };
            if let Err(why) = sorted {
                self.turned_away(why, events);
            }
        }
        let now_ns = clock::monotonic_ns();
        while self.waiting.front().is_some_and(|a| a.until_ns <= now_ns) {
            if let Some(why) = self.waiting.pop_front().map(|a| busy(&a)) {
                self.turned_away(why, events);
            }
        }
    }

    /// Queues a connection by its greeting; an error says why it belongs to no session.
    fn sort(&mut self, connection: PendingConnection) -> Result<(), String> {
        let Some(from) = address(&connection.socket) else {
            return Err("an unknown address: it went away".to_owned());
        };
        let greeting = connection.received.first_chunk().ok_or(BadGreeting::Magic);
        let greeting = match greeting.and_then(|bytes| Greeting::from_bytes(*bytes)) {
            Ok(greeting) => greeting,
            Err(e) => {
                if let BadGreeting::Version(_) = e {
                    let _ = Socket(&connection.socket).write_all(&BUSY.to_bytes());
                }
                return Err(format!("{from}: {e}"));
            }
        };
        let arrival = Arrival {
            socket: connection.socket,
            from,
            greeting,
            until_ns: after(TURN),
        };
        if greeting.flow == 0 {
            if self.waiting.len() == MOST_WAITING {
                return Err(busy(&arrival));
            }
            self.waiting.push_back(arrival);
        } else if self.expected_from == Some(from.ip()) && self.next.len() <= greeting.flow.into() {
            self.next.push_back(arrival);
        } else {
            return Err(format!(
                "{from}: its flow {} belongs to no session",
                greeting.flow
            ));
        }
        Ok(())
    }

    /// The first flow that has waited longest.
    pub(super) fn first(&mut self) -> Option<Arrival> {
        self.waiting.pop_front()
    }

    /// Accepts flows that are not the first from this address alone, or from none.
    pub(super) fn expect(&mut self, from: Option<IpAddr>) {
        self.expected_from = from;
        self.next.clear();
    }

    pub(super) fn next(&mut self) -> Option<Arrival> {
        self.next.pop_front()
    }

    pub(super) fn number_turned_away(&self) -> u64 {
        self.turned_away
    }

    pub(super) fn turned_away(&mut self, why: String, events: &mut dyn FnMut(LiveEvent)) {
        self.turned_away += 1;
        if self.turned_away <= MOST_LINES {
            events(LiveEvent::TurnedAway(why));
        }
    }
}

/// The greeting of a side that has another session.
const BUSY: Greeting = Greeting {
    kind: Kind::Busy,
    flow: 0,
    last_flow: 0,
    sizes: 0,
};

fn busy(arrival: &Arrival) -> String {
    let _ = arrival.answer(BUSY);
    format!("{}: this side is busy with another session", arrival.from)
}

fn rejected(connection: &PendingConnection, why: &Rejection) -> String {
    let from =
        address(&connection.socket).map_or("an unknown address".to_owned(), |a| a.to_string());
    let why = match why {
        Rejection::NotAllowed => "--allow does not name its address".to_owned(),
        Rejection::TooMany => "too many connections that say nothing".to_owned(),
        Rejection::Failed(e) => match e.kind() {
            io::ErrorKind::TimedOut => {
                format!(
                    "it did not say what it is within {}",
                    units::duration(TIMEOUT)
                )
            }
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
                "it went away before it said what it is".to_owned()
            }
            _ => units::one_line(&e.to_string()),
        },
    };
    format!("{from}: {why}")
}
