//! What weakens the findings: one row each, with the facts that it rests on.
//!
//! A new caveat is a function in `caveats/` that looks at the run and gives what it found (facts and
//! the ids of the cells that it affects), its row here (its name, and whether it annotates verdicts or
//! withholds those of some measures), and its words in the report. `tests/caveat_rules.rs` has it fire
//! on a run in which its condition is planted, and be silent on the same run without.

use bytecost_spec::circumstance::{self, CircumstanceEffect, CircumstanceKind};
use bytecost_spec::{Axis, Measure, Metric};
use itertools::Itertools as _;

use crate::pairing::Pairing;
use crate::regimes;
use crate::result::{Caveat, CaveatEffect, CaveatFact, Disturbance, Finding, Verdict};
use crate::stages::{Judged, Measured};
use crate::trials::CellTrials;
use crate::value::{QUANTILES, is_cpu_time};

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
    One(fn(&Measured<'_>) -> Option<Caveat>),
    Each(fn(&Measured<'_>) -> Vec<Caveat>),
    /// Where verdicts are known; it withholds none.
    OfVerdicts(fn(&Measured<'_>, &[Finding]) -> Option<Caveat>),
}

use Detect::{Each, OfVerdicts, One};

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

/// The caveat of a circumstance: its name and its effect are those of the table of circumstances.
const fn circumstance(kind: CircumstanceKind, detect: Detect) -> Row {
    let of_circumstance = kind.row();
    row(of_circumstance.name, detect).with(match of_circumstance.effect {
        CircumstanceEffect::Annotates | CircumstanceEffect::Conditions(_) => Effect::Annotates,
        CircumstanceEffect::WithholdsTimes(because) => no_rates(because),
        CircumstanceEffect::WithholdsCosts(because) => no_costs(because),
        CircumstanceEffect::WithholdsAll(because) => Effect::WithholdsAll(because),
        CircumstanceEffect::WithholdsUnconfirmed(because) => Effect::WithholdsUnconfirmed(because),
    })
}

impl Row {
    /// What it finds without a look at verdicts.
    fn find(&self, run: &Measured<'_>) -> Vec<Caveat> {
        let found = match self.detect {
            One(detect) => detect(run).into_iter().collect(),
            Each(detect) => detect(run),
            OfVerdicts(_) => Vec::new(),
        };
        found
            .into_iter()
            .map(|caveat| self.named(caveat, run))
            .collect()
    }

    fn named(&self, caveat: Caveat, run: &Measured<'_>) -> Caveat {
        Caveat {
            kind: self.kind,
            effect: match self.effect.spares_all(run, &caveat) {
                true => CaveatEffect::Annotates,
                false => self.effect.of_result(),
            },
            ..caveat
        }
    }

    const fn with(self, effect: Effect) -> Row {
        assert!(
            !matches!(self.detect, OfVerdicts(_)),
            "what looks at verdicts withholds none"
        );
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
    /// As `WithholdsAll`, but of findings whose direction is confirmed the amount alone.
    WithholdsUnconfirmed(&'static str),
}

impl Effect {
    fn of_result(self) -> CaveatEffect {
        match self {
            Effect::Annotates => CaveatEffect::Annotates,
            Effect::WithholdsAll(_) => CaveatEffect::WithholdsAll,
            Effect::WithholdsUnconfirmed(_) => CaveatEffect::WithholdsUnconfirmed,
            _ => CaveatEffect::WithholdsMetric,
        }
    }

    /// Whether each finding that it could be about has cells that share it, and there is one.
    fn spares_all(self, run: &Measured<'_>, caveat: &Caveat) -> bool {
        let Effect::WithholdsUnshared(of, shared, _) = self else {
            return false;
        };
        let affects = |cell: &CellTrials<'_>| caveat.cells.contains(&cell.id);
        let is_affected = |pair: &Pairing<'_, '_>| affects(pair.baseline) || affects(pair.other);
        let comparisons = run.comparisons.iter().map(|c| (c.metric(), c.pairing()));
        let mut affected = comparisons
            .filter(|(metric, pair)| of(metric.measure) && is_affected(pair))
            .peekable();
        affected.peek().is_some() && affected.all(|(metric, pair)| shared(pair, metric))
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
            Effect::WithholdsAll(because) | Effect::WithholdsUnconfirmed(because) => Some(because),
            Effect::Annotates => None,
        }
    }

    /// The reason of the verdicts that it withholds.
    fn reason(self) -> Option<&'static str> {
        match self {
            Effect::Withholds(_, because)
            | Effect::WithholdsUnshared(_, _, because)
            | Effect::Caps(_, because)
            | Effect::WithholdsAll(because)
            | Effect::WithholdsUnconfirmed(because) => Some(because),
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

/// The effect of a congestion control that sets rates and costs in place of what is compared, unless
/// congestion controls are what is compared.
const fn no_costs(because: &'static str) -> Effect {
    Effect::Withholds(
        |measure, axis| axis != Axis::Congestion && (is_of_time(measure) || is_cpu_time(measure)),
        because,
    )
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
        regimes::change_together,
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
    row("stalled-trials", One(course::stalled_trials)),
    row("failed-trials", One(course::failed_trials)),
    row("two-modes-cpu-time", One(|run| modes::far(run, is_cpu_time)))
        .with(two_modes(is_cpu_time)),
    row("two-modes-time", One(|run| modes::far(run, is_rate)))
        .with(two_modes(is_rate)),
    // A tail in two groups says nothing of the rate.
    row("two-modes-latency", One(|run| modes::far(run, is_latency)))
        .with(two_modes(is_latency)),
    row("few-blocks", One(course::few_blocks)),
    row("imprecise", One(course::imprecise)),
    row("twins-differ", One(course::twins_differ)),
    row("nagle-stall", Each(stall::nagle)).with(TIMER),
    row("completion-waits-for-ack", Each(stall::completion)).with(TIMER),
    row("zero-copy-copied", Each(zero_copy::zero_copy_copied)),
    row("flags-contradicted", Each(zero_copy::contradicted)),
    circumstance(CircumstanceKind::PacketSocket, One(zero_copy::packet_socket)),
    row("waits-for-every-completion", One(zero_copy::every_completion)),
    row("clients-limited", One(serving::generator))
        .with(Effect::Caps(
            |m, _| is_of_time(m) || m == Measure::LeastServedShare,
            "the clients may have limited the rate themselves",
        )),
    row("clients-busy", One(serving::clients_busy_on_both_sides))
        .with(Effect::WithholdsUnshared(
            |m| is_of_time(m) || m == Measure::LeastServedShare,
            |pair, _| !serving::are_clients_of_both_busy(pair),
            "the clients were busy nearly all the time on both sides",
        )),
    circumstance(CircumstanceKind::ListenQueue, One(serving::listen_queue)),
    row("connected-again", One(serving::connected_again))
        .with(Effect::Withholds(
            |m, _| is_of_time(m),
            "connections were tried again after 1 s or more",
        )),
    circumstance(CircumstanceKind::HiddenProcesses, One(cpu_time::hidden_processes)),
    circumstance(CircumstanceKind::BooksOpen, One(cpu_time::books_open)),
    row("books-not-closed", One(cpu_time::books_not_closed))
        .with(Effect::WithholdsUnshared(
            is_cpu_time,
            cpu_time::books_suffice,
            "CPU time not accounted for in these cells could reverse it",
        )),
    row("idle-interrupts-differ", One(cpu_time::interrupts_differ))
        .with(Effect::WithholdsUnshared(
            is_cpu_time,
            cpu_time::interrupts_are_alike,
            "interrupts on idle CPUs differ between the two, and are not known well enough to be added",
        )),
    row("idle-interrupts", One(cpu_time::interrupts_charged)),
    row("many-failed-requests", One(serving::many_failed_requests))
        .with(Effect::WithholdsAll("too many of its requests failed")),
    row("failed-requests", One(serving::failed_requests)),
    row("server-caution", Each(cautions::server)),
    row("mover-caution", Each(cautions::mover)),
    row("cpu-clock", One(cpu_time::cpu_clock)),
    row("path-limit", Each(obstacles::limits))
        .with(no_rates("a limit of the path sets the rate")),
    row("path-cost", One(obstacles::costs)),
    circumstance(CircumstanceKind::Tracer, One(obstacles::tracer)),
    circumstance(CircumstanceKind::Quota, One(obstacles::quota)),
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
    circumstance(CircumstanceKind::PeerBusy, One(network::peer_busy)),
    circumstance(CircumstanceKind::BusyMachine, One(machine::busy_machine)),
    circumstance(CircumstanceKind::OtherProcesses, One(machine::other_processes)),
    circumstance(CircumstanceKind::Suspended, One(machine::suspended)),
    row("repeats-matter", One(course::repeats_matter)),
    circumstance(CircumstanceKind::Steal, One(machine::steal)),
    circumstance(CircumstanceKind::OffCpu, One(machine::off_cpu)),
    circumstance(CircumstanceKind::Frequency, One(machine::frequency)),
    circumstance(CircumstanceKind::Throttled, One(machine::throttled)),
    row("core-to-core", One(core_to_core::changes)),
    row("drift", One(course::drift)),
    row("short-window", One(windows::short)),
    row("not-steady", Each(windows::not_steady)),
    circumstance(CircumstanceKind::Pacing, One(bottlenecks::pacing)),
    row("receive-window", One(bottlenecks::receive_window))
        .with(no_rates("the receive window limits the rate")),
    row("send-buffer", One(bottlenecks::send_buffer)),
    row("registered-huge-pages", One(bottlenecks::huge_pages)),
    row("retransmits", One(network::retransmits)),
    row("segments-differ", OfVerdicts(network::sizes_differ)),
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
    circumstance(CircumstanceKind::OneCpu, One(machine::one_cpu)),
    row("wake-ups", One(machine::wake_ups)),
    row("who-pays", One(course::who_pays)),
    row("two-modes", One(modes::near)),
];

/// The names of all caveats that are looked for, in the order in which they are told.
pub fn caveat_kinds() -> impl Iterator<Item = &'static str> {
    CAVEATS.iter().map(|row| row.kind)
}

/// The caveats that look at no verdict, so that they can withhold some.
pub(crate) fn without_verdicts(run: &Measured<'_>) -> Vec<Caveat> {
    CAVEATS.iter().flat_map(|row| row.find(run)).collect()
}

/// All of them in the order of the table: these, and those that look at verdicts.
pub(crate) fn with_verdicts(
    run: &Measured<'_>,
    mut known: Vec<Caveat>,
    findings: &[Finding],
) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    for row in CAVEATS {
        match row.detect {
            OfVerdicts(detect) => caveats.extend(detect(run, findings).map(|c| row.named(c, run))),
            One(_) | Each(_) => caveats.extend(known.extract_if(.., |c| c.kind == row.kind)),
        }
    }
    caveats
}

/// What caveats permit to say of a comparison. They look at no verdict and no p value, since
/// correction comes after them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Permitted {
    Verdict,
    /// Better or worse where the estimate has this sign, and nothing else. The comparison stays in
    /// its family: a rule that looks at its ratio may make no other one more certain.
    Sign {
        /// Whether the other cell has more than the baseline; none where neither may be said.
        is_more: Option<bool>,
        has_amount: bool,
        because: &'static str,
    },
    /// The comparison is in no family.
    Nothing(&'static str),
}

impl Permitted {
    /// What both permit.
    fn and(self, other: Permitted) -> Permitted {
        match (self, other) {
            (Permitted::Nothing(_), _) | (_, Permitted::Verdict) => self,
            (Permitted::Verdict, _) | (_, Permitted::Nothing(_)) => other,
            (
                Permitted::Sign {
                    is_more,
                    has_amount,
                    because,
                },
                Permitted::Sign {
                    is_more: other,
                    has_amount: has_other,
                    ..
                },
            ) => Permitted::Sign {
                is_more: is_more.filter(|_| is_more == other),
                has_amount: has_amount && has_other,
                because,
            },
        }
    }
}

/// What caveats permit to say of a metric on two cells. `confirmed` is the sign of their ratio
/// where the first attempts at the blocks confirm one: whether the other cell has more.
pub(crate) fn permitted<'c>(
    caveats: impl IntoIterator<Item = &'c Caveat>,
    metric: Metric,
    pair: &Pairing<'_, '_>,
    confirmed: impl Fn() -> Option<bool>,
) -> Permitted {
    let permits = |(caveat, effect, because): (&Caveat, Effect, &'static str)| {
        let [baseline, other] = [pair.baseline, pair.other].map(|c| caveat.cells.contains(&c.id));
        match effect {
            // Of two cells of which one is capped, the other can be shown to have less.
            Effect::Caps(..) if metric.measure == Measure::MessagesPerS && baseline != other => {
                Permitted::Sign {
                    is_more: Some(other),
                    has_amount: true,
                    because,
                }
            }
            Effect::WithholdsUnconfirmed(_) => Permitted::Sign {
                is_more: confirmed(),
                has_amount: false,
                because,
            },
            Effect::WithholdsUnshared(..) => Permitted::Sign {
                is_more: None,
                has_amount: false,
                because,
            },
            _ => Permitted::Nothing(because),
        }
    };
    let each = affecting(caveats, metric, pair).map(permits);
    each.fold(Permitted::Verdict, Permitted::and)
}

/// Says of a cell whether a circumstance was found that lies nearer than the caveat of that name.
fn nearer_causes(run: &Measured<'_>, name: &str) -> impl Fn(&CellTrials<'_>) -> bool {
    let is_nearer = |row: &&Row| {
        circumstance::named(row.kind).is_some_and(|nearer| nearer.excludes.contains(&name))
    };
    let rows = CAVEATS.iter().filter(is_nearer);
    let nearer: Vec<Caveat> = rows.flat_map(|row| row.find(run)).collect();
    move |cell| {
        let mut nearer = nearer.iter();
        nearer.any(|c| c.cells.is_empty() || c.cells.contains(&cell.id))
    }
}

/// The caveats of something from outside that can bend a ranking, those first that withheld most.
pub(crate) fn disturbances(run: &Judged<'_>) -> Vec<Disturbance> {
    let judged = |f: &&Finding| f.verdict != Verdict::NotJudged;
    let disturbance = |(place, caveat): (usize, &Caveat)| {
        let row = CAVEATS.iter().find(|row| row.kind == caveat.kind);
        let reason = row.and_then(|row| row.effect.reason());
        let count = |of: fn(&Finding) -> Option<&String>| {
            let withheld = run.findings.iter().filter(judged).filter_map(of);
            withheld.filter(|why| reason == Some(why)).count()
        };
        Disturbance {
            caveat: place,
            verdicts_withheld: count(|f| f.withheld.as_ref()),
            amounts_withheld: count(|f| f.amount_withheld.as_ref()),
        }
    };
    let caveats = run.caveats.iter().enumerate();
    let disturbing = caveats.filter(|(_, c)| c.disturbs).map(disturbance);
    let withheld = |d: &Disturbance| d.verdicts_withheld + d.amounts_withheld;
    disturbing
        .sorted_by_key(|d| std::cmp::Reverse(withheld(d)))
        .collect()
}

/// Why the verdict of a metric on two cells is withheld: what the first caveat says that does so.
pub(crate) fn because<'c>(
    caveats: impl IntoIterator<Item = &'c Caveat>,
    metric: Metric,
    pair: &Pairing<'_, '_>,
) -> Option<&'static str> {
    let mut affecting = affecting(caveats, metric, pair);
    affecting.next().map(|(.., because)| because)
}

/// The caveats that say something of the verdict of a metric on two cells, with their reasons.
fn affecting<'c>(
    caveats: impl IntoIterator<Item = &'c Caveat>,
    metric: Metric,
    pair: &Pairing<'_, '_>,
) -> impl Iterator<Item = (&'c Caveat, Effect, &'static str)> {
    let cells = [&pair.baseline.id, &pair.other.id];
    let affects =
        move |c: &&Caveat| c.cells.is_empty() || c.cells.iter().any(|id| cells.contains(&id));
    caveats
        .into_iter()
        .filter(affects)
        .filter_map(move |caveat| {
            let effect = CAVEATS.iter().find(|row| row.kind == caveat.kind)?.effect;
            Some((caveat, effect, effect.because(metric, pair)?))
        })
}

/// A caveat of the whole run.
fn of_run(facts: impl IntoIterator<Item = CaveatFact>) -> Caveat {
    Caveat {
        facts: facts.into_iter().collect(),
        ..Caveat::default()
    }
}

/// A caveat of some cells; none where there are none.
fn of_cells(cells: Vec<String>, facts: impl IntoIterator<Item = CaveatFact>) -> Option<Caveat> {
    (!cells.is_empty()).then(|| Caveat {
        cells,
        ..of_run(facts)
    })
}

impl Caveat {
    fn and(self, fact: CaveatFact) -> Caveat {
        let facts = self.facts.into_iter().chain([fact]).collect();
        Caveat { facts, ..self }
    }

    fn about(self, subject: &str) -> Caveat {
        Caveat {
            subject: Some(subject.to_owned()),
            ..self
        }
    }

    /// The same of something from outside that the first screen names.
    fn disturbing(self) -> Caveat {
        Caveat {
            disturbs: true,
            ..self
        }
    }
}

/// A fact made of the least and the most of some numbers.
type OfSpan = fn([f64; 2]) -> CaveatFact;

/// The caveat of the cells in which something shows, with what its known numbers span.
fn spans<'v, const N: usize>(
    cells: impl Iterator<Item = &'v CellTrials<'v>>,
    facts: [OfSpan; N],
    shows: impl Fn(&'v CellTrials<'v>) -> Option<[Option<f64>; N]>,
) -> Option<Caveat> {
    let shown = cells.filter_map(|cell| Some((cell.id.clone(), shows(cell)?)));
    let (ids, numbers): (Vec<_>, Vec<_>) = shown.unzip();
    let facts = facts.into_iter().enumerate();
    let known = facts.filter_map(|(at, fact)| span(numbers.iter().filter_map(|n| n[at])).map(fact));
    of_cells(ids, known.collect_vec())
}

/// The least and the most of some numbers; none of none.
fn span(numbers: impl IntoIterator<Item = f64>) -> Option<[f64; 2]> {
    let ends = numbers.into_iter().minmax().into_option();
    ends.map(|(least, most)| [least, most])
}

/// One number as a span.
const fn both(number: f64) -> [f64; 2] {
    [number; 2]
}

fn ids<'c>(cells: impl IntoIterator<Item = &'c CellTrials<'c>>) -> Vec<String> {
    cells.into_iter().map(|c| c.id.clone()).collect()
}
