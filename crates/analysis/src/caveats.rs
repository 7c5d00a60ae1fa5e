//! The table of caveats.
//!
//! A new caveat has
//!
//! - a function in `caveats/` that looks at the run and gives a caveat with its facts (`CaveatFact`) and
//!   the ids of its cells: `cells_caveat` of `caveats/constructors.rs`, or `run_caveat` for the whole run.
//!   `disturbing` puts one from outside on the first screen;
//! - its row here, in the order of reports: `row` if it annotates verdicts, `withholding` with what it withholds;
//! - its words at the same place of `crates/report/src/caveats/book.rs`, made of its facts, and its reason in
//!   `reasons.rs` of the same directory if it withholds anything;
//! - tests with and without its condition, planted in a run: `fires` and `silent` in
//!   `tests/caveat_rules.rs`, or `both` in `tests/caveat_table.rs`, which also looks at what is withheld.
//!   Their calls contain its name as a string.
//!
//! One that `bytecost doctor` or a trial reports as well is a circumstance: its row is `circumstance(…)`,
//! and `crates/spec/src/circumstance.rs` has its name, effect and remedy.

use bytecost_spec::circumstance::{self, CircumstanceEffect, CircumstanceKind};
use bytecost_spec::{Axis, Measure, Metric, units};
use itertools::Itertools as _;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::comparison::Pairing;
use crate::measures::{QUANTILES, is_cpu_time};
use crate::regimes;
use crate::result::{Caveat, CaveatEffect, CaveatKind, Disturbance, Finding, Verdict};
use crate::stages::{Judged, Measured};
use crate::trials::CellTrials;

mod bottlenecks;
mod cautions;
mod constructors;
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

/// A function that finds a caveat before the verdicts.
enum Detect {
    One(fn(&Measured<'_>) -> Option<Caveat>),
    Each(fn(&Measured<'_>) -> Vec<Caveat>),
}

use Detect::{Each, One};

/// The stage at which a caveat is found.
enum Stage {
    /// Before the verdicts, of which it may withhold some.
    Measured(Detect, Effect),
    /// After them, so that it annotates them alone.
    Judged(fn(&Measured<'_>, &[Finding]) -> Option<Caveat>),
}

/// A row of the table: the name of a caveat, and how it is found.
struct Row {
    kind: CaveatKind,
    stage: Stage,
}

/// A row whose caveat annotates verdicts.
const fn row(kind: &'static str, detect: Detect) -> Row {
    withholding(kind, detect, Effect::Annotates)
}

const fn withholding(kind: &'static str, detect: Detect, effect: Effect) -> Row {
    Row {
        kind: CaveatKind(kind),
        stage: Stage::Measured(detect, effect),
    }
}

/// The row of a circumstance, with the name and the effect that the table of circumstances has.
const fn circumstance(kind: CircumstanceKind, detect: Detect) -> Row {
    let of_circumstance = kind.row();
    let effect = match of_circumstance.effect {
        CircumstanceEffect::Annotates => Effect::Annotates,
        CircumstanceEffect::WithholdsTimes => NO_RATES,
        CircumstanceEffect::WithholdsCosts => NO_COSTS,
        CircumstanceEffect::WithholdsAll => Effect::WithholdsAll,
        CircumstanceEffect::WithholdsUnconfirmed => Effect::WithholdsUnconfirmed,
    };
    withholding(of_circumstance.name, detect, effect)
}

impl Row {
    /// Its caveats that are found before the verdicts.
    fn measured(&self, run: &Measured<'_>) -> Vec<Caveat> {
        let found = match &self.stage {
            Stage::Measured(One(detect), _) => detect(run).into_iter().collect(),
            Stage::Measured(Each(detect), _) => detect(run),
            Stage::Judged(_) => Vec::new(),
        };
        let named = |caveat: Caveat| Caveat {
            kind: self.kind,
            effect: self.effect().result_effect(run, &caveat),
            ..caveat
        };
        found.into_iter().map(named).collect()
    }

    fn effect(&self) -> Effect {
        match self.stage {
            Stage::Measured(_, effect) => effect,
            Stage::Judged(_) => Effect::Annotates,
        }
    }
}

#[derive(Clone, Copy)]
enum Effect {
    Annotates,
    /// Findings of such measures, along such axes, with one of its cells have no verdict.
    Withholds(fn(Measure, Axis) -> bool),
    /// As `Withholds`, of findings whose cells do not share the circumstance.
    WithholdsUnshared(fn(Measure) -> bool, Shared),
    /// As `Withholds`; its cells could serve more requests than they got, so that another cell with fewer
    /// requests is slower in any case.
    Caps(fn(Measure, Axis) -> bool),
    /// Findings of all measures with a cell that it affects have none.
    WithholdsAll,
    /// As `WithholdsAll`, but of findings whose direction is confirmed the amount alone.
    WithholdsUnconfirmed,
}

impl Effect {
    fn result_effect(self, run: &Measured<'_>, caveat: &Caveat) -> CaveatEffect {
        match self {
            Effect::Annotates => CaveatEffect::Annotates,
            _ if self.spares_all(run, caveat) => CaveatEffect::Annotates,
            Effect::WithholdsAll => CaveatEffect::WithholdsAll,
            Effect::WithholdsUnconfirmed => CaveatEffect::WithholdsUnconfirmed,
            _ => CaveatEffect::WithholdsMetric,
        }
    }

    /// Returns true if all comparisons that it could affect share their circumstance, and there is one.
    fn spares_all(self, run: &Measured<'_>, caveat: &Caveat) -> bool {
        let Effect::WithholdsUnshared(of, shared) = self else {
            return false;
        };
        let affects = |cell: &CellTrials<'_>| caveat.cells.contains(&cell.id);
        let is_affected = |pair: &Pairing<'_>| affects(pair.baseline) || affects(pair.other);
        let comparisons = run.comparisons.of_study.iter();
        let asked = comparisons.map(|c| (c.metric(), c.pairing()));
        let mut affected = asked
            .filter(|(metric, pair)| of(metric.measure) && is_affected(pair))
            .peekable();
        affected.peek().is_some() && affected.all(|(metric, pair)| shared(pair, metric))
    }

    /// Returns true if it withholds the verdict of a metric on two cells that it affects.
    fn withholds(self, metric: Metric, pair: &Pairing<'_>) -> bool {
        match self {
            Effect::Withholds(of) | Effect::Caps(of) => of(metric.measure, pair.axis),
            Effect::WithholdsUnshared(of, shared) => of(metric.measure) && !shared(pair, metric),
            Effect::WithholdsAll | Effect::WithholdsUnconfirmed => true,
            Effect::Annotates => false,
        }
    }
}

/// Returns true if a circumstance is common to two cells in each block, so that their ratio is free of
/// it.
type Shared = fn(&Pairing<'_>, Metric) -> bool;

/// The effect of a bottleneck that sets the rates in place of the compared axis.
const NO_RATES: Effect = Effect::Withholds(|measure, _| is_of_time(measure));

/// The effect of a congestion control that sets rates and costs in place of the compared axis, unless
/// that is the congestion control.
const NO_COSTS: Effect = Effect::Withholds(|measure, axis| {
    axis != Axis::Congestion && (is_of_time(measure) || is_cpu_time(measure))
});

/// The effect of waits for a timer, which take no CPU time; not on the axes that are remedies of them.
const TIMER: Effect = Effect::Withholds(|measure, axis| {
    let remedies = [Axis::Nodelay, Axis::Cork, Axis::Quickack];
    is_of_time(measure) && !remedies.contains(&axis)
});

/// The effect of trials in two groups on such measures.
const fn two_modes(of: fn(Measure) -> bool) -> Effect {
    Effect::WithholdsUnshared(of, regimes::change_together)
}

fn is_latency(measure: Measure) -> bool {
    QUANTILES.iter().any(|(latency, _)| *latency == measure)
}

/// Returns true for rates, and for the time of a message, which follows from one.
fn is_rate(measure: Measure) -> bool {
    matches!(
        measure,
        Measure::ThroughputGbitPerS | Measure::MessagesPerS | Measure::MsPerMessage
    )
}

fn is_of_time(measure: Measure) -> bool {
    is_rate(measure) || is_latency(measure)
}

fn is_of_service(measure: Measure) -> bool {
    is_of_time(measure) || measure == Measure::LeastServedShare
}

/// Every caveat, in the order of reports.
#[rustfmt::skip] // a table
const CAVEATS: &[Row] = &[
    row("ended-early", One(course::ended_early)),
    row("missing-trials", One(course::missing_trials)),
    row("several-legs", One(course::several_legs)),
    row("changed-plan", Each(course::changed_plan)),
    withholding("wrong-bytes", Each(course::wrong_bytes), Effect::WithholdsAll),
    withholding("many-failed-trials", One(course::many_failed_trials), Effect::WithholdsAll),
    withholding("stood-still", One(course::stood_still), Effect::Withholds(|measure, _| {
        is_of_service(measure) || measure == Measure::CpuUtilization
    })),
    row("stalled-trials", One(course::stalled_trials)),
    row("failed-trials", One(course::failed_trials)),
    withholding("two-modes-cpu-time", One(|run| modes::far(run, is_cpu_time)), two_modes(is_cpu_time)),
    withholding("two-modes-time", One(|run| modes::far(run, is_rate)), two_modes(is_rate)),
    // Two groups of a tail do not affect the rate.
    withholding("two-modes-latency", One(|run| modes::far(run, is_latency)), two_modes(is_latency)),
    row("few-blocks", One(course::few_blocks)),
    row("imprecise", One(course::imprecise)),
    row("twins-differ", One(course::twins_differ)),
    withholding("nagle-stall", Each(stall::nagle), TIMER),
    withholding("completion-waits-for-ack", Each(stall::completion), TIMER),
    row("zero-copy-copied", Each(zero_copy::zero_copy_copied)),
    row("flags-contradicted", Each(zero_copy::contradicted)),
    circumstance(CircumstanceKind::PacketSocket, One(zero_copy::packet_socket)),
    row("waits-for-every-completion", One(zero_copy::every_completion)),
    withholding("clients-limited", One(serving::generator), Effect::Caps(|m, _| is_of_service(m))),
    withholding(
        "clients-busy",
        One(serving::clients_busy_on_both_sides),
        Effect::WithholdsUnshared(is_of_service, |pair, _| !serving::are_clients_of_both_busy(pair)),
    ),
    circumstance(CircumstanceKind::ListenQueue, One(serving::listen_queue)),
    withholding("connected-again", One(serving::connected_again), NO_RATES),
    circumstance(CircumstanceKind::HiddenProcesses, One(cpu_time::hidden_processes)),
    circumstance(CircumstanceKind::BooksOpen, One(cpu_time::cells_with_open_books)),
    withholding(
        "books-not-closed",
        One(cpu_time::comparisons_with_open_books),
        Effect::WithholdsUnshared(is_cpu_time, cpu_time::books_suffice),
    ),
    withholding(
        "idle-interrupts-differ",
        One(cpu_time::interrupts_differ),
        Effect::WithholdsUnshared(is_cpu_time, cpu_time::interrupts_are_alike),
    ),
    row("idle-interrupts", One(cpu_time::interrupts_charged)),
    withholding("many-failed-requests", One(serving::many_failed_requests), Effect::WithholdsAll),
    row("failed-requests", One(serving::failed_requests)),
    row("server-caution", Each(cautions::server)),
    row("mover-caution", Each(cautions::mover)),
    row("cpu-clock", One(cpu_time::cpu_clock)),
    withholding("path-limit", Each(obstacles::limits), NO_RATES),
    row("path-cost", One(obstacles::costs)),
    circumstance(CircumstanceKind::Tracer, One(obstacles::tracer)),
    circumstance(CircumstanceKind::Quota, One(obstacles::quota)),
    withholding("link-limited", One(network::link_limited), NO_RATES),
    withholding("path-losses", One(network::losses), NO_RATES),
    withholding("path-marks", One(network::marks), NO_RATES),
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
    withholding("receive-window", One(bottlenecks::receive_window), NO_RATES),
    row("send-buffer", One(bottlenecks::send_buffer)),
    row("registered-huge-pages", One(bottlenecks::huge_pages)),
    row("retransmits", One(network::retransmits)),
    Row {
        kind: CaveatKind("segments-differ"),
        stage: Stage::Judged(network::sizes_differ),
    },
    withholding("same-rate", One(bottlenecks::same_rate), NO_RATES),
    withholding("receiver-bound", One(bottlenecks::receiver_bound), NO_RATES),
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

/// The names of all caveats, in the order of reports.
pub fn caveat_kinds() -> impl Iterator<Item = &'static str> {
    CAVEATS.iter().map(|row| row.kind.0)
}

/// The names of the caveats that can withhold a verdict or an amount, in the same order.
pub fn withholding_kinds() -> impl Iterator<Item = &'static str> {
    let withholds = |row: &&Row| !matches!(row.effect(), Effect::Annotates);
    CAVEATS.iter().filter(withholds).map(|row| row.kind.0)
}

impl<'de> Deserialize<'de> for CaveatKind {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<CaveatKind, D::Error> {
        let name = String::deserialize(from)?;
        let unknown = || D::Error::custom(units::unknown("caveat", &name, caveat_kinds()));
        let mut kinds = CAVEATS.iter().map(|row| row.kind);
        kinds.find(|kind| kind.0 == name).ok_or_else(unknown)
    }
}

/// The caveats that are found before the verdicts.
pub(crate) fn measured(run: &Measured<'_>) -> Vec<Caveat> {
    CAVEATS.iter().flat_map(|row| row.measured(run)).collect()
}

/// All caveats in the order of the table: those found before the verdicts, and those found after.
pub(crate) fn judged(
    run: &Measured<'_>,
    measured: Vec<Caveat>,
    findings: &[Finding],
) -> Vec<Caveat> {
    let of_verdicts = CAVEATS.iter().filter_map(|row| match row.stage {
        Stage::Judged(detect) => Some(Caveat {
            kind: row.kind,
            ..detect(run, findings)?
        }),
        Stage::Measured(..) => None,
    });
    let place = |caveat: &Caveat| CAVEATS.iter().position(|row| row.kind == caveat.kind);
    let all = measured.into_iter().chain(of_verdicts);
    all.sorted_by_key(place).collect()
}

/// The verdicts that caveats permit for a comparison. Caveats use no verdict and no p value, since the
/// correction comes after them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Permitted {
    Verdict,
    /// Better or worse where the estimate has this sign, and nothing else. The comparison stays in
    /// its family: a rule that looks at its ratio may make no other one more certain.
    Sign {
        /// True if the other cell may be shown to have more than the baseline, false for less; none for
        /// neither.
        is_more: Option<bool>,
        has_amount: bool,
        /// The caveat that permits no more.
        by: CaveatKind,
    },
    /// No verdict, by this caveat: the comparison is in no family.
    Nothing(CaveatKind),
}

impl Permitted {
    /// The verdicts that both permit.
    fn and(self, other: Permitted) -> Permitted {
        match (self, other) {
            (Permitted::Nothing(_), _) | (_, Permitted::Verdict) => self,
            (Permitted::Verdict, _) | (_, Permitted::Nothing(_)) => other,
            (
                Permitted::Sign {
                    is_more,
                    has_amount,
                    by,
                },
                Permitted::Sign {
                    is_more: other,
                    has_amount: has_other,
                    ..
                },
            ) => Permitted::Sign {
                is_more: is_more.filter(|_| is_more == other),
                has_amount: has_amount && has_other,
                by,
            },
        }
    }
}

/// The verdicts that caveats permit for a metric of two cells. `confirmed` is true if the first attempts
/// at the blocks show that the other cell has more, false if less; none if neither.
pub(crate) fn permitted<'c>(
    caveats: impl IntoIterator<Item = &'c Caveat>,
    metric: Metric,
    pair: &Pairing<'_>,
    confirmed: Option<bool>,
) -> Permitted {
    let permits = |(caveat, effect): (&Caveat, Effect)| {
        let by = caveat.kind;
        let [baseline, other] = [pair.baseline, pair.other].map(|c| caveat.cells.contains(&c.id));
        match effect {
            // Of two cells of which one is capped, the other can be shown to have less.
            Effect::Caps(..) if metric.measure == Measure::MessagesPerS && baseline != other => {
                Permitted::Sign {
                    is_more: Some(other),
                    has_amount: true,
                    by,
                }
            }
            Effect::WithholdsUnconfirmed => Permitted::Sign {
                is_more: confirmed,
                has_amount: false,
                by,
            },
            Effect::WithholdsUnshared(..) => Permitted::Sign {
                is_more: None,
                has_amount: false,
                by,
            },
            _ => Permitted::Nothing(by),
        }
    };
    let each = affecting(caveats, metric, pair).map(permits);
    each.fold(Permitted::Verdict, Permitted::and)
}

/// A function that returns true for cells with a circumstance that is a nearer cause than the caveat of that
/// name.
fn nearer_causes(run: &Measured<'_>, name: &str) -> impl Fn(&CellTrials<'_>) -> bool {
    let is_nearer = |row: &&Row| {
        circumstance::named(row.kind.0).is_some_and(|nearer| nearer.excludes.contains(&name))
    };
    let rows = CAVEATS.iter().filter(is_nearer);
    let nearer: Vec<Caveat> = rows.flat_map(|row| row.measured(run)).collect();
    move |cell| {
        let mut nearer = nearer.iter();
        nearer.any(|c| c.cells.is_empty() || c.cells.contains(&cell.id))
    }
}

/// Disturbances of the run from outside, in descending order of the verdicts that they withheld.
pub(crate) fn disturbances(run: &Judged<'_>) -> Vec<Disturbance> {
    let judged = |f: &&Finding| f.verdict != Verdict::NotJudged;
    let disturbance = |(place, caveat): (usize, &Caveat)| {
        let count = |of: fn(&Finding) -> Option<CaveatKind>| {
            let withheld = run.findings.iter().filter(judged).filter_map(of);
            withheld.filter(|by| *by == caveat.kind).count()
        };
        Disturbance {
            caveat: place,
            verdicts_withheld: count(|f| f.withheld),
            amounts_withheld: count(|f| f.amount_withheld),
        }
    };
    let caveats = run.caveats.iter().enumerate();
    let disturbing = caveats.filter(|(_, c)| c.disturbs).map(disturbance);
    let withheld = |d: &Disturbance| d.verdicts_withheld + d.amounts_withheld;
    disturbing
        .sorted_by_key(|d| std::cmp::Reverse(withheld(d)))
        .collect()
}

impl Judged<'_> {
    /// The first caveat that withholds the verdict of a metric on two cells.
    pub(crate) fn withheld_by(&self, metric: Metric, pair: &Pairing<'_>) -> Option<CaveatKind> {
        self.withheld_by_one(metric, pair, |_| true)
    }

    /// The same of the caveats that fulfil a condition.
    pub(crate) fn withheld_by_one(
        &self,
        metric: Metric,
        pair: &Pairing<'_>,
        counts: impl Fn(&Caveat) -> bool,
    ) -> Option<CaveatKind> {
        let caveats = self.caveats.iter().filter(|c| counts(c));
        let mut affecting = affecting(caveats, metric, pair);
        affecting.next().map(|(caveat, _)| caveat.kind)
    }
}

/// The caveats that affect the verdict of a metric on two cells, with their effects.
fn affecting<'c>(
    caveats: impl IntoIterator<Item = &'c Caveat>,
    metric: Metric,
    pair: &Pairing<'_>,
) -> impl Iterator<Item = (&'c Caveat, Effect)> {
    let cells = [&pair.baseline.id, &pair.other.id];
    let affects =
        move |c: &&Caveat| c.cells.is_empty() || c.cells.iter().any(|id| cells.contains(&id));
    caveats
        .into_iter()
        .filter(affects)
        .filter_map(move |caveat| {
            let effect = CAVEATS.iter().find(|row| row.kind == caveat.kind)?.effect();
            effect.withholds(metric, pair).then_some((caveat, effect))
        })
}
