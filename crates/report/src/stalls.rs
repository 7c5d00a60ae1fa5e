//! Waits for a timer of the kernel, each in a line: who waits, for how long and for what, who does
//! not, and the remedy.

use bytecost_analysis::{Analysis, Caveat, CaveatFact, CellResult, Finding, StallSign, grouped};
use bytecost_spec::{Axis, Measure, Metric, units};
use itertools::Itertools as _;

use crate::phrases;
use crate::text::count;

/// A timer that every message of a cell waits for.
struct Timer {
    /// The kind of the caveat that finds it.
    caveat: &'static str,
    name: &'static str,
    remedy: &'static str,
    /// The quantity that a remedy changes.
    quantity: Quantity,
}

/// A quantity of a cell in a sentence: its metric, the number of its units in one of the metric's, and the unit.
struct Quantity {
    metric: Metric,
    scale: f64,
    unit: &'static str,
}

const MILLISECONDS: Quantity = Quantity {
    metric: Metric::both(Measure::LatencyUsP50),
    scale: 1e-3,
    unit: "ms",
};

const TIMERS: [Timer; 2] = [
    Timer {
        caveat: "nagle-stall",
        quantity: MILLISECONDS,
        name: "Nagle's algorithm with delayed acknowledgement (timer of 40 ms)",
        remedy: "TCP_NODELAY, or one call per message",
    },
    Timer {
        caveat: "completion-waits-for-ack",
        quantity: Quantity {
            metric: Metric::both(Measure::MessagesPerS),
            scale: 1.0,
            unit: "messages/s",
        },
        name: "the zero-copy completion waits for a delayed acknowledgement (timer of 40 ms)",
        remedy: "several buffers in flight (--ring 4MiB)",
    },
];

fn timer(caveat: &Caveat) -> Option<&'static Timer> {
    TIMERS.iter().find(|timer| caveat.kind == timer.caveat)
}

/// Returns true if messages of this cell wait for a timer.
pub(crate) fn waits(a: &Analysis, cell: &str) -> bool {
    let mut stalls = a.caveats.iter().filter(|c| timer(c).is_some());
    stalls.any(|c| c.cells.iter().any(|id| id == cell))
}

/// Returns true if a finding has no verdict and one of its sides waits for a timer.
pub(crate) fn is_between(a: &Analysis, finding: &Finding) -> bool {
    let sides = [&finding.baseline, &finding.cell];
    finding.withheld.is_some() && sides.iter().any(|id| waits(a, id))
}

/// The stalls of a run, each in a sentence or two.
pub(crate) fn lines(a: &Analysis) -> Vec<String> {
    let of_messages = a.caveats.iter().filter_map(|c| Some(line(a, c, timer(c)?)));
    of_messages.chain(of_windows(a)).collect()
}

fn line(a: &Analysis, caveat: &Caveat, timer: &Timer) -> String {
    let (waiting, others): (Vec<&CellResult>, Vec<_>) =
        (a.cells.iter()).partition(|c| caveat.cells.contains(&c.id));
    let movers: Vec<&str> = (waiting.iter().map(|c| c.cell.mover.as_str()))
        .unique()
        .collect();
    let patterns = waiting.iter().map(|c| c.cell.pattern).collect_vec();
    let is_free = |result: &&CellResult| {
        let cell = &result.cell;
        let is_alike = cell.transport.is_tcp() && patterns.contains(&cell.pattern);
        is_alike && cell.mover != "null" && result.trials > 0
    };
    let each = match MILLISECONDS.range(waiting.iter().copied()) {
        Some(ms) => format!("{ms} a message"),
        None => "40 ms".to_owned(),
    };
    let share = waited_share(caveat).map_or_else(String::new, |[least, most]| {
        let up_to = if least < most { "up to " } else { "" };
        format!(", {up_to}{} of the time", units::percent(most))
    });
    let free_cells = others.into_iter().filter(is_free);
    let by_mover = grouped(free_cells.map(|c| (c.cell.mover.as_str(), c))).into_iter();
    // A mover may wait in other cells, of which another line is.
    let waits_nowhere = |mover: &str| {
        let mut cells = a.cells.iter().filter(|c| c.cell.mover == mover);
        cells.all(|c| !waits(a, &c.id))
    };
    let quick = by_mover.filter(|(mover, _)| waits_nowhere(mover));
    let names = quick.map(|(mover, cells)| {
        let in_brackets = |ms| format!(" ({ms})");
        let ms = MILLISECONDS.range(cells.into_iter()).map(in_brackets);
        format!("`{mover}`{}", ms.unwrap_or_default())
    });
    let free = match names.collect_vec().as_slice() {
        [] => String::new(),
        [one] => format!("; {one} does not wait"),
        several => format!("; {} do not wait", several.join(", ")),
    };
    // Movers that do not wait stand before.
    let options = waiting.iter().flat_map(|c| remedied(a, c));
    let options = grouped(
        options
            .filter(|(remedy, _)| remedy.axis != Axis::Mover)
            .map(|(remedy, cell)| (remedy.words, cell)),
    );
    let with: String = options
        .into_iter()
        .filter_map(|(words, cells)| {
            let range = timer.quantity.range(cells.into_iter())?;
            Some(format!("; with {words}: {range}"))
        })
        .collect();
    let some = waiting_trials(caveat).map_or_else(String::new, |[some, all]| {
        format!(", in {some} of {}", count(all, "trial", "trials"))
    });
    format!(
        "{}: {each}{share}{some}, {}{free}{with}. Remedy: {}",
        quoted(&movers),
        timer.name,
        timer.remedy
    )
}

impl Quantity {
    /// The range of its values over some cells: `43.8 to 91.6 ms`; none where they have none.
    fn range<'c>(&self, cells: impl Iterator<Item = &'c CellResult>) -> Option<String> {
        let value = |c: &CellResult| Some(c.estimates.get(&self.metric)?.value * self.scale);
        let values = cells.filter_map(value).collect_vec();
        let range = || phrases::span(&values, units::number);
        (!values.is_empty()).then(|| format!("{} {}", range(), self.unit))
    }
}

/// The least and the largest share of the time that cells waited, where it is known.
fn waited_share(caveat: &Caveat) -> Option<[f64; 2]> {
    caveat.facts.iter().find_map(|fact| match fact {
        CaveatFact::Sign(StallSign::Waited, share) => Some(*share),
        _ => None,
    })
}

/// The number of trials whose messages waited, and of all, where some did not.
fn waiting_trials(caveat: &Caveat) -> Option<[usize; 2]> {
    caveat.facts.iter().find_map(|fact| match fact {
        CaveatFact::Part { some, all } if some < all => Some([*some, *all]),
        _ => None,
    })
}

/// A value of an axis with which messages do not wait.
pub(crate) struct Remedy {
    pub axis: Axis,
    value: &'static str,
    pub words: &'static str,
}

const fn remedy(axis: Axis, value: &'static str, words: &'static str) -> Remedy {
    Remedy { axis, value, words }
}

const REMEDIES: [Remedy; 8] = [
    remedy(Axis::Nodelay, "on", "TCP_NODELAY on"),
    remedy(Axis::Nodelay, "auto", "TCP_NODELAY on"),
    remedy(Axis::Cork, "on", "TCP_CORK around each message"),
    remedy(Axis::Quickack, "on", "TCP_QUICKACK"),
    remedy(Axis::Mover, "send-more", "MSG_MORE (`send-more`)"),
    remedy(Axis::Mover, "sendmsg", "one call (`sendmsg`)"),
    remedy(Axis::Mover, "send", "one call (`send`)"),
    remedy(Axis::Ring, "4MiB", "more buffers in flight (--ring 4MiB)"),
];

/// Measured cells that differ from one that waits by one remedy, and do not wait.
pub(crate) fn remedied<'a>(
    a: &'a Analysis,
    waiting: &CellResult,
) -> impl Iterator<Item = (&'static Remedy, &'a CellResult)> {
    REMEDIES.iter().filter_map(move |remedy| {
        let mut cell = waiting.cell.clone();
        cell.set(remedy.axis, remedy.value).ok()?;
        let result = a.result(&cell.id()).filter(|result| result.trials > 0)?;
        let takes_effect = remedy.axis != Axis::Nodelay || cell.sends_at_once();
        let helps = cell != waiting.cell && takes_effect && !waits(a, &result.id);
        helps.then_some((remedy, result))
    })
}

fn quoted(movers: &[&str]) -> String {
    movers.iter().map(|mover| format!("`{mover}`")).join(", ")
}

/// Windows in which a flow stood still, by mover and reason.
fn of_windows(a: &Analysis) -> impl Iterator<Item = String> {
    let stopped = a.failures.iter().filter(|f| f.stood_still());
    let by_mover = grouped(stopped.filter_map(|f| Some((&a.cell(&f.cell)?.mover, f))));
    by_mover.into_iter().map(move |(mover, stalls)| {
        let of_mover = a.cells.iter().filter(|c| c.cell.mover == *mover);
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
    let words = |c: &CellResult| {
        let (still, rate) = (c.stood_still?, c.estimates.get(&throughput)?.value);
        let (size, ms) = (units::bytes(c.cell.size_bytes), units::number(still.ms));
        let [with, without] = [rate * (1.0 - still.share), rate].map(units::number);
        Some(format!(
            ". At {size} these windows are {ms} ms: {with} Gbit/s with them, {without} Gbit/s without"
        ))
    };
    most.and_then(words).unwrap_or_default()
}
