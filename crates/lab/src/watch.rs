//! The watch of trials for evidence, whose times are never compared: what is collected of them, and how it
//! is joined with what the sides have moved.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use bytecost_engine::{Mover, Route};
use bytecost_evidence::copies;
use bytecost_spec::evidence::{
    Copied, CopiedBytes, CopyMeans, CopyPlace, CountedEvent, EventCount, Means,
};
use bytecost_spec::host::CpuCache;
use bytecost_spec::{Cell, Counter, Host, Reading, Transport};

use crate::protocol::WantedEvidence;
use crate::trial_output::TrialOutput;

/// Rounds of trials for evidence.
const TIME_ROUND: u32 = 0;
const COUNTING_ROUND: u32 = 1;
const FOOTPRINT_ROUND: u32 = 2;

const OF_PEER: &str =
    "acknowledgements come from the other host, so none is queued to a device of this one";

/// Places whose counts are not to be believed, each with the reason.
pub(crate) type AffectedPlaces = BTreeMap<CopyPlace, String>;

/// The evidence of a pass over cells, and what is known of the means by which it is collected.
#[derive(Debug)]
pub struct Watch {
    /// The part of it that an observer collects.
    wanted: WantedEvidence,
    /// True if the sender measures its footprint in the caches.
    probes: bool,
    window: Duration,
    /// The results of known transfers, by their cells.
    pub(crate) known: BTreeMap<String, AffectedPlaces>,
}

impl Watch {
    /// A watch by these means in windows of this length. Means that disturb each other (sampling, counting,
    /// probing of caches) are to be of different watches.
    pub fn by(means: &[Means], window: Duration) -> Watch {
        let counts_copies = means.contains(&Means::Copies);
        Watch {
            wanted: WantedEvidence {
                root: "/".into(),
                time: means.contains(&Means::Time),
                copies: if counts_copies {
                    copies::MEANS.to_vec()
                } else {
                    Vec::new()
                },
                events: means.contains(&Means::Counts),
            },
            probes: means.contains(&Means::Footprint),
            window,
            known: BTreeMap::new(),
        }
    }

    /// A watch that counts copies by some means alone, in a kernel that these files of /proc and /sys say
    /// what it has.
    pub fn of_copies_by(means: &[CopyMeans], root: &Path, window: Duration) -> Watch {
        let mut watch = Watch::by(&[], window);
        watch.wanted.root = root.to_owned();
        watch.wanted.copies = means.to_vec();
        watch
    }

    /// The evidence that an observer collects.
    pub(crate) fn of_observer(&self) -> WantedEvidence {
        self.wanted.clone()
    }

    /// Returns true if it counts copies.
    pub(crate) fn counts_copies(&self) -> bool {
        !self.wanted.copies.is_empty()
    }

    /// Returns true if a cell has anything to watch: of a server time and requests, but no copies. A
    /// mover's own program displaces nothing here, and a mover that moves nothing has nothing to count.
    pub fn is_for(&self, cell: &Cell) -> bool {
        if cell.is_served() {
            return self.wanted.time || self.wanted.events;
        }
        let mover = Mover::named(&cell.mover);
        let route = mover.map(|m| m.route);
        match self.round() {
            TIME_ROUND => true,
            FOOTPRINT_ROUND => !mover.is_some_and(|m| m.is_helped()),
            _ => route.is_some_and(|r| r.has_peer() || r.is_of_files()),
        }
    }

    /// The number of this watch's trial among those of a cell, which are apart since one disturbs another.
    pub fn round(&self) -> u32 {
        if self.wanted.time {
            TIME_ROUND
        } else if self.probes {
            FOOTPRINT_ROUND
        } else {
            COUNTING_ROUND
        }
    }

    /// The length of its windows.
    pub fn window(&self) -> Duration {
        self.window
    }

    /// The caches in which the sender measures its footprint: its own CPU's, else those of the first.
    pub(crate) fn caches(&self, host: &Host, pins: &[Vec<u32>]) -> Vec<CpuCache> {
        if !self.probes {
            return Vec::new();
        }
        let first = host.cpus.first().map_or(0, |c| c.cpu);
        let cpu = pins.first().and_then(|set| set.first()).copied();
        caches_of(host, cpu.unwrap_or(first))
    }
}

/// The events that were counted in a trial. Acknowledgements that are not queued here pass no tracepoint:
/// over wire a responder has counted them.
pub(crate) fn counts(cell: &Cell, output: &TrialOutput) -> Vec<EventCount> {
    let mut counts = output.evidence.counts.clone();
    let elsewhere = match cell.transport {
        Transport::Peer => Some(Reading::absent(OF_PEER)),
        over if over.has_receiver() => None,
        _ => output.machine.get(&Counter::WireAcknowledgements).cloned(),
    };
    if let Some(reading) = elsewhere {
        let mut all = counts.iter_mut();
        let counted = all.find(|c| c.event == CountedEvent::Acknowledgements);
        counted.into_iter().for_each(|c| c.count = reading.clone());
    }
    counts
}

/// The bytes that were copied on the way that a cell's have; none where that was not counted.
pub(crate) fn copied(cell: &Cell, output: &TrialOutput) -> Option<CopiedBytes> {
    let places = copy_places(cell);
    let counted = output.evidence.copied.iter();
    let legs: Vec<Copied> = counted
        .filter(|c| places.contains(&c.leg))
        .cloned()
        .collect();
    let payload_bytes = output.truth.as_ref()?.sent_bytes;
    (!legs.is_empty()).then(|| CopiedBytes {
        payload_bytes,
        legs,
        gaps: output.evidence.gaps.clone(),
    })
}

/// The caches of data of a CPU, nearest first, each level once.
fn caches_of(host: &Host, cpu: u32) -> Vec<CpuCache> {
    let is_of_cpu = |c: &&CpuCache| c.kind != "Instruction" && c.shared_by.contains(&cpu);
    let mut caches: Vec<CpuCache> = host.caches.iter().filter(is_of_cpu).cloned().collect();
    caches.sort_by_key(|c| c.level);
    caches.dedup_by_key(|c| c.level);
    caches
}

/// The places at which a cell's bytes may be copied by the kernel.
pub(crate) fn copy_places(cell: &Cell) -> Vec<CopyPlace> {
    let Some(route) = Mover::named(&cell.mover).map(|m| m.route) else {
        return Vec::new();
    };
    let mut places = Vec::new();
    if route.reads_a_file() {
        places.push(CopyPlace::FromFile);
    }
    if route.has_peer() {
        places.push(CopyPlace::IntoKernel);
        // Copies on the other host are not counted here.
        if cell.transport.has_receiver() && cell.transport != Transport::Peer {
            places.extend([CopyPlace::Delivery, CopyPlace::ToReader]);
        }
    }
    if matches!(route, Route::MemoryToFile | Route::FileToFile) {
        places.push(CopyPlace::IntoFile);
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caches_are_those_of_the_cpu_that_the_sender_is_held_on() {
        let cache = |level, kind: &str, kib: u64, cpus: &[u32]| CpuCache {
            level,
            kind: kind.to_owned(),
            size_bytes: kib << 10,
            shared_by: cpus.to_vec(),
        };
        let host = Host {
            caches: vec![
                cache(3, "Unified", 32 << 10, &[0, 1]),
                cache(1, "Instruction", 1, &[1]),
                cache(1, "Data", 32, &[0]),
                cache(1, "Data", 48, &[1]),
                cache(2, "Unified", 1 << 10, &[1]),
            ],
            ..Host::default()
        };
        let sizes = |watch: &Watch, pins: &[Vec<u32>]| -> Vec<u64> {
            let caches = watch.caches(&host, pins);
            caches.iter().map(|c| c.size_bytes >> 10).collect()
        };
        let probing = Watch::by(&[Means::Footprint], Duration::from_millis(1));
        assert_eq!(sizes(&probing, &[]), [32, 32 << 10]);
        assert_eq!(sizes(&probing, &[vec![1, 0]]), [48, 1 << 10, 32 << 10]);
        assert_eq!(sizes(&Watch::by(&[], Duration::ZERO), &[]), [0; 0]);
    }
}
