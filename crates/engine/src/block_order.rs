//! The order of the requests to a file: a pass has each block once.

use bytecost_spec::Access;

/// The endless sequence of the offsets of a file's blocks, pass after pass. The random order needs no
/// table: it generates each number below a power of two once, and skips those that are no block.
#[derive(Clone, Copy, Debug)]
pub struct BlockOrder {
    access: Access,
    start_offset: u64,
    blocks: u64,
    block_bytes: u64,
    /// Blocks of this pass whose offsets were given.
    given: u64,
    /// State of the random generator, a number of `bits` bits.
    state: u64,
    bits: u32,
}

impl BlockOrder {
    /// The order of `blocks` blocks, at least 1, of `size` bytes from the offset `start`. `seed` decides
    /// the random order.
    pub fn new(access: Access, start: u64, blocks: u64, size: u64, seed: u64) -> BlockOrder {
        let blocks = blocks.max(1);
        let bits = blocks.next_power_of_two().trailing_zeros();
        BlockOrder {
            access,
            start_offset: start,
            blocks,
            block_bytes: size,
            given: 0,
            state: seed & mask(bits),
            bits,
        }
    }

    /// The number of blocks of a pass.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Returns true if the next block begins a pass.
    #[inline]
    pub fn is_at_start(&self) -> bool {
        self.given == 0
    }

    /// The offset and the length of the part of the file that has the blocks, in bytes.
    pub fn part(&self) -> (u64, u64) {
        (self.start_offset, self.blocks * self.block_bytes)
    }

    /// Returns the offset of the next block in the file, in bytes.
    #[inline]
    pub fn next_offset(&mut self) -> u64 {
        let block = match self.access {
            Access::Sequential => self.given,
            Access::Random => self.next_random_block(),
        };
        self.given += 1;
        if self.given == self.blocks {
            self.given = 0;
        }
        self.start_offset + block * self.block_bytes
    }

    /// Returns the next block of the random order. The generator x → 5x + 1 modulo a power of two has
    /// the full period (Hull and Dobell, Random number generators, 1962). Its low bits are regular, so
    /// that the number is mixed, by steps of which each can be inverted: no number comes twice.
    #[inline]
    fn next_random_block(&mut self) -> u64 {
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
    fn a_pass_has_each_block_once_in_either_order() {
        for access in Access::ALL {
            for blocks in [1, 2, 3, 4, 7, 64, 1000, 4097] {
                let mut order = BlockOrder::new(*access, 5120, blocks, 512, 3);
                for pass in 0..3 {
                    assert!(order.is_at_start());
                    let found: BTreeSet<u64> = (0..blocks).map(|_| order.next_offset()).collect();
                    assert_eq!(found.len() as u64, blocks, "{access:?} {blocks} {pass}");
                    assert_eq!(found.first(), Some(&5120));
                    assert_eq!(found.last(), Some(&((10 + blocks - 1) * 512)));
                }
            }
        }
    }

    #[test]
    fn in_the_random_order_successive_blocks_are_seldom_neighbours() {
        let mut order = BlockOrder::new(Access::Random, 0, 4096, 1, 1);
        let offsets: Vec<u64> = (0..4096).map(|_| order.next_offset()).collect();
        let near = offsets
            .windows(2)
            .filter(|pair| pair[0].abs_diff(pair[1]) <= 4)
            .count();
        assert!(near < 4096 / 50, "{near} neighbours");
        assert_eq!(order.part(), (0, 4096));
    }
}
