//! CPU time that nobody accounts for: the books of cells, and a kernel's clock that leaves some out.

use bytecost_spec::survey::ClockVerdict;
use bytecost_spec::{CircumstanceKind, Counter, Reading, Transport};
use itertools::Itertools as _;

use super::{Caveat, caveat, ids, in_cells, nearer_causes, of_circumstance, of_run, span};
use crate::books::MOST_LEFT_OVER;
use crate::phrases::{self, percent};
use crate::result::{CellBooks, Closed};
use crate::trials::CellTrials;
use crate::value::Trial;
use crate::view::View;

/// The cells whose books are closed so, with a number of each.
fn of_kind(
    view: &View<'_>,
    closed: Closed,
    number: fn(&CellBooks) -> f64,
) -> (Vec<String>, Vec<f64>) {
    let is_excluded = nearer_causes(view, CircumstanceKind::BooksOpen.row().name);
    let by_nearer = |b: &&CellBooks| view.trials.by_id(&b.cell).is_some_and(&is_excluded);
    let books = view.known.books.iter().filter(|b| b.closed == closed);
    let books = books.filter(|b| !by_nearer(b));
    books.map(|b| (b.cell.clone(), number(b))).unzip()
}

pub(super) fn books_open(view: &View<'_>) -> Option<Caveat> {
    let (open, shares) = of_kind(view, Closed::No, |b| b.left_over);
    let signed = |share: f64| format!("{:+.1} %", 100.0 * share);
    let (cells, shares) = (phrases::count(open.len(), "cell"), span(&shares, signed));
    open.first()?;
    of_circumstance(
        CircumstanceKind::BooksOpen,
        format!("CPU time of {cells} is unaccounted for"),
        format!(
            "CPU time of {cells} is unaccounted for, or counted twice: something works for them, or beside them, that no clock of ours has. Their CPU time has no verdict."
        ),
        format!("left over: {shares} of the cell's own CPU time, sums over blocks"),
        open,
    )
}

pub(super) fn books_not_closed(view: &View<'_>) -> Option<Caveat> {
    let half = |b: &CellBooks| (b.high - b.low) / 2.0;
    let (wide, widths) = of_kind(view, Closed::NotToThreePercent, half);
    let (cells, most) = (phrases::count(wide.len(), "cell"), percent(MOST_LEFT_OVER));
    let widths = span(&widths, percent);
    let has_account = |c: &CellTrials<'_>| {
        let read = |t: &Trial<'_>| t.of_all(Counter::MachineTasksNs).is_some();
        c.trials().any(read)
    };
    let is_coarse = |id: &String| view.trials.by_id(id).is_some_and(|c| !has_account(c));
    let coarse = match wide.iter().any(is_coarse) {
        true => {
            "; the scheduler's own account of all tasks was not available, and what the machine did is known in steps of 10 ms"
        }
        false => "",
    };
    caveat(
        format!(
            "The books of {cells} are not closed to {most} in this run: the CPU time of everything else is known too coarsely beside theirs."
        ),
        format!(
            "95 % intervals of what is left over: ± {widths} of the cell's own CPU time{coarse}"
        ),
        "more blocks (a longer --budget) or a longer --window",
        wide,
    )
}

/// Runs of old have none.
pub(super) fn no_books(view: &View<'_>) -> Option<Caveat> {
    let is_measured = view.measured().next().is_some();
    if !is_measured || !view.known.books.is_empty() || !view.input.blocks.is_empty() {
        return None;
    }
    of_run(
        "This run has no books: an older version recorded it, which did not see all that worked for a side. CPU time of io_uring is incomplete, and trials were repeated one by one.",
        "no record of blocks in the log",
        "measure again with this version",
    )
}

/// By which means the CPU time of a cell was read in the place of the threads' own clocks.
const INTERRUPTS: &str = "the interrupts of its CPUs are added to it";
const TASK_CLOCK: &str =
    "CPU time is the perf task clock, which adds some µs to each context switch";
const NOTHING: &str = "there is no CPU time";

/// None where it is that of the threads' own clocks.
fn means(cell: &CellTrials<'_>) -> Option<&'static str> {
    let readings = &cell.trials().next()?.sample.sender.readings;
    readings.get(&Counter::ThreadCpuNs)?;
    let is_read = |counter| readings.get(&counter).and_then(Reading::measured).is_some();
    let both = [Counter::CpuNs, Counter::InterruptNs].map(is_read);
    Some(match both {
        [false, _] => NOTHING,
        [true, true] => INTERRUPTS,
        [true, false] => TASK_CLOCK,
    })
}

pub(super) fn cpu_clock(view: &View<'_>) -> Option<Caveat> {
    let clock = view.input.manifest.survey.cpu_clock.as_ref()?;
    let over_a_network = |c: &&CellTrials<'_>| c.cell.transport != Transport::Unix;
    match clock.verdict() {
        ClockVerdict::Keeps => None,
        ClockVerdict::Loses => loses(view, clock.ratio()),
        ClockVerdict::NotTold => caveat(
            "It is not known whether this kernel leaves interrupts out of a thread's CPU time. If it does, CPU time over a network is too low.",
            "the thread that was to show it was taken off its CPU in every try, and the kernel's configuration cannot be read",
            "stop what else runs and run again; `bytecost doctor` repeats the test",
            ids(view.moved().filter(over_a_network)),
        ),
    }
}

fn loses(view: &View<'_>, ratio: Option<f64>) -> Option<Caveat> {
    let read = |cell| Some((cell, means(cell)?));
    let (cells, read): (Vec<_>, Vec<_>) = view.measured().filter_map(read).unzip();
    let by = |way: &str| read.iter().filter(|read| **read == way).count();
    let ways = [INTERRUPTS, TASK_CLOCK, NOTHING].into_iter();
    let ways = ways.filter(|way| by(way) > 0);
    let mut ways = ways.map(|way| format!("{} {way}", in_cells(by(way))));
    let ways = ways.join("; ");
    let mixed = match by(INTERRUPTS) > 0 && by(TASK_CLOCK) > 0 {
        true => " CPU time read by two means differs by that.",
        false => "",
    };
    caveat(
        format!(
            "This kernel leaves interrupts out of a thread's CPU time, and with them a part of what is sent and received over a network: {ways}.{mixed}"
        ),
        match ratio {
            Some(ratio) => format!(
                "a thread that sent to itself over loopback without a pause had {} of the elapsed time as CPU time",
                percent(ratio)
            ),
            None => "the kernel is built with CONFIG_IRQ_TIME_ACCOUNTING; its effect could not be measured".to_owned(),
        },
        "boot with tsc=noirqtime (x86), or hold both ends to CPUs of their own (--placement) with a --window of 340ms",
        ids(cells),
    )
}
