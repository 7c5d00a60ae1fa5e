//! Calls of known number, by which the profiler finds out what it sees of a call, and what it adds to one.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;

use bytecost_sys::clock;
use rustix::fs::MemfdFlags;

/// Calls of known effect, and how often as many are made: reads of a file in memory, since a call that
/// moves bytes displaces from the caches what counting needs.
pub(super) const KNOWN_CALLS: u64 = 100;
pub(super) const KNOWN_ROUNDS: u64 = 50;
const KNOWN_BYTES: usize = 4096;

/// CPU time of one call besides what the programs see of it, measured by known calls.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CallCost {
    /// The part that counting adds.
    pub added_ns: f64,
    /// Entry and return outside of the two tracepoints, less the part of `added_ns` that lies between
    /// them.
    pub unseen_ns: f64,
}

/// CPU time of one of the known calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownCalls {
    pub mean_ns: f64,
    /// The median of the rounds' means, as anything may come between two calls.
    pub median_ns: f64,
}

impl KnownCalls {
    pub fn made() -> io::Result<KnownCalls> {
        let file = rustix::fs::memfd_create("known", MemfdFlags::CLOEXEC)?;
        let mut file = File::from(file);
        let mut bytes = [0; KNOWN_BYTES];
        file.write_all(&bytes)?;
        let mut rounds = Vec::new();
        for _ in 0..KNOWN_ROUNDS {
            let began = clock::thread_cpu_ns();
            for _ in 0..KNOWN_CALLS {
                file.read_exact_at(&mut bytes, 0)?;
            }
            let ns = clock::thread_cpu_ns().saturating_sub(began);
            rounds.push(ns as f64 / KNOWN_CALLS as f64);
        }
        rounds.sort_by(f64::total_cmp);
        Ok(KnownCalls {
            mean_ns: rounds.iter().sum::<f64>() / rounds.len() as f64,
            median_ns: rounds[rounds.len() / 2],
        })
    }
}
