//! CPU time that nobody accounts for. A cell's books divide the time of all CPUs in a window among its users;
//! what no account has is left over, and the books are open if that is too much. And a kernel whose clocks of
//! threads leave out interrupts.

use bytecost_spec::survey::ClockVerdict;
use bytecost_spec::{CircumstanceKind, Counter, Metric, Reading, Transport};
use bytecost_stats::{Location, trimmed_mean_value};
use itertools::Itertools as _;

use super::constructors::{both, cells_caveat, ids, run_caveat, span};
use super::nearer_causes;
use crate::comparison::Pairing;
use crate::confidence::LEVEL;
use crate::measures::is_cpu_time;
use crate::outside_time::{holds_interrupts, log_of_one_more, with_error};
use crate::result::CaveatFact::{Count, CpuClock, Reason, Share};
use crate::result::{Caveat, Closed};
use crate::stages::Measured;
use crate::trials::CellTrials;
use crate::value::Trial;

/// The share of comparisons of equal cells that lose their verdict to readings of interrupts on idle
/// CPUs in steps of 10 ms.
const BY_CHANCE: f64 = 0.01;

/// The error of two cells' log ratio that cannot turn its verdict: its distance from 0, or the smallest effect
/// of the study where that is more.
fn tolerance(pair: &Pairing<'_>, metric: Metric) -> f64 {
    let by_block = pair.log_ratios_by_block(metric).into_iter();
    let logs = by_block.map(|(_, log)| log).collect_vec();
    let ratio = trimmed_mean_value(&logs).unwrap_or(0.0);
    ratio.abs().max(pair.baseline.outside.smallest_effect)
}

/// Returns true where no more than half of the distance can be left over in either cell's books, so
/// that both together cannot turn the ratio. Cells without books are no reason to doubt.
pub(super) fn books_suffice(pair: &Pairing<'_>, metric: Metric) -> bool {
    let most = tolerance(pair, metric) / 2.0;
    let is_within = |left: Location| {
        let Some(interval) = left.interval(LEVEL) else {
            return true;
        };
        let ends = [interval.low, interval.high].map(|share| share.max(-1.0).ln_1p());
        ends.into_iter().all(|end| end.abs() <= most)
    };
    let cells = [pair.baseline, pair.other].into_iter();
    cells.filter_map(|c| c.outside.left_over).all(is_within)
}

/// Returns true unless two cells are shown to differ in interrupts on idle CPUs that are no part of
/// their costs, by more than half of the distance.
pub(super) fn interrupts_are_alike(pair: &Pairing<'_>, metric: Metric) -> bool {
    let cells = [pair.baseline, pair.other];
    if !holds_interrupts(metric) {
        return true;
    }
    match cells.map(|c| c.outside.charged().is_some()) {
        [true, true] => return true,
        [false, false] => {}
        _ => return false,
    }
    let [Some(below), Some(above)] = cells.map(|c| c.outside.interrupts) else {
        return true;
    };
    let [below, above] = [below, above].map(|share| {
        let value = share.value.max(0.0);
        log_of_one_more(Location { value, ..share })
    });
    let apart = with_error(
        Location {
            value: above.value - below.value,
            ..above
        },
        &below,
    );
    let is_shown = apart.p_value(0.0).is_some_and(|p| p < BY_CHANCE);
    !is_shown || apart.value.abs() <= tolerance(pair, metric) / 2.0
}

/// The cells of the study's comparisons of CPU time that do not fulfil a condition.
fn unfulfilled(run: &Measured<'_>, is_met: fn(&Pairing<'_>, Metric) -> bool) -> Vec<String> {
    run.trials
        .asked()
        .filter(|a| is_cpu_time(a.metric.measure) && !is_met(&a.pairing, a.metric))
        .flat_map(|a| [a.pairing.baseline, a.pairing.other])
        .map(|c| c.id.clone())
        .unique()
        .collect()
}

/// The cells whose books are open, with what is left over. Cells for which a caveat of a nearer cause exists
/// are left out.
pub(super) fn cells_with_open_books(run: &Measured<'_>) -> Option<Caveat> {
    let is_excluded = nearer_causes(run, CircumstanceKind::BooksOpen.row().name);
    let by_nearer = |id: &String| run.trials.by_id(id).is_some_and(&is_excluded);
    let open = run
        .books
        .iter()
        .filter(|b| b.closed == Closed::No)
        .filter(|b| !by_nearer(&b.cell))
        .collect_vec();
    let left_over = span(open.iter().map(|b| b.left_over));
    let cells = open.iter().map(|b| b.cell.clone()).collect();
    cells_caveat(cells, left_over.map(Share))
}

/// The cells of comparisons of CPU time in which what is left over could turn the verdict, with its widest
/// bounds, and the number of these cells whose machine time is known in steps of 10 ms alone.
pub(super) fn comparisons_with_open_books(run: &Measured<'_>) -> Option<Caveat> {
    let cells = unfulfilled(run, books_suffice);
    let books = run.books.iter().filter(|b| cells.contains(&b.cell));
    let (lows, highs): (Vec<f64>, Vec<f64>) = books.map(|b| (b.low, b.high)).unzip();
    let lowest = lows.into_iter().fold(0.0, f64::min);
    let highest = highs.into_iter().fold(0.0, f64::max);
    let has_account = |c: &CellTrials<'_>| {
        let read = |t: &Trial<'_>| t.of_all(Counter::MachineTasksNs).is_some();
        c.trials().any(read)
    };
    let is_coarse = |id: &&String| run.trials.by_id(id).is_some_and(|c| !has_account(c));
    let coarse = cells.iter().filter(is_coarse).count();
    let is_excluded = nearer_causes(run, CircumstanceKind::BooksOpen.row().name);
    let by_nearer = |id: &String| run.trials.by_id(id).is_some_and(&is_excluded);
    let is_by_nearer = cells.iter().all(by_nearer);
    let caveat = cells_caveat(cells, [Share([lowest, highest]), Count(coarse)])?;
    Some(if is_by_nearer {
        caveat
    } else {
        caveat.disturbing()
    })
}

pub(super) fn interrupts_differ(run: &Measured<'_>) -> Option<Caveat> {
    interrupts_of(run, unfulfilled(run, interrupts_are_alike))
}

pub(super) fn interrupts_charged(run: &Measured<'_>) -> Option<Caveat> {
    let charged = run
        .trials
        .measured()
        .filter(|c| c.outside.charged().is_some());
    interrupts_of(run, ids(charged))
}

/// Interrupts on idle CPUs in some cells, as a caveat.
fn interrupts_of(run: &Measured<'_>, cells: Vec<String>) -> Option<Caveat> {
    let books = run.books.iter().filter(|b| cells.contains(&b.cell));
    let shares = span(books.filter_map(|b| b.interrupts.map(|i| i.value)));
    cells_caveat(cells, [Share(shares.unwrap_or_default())])
}

/// Books that could not be kept, since the processes of others cannot be seen.
pub(super) fn hidden_processes(run: &Measured<'_>) -> Option<Caveat> {
    let mut trials = run.trials.measured().flat_map(CellTrials::trials);
    let why = trials.find_map(
        |t| match t.sample.machine.get(&Counter::OtherProcessesNs)? {
            Reading::Absent { absent } => Some(absent.clone()),
            Reading::Measured(_) => None,
        },
    )?;
    Some(run_caveat([Reason(why)]).disturbing())
}

/// The substitute for the threads' own clocks, where those leave out interrupts.
#[derive(Clone, Copy, PartialEq)]
enum ClockSubstitute {
    /// The interrupts of its CPUs are added.
    WithInterrupts,
    /// The task clock of perf_event_open(2).
    TaskClock,
    /// None: the interrupts are missing.
    Nothing,
}

/// The substitute of a cell; none if its CPU time is that of the threads' own clocks.
fn substitute(cell: &CellTrials<'_>) -> Option<ClockSubstitute> {
    let readings = &cell.trials().next()?.sample.sender.readings;
    readings.get(&Counter::ThreadCpuNs)?;
    let is_read = |counter| readings.get(&counter).and_then(Reading::measured).is_some();
    let both = [Counter::CpuNs, Counter::InterruptNs].map(is_read);
    Some(match both {
        [false, _] => ClockSubstitute::Nothing,
        [true, true] => ClockSubstitute::WithInterrupts,
        [true, false] => ClockSubstitute::TaskClock,
    })
}

/// It has no fact where it is not known whether the kernel leaves interrupts out.
pub(super) fn cpu_clock(run: &Measured<'_>) -> Option<Caveat> {
    let clock = run.input.manifest.survey.cpu_clock.as_ref()?;
    let over_a_network = |c: &&CellTrials<'_>| c.cell.transport != Transport::Unix;
    match clock.verdict() {
        ClockVerdict::Keeps => None,
        ClockVerdict::Loses => loses(run, clock.ratio()),
        ClockVerdict::Unknown => cells_caveat(ids(run.trials.moved().filter(over_a_network)), []),
    }
}

fn loses(run: &Measured<'_>, ratio: Option<f64>) -> Option<Caveat> {
    let read = |cell| Some((cell, substitute(cell)?));
    let (cells, read): (Vec<_>, Vec<_>) = run.trials.measured().filter_map(read).unzip();
    let by = |means: ClockSubstitute| read.iter().filter(|read| **read == means).count();
    let clock = CpuClock {
        with_interrupts: by(ClockSubstitute::WithInterrupts),
        by_task_clock: by(ClockSubstitute::TaskClock),
        without: by(ClockSubstitute::Nothing),
    };
    let share = ratio.map(|share| Share(both(share)));
    cells_caveat(ids(cells), std::iter::once(clock).chain(share))
}
