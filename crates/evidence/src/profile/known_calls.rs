//! Calibration of the profiler by a known number of calls: the CPU time that it adds to a call, and the
//! part of a call that it does not see.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;

use bytecost_sys::clock;
use rustix::fs::MemfdFlags;

/// Calls of a round, and rounds. The calls are reads of a file in memory, since a call that moves bytes
/// displaces the data of the counting programs from the caches, as calls of a profiled program do.
pub(super) const KNOWN_CALLS: u64 = 100;
pub(super) const KNOWN_ROUNDS: u64 = 50;
const KNOWN_BYTES: usize = 4096;

/// The CPU time of one call that the BPF programs do not see.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CallCost {
    /// The time that counting adds.
    pub added_ns: f64,
    /// The time of entry and return outside of the two tracepoints, less the part of `added_ns` between
    /// these.
    pub unseen_ns: f64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct KnownCalls {
    pub mean_ns: f64,
    /// The median of the means of the rounds, which is robust to rounds that were interrupted.
    pub median_ns: f64,
}

impl KnownCalls {
    /// Makes the calls and measures them.
    pub fn measure() -> io::Result<KnownCalls> {
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
