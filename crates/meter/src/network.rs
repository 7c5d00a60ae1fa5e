//! The meter of a network's TCP: what its sockets did together, read from outside of them.
//!
//! The kernel counts these for each network namespace. In a namespace of a trial's own they are
//! that trial's alone; in the host's they hold whatever else went over TCP there as well. The file
//! `net/netstat` of a process shows the namespace that the process is in, proc_pid_net(5).

use std::fs::File;
use std::path::{Path, PathBuf};

use bytecost_spec::{Counter, Reading, Readings};

use crate::{grown, proc_text};

/// The counters of a [`NetworkMeter`].
const NETWORK_COUNTERS: &[Counter] = &[
    Counter::TcpDelayedAcks,
    Counter::TcpDelayedAckLost,
    Counter::TcpAutoCorking,
    Counter::TcpOutSegs,
    Counter::TcpInSegs,
    Counter::TcpRetransSegs,
];

/// Where the kernel shows a counter: file, group and name.
struct Place {
    file: usize,
    group: &'static str,
    name: &'static str,
}

const FILES: [&str; 2] = ["net/netstat", "net/snmp"];

/// In the order of [`NETWORK_COUNTERS`].
const PLACES: [Place; NETWORK_COUNTERS.len()] = [
    place(0, "TcpExt:", "DelayedACKs"),
    place(0, "TcpExt:", "DelayedACKLost"),
    place(0, "TcpExt:", "TCPAutoCorking"),
    place(1, "Tcp:", "OutSegs"),
    place(1, "Tcp:", "InSegs"),
    place(1, "Tcp:", "RetransSegs"),
];

const fn place(file: usize, group: &'static str, name: &'static str) -> Place {
    Place { file, group, name }
}

/// The kernel of 2026 writes 4 KiB; a file that does not fit is not read in part.
const MOST_BYTES: usize = 16 << 10;

/// Reads the TCP counters of one or more networks, as a sum. For the thread that watches a
/// trial: a read takes the kernel some tens of microseconds a network.
#[derive(Debug, Default)]
pub struct NetworkMeter {
    networks: Vec<[Option<File>; 2]>,
}

/// A counter at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// The sum over the networks.
    Count(u64),
    /// A file cannot be read.
    NoFile,
    /// A file does not have the counter.
    NoCounter,
}

/// What a [`NetworkMeter`] read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkSnapshot([Found; NETWORK_COUNTERS.len()]);

impl NetworkMeter {
    /// Opens the counters of the networks that these directories show: `/proc/PID` of a process
    /// in each, and each network once. What is missing is absent from the readings with its
    /// reason.
    pub fn open(processes: &[PathBuf]) -> NetworkMeter {
        let open = |dir: &PathBuf| FILES.map(|file| File::open(dir.join(file)).ok());
        NetworkMeter {
            networks: processes.iter().map(open).collect(),
        }
    }

    /// Reads all counters. Does not allocate.
    pub fn read(&self) -> NetworkSnapshot {
        let mut sums = [Found::Count(0); NETWORK_COUNTERS.len()];
        let mut buffer = [0_u8; MOST_BYTES];
        for network in &self.networks {
            for (at, file) in network.iter().enumerate() {
                let text = file
                    .as_ref()
                    .and_then(|file| proc_text::reread(file, &mut buffer))
                    .filter(|text| text.len() < MOST_BYTES);
                for (sum, place) in sums.iter_mut().zip(&PLACES).filter(|(_, p)| p.file == at) {
                    *sum = sum.plus(found(text, place));
                }
            }
        }
        NetworkSnapshot(sums)
    }

    /// What happened between two reads.
    pub fn difference(&self, start: &NetworkSnapshot, end: &NetworkSnapshot) -> Readings {
        let edges = start.0.iter().zip(&end.0);
        let rows = NETWORK_COUNTERS.iter().zip(&PLACES).zip(edges);
        rows.map(|((counter, place), edges)| (*counter, self.reading(place, edges)))
            .collect()
    }

    fn reading(&self, place: &Place, edges: (&Found, &Found)) -> Reading {
        let file = FILES[place.file];
        match edges {
            _ if self.networks.is_empty() => Reading::absent("nothing of this trial goes over TCP"),
            (Found::Count(start), Found::Count(end)) => grown(*start, *end),
            (Found::NoCounter, _) | (_, Found::NoCounter) => Reading::absent(format!(
                "/proc/PID/{file} of this kernel has no {} {}",
                place.group.trim_end_matches(':'),
                place.name
            )),
            _ => Reading::absent(format!("/proc/PID/{file} cannot be read")),
        }
    }
}

impl Found {
    fn plus(self, other: Found) -> Found {
        match (self, other) {
            (Found::Count(a), Found::Count(b)) => Found::Count(a.saturating_add(b)),
            (Found::Count(_), missing) | (missing, _) => missing,
        }
    }
}

fn found(text: Option<&[u8]>, place: &Place) -> Found {
    match text {
        None => Found::NoFile,
        Some(text) => proc_text::in_columns(text, place.group, place.name)
            .map_or(Found::NoCounter, Found::Count),
    }
}

/// The directory that shows a process's networks.
pub fn of_process(pid: u32) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

#[cfg(test)]
mod tests;
