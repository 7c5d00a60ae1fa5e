//! The kinds of work on which the processes of a profile spend their CPU time, by samples of the CPUs.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use aya::util::online_cpus;
use bytecost_spec::evidence::Kind;
use bytecost_spec::profile::WorkSamples;
use bytecost_sys::sampler::{Fork, Sampler};

use crate::attribution::{Attribution, MAP};
use crate::bpf;
use crate::symbols::Symbols;

/// From one sample of a CPU to the next: no divisor of the timer's tick, with which it would keep in step.
const EVERY_NS: u64 = 997_000;
/// CPUs that are sampled at most: each has a ring of 256 KiB.
const MOST_CPUS: usize = 128;
/// Frames of a call chain that are kept, the innermost first.
const MOST_FRAMES: usize = 24;

/// Samples all CPUs, and counts by kind of work the samples of some processes and of all that these
/// start.
#[derive(Debug)]
pub(super) struct WorkSampler {
    sampler: Sampler,
    symbols: Symbols,
    processes: BTreeSet<u32>,
    counts: BTreeMap<Kind, u64>,
}

impl WorkSampler {
    /// A sampler that does not run yet and counts no process.
    ///
    /// # Errors
    /// In a sentence: no perf events, hidden symbols, more CPUs than may be sampled.
    pub(super) fn open(root: &Path) -> io::Result<WorkSampler> {
        let cpus = online_cpus().map_err(|(_, why)| why)?;
        if cpus.len() > MOST_CPUS {
            return Err(io::Error::other(format!(
                "{} CPUs are more than the {MOST_CPUS} that are sampled",
                cpus.len()
            )));
        }
        let sampler = Sampler::open(&cpus, EVERY_NS)
            .map_err(|why| bpf::about("the CPUs cannot be sampled", why))?;
        let symbols = Symbols::read(root).map_err(|why| bpf::about("/proc/kallsyms", why))?;
        Ok(WorkSampler {
            sampler,
            symbols,
            processes: BTreeSet::new(),
            counts: BTreeMap::new(),
        })
    }

    /// Counts samples of this process too.
    pub(super) fn follow(&mut self, process: u32) {
        self.processes.insert(process);
    }

    pub(super) fn start(&mut self) -> io::Result<()> {
        self.sampler.enable()
    }

    /// Ends sampling; what was sampled stays to be taken.
    pub(super) fn stop(&mut self) -> io::Result<()> {
        self.sampler.disable()
    }

    /// Takes in what was sampled since the last time. A ring has room for a second or more.
    pub(super) fn take(&mut self) {
        let mut samples = Vec::new();
        self.sampler.take(&mut |sample| {
            let frames = sample.kernel_chain.iter().take(MOST_FRAMES);
            samples.push((sample.pid, frames.copied().collect::<Vec<_>>()));
        });
        // A process may start another on a CPU whose ring is read after the other's.
        for Fork { pid, parent } in self.sampler.forks() {
            if self.processes.contains(&parent) {
                self.processes.insert(pid);
            }
        }
        for (pid, frames) in samples {
            if !self.processes.contains(&pid) {
                continue;
            }
            let functions = frames
                .iter()
                .map(|address| self.symbols.name(*address).unwrap_or("?"));
            if let Attribution::Work { kind, .. } = MAP.attribute(functions) {
                *self.counts.entry(kind).or_default() += 1;
            }
        }
    }

    /// The samples of each kind so far, most first.
    pub(super) fn counted(&self) -> Vec<WorkSamples> {
        let mut all: Vec<_> = self
            .counts
            .iter()
            .map(|(kind, samples)| WorkSamples {
                kind: *kind,
                samples: *samples,
            })
            .collect();
        all.sort_by_key(|of| std::cmp::Reverse(of.samples));
        all
    }
}
