//! Accepts the connections of a trial's flows. Each flow has a key of its own, which its connection
//! sends first and which is good for one connection. A connection that sends something else, or
//! nothing, is closed and counted, and delays no other one. A live session accepts its connections in
//! the same way, without keys.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use bytecost_engine::servers::Addresses;
use bytecost_sys::clock;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::deadline::{self, after};
use crate::flow_key::{FlowKey, KEY_BYTES, UnusedKeys};
use crate::transports::Listener;

/// The most connections whose first bytes are awaited; of more, the oldest is closed.
const MAX_PENDING: usize = 64;
/// The longest time for the key of a trial's flow.
const KEY_TIMEOUT: Duration = Duration::from_secs(2);

/// Bounds of connections whose first bytes are awaited.
pub(crate) struct PendingLimits {
    /// Number of first bytes.
    pub(crate) length: usize,
    /// The longest time for them.
    pub(crate) timeout: Duration,
    /// Connections from one address; of more, the oldest is rejected.
    pub(crate) most_an_address: usize,
    /// Addresses that may connect; none at all lets all connect.
    pub(crate) allow: Vec<Addresses>,
}

impl PendingLimits {
    fn allows(&self, from: Option<IpAddr>) -> bool {
        let is_in = |ip: IpAddr| self.allow.iter().any(|a| a.contains(ip));
        self.allow.is_empty() || from.is_some_and(is_in)
    }
}

/// A connection whose first bytes are awaited.
pub(crate) struct PendingConnection {
    pub(crate) socket: OwnedFd,
    /// Bytes received so far.
    pub(crate) received: Vec<u8>,
    from: Option<IpAddr>,
    until_ns: u64,
}

impl PendingConnection {
    /// Receives without waiting, at most `length` bytes in all. Returns true if all of them are there.
    fn receive(&mut self, length: usize) -> io::Result<bool> {
        let mut piece = [0; KEY_BYTES];
        loop {
            let missing = length - self.received.len();
            if missing == 0 {
                return Ok(true);
            }
            let room = &mut piece[..missing.min(KEY_BYTES)];
            match rustix::net::recv(&self.socket, room, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok((bytes, _)) => self.received.extend_from_slice(&piece[..bytes]),
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

/// The outcome of a connection.
pub(crate) enum Incoming {
    /// Its first bytes are there.
    Complete(PendingConnection),
    /// It is not accepted.
    Rejected(PendingConnection, Rejection),
}

/// The reason why a connection is not accepted.
pub(crate) enum Rejection {
    /// Its address may not connect.
    NotAllowed,
    /// There are too many.
    TooMany,
    /// Its first bytes did not come in time (`TimedOut`), or it was closed.
    Failed(io::Error),
}

/// Connections whose first bytes are awaited, all at the same time.
pub(crate) struct PendingConnections {
    limits: PendingLimits,
    waiting: Vec<PendingConnection>,
    decided: VecDeque<Incoming>,
}

impl PendingConnections {
    pub(crate) fn new(limits: PendingLimits) -> PendingConnections {
        PendingConnections {
            limits,
            waiting: Vec::new(),
            decided: VecDeque::new(),
        }
    }

    /// The next connection to any of these listeners whose first bytes are there, or that was rejected;
    /// none where there is none by `until_ns`.
    pub(crate) fn next(
        &mut self,
        listeners: &[Listener],
        until_ns: u64,
    ) -> io::Result<Option<Incoming>> {
        loop {
            if let Some(incoming) = self.decided.pop_front() {
                return Ok(Some(incoming));
            }
            let deadlines_ns = self.waiting.iter().map(|g| g.until_ns);
            let wake_ns = deadlines_ns.fold(until_ns, u64::min);
            let wait_ns = wake_ns.saturating_sub(clock::monotonic_ns());
            let sockets = listeners.iter().map(|l| l.socket());
            let all = sockets.chain(self.waiting.iter().map(|g| g.socket.as_fd()));
            let mut polled: Vec<PollFd<'_>> = all
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
                .collect();
            let mut ready = deadline::ready(&mut polled, wait_ns)?;
            let readable = ready.split_off(listeners.len());
            let now_ns = clock::monotonic_ns();
            // From behind, so that those before keep their places.
            for at in (0..readable.len()).rev() {
                match readable[at].then(|| self.waiting[at].receive(self.limits.length)) {
                    Some(Ok(true)) => {
                        let connection = self.waiting.remove(at);
                        self.decided.push_back(Incoming::Complete(connection));
                    }
                    Some(Err(why)) => self.reject(at, Rejection::Failed(why)),
                    _ if self.waiting[at].until_ns <= now_ns => {
                        self.reject(at, Rejection::Failed(io::ErrorKind::TimedOut.into()));
                    }
                    _ => {}
                }
            }
            for (listener, _) in listeners.iter().zip(&ready).filter(|(_, ready)| **ready) {
                self.accept(listener.accept(Duration::ZERO));
            }
            if self.decided.is_empty() && now_ns >= until_ns {
                return Ok(None);
            }
        }
    }

    /// Adds an accepted connection, unless it is gone again or there is no descriptor for it.
    fn accept(&mut self, accepted: io::Result<OwnedFd>) {
        let Ok(socket) = accepted else {
            // A shortage of descriptors lasts longer: without a pause, accept(2) would be called in a loop.
            clock::sleep_until_ns(clock::monotonic_ns() + 1_000_000);
            return;
        };
        let from = address(&socket).map(|a| a.ip().to_canonical());
        let of_same = |g: &PendingConnection| g.from == from;
        let same = self.waiting.iter().filter(|g| of_same(g)).count();
        let oldest = self.waiting.iter().position(of_same);
        self.waiting.push(PendingConnection {
            socket,
            received: Vec::new(),
            from,
            until_ns: after(self.limits.timeout),
        });
        let newest = self.waiting.len() - 1;
        if !self.limits.allows(from) {
            self.reject(newest, Rejection::NotAllowed);
        } else if let Some(oldest) = oldest.filter(|_| same >= self.limits.most_an_address) {
            self.reject(oldest, Rejection::TooMany);
        } else if newest == MAX_PENDING {
            self.reject(0, Rejection::TooMany);
        }
    }

    fn reject(&mut self, at: usize, why: Rejection) {
        let connection = self.waiting.remove(at);
        self.decided.push_back(Incoming::Rejected(connection, why));
    }
}

/// Accepts the connections of a trial's flows, which it knows by their keys.
pub(crate) struct FlowAcceptor {
    keys: UnusedKeys,
    pending: PendingConnections,
    /// Connections that were closed.
    strangers: u64,
}

impl FlowAcceptor {
    /// Expects a connection for each of these keys.
    pub(crate) fn new(keys: &[FlowKey]) -> FlowAcceptor {
        FlowAcceptor {
            keys: UnusedKeys::new(keys),
            pending: PendingConnections::new(PendingLimits {
                length: KEY_BYTES,
                timeout: KEY_TIMEOUT,
                most_an_address: usize::MAX,
                allow: Vec::new(),
            }),
            strangers: 0,
        }
    }

    /// Number of connections that were closed so far.
    pub(crate) fn strangers(&self) -> u64 {
        self.strangers
    }

    /// The next connection to any of these listeners that sends a key, and the flow that it is for.
    pub(crate) fn next(
        &mut self,
        listeners: &[Listener],
        timeout: Duration,
    ) -> io::Result<(usize, OwnedFd)> {
        let until_ns = after(timeout);
        while let Some(incoming) = self.pending.next(listeners, until_ns)? {
            if let Incoming::Complete(connection) = incoming
                && let Some(key) = connection.received.first_chunk()
                && let Some(flow) = self.keys.use_up(&FlowKey::from_bytes(*key))
            {
                return Ok((flow, connection.socket));
            }
            self.strangers += 1;
        }
        let others = self.strangers;
        let why = format!(
            "no connection came: did the other side start? ({others} others were turned away)"
        );
        Err(io::Error::new(io::ErrorKind::TimedOut, why))
    }
}

/// The address of a connection's other end; none of one that is gone.
pub(crate) fn address(socket: &OwnedFd) -> Option<SocketAddr> {
    let address = rustix::net::getpeername(socket).ok()?;
    SocketAddr::try_from(address?).ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::transports::{Socket, connect, listen};
    use bytecost_spec::Cell;

    const LONG: Duration = Duration::from_secs(60);

    fn listening() -> (Cell, [Listener; 1]) {
        let cell = Cell::default();
        let listener = listen(&cell, None).unwrap();
        (cell, [listener])
    }

    #[test]
    fn each_flow_is_known_by_its_key_which_is_used_up_whatever_the_order() {
        let (cell, listeners) = listening();
        let keys = FlowKey::several(3).unwrap();
        let mut acceptor = FlowAcceptor::new(&keys);
        let mut say = |key: &FlowKey, flow: Option<usize>| {
            let socket = connect(&cell, &listeners[0].address(), LONG).unwrap();
            key.send(&mut Socket(&socket)).unwrap();
            let timeout = flow.map_or(Duration::from_millis(5), |_| LONG);
            let came = acceptor.next(&listeners, timeout);
            assert_eq!(came.ok().map(|(number, _)| number), flow);
            acceptor.strangers
        };
        say(&keys[2], Some(2));
        for stranger in [keys[2], FlowKey::default(), FlowKey::new().unwrap()] {
            say(&stranger, None);
        }
        say(&keys[0], Some(0));
        assert_eq!(say(&keys[1], Some(1)), 3);
    }

    // Invariant 8.
    #[test]
    fn strangers_who_say_nothing_or_drip_or_rave_keep_nobody_waiting() {
        let (cell, listeners) = listening();
        let at = listeners[0].address();
        let strange = |say: &[u8]| {
            let socket = connect(&cell, &at, LONG).unwrap();
            Socket(&socket).write_all(say).unwrap();
            socket
        };
        let many = 3 * MAX_PENDING;
        let silent: Vec<OwnedFd> = (0..many).map(|_| strange(b"")).collect();
        let dripping = strange(b"1");
        let raving = strange(&[7; 4096]);
        let keys = FlowKey::several(1).unwrap();
        let known = connect(&cell, &at, LONG).unwrap();
        keys[0].send(&mut Socket(&known)).unwrap();
        let mut acceptor = FlowAcceptor::new(&keys);
        assert_eq!(acceptor.next(&listeners, LONG).unwrap().0, 0);
        let pending = &acceptor.pending;
        let counted = pending.decided.len() + pending.waiting.len();
        assert_eq!(acceptor.strangers + counted as u64, many as u64 + 2);
        assert!(pending.waiting.len() <= MAX_PENDING);
        drop((silent, dripping, raving));
    }

    // Invariant 8.
    #[test]
    fn connections_of_an_address_are_bounded_and_the_newest_is_heard() {
        let (cell, listeners) = listening();
        let at = listeners[0].address();
        let mut pending = PendingConnections::new(PendingLimits {
            length: 1,
            timeout: LONG,
            most_an_address: 2,
            allow: Vec::new(),
        });
        let mut next = || pending.next(&listeners, u64::MAX / 2).unwrap().unwrap();
        let _silent: [_; 4] = std::array::from_fn(|_| connect(&cell, &at, LONG).unwrap());
        for _ in 0..2 {
            let too_many = next();
            assert!(matches!(
                too_many,
                Incoming::Rejected(_, Rejection::TooMany)
            ));
        }
        let spoken = connect(&cell, &at, LONG).unwrap();
        Socket(&spoken).write_all(b"1").unwrap();
        while !matches!(next(), Incoming::Complete(_)) {}
    }
}
