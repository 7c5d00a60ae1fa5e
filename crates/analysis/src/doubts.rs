//! What weakens the findings: one row each, with its evidence and its cure.

use bytecost_spec::{Axis, Measure, Metric};
use bytecost_stats::median;

use crate::result::{
    CellBooks, CellCopies, CellCounts, CellFootprint, CellResult, CellTime, CountingCost, Doubt,
    Finding, Input, Verdict,
};
use crate::trials::{CellTrials, Trials};
use crate::value::Trial;
use crate::words;

mod books;
mod course;
mod every_completion;
pub(crate) mod flags;
mod frequency;
mod huge_pages;
mod kernel;
mod machine;
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
mod untouched;
mod wire;

pub(crate) use kernel::copied;
pub(crate) use stall::Stalls;

/// All that a doubt may look at.
pub(crate) struct View<'v> {
    pub(crate) input: &'v Input<'v>,
    pub(crate) trials: &'v Trials<'v>,
    pub(crate) cells: &'v [CellResult],
    pub(crate) findings: &'v [Finding],
    pub(crate) stalls: &'v Stalls,
    pub(crate) cpu_time: &'v [CellTime],
    pub(crate) copies: &'v [CellCopies],
    pub(crate) counts: &'v [CellCounts],
    pub(crate) cost: Option<CountingCost>,
    pub(crate) footprints: &'v [CellFootprint],
    pub(crate) books: &'v [CellBooks],
}

/// A doubt without its name.
pub(crate) struct Told {
    text: String,
    evidence: String,
    cure: String,
    cells: Vec<String>,
}

type Detect = fn(&View<'_>) -> Vec<Told>;

/// What a doubt does to verdicts.
#[derive(Clone, Copy)]
enum Effect {
    /// It is told.
    Annotates,
    /// Findings of such measures with a cell that it touches have no verdict, and say why.
    Withholds(fn(Measure) -> bool, &'static str),
}

fn any(_: Measure) -> bool {
    true
}

/// Whether a measure is made of CPU time.
fn of_cpu_time(measure: Measure) -> bool {
    matches!(
        measure,
        Measure::CpuSPerGb | Measure::CpuNsPerMessage | Measure::CpuUtilization
    )
}

/// Every doubt that is looked for, in the order in which they are told.
const DOUBTS: &[(&str, Effect, Detect)] = &[
    ("ended-early", Effect::Annotates, course::ended_early),
    ("changed-plan", Effect::Annotates, course::changed_plan),
    ("failed-trials", Effect::Annotates, course::failed_trials),
    ("few-blocks", Effect::Annotates, course::few_blocks),
    ("imprecise", Effect::Annotates, course::imprecise),
    ("nagle-stall", Effect::Annotates, stall::nagle),
    (
        "completion-waits-for-ack",
        Effect::Annotates,
        stall::completion,
    ),
    (
        "zero-copy-copied",
        Effect::Annotates,
        kernel::zero_copy_copied,
    ),
    ("flags-contradicted", Effect::Annotates, flags::contradicted),
    ("packet-socket", Effect::Annotates, packet_socket::detect),
    (
        "waits-for-every-completion",
        Effect::Annotates,
        every_completion::detect,
    ),
    (
        "clients-limited",
        Effect::Withholds(any, "the clients may have limited the rate themselves"),
        serving::generator,
    ),
    (
        "books-open",
        Effect::Withholds(of_cpu_time, "CPU time of these cells is unaccounted for"),
        books::open,
    ),
    ("books-not-closed", Effect::Annotates, books::not_closed),
    ("no-books", Effect::Annotates, books::none),
    (
        "failed-requests",
        Effect::Annotates,
        serving::failed_requests,
    ),
    ("server-caution", Effect::Annotates, serving::caution),
    ("mover-caution", Effect::Annotates, kernel::mover_caution),
    (
        "other-processes",
        Effect::Annotates,
        machine::other_processes,
    ),
    ("repeats-matter", Effect::Annotates, course::repeats_matter),
    ("steal", Effect::Annotates, machine::steal),
    ("off-cpu", Effect::Annotates, off_cpu::detect),
    ("frequency", Effect::Annotates, frequency::changes),
    ("throttled", Effect::Annotates, frequency::throttled),
    ("drift", Effect::Annotates, course::drift),
    ("short-window", Effect::Annotates, short_window::detect),
    ("pacing", Effect::Annotates, kernel::pacing),
    ("receive-window", Effect::Annotates, receive_window::detect),
    ("send-buffer", Effect::Annotates, kernel::send_buffer),
    (
        "registered-huge-pages",
        Effect::Annotates,
        huge_pages::detect,
    ),
    ("retransmits", Effect::Annotates, retransmits::detect),
    ("segments-differ", Effect::Annotates, segments::detect),
    ("same-rate", Effect::Annotates, same_rate::detect),
    ("receiver-bound", Effect::Annotates, receiver_bound::detect),
    ("untouched", Effect::Annotates, untouched::detect),
    ("zero-copy-no-room", Effect::Annotates, kernel::no_room),
    ("one-side", Effect::Annotates, wire::one_side),
    ("wire-strays", Effect::Annotates, wire::strays),
    ("wire-responder", Effect::Annotates, wire::responder),
    ("hot-payload", Effect::Annotates, machine::hot_payload),
    ("threads", Effect::Annotates, machine::threads),
    ("one-cpu", Effect::Annotates, machine::one_cpu),
    ("wake-ups", Effect::Annotates, machine::wake_ups),
    ("who-pays", Effect::Annotates, course::who_pays),
    ("estimators", Effect::Annotates, course::estimators),
];

/// Whether there is a doubt of that kind at all.
pub(crate) fn is_looked_for(kind: &str) -> bool {
    DOUBTS.iter().any(|(name, ..)| *name == kind)
}

/// Every doubt that the run gives rise to.
pub(crate) fn all(view: &View<'_>) -> Vec<Doubt> {
    DOUBTS
        .iter()
        .flat_map(|(kind, _, detect)| detect(view).into_iter().map(|told| told.doubt(kind)))
        .collect()
}

/// The findings, without a verdict where a doubt withholds it.
pub(crate) fn withheld(view: &View<'_>, varied: &[Axis]) -> Vec<Finding> {
    let mut findings = view.findings.to_vec();
    for (_, effect, detect) in DOUBTS {
        let Effect::Withholds(of, because) = effect else {
            continue;
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
                finding.blocks_needed = None;
                let study = &view.input.manifest.study;
                let sentence = words::finding(finding, cell.cell, study, varied);
                finding.sentence = format!("{sentence} No verdict: {because}.");
            }
        }
    }
    findings
}

impl Told {
    fn doubt(self, kind: &str) -> Doubt {
        Doubt {
            kind: kind.to_owned(),
            text: self.text,
            evidence: self.evidence,
            cure: self.cure,
            cells: self.cells,
        }
    }
}

impl<'v> View<'v> {
    /// Cells with another end and at least one trial that counts.
    pub(crate) fn measured(&self) -> impl Iterator<Item = &'v CellTrials<'v>> {
        self.trials.moving().filter(|c| !c.by_block.is_empty())
    }

    /// The same without those that have a server: what moves bytes by a mover.
    pub(crate) fn moved(&self) -> impl Iterator<Item = &'v CellTrials<'v>> {
        self.measured().filter(|c| !c.cell.is_served())
    }

    /// The first metric of the first comparison: what the answer speaks of.
    pub(crate) fn main_metric(&self) -> Metric {
        let compare = self.input.manifest.study.compare.first();
        compare
            .and_then(|c| c.metrics.first().copied())
            .unwrap_or(Metric::both(Measure::CpuSPerGb))
    }

    /// CPUs that the run could use.
    pub(crate) fn cpus(&self) -> usize {
        let host = &self.input.manifest.host;
        if host.cpus_allowed.is_empty() {
            host.cpus.len()
        } else {
            host.cpus_allowed.len()
        }
    }
}

/// The median over the trials of a cell for which a number can be had.
fn typical<'t>(cell: &'t CellTrials<'_>, of: impl Fn(&'t Trial<'_>) -> Option<f64>) -> Option<f64> {
    median(&cell.trials().filter_map(of).collect::<Vec<f64>>())
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
    format!("in {}", words::count(n, "cell"))
}
