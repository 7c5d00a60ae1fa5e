//! The order of the cells in a block, determined by seed and block number alone: groups in a random
//! order, each of which is a row of a square in which every cell follows every other one.

use chacha20::ChaCha8Rng;
use chacha20::rand_core::{Rng, SeedableRng};

/// The order of a block in which each group is measured without interruption. The groups are shuffled from
/// the last index down, each index drawn from 64 bits by rejection; within a group the order is that of
/// [`row`]. A run that is resumed continues with the same orders.
pub(crate) fn grouped(groups: &[impl AsRef<[u32]>], seed: u64, block: u32) -> Vec<u32> {
    let mut random = random(seed, block, b"bytecost groups v1");
    let order = shuffle(groups.len(), &mut random);
    let row_of = |number: usize| {
        let group = groups[number].as_ref();
        row(group.len(), seed, block, number as u32)
            .into_iter()
            .map(|i| group[i])
    };
    order.into_iter().flat_map(row_of).collect()
}

/// The numbers below `cells` in the order of block `block`: a row of a Williams square.
///
/// In the rows of such a square each number is at each position equally often, and follows each other
/// one equally often, so that carry-over from a trial to the next affects all alike (Williams,
/// "Experimental designs balanced for the estimation of residual effects of treatments", 1949). A square
/// has as many rows as numbers, or twice as many for an odd count. As many blocks use all rows in a
/// random order, with the numbers shuffled again for each square.
fn row(cells: usize, seed: u64, block: u32, group: u32) -> Vec<usize> {
    if cells < 2 {
        return (0..cells).collect();
    }
    let rows = cells << (cells % 2);
    let (square, position) = (block as usize / rows, block as usize % rows);
    let label = [&b"bytecost rows v1"[..], &group.to_le_bytes()].concat();
    let mut random = random(seed, square as u32, &label);
    let names = shuffle(cells, &mut random);
    let row = shuffle(rows, &mut random)[position];
    // The first row alternates between the lowest and the highest numbers: 0, 1, n - 1, 2, n - 2.
    let first = |at: usize| match at % 2 {
        1 => at.div_ceil(2),
        _ => (cells - at / 2) % cells,
    };
    let mut order: Vec<usize> = (0..cells)
        .map(|at| names[(first(at) + row) % cells])
        .collect();
    if row >= cells {
        order.reverse();
    }
    order
}

/// A ChaCha8 generator. Its key is the seed (8 bytes, little-endian), a number (4 bytes, little-endian) and
/// a label, padded with zeros.
fn random(seed: u64, number: u32, label: &[u8]) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..12].copy_from_slice(&number.to_le_bytes());
    key[12..12 + label.len()].copy_from_slice(label);
    ChaCha8Rng::from_seed(key)
}

/// A random permutation of the numbers below `count`: each index from the last one down is swapped with
/// a random one up to it.
fn shuffle(count: usize, random: &mut impl Rng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        let other = below(random, last as u64 + 1);
        order.swap(last, other as usize);
    }
    order
}

/// A uniform number below `n`, which is not 0.
fn below(random: &mut impl Rng, n: u64) -> u64 {
    let fair = u64::MAX - u64::MAX % n;
    loop {
        let x = random.next_u64();
        if x < fair {
            return x % n;
        }
    }
}
