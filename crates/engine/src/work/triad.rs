//! Reading and writing memory in order, as fast as it goes (after McCalpin's STREAM, 1995).

use std::hint::black_box;
use std::io;

use bytecost_sys::cache_lines::{CacheLines, Pages};

use super::{LINE_BYTES, Work, too_small};

const MOST_WORDS: usize = 8192;
const ADDED: u64 = 3;

/// One half is read, added to and written to the other, and then in turn.
#[derive(Debug)]
pub struct Triad {
    from: CacheLines,
    to: CacheLines,
    at: usize,
    rounds: u64,
    unit: usize,
}

impl Triad {
    /// Halves of so many bytes together.
    pub fn new(bytes: usize, pages: Pages) -> io::Result<Triad> {
        if bytes < 2 * LINE_BYTES {
            return Err(too_small(bytes));
        }
        // Whole lines in each half, and so in each unit.
        let words = bytes / (2 * LINE_BYTES) * LINE_BYTES / 8;
        let unit = words.min(MOST_WORDS);
        // Whole units, so that all are alike.
        let lines = words / unit * unit * 8 / LINE_BYTES;
        let [mut from, mut to] = [
            CacheLines::new(lines, pages)?,
            CacheLines::new(lines, pages)?,
        ];
        for (word, at) in from.as_flattened_mut().iter_mut().zip(0..) {
            *word = at;
        }
        to.as_flattened_mut().fill(1);
        Ok(Triad {
            from,
            to,
            at: 0,
            rounds: 0,
            unit,
        })
    }
}

impl Work for Triad {
    fn unit(&mut self) -> io::Result<()> {
        let range = self.at..self.at + self.unit;
        let from = &self.from.as_flattened()[range.clone()];
        let to = &mut self.to.as_flattened_mut()[range];
        let mut sum = 0u64;
        for (source, target) in from.iter().zip(to) {
            *target = source.wrapping_add(ADDED);
            sum = sum.wrapping_add(*source);
        }
        // Word `i` was `i` at first and has been added to once a round.
        let (first, words) = (self.at as u64, self.unit as u64);
        let mut expected = words * first + words * (words - 1) / 2;
        expected = expected.wrapping_add(words.wrapping_mul(self.rounds.wrapping_mul(ADDED)));
        if black_box(sum) != expected {
            return Err(super::wrong("copying with addition"));
        }
        self.at += self.unit;
        if self.at == self.from.as_flattened().len() {
            self.at = 0;
            self.rounds += 1;
            std::mem::swap(&mut self.from, &mut self.to);
        }
        Ok(())
    }

    fn steps(&self) -> (u64, u64) {
        let line = LINE_BYTES as u64;
        // A step is a line read and a line written.
        (self.unit as u64 * 8 / line, 2 * line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_was_not_written_is_noticed() {
        let mut triad = Triad::new(4096, Pages::Any).unwrap();
        triad.unit().unwrap();
        triad.from[2][1] -= ADDED;
        assert!(triad.unit().is_err());
    }
}
