//! The instruments of an observer that collect evidence of a trial: samples of the CPUs, counts of copies
//! and events, and accounts of CPU time. They stay open from one such trial to the next.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;

use bytecost_evidence::cpu_accounts::AccountedProcesses;
use bytecost_evidence::{Copies, CpuAccountant, Events, Parties, TimeSampler};
use bytecost_spec::Reading;
use bytecost_spec::evidence::CpuAccounts;
use bytecost_sys::{clock, proc_view};

use crate::loopback_exchange;
use crate::protocol::{HostEvidence, ObservedTrial, Role, WantedEvidence};

/// The divisor of the window by which counting may begin late.
const MOST_LATE: u64 = 10;

/// The instruments that are open.
#[derive(Default)]
pub(crate) struct EvidenceMeters {
    /// The evidence that they were opened for.
    wanted: WantedEvidence,
    time: Option<TimeSampler>,
    copies: Option<Copies>,
    events: Option<Events>,
    /// The accountant of the CPUs, or the reason why there is none.
    accountant: Option<Result<CpuAccountant, String>>,
}

impl EvidenceMeters {
    /// Opens those that are wanted, unless they are open, and closes all others. An error has the remedy.
    pub(crate) fn open(&mut self, wanted: &WantedEvidence, cpus: &[u32]) -> io::Result<()> {
        if self.wanted == *wanted {
            return Ok(());
        }
        *self = EvidenceMeters::default();
        let root = wanted.root.as_path();
        if wanted.time {
            self.time = Some(TimeSampler::open(root, cpus)?);
        }
        if !wanted.copies.is_empty() {
            self.copies = Some(Copies::by(root, &wanted.copies).map_err(no_counting)?);
        }
        if wanted.events {
            self.events = Some(loopback_exchange::events().map_err(no_counting)?);
            self.accountant = Some(CpuAccountant::open(root).map_err(|e| e.to_string()));
        }
        self.wanted = wanted.clone();
        Ok(())
    }

    /// Prepares for a trial whose sides are ready, before any byte of the payload moves. `program` is the
    /// process that has started the others of bytecost.
    pub(crate) fn prepare(
        &mut self,
        trial: &ObservedTrial,
        program: u32,
    ) -> io::Result<EvidenceWindow<'_>> {
        let parties = parties(trial);
        let is_served = trial.cell.is_served();
        let counts_copies = self.copies.is_some() && !is_served;
        if let Some(copies) = self.copies.as_mut().filter(|_| counts_copies) {
            copies.begin(parties)?;
        }
        if let Some(events) = &mut self.events {
            events.begin(parties)?;
        }
        Ok(EvidenceWindow {
            processes: AccountedProcesses {
                coordinator: program,
                sender: parties.sender,
                receiver: parties.receiver,
                background: trial.processes.background,
                controlled: !is_served,
            },
            parties,
            counts_copies,
            is_scheduled: false,
            missed: None,
            found: HostEvidence::default(),
            meters: self,
        })
    }
}

fn no_counting(error: io::Error) -> io::Error {
    io::Error::other(format!(
        "the kernel does not allow counting (it needs root, or CAP_BPF and CAP_PERFMON): {error}"
    ))
}

/// The sides of a trial. With a server, events are those of both sides and of the server's own processes,
/// none of their connections.
fn parties(trial: &ObservedTrial) -> Parties {
    let (cell, processes) = (&trial.cell, &trial.processes);
    let listening = processes.listening.as_ref();
    if cell.is_served() {
        return Parties {
            sender: processes.pid(Role::Client).unwrap_or(0),
            receiver: listening.and_then(|side| side.server),
            ..Parties::default()
        };
    }
    let sender = processes.pid(Role::Sender).unwrap_or(0);
    let address = listening.and_then(|side| side.address.parse::<SocketAddr>().ok());
    // Over wire the port is always the same, and another run may be under way.
    let network = proc_view::directory(sender).map(|dir| fs::metadata(dir.join("ns/net")));
    Parties {
        port: address.map(|a| a.port()),
        sender_listens: listening.is_some_and(|side| side.role == Role::Sender),
        network: network.and_then(|m| Some(m.ok()?.ino())),
        sender,
        // Over wire a responder stands in the receiver's place.
        receiver: (processes.pid(Role::Receiver)).filter(|_| cell.transport.has_receiver()),
    }
}

/// The instruments around the window of one trial.
pub(crate) struct EvidenceWindow<'m> {
    meters: &'m mut EvidenceMeters,
    parties: Parties,
    processes: AccountedProcesses,
    /// True if copies are counted, which they are not of a server.
    counts_copies: bool,
    /// True if the window's times are known before it opens.
    is_scheduled: bool,
    /// The reason why counts are not of the window, if they are not.
    missed: Option<String>,
    found: HostEvidence,
}

impl EvidenceWindow<'_> {
    /// Sets the window of accounts and counts before it opens, in ns of CLOCK_MONOTONIC.
    pub(crate) fn schedule(&mut self, window_ns: &Range<u64>) -> io::Result<()> {
        self.is_scheduled = true;
        if let Some(Ok(accountant)) = &mut self.meters.accountant {
            accountant.schedule(window_ns.start, window_ns.end);
        }
        if let Some(events) = &mut self.meters.events {
            events.schedule(window_ns.start, window_ns.end)?;
        }
        self.missed = missed(window_ns, clock::monotonic_ns());
        Ok(())
    }

    /// Begins to sample, and to count where the window was not scheduled.
    pub(crate) fn open(&mut self) -> io::Result<()> {
        let EvidenceMeters {
            time,
            events,
            accountant,
            ..
        } = &mut *self.meters;
        if !self.is_scheduled {
            if let Some(Ok(accountant)) = accountant {
                accountant.begin();
            }
            if let Some(events) = events {
                events.begin(self.parties)?;
            }
        }
        time.as_mut()
            .map_or(Ok(()), |time| time.begin(self.parties))
    }

    /// Returns true if samples are to be taken with [`EvidenceWindow::take`] until the window closes.
    pub(crate) fn is_sampled(&self) -> bool {
        self.meters.time.is_some()
    }

    /// Takes the samples so far, so that there is room for more.
    pub(crate) fn take(&mut self) {
        if let Some(time) = &mut self.meters.time {
            time.take();
        }
    }

    /// Ends sampling and counting, but for copies.
    pub(crate) fn close(&mut self) -> io::Result<()> {
        let meters = &mut *self.meters;
        if let Some(events) = &meters.events {
            self.found.counts = events.counts();
        }
        if let Some(why) = &self.missed {
            for count in &mut self.found.counts {
                count.count = Reading::absent(why.clone());
            }
        }
        let processes = &self.processes;
        self.found.accounts = (meters.accountant.as_mut()).map(|accountant| match accountant {
            Ok(accountant) => accountant.end(processes),
            Err(why) => CpuAccounts::absent(why.clone()),
        });
        self.found.time = (meters.time.as_mut()).map(TimeSampler::end).transpose()?;
        Ok(())
    }

    /// The evidence, with the copies of all bytes, once all have moved.
    pub(crate) fn evidence(mut self) -> HostEvidence {
        let counted = (self.meters.copies.as_ref()).filter(|_| self.counts_copies);
        if let Some(copies) = counted {
            self.found.copied = copies.copied();
            self.found.gaps.clone_from(&copies.choice().gaps);
        }
        self.found
    }
}

/// The reason why counts that began at `set_ns` are not those of a window; none where they are.
fn missed(window_ns: &Range<u64>, set_ns: u64) -> Option<String> {
    let late_ns = set_ns.saturating_sub(window_ns.start);
    let length_ns = window_ns.end - window_ns.start;
    let ms = |ns: u64| ns as f64 / 1e6;
    (late_ns > length_ns / MOST_LATE).then(|| {
        let (late, window) = (ms(late_ns), ms(length_ns));
        format!("the counters began {late:.1} ms after a window of {window:.0} ms")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_begin_late_are_not_those_of_the_window() {
        let window_ns = 1_000_000..51_000_000;
        assert_eq!(missed(&window_ns, 100_000), None);
        assert_eq!(missed(&window_ns, 1_100_000), None);
        let expected = "the counters began 9.0 ms after a window of 50 ms";
        assert_eq!(missed(&window_ns, 10_000_000).unwrap(), expected);
    }

    #[test]
    fn nothing_is_open_until_it_is_wanted() {
        let mut meters = EvidenceMeters::default();
        meters.open(&WantedEvidence::default(), &[0]).unwrap();
        let trial = ObservedTrial::default();
        let mut window = meters.prepare(&trial, 1).unwrap();
        window.schedule(&(0..u64::MAX)).unwrap();
        window.open().unwrap();
        assert!(!window.is_sampled());
        window.close().unwrap();
        assert_eq!(window.evidence(), HostEvidence::default());
    }
}
