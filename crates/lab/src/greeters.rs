//! Who may connect: each flow of a trial has a key of its own, which its connection says first and
//! which is used up at first sight. Whoever says something else, or nothing, is dropped and
//! counted, and keeps nobody waiting.

use std::fmt;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use bytecost_sys::clock;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use crate::transports::{Listen, Socket};

/// Bytes of a key, which come before any payload.
pub const KEY_BYTES: usize = 16;
/// How long a connection may take to say its key, in ns.
const GREETING_NS: u64 = 250_000_000;
/// Connections that may be about to say it; of more, the one that has waited longest is dropped.
const MOST_GREETED: usize = 64;

/// What a connection says first: 128 bits that nobody guesses, for one flow of one trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowKey([u8; KEY_BYTES]);

impl FlowKey {
    /// A new one.
    ///
    /// # Errors
    /// What getrandom(2) answers.
    pub fn new() -> io::Result<FlowKey> {
        let mut key = FlowKey::default();
        // So few bytes come whole or not at all.
        getrandom(&mut key.0, GetRandomFlags::empty())?;
        Ok(key)
    }

    /// So many.
    ///
    /// # Errors
    /// As [`FlowKey::new`].
    pub fn several(flows: u32) -> io::Result<Vec<FlowKey>> {
        (0..flows).map(|_| FlowKey::new()).collect()
    }

    /// Says it: the first thing on a connection.
    ///
    /// # Errors
    /// What writing answers.
    pub fn say(&self, socket: &OwnedFd) -> io::Result<()> {
        Socket(socket).write_all(&self.0)
    }

    /// Whether these bytes are it, compared in a time that does not depend on them.
    #[must_use]
    pub fn is(&self, said: &[u8; KEY_BYTES]) -> bool {
        self.0[..].ct_eq(&said[..]).into()
    }

    /// The key that was said.
    #[must_use]
    pub fn said(bytes: [u8; KEY_BYTES]) -> FlowKey {
        FlowKey(bytes)
    }

    /// A number that is drawn from it, for what is to differ from trial to trial.
    #[must_use]
    pub fn seed(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }
}

/// In hexadecimal digits.
impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.0.iter()).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The keys that nobody has said yet.
#[derive(Debug, Default)]
pub struct UnusedKeys(Vec<Option<FlowKey>>);

impl UnusedKeys {
    /// All of these, each for one connection.
    #[must_use]
    pub fn new(keys: &[FlowKey]) -> UnusedKeys {
        UnusedKeys(keys.iter().copied().map(Some).collect())
    }

    /// Whose key it is, compared with all of them in a time that does not depend on what was said.
    /// It is none from then on.
    pub fn use_up(&mut self, said: &FlowKey) -> Option<usize> {
        let (mut found, mut place) = (Choice::from(0), 0_u64);
        for (number, key) in self.0.iter().enumerate() {
            let unused = Choice::from(u8::from(key.is_some()));
            let same = key.unwrap_or_default().0[..].ct_eq(&said.0[..]) & unused;
            place.conditional_assign(&(number as u64), same);
            found |= same;
        }
        let whose = bool::from(found).then_some(place as usize)?;
        self.0[whose] = None;
        Some(whose)
    }
}

/// A connection that has not said its key yet.
struct Greeted {
    socket: OwnedFd,
    said: FlowKey,
    length: usize,
    until_ns: u64,
}

/// What became of one.
enum Heard {
    /// It may still say the rest.
    Part,
    /// It has said so much that it can be known.
    Whole,
    /// It is gone.
    Gone,
}

impl Greeted {
    /// Takes what it has said so far, and waits for nothing.
    fn hear(&mut self) -> Heard {
        loop {
            let room = &mut self.said.0[self.length..];
            match rustix::net::recv(&self.socket, room, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Heard::Gone,
                Ok((bytes, _)) => self.length += bytes,
                Err(Errno::AGAIN) => return Heard::Part,
                Err(Errno::INTR) => {}
                Err(_) => return Heard::Gone,
            }
            if self.length == KEY_BYTES {
                return Heard::Whole;
            }
        }
    }
}

/// Those who have connected, heard side by side.
pub struct Greeters {
    keys: UnusedKeys,
    greeted: Vec<Greeted>,
    /// Connections that were dropped.
    pub strangers: u64,
}

impl Greeters {
    /// Expects a connection for each of these keys.
    #[must_use]
    pub fn new(keys: &[FlowKey]) -> Greeters {
        Greeters {
            keys: UnusedKeys::new(keys),
            greeted: Vec::new(),
            strangers: 0,
        }
    }

    /// The next connection to any of these listeners that says a key: whose it is, and the
    /// connection.
    ///
    /// # Errors
    /// `TimedOut` when none has come within `patience`, else what poll(2) and accept(2) answer.
    pub fn next(
        &mut self,
        listeners: &[Box<dyn Listen>],
        patience: Duration,
    ) -> io::Result<(usize, OwnedFd)> {
        let until_ns = clock::monotonic_ns().saturating_add(patience.as_nanos() as u64);
        loop {
            let now_ns = clock::monotonic_ns();
            let before = self.greeted.len();
            self.greeted.retain(|g| g.until_ns > now_ns);
            self.strangers += (before - self.greeted.len()) as u64;
            if now_ns >= until_ns {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!(
                        "no connection came: did the other side start? ({} others were turned away)",
                        self.strangers
                    ),
                ));
            }
            let ends = self.greeted.iter().map(|g| g.until_ns);
            let wake_ns = ends.fold(until_ns, u64::min);
            let mut ready = self.ready(listeners, wake_ns - now_ns)?;
            let spoken = ready.split_off(listeners.len());
            // From behind, so that those before keep their places.
            for at in (0..spoken.len()).rev().filter(|at| spoken[*at]) {
                if let Some(known) = self.hear(at) {
                    return Ok(known);
                }
            }
            for (listener, _) in listeners.iter().zip(ready).filter(|(_, ready)| *ready) {
                self.welcome(listener.accept(Duration::ZERO));
            }
        }
    }

    /// Waits no longer than so many ns: which of the listeners, and then of those who are greeted,
    /// there is something to hear of.
    fn ready(&self, listeners: &[Box<dyn Listen>], wait_ns: u64) -> io::Result<Vec<bool>> {
        let wait = Timespec::try_from(Duration::from_nanos(wait_ns));
        let wait = wait.map_err(|_| io::ErrorKind::InvalidInput)?;
        let sockets = listeners.iter().map(|l| l.socket());
        let greeted = self.greeted.iter().map(|g| g.socket.as_fd());
        let all = sockets.chain(greeted);
        let mut polled: Vec<PollFd<'_>> = all
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        match rustix::event::poll(&mut polled, Some(&wait)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        Ok(polled.iter().map(|p| !p.revents().is_empty()).collect())
    }

    /// Listens to one more. A connection that is gone again, or for which there is no descriptor,
    /// is none.
    fn welcome(&mut self, accepted: io::Result<OwnedFd>) {
        let Ok(socket) = accepted else {
            self.strangers += 1;
            return;
        };
        if self.greeted.len() == MOST_GREETED {
            self.greeted.remove(0);
            self.strangers += 1;
        }
        self.greeted.push(Greeted {
            socket,
            said: FlowKey::default(),
            length: 0,
            until_ns: clock::monotonic_ns() + GREETING_NS,
        });
    }

    /// Hears the one at a place: known by its key, or dropped, or left to say more.
    fn hear(&mut self, at: usize) -> Option<(usize, OwnedFd)> {
        let whole = match self.greeted.get_mut(at)?.hear() {
            Heard::Part => return None,
            Heard::Whole => true,
            Heard::Gone => false,
        };
        let greeted = self.greeted.remove(at);
        let whose = match whole {
            true => self.keys.use_up(&greeted.said),
            false => None,
        };
        let Some(whose) = whose else {
            self.strangers += 1;
            return None;
        };
        Some((whose, greeted.socket))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transports::{connect, listen};
    use bytecost_spec::{Axis, Cell};

    const LONG: Duration = Duration::from_secs(60);

    fn listening(transport: &str) -> (Cell, [Box<dyn Listen>; 1]) {
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
            assert_eq!((found, greeters.strangers), (vec![0, 1, 2], 0));
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
        assert_eq!((found, greeters.strangers), (vec![0, 1], 3));
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
            greeters.strangers + greeters.greeted.len() as u64,
            many as u64 + 2
        );
        assert!(greeters.greeted.len() <= MOST_GREETED);
        drop((silent, dripping, raving));
    }
}
