//! Who may connect: each flow has a key of its own, which its connection says first and which is
//! used up at first sight. Whoever says something else, or nothing, is dropped and counted, and
//! keeps nobody waiting. A live session hears its connections in the same way, without keys.

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

use crate::flow_key::UnusedKeys;
pub use crate::flow_key::{FlowKey, KEY_BYTES};
use crate::socket;
use crate::transports::Listener;

/// Connections that may be about to say who they are; of more, the oldest is dropped.
const MOST_GREETED: usize = 64;
/// How long a flow of a trial may take to say its key; silence costs nobody else's time.
const KEY_WITHIN: Duration = Duration::from_secs(2);

/// Bounds of connections that have not said yet who they are.
pub(crate) struct Hearing {
    /// Bytes that each says first.
    pub(crate) length: usize,
    /// How long it may take for them.
    pub(crate) patience: Duration,
    /// Connections from one address; of more, the oldest is rejected.
    pub(crate) most_an_address: usize,
    /// Addresses that may connect; none at all lets all connect.
    pub(crate) allow: Vec<Addresses>,
}

impl Hearing {
    fn allows(&self, from: Option<IpAddr>) -> bool {
        let is_in = |from: IpAddr| self.allow.iter().any(|a| a.contains(from));
        self.allow.is_empty() || from.is_some_and(is_in)
    }
}

/// Connection that is about to say who it is.
pub(crate) struct Newcomer {
    pub(crate) socket: OwnedFd,
    /// Bytes that it has said so far.
    pub(crate) said: Vec<u8>,
    from: Option<IpAddr>,
    until_ns: u64,
}

impl Newcomer {
    /// Takes what it has said so far, at most so many bytes in all; whether that is all of it.
    /// Waits for nothing.
    fn receive(&mut self, length: usize) -> io::Result<bool> {
        let mut piece = [0; KEY_BYTES];
        loop {
            let missing = length - self.said.len();
            if missing == 0 {
                return Ok(true);
            }
            let room = &mut piece[..missing.min(KEY_BYTES)];
            match rustix::net::recv(&self.socket, room, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok((bytes, _)) => self.said.extend_from_slice(&piece[..bytes]),
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

pub(crate) enum Incoming {
    /// A connection that has said as many bytes as it is to say.
    Said(Newcomer),
    /// One that is heard no longer.
    Rejected(Newcomer, Rejection),
}

pub(crate) enum Rejection {
    /// Its address is none that may connect.
    NotAllowed,
    /// There are too many.
    TooMany,
    /// It was silent (`TimedOut`) or went away.
    Failed(io::Error),
}

/// Connections that have not said yet who they are, heard side by side.
pub(crate) struct Newcomers {
    hearing: Hearing,
    greeted: Vec<Newcomer>,
    came: VecDeque<Incoming>,
}

impl Newcomers {
    pub(crate) fn new(hearing: Hearing) -> Newcomers {
        Newcomers {
            hearing,
            greeted: Vec::new(),
            came: VecDeque::new(),
        }
    }

    /// The next connection to any of these listeners that has spoken or was rejected; none when
    /// there is none by then.
    pub(crate) fn next(
        &mut self,
        listeners: &[Listener],
        until_ns: u64,
    ) -> io::Result<Option<Incoming>> {
        loop {
            if let Some(came) = self.came.pop_front() {
                return Ok(Some(came));
            }
            let ends = self.greeted.iter().map(|g| g.until_ns);
            let wake_ns = ends.fold(until_ns, u64::min);
            let wait_ns = wake_ns.saturating_sub(clock::monotonic_ns());
            let sockets = listeners.iter().map(|l| l.socket());
            let all = sockets.chain(self.greeted.iter().map(|g| g.socket.as_fd()));
            let mut polled: Vec<PollFd<'_>> = all
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
                .collect();
            let mut ready = socket::ready(&mut polled, wait_ns)?;
            let spoken = ready.split_off(listeners.len());
            let now_ns = clock::monotonic_ns();
            // From behind, so that those before keep their places.
            for at in (0..spoken.len()).rev() {
                match spoken[at].then(|| self.greeted[at].receive(self.hearing.length)) {
                    Some(Ok(true)) => {
                        let newcomer = self.greeted.remove(at);
                        self.came.push_back(Incoming::Said(newcomer));
                    }
                    Some(Err(why)) => self.reject(at, Rejection::Failed(why)),
                    _ if self.greeted[at].until_ns <= now_ns => {
                        self.reject(at, Rejection::Failed(io::ErrorKind::TimedOut.into()));
                    }
                    _ => {}
                }
            }
            for (listener, _) in listeners.iter().zip(&ready).filter(|(_, ready)| **ready) {
                self.welcome(listener.accept(Duration::ZERO));
            }
            if self.came.is_empty() && now_ns >= until_ns {
                return Ok(None);
            }
        }
    }

    /// Listens to one more, where it is not gone again and there is a descriptor for it.
    fn welcome(&mut self, accepted: io::Result<OwnedFd>) {
        let Ok(socket) = accepted else {
            // What is scarce is so for longer than this; else it would be asked for without pause.
            clock::sleep_until_ns(clock::monotonic_ns() + 1_000_000);
            return;
        };
        let from = address(&socket).map(|a| a.ip().to_canonical());
        let patience_ns = self.hearing.patience.as_nanos() as u64;
        let of_same = |g: &Newcomer| g.from == from;
        let same = self.greeted.iter().filter(|g| of_same(g)).count();
        let oldest = self.greeted.iter().position(of_same);
        self.greeted.push(Newcomer {
            socket,
            said: Vec::new(),
            from,
            until_ns: clock::monotonic_ns().saturating_add(patience_ns),
        });
        let newest = self.greeted.len() - 1;
        if !self.hearing.allows(from) {
            self.reject(newest, Rejection::NotAllowed);
        } else if let Some(oldest) = oldest.filter(|_| same >= self.hearing.most_an_address) {
            self.reject(oldest, Rejection::TooMany);
        } else if newest == MOST_GREETED {
            self.reject(0, Rejection::TooMany);
        }
    }

    fn reject(&mut self, at: usize, why: Rejection) {
        let newcomer = self.greeted.remove(at);
        self.came.push_back(Incoming::Rejected(newcomer, why));
    }
}

/// Connections of a trial's flows, known by their keys among those of strangers.
pub(crate) struct Greeters {
    keys: UnusedKeys,
    newcomers: Newcomers,
    /// Connections that were dropped.
    strangers: u64,
}

impl Greeters {
    /// Expects a connection for each of these keys.
    pub(crate) fn new(keys: &[FlowKey]) -> Greeters {
        Greeters {
            keys: UnusedKeys::new(keys),
            newcomers: Newcomers::new(Hearing {
                length: KEY_BYTES,
                patience: KEY_WITHIN,
                most_an_address: usize::MAX,
                allow: Vec::new(),
            }),
            strangers: 0,
        }
    }

    /// Connections that were dropped so far.
    pub(crate) fn strangers(&self) -> u64 {
        self.strangers
    }

    /// The next connection to any of these listeners that says a key, and whose that is.
    pub(crate) fn next(
        &mut self,
        listeners: &[Listener],
        patience: Duration,
    ) -> io::Result<(usize, OwnedFd)> {
        let until_ns = clock::monotonic_ns().saturating_add(patience.as_nanos() as u64);
        while let Some(incoming) = self.newcomers.next(listeners, until_ns)? {
            if let Incoming::Said(newcomer) = incoming
                && let Some(key) = newcomer.said.first_chunk()
                && let Some(flow) = self.keys.use_up(&FlowKey::said(*key))
            {
                return Ok((flow, newcomer.socket));
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

/// The address of the other end.
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
        let mut greeters = Greeters::new(&keys);
        let mut say = |key: &FlowKey, flow: Option<usize>| {
            let socket = connect(&cell, &listeners[0].address(), LONG).unwrap();
            key.say(&socket).unwrap();
            let patience = flow.map_or(Duration::from_millis(5), |_| LONG);
            let came = greeters.next(&listeners, patience);
            assert_eq!(came.ok().map(|(flow, _)| flow), flow);
            greeters.strangers
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
        let many = 3 * MOST_GREETED;
        let silent: Vec<OwnedFd> = (0..many).map(|_| strange(b"")).collect();
        let dripping = strange(b"1");
        let raving = strange(&[7; 4096]);
        let keys = FlowKey::several(1).unwrap();
        let known = connect(&cell, &at, LONG).unwrap();
        keys[0].say(&known).unwrap();
        let mut greeters = Greeters::new(&keys);
        assert_eq!(greeters.next(&listeners, LONG).unwrap().0, 0);
        let newcomers = &greeters.newcomers;
        let known = newcomers.came.len() + newcomers.greeted.len();
        assert_eq!(greeters.strangers + known as u64, many as u64 + 2);
        assert!(newcomers.greeted.len() <= MOST_GREETED);
        drop((silent, dripping, raving));
    }

    // Invariant 8.
    #[test]
    fn connections_of_an_address_are_bounded_and_the_newest_is_heard() {
        let (cell, listeners) = listening();
        let at = listeners[0].address();
        let mut newcomers = Newcomers::new(Hearing {
            length: 1,
            patience: LONG,
            most_an_address: 2,
            allow: Vec::new(),
        });
        let mut next = || newcomers.next(&listeners, u64::MAX / 2).unwrap().unwrap();
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
        while !matches!(next(), Incoming::Said(_)) {}
    }
}
