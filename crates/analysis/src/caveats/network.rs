//! Caveats about the way to another host: its cards, what they do by themselves, what is lost.

use std::collections::{BTreeMap, BTreeSet};

use bytecost_spec::{
    Counter, Measure, Metric, NetworkCard, Pattern, PeerHost, PeerSide, Reading, Transport,
};

use super::{UnnamedCaveat, ids, of_cells, span};
use crate::phrases::{self, percent};
use crate::trials::CellTrials;
use crate::value::{Trial, read};
use crate::view::View;

/// Share of what a card carries at most from which it is the limit.
const FULL: f64 = 0.95;
/// Bytes of a packet that are no payload: heads of IPv4 and of TCP with time stamps, and what
/// Ethernet has around them, its gap included.
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
    fn of(view: &View<'v>) -> Option<Way<'v>> {
        let manifest = view.input.manifest;
        Some(Way {
            peer: manifest.peer.as_deref()?,
            own: &manifest.own_cards,
        })
    }

    /// Each card, with its end in words.
    fn cards(&self) -> impl Iterator<Item = (&'v NetworkCard, &'v str)> + use<'v> {
        let there = self.peer.name();
        let own = self.own.iter().map(|card| (card, "this machine"));
        own.chain(self.peer.cards.iter().map(move |card| (card, there)))
    }

    fn named(card: &NetworkCard, at: &str) -> String {
        format!("{} of {at}", card.name)
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

/// Cells that go to the other host.
fn cells<'v>(view: &View<'v>) -> impl Iterator<Item = &'v CellTrials<'v>> + use<'v> {
    let over = |c: &&CellTrials<'_>| c.cell.transport == Transport::Peer;
    view.trials
        .moving()
        .filter(|c| !c.by_block.is_empty())
        .filter(over)
}

/// One caveat of all cells that go to the other host, where there is one.
fn of_all(view: &View<'_>, text: String, evidence: String, remedy: &str) -> Vec<UnnamedCaveat> {
    let cells = ids(cells(view));
    let caveat = (!cells.is_empty()).then(|| UnnamedCaveat {
        text,
        evidence,
        remedy: remedy.to_owned(),
        cells,
    });
    caveat.into_iter().collect()
}

/// The link carries no more.
pub(super) fn link_limited(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let Some(most) = Way::of(view).and_then(|way| way.most_gbit_per_s()) else {
        return Vec::new();
    };
    let rate = Metric::both(Measure::ThroughputGbitPerS);
    let shows = |cell: &CellTrials<'_>| {
        let share = cell.typical(|t| t.value(rate).known())? / most;
        (share >= FULL).then_some([Some(share)])
    };
    of_cells(cells(view), shows, |_, [shares]| {
        (
            "The network carries no more: its link sets the rates of these cells, not the movers. What they cost in CPU time stands.".to_owned(),
            format!("{} of the {most:.2} Gbit/s of payload that the slowest card of the way carries", span(&shares, percent)),
            "compare CPU time per byte, or measure over a faster link",
        )
    })
}

/// So much is lost that the path sets the rates.
pub(super) fn losses(view: &View<'_>) -> Vec<UnnamedCaveat> {
    many(view, Counter::TcpRetransmits, |shares| {
        (
            "The network lost packets: congestion control set the rates of these cells, not the movers.".to_owned(),
            format!("TCP_INFO: {shares} of a cell's segments sent again"),
            "a path without losses: look at `ethtool -S` and `nstat` on both hosts, raise the rings with `ethtool -G`, or choose fewer --threads",
        )
    })
}

/// So much is marked for congestion (ECN, RFC 3168) that the path sets the rates.
pub(super) fn marks(view: &View<'_>) -> Vec<UnnamedCaveat> {
    many(view, Counter::TcpMarkedSegments, |shares| {
        (
            "The network marked packets for congestion (ECN): congestion control set the rates of these cells, not the movers.".to_owned(),
            format!("TCP_INFO: {shares} of a cell's segments marked"),
            "a path without a queue that marks: look at `tc -s qdisc` on both hosts and at the switches between them, or choose fewer --threads",
        )
    })
}

/// Cells with so many of these among the sender's segments that the path sets the rates.
fn many(
    view: &View<'_>,
    counter: Counter,
    told: impl Fn(String) -> (String, String, &'static str),
) -> Vec<UnnamedCaveat> {
    let shows = |cell: &CellTrials<'_>| {
        let sum = |counter| -> f64 {
            let known = |t: &Trial<'_>| read(&t.sample.sender, counter).ok();
            cell.trials().filter_map(known).sum()
        };
        let share = sum(counter) / sum(Counter::TcpDataSegments).max(1.0);
        (share > MANY).then_some([Some(share)])
    };
    of_cells(cells(view), shows, |_, [shares]| {
        told(span(&shares, percent))
    })
}

/// The way takes smaller packets than a card would give it.
pub(super) fn path_mtu(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let Some(way) = Way::of(view) else {
        return Vec::new();
    };
    let Some(path) = way.peer.path_mtu else {
        return Vec::new();
    };
    let other = |(card, _): &(&NetworkCard, &str)| card.mtu > 0 && card.mtu != path;
    let others: Vec<String> = (way.cards().filter(other))
        .map(|(card, at)| format!("MTU {} at {}", card.mtu, Way::named(card, at)))
        .collect();
    if others.is_empty() {
        return Vec::new();
    }
    let text = format!(
        "Packets of the way have at most {path} bytes, which is not what its cards are set to: rates and costs are those of the smaller packets."
    );
    let evidence = format!("IP_MTU {path}; {}", phrases::list(&others));
    of_all(
        view,
        text,
        evidence,
        "set one MTU along the whole way, or say which part of it is a tunnel",
    )
}

/// The way took packets of another size in some trials than in others.
pub(super) fn path_mtu_changed(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let mut found: BTreeMap<u64, usize> = BTreeMap::new();
    for trial in cells(view).flat_map(CellTrials::trials) {
        // A side that only receives may not have learnt it.
        let read = trial.sample.sender.readings.get(&Counter::TcpPathMtuBytes);
        if let Some(bytes) = read.and_then(Reading::measured) {
            *found.entry(bytes).or_default() += 1;
        }
    }
    if found.len() < 2 {
        return Vec::new();
    }
    let trials = |(bytes, count): (&u64, &usize)| {
        format!("{bytes} bytes in {}", phrases::count(*count, "trial"))
    };
    let found: Vec<String> = found.iter().map(trials).collect();
    of_all(
        view,
        "The largest packet that the way takes changed within the run: trials before and after went over different ways, or through a tunnel that came or went.".to_owned(),
        format!("TCP_INFO: {}", phrases::list(&found)),
        "look at the routes of both hosts (`ip route get ADDRESS`), then run again",
    )
}

/// What one end's card does and the other's does not.
pub(super) fn offloads_differ(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let Some(way) = Way::of(view) else {
        return Vec::new();
    };
    let (Some(own), Some(theirs)) = (way.own.first(), way.peer.cards.first()) else {
        return Vec::new();
    };
    let differing = own.offloads.iter().filter_map(|(name, on)| {
        let is_on = theirs.offloads.get(name)?;
        let at = |on: bool| if on { "here" } else { "there" };
        (is_on != on).then(|| format!("{name} {} alone", at(*on)))
    });
    let differing: Vec<String> = differing.collect();
    if differing.is_empty() {
        return Vec::new();
    }
    let text = "The cards of the two hosts work differently: what one host sends, or receives, costs it something else than it would cost the other.".to_owned();
    let evidence = format!(
        "{} and {}: {}",
        Way::named(own, "this machine"),
        Way::named(theirs, way.peer.name()),
        phrases::list(&differing)
    );
    of_all(
        view,
        text,
        evidence,
        "as root: `ethtool -K` sets both alike",
    )
}

/// A card's interrupts take the CPU of an endpoint, or are far from the card.
pub(super) fn interrupts(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let Some(way) = Way::of(view) else {
        return Vec::new();
    };
    let hosts = [
        (way.own, &view.input.manifest.host, "this machine"),
        (&way.peer.cards[..], &way.peer.host, way.peer.name()),
    ];
    let mut far = Vec::new();
    for (cards, host, at) in hosts {
        for card in cards {
            let node_of = |cpu: &u32| host.cpus.iter().find(|c| c.cpu == *cpu)?.node;
            let is_far = card.interrupts.iter().any(|i| {
                let nodes = i.cpus.iter().filter_map(node_of);
                i.node
                    .is_some_and(|own| nodes.into_iter().any(|n| n != own))
            });
            if is_far {
                far.push(format!(
                    "interrupts of {} on another node than the card",
                    Way::named(card, at)
                ));
            }
        }
    }
    let shared: Vec<&CellTrials<'_>> = cells(view).filter(|c| shares_a_cpu(c, &way)).collect();
    if far.is_empty() && shared.is_empty() {
        return Vec::new();
    }
    let mut evidence = far.clone();
    if !shared.is_empty() {
        evidence.push(format!(
            "/proc/irq: interrupts on the CPUs of endpoints in {}",
            phrases::count(shared.len(), "cell")
        ));
    }
    let affected = match far.is_empty() {
        true => shared,
        false => cells(view).collect(),
    };
    let caveat = UnnamedCaveat {
        text: "Interrupts of a network card land where they cost more: on the CPU of an endpoint, which they stop, or on a node that is not the card's.".to_owned(),
        evidence: phrases::list(&evidence),
        remedy: "as root: write other CPUs into /proc/irq/N/smp_affinity_list, of the card's node and of no endpoint, and stop irqbalance".to_owned(),
        cells: ids(affected),
    };
    vec![caveat]
}

/// Whether a thread of the cell is held on a CPU that a card of its host interrupts.
fn shares_a_cpu(cell: &CellTrials<'_>, way: &Way<'_>) -> bool {
    let cpus = |cards: &[NetworkCard]| -> BTreeSet<u32> {
        let all = cards.iter().flat_map(|card| &card.interrupts);
        all.flat_map(|i| i.cpus.iter().copied()).collect()
    };
    let (here, there) = (cpus(way.own), cpus(&way.peer.cards));
    let [of_sender, of_receiver] = match way.peer.side {
        PeerSide::Receiver => [here, there],
        PeerSide::Sender => [there, here],
    };
    let mut trials = cell.trials();
    trials.any(|t| {
        let sides = [
            (Some(&t.sample.sender), &of_sender),
            (t.sample.receiver.as_ref(), &of_receiver),
        ];
        sides.into_iter().any(|(side, taken)| {
            let held = side.into_iter().flat_map(|side| &side.held);
            held.flat_map(|h| &h.cpus).any(|cpu| taken.contains(cpu))
        })
    })
}

/// A card that collects what comes before it interrupts.
pub(super) fn coalescing(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let Some(way) = Way::of(view) else {
        return Vec::new();
    };
    let waits = way
        .cards()
        .filter_map(|(card, at)| Some((card.coalesce_rx_us?, card, at)));
    let Some((longest_us, card, at)) = waits.max_by_key(|(us, ..)| *us) else {
        return Vec::new();
    };
    let p50 = Metric::both(Measure::LatencyUsP50);
    let shows = |cell: &CellTrials<'_>| {
        let round_trip_us = cell.typical(|t| t.value(p50).known())?;
        let waits = longest_us > 0 && longest_us as f64 >= QUARTER * round_trip_us;
        waits.then_some([Some(round_trip_us)])
    };
    let asks = cells(view).filter(|c| c.cell.pattern == Pattern::Ask);
    of_cells(asks, shows, |_, [times]| {
        (
            "A network card waits before it reports what has arrived, and that is a large part of these round trips: they show the card's setting as well as the movers.".to_owned(),
            format!(
                "{}: rx-usecs {longest_us}; median round trip {} µs",
                Way::named(card, at),
                span(&times, bytecost_spec::units::number)
            ),
            "as root: `ethtool -C DEVICE adaptive-rx off rx-usecs 0` on both hosts",
        )
    })
}

/// More flows than queues.
pub(super) fn shared_queues(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let Some(way) = Way::of(view) else {
        return Vec::new();
    };
    let receiving = match way.peer.side {
        PeerSide::Receiver => (way.peer.cards.first(), way.peer.name()),
        PeerSide::Sender => (way.own.first(), "this machine"),
    };
    let (Some(card), at) = receiving else {
        return Vec::new();
    };
    let shows = |cell: &CellTrials<'_>| {
        let flows = cell.cell.threads;
        (card.rx_queues > 0 && flows > card.rx_queues).then(|| [Some(f64::from(flows))])
    };
    of_cells(cells(view), shows, |_, [flows]| {
        (
            "Several flows share a queue of the card that receives, and so one CPU for their interrupts: more of them need not be faster.".to_owned(),
            format!(
                "{} flows, {} on {}",
                span(&flows, bytecost_spec::units::number),
                phrases::count(card.rx_queues as usize, "queue"),
                Way::named(card, at)
            ),
            "--threads up to the number of queues, or more queues: `ethtool -L DEVICE combined N` as root",
        )
    })
}

/// A device on the way that no hardware carries.
pub(super) fn virtual_way(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let Some(way) = Way::of(view) else {
        return Vec::new();
    };
    let made = way.cards().filter(|(card, _)| card.is_virtual);
    let made: Vec<String> = made
        .map(|(card, at)| match &card.driver {
            Some(driver) => format!("{} ({driver})", Way::named(card, at)),
            None => Way::named(card, at),
        })
        .collect();
    if made.is_empty() {
        return Vec::new();
    }
    let text = "The way to the other host goes through a virtual device: its software works on the CPUs of a host, costs what no network card does, and may copy what a card would take as it is.".to_owned();
    of_all(
        view,
        text,
        phrases::list(&made),
        "measure between two machines with network cards of their own",
    )
}

/// Others kept the other host's CPUs busy.
pub(super) fn peer_busy(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let Some(way) = Way::of(view) else {
        return Vec::new();
    };
    let bound = view.input.manifest.study.foreign_cpus;
    let shows = |cell: &CellTrials<'_>| {
        let cpus = cell.typical(|t| {
            let of = |counter| t.sample.peer_machine.get(&counter)?.measured();
            let others = of(Counter::OtherProcessesNs)? as f64;
            let elapsed = of(Counter::MachineElapsedNs)?.max(1) as f64;
            Some(others / elapsed)
        })?;
        (cpus > bound).then_some([Some(cpus)])
    };
    of_cells(cells(view), shows, |_, [cpus]| {
        (
            format!(
                "Other processes used the CPUs of {} during these trials. Rankings may be wrong.",
                way.peer.name()
            ),
            format!(
                "{} CPUs in use by processes that are not ours, more than {}",
                span(&cpus, |c| format!("{c:.2}")),
                bytecost_spec::units::number(bound)
            ),
            "stop other programs there and run again",
        )
    })
}
