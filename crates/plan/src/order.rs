//! The order of a block: a shuffle fixed by seed and block alone.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The numbers from 0 to `cells` - 1 in the order of block `block`.
///
/// ChaCha8 keyed with the seed (8 bytes, little-endian), the block (4 bytes, little-endian) and
/// `bytecost block v1` filled up with zeros; then a Fisher-Yates shuffle from the last place
/// down, each place drawn from 64 bits by rejection. Runs are resumed by this order: it must
/// never change.
pub(crate) fn shuffled(cells: usize, seed: u64, block: u32) -> Vec<usize> {
    const LABEL: &[u8] = b"bytecost block v1";
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..12].copy_from_slice(&block.to_le_bytes());
    key[12..12 + LABEL.len()].copy_from_slice(LABEL);
    let mut random = ChaCha8Rng::from_seed(key);
    let mut order: Vec<usize> = (0..cells).collect();
    for last in (1..cells).rev() {
        let place = below(&mut random, last as u64 + 1);
        order.swap(last, place as usize);
    }
    order
}

/// A number below `n`, all equally likely. `n` is not 0.
fn below(random: &mut impl Rng, n: u64) -> u64 {
    let fair = u64::MAX - u64::MAX % n;
    loop {
        let x = random.next_u64();
        if x < fair {
            return x % n;
        }
    }
}
