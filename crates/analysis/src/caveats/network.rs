//! Caveats about segments and the path to another host: its cards, what they do, what is lost.

use std::collections::BTreeSet;

use bytecost_spec::{
    Cell, Counter, Measure, Metric, NetworkCard, Pattern, PeerHost, PeerSide, SideReadings,
    Transport,
};
use itertools::Itertools as _;

use super::constructors::{both, cells_caveat, ids, span, spans};
use crate::comparison::Comparison;
use crate::comparison::Pairing;
use crate::grouping::by_key;
use crate::result::CaveatFact::{
    Count, Metric as OfMetric, Others, PathMtu, Reading, Segments, Share,
};
use crate::result::{Caveat, Finding, OthersLoad};
use crate::stages::Measured;
use crate::trials::CellTrials;

/// Share of what a card carries at most from which it is the limit.
const FULL: f64 = 0.95;
/// Bytes that are no payload: heads of IPv4 and of TCP with time stamps, and Ethernet's.
const HEAD_BYTES: f64 = 52.0;
const FRAME_BYTES: f64 = 38.0;
/// Share of the segments sent again from which the path sets the rates.
const MANY: f64 = 0.01;
/// Share of a round trip that a card may wait before it interrupts.
const QUARTER: f64 = 0.25;

/// The path to another host, with the cards at each of its ends.
struct PeerPath<'v> {
    peer: &'v PeerHost,
    own: &'v [NetworkCard],
}

impl<'v> PeerPath<'v> {
    fn new(run: &Measured<'v>) -> Option<PeerPath<'v>> {
        let manifest = run.input.manifest;
        Some(PeerPath {
            peer: manifest.peer.as_deref()?,
            own: &manifest.own_cards,
        })
    }

    fn cards(&self) -> impl Iterator<Item = &'v NetworkCard> + use<'v> {
        self.own.iter().chain(&self.peer.cards)
    }

    /// The payload rate of the slowest physical card on the path, in Gbit/s.
    fn most_gbit_per_s(&self) -> Option<f64> {
        let physical = self.cards().filter(|card| !card.is_virtual);
        let carried = physical.filter_map(|card| {
            let mtu = self.peer.path_mtu.unwrap_or(card.mtu) as f64;
            let share = (mtu - HEAD_BYTES) / (mtu + FRAME_BYTES);
            Some(card.speed_mbit_per_s? as f64 / 1e3 * share)
        });
        carried.min_by(f64::total_cmp)
    }
}

fn cells<'v>(run: &Measured<'v>) -> impl Iterator<Item = &'v CellTrials<'v>> + use<'v> {
    let is_over = |c: &&CellTrials<'_>| c.cell.transport == Transport::Peer;
    let cells = run.trials.moving().filter(is_over);
    cells.filter(|c| !c.by_block.is_empty())
}

pub(super) fn link_limited(run: &Measured<'_>) -> Option<Caveat> {
    const THROUGHPUT: Metric = Metric::both(Measure::ThroughputGbitPerS);
    let most = PeerPath::new(run).and_then(|path| path.most_gbit_per_s())?;
    let caveat = spans(cells(run), [Share], |cell| {
        let share = cell.usual(THROUGHPUT)? / most;
        (share >= FULL).then_some([Some(share)])
    });
    Some(caveat?.and(OfMetric(THROUGHPUT, both(most))))
}

pub(super) fn losses(run: &Measured<'_>) -> Option<Caveat> {
    many(run, Counter::TcpRetransmits)
}

pub(super) fn marks(run: &Measured<'_>) -> Option<Caveat> {
    many(run, Counter::TcpMarkedSegments)
}

/// Cells with so many of these among the sender's segments, and their shares.
fn many(run: &Measured<'_>, counter: Counter) -> Option<Caveat> {
    spans(cells(run), [Share], |cell| {
        let sum = |segments| cell.sum(|t| t.sent(segments));
        let share = sum(counter) / sum(Counter::TcpDataSegments).max(1.0);
        (share > MANY).then_some([Some(share)])
    })
}

pub(super) fn path_mtu(run: &Measured<'_>) -> Option<Caveat> {
    let path = PeerPath::new(run)?;
    let path_mtu = path.peer.path_mtu?;
    let is_other = |card: &NetworkCard| card.mtu > 0 && card.mtu != path_mtu;
    let read = Reading(Counter::TcpPathMtuBytes, both(path_mtu as f64));
    cells_caveat(ids(cells(run)), [read]).filter(|_| path.cards().any(is_other))
}

pub(super) fn path_mtu_changed(run: &Measured<'_>) -> Option<Caveat> {
    // A side that only receives may not have learnt it.
    let trials = cells(run).flat_map(CellTrials::trials);
    let read = trials.filter_map(|t| t.sample.sender.readings.get(&Counter::TcpPathMtuBytes));
    let by_mtu = by_key(read.filter_map(|read| Some((read.measured()?, ()))));
    let has_changed = by_mtu.len() > 1;
    let facts = by_mtu.into_iter().map(|(bytes, found)| PathMtu {
        bytes,
        trials: found.len(),
    });
    cells_caveat(ids(cells(run)), facts).filter(|_| has_changed)
}

pub(super) fn offloads_differ(run: &Measured<'_>) -> Option<Caveat> {
    let path = PeerPath::new(run)?;
    let differ = path.own.first()?.offloads_unlike(path.peer.cards.first()?);
    cells_caveat(ids(cells(run)), []).filter(|_| differ.count() > 0)
}

pub(super) fn interrupts(run: &Measured<'_>) -> Option<Caveat> {
    let path = PeerPath::new(run)?;
    let hosts = [
        (path.own, &run.input.manifest.host),
        (&path.peer.cards, &path.peer.host),
    ];
    let mut far = hosts
        .into_iter()
        .flat_map(|(cards, host)| cards.iter().filter(|card| card.interrupts_afar(host)));
    let shared = cells(run).filter(|c| shares_a_cpu(c, &path)).collect_vec();
    let count = (!shared.is_empty()).then_some(Count(shared.len()));
    let affected = if far.next().is_some() {
        cells(run).collect()
    } else {
        shared
    };
    cells_caveat(ids(affected), count)
}

/// Returns true if a thread of the cell is pinned to a CPU that a card of its host interrupts.
fn shares_a_cpu(cell: &CellTrials<'_>, path: &PeerPath<'_>) -> bool {
    let cpus = |cards: &[NetworkCard]| -> BTreeSet<u32> {
        let all = cards.iter().flat_map(|card| &card.interrupts);
        all.flat_map(|i| i.cpus.iter().copied()).collect()
    };
    let (here, there) = (cpus(path.own), cpus(&path.peer.cards));
    let (of_sender, of_receiver) = match path.peer.side {
        PeerSide::Receiver => (here, there),
        PeerSide::Sender => (there, here),
    };
    let is_on = |side: &SideReadings, taken: &BTreeSet<u32>| {
        let mut held = side.held.iter().flat_map(|h| &h.cpus);
        held.any(|cpu| taken.contains(cpu))
    };
    cell.trials().any(|t| {
        let receiver = t.sample.receiver.as_ref();
        is_on(&t.sample.sender, &of_sender) || receiver.is_some_and(|r| is_on(r, &of_receiver))
    })
}

pub(super) fn coalescing(run: &Measured<'_>) -> Option<Caveat> {
    const ROUND_TRIP: Metric = Metric::both(Measure::LatencyUsP50);
    let waits = PeerPath::new(run)?.cards().filter_map(|c| c.coalesce_rx_us);
    let longest_us = waits.max().filter(|us| *us > 0)?;
    let asks = cells(run).filter(|c| c.cell.pattern == Pattern::RequestResponse);
    spans(asks, [|us| OfMetric(ROUND_TRIP, us)], |cell| {
        let round_trip_us = cell.usual(ROUND_TRIP)?;
        (longest_us as f64 >= QUARTER * round_trip_us).then_some([Some(round_trip_us)])
    })
}

pub(super) fn shared_queues(run: &Measured<'_>) -> Option<Caveat> {
    let path = PeerPath::new(run)?;
    let card = match path.peer.side {
        PeerSide::Receiver => path.peer.cards.first()?,
        PeerSide::Sender => path.own.first()?,
    };
    let share = |c: &&CellTrials<'_>| card.rx_queues > 0 && c.cell.threads > card.rx_queues;
    cells_caveat(ids(cells(run).filter(share)), [])
}

pub(super) fn virtual_way(run: &Measured<'_>) -> Option<Caveat> {
    let mut cards = PeerPath::new(run)?.cards();
    cells_caveat(ids(cells(run)), []).filter(|_| cards.any(|card| card.is_virtual))
}

pub(super) fn peer_busy(run: &Measured<'_>) -> Option<Caveat> {
    PeerPath::new(run)?;
    let bound = run.input.manifest.study.foreign_cpus;
    let used = cells(run).filter_map(|cell| {
        let cpus = cell.typical(|t| {
            let of = |counter| t.sample.peer_machine.get(&counter)?.measured();
            let others = of(Counter::OtherProcessesNs)? as f64;
            let elapsed = of(Counter::MachineElapsedNs)?.max(1) as f64;
            Some(others / elapsed)
        });
        Some((cell, cpus.filter(|cpus| *cpus > bound)?))
    });
    let (cells, cpus): (Vec<_>, Vec<_>) = used.unzip();
    let load = OthersLoad {
        cpus: span(cpus)?,
        bound,
        names: Vec::new(),
    };
    Some(cells_caveat(ids(cells), [Others(load)])?.disturbing())
}

/// The largest ratio of segment sizes that are alike.
const ALIKE: f64 = 1.25;

/// Bytes of a packet or segment with data; none where they are not counted.
fn packet_bytes(cell: &CellTrials<'_>) -> Option<f64> {
    cell.typical(|t| {
        let bytes = t.sent(Counter::Bytes)?;
        let packets = match cell.cell.transport {
            Transport::Wire => t.of_all(Counter::WirePackets)?,
            _ => t.sent(Counter::TcpDataSegments)?,
        };
        (packets > 0.0).then(|| bytes / packets)
    })
}

pub(super) fn sizes_differ<'v>(run: &'v Measured<'v>, findings: &[Finding]) -> Option<Caveat> {
    let link = |c: &Cell| (c.transport, c.mtu_bytes, c.segment_bytes, c.size_bytes);
    let apart = |(comparison, finding): (&'v Comparison<'v>, &Finding)| {
        let is_asked = finding.first && finding.is_apart() && !run.stalls.touch(finding);
        let Pairing {
            baseline: one,
            other,
            ..
        } = *comparison.pairing();
        if !is_asked || link(one.cell) != link(other.cell) {
            return None;
        }
        let bytes = [packet_bytes(one)?, packet_bytes(other)?];
        let times = bytes[0].max(bytes[1]) / bytes[0].min(bytes[1]);
        let segments = Segments {
            finding: finding.number,
            bytes,
        };
        (times >= ALIKE).then_some((times, segments, [one, other]))
    };
    let each = run.comparisons.of_study.iter().zip(findings);
    let all = each.filter_map(apart).collect_vec();
    let cells = all.iter().flat_map(|(.., both)| *both);
    let cells = ids(cells.unique_by(|c| &c.id));
    // Of equals the first.
    let furthest = all.into_iter().rev().max_by(|a, b| a.0.total_cmp(&b.0));
    cells_caveat(cells, furthest.map(|(_, segments, _)| segments))
}

/// Share sent again that goes unremarked: the kernel probes at the end of a burst.
const FEW: f64 = 0.001;

pub(super) fn retransmits(run: &Measured<'_>) -> Option<Caveat> {
    let again = |c: &CellTrials<'_>| c.sum(|t| t.sent(Counter::TcpRetransmits));
    // Linux before 4.6 does not count the segments with data.
    let share = |c: &&CellTrials<'_>| {
        let sent = c.sum(|t| t.sent(Counter::TcpDataSegments));
        (sent > 0.0).then(|| again(c) / sent)
    };
    let many = |c: &&CellTrials<'_>| again(c) > 0.0 && share(c).is_none_or(|s| s > FEW);
    let cells = run.trials.measured().filter(many).collect_vec();
    let shares = span(cells.iter().filter_map(share)).map(Share);
    let again = cells.iter().map(|c| again(c)).sum();
    let read = Reading(Counter::TcpRetransmits, both(again));
    cells_caveat(ids(cells), std::iter::once(read).chain(shares))
}
