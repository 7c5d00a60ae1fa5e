//! The eight bytes with which each end of a flow begins: magic, version, side, flow.
//!
//! | bytes | content |
//! | --- | --- |
//! | 0, 1 | `bc` |
//! | 2 | version |
//! | 3 | kind: sender, sender that waits for responses, receiver, or busy with another session |
//! | 4 | number of the flow, from 0 |
//! | 5 | number of the sender's last flow |
//! | 6, 7 | check of the sizes of message and response, little-endian; 0 where they are not known |
//!
//! The side that connects writes first, the other one answers, and then the payload follows.

use bytecost_spec::{Cell, Pattern, Side};

/// Length of a greeting.
pub const GREETING_BYTES: usize = 8;
/// Version of the greeting, and of what follows it.
pub const VERSION: u8 = 1;
const MAGIC: [u8; 2] = *b"bc";

/// The program at an end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Sends without pause.
    Sender,
    /// Waits for a response to each message.
    AskingSender,
    /// Receives, and responds where the sender waits for it.
    Receiver,
    /// Listens, and has a session.
    Busy,
}

const KINDS: [Kind; 4] = [Kind::Sender, Kind::AskingSender, Kind::Receiver, Kind::Busy];

/// First bytes of one end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// Program of this end.
    pub kind: Kind,
    /// Number of the flow.
    pub flow: u8,
    /// Number of the last flow; the receiver repeats the sender's.
    pub last_flow: u8,
    /// Check of the sizes, 0 where this end does not know them.
    pub sizes: u16,
}

/// The reason why eight bytes are no greeting of this version.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadGreeting {
    /// They are of another program.
    #[error("it is not `bytecost live`")]
    Magic,
    /// They are of another version.
    #[error(
        "it has version {0} of the live protocol and this side version {VERSION}: use the same bytecost on both"
    )]
    Version(u8),
}

impl Greeting {
    /// Greeting of the first flow of a side with these options.
    pub fn new(side: Side, cell: &Cell, knows_size: bool) -> Greeting {
        let is_receiver = side == Side::Receiver;
        Greeting {
            kind: match cell.pattern {
                _ if is_receiver => Kind::Receiver,
                Pattern::Stream => Kind::Sender,
                Pattern::RequestResponse => Kind::AskingSender,
            },
            flow: 0,
            last_flow: if is_receiver {
                0
            } else {
                last_flow(cell.threads)
            },
            sizes: if knows_size { sizes(cell) } else { 0 },
        }
    }

    /// Pattern of a sender's messages.
    pub(super) fn pattern(self) -> Pattern {
        if self.kind == Kind::AskingSender {
            Pattern::RequestResponse
        } else {
            Pattern::Stream
        }
    }

    /// The eight bytes.
    pub fn to_bytes(self) -> [u8; GREETING_BYTES] {
        let [low, high] = self.sizes.to_le_bytes();
        let kind = self.kind as u8;
        let (flow, last) = (self.flow, self.last_flow);
        [MAGIC[0], MAGIC[1], VERSION, kind, flow, last, low, high]
    }

    /// The greeting that these bytes are.
    ///
    /// # Errors
    /// [`BadGreeting`].
    pub fn from_bytes(bytes: [u8; GREETING_BYTES]) -> Result<Greeting, BadGreeting> {
        let [a, b, version, kind, flow, last_flow, low, high] = bytes;
        if [a, b] != MAGIC {
            return Err(BadGreeting::Magic);
        }
        if version != VERSION {
            return Err(BadGreeting::Version(version));
        }
        let kind = KINDS.get(usize::from(kind)).ok_or(BadGreeting::Magic)?;
        Ok(Greeting {
            kind: *kind,
            flow,
            last_flow,
            sizes: u16::from_le_bytes([low, high]),
        })
    }

    /// The reason why the two ends cannot exchange messages, in the same words on both sides; none where
    /// they can.
    pub fn mismatch(self, other: Greeting) -> Option<&'static str> {
        let receivers = [self, other].map(|end| end.kind == Kind::Receiver);
        let asks = [self, other].iter().any(|e| e.kind == Kind::AskingSender);
        if [self, other].iter().any(|end| end.kind == Kind::Busy) {
            return Some("it is busy with another session: try again when that has ended");
        }
        match receivers {
            [true, true] => Some("both sides receive: one must be `bytecost live send`"),
            [false, false] => Some("both sides send: one must be `bytecost live receive`"),
            _ if self.sizes == 0 || other.sizes == 0 => asks.then_some(
                "the sender waits for responses, so the receiver must know when a message ends: give it the sender's --size",
            ),
            _ => (self.sizes != other.sizes).then_some(
                "the two sides differ in --size or --response: give both the same",
            ),
        }
    }
}

/// Number of the last of so many flows, of which there are 1 to 256.
fn last_flow(flows: u32) -> u8 {
    u8::try_from(flows.saturating_sub(1)).unwrap_or(u8::MAX)
}

/// FNV-1a of the sizes, folded to 16 bits; never 0.
fn sizes(cell: &Cell) -> u16 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for size in [cell.size_bytes, cell.answer_bytes()] {
        for byte in size.to_le_bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    let folded = (hash >> 48) ^ (hash >> 32) ^ (hash >> 16) ^ hash;
    (folded as u16).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytecost_spec::Axis;

    fn cell(values: &[(Axis, &str)]) -> Cell {
        Cell::default().with(values).unwrap()
    }

    #[test]
    fn a_greeting_comes_back_and_other_bytes_are_none() {
        let cell = cell(&[(Axis::Threads, "256"), (Axis::Pattern, "request-response")]);
        let greeting = Greeting {
            flow: 7,
            ..Greeting::new(Side::Sender, &cell, true)
        };
        assert_eq!(greeting.last_flow, 255);
        let bytes = greeting.to_bytes();
        assert_eq!(Greeting::from_bytes(bytes), Ok(greeting));
        let check = |at: usize, byte: u8, expected| {
            let mut bytes = bytes;
            bytes[at] = byte;
            assert_eq!(Greeting::from_bytes(bytes), Err(expected));
        };
        check(0, b'G', BadGreeting::Magic);
        check(2, VERSION + 1, BadGreeting::Version(VERSION + 1));
        check(3, 4, BadGreeting::Magic);
    }

    #[test]
    fn ends_that_do_not_fit_have_the_same_message() {
        let asking = (Axis::Pattern, "request-response");
        let sender = |values: &[_]| Greeting::new(Side::Sender, &cell(values), true);
        let receiver = |values: &[_], knows| Greeting::new(Side::Receiver, &cell(values), knows);
        let check = |a: Greeting, b: Greeting, part: Option<&str>| {
            let found = a.mismatch(b);
            assert_eq!(found, b.mismatch(a));
            match (found, part) {
                (None, None) => {}
                (Some(found), Some(part)) => assert!(found.contains(part), "{found}"),
                other => panic!("{other:?}"),
            }
        };
        let small = [(Axis::Size, "100")];
        check(sender(&small), receiver(&[], false), None);
        check(sender(&small), receiver(&small, true), None);
        check(sender(&small), receiver(&[], true), Some("--size"));
        check(
            sender(&[asking]),
            receiver(&[], false),
            Some("when a message ends"),
        );
        check(sender(&[asking]), receiver(&[], true), None);
        let response = (Axis::Response, "100");
        check(
            sender(&[asking, response]),
            receiver(&[], true),
            Some("--response"),
        );
        check(sender(&[]), sender(&[asking]), Some("both sides send"));
        check(
            receiver(&[], true),
            receiver(&[], false),
            Some("both sides receive"),
        );
        let busy = Greeting {
            kind: Kind::Busy,
            ..sender(&[])
        };
        check(busy, receiver(&[], false), Some("busy"));
    }
}
