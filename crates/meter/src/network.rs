//! The meter of a network's TCP: what its sockets did together, read from outside of them.
//!
//! Counts are of a network namespace: a trial's own, or with all else of the host's TCP. The file
//! `net/netstat` of a process shows the namespace that the process is in, proc_pid_net(5).

use std::fs::File;
use std::path::PathBuf;

use bytecost_spec::{Counter, Reading, Readings};

use crate::{grown, proc_text};

const FILES: [&str; 2] = ["net/netstat", "net/snmp"];

/// The counters of a [`NetworkMeter`], each with file, group and name in `/proc`.
const COUNTERS: [(Counter, usize, &str, &str); 8] = [
    (Counter::TcpDelayedAcks, 0, "TcpExt", "DelayedACKs"),
    (Counter::TcpDelayedAckLost, 0, "TcpExt", "DelayedACKLost"),
    (Counter::TcpAutoCorking, 0, "TcpExt", "TCPAutoCorking"),
    (Counter::TcpOutSegs, 1, "Tcp", "OutSegs"),
    (Counter::TcpInSegs, 1, "Tcp", "InSegs"),
    (Counter::TcpRetransSegs, 1, "Tcp", "RetransSegs"),
    (Counter::TcpListenDrops, 0, "TcpExt", "ListenDrops"),
    (Counter::TcpSynRetransmits, 0, "TcpExt", "TCPSynRetrans"),
];

/// The kernel of 2026 writes 4 KiB; a file that does not fit is not read in part.
const MOST_BYTES: usize = 16 << 10;

/// Reads the TCP counters of networks as a sum, some tens of µs each, outside of a window.
#[derive(Debug, Default)]
pub struct NetworkMeter {
    networks: Vec<[Option<File>; 2]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lacks {
    File,
    Counter,
}

/// What a [`NetworkMeter`] read: sums over the networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkSnapshot([Result<u64, Lacks>; COUNTERS.len()]);

impl NetworkMeter {
    /// Opens the counters of these networks, each once, by `/proc/PID` of a process in it; those of
    /// one without are absent.
    pub fn open(processes: &[Option<PathBuf>]) -> NetworkMeter {
        let open =
            |dir: &Option<PathBuf>| FILES.map(|file| File::open(dir.as_ref()?.join(file)).ok());
        NetworkMeter {
            networks: processes.iter().map(open).collect(),
        }
    }

    /// Reads all counters. Does not allocate.
    pub fn read(&self) -> NetworkSnapshot {
        let mut sums = [Ok(0_u64); COUNTERS.len()];
        let mut buffer = [0_u8; MOST_BYTES];
        for network in &self.networks {
            for (at, file) in network.iter().enumerate() {
                let text = file
                    .as_ref()
                    .and_then(|file| proc_text::reread(file, &mut buffer))
                    .filter(|text| text.len() < MOST_BYTES);
                for (sum, (_, file, group, name)) in sums.iter_mut().zip(COUNTERS) {
                    if file == at {
                        let found = found(text, group, name);
                        *sum = sum.and_then(|sum| Ok(sum.saturating_add(found?)));
                    }
                }
            }
        }
        NetworkSnapshot(sums)
    }

    /// What happened between two reads.
    pub fn difference(&self, start: &NetworkSnapshot, end: &NetworkSnapshot) -> Readings {
        let edges = start.0.into_iter().zip(end.0);
        let reading = |((counter, file, group, name), edges)| {
            let file = FILES[file];
            let reading = match edges {
                _ if self.networks.is_empty() => {
                    Reading::absent("nothing of this trial goes over TCP")
                }
                (Ok(start), Ok(end)) => grown(start, end),
                (Err(Lacks::Counter), _) | (_, Err(Lacks::Counter)) => Reading::absent(format!(
                    "/proc/PID/{file} of this kernel has no {group} {name}"
                )),
                _ => Reading::absent(format!("/proc/PID/{file} cannot be read")),
            };
            (counter, reading)
        };
        COUNTERS.into_iter().zip(edges).map(reading).collect()
    }
}

fn found(text: Option<&[u8]>, group: &str, name: &str) -> Result<u64, Lacks> {
    proc_text::in_columns(text.ok_or(Lacks::File)?, group, name).ok_or(Lacks::Counter)
}

#[cfg(test)]
mod tests;
