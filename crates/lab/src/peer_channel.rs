//! The messages between the two hosts: frames as in [`crate::protocol`]. Each side sends one a second
//! at least, and a side that is silent for three seconds is taken for lost.

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

use crate::deadline::DeadlineReader;
use crate::flow_key::FlowKey;
use crate::protocol::{self, FromEndpoint, Schedule, ToEndpoint};

mod remote_endpoint;

pub(crate) use remote_endpoint::{LinkState, RemoteEndpoint, Unexpected, lock};

pub(crate) const VERSION: u32 = 1;
const BEAT: Duration = Duration::from_secs(1);
/// The longest silence of the other side.
pub(crate) const SILENCE: Duration = Duration::from_secs(3);
/// The longest line of what is no frame, and how much of it is shown.
const MOST_LINE_BYTES: usize = 4096;
const MOST_SHOWN_CHARS: usize = 200;
/// The beginning of the agent's first message, and the most that a login may print before it.
const HELLO: &[u8] = b"{\"hello\":";
const MOST_BANNER_BYTES: usize = 64 << 10;

/// Messages that wait to be written; one more means that the other side reads none.
pub(crate) const MAX_QUEUED: usize = 256;

/// An address at which a host listens for a connectivity check, with the keys of both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Candidate {
    pub(crate) at: SocketAddr,
    /// The key of the side that connects, which sends a digest of it: so nobody can choose bytes that
    /// another host sends.
    pub(crate) key: FlowKey,
    /// The response.
    pub(crate) answer: FlowKey,
}

/// A network path that a check has found, as the side sees it that connected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FoundPath {
    pub(crate) to: IpAddr,
    pub(crate) from: IpAddr,
    pub(crate) round_trip_us: u64,
    /// The largest packet that the path takes, in bytes.
    pub(crate) path_mtu: Option<u64>,
}

/// Coordinator to agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum ToAgent {
    Hello {
        version: u32,
        build: String,
    },
    /// Asks for a description of the machine.
    Describe,
    /// Asks to listen for a connectivity check: at this address, else at every one.
    Listen {
        at: Option<IpAddr>,
    },
    Reach {
        candidates: Vec<Candidate>,
    },
    /// Asks for the network cards of this address of the agent, which the path goes by.
    Cards {
        at: IpAddr,
    },
    /// Asks for an endpoint with this first order: a side of a trial with a window of that length, or the
    /// observer of that host.
    Start {
        id: u64,
        window_ns: u64,
        order: Box<ToEndpoint>,
    },
    To {
        id: u64,
        now_ns: u64,
        order: Box<ToEndpoint>,
    },
    End {
        id: u64,
    },
    /// A heartbeat.
    Beat,
    Bye,
}

/// Agent to coordinator.
#[derive(Debug, EnumDiscriminants, EnumTryAs, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[strum_discriminants(name(Reply), derive(PartialOrd, Ord), vis(pub(crate)))]
pub(crate) enum FromAgent {
    /// The first message, which another build reads too.
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
    Found(FoundPath),
    Cards(Vec<NetworkCard>),
    From {
        id: u64,
        now_ns: u64,
        answer: Box<FromEndpoint>,
    },
    Refused(String),
    /// A heartbeat.
    Beat,
}

/// The messages of the other side, as they come.
pub(crate) struct IncomingMessages {
    from: OwnedFd,
    /// The time of the last whole message, in ns of CLOCK_MONOTONIC, and the longest silence.
    heard_ns: u64,
    pub(crate) timeout: Duration,
    received: Vec<u8>,
}

impl IncomingMessages {
    /// Messages from a descriptor, of which the first one may take so long.
    pub(crate) fn new(from: OwnedFd, timeout: Duration) -> IncomingMessages {
        IncomingMessages {
            from,
            heard_ns: clock::monotonic_ns(),
            timeout,
            received: Vec::new(),
        }
    }

    pub(crate) fn poll_fd(&self) -> PollFd<'_> {
        PollFd::new(&self.from, PollFlags::IN)
    }

    /// Waits for the agent's first message, whatever a login prints before it, with errors as those of
    /// [`IncomingMessages::next`].
    pub(crate) fn first<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        let no_message = || io::Error::new(io::ErrorKind::InvalidData, "no word of an agent");
        while !self.received.ends_with(HELLO) {
            if self.received.len() >= MOST_BANNER_BYTES {
                return Err(no_message());
            }
            self.read_exact(&mut [0])?;
        }
        let before = self.received.len() - HELLO.len();
        let length = self.received[..before]
            .last_chunk()
            .ok_or_else(no_message)?;
        let length = protocol::length(*length, MOST_BANNER_BYTES)?;
        let mut rest = vec![0; length.checked_sub(HELLO.len()).ok_or_else(no_message)?];
        self.read_exact(&mut rest)?;
        let message = protocol::parsed(&self.received[before..])?;
        self.heard_ns = clock::monotonic_ns();
        self.timeout = SILENCE;
        Ok(message)
    }

    /// Waits for the next message: `TimedOut` where it does not come whole in time, `UnexpectedEof`
    /// when the other side is gone, `InvalidData` for bytes that are none.
    pub(crate) fn next<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        self.received.clear();
        let message = protocol::read(self)?;
        self.heard_ns = clock::monotonic_ns();
        self.timeout = SILENCE;
        Ok(message)
    }

    fn until_ns(&self) -> u64 {
        self.heard_ns + self.timeout.as_nanos() as u64
    }

    pub(crate) fn is_silent(&self) -> bool {
        clock::monotonic_ns() > self.until_ns()
    }

    /// The first line of received bytes that are no frame.
    pub(crate) fn first_line(&mut self) -> Option<String> {
        self.timeout = Duration::ZERO;
        // The part of it that is not there by now is left out.
        let _ = self.read(&mut [0; MOST_LINE_BYTES]);
        let text = String::from_utf8_lossy(&self.received);
        let first = text.lines().next().map(bytecost_spec::units::one_line);
        let line = first.filter(|line| !line.trim().is_empty())?;
        Some(line.chars().take(MOST_SHOWN_CHARS).collect())
    }
}

impl Read for IncomingMessages {
    fn read(&mut self, piece: &mut [u8]) -> io::Result<usize> {
        let mut reader = DeadlineReader {
            from: self.from.as_fd(),
            until_ns: self.until_ns(),
            stop: None,
        };
        let bytes = reader.read(piece)?;
        self.received.extend_from_slice(&piece[..bytes]);
        Ok(bytes)
    }
}

/// Reads a whole message of the channel, and writes it again: one that the agent receives, or one that
/// it sends.
///
/// # Errors
/// Those of [`protocol::read`].
pub fn reread(frame: &[u8], by_agent: bool) -> io::Result<Vec<u8>> {
    fn again<T: Serialize + DeserializeOwned>(mut frame: &[u8]) -> io::Result<Vec<u8>> {
        let mut written = Vec::new();
        protocol::write(&mut written, &protocol::read::<T>(&mut frame)?)?;
        Ok(written)
    }
    if by_agent {
        again::<ToAgent>(frame)
    } else {
        again::<FromAgent>(frame)
    }
}

/// Writes messages until the last one, or until nobody reads them. After the first one it writes
/// heartbeats too.
pub(crate) fn write_out<T: Serialize>(
    to: OwnedFd,
    messages: &mpsc::Receiver<T>,
    beat: fn() -> T,
    is_last: fn(&T) -> bool,
) {
    let mut to = File::from(to);
    let mut message = messages.recv().ok();
    while let Some(next) = message {
        if protocol::write(&mut to, &next).is_err() || is_last(&next) {
            return;
        }
        message = match messages.recv_timeout(BEAT) {
            Ok(received) => Some(received),
            Err(mpsc::RecvTimeoutError::Timeout) => Some(beat()),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
        };
    }
}

/// The number of ns by which a time is later on this host's clock than on the other one's.
#[derive(Clone, Copy)]
pub(crate) struct ClockShift(i128);

impl ClockShift {
    /// The shift if a message with this time of its sender is received now.
    pub(crate) fn received_now(now_ns: u64) -> ClockShift {
        ClockShift(i128::from(clock::monotonic_ns()) - i128::from(now_ns))
    }

    fn here_ns(self, at_ns: u64) -> u64 {
        (i128::from(at_ns) + self.0).clamp(0, i128::from(u64::MAX / 2)) as u64
    }

    /// The order, with its times by this host's clock.
    pub(crate) fn order(self, order: ToEndpoint) -> ToEndpoint {
        match order {
            ToEndpoint::Go(schedule) => ToEndpoint::Go(Schedule {
                begin_ns: self.here_ns(schedule.begin_ns),
                window_from_ns: self.here_ns(schedule.window_from_ns),
                window_to_ns: self.here_ns(schedule.window_to_ns),
                steady_by_ns: schedule.steady_by_ns.map(|at_ns| self.here_ns(at_ns)),
            }),
            other => other,
        }
    }

    /// The answer, with its times by this host's clock.
    pub(crate) fn answer(self, answer: FromEndpoint) -> FromEndpoint {
        match answer {
            FromEndpoint::Connected(window_ns) => {
                FromEndpoint::Connected(self.here_ns(window_ns.start)..self.here_ns(window_ns.end))
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
            let mut words = IncomingMessages::new(from.into(), SILENCE);
            assert!(matches!(words.first().unwrap(), FromAgent::Hello { .. }));
            assert!(matches!(words.next().unwrap(), FromAgent::Beat));
        }
        let check = |printed: &[u8], kind, line: &str| {
            let (from, mut to) = pipe().unwrap();
            let writer = std::thread::spawn({
                let printed = printed.to_vec();
                move || to.write_all(&printed)
            });
            let mut words = IncomingMessages::new(from.into(), SILENCE);
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
        let shift = ClockShift(1_000_000 - 50);
        let order = shift.order(ToEndpoint::Go(schedule(150)));
        assert_eq!(order, ToEndpoint::Go(schedule(1_000_100)));
        let answer = shift.answer(FromEndpoint::Connected(0..u64::MAX));
        assert_eq!(answer, FromEndpoint::Connected(999_950..u64::MAX / 2));
    }
}
