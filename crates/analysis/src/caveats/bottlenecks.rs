//! Bottlenecks other than the movers: buffers, windows, pacing, the receiver.

use bytecost_spec::{Axis, Cache, Counter, Measure, Metric, Pattern, PeerHost, PeerSide, Side};
use itertools::Itertools as _;

use super::constructors::{OfSpan, cells_caveat, ids, span, spans};
use super::nearer_causes;
use crate::grouping::by_key;
use crate::result::Caveat;
use crate::result::CaveatFact::{Count, Metric as OfMetric, Reading, Share};
use crate::stages::Measured;
use crate::trials::CellTrials;
use crate::value::Trial;

pub(super) fn pacing(run: &Measured<'_>) -> Option<Caveat> {
    let manifest = &run.input.manifest;
    let sends_there = |peer: &&PeerHost| peer.side == PeerSide::Sender;
    let sender = manifest
        .peer
        .as_deref()
        .filter(sends_there)
        .map_or(&manifest.host, |peer| &peer.host);
    let paces = |cell: &CellTrials<'_>| {
        let control = match (cell.cell.congestion.as_str(), &sender.congestion_default) {
            ("default", Some(name)) => name,
            (name, _) => name,
        };
        // The kernel gives a pacing rate for every connection, but only bbr holds to it on a
        // device without a pacing queueing discipline, as loopback is.
        let [pacing, delivery] = [
            Counter::TcpPacingRateBytesPerS,
            Counter::TcpDeliveryRateBytesPerS,
        ];
        let ratio = || cell.typical(|t| t.sent_over(pacing, delivery));
        let is_tcp = cell.cell.transport.is_tcp() && cell.cell.pattern == Pattern::Stream;
        (is_tcp && control.starts_with("bbr")).then(|| [ratio()])
    };
    Some(spans(run.trials.measured(), [Share], paces)?.disturbing())
}

/// Share of the busy time that the window may hold a flow back.
const WINDOW_HELD: f64 = 0.5;

pub(super) fn receive_window(run: &Measured<'_>) -> Option<Caveat> {
    // A receiver that is busy fills its buffer whatever its size.
    let has_time = |c: &&CellTrials<'_>| busy(c).is_none_or(|(_, receiver)| receiver < BUSY);
    let is_excluded = nearer_causes(run, "receive-window");
    let buffer = |t: &Trial<'_>| t.received(Counter::ReceiveBufferBytes);
    let shows = |cell: &CellTrials<'_>| {
        let held = |t: &Trial<'_>| t.sent_over(Counter::TcpRwndLimitedUs, Counter::TcpBusyUs);
        let share = cell.typical(held).filter(|s| *s > WINDOW_HELD)?;
        Some([Some(share), cell.typical(buffer)])
    };
    let cells = run
        .trials
        .moved()
        .filter(has_time)
        .filter(|c| !is_excluded(c));
    spans(
        cells,
        [Share, |bytes| Reading(Counter::ReceiveBufferBytes, bytes)],
        shows,
    )
}

/// Share of the busy time that the send buffer may hold a flow back.
const SEND_BUFFER: f64 = 0.5;
/// The least that is a huge page, in bytes, where pages of 4 KiB are the small ones.
const HUGE_BYTES: f64 = 2_097_152.0;

pub(super) fn send_buffer(run: &Measured<'_>) -> Option<Caveat> {
    // A larger buffer does not help if huge pages fill it, which another caveat reports.
    let cells = run.trials.measured().filter(|c| !fills_account(run, c));
    let shows = |cell: &CellTrials<'_>| {
        let buffer = cell.trials().last()?.sent(Counter::SendBufferBytes);
        Some([Some(buffer_holds(cell)?), buffer])
    };
    spans(
        cells,
        [Share, |buffer| Reading(Counter::SendBufferBytes, buffer)],
        shows,
    )
}

fn buffer_holds(cell: &CellTrials<'_>) -> Option<f64> {
    let share = cell.typical(|t| t.sent_over(Counter::TcpSndbufLimitedUs, Counter::TcpBusyUs));
    share.filter(|s| *s > SEND_BUFFER)
}

/// Returns true if registered huge pages fill the memory account of the socket: the buffers are
/// registered and lie in huge pages, completions are waited for, and the send buffer limits the sender.
fn fills_account(run: &Measured<'_>, cell: &CellTrials<'_>) -> bool {
    let survey = &run.input.manifest.survey;
    let mover = survey.mover(&cell.cell.mover);
    let registers = mover.is_some_and(|m| m.locks_rings > 0);
    let ring = cell.cell.ring_slots() as f64 * cell.cell.size_bytes as f64;
    let huge = cell.typical(|t| t.sent(Counter::HugeMemoryBytes));
    let is_huge = huge.is_some_and(|bytes| bytes >= HUGE_BYTES && bytes >= ring / 2.0);
    registers && cell.completes() && is_huge && buffer_holds(cell).is_some()
}

pub(super) fn huge_pages(run: &Measured<'_>) -> Option<Caveat> {
    let huge = |t: &Trial<'_>| t.sent(Counter::HugeMemoryBytes);
    let shows = |cell: &CellTrials<'_>| Some([buffer_holds(cell), cell.typical(huge)]);
    let cells = run.trials.moved().filter(|c| fills_account(run, c));
    spans(
        cells,
        [Share, |size| Reading(Counter::HugeMemoryBytes, size)],
        shows,
    )
}

/// Share of its time from which the receiver is busy throughout.
const BUSY: f64 = 0.9;
/// Share of its time up to which the sender has time left.
const IDLE: f64 = 0.75;

/// The utilization of the CPUs of the sender and of the receiver, as shares of one thread's time.
fn busy(cell: &CellTrials<'_>) -> Option<(f64, f64)> {
    let [receiver, sender] = UTILIZATION.map(|metric| {
        let busy = cell.usual(metric)?;
        Some(busy / f64::from(cell.cell.threads.max(1)))
    });
    Some((sender?, receiver?))
}

/// CPU utilization of the receiver and of the sender.
const UTILIZATION: [Metric; 2] = [
    Metric::new(Measure::CpuUtilization, Side::Receiver),
    Metric::new(Measure::CpuUtilization, Side::Sender),
];

pub(super) fn receiver_bound(run: &Measured<'_>) -> Option<Caveat> {
    let streams = |c: &&CellTrials<'_>| c.cell.pattern == Pattern::Stream;
    let shows = |cell: &CellTrials<'_>| {
        let (sender, receiver) = busy(cell)?;
        (receiver >= BUSY && sender <= IDLE).then_some([Some(receiver), Some(sender)])
    };
    let facts: [OfSpan; 2] = [
        |busy| OfMetric(UTILIZATION[0], busy),
        |busy| OfMetric(UTILIZATION[1], busy),
    ];
    spans(run.trials.moved().filter(streams), facts, shows)
}

/// Movers from which on their being alike says something.
const FEWEST: usize = 3;
/// The largest ratio of rates that are alike, largest over least.
const ALIKE: f64 = 1.05;
/// The least ratio of costs from which alike rates do not follow.
const UNLIKE: f64 = 1.1;
/// The least ratio of the spread of costs to that of rates, both on a log scale.
const TIMES: f64 = 3.0;
/// Axes that a bottleneck behind the sender does not depend on.
const FREE: [Axis; 4] = [Axis::Mover, Axis::Size, Axis::Cache, Axis::Block];

#[derive(Clone, Copy)]
struct Seen<'v> {
    cell: &'v CellTrials<'v>,
    rate: f64,
    cost: f64,
}

/// The cells that differ in the mover and the size, wherever it has its bytes from: each kind of
/// files with what is sent from memory.
fn places<'v>(run: &Measured<'v>) -> Vec<Vec<Seen<'v>>> {
    let streams = |c: &&CellTrials<'_>| c.cell.pattern == Pattern::Stream && !c.route.is_work();
    let seen = run.trials.moved().filter(streams).filter_map(|cell| {
        let of = |metric| cell.usual(metric).filter(|v| *v > 0.0);
        let (rate, cost) = (of(THROUGHPUT)?, of(COST)?);
        // Behind what is sent nowhere there is a disk or none, which is the source's.
        let of_files = cell.route.is_of_files();
        let free = if of_files { &FREE[..2] } else { &FREE };
        let key = (cell.cell.id_without(free), of_files);
        Some((key, Seen { cell, rate, cost }))
    });
    let by_source = |place: Vec<Seen<'v>>| {
        // The source of a file's bytes.
        let from = |s: &Seen<'_>| {
            let by = || [Axis::Cache, Axis::Block].map(|axis| s.cell.cell.value(axis));
            (s.cell.cell.cache != Cache::Memory).then(by)
        };
        let mut sources: Vec<_> = place.iter().map(from).sorted().dedup().collect();
        if sources.len() > 1 {
            sources.retain(Option::is_some);
        }
        let of_source = |source| {
            let here = |s: &&Seen<'_>| from(s).is_none() || from(s) == source;
            place.iter().filter(here).copied().collect::<Vec<_>>()
        };
        sources.into_iter().map(of_source).collect::<Vec<_>>()
    };
    by_key(seen).into_values().flat_map(by_source).collect()
}

fn alike<'v>(run: &Measured<'v>) -> Vec<Vec<Seen<'v>>> {
    let by_size = |place: Vec<Seen<'v>>| {
        if is_alike(&place) {
            vec![place]
        } else {
            let sized = place.into_iter().map(|s| (s.cell.cell.size_bytes, s));
            let alike = by_key(sized).into_values().filter(|p| is_alike(p));
            alike.collect()
        }
    };
    places(run).into_iter().flat_map(by_size).collect()
}

fn is_alike(place: &[Seen<'_>]) -> bool {
    let apart = |of: fn(&Seen<'_>) -> f64| {
        let most = place.iter().map(of).fold(0.0, f64::max);
        most / place.iter().map(of).fold(f64::INFINITY, f64::min)
    };
    let movers = place.iter().map(|s| &s.cell.cell.mover).unique().count();
    let (rates, costs) = (apart(|s| s.rate), apart(|s| s.cost));
    movers >= FEWEST && rates <= ALIKE && costs >= UNLIKE && costs.ln() >= TIMES * rates.ln()
}

const THROUGHPUT: Metric = Metric::both(Measure::ThroughputGbitPerS);
const COST: Metric = Metric::both(Measure::CpuSPerGb);

/// With the rates and the costs of the first place of such cells.
pub(super) fn same_rate(run: &Measured<'_>) -> Option<Caveat> {
    let found = alike(run);
    let first = found.first()?;
    let rates = span(first.iter().map(|s| s.rate)).map(|rates| OfMetric(THROUGHPUT, rates));
    let costs = span(first.iter().map(|s| s.cost)).map(|costs| OfMetric(COST, costs));
    let facts = [Some(Count(first.len())), rates, costs];
    let cells = found.iter().flatten().map(|s| s.cell);
    let cells = ids(cells.unique_by(|c| &c.id));
    cells_caveat(cells, facts.into_iter().flatten())
}
