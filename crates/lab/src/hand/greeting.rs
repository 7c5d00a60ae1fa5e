//! What two ends of a live session say beside the payload: short frames, as anybody may send them.

use bytecost_spec::Axis;
use bytecost_spec::hand::{SessionPart, Stretch};
use serde::{Deserialize, Serialize};

use crate::greeters::{FlowKey, KEY_BYTES};

/// What a connection that opens a session says first; all others say the key of their flow.
const NAME: [u8; 8] = *b"bytecost";
/// The version of what is said; both ends must have the same.
pub const VERSION: u32 = 2;
/// What Noise adds to each word.
pub(super) const TAG_BYTES: usize = 16;
/// The longest frame: the most flows' counters fit in, and with its tag Noise allows it.
pub const MAX_FRAME_BYTES: usize = u16::MAX as usize - TAG_BYTES;
/// The most that a client may wish for.
pub const MAX_WISHES: usize = 16;

/// A word of either side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum SessionWord {
    /// The client's first.
    Hello {
        /// [`VERSION`].
        version: u32,
        /// Values of axes that are the client's to choose, as on the command line.
        wishes: Vec<(Axis, String)>,
    },
    /// The server's first: connect the flows.
    Welcome {
        /// [`VERSION`].
        version: u32,
        /// The session's number.
        session: u64,
        /// What the flows' connections say first, each its own.
        keys: Vec<FlowKey>,
        /// [`bytecost_spec::Cell::id`] of what is sent.
        cell: String,
    },
    /// The server's last: there will be no session.
    Refused {
        /// Why, and what to do.
        reason: String,
    },
    /// The server's: all flows stand, and begin.
    Go,
    /// What the server's flows did in a second.
    Second {
        /// The second's number, from 1.
        number: u64,
        /// What they did.
        stretch: Box<Stretch>,
    },
    /// The client's: end the session, finish what is under way.
    Stop,
    /// The last word: what the flows of its side did.
    Done(Box<SessionPart>),
}

/// The first bytes of a session: its version, and whether both ends are to prove their key.
pub fn opening(version: u32, has_key: bool) -> [u8; KEY_BYTES] {
    let mut bytes = [0; KEY_BYTES];
    bytes[..8].copy_from_slice(&NAME);
    bytes[8..12].copy_from_slice(&version.to_le_bytes());
    bytes[12] = u8::from(has_key);
    bytes
}

/// What such bytes say: the version, and whether there is to be a key; none for those of a flow.
pub fn opened(bytes: &[u8; KEY_BYTES]) -> Option<(u32, bool)> {
    let (name, rest) = bytes.split_first_chunk()?;
    let (version, rest) = rest.split_first_chunk()?;
    (*name == NAME).then(|| (u32::from_le_bytes(*version), rest[0] != 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hand::session_key::Cipher;
    use bytecost_spec::Reading;
    use bytecost_spec::cell::MAX_THREADS;
    use bytecost_spec::reading::COUNTERS;
    use bytecost_spec::sample::FlowReading;

    #[test]
    fn the_longest_word_fits_and_comes_back() {
        let flow = FlowReading {
            bytes: u64::MAX,
            messages: u64::MAX,
            elapsed_ns: u64::MAX,
        };
        let mut part = SessionPart::default();
        part.whole.side.flows = vec![flow; MAX_THREADS as usize];
        for row in COUNTERS {
            let long = Reading::absent("x".repeat(300));
            part.whole.side.readings.insert(row.counter, long);
        }
        let word = SessionWord::Done(Box::new(part));
        let mut frame = Vec::new();
        Cipher::default().write(&mut frame, &word).unwrap();
        let back: SessionWord = Cipher::default().read(&mut &*frame).unwrap();
        assert_eq!(back, word);
    }
}
