//! Messages of a channel as they come in and go out, with heartbeats.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc;
use std::time::Duration;

use bytecost_sys::clock;
use rustix::event::{PollFd, PollFlags};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::deadline::DeadlineReader;
use crate::protocol;

const BEAT: Duration = Duration::from_secs(1);
/// The longest silence of the other side.
pub(crate) const SILENCE: Duration = Duration::from_secs(3);
/// The longest line of what is no frame, and how much of it is shown.
const MOST_LINE_BYTES: usize = 4096;
const MOST_SHOWN_CHARS: usize = 200;
/// The beginning of the agent's first message, and the most that a login may print before it.
const HELLO: &[u8] = b"{\"hello\":";
const MOST_BANNER_BYTES: usize = 64 << 10;

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Write, pipe};

    use crate::peer_channel::{FromAgent, VERSION};

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
}
