//! The run of a target: under a fuzzing engine as that engine says, and under plain `cargo test`
//! on its corpus and on inputs from fixed seeds, so that one commit always gives one result.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Longest input of the brief run, in bytes.
const MOST_BYTES: u64 = 256;

/// Makes a test of a target: `target!(name, cases, function of &[u8])`.
macro_rules! target {
    ($name:ident, $cases:expr, $check:path) => {
        #[test]
        fn $name() {
            let target = bolero::check!();
            #[cfg(not(fuzzing))]
            let target = target.with_iterations(0); // only its corpus and what once crashed
            target.for_each($check);
            if !cfg!(fuzzing) && std::env::var_os("CARGO_BOLERO_SELECT").is_none() {
                $crate::target::from_seeds($cases, $check);
            }
        }
    };
}
pub(crate) use target;

/// Runs a check on `cases` inputs; the seed of one that fails is printed.
pub fn from_seeds(cases: u64, check: fn(&[u8])) {
    for seed in 0..cases {
        let input = bytes(seed);
        if let Err(cause) = catch_unwind(AssertUnwindSafe(|| check(&input))) {
            eprintln!("seed {seed} of the brief run, input {input:?}");
            resume_unwind(cause);
        }
    }
}

/// The input of a seed, by SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
fn bytes(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0xD1B5_4A32_D192_ED03);
    let mut next = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    };
    let len = next() % MOST_BYTES;
    (0..len).map(|_| next() as u8).collect()
}
