//! What weakens the findings: one row each, with its evidence and its remedy.

use bytecost_spec::{Axis, Measure, Metric};

use crate::pairing::Pairing;
use crate::phrases::{self, span};
use crate::result::{Caveat, CaveatEffect, Finding, Verdict};
use crate::trials::CellTrials;
use crate::value::QUANTILES;
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
mod segments;
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

/// A row of the table: the name of a caveat, what it does to verdicts, and how it is found.
type Row = (&'static str, Effect, Detect);

/// What a caveat does to verdicts.
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
        let is_affected = |pair: &Pairing<'_, '_>| {
            let mut cells = [pair.baseline, pair.other].into_iter();
            cells.any(|c| caveat.cells.contains(&c.id))
        };
        let findings = view.findings.iter().filter(|f| of(f.metric.measure));
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

const TOLD: Effect = Effect::Annotates;

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

/// Whether a measure is made of CPU time.
fn of_cpu_time(measure: Measure) -> bool {
    matches!(
        measure,
        Measure::CpuSPerGb | Measure::CpuNsPerMessage | Measure::CpuUtilization
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

/// Whether a measure is a rate or a time that goes by.
fn is_of_time(measure: Measure) -> bool {
    is_rate(measure) || is_latency(measure)
}

/// Every caveat that is looked for, in the order in which they are told.
const CAVEATS: &[Row] = &[
    ("ended-early", TOLD, One(course::ended_early)),
    ("missing-trials", TOLD, One(course::missing_trials)),
    ("several-legs", TOLD, One(course::several_legs)),
    ("changed-plan", TOLD, Each(course::changed_plan)),
    (
        "wrong-bytes",
        Effect::WithholdsAll("some trials delivered wrong bytes"),
        Each(course::wrong_bytes),
    ),
    (
        "many-failed-trials",
        Effect::WithholdsAll("too many of its trials failed"),
        One(course::many_failed_trials),
    ),
    ("failed-trials", TOLD, One(course::failed_trials)),
    (
        "two-modes-cpu-time",
        two_modes(of_cpu_time),
        One(|view| modes::far(view, of_cpu_time)),
    ),
    (
        "two-modes-time",
        two_modes(is_rate),
        One(|view| modes::far(view, is_rate)),
    ),
    (
        "two-modes-latency",
        // A tail in two groups says nothing of the rate.
        two_modes(is_latency),
        One(|view| modes::far(view, is_latency)),
    ),
    ("few-blocks", TOLD, One(course::few_blocks)),
    ("imprecise", TOLD, One(course::imprecise)),
    ("twins-differ", TOLD, One(course::twins_differ)),
    ("nagle-stall", TIMER, Each(stall::nagle)),
    ("completion-waits-for-ack", TIMER, Each(stall::completion)),
    ("zero-copy-copied", TOLD, Each(zero_copy::zero_copy_copied)),
    ("flags-contradicted", TOLD, Each(zero_copy::contradicted)),
    ("packet-socket", TOLD, One(zero_copy::packet_socket)),
    (
        "waits-for-every-completion",
        TOLD,
        One(zero_copy::every_completion),
    ),
    (
        "clients-limited",
        Effect::Caps(
            |m, _| is_of_time(m) || m == Measure::LeastServedShare,
            "the clients may have limited the rate themselves",
        ),
        One(serving::generator),
    ),
    (
        "books-open",
        Effect::Withholds(
            |m, _| of_cpu_time(m),
            "CPU time of these cells is unaccounted for",
        ),
        One(cpu_time::books_open),
    ),
    ("books-not-closed", TOLD, One(cpu_time::books_not_closed)),
    ("no-books", TOLD, One(cpu_time::no_books)),
    (
        "many-failed-requests",
        Effect::WithholdsAll("too many of its requests failed"),
        One(serving::many_failed_requests),
    ),
    ("failed-requests", TOLD, One(serving::failed_requests)),
    ("server-caution", TOLD, Each(cautions::server)),
    ("mover-caution", TOLD, Each(cautions::mover)),
    ("cpu-clock", TOLD, One(cpu_time::cpu_clock)),
    (
        "path-limit",
        no_rates("a queueing discipline of the path sets the rate"),
        Each(obstacles::limits),
    ),
    ("path-cost", TOLD, One(obstacles::costs)),
    (
        "quota-around",
        no_rates("a CPU quota around the run stopped its threads"),
        One(obstacles::quota),
    ),
    (
        "link-limited",
        no_rates("the link is the limit"),
        One(network::link_limited),
    ),
    (
        "path-losses",
        no_rates("the path lost packets"),
        One(network::losses),
    ),
    (
        "path-marks",
        no_rates("the path marked packets as congested"),
        One(network::marks),
    ),
    ("virtual-way", TOLD, One(network::virtual_way)),
    ("path-mtu", TOLD, One(network::path_mtu)),
    ("path-mtu-changed", TOLD, One(network::path_mtu_changed)),
    ("offloads-differ", TOLD, One(network::offloads_differ)),
    ("interrupts-land", TOLD, One(network::interrupts)),
    ("coalescing", TOLD, One(network::coalescing)),
    ("shared-queues", TOLD, One(network::shared_queues)),
    ("peer-busy", TOLD, One(network::peer_busy)),
    ("other-processes", TOLD, One(machine::other_processes)),
    ("repeats-matter", TOLD, One(course::repeats_matter)),
    ("steal", TOLD, One(machine::steal)),
    ("off-cpu", TOLD, One(machine::off_cpu)),
    ("frequency", TOLD, One(machine::frequency)),
    ("throttled", TOLD, One(machine::throttled)),
    ("core-to-core", TOLD, One(core_to_core::changes)),
    ("drift", TOLD, One(course::drift)),
    ("short-window", TOLD, One(windows::short)),
    ("not-steady", TOLD, Each(windows::not_steady)),
    (
        "pacing",
        no_rates("TCP paces the rate"),
        One(bottlenecks::pacing),
    ),
    (
        "receive-window",
        no_rates("the receive window limits the rate"),
        One(bottlenecks::receive_window),
    ),
    ("send-buffer", TOLD, One(bottlenecks::send_buffer)),
    ("registered-huge-pages", TOLD, One(bottlenecks::huge_pages)),
    ("retransmits", TOLD, One(segments::retransmits)),
    ("segments-differ", TOLD, One(segments::sizes_differ)),
    (
        "same-rate",
        no_rates(
            "the rates of all are alike though their costs are not, so that something else is the bottleneck",
        ),
        One(bottlenecks::same_rate),
    ),
    (
        "receiver-bound",
        no_rates("the receiver is the bottleneck"),
        One(bottlenecks::receiver_bound),
    ),
    ("untouched", TOLD, Each(cautions::untouched)),
    ("zero-copy-no-room", TOLD, One(zero_copy::no_room)),
    ("one-side", TOLD, One(wire::one_side)),
    ("wire-strays", TOLD, One(wire::strays)),
    ("wire-responder", TOLD, One(wire::responder)),
    ("hot-payload", TOLD, One(machine::hot_payload)),
    ("threads", TOLD, One(machine::threads)),
    ("one-cpu", TOLD, One(machine::one_cpu)),
    ("wake-ups", TOLD, One(machine::wake_ups)),
    ("who-pays", TOLD, One(course::who_pays)),
    ("two-modes", TOLD, One(modes::near)),
];

/// The names of all caveats that are looked for, in the order in which they are told.
pub fn caveat_kinds() -> impl Iterator<Item = &'static str> {
    CAVEATS.iter().map(|(kind, ..)| *kind)
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
    for (kind, effect, detect) in CAVEATS {
        if wanted(effect.of_result()) {
            let found = match detect {
                One(detect) => detect(view).into_iter().collect(),
                Each(detect) => detect(view),
            };
            caveats.extend(found.into_iter().map(|caveat| Caveat {
                kind: (*kind).to_owned(),
                effect: match effect.spares_all(view, &caveat) {
                    true => CaveatEffect::Annotates,
                    false => effect.of_result(),
                },
                ..caveat
            }));
        } else {
            let known = view.caveats.iter().filter(|c| c.kind == *kind);
            caveats.extend(known.cloned());
        }
    }
    caveats
}

/// Why the verdict of a metric on two cells is withheld, where it is: what the first of the
/// caveats says that does so.
pub(crate) fn because<'c>(
    caveats: impl IntoIterator<Item = &'c Caveat>,
    metric: Metric,
    pair: &Pairing<'_, '_>,
) -> Option<&'static str> {
    because_beside(caveats, metric, pair, None)
}

/// The same where one of the two was found to be slower: a caveat that keeps the other one from being
/// faster still takes nothing from that.
fn because_beside<'c>(
    caveats: impl IntoIterator<Item = &'c Caveat>,
    metric: Metric,
    pair: &Pairing<'_, '_>,
    slower: Option<&String>,
) -> Option<&'static str> {
    let cells = [&pair.baseline.id, &pair.other.id];
    let affects = |c: &&Caveat| c.cells.is_empty() || c.cells.iter().any(|id| cells.contains(&id));
    caveats.into_iter().filter(affects).find_map(|caveat| {
        let (_, effect, _) = CAVEATS.iter().find(|(kind, ..)| *kind == caveat.kind)?;
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
        let because = because_beside(view.caveats, finding.metric, &pair, slower)?;
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
            view.varied,
        );
        Some(finding)
    };
    let findings = view.findings.iter();
    findings
        .map(|f| withheld(f).unwrap_or_else(|| f.clone()))
        .collect()
}

/// A caveat of some cells; none where there are none.
fn caveat(
    text: impl Into<String>,
    evidence: impl Into<String>,
    remedy: impl Into<String>,
    cells: Vec<String>,
) -> Option<Caveat> {
    if cells.is_empty() {
        return None;
    }
    let whole = of_run(text, evidence, remedy);
    whole.map(|caveat| Caveat { cells, ..caveat })
}

/// A caveat of the whole run.
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

/// The cells in which something shows, with what the numbers span that it shows by; none where it
/// shows in no cell. A number that is not known of a cell is left out.
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

/// `in 3 cells`, `in 1 cell`.
fn in_cells(n: usize) -> String {
    format!("in {}", phrases::count(n, "cell"))
}
