//! Zero-copy: whether the kernel copied after all, and what keeps it from its best.

use bytecost_spec::{
    CircumstanceKind, Counter, Measure, Metric, PacketSocket, Pattern, Reaping, Transport, units,
};
use itertools::Itertools as _;

use super::wire::whole;
use super::{Caveat, caveat, clause, ids, in_cells, of_circumstance, span, spans};
use crate::grouping::grouped;
use crate::phrases::{self, percent};
use crate::result::{CellResult, CopiedMover};
use crate::stages::Measured;
use crate::trials::CellTrials;

pub(crate) fn copied(run: &Measured<'_>) -> Vec<CopiedMover> {
    let told = run.cells.iter().filter_map(|cell| {
        let way = (&cell.cell.mover, cell.cell.transport);
        Some((way, (after_all(run, cell)?, &cell.id)))
    });
    let movers = grouped(told).into_iter();
    let all = movers.map(|((mover, transport), of)| CopiedMover {
        mover: mover.clone(),
        transport,
        shares: of.iter().map(|(found, _)| found.share).collect(),
        is_counted: of.iter().all(|(found, _)| found.is_counted),
        cells: of.iter().map(|(_, id)| (*id).clone()).collect(),
    });
    all.filter(|c| c.shares.iter().any(|s| *s > phrases::COPIED))
        .collect()
}

pub(super) fn zero_copy_copied(run: &Measured<'_>) -> Vec<Caveat> {
    let told = copied(run).into_iter().filter_map(|c| {
        let own = run.trials.cells.iter().filter(|t| c.cells.contains(&t.id));
        let takers = own.flat_map(packet_sockets).sorted().dedup().collect_vec();
        let (why, remedy) = match c.transport {
            Transport::Wire | Transport::Peer if !takers.is_empty() => (
                " A packet socket took the packets too, and the kernel copies what it clones for it.",
                "end what holds the packet socket and run again",
            ),
            Transport::Loopback | Transport::Veth => (
                " A packet that reaches a local socket is copied on delivery.",
                "--transport wire, as root, shows what these movers save a sender where nothing is copied; here, sendfile and splice are the ways that skip a copy",
            ),
            Transport::Wire if c.is_counted => (
                " Nothing is delivered there, so nothing needs a copy: something else took the packets too, as a packet socket does.",
                "look at /proc/net/packet for who else takes packets",
            ),
            Transport::Wire => (
                " Nothing is delivered there, so nothing needs a copy: either something else took the packets too, as a packet socket does, or the flag is wrong. Linux 6.18 flags small sends by io_uring that share a packet with an earlier one, though it copies none of them.",
                "look at /proc/net/packet for who else takes packets; hold small sends by io_uring against send-zerocopy, whose flag is right",
            ),
            Transport::Unix => ("", "use a transport whose kernel code takes pages as they are"),
            Transport::Peer => (
                " The way to the other host ends in a device that cannot send pages as they are, or passes a local socket.",
                "look at the offloads of the card with `ethtool -k`: scatter-gather and tx-checksumming must be on; a veth pair or a bridge on one machine copies",
            ),
        };
        let by = match c.is_counted {
            true => "bytes counted as copied before they were read",
            false => "completions flagged as copied",
        };
        let shares = span(&c.shares, percent);
        let cells = phrases::count(c.cells.len(), "cell");
        let takers = clause("; /proc/net/packet: {}", &phrases::list(takers));
        caveat(
            format!("{}{why}", phrases::copied(&c)),
            format!("{by}: {shares} over {cells}{takers}"),
            remedy,
            c.cells,
        )
    });
    told.collect()
}

pub(super) fn no_room(run: &Measured<'_>) -> Option<Caveat> {
    let times = |c: &CellTrials<'_>| c.sum(|t| t.sent(Counter::Enobufs));
    let cells = run.measured().filter(|c| times(c) > 0.0).collect_vec();
    let here = |t: Transport| matches!(t, Transport::Loopback | Transport::Unix);
    let remedy = match cells.iter().all(|c| here(c.cell.transport)) {
        true => "raise net.core.optmem_max and the locked-memory limit (ulimit -l)",
        false => {
            "raise net.core.optmem_max and the locked-memory limit (ulimit -l); veth and wire have networks of their own, each with the kernel's own optmem_max since Linux 6.8: there larger messages, or fewer in flight by --ring"
        }
    };
    caveat(
        "The kernel had no room to note further zero-copy sends, and the sender waited for completions: these cells show the limit too.",
        format!(
            "ENOBUFS {} times",
            whole(cells.iter().map(|c| times(c)).sum())
        ),
        remedy,
        ids(cells),
    )
}

const COPIED_SHARE: Metric = Metric::both(Measure::CopiedShare);
/// How far flags and counts may lie apart.
const APART: f64 = 0.05;
/// Copied share from which on a cell is not what its mover's name says.
const MOSTLY: f64 = 0.5;

/// Whether the kernel copied what a zero-copy mover was to leave where it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AfterAll {
    /// The share of its bytes, or of its buffers where only flags tell.
    pub(crate) share: f64,
    pub(crate) is_counted: bool,
}

/// What became of its bytes, by the strongest means; none for movers that copy anyway.
pub(crate) fn after_all(run: &Measured<'_>, cell: &CellResult) -> Option<AfterAll> {
    let flagged = cell.value(COPIED_SHARE)?;
    let counted = run.evidence.copies.iter().find(|c| c.cell == cell.id);
    let counted = counted.and_then(|c| c.after_all());
    Some(AfterAll {
        // What is sent again is copied again.
        share: counted.unwrap_or(flagged).min(1.0),
        is_counted: counted.is_some(),
    })
}

/// Whether a cell's bytes were mostly copied, so that it says nothing of zero-copy.
pub(crate) fn is_no_zero_copy(run: &Measured<'_>, id: &str) -> bool {
    let found = run.result(id).and_then(|c| after_all(run, c));
    found.is_some_and(|f| f.share >= MOSTLY)
}

pub(super) fn contradicted(run: &Measured<'_>) -> Vec<Caveat> {
    let flagged = |c: &CellResult| c.value(COPIED_SHARE).unwrap_or(0.0);
    let counted = |c: &CellResult| after_all(run, c).filter(|a| a.is_counted);
    let apart = |c: &&CellResult| counted(c).is_some_and(|a| (a.share - flagged(c)).abs() > APART);
    let apart = run.cells.iter().filter(apart);
    let movers = grouped(apart.map(|c| (&c.cell.mover, c)));
    let told = movers.into_iter().filter_map(|(mover, cells)| {
        let counts = cells.iter().filter_map(|c| Some(counted(c)?.share));
        let counts = span(&counts.collect_vec(), percent);
        let flags = span(&cells.iter().map(|c| flagged(c)).collect_vec(), percent);
        let place = in_cells(cells.len());
        caveat(
            format!(
                "The kernel's flags and the count of bytes contradict each other {place} of `{mover}`: flagged as copied are {flags} of the buffers, copied were {counts} of the bytes. The count is what is gone by. Linux 6.18 flags small sends by io_uring that share a packet with an earlier one, though it copies none of them."
            ),
            format!("completions flagged {flags}, bytes counted {counts}"),
            "none is needed; where flags are all that there is, hold small sends by io_uring against send-zerocopy, whose flag is right",
            cells.iter().map(|c| c.id.clone()).collect(),
        )
    });
    told.collect()
}

/// The packet sockets that some trial of a cell saw, each once: `tcpdump (pid 812) on lo`.
fn packet_sockets(cell: &CellTrials<'_>) -> Vec<String> {
    let all = cell.trials().flat_map(|t| &t.sample.packet_sockets);
    let named = |socket: &PacketSocket| {
        let holder = socket.holder.as_deref().unwrap_or("a process unseen");
        let device = socket.device.as_deref().unwrap_or("all devices");
        format!("{holder} on {device}")
    };
    all.map(named).unique().collect()
}

pub(super) fn packet_socket(run: &Measured<'_>) -> Option<Caveat> {
    let heard = |c: &&CellTrials<'_>| !packet_sockets(c).is_empty();
    let cells = run.measured().filter(heard).collect_vec();
    let names = cells.iter().flat_map(|c| packet_sockets(c));
    let names = phrases::list(names.sorted().dedup());
    let all = cells.iter().flat_map(|c| c.trials());
    let trials = all.filter(|t| !t.sample.packet_sockets.is_empty()).count();
    let trials = phrases::count(trials, "trial");
    cells.first()?;
    of_circumstance(
        CircumstanceKind::PacketSocket,
        format!("a packet socket takes a copy of each packet ({names})"),
        "A packet socket took the packets of these trials too: the kernel clones each for it, and copies what a zero-copy send had left where it was. Over wire it gets the acknowledgements alone, since packets with payload are taken off before.",
        format!("/proc/net/packet, {trials}: {names}"),
        ids(cells),
    )
}

/// Whether a cell waits for every completion, and not as long as a timer.
fn waits(run: &Measured<'_>, cell: &CellTrials<'_>) -> bool {
    let of_cell = cell.cell;
    cell.completes()
        && of_cell.pattern == Pattern::Stream
        && of_cell.reaping == Reaping::Full
        && of_cell.ring_slots() == 1
        && run.stalls.waits(&cell.id).is_none()
}

pub(super) fn every_completion(run: &Measured<'_>) -> Option<Caveat> {
    let shows = |cell: &CellTrials<'_>| {
        let rate = cell.usual(Metric::both(Measure::MessagesPerS));
        let flows = f64::from(cell.cell.threads);
        Some([rate.map(|r| 1e6 * flows / r.max(f64::MIN_POSITIVE))])
    };
    let cells = run.moved().filter(|c| waits(run, c));
    let (cells, [time]) = spans(cells, shows, [units::number])?;
    let time = clause(", {} µs a message", &time);
    caveat(
        "These zero-copy senders have one buffer, and wait for each completion before they send again: this is the usual wrong use, and shows the wait more than the sending.",
        format!(
            "the ring holds one message, and completions are taken before it is used again{time}"
        ),
        "several buffers in flight: --ring 4MiB or more",
        cells,
    )
}
