//! What the two hosts say to each other: frames as in [`crate::protocol`]. Both sides say
//! something once a second at least, and what is silent for three seconds is taken for lost.

use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::time::Duration;

use bytecost_spec::{Host, NetworkCard, Readings, Survey};
use bytecost_sys::clock;
use rustix::event::{PollFd, PollFlags};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::greeters::FlowKey;
use crate::protocol::{self, FromEndpoint, MAX_FRAME_BYTES, Role, Schedule, ToEndpoint};

/// The version of what is said; both ends must have the same.
pub(super) const VERSION: u32 = 1;
/// How often something is said.
const BEAT: Duration = Duration::from_secs(1);
/// How long nothing may be heard, in ns.
pub(super) const SILENCE_NS: u64 = 3_000_000_000;
/// What is read at once, in bytes.
const PIECE_BYTES: usize = 64 << 10;

/// What a connection that tries an address says, and what it hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Door {
    /// Where somebody listens.
    pub(super) at: SocketAddr,
    /// What who connects says.
    pub(super) key: FlowKey,
    /// What is answered.
    pub(super) answer: FlowKey,
}

/// A way that was found, as the side knows it that connected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FoundWay {
    /// The address that was reached.
    pub(super) to: IpAddr,
    /// The own address.
    pub(super) from: IpAddr,
    pub(super) round_trip_us: u64,
    /// The largest packet that the way takes, in bytes.
    pub(super) path_mtu: Option<u64>,
}

/// Coordinator to agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum ToAgent {
    /// The first word.
    Hello { version: u32, build: String },
    /// What machine is that?
    Tell,
    /// Listen for a connection that tries the way: at this address, else at every one.
    Listen { at: Option<IpAddr> },
    /// Try these, and say which is the first that is reached.
    Reach { doors: Vec<Door> },
    /// The way goes by this address of yours: which cards are that?
    Cards { at: IpAddr },
    /// Start an endpoint for a trial with a window of that length.
    Start { id: u64, role: Role, window_ns: u64 },
    /// What an endpoint is told.
    To {
        id: u64,
        now_ns: u64,
        order: Box<ToEndpoint>,
    },
    /// The window of passes opens.
    Opens { id: u64 },
    /// The trial is over: end the endpoint.
    End { id: u64 },
    /// Nothing to say.
    Beat,
    /// The last word.
    Bye,
}

/// Agent to coordinator.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum FromAgent {
    /// The first word.
    Hello { version: u32, build: String },
    /// What machine this is.
    Told(Box<ToldHost>),
    /// Where a connection is waited for.
    Listening { doors: Vec<Door> },
    /// What connected: the place of its door, and the address that it came from.
    Reached { door: u32, from: IpAddr },
    /// The way that was found.
    Found(FoundWay),
    /// The cards.
    Cards { cards: Vec<NetworkCard> },
    /// What an endpoint says.
    From {
        id: u64,
        now_ns: u64,
        answer: Box<FromEndpoint>,
        /// With the last word: what the machine did in the window.
        #[serde(default)]
        machine: Readings,
    },
    /// What was asked cannot be done.
    Refused { why: String },
    /// Nothing to say.
    Beat,
}

/// What an agent tells of its host.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToldHost {
    pub(super) host: Host,
    pub(super) survey: Survey,
}

/// Incoming frames. It reads what has arrived and never waits for the rest of a frame.
pub(super) struct IncomingWords {
    from: File,
    bytes: Vec<u8>,
    /// When something whole was heard last, and how long nothing may be.
    heard_ns: u64,
    patience_ns: u64,
}

impl IncomingWords {
    pub(super) fn new(from: OwnedFd) -> IncomingWords {
        IncomingWords {
            from: File::from(from),
            bytes: Vec::new(),
            heard_ns: clock::monotonic_ns(),
            patience_ns: SILENCE_NS,
        }
    }

    /// The same, where the first word may take longer.
    pub(super) fn first_within(mut self, patience: Duration) -> IncomingWords {
        self.patience_ns = patience.as_nanos() as u64;
        self
    }

    pub(super) fn poll_fd(&self) -> PollFd<'_> {
        PollFd::new(&self.from, PollFlags::IN)
    }

    /// Takes what has come, where something has. False when the other side is gone.
    pub(super) fn fill(&mut self) -> io::Result<bool> {
        let mut piece = [0; PIECE_BYTES];
        loop {
            match self.from.read(&mut piece) {
                Ok(0) => return Ok(false),
                Ok(bytes) => {
                    self.bytes.extend_from_slice(&piece[..bytes]);
                    return Ok(true);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// The next word that has come whole; `InvalidData` for what is none.
    pub(super) fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let Some((length, _)) = self.bytes.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length <= MAX_FRAME_BYTES && self.bytes.len() < 4 + length {
            return Ok(None);
        }
        let mut from = &self.bytes[..];
        let word = protocol::read(&mut from)?;
        let used = self.bytes.len() - from.len();
        self.bytes.drain(..used);
        self.heard_ns = clock::monotonic_ns();
        self.patience_ns = SILENCE_NS;
        Ok(Some(word))
    }

    /// How long nothing whole has come, where that is too long.
    pub(super) fn silent_for(&self) -> Option<Duration> {
        let is_silent = clock::monotonic_ns() > self.heard_ns + self.patience_ns;
        is_silent.then(|| Duration::from_nanos(self.patience_ns))
    }

    /// The first line of what has come, where that is no frame.
    pub(super) fn first_line(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.bytes);
        let line = text.lines().next().map(bytecost_spec::units::one_line);
        line.filter(|line| !line.trim().is_empty())
    }
}

/// Reads a word of the channel that came whole, and writes it again: of those that the agent
/// hears, or of those that it says.
///
/// # Errors
/// What [`protocol::read`] answers.
pub fn reread(frame: &[u8], by_agent: bool) -> io::Result<Vec<u8>> {
    fn again<T: Serialize + DeserializeOwned>(mut frame: &[u8]) -> io::Result<Vec<u8>> {
        let mut written = Vec::new();
        protocol::write(&mut written, &protocol::read::<T>(&mut frame)?)?;
        Ok(written)
    }
    match by_agent {
        true => again::<ToAgent>(frame),
        false => again::<FromAgent>(frame),
    }
}

/// Writes what is to be said until the last word, or until nobody hears it.
pub(super) fn write_out<T: Serialize>(
    to: OwnedFd,
    words: &mpsc::Receiver<T>,
    beat: fn() -> T,
    is_last: fn(&T) -> bool,
) {
    let mut to = File::from(to);
    loop {
        let word = match words.recv_timeout(BEAT) {
            Ok(word) => word,
            Err(mpsc::RecvTimeoutError::Timeout) => beat(),
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        };
        if protocol::write(&mut to, &word).is_err() || is_last(&word) {
            return;
        }
    }
}

/// How much later a moment is by this host's clock than by that of who said it, if `now_ns` was
/// its time when it did and this is now.
#[derive(Clone, Copy)]
pub(super) struct Shift {
    own_ns: u64,
    theirs_ns: u64,
}

impl Shift {
    pub(super) fn heard_now(now_ns: u64) -> Shift {
        Shift {
            own_ns: clock::monotonic_ns(),
            theirs_ns: now_ns,
        }
    }

    fn of(self, at_ns: u64) -> u64 {
        let later = i128::from(at_ns) + i128::from(self.own_ns) - i128::from(self.theirs_ns);
        later.clamp(0, i128::from(u64::MAX / 2)) as u64
    }

    /// The order, its moments by this host's clock.
    pub(super) fn order(self, order: ToEndpoint) -> ToEndpoint {
        match order {
            ToEndpoint::Go(schedule) => ToEndpoint::Go(Schedule {
                begin_ns: self.of(schedule.begin_ns),
                window_from_ns: self.of(schedule.window_from_ns),
                window_to_ns: self.of(schedule.window_to_ns),
                steady_by_ns: schedule.steady_by_ns.map(|at_ns| self.of(at_ns)),
            }),
            other => other,
        }
    }

    /// The answer, its moments by this host's clock.
    pub(super) fn answer(self, answer: FromEndpoint) -> FromEndpoint {
        match answer {
            FromEndpoint::Connected {
                opens_ns,
                closes_ns,
            } => FromEndpoint::Connected {
                opens_ns: self.of(opens_ns),
                closes_ns: self.of(closes_ns),
            },
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(at_ns: u64) -> Schedule {
        Schedule {
            begin_ns: at_ns,
            window_from_ns: at_ns + 10,
            window_to_ns: at_ns + 20,
            steady_by_ns: Some(at_ns + 30),
        }
    }

    #[test]
    fn a_moment_means_the_same_time_from_when_it_is_heard() {
        let shift = Shift {
            own_ns: 1_000_000,
            theirs_ns: 50,
        };
        let order = shift.order(ToEndpoint::Go(schedule(150)));
        assert_eq!(order, ToEndpoint::Go(schedule(1_000_100)));
        let answer = FromEndpoint::Connected {
            opens_ns: 0,
            closes_ns: u64::MAX,
        };
        let FromEndpoint::Connected {
            opens_ns,
            closes_ns,
        } = shift.answer(answer)
        else {
            panic!("it is another answer");
        };
        assert_eq!((opens_ns, closes_ns), (999_950, u64::MAX / 2));
    }

    // Invariant 8.
    #[test]
    fn words_are_taken_as_they_come_and_what_is_none_is_an_error() {
        let (from, mut to) = io::pipe().unwrap();
        let mut incoming = IncomingWords::new(from.into());
        let mut frame = Vec::new();
        protocol::write(&mut frame, &ToAgent::Beat).unwrap();
        let two = [frame.clone(), frame.clone()].concat();
        let mut words = 0;
        for byte in two {
            io::Write::write_all(&mut to, &[byte]).unwrap();
            assert!(incoming.fill().unwrap());
            words += usize::from(incoming.next::<ToAgent>().unwrap().is_some());
        }
        assert_eq!((words, incoming.bytes.len()), (2, 0));
        assert_eq!(incoming.silent_for(), None);
        io::Write::write_all(&mut to, b"Welcome to db7\n$ ").unwrap();
        assert!(incoming.fill().unwrap());
        assert!(incoming.next::<ToAgent>().is_err());
        assert_eq!(incoming.first_line().as_deref(), Some("Welcome to db7"));
        drop(to);
        assert!(!incoming.fill().unwrap());
    }
}
