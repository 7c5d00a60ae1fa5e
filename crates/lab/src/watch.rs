//! The watch of trials for evidence, whose times are never compared: it samples the CPUs, or counts.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytecost_engine::{Mover, Route};
use bytecost_evidence::cpu_accounts::AccountedProcesses;
use bytecost_evidence::{Copies, CpuAccountant, Events, Parties, TimeSampler};
use bytecost_spec::evidence::{
    Copied, CopiedBytes, CopyPlace, CountedEvent, CpuAccounts, EventCount, TimeByKind,
};
use bytecost_spec::host::CpuCache;
use bytecost_spec::{Cell, Counter, Host, Reading, Transport};
use bytecost_sys::{clock, proc_view};

use crate::endpoint_process::{Endpoint, next_answer};
use crate::protocol::{FromEndpoint, Role, Schedule};
use crate::trial_error::TrialError;
use crate::trial_output::TrialOutput;
use crate::trial_processes::TrialProcesses;

/// The time from one look at the samplers to the next, in ns.
const DRAIN_INTERVAL_NS: u64 = 20_000_000;

/// Rounds of trials for evidence.
const TIME_ROUND: u32 = 0;
const COUNTING_ROUND: u32 = 1;
const FOOTPRINT_ROUND: u32 = 2;
/// The divisor of the window by which counting may begin late.
const MOST_LATE: u64 = 10;

const OF_PEER: &str =
    "acknowledgements come from the other host, so none is queued to a device of this one";

/// Places whose counts are not to be believed, each with the reason.
pub(crate) type AffectedPlaces = BTreeMap<CopyPlace, String>;

/// The samplers and counters of a watch, with their results of the last trial.
#[derive(Debug, Default)]
pub struct Watch {
    time: Option<TimeSampler>,
    pub(crate) copies: Option<Copies>,
    events: Option<Events>,
    /// The results of known transfers, by their cells.
    pub(crate) known: BTreeMap<String, AffectedPlaces>,
    /// The reason why counts are not of the window, if they are not.
    missed: Option<String>,
    /// The accountant of the CPUs, or the reason why there is none.
    accountant: Option<Result<CpuAccountant, String>>,
    /// True if the sender measures its footprint in the caches.
    probes: bool,
    window: Duration,
    /// The processes of the trial's sides.
    parties: Parties,
    cpus_of: AccountedProcesses,
    /// True if the window's times are known before it opens.
    is_scheduled: bool,
    pub(crate) seen: WatchedTrial,
}

#[derive(Debug, Default)]
pub(crate) struct WatchedTrial {
    pub(crate) time: Option<TimeByKind>,
    copied: Vec<Copied>,
    counts: Vec<EventCount>,
    pub(crate) accounts: Option<CpuAccounts>,
}

impl Watch {
    /// A watch that samples the CPUs in windows of this length; an error has the remedy.
    pub fn of_time(cpus: &[u32], window: Duration) -> io::Result<Watch> {
        Ok(Watch {
            time: Some(TimeSampler::open(Path::new("/"), cpus)?),
            window,
            ..Watch::default()
        })
    }

    /// A watch that counts, and does not sample. With events, it keeps accounts of the CPUs.
    pub fn counting(copies: Option<Copies>, events: Option<Events>, window: Duration) -> Watch {
        let keep = |_: &Events| CpuAccountant::open(Path::new("/")).map_err(|e| e.to_string());
        Watch {
            copies,
            accountant: events.as_ref().map(keep),
            events,
            window,
            ..Watch::default()
        }
    }

    /// A watch of the sender's footprint in its caches, in windows of this length.
    pub fn of_footprint(window: Duration) -> Watch {
        Watch {
            probes: true,
            window,
            ..Watch::default()
        }
    }

    /// Returns true if a cell has anything to watch: of a server time and requests, but no copies. A
    /// mover's own program displaces nothing here, and a mover that moves nothing has nothing to count.
    pub fn is_for(&self, cell: &Cell) -> bool {
        if cell.is_served() {
            return self.time.is_some() || self.events.is_some();
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
        match &self.time {
            Some(_) => TIME_ROUND,
            None if self.probes => FOOTPRINT_ROUND,
            None => COUNTING_ROUND,
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

    /// Prepares for a trial whose sides are ready, before any byte of the payload moves. With a server
    /// events are those of both sides and of the server's own processes, none of their connections.
    pub(crate) fn trial_begins(
        &mut self,
        cell: &Cell,
        processes: &TrialProcesses,
    ) -> io::Result<()> {
        let (is_served, listening) = (cell.is_served(), processes.listening.as_ref());
        let pid = |role| processes.pid(role);
        let parties = if is_served {
            Parties {
                sender: pid(Role::Client).unwrap_or(0),
                receiver: listening.and_then(|side| side.server),
                ..Parties::default()
            }
        } else {
            let sender = pid(Role::Sender).unwrap_or(0);
            let address = listening.and_then(|side| side.address.parse::<SocketAddr>().ok());
            // Over wire the port is always the same, and another run may be under way.
            let network = proc_view::directory(sender).map(|dir| fs::metadata(dir.join("ns/net")));
            Parties {
                port: address.map(|a| a.port()),
                sender_listens: listening.is_some_and(|side| side.role == Role::Sender),
                network: network.and_then(|m| Some(m.ok()?.ino())),
                sender,
                // Over wire a responder stands in the receiver's place.
                receiver: pid(Role::Receiver).filter(|_| cell.transport.has_receiver()),
            }
        };
        self.seen = WatchedTrial::default();
        self.is_scheduled = false;
        self.missed = None;
        self.parties = parties;
        self.cpus_of = AccountedProcesses {
            coordinator: std::process::id(),
            sender: parties.sender,
            receiver: parties.receiver,
            background: processes.background,
            controlled: !is_served,
        };
        if let Some(copies) = self.copies.as_mut().filter(|_| !is_served) {
            copies.begin(parties)?;
        }
        match &mut self.events {
            Some(events) => events.begin(parties),
            None => Ok(()),
        }
    }

    /// Sets the window of accounts and counts, before it opens.
    pub(crate) fn schedule(&mut self, schedule: &Schedule) -> io::Result<()> {
        let (from_ns, to_ns) = (schedule.window_from_ns, schedule.window_to_ns);
        self.is_scheduled = true;
        if let Some(Ok(accountant)) = &mut self.accountant {
            accountant.schedule(from_ns, to_ns);
        }
        if let Some(events) = &mut self.events {
            events.schedule(from_ns, to_ns)?;
        }
        self.missed = missed((from_ns, to_ns), clock::monotonic_ns());
        Ok(())
    }

    /// Takes the counted copies, after all bytes have moved.
    pub(crate) fn trial_ended(&mut self) {
        if let Some(copies) = &self.copies {
            self.seen.copied = copies.copied();
        }
    }

    pub(crate) fn begin(&mut self) -> io::Result<()> {
        if !self.is_scheduled {
            if let Some(Ok(accountant)) = &mut self.accountant {
                accountant.begin();
            }
            if let Some(events) = &mut self.events {
                events.begin(self.parties)?;
            }
        }
        match &mut self.time {
            Some(time) => time.begin(self.parties),
            None => Ok(()),
        }
    }

    /// The next answer of any endpoint, or none by `until_ns`; the samplers are emptied meanwhile.
    pub(crate) fn wait_until(
        &mut self,
        endpoints: &mut [&mut Endpoint],
        until_ns: u64,
        stop: &AtomicBool,
    ) -> Result<Option<(usize, FromEndpoint)>, TrialError> {
        loop {
            let now_ns = clock::monotonic_ns();
            let answer = next_answer(endpoints, until_ns.min(now_ns + DRAIN_INTERVAL_NS), stop)?;
            if let Some(time) = &mut self.time {
                time.take();
            }
            if answer.is_some() || now_ns >= until_ns {
                return Ok(answer);
            }
        }
    }

    pub(crate) fn end(&mut self) -> io::Result<()> {
        if let Some(events) = &self.events {
            self.seen.counts = events.counts();
        }
        if let Some(why) = &self.missed {
            for count in &mut self.seen.counts {
                count.count = Reading::absent(why.clone());
            }
        }
        self.seen.accounts = (self.accountant.as_mut()).map(|accountant| match accountant {
            Ok(accountant) => accountant.end(&self.cpus_of),
            Err(why) => CpuAccounts::absent(why.clone()),
        });
        if let Some(time) = &mut self.time {
            self.seen.time = Some(time.end()?);
        }
        Ok(())
    }

    /// The counted events. Acknowledgements that are not queued here pass no tracepoint: over wire a
    /// responder has counted them.
    pub(crate) fn counts(&mut self, cell: &Cell, parts: &TrialOutput) -> Vec<EventCount> {
        let mut counts = std::mem::take(&mut self.seen.counts);
        let elsewhere = match cell.transport {
            Transport::Peer => Some(Reading::absent(OF_PEER)),
            over if over.has_receiver() => None,
            _ => parts.machine.get(&Counter::WireAcknowledgements).cloned(),
        };
        if let Some(reading) = elsewhere {
            let mut all = counts.iter_mut();
            let counted = all.find(|c| c.event == CountedEvent::Acknowledgements);
            counted.into_iter().for_each(|c| c.count = reading.clone());
        }
        counts
    }

    /// The bytes that were copied on the way that a cell's have; none where that was not counted.
    pub(crate) fn copied(&mut self, cell: &Cell, parts: &TrialOutput) -> Option<CopiedBytes> {
        let copies = self.copies.as_ref().filter(|_| !cell.is_served())?;
        let places = copy_places(cell);
        let payload_bytes = parts.truth.as_ref()?.sent_bytes;
        let counted = std::mem::take(&mut self.seen.copied).into_iter();
        let legs: Vec<Copied> = counted.filter(|c| places.contains(&c.leg)).collect();
        (!legs.is_empty()).then(|| CopiedBytes {
            payload_bytes,
            legs,
            gaps: copies.choice().gaps.clone(),
        })
    }
}

/// The reason why counts that began at `set_ns` are not those of a window; none where they are.
fn missed((from_ns, to_ns): (u64, u64), set_ns: u64) -> Option<String> {
    let late_ns = set_ns.saturating_sub(from_ns);
    let ms = |ns: u64| ns as f64 / 1e6;
    (late_ns > (to_ns - from_ns) / MOST_LATE).then(|| {
        let (late, window) = (ms(late_ns), ms(to_ns - from_ns));
        format!("the counters began {late:.1} ms after a window of {window:.0} ms")
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
    fn counts_that_begin_late_are_not_those_of_the_window() {
        let window = (1_000_000, 51_000_000);
        assert_eq!(missed(window, 100_000), None);
        assert_eq!(missed(window, 1_100_000), None);
        let expected = "the counters began 9.0 ms after a window of 50 ms";
        assert_eq!(missed(window, 10_000_000).unwrap(), expected);
    }

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
        let probing = Watch::of_footprint(Duration::from_millis(1));
        assert_eq!(sizes(&probing, &[]), [32, 32 << 10]);
        assert_eq!(sizes(&probing, &[vec![1, 0]]), [48, 1 << 10, 32 << 10]);
        assert_eq!(sizes(&Watch::default(), &[]), [0; 0]);
    }
}
