//! What weakens the findings: one row each, with its evidence and its remedy.

use bytecost_spec::{Axis, Measure};

use crate::phrases;
use crate::rate_limits::{SAME_RATE, is_of_time};
use crate::result::{Caveat, CaveatEffect, Finding, Verdict};
use crate::trials::CellTrials;
use crate::view::View;

mod books;
mod course;
mod cpu_clock;
mod every_completion;
pub(crate) mod flags;
mod frequency;
mod huge_pages;
mod kernel;
mod legs;
mod machine;
mod not_steady;
mod obstacles;
mod off_cpu;
mod packet_socket;
mod receive_window;
mod receiver_bound;
mod retransmits;
mod same_rate;
mod segments;
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

/// What a caveat does to verdicts.
#[derive(Clone, Copy)]
enum Effect {
    /// It is told.
    Annotates,
    /// Findings of such measures with a cell that it touches have no verdict, and say why.
    Withholds(fn(Measure) -> bool, &'static str),
    /// Findings of all measures with a cell that it touches have none.
    WithholdsAll(&'static str),
}

impl Effect {
    fn of_result(self) -> CaveatEffect {
        match self {
            Effect::Annotates => CaveatEffect::Annotates,
            Effect::Withholds(..) => CaveatEffect::WithholdsMetric,
            Effect::WithholdsAll(_) => CaveatEffect::WithholdsAll,
        }
    }
}

/// The effect of most.
const TOLD: Effect = Effect::Annotates;

/// The effect of those that say that something else than what is compared sets the rates.
const NO_RATES: Effect =
    Effect::Withholds(is_of_time, "something other than what is compared sets it");

/// Whether a measure is made of CPU time.
fn of_cpu_time(measure: Measure) -> bool {
    matches!(
        measure,
        Measure::CpuSPerGb | Measure::CpuNsPerMessage | Measure::CpuUtilization
    )
}

/// Every caveat that is looked for, in the order in which they are told.
const DOUBTS: &[(&str, Effect, Detect)] = &[
    ("ended-early", TOLD, course::ended_early),
    ("missing-trials", TOLD, course::missing_trials),
    ("several-legs", TOLD, legs::detect),
    ("changed-plan", TOLD, course::changed_plan),
    ("failed-trials", TOLD, course::failed_trials),
    ("few-blocks", TOLD, course::few_blocks),
    ("imprecise", TOLD, course::imprecise),
    ("twins-differ", TOLD, twins::differ),
    ("nagle-stall", TOLD, stall::nagle),
    ("completion-waits-for-ack", TOLD, stall::completion),
    ("zero-copy-copied", TOLD, kernel::zero_copy_copied),
    ("flags-contradicted", TOLD, flags::contradicted),
    ("packet-socket", TOLD, packet_socket::detect),
    ("waits-for-every-completion", TOLD, every_completion::detect),
    (
        "clients-limited",
        Effect::WithholdsAll("the clients may have limited the rate themselves"),
        serving::generator,
    ),
    (
        "books-open",
        Effect::Withholds(of_cpu_time, "CPU time of these cells is unaccounted for"),
        books::open,
    ),
    ("books-not-closed", TOLD, books::not_closed),
    ("no-books", TOLD, books::none),
    ("failed-requests", TOLD, serving::failed_requests),
    ("server-caution", TOLD, serving::caution),
    ("mover-caution", TOLD, kernel::mover_caution),
    ("cpu-clock", TOLD, cpu_clock::detect),
    ("path-limit", NO_RATES, obstacles::limits),
    ("path-cost", TOLD, obstacles::costs),
    ("quota-around", NO_RATES, obstacles::quota),
    ("other-processes", TOLD, machine::other_processes),
    ("repeats-matter", TOLD, course::repeats_matter),
    ("steal", TOLD, machine::steal),
    ("off-cpu", TOLD, off_cpu::detect),
    ("frequency", TOLD, frequency::changes),
    ("throttled", TOLD, frequency::throttled),
    ("drift", TOLD, course::drift),
    ("short-window", TOLD, short_window::detect),
    ("not-steady", TOLD, not_steady::detect),
    ("pacing", TOLD, kernel::pacing),
    ("receive-window", TOLD, receive_window::detect),
    ("send-buffer", TOLD, kernel::send_buffer),
    ("registered-huge-pages", TOLD, huge_pages::detect),
    ("retransmits", TOLD, retransmits::detect),
    ("segments-differ", TOLD, segments::detect),
    (SAME_RATE, NO_RATES, same_rate::detect),
    ("receiver-bound", TOLD, receiver_bound::detect),
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
    ("estimators", TOLD, course::estimators),
];

/// Whether there is a caveat of that kind at all.
pub(crate) fn is_looked_for(kind: &str) -> bool {
    DOUBTS.iter().any(|(name, ..)| *name == kind)
}

/// Why nothing is decided of cells, where a caveat that was found withholds it: of a measure, or of
/// everything.
pub(crate) fn withholds(
    found: &[Caveat],
    measure: Option<Measure>,
    cells: &[&str],
) -> Option<&'static str> {
    let because = |caveat: &Caveat| {
        let (_, effect, _) = DOUBTS.iter().find(|(kind, ..)| *kind == caveat.kind)?;
        let because = match effect {
            Effect::Annotates => return None,
            Effect::Withholds(of, because) => measure.is_some_and(of).then_some(*because)?,
            Effect::WithholdsAll(because) => *because,
        };
        let affects = |id: &&str| caveat.cells.iter().any(|c| c == id);
        (caveat.cells.is_empty() || cells.iter().any(affects)).then_some(because)
    };
    found.iter().find_map(because)
}

/// Every caveat that the run gives rise to.
pub(crate) fn all(view: &View<'_>) -> Vec<Caveat> {
    DOUBTS
        .iter()
        .flat_map(|(kind, effect, detect)| {
            let found = detect(view).into_iter();
            found.map(|told| told.caveat(kind, effect.of_result()))
        })
        .collect()
}

/// The findings, without a verdict where a caveat withholds it.
pub(crate) fn withheld(view: &View<'_>, varied: &[Axis]) -> Vec<Finding> {
    let mut findings = view.findings.to_vec();
    for (_, effect, detect) in DOUBTS {
        let (of, because): (fn(Measure) -> bool, &str) = match effect {
            Effect::Annotates => continue,
            Effect::Withholds(of, because) => (*of, because),
            Effect::WithholdsAll(because) => (|_| true, because),
        };
        for told in detect(view) {
            let touches = |f: &&mut Finding| {
                let whole = told.cells.is_empty();
                let names = |id: &String| told.cells.contains(id);
                of(f.metric.measure) && (whole || names(&f.cell) || names(&f.baseline))
            };
            for finding in findings.iter_mut().filter(touches) {
                let Some(cell) = view.trials.cells.iter().find(|c| c.id == finding.cell) else {
                    continue;
                };
                finding.verdict = Verdict::NotDecided;
                finding.withheld = Some(because.to_owned());
                finding.blocks_needed = None;
                let study = &view.input.manifest.study;
                let sentence = phrases::finding(finding, cell.cell, study, varied);
                finding.sentence = format!("{sentence} No verdict: {because}.");
            }
        }
    }
    findings
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

fn ids<'c>(cells: impl IntoIterator<Item = &'c CellTrials<'c>>) -> Vec<String> {
    cells.into_iter().map(|c| c.id.clone()).collect()
}

/// `in 3 cells`, `in 1 cell`.
fn in_cells(n: usize) -> String {
    format!("in {}", phrases::count(n, "cell"))
}
