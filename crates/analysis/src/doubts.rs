//! What weakens the findings: one row each, with its evidence and its cure.

use bytecost_spec::{Measure, Metric};
use bytecost_stats::median;

use crate::result::{
    CellCopies, CellCounts, CellFootprint, CellResult, CellTime, CountingCost, Doubt, Finding,
    Input,
};
use crate::trials::{CellTrials, Trials};
use crate::value::Trial;
use crate::words;

mod course;
mod cpu_clock;
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
}

/// A doubt without its name.
pub(crate) struct Told {
    text: String,
    evidence: String,
    cure: String,
    cells: Vec<String>,
}

type Detect = fn(&View<'_>) -> Vec<Told>;

/// Every doubt that is looked for, in the order in which they are told.
const DOUBTS: &[(&str, Detect)] = &[
    ("ended-early", course::ended_early),
    ("changed-plan", course::changed_plan),
    ("failed-trials", course::failed_trials),
    ("few-blocks", course::few_blocks),
    ("imprecise", course::imprecise),
    ("nagle-stall", stall::nagle),
    ("completion-waits-for-ack", stall::completion),
    ("zero-copy-copied", kernel::zero_copy_copied),
    ("flags-contradicted", flags::contradicted),
    ("packet-socket", packet_socket::detect),
    ("waits-for-every-completion", every_completion::detect),
    ("clients-limited", serving::generator),
    ("failed-requests", serving::failed_requests),
    ("server-caution", serving::caution),
    ("mover-caution", kernel::mover_caution),
    ("cpu-clock", cpu_clock::detect),
    ("neighbour", machine::neighbour),
    ("steal", machine::steal),
    ("off-cpu", off_cpu::detect),
    ("frequency", frequency::changes),
    ("throttled", frequency::throttled),
    ("drift", course::drift),
    ("short-window", short_window::detect),
    ("pacing", kernel::pacing),
    ("receive-window", receive_window::detect),
    ("send-buffer", kernel::send_buffer),
    ("registered-huge-pages", huge_pages::detect),
    ("retransmits", retransmits::detect),
    ("segments-differ", segments::detect),
    ("same-rate", same_rate::detect),
    ("receiver-bound", receiver_bound::detect),
    ("untouched", untouched::detect),
    ("zero-copy-no-room", kernel::no_room),
    ("one-side", wire::one_side),
    ("wire-strays", wire::strays),
    ("wire-responder", wire::responder),
    ("hot-payload", machine::hot_payload),
    ("threads", machine::threads),
    ("one-cpu", machine::one_cpu),
    ("wake-ups", machine::wake_ups),
    ("who-pays", course::who_pays),
    ("estimators", course::estimators),
];

/// Whether there is a doubt of that kind at all.
pub(crate) fn is_looked_for(kind: &str) -> bool {
    DOUBTS.iter().any(|(name, _)| *name == kind)
}

/// Every doubt that the run gives rise to.
pub(crate) fn all(view: &View<'_>) -> Vec<Doubt> {
    DOUBTS
        .iter()
        .flat_map(|(kind, detect)| detect(view).into_iter().map(|told| told.doubt(kind)))
        .collect()
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

/// The trials of a cell for which a share can be had and is above a bound, with the largest.
fn above<'t>(
    cell: &'t CellTrials<'_>,
    share: impl Fn(&'t Trial<'_>) -> Option<f64>,
    bound: f64,
) -> (usize, f64) {
    cell.trials()
        .filter_map(share)
        .filter(|s| *s > bound)
        .fold((0, 0.0), |(n, most), s| (n + 1, f64::max(most, s)))
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
