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

/// Connections that may be about to say who they are; of more, the one that has waited longest is
/// dropped.
const MOST_GREETED: usize = 64;

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
#[derive(Clone, Debug)]
pub struct Hearing {
    /// How long a connection may take to say who it is.
    pub patience: Duration,
    /// Connections from one address that may be about to say it.
    pub most_an_address: usize,
    /// Addresses that may connect; none at all lets all connect.
    pub allow: Vec<Addresses>,
}

/// As for the flows of a trial, which say no more than their keys.
impl Default for Hearing {
    fn default() -> Hearing {
        Hearing {
            patience: Duration::from_millis(250),
            most_an_address: usize::MAX,
            allow: Vec::new(),
        }
    }
}

impl Hearing {
    fn allows(&self, from: Option<IpAddr>) -> bool {
        let is_in = |from: IpAddr| self.allow.iter().any(|a| a.0.contains(&from));
        self.allow.is_empty() || from.is_some_and(is_in)
    }
}

/// A connection that is about to say who it is: a key, or more where somebody listens to more.
pub struct Newcomer<S = ()> {
    /// The connection.
    pub socket: OwnedFd,
    /// What it has said since it was last listened to.
    pub said: Vec<u8>,
    /// What it said before that, to those who listen to more than keys.
    pub stage: S,
    from: Option<IpAddr>,
    until_ns: u64,
    /// The longest frame that it may say; none is a key.
    frame: Option<usize>,
}

impl<S> Newcomer<S> {
    /// How many bytes it is to say, as far as that is known.
    fn wanted(&self) -> io::Result<usize> {
        match (self.frame, self.said.first_chunk()) {
            (None, _) => Ok(KEY_BYTES),
            (Some(_), None) => Ok(LENGTH_BYTES),
            (Some(most), Some(length)) => Ok(LENGTH_BYTES + protocol::length(*length, most)?),
        }
    }

    /// Takes what it has said so far, and no more than it is to say; whether that is all of it.
    /// Waits for nothing.
    fn hear(&mut self) -> io::Result<bool> {
        let mut piece = [0; 512];
        loop {
            let missing = self.wanted()? - self.said.len();
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

/// Who has come.
pub enum Came<S> {
    /// The flow whose key it said.
    Flow(usize, OwnedFd),
    /// One that has said all it was to say, which is no key of a flow.
    Said(Newcomer<S>),
    /// One that is listened to no longer, and why.
    Unheard(Newcomer<S>, Unheard),
}

/// Why a connection is not listened to.
#[derive(Debug)]
pub enum Unheard {
    /// Its address is none that may connect.
    NotAllowed,
    /// There are too many: what it is told.
    TooMany(&'static str),
    /// It was silent (`TimedOut`), went away, or said what is too long (`InvalidData`).
    Failed(io::Error),
}

/// Those who have connected, heard side by side.
pub struct Greeters<S = ()> {
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
    pub fn new(keys: &[FlowKey]) -> Greeters {
        let mut greeters = Greeters::hearing(Hearing::default());
        greeters.expect(keys, None);
        greeters
    }

    /// The next connection to any of these listeners that says a key: whose it is, and the
    /// connection.
    ///
    /// # Errors
    /// As [`Greeters::come`].
    pub fn next(
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
    pub fn hearing(hearing: Hearing) -> Greeters<S> {
        Greeters {
            keys: UnusedKeys::default(),
            expected_from: None,
            hearing,
            greeted: Vec::new(),
            came: VecDeque::new(),
            strangers: 0,
        }
    }

    /// Expects a connection for each of these keys, and for no other. Those from that address
    /// may be as many as they are.
    pub fn expect(&mut self, keys: &[FlowKey], from: Option<IpAddr>) {
        self.came.retain(|came| !matches!(came, Came::Flow(..)));
        self.keys = UnusedKeys::new(keys);
        self.expected_from = from;
    }

    /// Connections that were none of those that were expected, but for those that
    /// [`Greeters::come`] has given out.
    pub fn strangers(&self) -> u64 {
        let others = self.came.iter().filter(|c| !matches!(c, Came::Flow(..)));
        self.strangers + others.count() as u64
    }

    /// Listens on to one that has come, within the time that it had: for a frame of at most so
    /// many bytes.
    pub fn hear_frame(&mut self, newcomer: Newcomer<S>, most: usize, stage: S) {
        self.greeted.push(Newcomer {
            said: Vec::new(),
            stage,
            frame: Some(most),
            ..newcomer
        });
    }

    /// Who comes next to any of these listeners, by then.
    ///
    /// # Errors
    /// `TimedOut` when nobody has come by `until_ns`, else what poll(2) answers.
    pub fn come(&mut self, listeners: &[Listener], until_ns: u64) -> io::Result<Came<S>> {
        loop {
            if let Some(came) = self.came.pop_front() {
                return Ok(came);
            }
            let ends = self.greeted.iter().map(|g| g.until_ns);
            let wake_ns = ends.fold(until_ns, u64::min);
            let wait_ns = wake_ns.saturating_sub(clock::monotonic_ns());
            let mut ready = self.ready(listeners, wait_ns)?;
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
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!(
                        "no connection came: did the other side start? ({} others were turned away)",
                        self.strangers()
                    ),
                ));
            }
        }
    }

    /// Waits no longer than so many ns: which of the listeners, and then of those who are greeted,
    /// there is something to hear of.
    fn ready(&self, listeners: &[Listener], wait_ns: u64) -> io::Result<Vec<bool>> {
        let sockets = listeners.iter().map(|l| l.socket());
        let greeted = self.greeted.iter().map(|g| g.socket.as_fd());
        let all = sockets.chain(greeted);
        let mut polled: Vec<PollFd<'_>> = all
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        socket::ready(&mut polled, wait_ns)
    }

    /// Listens to one more. A connection that is gone again, or for which there is no descriptor,
    /// is none.
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
        if !self.hearing.allows(from) {
            self.came
                .push_back(Came::Unheard(newcomer, Unheard::NotAllowed));
        } else if same >= self.hearing.most_an_address && !is_expected {
            let why = "too many connections at once from your address: try again";
            self.came
                .push_back(Came::Unheard(newcomer, Unheard::TooMany(why)));
        } else {
            self.greeted.push(newcomer);
        }
        if self.greeted.len() > MOST_GREETED {
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
        let key = newcomer
            .said
            .first_chunk()
            .filter(|_| newcomer.frame.is_none());
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
    use bytecost_spec::{Axis, Cell};

    const LONG: Duration = Duration::from_secs(60);

    fn listening(transport: &str) -> (Cell, [Listener; 1]) {
        let mut cell = Cell::default();
        cell.set(Axis::Transport, transport).unwrap();
        let listener = listen(&cell, None).unwrap();
        (cell, [listener])
    }

    #[test]
    fn each_flow_is_known_by_its_key_whatever_the_order() {
        for transport in ["loopback", "unix"] {
            let (cell, listeners) = listening(transport);
            let keys = FlowKey::several(3).unwrap();
            let at = listeners[0].address();
            let flows: Vec<OwnedFd> = [2, 0, 1]
                .map(|flow: usize| {
                    let socket = connect(&cell, &at).unwrap();
                    keys[flow].say(&socket).unwrap();
                    socket
                })
                .into();
            let mut greeters = Greeters::new(&keys);
            let mut found: Vec<usize> = (0..3)
                .map(|_| greeters.next(&listeners, LONG).unwrap().0)
                .collect();
            found.sort_unstable();
            assert_eq!((found, greeters.strangers()), (vec![0, 1, 2], 0));
            drop(flows);
        }
    }

    #[test]
    fn a_key_is_used_up_and_another_is_none() {
        let (cell, listeners) = listening("loopback");
        let keys = FlowKey::several(2).unwrap();
        assert_ne!(keys[0], keys[1]);
        let at = listeners[0].address();
        let said = [
            keys[0],
            keys[0],
            FlowKey::default(),
            FlowKey::new().unwrap(),
            keys[1],
        ];
        let mut greeters = Greeters::new(&keys);
        let mut found = Vec::new();
        for key in said {
            let socket = connect(&cell, &at).unwrap();
            key.say(&socket).unwrap();
            if key == keys[0] && found.is_empty() || key == keys[1] {
                found.push(greeters.next(&listeners, LONG).unwrap().0);
            }
        }
        assert_eq!((found, greeters.strangers()), (vec![0, 1], 3));
        let none = greeters.next(&listeners, Duration::from_millis(5));
        assert_eq!(none.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    // Invariant 8.
    #[test]
    fn strangers_who_say_nothing_or_drip_or_rave_keep_nobody_waiting() {
        let (cell, listeners) = listening("loopback");
        let at = listeners[0].address();
        let strange = |say: &[u8]| {
            let socket = connect(&cell, &at).unwrap();
            Socket(&socket).write_all(say).unwrap();
            socket
        };
        let many = 3 * MOST_GREETED;
        let silent: Vec<OwnedFd> = (0..many).map(|_| strange(b"")).collect();
        let dripping = strange(b"1");
        let raving = strange(&[7; 4096]);
        let keys = FlowKey::several(1).unwrap();
        let known = connect(&cell, &at).unwrap();
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

    fn hearing<S: Default>(most_an_address: usize, allow: &[&str]) -> Greeters<S> {
        Greeters::hearing(Hearing {
            patience: LONG,
            most_an_address,
            allow: allow.iter().map(|a| a.parse().unwrap()).collect(),
        })
    }

    #[test]
    fn who_says_more_than_a_key_is_heard_to_the_end_of_a_frame_and_no_further() {
        let (cell, listeners) = listening("loopback");
        let mut greeters = hearing::<&str>(1, &[]);
        let socket = connect(&cell, &listeners[0].address()).unwrap();
        let said = [&[7; KEY_BYTES][..], &[5, 0, 0, 0], b"hello", &[9, 0, 0, 0]].concat();
        Socket(&socket).write_all(&said).unwrap();
        let mut heard = |most: Option<(Newcomer<&'static str>, usize)>| {
            if let Some((newcomer, most)) = most {
                greeters.hear_frame(newcomer, most, "a frame");
            }
            greeters.come(&listeners, u64::MAX / 2).unwrap()
        };
        let Came::Said(newcomer) = heard(None) else {
            panic!("its first bytes are no key");
        };
        assert_eq!(
            (&newcomer.said[..], newcomer.stage),
            (&said[..KEY_BYTES], "")
        );
        let Came::Said(newcomer) = heard(Some((newcomer, 5))) else {
            panic!("a frame fits");
        };
        let frame = &said[KEY_BYTES..KEY_BYTES + 9];
        assert_eq!((&newcomer.said[..], newcomer.stage), (frame, "a frame"));
        let Came::Unheard(_, Unheard::Failed(e)) = heard(Some((newcomer, 8))) else {
            panic!("a frame of 9 bytes is too long");
        };
        assert_eq!(e.kind(), io::ErrorKind::InvalidData);
    }

    // Invariant 8.
    #[test]
    fn who_may_connect_is_bounded_by_address() {
        let (cell, listeners) = listening("loopback");
        let at = listeners[0].address();
        let came = |greeters: &mut Greeters| greeters.come(&listeners, u64::MAX / 2);
        let strangers: [_; 4] = std::array::from_fn(|_| connect(&cell, &at).unwrap());
        let mut greeters = hearing(2, &["127.0.0.0/8"]);
        for _ in 2..strangers.len() {
            let too_many = came(&mut greeters).unwrap();
            assert!(matches!(too_many, Came::Unheard(_, Unheard::TooMany(_))));
        }
        let keys = FlowKey::several(1).unwrap();
        greeters.expect(&keys, Some(std::net::Ipv4Addr::LOCALHOST.into()));
        let expected = connect(&cell, &at).unwrap();
        keys[0].say(&expected).unwrap();
        let flow = came(&mut greeters).unwrap();
        assert!(
            matches!(flow, Came::Flow(0, _)),
            "a third, since it is expected"
        );
        let elsewhere = connect(&cell, &at).unwrap();
        let mut greeters = hearing(2, &["192.0.2.0/24", "127.0.0.2"]);
        let refused = came(&mut greeters).unwrap();
        assert!(matches!(refused, Came::Unheard(_, Unheard::NotAllowed)));
        drop((strangers, expected, elsewhere));
    }
}
