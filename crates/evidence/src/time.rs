//! CPU time by party and kind of work, from samples of every CPU.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use bytecost_spec::evidence::{CpuSamples, Kind, Party, TimeByKind};
use bytecost_sys::children;
use bytecost_sys::clock;
use bytecost_sys::sampler::{Fork, Sampler};

use crate::Parties;
use crate::attribution::{Attribution, MAP, Map};
use crate::bpf::about;
use crate::symbols::Symbols;

/// From one look to the next: no divisor of the timer's tick, which it would keep in step with.
pub const EVERY_NS: u64 = 191_000;
/// The most frames of a look that are kept: enough to find who called a function that serves all.
const MOST_FRAMES: usize = 24;
const MOST_LOOKS: usize = 4 << 20;
/// Rows of a window that name their function; those of fewer looks have their kind alone.
const MOST_ROWS: usize = 400;

/// Samples the CPUs within windows.
#[derive(Debug)]
pub struct TimeSampler {
    sampler: Sampler,
    symbols: Symbols,
    root: PathBuf,
    parties: Parties,
    parents: BTreeMap<u32, u32>,
    began_ns: u64,
    looks: Vec<(u32, [u64; MOST_FRAMES])>,
    lost: u64,
}

impl TimeSampler {
    /// Makes it ready; nothing is sampled yet. Refused in words that say what to do about it.
    pub fn open(root: &Path, cpus: &[u32]) -> io::Result<TimeSampler> {
        let what = "the CPUs cannot be sampled (it needs root or CAP_PERFMON, or kernel.perf_event_paranoid at 0)";
        let sampler = Sampler::open(cpus, EVERY_NS).map_err(|e| about(what, e))?;
        let symbols = Symbols::read(root).map_err(|e| about("/proc/kallsyms", e))?;
        Ok(TimeSampler {
            sampler,
            symbols,
            root: root.to_owned(),
            parties: Parties::default(),
            parents: BTreeMap::new(),
            began_ns: 0,
            looks: Vec::new(),
            lost: 0,
        })
    }

    /// Opens a window.
    pub fn begin(&mut self, parties: Parties) -> io::Result<()> {
        // Samples of an earlier window that ended with an error are dropped.
        self.sampler.disable()?;
        self.sampler.take(&mut |_| {});
        self.sampler.forks();
        self.looks.clear();
        self.lost = 0;
        self.parties = parties;
        self.parents.clear();
        for parent in std::iter::once(parties.sender).chain(parties.receiver) {
            // If the kernel does not list children, their time is that of other processes.
            let children = children::started_by(&self.root, parent).unwrap_or_default();
            let pairs = children.into_iter().map(|pid| (pid, parent));
            self.parents.extend(pairs);
        }
        self.began_ns = clock::monotonic_ns();
        self.sampler.enable()
    }

    /// Takes what there is, so that the rings have room: to be called every 50 ms or so.
    pub fn take(&mut self) {
        let looks = &mut self.looks;
        let mut beyond = 0;
        self.lost += self.sampler.take(&mut |look| {
            if looks.len() == MOST_LOOKS {
                beyond += 1;
                return;
            }
            let mut frames = [0; MOST_FRAMES];
            for (kept, frame) in frames.iter_mut().zip(look.kernel_chain) {
                *kept = *frame;
            }
            looks.push((look.pid, frames));
        });
        self.lost += beyond;
    }

    /// Closes the window and sorts what was found.
    pub fn end(&mut self) -> io::Result<TimeByKind> {
        let elapsed_ns = clock::monotonic_ns() - self.began_ns;
        self.sampler.disable()?;
        self.take();
        let names = |frames: &[u64; MOST_FRAMES]| {
            let mut names = Vec::with_capacity(MOST_FRAMES);
            for address in frames.iter().take_while(|a| **a != 0) {
                names.push(self.symbols.name(*address).unwrap_or("?"));
            }
            names
        };
        let forks = self.sampler.forks().into_iter();
        self.parents
            .extend(forks.map(|Fork { pid, parent }| (pid, parent)));
        let worker = |pid| worker(self.parties, &self.parents, pid);
        let looks = self.looks.iter().map(|(pid, f)| (worker(*pid), names(f)));
        let (looks, idle) = sorted(&MAP, self.parties, looks);
        Ok(TimeByKind {
            every_ns: EVERY_NS,
            elapsed_ns,
            looks,
            idle,
            lost: self.lost,
        })
    }
}

/// The party that a process works for: itself, or who started it.
fn worker(parties: Parties, parents: &BTreeMap<u32, u32>, pid: u32) -> u32 {
    let is_party = |process: u32| process == parties.sender || Some(process) == parties.receiver;
    let parent = parents.get(&pid).copied();
    match parent {
        Some(parent) if !is_party(pid) && is_party(parent) => parent,
        _ => pid,
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct SampledFunction<'n> {
    party: Party,
    kind: Kind,
    function: &'n str,
}

#[derive(Default)]
struct FunctionSamples {
    count: u64,
    /// As [`CpuSamples::moved`].
    moved: u64,
}

fn sorted<'a>(
    map: &Map,
    parties: Parties,
    looks: impl Iterator<Item = (u32, Vec<&'a str>)>,
) -> (Vec<CpuSamples>, u64) {
    let mut rows: BTreeMap<SampledFunction<'_>, FunctionSamples> = BTreeMap::new();
    let mut idle = 0;
    for (pid, chain) in looks {
        let party = match pid {
            pid if pid == parties.sender => Party::Sender,
            pid if Some(pid) == parties.receiver => Party::Receiver,
            _ => Party::Rest,
        };
        match map.attribute(chain) {
            // Process 0 has no user code: without a chain there was nothing to see.
            Attribution::Idle => idle += 1,
            Attribution::Work {
                kind: Kind::User, ..
            } if pid == 0 => idle += 1,
            Attribution::Work {
                kind,
                function,
                moved,
            } => {
                let key = SampledFunction {
                    party,
                    kind,
                    function,
                };
                let sum = rows.entry(key).or_default();
                sum.count += 1;
                sum.moved += u64::from(moved);
            }
        }
    }
    let mut samples: Vec<CpuSamples> = rows.into_iter().map(row).collect();
    samples.sort_by_key(|r| std::cmp::Reverse(r.count));
    (shortened(samples), idle)
}

fn row((key, sum): (SampledFunction<'_>, FunctionSamples)) -> CpuSamples {
    CpuSamples {
        party: key.party,
        kind: key.kind,
        function: key.function.to_owned(),
        count: sum.count,
        moved: sum.moved,
    }
}

/// With the rarest functions of each kind joined in one row without a name.
fn shortened(mut rows: Vec<CpuSamples>) -> Vec<CpuSamples> {
    let rare = rows.split_off(rows.len().min(MOST_ROWS));
    let mut joined: BTreeMap<SampledFunction<'_>, FunctionSamples> = BTreeMap::new();
    for row in rare {
        let key = SampledFunction {
            party: row.party,
            kind: row.kind,
            function: "",
        };
        let sum = joined.entry(key).or_default();
        sum.count += row.count;
        sum.moved += row.moved;
    }
    rows.extend(joined.into_iter().map(row));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTIES: Parties = Parties {
        sender: 10,
        receiver: Some(20),
        port: None,
        sender_listens: false,
        network: None,
    };

    #[test]
    fn looks_are_counted_by_party_kind_and_function() {
        let (copy, unlock) = ("rep_movs_alternative", "_raw_spin_unlock_irqrestore");
        let looks = [
            (10, vec![copy, "tcp_sendmsg"]),
            (10, vec![copy, "tcp_sendmsg"]),
            (10, vec![unlock, "__wake_up_sync_key"]),
            (20, vec![copy, "tcp_recvmsg"]),
            (20, vec![]),
            (33, vec!["tcp_v4_rcv"]),
            (0, vec!["default_idle", "do_idle"]),
            (0, vec![]),
        ];
        let (found, idle) = sorted(&MAP, PARTIES, looks.into_iter());
        assert_eq!(idle, 2);
        let of = |l: &CpuSamples| (l.party, l.kind, l.function.clone(), l.count, l.moved);
        let expected = [
            (Party::Sender, Kind::DataCopy, copy, 2, 0),
            (Party::Sender, Kind::Scheduling, "__wake_up_sync_key", 1, 1),
            (Party::Receiver, Kind::DataCopy, copy, 1, 0),
            (Party::Receiver, Kind::User, "", 1, 0),
            (Party::Rest, Kind::Protocol, "tcp_v4_rcv", 1, 0),
        ]
        .map(|(p, k, f, n, moved)| (p, k, f.to_owned(), n, moved));
        assert!(found.iter().map(of).eq(expected), "{found:?}");
    }

    #[test]
    fn who_was_started_works_for_who_started_it() {
        let parents = BTreeMap::from([(11, 10), (21, 20), (20, 10), (34, 33)]);
        let check = |pid, expected| assert_eq!(worker(PARTIES, &parents, pid), expected);
        check(10, 10);
        check(11, 10);
        check(21, 20);
        // A party is nobody's helper.
        check(20, 20);
        check(34, 34);
        check(0, 0);
    }

    #[test]
    fn the_rarest_functions_are_joined_and_none_is_lost() {
        let names: Vec<String> = (0..MOST_ROWS + 50).map(|i| format!("tcp_{i}")).collect();
        let mut looks: Vec<(u32, Vec<&str>)> = Vec::new();
        for (i, name) in names.iter().enumerate() {
            let times = if i < MOST_ROWS { 2 } else { 1 };
            looks.extend((0..times).map(|_| (10, vec![name.as_str()])));
        }
        let all = looks.len() as u64;
        let (found, _) = sorted(&MAP, PARTIES, looks.into_iter());
        assert_eq!(found.len(), MOST_ROWS + 1);
        assert_eq!(found.iter().map(|l| l.count).sum::<u64>(), all);
        let last = found.last().unwrap();
        assert_eq!((last.function.as_str(), last.count), ("", 50));
    }
}
