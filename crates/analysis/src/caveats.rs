//! What weakens the findings: one row each, with its evidence and its remedy.

use bytecost_spec::{Axis, Measure, Metric};

use crate::pairing::Pairing;
use crate::phrases::{self, span};
use crate::result::{Caveat, CaveatEffect, Finding, Verdict};
use crate::trials::CellTrials;
use crate::value::{QUANTILES, is_cpu_time};
use crate::view::View;

mod bottlenecks;
mod cautions;
mod core_to_core;
mod course;
mod cpu_time;
mod machine;
mod modes;
mod network;
mod obstacles;
pub(crate) mod serving;
mod stall;
mod windows;
mod wire;
pub(crate) mod zero_copy;

/// How a caveat is found: once, or for each of several things. Its row names it.
enum Detect {
    One(fn(&View<'_>) -> Option<Caveat>),
    Each(fn(&View<'_>) -> Vec<Caveat>),
}

use Detect::{Each, One};

/// A row of the table: the name of a caveat, how it is found, and what it does to verdicts.
struct Row {
    kind: &'static str,
    detect: Detect,
    effect: Effect,
}

/// A caveat that is told; what else it does comes `with` it.
const fn row(kind: &'static str, detect: Detect) -> Row {
    Row {
        kind,
        detect,
        effect: Effect::Annotates,
    }
}

impl Row {
    const fn with(self, effect: Effect) -> Row {
        Row { effect, ..self }
    }
}

#[derive(Clone, Copy)]
enum Effect {
    Annotates,
    /// Findings of such measures, along such axes, with a cell of its have no verdict.
    Withholds(fn(Measure, Axis) -> bool, &'static str),
    /// As `Withholds`, of those findings whose cells do not share what it is about.
    WithholdsUnshared(fn(Measure) -> bool, Shared, &'static str),
    /// As `Withholds`; its cells could do more requests than they were given, so that the other cell
    /// of a finding is slower all the same where it does fewer.
    Caps(fn(Measure, Axis) -> bool, &'static str),
    /// Findings of all measures with a cell that it affects have none.
    WithholdsAll(&'static str),
}

impl Effect {
    fn of_result(self) -> CaveatEffect {
        match self {
            Effect::Annotates => CaveatEffect::Annotates,
            Effect::WithholdsAll(_) => CaveatEffect::WithholdsAll,
            _ => CaveatEffect::WithholdsMetric,
        }
    }

    /// Whether each finding that it could be about has cells that share it, and there is one.
    fn spares_all(self, view: &View<'_>, caveat: &Caveat) -> bool {
        let Effect::WithholdsUnshared(of, shared, _) = self else {
            return false;
        };
        let affects = |cell: &CellTrials<'_>| caveat.cells.contains(&cell.id);
        let is_affected = |pair: &Pairing<'_, '_>| affects(pair.baseline) || affects(pair.other);
        let findings = view.known.findings.iter().filter(|f| of(f.metric.measure));
        let affected = findings.filter_map(|f| Some((f.metric, view.trials.pair(f)?)));
        let mut affected = affected.filter(|(_, pair)| is_affected(pair)).peekable();
        affected.peek().is_some() && affected.all(|(metric, pair)| shared(&pair, metric))
    }

    /// Why the verdict of a metric on two cells is withheld, where it is.
    fn because(self, metric: Metric, pair: &Pairing<'_, '_>) -> Option<&'static str> {
        match self {
            Effect::Withholds(of, because) | Effect::Caps(of, because) => {
                of(metric.measure, pair.axis).then_some(because)
            }
            Effect::WithholdsUnshared(of, shared, because) => {
                (of(metric.measure) && !shared(pair, metric)).then_some(because)
            }
            Effect::WithholdsAll(because) => Some(because),
            Effect::Annotates => None,
        }
    }
}

/// Whether two cells have something in common in each block, so that their ratio is free of it.
type Shared = fn(&Pairing<'_, '_>, Metric) -> bool;

/// The effect of those that say what sets the rates in place of what is compared.
const fn no_rates(because: &'static str) -> Effect {
    Effect::Withholds(|measure, _| is_of_time(measure), because)
}

/// The effect of waits for a timer, which take no CPU time; not on what such a wait is remedied by.
const TIMER: Effect = Effect::Withholds(
    |measure, axis| {
        let remedies = [Axis::Nodelay, Axis::Cork, Axis::Quickack];
        is_of_time(measure) && !remedies.contains(&axis)
    },
    "one side waits for the timer of delayed acknowledgements, which is not the cost of copying",
);

/// The effect of trials in two groups on such measures.
const fn two_modes(of: fn(Measure) -> bool) -> Effect {
    Effect::WithholdsUnshared(
        of,
        modes::shared,
        "the trials of a cell fall into two groups that lie far apart",
    )
}

fn is_latency(measure: Measure) -> bool {
    QUANTILES.iter().any(|(latency, _)| *latency == measure)
}

/// Whether a measure is a rate, or the time of a message that one gives.
fn is_rate(measure: Measure) -> bool {
    matches!(
        measure,
        Measure::ThroughputGbitPerS | Measure::MessagesPerS | Measure::MsPerMessage
    )
}

fn is_of_time(measure: Measure) -> bool {
    is_rate(measure) || is_latency(measure)
}

/// Every caveat that is looked for, in the order in which they are told.
const CAVEATS: &[Row] = &[
    row("ended-early", One(course::ended_early)),
    row("missing-trials", One(course::missing_trials)),
    row("several-legs", One(course::several_legs)),
    row("changed-plan", Each(course::changed_plan)),
    row("wrong-bytes", Each(course::wrong_bytes))
        .with(Effect::WithholdsAll("some trials delivered wrong bytes")),
    row("many-failed-trials", One(course::many_failed_trials))
        .with(Effect::WithholdsAll("too many of its trials failed")),
    row("stood-still", One(course::stood_still))
        .with(Effect::Withholds(
            |m, _| is_of_time(m) || matches!(m, Measure::CpuUtilization | Measure::LeastServedShare),
            "its flow stood still through whole windows",
        )),
    row("failed-trials", One(course::failed_trials)),
    row("two-modes-cpu-time", One(|view| modes::far(view, is_cpu_time)))
        .with(two_modes(is_cpu_time)),
    row("two-modes-time", One(|view| modes::far(view, is_rate)))
        .with(two_modes(is_rate)),
    // A tail in two groups says nothing of the rate.
    row("two-modes-latency", One(|view| modes::far(view, is_latency)))
        .with(two_modes(is_latency)),
    row("few-blocks", One(course::few_blocks)),
    row("imprecise", One(course::imprecise)),
    row("twins-differ", One(course::twins_differ)),
    row("nagle-stall", Each(stall::nagle)).with(TIMER),
    row("completion-waits-for-ack", Each(stall::completion)).with(TIMER),
    row("zero-copy-copied", Each(zero_copy::zero_copy_copied)),
    row("flags-contradicted", Each(zero_copy::contradicted)),
    row("packet-socket", One(zero_copy::packet_socket)),
    row("waits-for-every-completion", One(zero_copy::every_completion)),
    row("clients-limited", One(serving::generator))
        .with(Effect::Caps(
            |m, _| is_of_time(m) || m == Measure::LeastServedShare,
            "the clients may have limited the rate themselves",
        )),
    row("books-open", One(cpu_time::books_open)),
    row("books-not-closed", One(cpu_time::books_not_closed))
        .with(Effect::WithholdsUnshared(
            is_cpu_time,
            cpu_time::books_suffice,
            "what is left over in the books of these cells could turn it",
        )),
    row("idle-interrupts-differ", One(cpu_time::interrupts_differ))
        .with(Effect::WithholdsUnshared(
            is_cpu_time,
            cpu_time::interrupts_are_alike,
            "interrupts on idle CPUs differ between the two, and are not known well enough to be added",
        )),
    row("idle-interrupts", One(cpu_time::interrupts_charged)),
    row("no-books", One(cpu_time::no_books)),
    row("many-failed-requests", One(serving::many_failed_requests))
        .with(Effect::WithholdsAll("too many of its requests failed")),
    row("failed-requests", One(serving::failed_requests)),
    row("server-caution", Each(cautions::server)),
    row("mover-caution", Each(cautions::mover)),
    row("cpu-clock", One(cpu_time::cpu_clock)),
    row("path-limit", Each(obstacles::limits))
        .with(no_rates("a queueing discipline of the path sets the rate")),
    row("path-cost", One(obstacles::costs)),
    row("quota-around", One(obstacles::quota))
        .with(no_rates("a CPU quota around the run stopped its threads")),
    row("link-limited", One(network::link_limited))
        .with(no_rates("the link is the limit")),
    row("path-losses", One(network::losses))
        .with(no_rates("the path lost packets")),
    row("path-marks", One(network::marks))
        .with(no_rates("the path marked packets as congested")),
    row("virtual-way", One(network::virtual_way)),
    row("path-mtu", One(network::path_mtu)),
    row("path-mtu-changed", One(network::path_mtu_changed)),
    row("offloads-differ", One(network::offloads_differ)),
    row("interrupts-land", One(network::interrupts)),
    row("coalescing", One(network::coalescing)),
    row("shared-queues", One(network::shared_queues)),
    row("peer-busy", One(network::peer_busy)),
    row("other-processes", One(machine::other_processes)),
    row("repeats-matter", One(course::repeats_matter)),
    row("steal", One(machine::steal)),
    row("off-cpu", One(machine::off_cpu)),
    row("frequency", One(machine::frequency)),
    row("throttled", One(machine::throttled)),
    row("core-to-core", One(core_to_core::changes)),
    row("drift", One(course::drift)),
    row("short-window", One(windows::short)),
    row("not-steady", Each(windows::not_steady)),
    row("pacing", One(bottlenecks::pacing))
        .with(no_rates("TCP paces the rate")),
    row("receive-window", One(bottlenecks::receive_window))
        .with(no_rates("the receive window limits the rate")),
    row("send-buffer", One(bottlenecks::send_buffer)),
    row("registered-huge-pages", One(bottlenecks::huge_pages)),
    row("retransmits", One(network::retransmits)),
    row("segments-differ", One(network::sizes_differ)),
    row("same-rate", One(bottlenecks::same_rate))
        .with(no_rates(
            "the rates of all are alike though their costs are not, so that something else is the bottleneck",
        )),
    row("receiver-bound", One(bottlenecks::receiver_bound))
        .with(no_rates("the receiver is the bottleneck")),
    row("untouched", Each(cautions::untouched)),
    row("zero-copy-no-room", One(zero_copy::no_room)),
    row("one-side", One(wire::one_side)),
    row("wire-strays", One(wire::strays)),
    row("wire-responder", One(wire::responder)),
    row("hot-payload", One(machine::hot_payload)),
    row("threads", One(machine::threads)),
    row("one-cpu", One(machine::one_cpu)),
    row("wake-ups", One(machine::wake_ups)),
    row("who-pays", One(course::who_pays)),
    row("two-modes", One(modes::near)),
];

/// The names of all caveats that are looked for, in the order in which they are told.
pub fn caveat_kinds() -> impl Iterator<Item = &'static str> {
    CAVEATS.iter().map(|row| row.kind)
}

/// Every caveat of the run, once the view has those that withhold verdicts.
pub(crate) fn all(view: &View<'_>) -> Vec<Caveat> {
    found(view, |effect| effect == CaveatEffect::Annotates)
}

/// The caveats that withhold verdicts. They look at no verdict themselves.
pub(crate) fn withholding(view: &View<'_>) -> Vec<Caveat> {
    found(view, |effect| effect != CaveatEffect::Annotates)
}

fn found(view: &View<'_>, wanted: impl Fn(CaveatEffect) -> bool) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    for row in CAVEATS {
        let effect = row.effect;
        if !wanted(effect.of_result()) {
            let known = view.known.caveats.iter().filter(|c| c.kind == row.kind);
            caveats.extend(known.cloned());
            continue;
        }
        let found = match row.detect {
            One(detect) => detect(view).into_iter().collect(),
            Each(detect) => detect(view),
        };
        caveats.extend(found.into_iter().map(|caveat| Caveat {
            kind: row.kind.to_owned(),
            effect: match effect.spares_all(view, &caveat) {
                true => CaveatEffect::Annotates,
                false => effect.of_result(),
            },
            ..caveat
        }));
    }
    caveats
}

/// Why the verdict of a metric on two cells is withheld: what the first caveat says that does so.
pub(crate) fn because<'c>(
    caveats: impl IntoIterator<Item = &'c Caveat>,
    metric: Metric,
    pair: &Pairing<'_, '_>,
) -> Option<&'static str> {
    because_beside(caveats, metric, pair, None)
}

/// The same where one was found to be slower: a caveat that caps the other takes nothing from that.
fn because_beside<'c>(
    caveats: impl IntoIterator<Item = &'c Caveat>,
    metric: Metric,
    pair: &Pairing<'_, '_>,
    slower: Option<&String>,
) -> Option<&'static str> {
    let cells = [&pair.baseline.id, &pair.other.id];
    let affects = |c: &&Caveat| c.cells.is_empty() || c.cells.iter().any(|id| cells.contains(&id));
    caveats.into_iter().filter(affects).find_map(|caveat| {
        let effect = CAVEATS.iter().find(|row| row.kind == caveat.kind)?.effect;
        let caps = matches!(effect, Effect::Caps(..)) && metric.measure == Measure::MessagesPerS;
        let leaves = caps && slower.is_some_and(|id| !caveat.cells.contains(id));
        effect.because(metric, pair).filter(|_| !leaves)
    })
}

/// The findings, without a verdict where a caveat withholds it.
pub(crate) fn withhold(view: &View<'_>) -> Vec<Finding> {
    let withheld = |finding: &Finding| {
        let slower = match finding.verdict {
            Verdict::Better => Some(&finding.baseline),
            Verdict::Worse => Some(&finding.cell),
            _ => None,
        };
        let pair = view.trials.pair(finding)?;
        let because = because_beside(&view.known.caveats, finding.metric, &pair, slower)?;
        let mut finding = Finding {
            verdict: match finding.verdict {
                Verdict::NotJudged => Verdict::NotJudged,
                _ => Verdict::NotDecided,
            },
            withheld: Some(because.to_owned()),
            blocks_needed: None,
            ..finding.clone()
        };
        let study = &view.input.manifest.study;
        finding.sentence = phrases::finding(
            &finding,
            (pair.other.cell, view.trials.unit),
            study,
            view.varied(),
        );
        Some(finding)
    };
    let told = |f: &Finding| withheld(f).unwrap_or_else(|| f.clone());
    view.known.findings.iter().map(told).collect()
}

/// A caveat of some cells; none where there are none.
fn caveat(
    text: impl Into<String>,
    evidence: impl Into<String>,
    remedy: impl Into<String>,
    cells: Vec<String>,
) -> Option<Caveat> {
    let whole = of_run(text, evidence, remedy).filter(|_| !cells.is_empty());
    whole.map(|caveat| Caveat { cells, ..caveat })
}

fn of_run(
    text: impl Into<String>,
    evidence: impl Into<String>,
    remedy: impl Into<String>,
) -> Option<Caveat> {
    Some(Caveat {
        kind: String::new(),
        effect: CaveatEffect::Annotates,
        text: text.into(),
        evidence: evidence.into(),
        remedy: remedy.into(),
        cells: Vec::new(),
    })
}

/// The cells in which something shows, and what its known numbers span; none without a cell.
fn spans<'v, const N: usize>(
    cells: impl Iterator<Item = &'v CellTrials<'v>>,
    shows: impl Fn(&'v CellTrials<'v>) -> Option<[Option<f64>; N]>,
    write: [fn(f64) -> String; N],
) -> Option<(Vec<String>, [String; N])> {
    let shown = cells.filter_map(|cell| Some((cell.id.clone(), shows(cell)?)));
    let (ids, numbers): (Vec<_>, Vec<_>) = shown.unzip();
    let of = |at: usize| {
        let of_cells = numbers.iter().filter_map(|all| all[at]);
        known(&of_cells.collect::<Vec<f64>>(), write[at])
    };
    (!ids.is_empty()).then(|| (ids, std::array::from_fn(of)))
}

/// What numbers span; empty where none is known.
fn known(values: &[f64], write: impl Fn(f64) -> String) -> String {
    match values {
        [] => String::new(),
        _ => span(values, write),
    }
}

/// The same text around what is known, or nothing where that is nothing.
fn clause(text: &str, known: &str) -> String {
    match known {
        "" => String::new(),
        _ => text.replace("{}", known),
    }
}

fn ids<'c>(cells: impl IntoIterator<Item = &'c CellTrials<'c>>) -> Vec<String> {
    cells.into_iter().map(|c| c.id.clone()).collect()
}

fn in_cells(n: usize) -> String {
    format!("in {}", phrases::count(n, "cell"))
}
