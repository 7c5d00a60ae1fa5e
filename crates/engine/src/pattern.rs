//! The payload's content, by its place in the stream, so that the receiver knows what must arrive.

use std::error::Error;
use std::{fmt, io};

use crate::receivers::Take;

/// The error of a transfer whose bytes were not the right ones, with the first wrong place. As an
/// [`io::Error`] it has the kind `InvalidData`.
#[derive(Debug)]
pub struct WrongBytes(pub String);

impl WrongBytes {
    /// Returns true if `error` says that bytes were wrong.
    pub fn is_in(error: &io::Error) -> bool {
        error
            .get_ref()
            .is_some_and(|inner| inner.is::<WrongBytes>())
    }
}

impl fmt::Display for WrongBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for WrongBytes {}

impl From<WrongBytes> for io::Error {
    fn from(wrong: WrongBytes) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, wrong)
    }
}

/// The content of one flow's stream: 64-bit words that each differ from all others nearby.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadPattern {
    seed: u64,
    /// The stream repeats after so many bytes; 0 is never.
    period: u64,
    /// Every byte of the stream, where all are the same.
    constant: Option<u8>,
    /// The place in the endless pattern at which the stream begins, and begins again after each period.
    base: u64,
}

impl PayloadPattern {
    /// The stream of a flow. `period` is in bytes, 0 for a stream that never repeats.
    pub fn new(flow: u32, period: u64) -> PayloadPattern {
        PayloadPattern {
            seed: mix(u64::from(flow) + 1),
            period,
            constant: None,
            base: 0,
        }
    }

    /// The stream that goes through `len` bytes of this one from `start` on, again and again.
    pub fn part(self, start: u64, len: u64) -> PayloadPattern {
        PayloadPattern {
            period: len,
            base: start,
            ..self
        }
    }

    /// A stream of one byte, as of memory that is filled before each message: it shows a wrong byte
    /// and another flow, but nothing out of order.
    pub fn constant(flow: u32) -> PayloadPattern {
        PayloadPattern {
            constant: Some(1 + (flow % 255) as u8),
            ..PayloadPattern::new(flow, 1)
        }
    }

    /// The place in the endless pattern of the byte at `offset` of the stream.
    fn place(&self, offset: u64) -> u64 {
        if self.period == 0 {
            self.base + offset
        } else {
            self.base + offset % self.period
        }
    }

    fn word(&self, index: u64) -> u64 {
        mix(self.seed ^ index)
    }

    /// Writes the content from byte `offset` of the stream on. It must not go past the end of a period, which
    /// this does not begin again.
    pub fn fill(&self, offset: u64, bytes: &mut [u8]) {
        if let Some(byte) = self.constant {
            return bytes.fill(byte);
        }
        let place = self.place(offset);
        let (first, within) = (place / 8, (place % 8) as usize);
        let (head, whole) = bytes.split_at_mut(((8 - within) % 8).min(bytes.len()));
        head.copy_from_slice(&self.word(first).to_le_bytes()[within..][..head.len()]);
        // Whole words: a ring of some MiB is filled for each trial.
        let mut words = whole.chunks_exact_mut(8);
        let mut index = first + u64::from(within > 0);
        for word in &mut words {
            word.copy_from_slice(&self.word(index).to_le_bytes());
            index += 1;
        }
        let tail = words.into_remainder();
        tail.copy_from_slice(&self.word(index).to_le_bytes()[..tail.len()]);
    }

    /// The first byte of `bytes` that is not what belongs at `offset` of the stream.
    pub fn mismatch(&self, offset: u64, bytes: &[u8]) -> Option<usize> {
        if let Some(byte) = self.constant {
            return bytes.iter().position(|b| *b != byte);
        }
        let end = match self.period {
            0 => u64::MAX,
            period => self.base + period,
        };
        let mut place = self.place(offset);
        let mut done = 0;
        while done < bytes.len() {
            let word = self.word(place / 8).to_le_bytes();
            let within = (place % 8) as usize;
            let left = (bytes.len() - done).min((end - place) as usize);
            let (got, expected) = (&bytes[done..], &word[within..]);
            let n = expected.len().min(left);
            if got[..n] != expected[..n] {
                return got
                    .iter()
                    .zip(expected)
                    .position(|(a, b)| a != b)
                    .map(|at| done + at);
            }
            done += n;
            place += n as u64;
            if place == end {
                place = self.base;
            }
        }
        None
    }
}

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014): a
/// bijection, so that no two words of a stream are the same, and near ones give unlike ones.
#[inline]
pub const fn mix(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Holds what arrives against the pattern.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checker {
    /// None where nobody knows what must arrive.
    pattern: Option<PayloadPattern>,
    full: bool,
    offset: u64,
    compared: u64,
}

impl Checker {
    /// `full` compares every byte; else the first word of each piece, which costs a few ns and
    /// still sees anything lost, doubled or out of order.
    pub fn new(pattern: PayloadPattern, full: bool) -> Checker {
        Checker {
            pattern: Some(pattern),
            full,
            ..Checker::default()
        }
    }

    /// Counts bytes and compares none, where nobody knows the content: a user's file.
    pub fn counting_only() -> Checker {
        Checker::default()
    }

    /// Bytes seen so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes compared so far.
    pub fn compared(&self) -> u64 {
        self.compared
    }

    /// Checks the last `got` bytes that `receiver` took: `InvalidData` names the first wrong one.
    pub fn check(&mut self, receiver: &dyn Take, got: usize) -> io::Result<()> {
        let mut at = self.offset;
        self.offset += got as u64;
        let Some(pattern) = self.pattern else {
            return Ok(());
        };
        let most = if self.full { usize::MAX } else { 8 };
        let mut wrong = None;
        receiver.inspect(got, &mut |piece| {
            let shown = &piece[..piece.len().min(most)];
            self.compared += shown.len() as u64;
            if wrong.is_none() {
                wrong = pattern.mismatch(at, shown).map(|i| at + i as u64);
            }
            at += piece.len() as u64;
        });
        let Some(wrong) = wrong else { return Ok(()) };
        let why = format!("what arrived is not what was sent: byte {wrong} of the stream is wrong");
        Err(WrongBytes(why).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_filled_matches_at_any_offset_and_length() {
        for period in [0, 1000, 1024] {
            let pattern = PayloadPattern::new(3, period);
            let mut whole = vec![0; 1000];
            pattern.fill(0, &mut whole);
            for (from, to) in [(0, 1000), (1, 9), (7, 8), (8, 800), (999, 1000), (13, 777)] {
                let found = pattern.mismatch(from as u64, &whole[from..to]);
                assert_eq!(found, None, "{period} {from}..{to}");
                let mut part = vec![0; to - from];
                pattern.fill(from as u64, &mut part);
                assert_eq!(part, whole[from..to]);
            }
        }
    }

    #[test]
    fn a_part_of_a_stream_goes_round_in_itself() {
        let whole = PayloadPattern::new(5, 0);
        let mut part = vec![0; 100];
        whole.fill(37, &mut part);
        let twice: Vec<u8> = part.iter().chain(&part).copied().collect();
        let round = whole.part(37, 100);
        assert_eq!(round.mismatch(0, &twice), None);
        assert_eq!(round.mismatch(700 + 13, &twice[13..]), None);
        assert_eq!(round.mismatch(1, &twice), Some(0));
    }

    #[test]
    fn a_constant_stream_matches_anywhere_and_shows_other_bytes() {
        let pattern = PayloadPattern::constant(254);
        let mut bytes = [0; 20];
        pattern.fill(7, &mut bytes);
        assert_eq!(pattern.mismatch(12_345, &bytes), None);
        bytes[13] ^= 1;
        assert_eq!(pattern.mismatch(0, &bytes), Some(13));
        let other = PayloadPattern::constant(255);
        assert_eq!(other.mismatch(0, &bytes[..1]), Some(0));
        assert_eq!(pattern.mismatch(0, &[0]), Some(0), "fresh memory");
    }

    #[test]
    fn every_wrong_byte_lost_piece_and_other_flow_is_seen() {
        let pattern = PayloadPattern::new(0, 0);
        let mut bytes = vec![0; 64];
        pattern.fill(128, &mut bytes);
        for i in 0..64 {
            let mut bad = bytes.clone();
            bad[i] ^= 1;
            assert_eq!(pattern.mismatch(128, &bad), Some(i));
        }
        assert!(pattern.mismatch(136, &bytes).is_some());
        assert!(PayloadPattern::new(1, 0).mismatch(128, &bytes).is_some());
    }
}
