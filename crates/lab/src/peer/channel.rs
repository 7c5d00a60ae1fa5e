//! What the two hosts say to each other: frames as in [`crate::protocol`]. Both sides say
//! something once a second at least, and what is silent for three seconds is taken for lost.

use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc;
use std::time::Duration;

use bytecost_spec::{Host, NetworkCard, Survey};
use bytecost_sys::clock;
use rustix::event::{PollFd, PollFlags};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use strum::{EnumDiscriminants, EnumTryAs};

use crate::greeters::FlowKey;
use crate::protocol::{
    self, DeadlineReader, FromEndpoint, HostReadings, Schedule, Task, ToEndpoint,
};

pub(super) const VERSION: u32 = 1;
const BEAT: Duration = Duration::from_secs(1);
/// How long nothing may be heard.
pub(super) const SILENCE: Duration = Duration::from_secs(3);
/// The longest line of what is no frame, and how much of it is shown.
const MOST_LINE_BYTES: usize = 4096;
const MOST_SHOWN_CHARS: usize = 200;
/// How the agent's first word begins, and the most that a login may print before it.
const HELLO: &[u8] = b"{\"hello\":";
const MOST_BANNER_BYTES: usize = 64 << 10;

/// Messages that wait to be written; one more means that the other side reads none.
pub(super) const MAX_QUEUED: usize = 256;

/// An address at which a host listens for a connectivity check, with the keys of both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Candidate {
    pub(super) at: SocketAddr,
    /// Who connects sends a digest of it, so that nobody chooses bytes that another host sends.
    pub(super) key: FlowKey,
    /// The response.
    pub(super) answer: FlowKey,
}

/// A way that was found, as the side knows it that connected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FoundWay {
    pub(super) to: IpAddr,
    pub(super) from: IpAddr,
    pub(super) round_trip_us: u64,
    /// The largest packet that the way takes, in bytes.
    pub(super) path_mtu: Option<u64>,
}

/// Coordinator to agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum ToAgent {
    Hello {
        version: u32,
        build: String,
    },
    /// What machine is that?
    Describe,
    /// Listen for a connection that tries the way: at this address, else at every one.
    Listen {
        at: Option<IpAddr>,
    },
    Reach {
        candidates: Vec<Candidate>,
    },
    /// The way goes by this address of yours: which cards are that?
    Cards {
        at: IpAddr,
    },
    /// Start an endpoint for this side of a trial with a window of that length.
    Start {
        id: u64,
        window_ns: u64,
        task: Box<Task>,
    },
    To {
        id: u64,
        now_ns: u64,
        order: Box<ToEndpoint>,
    },
    /// The window of passes opens.
    Opens {
        id: u64,
    },
    End {
        id: u64,
    },
    /// Nothing to say.
    Beat,
    Bye,
}

/// Agent to coordinator.
#[derive(Debug, EnumDiscriminants, EnumTryAs, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[strum_discriminants(name(Reply), derive(PartialOrd, Ord), vis(pub(super)))]
pub(super) enum FromAgent {
    /// The first word, which another build reads too.
    Hello {
        version: u32,
        build: String,
    },
    Description(Box<(Host, Survey)>),
    Listening(Vec<Candidate>),
    /// A connection by the candidate of this index, and the address that it came from.
    Reached {
        candidate: u32,
        from: IpAddr,
    },
    Found(FoundWay),
    Cards(Vec<NetworkCard>),
    From {
        id: u64,
        now_ns: u64,
        answer: Box<FromEndpoint>,
        /// With the last word: readings of the agent's host.
        host: HostReadings,
    },
    Refused(String),
    /// Nothing to say.
    Beat,
}

pub(super) struct IncomingWords {
    from: OwnedFd,
    /// When something whole was heard last, and how long nothing may be.
    heard_ns: u64,
    pub(super) patience: Duration,
    said: Vec<u8>,
}

impl IncomingWords {
    /// The first one may take so long.
    pub(super) fn new(from: OwnedFd, patience: Duration) -> IncomingWords {
        IncomingWords {
            from,
            heard_ns: clock::monotonic_ns(),
            patience,
            said: Vec::new(),
        }
    }

    pub(super) fn poll_fd(&self) -> PollFd<'_> {
        PollFd::new(&self.from, PollFlags::IN)
    }

    /// Waits for the agent's first word, whatever a login prints before it, with errors as those of
    /// [`IncomingWords::next`].
    pub(super) fn first<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        let no_word = || io::Error::new(io::ErrorKind::InvalidData, "no word of an agent");
        while !self.said.ends_with(HELLO) {
            if self.said.len() >= MOST_BANNER_BYTES {
                return Err(no_word());
            }
            self.read_exact(&mut [0])?;
        }
        let before = self.said.len() - HELLO.len();
        let length = self.said[..before].last_chunk().ok_or_else(no_word)?;
        let length = protocol::length(*length, MOST_BANNER_BYTES)?;
        let mut rest = vec![0; length.checked_sub(HELLO.len()).ok_or_else(no_word)?];
        self.read_exact(&mut rest)?;
        let word = protocol::parsed(&self.said[before..])?;
        self.heard_ns = clock::monotonic_ns();
        self.patience = SILENCE;
        Ok(word)
    }

    /// Waits for the next one: `TimedOut` where it does not come whole in time, `UnexpectedEof`
    /// when the other side is gone, `InvalidData` for what is none.
    pub(super) fn next<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        self.said.clear();
        let word = protocol::read(self)?;
        self.heard_ns = clock::monotonic_ns();
        self.patience = SILENCE;
        Ok(word)
    }

    fn until_ns(&self) -> u64 {
        self.heard_ns + self.patience.as_nanos() as u64
    }

    pub(super) fn is_silent(&self) -> bool {
        clock::monotonic_ns() > self.until_ns()
    }

    /// The first line of what has come, where that is no frame.
    pub(super) fn first_line(&mut self) -> Option<String> {
        self.patience = Duration::ZERO;
        // What of it is not there by now is left out.
        let _ = self.read(&mut [0; MOST_LINE_BYTES]);
        let text = String::from_utf8_lossy(&self.said);
        let line = text.lines().next().map(bytecost_spec::units::one_line);
        let line = line.filter(|line| !line.trim().is_empty())?;
        Some(line.chars().take(MOST_SHOWN_CHARS).collect())
    }
}

impl Read for IncomingWords {
    fn read(&mut self, piece: &mut [u8]) -> io::Result<usize> {
        let mut reader = DeadlineReader {
            from: self.from.as_fd(),
            until_ns: self.until_ns(),
            stop: None,
        };
        let bytes = reader.read(piece)?;
        self.said.extend_from_slice(&piece[..bytes]);
        Ok(bytes)
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

/// Writes what is to be said until the last word, or until nobody hears it. It beats from the first
/// word on.
pub(super) fn write_out<T: Serialize>(
    to: OwnedFd,
    words: &mpsc::Receiver<T>,
    beat: fn() -> T,
    is_last: fn(&T) -> bool,
) {
    let mut to = File::from(to);
    let mut word = words.recv().ok();
    while let Some(next) = word {
        if protocol::write(&mut to, &next).is_err() || is_last(&next) {
            return;
        }
        word = match words.recv_timeout(BEAT) {
            Ok(word) => Some(word),
            Err(mpsc::RecvTimeoutError::Timeout) => Some(beat()),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
        };
    }
}

/// How many ns later a moment is by this host's clock than by that of who said it.
#[derive(Clone, Copy)]
pub(super) struct Shift(i128);

impl Shift {
    /// If that was their time when they did, and this is now.
    pub(super) fn heard_now(now_ns: u64) -> Shift {
        Shift(i128::from(clock::monotonic_ns()) - i128::from(now_ns))
    }

    fn of(self, at_ns: u64) -> u64 {
        (i128::from(at_ns) + self.0).clamp(0, i128::from(u64::MAX / 2)) as u64
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
            FromEndpoint::Connected(window_ns) => {
                FromEndpoint::Connected(self.of(window_ns.start)..self.of(window_ns.end))
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Write, pipe};

    #[test]
    fn what_a_login_prints_before_the_first_word_is_skipped() {
        let hello = || FromAgent::Hello {
            version: VERSION,
            build: "b".to_owned(),
        };
        for banner in ["", "Welcome!\r\n", "{\"hello\" \0\u{1b}[1m\n"] {
            let (from, mut to) = pipe().unwrap();
            to.write_all(banner.as_bytes()).unwrap();
            protocol::write(&mut to, &hello()).unwrap();
            protocol::write(&mut to, &FromAgent::Beat).unwrap();
            let mut words = IncomingWords::new(from.into(), SILENCE);
            assert!(matches!(words.first().unwrap(), FromAgent::Hello { .. }));
            assert!(matches!(words.next().unwrap(), FromAgent::Beat));
        }
        let check = |printed: &[u8], kind, line: &str| {
            let (from, mut to) = pipe().unwrap();
            let writer = std::thread::spawn({
                let printed = printed.to_vec();
                move || to.write_all(&printed)
            });
            let mut words = IncomingWords::new(from.into(), SILENCE);
            assert_eq!(words.first::<FromAgent>().unwrap_err().kind(), kind);
            assert_eq!(words.first_line().as_deref(), Some(line));
            drop(words);
            let _ = writer.join().unwrap();
        };
        check(
            b"no such host\n",
            io::ErrorKind::UnexpectedEof,
            "no such host",
        );
        let endless = b"y\n".repeat(MOST_BANNER_BYTES);
        check(&endless, io::ErrorKind::InvalidData, "y");
        check(b"{\"hello\":", io::ErrorKind::InvalidData, "{\"hello\":");
    }

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
        let shift = Shift(1_000_000 - 50);
        let order = shift.order(ToEndpoint::Go(schedule(150)));
        assert_eq!(order, ToEndpoint::Go(schedule(1_000_100)));
        let answer = shift.answer(FromEndpoint::Connected(0..u64::MAX));
        assert_eq!(answer, FromEndpoint::Connected(999_950..u64::MAX / 2));
    }
}
