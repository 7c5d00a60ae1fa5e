//! Who may connect: each flow has a key of its own, which its connection says first and which is
//! used up at first sight. Whoever says something else, or nothing, is dropped and counted, and
//! keeps nobody waiting. A live session listens to those who say something else: its port is also
//! where sessions are opened.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::str::FromStr;
use std::time::Duration;

use bytecost_spec::units;
use bytecost_sys::clock;
use ipnet::IpNet;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::flow_key::UnusedKeys;
pub use crate::flow_key::{FlowKey, KEY_BYTES};
use crate::protocol::{self, LENGTH_BYTES};
use crate::socket;
use crate::transports::Listener;

/// Connections that may be about to say who they are; of more, the oldest is dropped.
const MOST_GREETED: usize = 64;
/// How long a flow of a trial may take to say its key; silence costs nobody else's time.
const KEY_WITHIN: Duration = Duration::from_secs(2);

/// One address, or all that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses(IpNet);

impl FromStr for Addresses {
    type Err = String;

    fn from_str(text: &str) -> Result<Addresses, String> {
        let one = text.parse::<IpAddr>().map(IpNet::from).ok();
        let all = one.or_else(|| text.parse().ok());
        all.map(Addresses).ok_or_else(|| {
            format!(
                "`{}` is no IP address: write one such as 192.0.2.7, or 192.0.2.0/24 for all that begin with these 24 bits",
                units::one_line(text)
            )
        })
    }
}

/// Who is heard, and for how long.
pub(crate) struct Hearing {
    pub(crate) patience: Duration,
    /// Connections from one address that may be about to say who they are.
    pub(crate) most_an_address: usize,
    /// Addresses that may connect; none at all lets all connect.
    pub(crate) allow: Vec<Addresses>,
}

impl Hearing {
    fn allows(&self, from: Option<IpAddr>) -> bool {
        let is_in = |from: IpAddr| self.allow.iter().any(|a| a.0.contains(&from));
        self.allow.is_empty() || from.is_some_and(is_in)
    }
}

/// A connection that is about to say who it is: a key, or more where somebody listens to more.
pub(crate) struct Newcomer<S = ()> {
    pub(crate) socket: OwnedFd,
    /// What it has said since it was last listened to.
    pub(crate) said: Vec<u8>,
    /// What it said before that, to those who listen to more than keys.
    pub(crate) stage: S,
    from: Option<IpAddr>,
    until_ns: u64,
    /// The longest frame that it may say; none is a key.
    frame: Option<usize>,
}

impl<S> Newcomer<S> {
    /// Takes what it has said so far, and no more than it is to say; whether that is all of it.
    /// Waits for nothing.
    fn hear(&mut self) -> io::Result<bool> {
        let mut piece = [0; 512];
        loop {
            let wanted = match (self.frame, self.said.first_chunk()) {
                (None, _) => KEY_BYTES,
                (Some(_), None) => LENGTH_BYTES,
                (Some(most), Some(length)) => LENGTH_BYTES + protocol::length(*length, most)?,
            };
            let missing = wanted - self.said.len();
            if missing == 0 {
                return Ok(true);
            }
            let room = &mut piece[..missing.min(512)];
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

pub(crate) enum Came<S> {
    /// The flow whose key it said.
    Flow(usize, OwnedFd),
    /// One that has said all it was to say, which is no key of a flow.
    Said(Newcomer<S>),
    /// One that is listened to no longer, and why.
    Unheard(Newcomer<S>, Unheard),
}

pub(crate) enum Unheard {
    /// Its address is none that may connect.
    NotAllowed,
    /// There are too many: what it is told.
    TooMany(&'static str),
    /// It was silent (`TimedOut`), went away, or said what is too long (`InvalidData`).
    Failed(io::Error),
}

/// Those who have connected, heard side by side.
pub(crate) struct Greeters<S = ()> {
    keys: UnusedKeys,
    /// Whose connections are not counted, since flows are expected from there.
    expected_from: Option<IpAddr>,
    hearing: Hearing,
    greeted: Vec<Newcomer<S>>,
    came: VecDeque<Came<S>>,
    /// Connections that were dropped by [`Greeters::next`].
    strangers: u64,
}

impl Greeters {
    /// Expects a connection for each of these keys.
    pub(crate) fn new(keys: &[FlowKey]) -> Greeters {
        let mut greeters = Greeters::hearing(Hearing {
            patience: KEY_WITHIN,
            most_an_address: usize::MAX,
            allow: Vec::new(),
        });
        greeters.expect(keys, None);
        greeters
    }

    /// The next connection to any of these listeners that says a key, and whose that is.
    pub(crate) fn next(
        &mut self,
        listeners: &[Listener],
        patience: Duration,
    ) -> io::Result<(usize, OwnedFd)> {
        let until_ns = clock::monotonic_ns().saturating_add(patience.as_nanos() as u64);
        loop {
            match self.come(listeners, until_ns)? {
                Came::Flow(flow, socket) => return Ok((flow, socket)),
                Came::Said(_) | Came::Unheard(..) => self.strangers += 1,
            }
        }
    }
}

impl<S: Default> Greeters<S> {
    /// Expects no key so far.
    pub(crate) fn hearing(hearing: Hearing) -> Greeters<S> {
        Greeters {
            keys: UnusedKeys::default(),
            expected_from: None,
            hearing,
            greeted: Vec::new(),
            came: VecDeque::new(),
            strangers: 0,
        }
    }

    /// Expects a connection for each of these keys; those from that address are not counted.
    pub(crate) fn expect(&mut self, keys: &[FlowKey], from: Option<IpAddr>) {
        self.came.retain(|came| !matches!(came, Came::Flow(..)));
        self.keys = UnusedKeys::new(keys);
        self.expected_from = from;
    }

    /// Connections that were not expected, but for those that [`Greeters::come`] has given out.
    pub(crate) fn strangers(&self) -> u64 {
        let others = self.came.iter().filter(|c| !matches!(c, Came::Flow(..)));
        self.strangers + others.count() as u64
    }

    /// Listens on to one that has come, within its time: for a frame of at most so many bytes.
    pub(crate) fn hear_frame(&mut self, newcomer: Newcomer<S>, most: usize, stage: S) {
        self.greeted.push(Newcomer {
            said: Vec::new(),
            stage,
            frame: Some(most),
            ..newcomer
        });
    }

    /// Who comes next to any of these listeners; `TimedOut` when nobody has by then.
    pub(crate) fn come(&mut self, listeners: &[Listener], until_ns: u64) -> io::Result<Came<S>> {
        loop {
            if let Some(came) = self.came.pop_front() {
                return Ok(came);
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
                match spoken[at].then(|| self.greeted[at].hear()) {
                    Some(Ok(true)) => self.known(at),
                    Some(Err(why)) => self.drop(at, Unheard::Failed(why)),
                    _ if self.greeted[at].until_ns <= now_ns => {
                        self.drop(at, Unheard::Failed(io::ErrorKind::TimedOut.into()));
                    }
                    _ => {}
                }
            }
            for (listener, _) in listeners.iter().zip(&ready).filter(|(_, ready)| **ready) {
                self.welcome(listener.accept(Duration::ZERO));
            }
            if self.came.is_empty() && now_ns >= until_ns {
                let others = self.strangers();
                let why = format!(
                    "no connection came: did the other side start? ({others} others were turned away)"
                );
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
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
        let newcomer = Newcomer {
            socket,
            said: Vec::new(),
            stage: S::default(),
            from,
            until_ns: clock::monotonic_ns().saturating_add(patience_ns),
            frame: None,
        };
        let same = self.greeted.iter().filter(|g| g.from == from).count();
        let is_expected = from.is_some() && from == self.expected_from;
        self.greeted.push(newcomer);
        let newest = self.greeted.len() - 1;
        if !self.hearing.allows(from) {
            self.drop(newest, Unheard::NotAllowed);
        } else if same >= self.hearing.most_an_address && !is_expected {
            let why = "too many connections at once from your address: try again";
            self.drop(newest, Unheard::TooMany(why));
        } else if newest == MOST_GREETED {
            let why = "too many connections at once: try again";
            self.drop(0, Unheard::TooMany(why));
        }
    }

    fn drop(&mut self, at: usize, why: Unheard) {
        let newcomer = self.greeted.remove(at);
        self.came.push_back(Came::Unheard(newcomer, why));
    }

    /// The one at a place has said all that it was to say.
    fn known(&mut self, at: usize) {
        let newcomer = self.greeted.remove(at);
        let key = (newcomer.said.first_chunk()).filter(|_| newcomer.frame.is_none());
        let flow = key.and_then(|key| self.keys.use_up(&FlowKey::said(*key)));
        self.came.push_back(match flow {
            Some(flow) => Came::Flow(flow, newcomer.socket),
            None => Came::Said(newcomer),
        });
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
            greeters.strangers()
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
        assert_eq!(
            greeters.strangers() + greeters.greeted.len() as u64,
            many as u64 + 2
        );
        assert!(greeters.greeted.len() <= MOST_GREETED);
        drop((silent, dripping, raving));
    }

    // Invariant 8.
    #[test]
    fn who_may_connect_is_bounded_by_address_but_for_those_that_are_expected() {
        let (cell, listeners) = listening();
        let at = listeners[0].address();
        let mut greeters = Greeters::<()>::hearing(Hearing {
            patience: LONG,
            most_an_address: 2,
            allow: Vec::new(),
        });
        let _strangers: [_; 4] = std::array::from_fn(|_| connect(&cell, &at, LONG).unwrap());
        for _ in 0..2 {
            let too_many = greeters.come(&listeners, u64::MAX / 2).unwrap();
            assert!(matches!(too_many, Came::Unheard(_, Unheard::TooMany(_))));
        }
        let keys = FlowKey::several(1).unwrap();
        greeters.expect(&keys, Some(std::net::Ipv4Addr::LOCALHOST.into()));
        let expected = connect(&cell, &at, LONG).unwrap();
        keys[0].say(&expected).unwrap();
        let flow = greeters.come(&listeners, u64::MAX / 2).unwrap();
        assert!(matches!(flow, Came::Flow(0, _)), "a third");
    }
}
