//! Reading memory line by line in a known order: reads do not wait for each other as in a chase.

use std::hint::black_box;
use std::io;

use bytecost_sys::cache_lines::{CacheLines, Pages};

use super::arithmetic::{ADDEND, FACTOR};
use super::{LINE_BYTES, Work, lines_within};

const STEPS: usize = 4096;
const WORDS: usize = LINE_BYTES / 8;

/// In which order lines are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// One after the other.
    Sequential,
    /// As if drawn, each once a round.
    Random,
}

impl Order {
    #[cfg(test)]
    pub const ALL: &[Order] = &[Order::Sequential, Order::Random];

    #[inline]
    fn next(self, state: u64, mask: u64) -> u64 {
        mask & match self {
            Order::Sequential => state.wrapping_add(1),
            Order::Random => state.wrapping_mul(FACTOR).wrapping_add(ADDEND),
        }
    }

    #[inline]
    fn place(self, state: u64, mask: u64) -> usize {
        match self {
            Order::Random => super::chase::place(state, mask),
            Order::Sequential => state as usize,
        }
    }
}

/// A walk through memory in an order of its own.
#[derive(Debug)]
pub struct Reads {
    order: Order,
    memory: CacheLines,
    state: u64,
    /// The sums of the units of a round, computed without the memory.
    sums: Vec<u64>,
    unit: usize,
}

impl Reads {
    pub fn new(order: Order, bytes: usize, pages: Pages) -> io::Result<Reads> {
        // Word `w` of the memory is `w`, so that a line's sum follows from its place.
        let mut memory = lines_within(bytes, pages)?;
        let mask = memory.len() as u64 - 1;
        for (line, words) in memory.iter_mut().enumerate() {
            *words = std::array::from_fn(|word| (line * WORDS + word) as u64);
        }
        let words = WORDS as u64;
        let sum_of = |line: u64| line * words * words + words * (words - 1) / 2;
        let mut state = 0;
        let sums = (0..memory.len().div_ceil(STEPS)).map(|_| {
            let mut sum = 0u64;
            for _ in 0..STEPS {
                sum = sum.wrapping_add(sum_of(order.place(state, mask) as u64));
                state = order.next(state, mask);
            }
            sum
        });
        Ok(Reads {
            order,
            memory,
            sums: sums.collect(),
            state: 0,
            unit: 0,
        })
    }

    /// The order is a constant of each loop.
    #[inline]
    fn sum(&mut self, order: Order) -> u64 {
        let mask = self.memory.len() as u64 - 1;
        let mut state = black_box(self.state);
        let mut sum = 0u64;
        for _ in 0..STEPS {
            // All places are below the length; the mask spares the check of bounds.
            let line = &self.memory[order.place(state, mask) & mask as usize];
            for word in line {
                sum = sum.wrapping_add(*word);
            }
            state = order.next(state, mask);
        }
        self.state = state;
        black_box(sum)
    }
}

impl Work for Reads {
    fn unit(&mut self) -> io::Result<()> {
        let sum = match self.order {
            Order::Sequential => self.sum(Order::Sequential),
            Order::Random => self.sum(Order::Random),
        };
        if sum != self.sums[self.unit] {
            return Err(super::wrong("reading memory"));
        }
        self.unit += 1;
        if self.unit == self.sums.len() {
            self.unit = 0;
        }
        Ok(())
    }

    fn steps(&self) -> (u64, u64) {
        (STEPS as u64, LINE_BYTES as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_reads_every_line_once_a_round() {
        for order in Order::ALL {
            for lines in [2u64, 64, 4096, 1 << 14] {
                let mask = lines - 1;
                let mut seen = vec![false; lines as usize];
                let mut state = 0;
                for _ in 0..lines {
                    let place = order.place(state, mask);
                    let again = std::mem::replace(&mut seen[place], true);
                    assert!(!again, "{order:?} {lines}");
                    state = order.next(state, mask);
                }
                assert_eq!(state, 0);
            }
        }
    }

    #[test]
    fn a_line_that_reads_wrong_is_noticed() {
        for order in Order::ALL {
            let mut reads = Reads::new(*order, 1 << 16, Pages::Any).unwrap();
            reads.unit().unwrap();
            reads.memory[77][3] ^= 1;
            assert!(reads.unit().is_err(), "{order:?}");
        }
    }
}
