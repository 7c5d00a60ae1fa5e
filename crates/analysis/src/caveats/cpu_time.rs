//! CPU time that nobody accounts for: the books of cells, and a kernel's clock that leaves some out.

use bytecost_spec::survey::ClockVerdict;
use bytecost_spec::{Counter, Reading, Transport};
use itertools::Itertools as _;

use super::{UnnamedCaveat, caveat, ids, in_cells, of_run, span};
use crate::books::MOST_LEFT_OVER;
use crate::phrases::{self, percent};
use crate::result::{CellBooks, Closed};
use crate::trials::CellTrials;
use crate::view::View;

fn of_kind<'v>(view: &View<'v>, closed: Closed) -> Vec<&'v CellBooks> {
    let books = view.books.iter();
    books.filter(|b| b.closed == closed).collect()
}

fn cells(books: &[&CellBooks]) -> Vec<String> {
    books.iter().map(|b| b.cell.clone()).collect()
}

/// More is left over than chance explains, or time was counted twice.
pub(super) fn books_open(view: &View<'_>) -> Option<UnnamedCaveat> {
    let open = of_kind(view, Closed::No);
    let shares: Vec<f64> = open.iter().map(|b| b.left_over).collect();
    caveat(
        format!(
            "CPU time of {} is unaccounted for, or counted twice: something works for them, or beside them, that no clock of ours has. Their CPU time has no verdict.",
            phrases::count(open.len(), "cell")
        ),
        format!(
            "left over: {} of the cell's own CPU time, sums over blocks",
            span(&shares, signed)
        ),
        "stop other programs that start many short processes; as root, --evidence counts shows exactly who used the CPUs",
        cells(&open),
    )
}

fn signed(share: f64) -> String {
    format!("{:+.1} %", 100.0 * share)
}

pub(super) fn books_not_closed(view: &View<'_>) -> Option<UnnamedCaveat> {
    let wide = of_kind(view, Closed::NotToThreePercent);
    let widths: Vec<f64> = wide.iter().map(|b| (b.high - b.low) / 2.0).collect();
    caveat(
        format!(
            "The books of {} are not closed to {} in this run: the CPU time of everything else is known too coarsely beside theirs.",
            phrases::count(wide.len(), "cell"),
            percent(MOST_LEFT_OVER)
        ),
        format!(
            "95 % intervals of what is left over: ± {} of the cell's own CPU time",
            span(&widths, percent)
        ),
        "more blocks (a longer --budget) or a longer --window",
        cells(&wide),
    )
}

/// Runs of old have none.
pub(super) fn no_books(view: &View<'_>) -> Option<UnnamedCaveat> {
    let is_measured = view.measured().next().is_some();
    if !is_measured || !view.books.is_empty() || !view.input.blocks.is_empty() {
        return None;
    }
    of_run(
        "This run has no books: an older version recorded it, which did not see all that worked for a side. CPU time of io_uring is incomplete, and trials were repeated one by one.",
        "no record of blocks in the log",
        "measure again with this version",
    )
}

/// By which means the CPU time of a cell was read in the place of the threads' own clocks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Interrupts,
    TaskClock,
    Nothing,
}

/// None where it is that of the threads' own clocks.
fn means(cell: &CellTrials<'_>) -> Option<By> {
    let readings = &cell.trials().next()?.sample.sender.readings;
    readings.get(&Counter::ThreadCpuNs)?;
    let is_read = |counter| readings.get(&counter).and_then(Reading::measured).is_some();
    Some(
        match (is_read(Counter::CpuNs), is_read(Counter::InterruptNs)) {
            (false, _) => By::Nothing,
            (true, true) => By::Interrupts,
            (true, false) => By::TaskClock,
        },
    )
}

pub(super) fn cpu_clock(view: &View<'_>) -> Option<UnnamedCaveat> {
    let clock = view.input.manifest.survey.cpu_clock.as_ref()?;
    match clock.verdict() {
        ClockVerdict::Keeps => None,
        ClockVerdict::Loses => loses(view, clock.ratio()),
        ClockVerdict::NotTold => not_told(view),
    }
}

fn loses(view: &View<'_>, ratio: Option<f64>) -> Option<UnnamedCaveat> {
    let read = view
        .measured()
        .filter_map(|cell| Some((cell, means(cell)?)));
    let (cells, read): (Vec<_>, Vec<_>) = read.unzip();
    let by = |by| read.iter().filter(|b| **b == by).count();
    let ways = [
        (By::Interrupts, "the interrupts of its CPUs are added to it"),
        (
            By::TaskClock,
            "CPU time is the perf task clock, which adds some µs to each context switch",
        ),
        (By::Nothing, "there is no CPU time"),
    ];
    let ways = ways.into_iter().filter(|(way, _)| by(*way) > 0);
    let ways = ways
        .map(|(way, what)| format!("{} {what}", in_cells(by(way))))
        .join("; ");
    let mixed = match by(By::Interrupts) > 0 && by(By::TaskClock) > 0 {
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

fn not_told(view: &View<'_>) -> Option<UnnamedCaveat> {
    let over_a_network = |c: &&CellTrials<'_>| c.cell.transport != Transport::Unix;
    caveat(
        "It is not known whether this kernel leaves interrupts out of a thread's CPU time. If it does, CPU time over a network is too low.",
        "the thread that was to show it was taken off its CPU in every try, and the kernel's configuration cannot be read",
        "stop what else runs and run again; `bytecost doctor` repeats the test",
        ids(view.moved().filter(over_a_network)),
    )
}
