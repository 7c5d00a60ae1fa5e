//! Arithmetic in registers: no memory, no call.

use std::hint::black_box;
use std::io;

use super::{Work, wrong};

/// Chains that are independent of each other: enough to keep a core's multipliers busy.
const CHAINS: usize = 8;
/// Steps of each chain in a unit: some 10 µs.
const STEPS: u64 = 4096;

/// Multiplier and addend of Knuth's MMIX generator, which has a full period: the one is 1 more than
/// a multiple of 4, the other odd.
pub(super) const FACTOR: u64 = 6_364_136_223_846_793_005;
pub(super) const ADDEND: u64 = 1_442_695_040_888_963_407;

/// The factor and addend of so many steps of `x ← x·FACTOR + ADDEND` at once, by squaring.
pub(super) const fn jump(mut steps: u64) -> (u64, u64) {
    let (mut factor, mut addend) = (1u64, 0u64);
    let (mut f, mut a) = (FACTOR, ADDEND);
    while steps > 0 {
        if steps & 1 == 1 {
            factor = factor.wrapping_mul(f);
            addend = addend.wrapping_mul(f).wrapping_add(a);
        }
        a = f.wrapping_add(1).wrapping_mul(a);
        f = f.wrapping_mul(f);
        steps >>= 1;
    }
    (factor, addend)
}

/// Whole numbers: chains of multiply and add, each step of which needs the one before.
#[derive(Debug)]
pub struct Integer {
    chains: [u64; CHAINS],
}

impl Integer {
    pub fn new(flow: u32) -> Integer {
        let first = u64::from(flow) * CHAINS as u64;
        Integer {
            chains: std::array::from_fn(|i| first + i as u64),
        }
    }
}

impl Work for Integer {
    fn unit(&mut self) -> io::Result<()> {
        const JUMP: (u64, u64) = jump(STEPS);
        let mut chains = black_box(self.chains);
        for _ in 0..STEPS {
            for chain in &mut chains {
                *chain = chain.wrapping_mul(FACTOR).wrapping_add(ADDEND);
            }
        }
        let chains = black_box(chains);
        for (now, before) in chains.iter().zip(&self.chains) {
            if *now != before.wrapping_mul(JUMP.0).wrapping_add(JUMP.1) {
                return Err(wrong("integer arithmetic"));
            }
        }
        self.chains = chains;
        Ok(())
    }

    fn steps(&self) -> (u64, u64) {
        (STEPS, CHAINS as u64 * 8)
    }
}

/// Floating point: chains of multiply and add on numbers of 64 bits, rounded after each
/// operation (IEEE 754), so that the result has one right value.
#[derive(Debug)]
pub struct Float {
    begin: [f64; CHAINS],
    /// Bits of each chain's end, found one chain after the other.
    end: [u64; CHAINS],
}

impl Float {
    pub fn new(flow: u32) -> Float {
        let begin = std::array::from_fn(|i| f64::from(flow) + i as f64 / 8.0);
        let end = begin.map(|start: f64| {
            let mut x = black_box(start);
            for _ in 0..STEPS {
                x = black_box(step(x));
            }
            x.to_bits()
        });
        Float { begin, end }
    }
}

/// Wanders about between 0 and 4 without ever settling or vanishing.
#[inline]
fn step(x: f64) -> f64 {
    let y = x - 2.0;
    y * y * 0.953_125 + 0.007_812_5
}

impl Work for Float {
    fn unit(&mut self) -> io::Result<()> {
        let mut chains = black_box(self.begin);
        for _ in 0..STEPS {
            for chain in &mut chains {
                *chain = step(*chain);
            }
        }
        if black_box(chains).map(f64::to_bits) == self.end {
            Ok(())
        } else {
            Err(wrong("floating point arithmetic"))
        }
    }

    fn steps(&self) -> (u64, u64) {
        (STEPS, CHAINS as u64 * 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_is_so_many_steps() {
        for steps in [0, 1, 2, 7, 100] {
            let (factor, addend) = jump(steps);
            let mut x = 12345u64;
            let jumped = x.wrapping_mul(factor).wrapping_add(addend);
            for _ in 0..steps {
                x = x.wrapping_mul(FACTOR).wrapping_add(ADDEND);
            }
            assert_eq!(jumped, x, "{steps}");
        }
    }

    #[test]
    fn floating_point_never_settles() {
        let mut seen = std::collections::HashSet::new();
        let mut x = 0.375f64;
        for _ in 0..STEPS {
            x = step(x);
            assert!((0.0..4.0).contains(&x) && x.is_normal(), "{x}");
            seen.insert(x.to_bits());
        }
        assert!(seen.len() > STEPS as usize / 2, "{}", seen.len());
    }

    #[test]
    fn a_wrong_result_is_noticed() {
        let mut float = Float::new(1);
        float.end[3] ^= 1;
        assert!(float.unit().is_err());
    }
}
