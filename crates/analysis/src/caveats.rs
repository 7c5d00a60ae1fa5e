//! What weakens the findings: one row each, with its evidence and its remedy.

use bytecost_spec::{Axis, Measure, Metric};

use crate::pairing::Pairing;
use crate::phrases;
use crate::result::{Caveat, CaveatEffect, Finding, Verdict};
use crate::trials::CellTrials;
use crate::view::View;

mod books;
mod core_to_core;
mod course;
mod cpu_clock;
mod every_completion;
pub(crate) mod flags;
mod frequency;
mod kernel;
mod legs;
mod machine;
mod modes;
mod network;
mod not_steady;
mod obstacles;
mod off_cpu;
mod packet_socket;
mod receive_window;
mod receiver_bound;
mod retransmits;
mod same_rate;
mod segments;
mod send_buffer;
pub(crate) mod serving;
mod short_window;
pub(crate) mod stall;
mod twins;
mod untouched;
mod wire;

pub(crate) use kernel::copied;

/// A caveat without its name.
pub(crate) struct UnnamedCaveat {
    pub(crate) text: String,
    pub(crate) evidence: String,
    pub(crate) remedy: String,
    pub(crate) cells: Vec<String>,
}

type Detect = fn(&View<'_>) -> Vec<UnnamedCaveat>;

/// A row of the table: the name of a caveat, what it does to verdicts, and how it is found.
type Row = (&'static str, Effect, Detect);

/// What a caveat does to verdicts.
#[derive(Clone, Copy)]
enum Effect {
    /// It is told.
    Annotates,
    /// Findings of such measures, along such axes, with a cell that it affects have no verdict, and
    /// say why.
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
            Effect::Withholds(..) | Effect::WithholdsUnshared(..) | Effect::Caps(..) => {
                CaveatEffect::WithholdsMetric
            }
            Effect::WithholdsAll(_) => CaveatEffect::WithholdsAll,
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

    /// Whether what it affects is at least what was measured.
    fn caps(self, measure: Measure) -> bool {
        matches!(self, Effect::Caps(..)) && measure == Measure::MessagesPerS
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

/// The effect of most.
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

/// Whether a measure is a quantile of latencies.
fn is_latency(measure: Measure) -> bool {
    matches!(
        measure,
        Measure::LatencyUsP50
            | Measure::LatencyUsP90
            | Measure::LatencyUsP99
            | Measure::LatencyUsP999
            | Measure::LatencyUsMax
    )
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
    ("ended-early", TOLD, course::ended_early),
    ("missing-trials", TOLD, course::missing_trials),
    ("several-legs", TOLD, legs::detect),
    ("changed-plan", TOLD, course::changed_plan),
    (
        "wrong-bytes",
        Effect::WithholdsAll("some trials delivered wrong bytes"),
        course::wrong_bytes,
    ),
    (
        "many-failed-trials",
        Effect::WithholdsAll("too many of its trials failed"),
        course::many_failed_trials,
    ),
    ("failed-trials", TOLD, course::failed_trials),
    (
        "two-modes-cpu-time",
        two_modes(of_cpu_time),
        modes::far_in_cpu_time,
    ),
    ("two-modes-time", two_modes(is_rate), modes::far_in_time),
    (
        "two-modes-latency",
        two_modes(is_latency),
        modes::far_in_latency,
    ),
    ("few-blocks", TOLD, course::few_blocks),
    ("imprecise", TOLD, course::imprecise),
    ("twins-differ", TOLD, twins::differ),
    ("nagle-stall", TIMER, stall::nagle),
    ("completion-waits-for-ack", TIMER, stall::completion),
    ("zero-copy-copied", TOLD, kernel::zero_copy_copied),
    ("flags-contradicted", TOLD, flags::contradicted),
    ("packet-socket", TOLD, packet_socket::detect),
    ("waits-for-every-completion", TOLD, every_completion::detect),
    (
        "clients-limited",
        Effect::Caps(
            |m, _| is_of_time(m) || m == Measure::LeastServedShare,
            "the clients may have limited the rate themselves",
        ),
        serving::generator,
    ),
    (
        "books-open",
        Effect::Withholds(
            |m, _| of_cpu_time(m),
            "CPU time of these cells is unaccounted for",
        ),
        books::open,
    ),
    ("books-not-closed", TOLD, books::not_closed),
    ("no-books", TOLD, books::none),
    (
        "many-failed-requests",
        Effect::WithholdsAll("too many of its requests failed"),
        serving::many_failed_requests,
    ),
    ("failed-requests", TOLD, serving::failed_requests),
    ("server-caution", TOLD, serving::caution),
    ("mover-caution", TOLD, kernel::mover_caution),
    ("cpu-clock", TOLD, cpu_clock::detect),
    (
        "path-limit",
        no_rates("a queueing discipline of the path sets the rate"),
        obstacles::limits,
    ),
    ("path-cost", TOLD, obstacles::costs),
    (
        "quota-around",
        no_rates("a CPU quota around the run stopped its threads"),
        obstacles::quota,
    ),
    (
        "link-limited",
        no_rates("the link is the limit"),
        network::link_limited,
    ),
    (
        "path-losses",
        no_rates("the path lost packets"),
        network::losses,
    ),
    (
        "path-marks",
        no_rates("the path marked packets as congested"),
        network::marks,
    ),
    ("virtual-way", TOLD, network::virtual_way),
    ("path-mtu", TOLD, network::path_mtu),
    ("path-mtu-changed", TOLD, network::path_mtu_changed),
    ("offloads-differ", TOLD, network::offloads_differ),
    ("interrupts-land", TOLD, network::interrupts),
    ("coalescing", TOLD, network::coalescing),
    ("shared-queues", TOLD, network::shared_queues),
    ("peer-busy", TOLD, network::peer_busy),
    ("other-processes", TOLD, machine::other_processes),
    ("repeats-matter", TOLD, course::repeats_matter),
    ("steal", TOLD, machine::steal),
    ("off-cpu", TOLD, off_cpu::detect),
    ("frequency", TOLD, frequency::changes),
    ("throttled", TOLD, frequency::throttled),
    ("core-to-core", TOLD, core_to_core::changes),
    ("drift", TOLD, course::drift),
    ("short-window", TOLD, short_window::detect),
    ("not-steady", TOLD, not_steady::detect),
    ("pacing", no_rates("TCP paces the rate"), kernel::pacing),
    (
        "receive-window",
        no_rates("the receive window limits the rate"),
        receive_window::detect,
    ),
    ("send-buffer", TOLD, send_buffer::full),
    ("registered-huge-pages", TOLD, send_buffer::huge_pages),
    ("retransmits", TOLD, retransmits::detect),
    ("segments-differ", TOLD, segments::detect),
    (
        "same-rate",
        no_rates(
            "the rates of all are alike though their costs are not, so that something else is the bottleneck",
        ),
        same_rate::detect,
    ),
    (
        "receiver-bound",
        no_rates("the receiver is the bottleneck"),
        receiver_bound::detect,
    ),
    ("untouched", TOLD, untouched::detect),
    ("zero-copy-no-room", TOLD, kernel::no_room),
    ("one-side", TOLD, wire::one_side),
    ("wire-strays", TOLD, wire::strays),
    ("wire-responder", TOLD, wire::responder),
    ("hot-payload", TOLD, machine::hot_payload),
    ("threads", TOLD, machine::threads),
    ("one-cpu", TOLD, machine::one_cpu),
    ("wake-ups", TOLD, machine::wake_ups),
    ("who-pays", TOLD, course::who_pays),
    ("two-modes", TOLD, modes::near),
];

/// The names of all caveats that are looked for, in the order in which they are told.
pub fn caveat_kinds() -> impl Iterator<Item = &'static str> {
    CAVEATS.iter().map(|(kind, ..)| *kind)
}

/// Whether there is a caveat of that kind at all.
pub(crate) fn is_looked_for(kind: &str) -> bool {
    caveat_kinds().any(|name| name == kind)
}

/// Every caveat that the run gives rise to: those that withhold verdicts, which need none, or,
/// once the view has these, all.
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
            let found = detect(view).into_iter();
            caveats.extend(found.map(|told| {
                let mut caveat = told.caveat(kind, effect.of_result());
                if effect.spares_all(view, &caveat) {
                    caveat.effect = CaveatEffect::Annotates;
                }
                caveat
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
        let leaves =
            effect.caps(metric.measure) && slower.is_some_and(|id| !caveat.cells.contains(id));
        effect.because(metric, pair).filter(|_| !leaves)
    })
}

/// The findings, without a verdict where a caveat withholds it.
pub(crate) fn withhold(view: &View<'_>, varied: &[Axis]) -> Vec<Finding> {
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
        finding.sentence =
            phrases::finding(&finding, (pair.other.cell, view.trials.unit), study, varied);
        Some(finding)
    };
    let findings = view.findings.iter();
    findings
        .map(|f| withheld(f).unwrap_or_else(|| f.clone()))
        .collect()
}

impl UnnamedCaveat {
    fn caveat(self, kind: &str, effect: CaveatEffect) -> Caveat {
        Caveat {
            kind: kind.to_owned(),
            effect,
            text: self.text,
            evidence: self.evidence,
            remedy: self.remedy,
            cells: self.cells,
        }
    }
}

/// From the least to the most of some numbers: `97 % to 100 %`, or one where they read alike.
fn span(values: &[f64], write: impl Fn(f64) -> String) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (least, most) = (write(least), write(most));
    if least == most {
        least
    } else {
        format!("{least} to {most}")
    }
}

/// What a caveat says: its text, its evidence and its remedy.
type Words = (String, String, &'static str);

/// One caveat of all cells in which something shows, told by the numbers that it shows in each; none
/// where it shows in no cell. A number that is not known of a cell is left out.
fn of_cells<'v, const N: usize>(
    cells: impl Iterator<Item = &'v CellTrials<'v>>,
    shows: impl Fn(&'v CellTrials<'v>) -> Option<[Option<f64>; N]>,
    tell: impl FnOnce(&[&'v CellTrials<'v>], [Vec<f64>; N]) -> Words,
) -> Vec<UnnamedCaveat> {
    let (mut shown, mut numbers) = (Vec::new(), [const { Vec::new() }; N]);
    for cell in cells {
        if let Some(found) = shows(cell) {
            shown.push(cell);
            let known = numbers.iter_mut().zip(found);
            known.for_each(|(all, number)| all.extend(number));
        }
    }
    if shown.is_empty() {
        return Vec::new();
    }
    let (text, evidence, remedy) = tell(&shown, numbers);
    vec![UnnamedCaveat {
        text,
        evidence,
        remedy: remedy.to_owned(),
        cells: ids(shown),
    }]
}

/// The same text around a span of numbers, or nothing where none is known.
fn clause(text: &str, values: &[f64], write: impl Fn(f64) -> String) -> String {
    match values {
        [] => String::new(),
        _ => text.replace("{}", &span(values, write)),
    }
}

fn ids<'c>(cells: impl IntoIterator<Item = &'c CellTrials<'c>>) -> Vec<String> {
    cells.into_iter().map(|c| c.id.clone()).collect()
}

/// `in 3 cells`, `in 1 cell`.
fn in_cells(n: usize) -> String {
    format!("in {}", phrases::count(n, "cell"))
}
