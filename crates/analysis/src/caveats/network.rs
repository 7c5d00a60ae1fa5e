//! Caveats about segments and the way to another host: its cards, what they do, what is lost.

use std::collections::BTreeSet;

use bytecost_spec::{
    Cell, CircumstanceKind, Counter, Measure, Metric, NetworkCard, Pattern, PeerHost, PeerSide,
    SideReadings, Transport, units,
};
use itertools::Itertools as _;

use super::{Caveat, caveat, clause, ids, known, of_circumstance, spans};
use crate::contrast::Comparison;
use crate::grouping::by_key;
use crate::pairing::Pairing;
use crate::phrases::{self, percent};
use crate::result::Finding;
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

/// A way to another host, with the machine of each of its ends.
struct Way<'v> {
    peer: &'v PeerHost,
    own: &'v [NetworkCard],
}

impl<'v> Way<'v> {
    fn of(run: &Measured<'v>) -> Option<Way<'v>> {
        let manifest = run.input.manifest;
        Some(Way {
            peer: manifest.peer.as_deref()?,
            own: &manifest.own_cards,
        })
    }

    fn cards(&self) -> impl Iterator<Item = (&'v NetworkCard, &'v str)> + use<'v> {
        let there = self.peer.name.as_str();
        let own = self.own.iter().map(|card| (card, "this machine"));
        own.chain(self.peer.cards.iter().map(move |card| (card, there)))
    }

    /// What the slowest physical card of the way carries of payload, in Gbit/s.
    fn most_gbit_per_s(&self) -> Option<f64> {
        let physical = self.cards().filter(|(card, _)| !card.is_virtual);
        let carried = physical.filter_map(|(card, _)| {
            let mtu = self.peer.path_mtu.unwrap_or(card.mtu) as f64;
            let share = (mtu - HEAD_BYTES) / (mtu + FRAME_BYTES);
            Some(card.speed_mbit_per_s? as f64 / 1e3 * share)
        });
        carried.min_by(f64::total_cmp)
    }
}

fn named(card: &NetworkCard, at: &str) -> String {
    format!("{} of {at}", card.name)
}

fn listed(all: impl Iterator<Item = String>) -> Option<String> {
    Some(phrases::list(all)).filter(|told| !told.is_empty())
}

fn cells<'v>(run: &Measured<'v>) -> impl Iterator<Item = &'v CellTrials<'v>> + use<'v> {
    let is_over = |c: &&CellTrials<'_>| c.cell.transport == Transport::Peer;
    let cells = run.trials.moving().filter(is_over);
    cells.filter(|c| !c.by_block.is_empty())
}

pub(super) fn link_limited(run: &Measured<'_>) -> Option<Caveat> {
    let most = Way::of(run).and_then(|way| way.most_gbit_per_s())?;
    let shows = |cell: &CellTrials<'_>| {
        let share = cell.usual(Metric::both(Measure::ThroughputGbitPerS))? / most;
        (share >= FULL).then_some([Some(share)])
    };
    let (cells, [share]) = spans(cells(run), shows, [percent])?;
    caveat(
        "The network carries no more: its link sets the rates of these cells, not the movers. What they cost in CPU time stands.",
        format!(
            "{share} of the {most:.2} Gbit/s of payload that the slowest card of the way carries"
        ),
        "compare CPU time per byte, or measure over a faster link",
        cells,
    )
}

pub(super) fn losses(run: &Measured<'_>) -> Option<Caveat> {
    let (cells, [shares]) = many(run, Counter::TcpRetransmits)?;
    caveat(
        "The network lost packets: congestion control set the rates of these cells, not the movers.",
        format!("TCP_INFO: {shares} of a cell's segments sent again"),
        "a path without losses: look at `ethtool -S` and `nstat` on both hosts, raise the rings with `ethtool -G`, or choose fewer --threads",
        cells,
    )
}

pub(super) fn marks(run: &Measured<'_>) -> Option<Caveat> {
    let (cells, [shares]) = many(run, Counter::TcpMarkedSegments)?;
    caveat(
        "The network marked packets for congestion (ECN): congestion control set the rates of these cells, not the movers.",
        format!("TCP_INFO: {shares} of a cell's segments marked"),
        "a path without a queue that marks: look at `tc -s qdisc` on both hosts and at the switches between them, or choose fewer --threads",
        cells,
    )
}

/// Cells with so many of these among the sender's segments, and their shares.
fn many(run: &Measured<'_>, counter: Counter) -> Option<(Vec<String>, [String; 1])> {
    let shows = |cell: &CellTrials<'_>| {
        let sum = |counter| cell.sum(|t| t.sent(counter));
        let share = sum(counter) / sum(Counter::TcpDataSegments).max(1.0);
        (share > MANY).then_some([Some(share)])
    };
    spans(cells(run), shows, [percent])
}

pub(super) fn path_mtu(run: &Measured<'_>) -> Option<Caveat> {
    let way = Way::of(run)?;
    let path = way.peer.path_mtu?;
    let other = |(card, _): &(&NetworkCard, &str)| card.mtu > 0 && card.mtu != path;
    let others = way.cards().filter(other);
    let others = others.map(|(card, at)| format!("MTU {} at {}", card.mtu, named(card, at)));
    let others = listed(others)?;
    caveat(
        format!(
            "Packets of the way have at most {path} bytes, which is not what its cards are set to: rates and costs are those of the smaller packets."
        ),
        format!("IP_MTU {path}; {others}"),
        "set one MTU along the whole way, or say which part of it is a tunnel",
        ids(cells(run)),
    )
}

pub(super) fn path_mtu_changed(run: &Measured<'_>) -> Option<Caveat> {
    // A side that only receives may not have learnt it.
    let trials = cells(run).flat_map(CellTrials::trials);
    let read = trials.filter_map(|t| t.sample.sender.readings.get(&Counter::TcpPathMtuBytes));
    let found = by_key(read.filter_map(|read| Some((read.measured()?, ()))));
    if found.len() < 2 {
        return None;
    }
    let found = found.iter().map(|(bytes, trials)| {
        format!("{bytes} bytes in {}", phrases::count(trials.len(), "trial"))
    });
    caveat(
        "The largest packet that the way takes changed within the run: trials before and after went over different ways, or through a tunnel that came or went.",
        format!("TCP_INFO: {}", phrases::list(found)),
        "look at the routes of both hosts (`ip route get ADDRESS`), then run again",
        ids(cells(run)),
    )
}

pub(super) fn offloads_differ(run: &Measured<'_>) -> Option<Caveat> {
    let way = Way::of(run)?;
    let (own, theirs) = (way.own.first()?, way.peer.cards.first()?);
    let differing = own.offloads.iter().filter_map(|(name, on)| {
        let is_on = theirs.offloads.get(name)?;
        let at = |on: bool| if on { "here" } else { "there" };
        (is_on != on).then(|| format!("{name} {} alone", at(*on)))
    });
    let differing = listed(differing)?;
    let [own, theirs] = [named(own, "this machine"), named(theirs, &way.peer.name)];
    caveat(
        "The cards of the two hosts work differently: what one host sends, or receives, costs it something else than it would cost the other.",
        format!("{own} and {theirs}: {differing}"),
        "as root: `ethtool -K` sets both alike",
        ids(cells(run)),
    )
}

pub(super) fn interrupts(run: &Measured<'_>) -> Option<Caveat> {
    let way = Way::of(run)?;
    let hosts = [
        (way.own, &run.input.manifest.host, "this machine"),
        (&way.peer.cards[..], &way.peer.host, &way.peer.name),
    ];
    let far = hosts.into_iter().flat_map(|(cards, host, at)| {
        let node_of = |cpu: &u32| host.cpus.iter().find(|c| c.cpu == *cpu)?.node;
        let is_far = move |card: &&NetworkCard| {
            card.interrupts.iter().any(|i| {
                let mut nodes = i.cpus.iter().filter_map(node_of);
                i.node.is_some_and(|own| nodes.any(|n| n != own))
            })
        };
        let far = cards.iter().filter(is_far).map(move |card| named(card, at));
        far.map(|card| format!("interrupts of {card} on another node than the card"))
    });
    let mut evidence = far.collect_vec();
    let shared = cells(run).filter(|c| shares_a_cpu(c, &way)).collect_vec();
    let affected = match evidence.is_empty() {
        true => shared.clone(),
        false => cells(run).collect(),
    };
    if !shared.is_empty() {
        let cells = phrases::count(shared.len(), "cell");
        let told = format!("/proc/irq: interrupts on the CPUs of endpoints in {cells}");
        evidence.push(told);
    }
    caveat(
        "Interrupts of a network card land where they cost more: on the CPU of an endpoint, which they stop, or on a node that is not the card's.",
        phrases::list(evidence),
        "as root: write other CPUs into /proc/irq/N/smp_affinity_list, of the card's node and of no endpoint, and stop irqbalance",
        ids(affected),
    )
}

/// Whether a thread of the cell is held on a CPU that a card of its host interrupts.
fn shares_a_cpu(cell: &CellTrials<'_>, way: &Way<'_>) -> bool {
    let cpus = |cards: &[NetworkCard]| -> BTreeSet<u32> {
        let all = cards.iter().flat_map(|card| &card.interrupts);
        all.flat_map(|i| i.cpus.iter().copied()).collect()
    };
    let (here, there) = (cpus(way.own), cpus(&way.peer.cards));
    let (of_sender, of_receiver) = match way.peer.side {
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
    let way = Way::of(run)?;
    let cards = way.cards();
    let waits = cards.filter_map(|(card, at)| Some((card.coalesce_rx_us?, card, at)));
    let (longest_us, card, at) = waits.max_by_key(|(us, ..)| *us)?;
    let shows = |cell: &CellTrials<'_>| {
        let round_trip_us = cell.usual(Metric::both(Measure::LatencyUsP50))?;
        let waits = longest_us > 0 && longest_us as f64 >= QUARTER * round_trip_us;
        waits.then_some([Some(round_trip_us)])
    };
    let asks = cells(run).filter(|c| c.cell.pattern == Pattern::Ask);
    let (cells, [time]) = spans(asks, shows, [units::number])?;
    let card = named(card, at);
    caveat(
        "A network card waits before it reports what has arrived, and that is a large part of these round trips: they show the card's setting as well as the movers.",
        format!("{card}: rx-usecs {longest_us}; median round trip {time} µs"),
        "as root: `ethtool -C DEVICE adaptive-rx off rx-usecs 0` on both hosts",
        cells,
    )
}

pub(super) fn shared_queues(run: &Measured<'_>) -> Option<Caveat> {
    let way = Way::of(run)?;
    let (card, at) = match way.peer.side {
        PeerSide::Receiver => (way.peer.cards.first()?, way.peer.name.as_str()),
        PeerSide::Sender => (way.own.first()?, "this machine"),
    };
    let shows = |cell: &CellTrials<'_>| {
        let flows = cell.cell.threads;
        (card.rx_queues > 0 && flows > card.rx_queues).then(|| [Some(f64::from(flows))])
    };
    let (cells, [flows]) = spans(cells(run), shows, [units::number])?;
    let (queues, card) = (
        phrases::count(card.rx_queues as usize, "queue"),
        named(card, at),
    );
    caveat(
        "Several flows share a queue of the card that receives, and so one CPU for their interrupts: more of them need not be faster.",
        format!("{flows} flows, {queues} on {card}"),
        "--threads up to the number of queues, or more queues: `ethtool -L DEVICE combined N` as root",
        cells,
    )
}

pub(super) fn virtual_way(run: &Measured<'_>) -> Option<Caveat> {
    let way = Way::of(run)?;
    let made = way.cards().filter(|(card, _)| card.is_virtual);
    let made = made.map(|(card, at)| match &card.driver {
        Some(driver) => format!("{} ({driver})", named(card, at)),
        None => named(card, at),
    });
    let made = listed(made)?;
    caveat(
        "The way to the other host goes through a virtual device: its software works on the CPUs of a host, costs what no network card does, and may copy what a card would take as it is.",
        made,
        "measure between two machines with network cards of their own",
        ids(cells(run)),
    )
}

pub(super) fn peer_busy(run: &Measured<'_>) -> Option<Caveat> {
    let way = Way::of(run)?;
    let bound = run.input.manifest.study.foreign_cpus;
    let shows = |cell: &CellTrials<'_>| {
        let cpus = cell.typical(|t| {
            let of = |counter| t.sample.peer_machine.get(&counter)?.measured();
            let others = of(Counter::OtherProcessesNs)? as f64;
            let elapsed = of(Counter::MachineElapsedNs)?.max(1) as f64;
            Some(others / elapsed)
        })?;
        (cpus > bound).then_some([Some(cpus)])
    };
    let (cells, [cpus]) = spans(cells(run), shows, [|c| format!("{c:.2}")])?;
    let (there, bound) = (&way.peer.name, units::number(bound));
    of_circumstance(
        CircumstanceKind::PeerBusy,
        format!("other processes used {cpus} CPUs of {there}"),
        format!(
            "Other processes used the CPUs of {there} during these trials. Rankings may be wrong."
        ),
        format!("{cpus} CPUs in use by processes that are not ours, more than {bound}"),
        cells,
    )
}

/// How far apart the sizes may be, larger over smaller.
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
        if !is_asked {
            return None;
        }
        let (a, b) = (packet_bytes(one)?, packet_bytes(other)?);
        let times = a.max(b) / a.min(b);
        let told = || {
            let [from, to] =
                [&finding.baseline_value, &finding.value].map(|v| finding.axis.subject(v));
            let [a, b] = [a, b].map(|bytes| units::number(bytes.round()));
            format!("{from} {a} B, {to} {b} B")
        };
        let is_told = link(one.cell) == link(other.cell) && times >= ALIKE;
        is_told.then(|| (times, told(), [one, other]))
    };
    let each = run.comparisons.iter().zip(findings);
    let all = each.filter_map(apart).collect_vec();
    // Of equals the first.
    let (_, told, _) = all.iter().rev().max_by(|a, b| a.0.total_cmp(&b.0))?;
    caveat(
        "The sides compared did not send segments of the same size: a part of the difference is the cost of more or fewer packets, not of the way to send.",
        format!("bytes of a segment with data, where they are furthest apart: {told}"),
        "the same TCP_NODELAY and TCP_CORK on both sides (--nodelay, --cork), or messages that fill segments",
        ids(all.iter().flat_map(|(.., both)| *both).unique_by(|c| &c.id)),
    )
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
    let cells = run.measured().filter(many).collect_vec();
    let shares = known(&cells.iter().filter_map(share).collect_vec(), percent);
    let again: f64 = cells.iter().map(|c| again(c)).sum();
    caveat(
        "Segments were sent again: these cells pay for them twice, and their rates show the path as well as the mover.",
        format!("TCP_INFO: {again:.0} retransmitted")
            + &clause(", {} of a cell's segments", &shares),
        "a larger --socket-buffer, fewer --threads, or a quieter path; over loopback nothing is lost unless memory is short or an acknowledgement late",
        ids(cells),
    )
}
