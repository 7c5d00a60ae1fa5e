//! Following pointers: each address is known only when the one before has been read.

use std::hint::black_box;
use std::io;

use bytecost_sys::cache_lines::{CacheLines, Pages};

use super::arithmetic::{ADDEND, FACTOR, jump};
use super::{LINE_BYTES, Work, lines_within};

/// CacheLines of a unit: some µs in a near cache, 0.4 ms of misses. Odd: no unit ends where it
/// began.
const STEPS: u64 = 4095;

/// A walk through memory in an order that looks random and visits every line once a round.
#[derive(Debug)]
pub struct Chase {
    /// The first word of each line names the next line's first word.
    memory: CacheLines,
    /// In the round, as the generator counts it: a number of as many bits as lines have.
    state: u64,
    at: usize,
}

impl Chase {
    pub fn new(bytes: usize, flow: u32, pages: Pages) -> io::Result<Chase> {
        let mut memory = lines_within(bytes, pages)?;
        let mask = memory.len() as u64 - 1;
        let mut state = u64::from(flow) & mask;
        let start = state;
        // A generator of full period modulo a power of two (Hull and Dobell, 1962) visits each.
        for _ in 0..memory.len() {
            let next = next(state, mask);
            memory[place(state, mask)][0] = place(next, mask) as u64;
            state = next;
        }
        Ok(Chase {
            memory,
            state: start,
            at: place(start, mask),
        })
    }
}

fn next(state: u64, mask: u64) -> u64 {
    state.wrapping_mul(FACTOR).wrapping_add(ADDEND) & mask
}

/// The line of a state: the low bits alone go round soon, so that the high ones are mixed in.
pub(super) fn place(state: u64, mask: u64) -> usize {
    (state ^ (state >> mask.count_ones().div_ceil(2))) as usize
}

impl Work for Chase {
    fn unit(&mut self) -> io::Result<()> {
        const JUMP: (u64, u64) = jump(STEPS);
        let mask = self.memory.len() as u64 - 1;
        let mut at = black_box(self.at);
        let mut beside = 0u64;
        for _ in 0..STEPS {
            // All are below the length; the mask spares the check of bounds.
            let line = &self.memory[at & mask as usize];
            at = line[0] as usize;
            // The whole line is read, as in the other orders; nobody waits for this.
            for word in &line[1..] {
                beside = beside.wrapping_add(*word);
            }
        }
        black_box(beside);
        self.at = black_box(at);
        self.state = self.state.wrapping_mul(JUMP.0).wrapping_add(JUMP.1) & mask;
        if self.at == place(self.state, mask) {
            Ok(())
        } else {
            Err(super::wrong("a walk through memory"))
        }
    }

    fn steps(&self) -> (u64, u64) {
        (STEPS, LINE_BYTES as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_visits_every_line_once() {
        for bytes in [128, 4096, 100_000, 1 << 20] {
            let chase = Chase::new(bytes, 3, Pages::Any).unwrap();
            let mut seen = vec![false; chase.memory.len()];
            let mut at = chase.at;
            for _ in 0..chase.memory.len() {
                assert!(!std::mem::replace(&mut seen[at], true), "{bytes}");
                at = chase.memory[at][0] as usize;
            }
            assert_eq!(at, chase.at);
        }
    }

    #[test]
    fn neighbouring_steps_are_far_apart() {
        let chase = Chase::new(1 << 20, 0, Pages::Any).unwrap();
        let near = (0..chase.memory.len()).filter(|i| chase.memory[*i][0].abs_diff(*i as u64) < 64);
        assert!(near.count() < chase.memory.len() / 64);
    }

    #[test]
    fn a_wrong_pointer_is_noticed() {
        let mut chase = Chase::new(4096, 0, Pages::Small).unwrap();
        let at = chase.at;
        chase.memory[at][0] = at as u64;
        assert!((0..3).any(|_| chase.unit().is_err()));
    }
}
