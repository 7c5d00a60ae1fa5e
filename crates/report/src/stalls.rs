//! Waits for a timer of the kernel, each in a line: who waits, for how long and for what, who does
//! not, and the remedy.

use bytecost_analysis::{Analysis, Caveat, CellResult, grouped};
use bytecost_spec::{Cell, Measure, Metric, units};
use itertools::Itertools as _;

use crate::text::count;

/// A timer that every message of a cell waits for.
struct Timer {
    /// The kind of the caveat that finds it.
    caveat: &'static str,
    name: &'static str,
    remedy: &'static str,
}

const TIMERS: [Timer; 2] = [
    Timer {
        caveat: "nagle-stall",
        name: "Nagle's algorithm with delayed acknowledgement (timer of 40 ms)",
        remedy: "TCP_NODELAY, or one call per message",
    },
    Timer {
        caveat: "completion-waits-for-ack",
        name: "the zero-copy completion waits for a delayed acknowledgement (timer of 40 ms)",
        remedy: "several buffers in flight (--ring 4MiB)",
    },
];

fn timer(caveat: &Caveat) -> Option<&'static Timer> {
    TIMERS.iter().find(|timer| timer.caveat == caveat.kind)
}

/// Returns true if messages of this cell wait for a timer.
pub(crate) fn waits(a: &Analysis, cell: &str) -> bool {
    let mut stalls = a.caveats.iter().filter(|c| timer(c).is_some());
    stalls.any(|c| c.cells.iter().any(|id| id == cell))
}

/// The stalls of a run, each in a sentence or two.
pub(crate) fn lines(a: &Analysis) -> Vec<String> {
    let of_messages = a.caveats.iter().filter_map(|c| Some(line(a, c, timer(c)?)));
    of_messages.chain(of_windows(a)).collect()
}

fn line(a: &Analysis, caveat: &Caveat, timer: &Timer) -> String {
    let (waiting, others): (Vec<&CellResult>, Vec<_>) =
        (a.cells.iter()).partition(|c| caveat.cells.contains(&c.id));
    let movers = waiting.iter().map(|c| c.cell.mover.as_str()).unique();
    let movers = movers.collect_vec();
    let patterns = waiting.iter().map(|c| c.cell.pattern).collect_vec();
    let is_alike = |c: &&&CellResult| {
        let cell = &c.cell;
        cell.transport.is_tcp() && patterns.contains(&cell.pattern) && cell.mover != "null"
    };
    let others = others.iter().filter(is_alike).filter(|c| c.trials > 0);
    let others = others.map(|c| c.cell.mover.as_str()).unique();
    let free = others.filter(|mover| !movers.contains(mover)).collect_vec();
    let length = Metric::both(Measure::LatencyUsP50);
    let lengths = waiting.iter().filter_map(|c| c.estimates.get(&length));
    let ms = lengths.map(|e| e.value / 1e3).minmax().into_option();
    let each = match ms.map(|(least, most)| (units::number(least), units::number(most))) {
        Some((least, most)) if least == most => format!("{least} ms a message"),
        Some((least, most)) => format!("{least} to {most} ms a message"),
        None => "40 ms".to_owned(),
    };
    let free = match free.as_slice() {
        [] => String::new(),
        [one] => format!("; {} does not wait", quoted(&[*one])),
        several => format!("; {} do not wait", quoted(several)),
    };
    format!(
        "{}: {each}, {}{free}. Remedy: {}",
        quoted(&movers),
        timer.name,
        timer.remedy
    )
}

fn quoted(movers: &[&str]) -> String {
    movers.iter().map(|mover| format!("`{mover}`")).join(", ")
}

/// Windows in which a flow stood still, by mover and reason.
fn of_windows(a: &Analysis) -> impl Iterator<Item = String> {
    let stalled = a.failures.iter().filter(|f| f.stood_still());
    let stalled = stalled.filter_map(|f| Some((Cell::from_id(&f.cell)?.mover, f)));
    grouped(stalled).into_iter().map(move |(mover, stalls)| {
        let of_mover = a.cells.iter().filter(|c| c.cell.mover == mover);
        let begun: usize = of_mover.map(|c| c.trials + c.failed).sum();
        let trials = count(begun.max(stalls.len()), "trial", "trials");
        let reason = &stalls[0].reason;
        let rates = with_stalls(a, mover.as_str());
        format!("`{mover}`, {} of {trials}: {reason}{rates}", stalls.len())
    })
}

/// The throughput of the cell that stood still for the largest share of its time, with that time.
fn with_stalls(a: &Analysis, mover: &str) -> String {
    let stood_still = |c: &CellResult| c.stood_still.map_or(0.0, |still| still.share);
    let cells = a.cells.iter().filter(|c| c.cell.mover == mover);
    let most = cells.max_by(|x, y| stood_still(x).total_cmp(&stood_still(y)));
    let throughput = Metric::both(Measure::ThroughputGbitPerS);
    let found = most.and_then(|c| {
        Some((
            c.stood_still?,
            c.cell.size_bytes,
            c.estimates.get(&throughput)?,
        ))
    });
    let Some((still, size_bytes, rate)) = found else {
        return String::new();
    };
    let (size, ms) = (units::bytes(size_bytes), units::number(still.ms));
    let [with, without] = [rate.value * (1.0 - still.share), rate.value].map(units::number);
    format!(
        ". At {size} these windows are {ms} ms: {with} Gbit/s with them, {without} Gbit/s without"
    )
}
