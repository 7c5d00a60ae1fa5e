//! The order of a block, fixed by seed and block alone: a shuffle of groups, each of
//! which is a row of a square in which every cell follows every other one.

use chacha20::ChaCha8Rng;
use chacha20::rand_core::{Rng, SeedableRng};

/// The order of block `block`, where cells that are compared are measured one after another: the
/// groups shuffled from the last place down, each place drawn from 64 bits by rejection, and each in
/// the order of [`row`]. A run that is resumed is ordered on by it.
pub(crate) fn grouped(groups: &[impl AsRef<[u32]>], seed: u64, block: u32) -> Vec<u32> {
    let mut random = random(seed, block, b"bytecost groups v1");
    let order = shuffle(groups.len(), &mut random);
    let row_of = |number: usize| {
        let group = groups[number].as_ref();
        let row = row(group.len(), seed, block, number as u32);
        row.into_iter().map(|i| group[i])
    };
    order.into_iter().flat_map(row_of).collect()
}

/// The numbers from 0 to `cells` - 1 in the order of block `block`: a row of a Williams square.
///
/// In the rows of such a square each number stands at each place equally often, and follows each
/// other one equally often, so that what a trial leaves to the next falls on all alike (Williams,
/// "Experimental designs balanced for the estimation of residual effects of treatments", 1949). It
/// has as many rows as numbers, of an odd count twice as many. As many blocks go through all rows
/// in a random order, with numbers that are shuffled anew for each round.
fn row(cells: usize, seed: u64, block: u32, group: u32) -> Vec<usize> {
    if cells < 2 {
        return (0..cells).collect();
    }
    let rows = cells << (cells % 2);
    let (round, turn) = (block as usize / rows, block as usize % rows);
    let label = [&b"bytecost rows v1"[..], &group.to_le_bytes()].concat();
    let mut random = random(seed, round as u32, &label);
    let names = shuffle(cells, &mut random);
    let row = shuffle(rows, &mut random)[turn];
    // The first row goes up and down in turn: 0, 1, n - 1, 2, n - 2.
    let first = |at: usize| match at % 2 {
        1 => at.div_ceil(2),
        _ => (cells - at / 2) % cells,
    };
    let order = (0..cells).map(|at| names[(first(at) + row) % cells]);
    let mut order: Vec<usize> = order.collect();
    if row >= cells {
        order.reverse();
    }
    order
}

/// ChaCha8 keyed with the seed (8 bytes, little-endian), a turn (4 bytes, little-endian), and a label,
/// filled up with zeros.
fn random(seed: u64, turn: u32, label: &[u8]) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..12].copy_from_slice(&turn.to_le_bytes());
    key[12..12 + label.len()].copy_from_slice(label);
    ChaCha8Rng::from_seed(key)
}

/// From the last place down.
fn shuffle(count: usize, random: &mut impl Rng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        let place = below(random, last as u64 + 1);
        order.swap(last, place as usize);
    }
    order
}

/// All equally likely. `n` is not 0.
fn below(random: &mut impl Rng, n: u64) -> u64 {
    let fair = u64::MAX - u64::MAX % n;
    loop {
        let x = random.next_u64();
        if x < fair {
            return x % n;
        }
    }
}
