//! The order in which a file is gone through: every block once in each pass.

use bytecost_spec::Access;

/// Where the next request goes, without memory: the random order meets every number below a power
/// of two once, and skips those that are no block.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    access: Access,
    /// In bytes.
    start: u64,
    blocks: u64,
    size: u64,
    /// Blocks that this pass has given.
    given: u64,
    /// Of the random order: where it is, and the bits of its numbers.
    state: u64,
    bits: u32,
}

impl Walk {
    /// `blocks` blocks, at least 1, of `size` bytes from byte `start` on; `seed` decides the random
    /// order.
    pub fn new(access: Access, start: u64, blocks: u64, size: u64, seed: u64) -> Walk {
        let blocks = blocks.max(1);
        let bits = blocks.next_power_of_two().trailing_zeros();
        Walk {
            access,
            start,
            blocks,
            size,
            given: 0,
            state: seed & mask(bits),
            bits,
        }
    }

    /// Blocks of one pass.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Returns true if the next block begins a pass.
    #[inline]
    pub fn is_at_start(&self) -> bool {
        self.given == 0
    }

    /// The part of the file that is gone through: its offset and its length, in bytes.
    pub fn part(&self) -> (u64, u64) {
        (self.start, self.blocks * self.size)
    }

    /// The offset of the next block in the file, in bytes.
    #[inline]
    pub fn step(&mut self) -> u64 {
        let block = match self.access {
            Access::Sequential => self.given,
            Access::Random => self.draw(),
        };
        self.given += 1;
        if self.given == self.blocks {
            self.given = 0;
        }
        self.start + block * self.size
    }

    /// A full period of x → 5x + 1 modulo a power of two (Hull and Dobell, Random number
    /// generators, 1962), its regular low bits mixed by steps that can each be undone.
    #[inline]
    fn draw(&mut self) -> u64 {
        let mask = mask(self.bits);
        loop {
            self.state = self.state.wrapping_mul(5).wrapping_add(1) & mask;
            let shift = (self.bits / 2).max(1);
            let mut x = self.state;
            x ^= x >> shift;
            x = x.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask;
            x ^= x >> shift;
            x = x.wrapping_mul(0x94d0_49bb_1331_11eb) & mask;
            x ^= x >> shift;
            if x < self.blocks {
                return x;
            }
        }
    }
}

fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_pass_meets_every_block_once_in_either_order() {
        for access in Access::ALL {
            for blocks in [1, 2, 3, 4, 7, 64, 1000, 4097] {
                let mut walk = Walk::new(*access, 5120, blocks, 512, 3);
                for pass in 0..3 {
                    assert!(walk.is_at_start());
                    let met: BTreeSet<u64> = (0..blocks).map(|_| walk.step()).collect();
                    assert_eq!(met.len() as u64, blocks, "{access:?} {blocks} {pass}");
                    assert_eq!(met.first(), Some(&5120));
                    assert_eq!(met.last(), Some(&((10 + blocks - 1) * 512)));
                }
            }
        }
    }

    #[test]
    fn a_random_walk_hardly_ever_goes_on_where_it_was() {
        let mut walk = Walk::new(Access::Random, 0, 4096, 1, 1);
        let order: Vec<u64> = (0..4096).map(|_| walk.step()).collect();
        let next = order
            .windows(2)
            .filter(|w| w[0].abs_diff(w[1]) <= 4)
            .count();
        assert!(next < 4096 / 50, "{next} neighbours");
        assert_eq!(walk.part(), (0, 4096));
    }
}
