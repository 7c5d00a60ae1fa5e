//! The meter of the TCP counters of network namespaces: sums over all their sockets.
//!
//! A namespace is that of a trial alone, or that of the host, with all other TCP traffic. The file
//! `net/netstat` of a process has the counters of its namespace, proc_pid_net(5).

use std::fs::File;
use std::path::PathBuf;

use bytecost_spec::{Counter, Reading, Readings};

use crate::{increase, proc_text};

const FILES: [&str; 2] = ["net/netstat", "net/snmp"];

/// A counter with the file, the group and the name that it has in `/proc/PID`.
struct Source {
    counter: Counter,
    /// The index of its file in [`FILES`].
    file: usize,
    group: &'static str,
    name: &'static str,
}

/// The counters of a [`NetworkMeter`].
const SOURCES: [Source; 8] = [
    of_netstat(Counter::TcpDelayedAcks, "DelayedACKs"),
    of_netstat(Counter::TcpDelayedAckLost, "DelayedACKLost"),
    of_netstat(Counter::TcpAutoCorking, "TCPAutoCorking"),
    of_snmp(Counter::TcpOutSegs, "OutSegs"),
    of_snmp(Counter::TcpInSegs, "InSegs"),
    of_snmp(Counter::TcpRetransSegs, "RetransSegs"),
    of_netstat(Counter::TcpListenDrops, "ListenDrops"),
    of_netstat(Counter::TcpSynRetransmits, "TCPSynRetrans"),
];

const fn of_netstat(counter: Counter, name: &'static str) -> Source {
    Source {
        counter,
        file: 0,
        group: "TcpExt",
        name,
    }
}

const fn of_snmp(counter: Counter, name: &'static str) -> Source {
    Source {
        counter,
        file: 1,
        group: "Tcp",
        name,
    }
}

/// The largest file that is read; kernels of 2026 write 4 KiB. A larger file counts as unreadable.
const MOST_BYTES: usize = 16 << 10;

/// The open counter files of some namespaces. A read takes some tens of µs for each of them, so that it is
/// made outside of a window.
#[derive(Debug, Default)]
pub struct NetworkMeter {
    networks: Vec<[Option<File>; 2]>,
}

/// The reason why a counter was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    File,
    Counter,
}

/// A read of a [`NetworkMeter`]: sums over its namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkSnapshot([Result<u64, Missing>; SOURCES.len()]);

impl NetworkMeter {
    /// Opens the counters of namespaces, each by the directory `/proc/PID` of a process in it. All readings
    /// are absent if a process has no directory.
    pub fn open(processes: &[Option<PathBuf>]) -> NetworkMeter {
        let open =
            |dir: &Option<PathBuf>| FILES.map(|file| File::open(dir.as_ref()?.join(file)).ok());
        NetworkMeter {
            networks: processes.iter().map(open).collect(),
        }
    }

    /// Reads all counters. Does not allocate.
    pub fn read(&self) -> NetworkSnapshot {
        let mut sums = [Ok(0_u64); SOURCES.len()];
        let mut buffer = [0_u8; MOST_BYTES];
        for network in &self.networks {
            for (index, file) in network.iter().enumerate() {
                let text = file
                    .as_ref()
                    .and_then(|file| proc_text::reread(file, &mut buffer))
                    .filter(|text| text.len() < MOST_BYTES);
                for (sum, source) in sums.iter_mut().zip(&SOURCES) {
                    if source.file == index {
                        let value = source.value(text);
                        *sum = sum.and_then(|sum| Ok(sum.saturating_add(value?)));
                    }
                }
            }
        }
        NetworkSnapshot(sums)
    }

    /// The increases between two reads.
    pub fn difference(&self, start: &NetworkSnapshot, end: &NetworkSnapshot) -> Readings {
        let reads = start.0.into_iter().zip(end.0);
        let reading = |(source, edges): (&Source, _)| {
            let (file, group, name) = (FILES[source.file], source.group, source.name);
            let reading = match edges {
                _ if self.networks.is_empty() => {
                    Reading::absent("nothing of this trial goes over TCP")
                }
                (Ok(from), Ok(to)) => increase(from, to),
                (Err(Missing::Counter), _) | (_, Err(Missing::Counter)) => Reading::absent(
                    format!("/proc/PID/{file} of this kernel has no {group} {name}"),
                ),
                _ => Reading::absent(format!("/proc/PID/{file} cannot be read")),
            };
            (source.counter, reading)
        };
        SOURCES.iter().zip(reads).map(reading).collect()
    }
}

impl Source {
    /// The counter's value in the text of its file.
    fn value(&self, text: Option<&[u8]>) -> Result<u64, Missing> {
        proc_text::in_columns(text.ok_or(Missing::File)?, self.group, self.name)
            .ok_or(Missing::Counter)
    }
}

#[cfg(test)]
mod tests;
