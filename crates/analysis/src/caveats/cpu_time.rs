//! CPU time that nobody accounts for: the books of cells, and a kernel's clock that leaves some out.

use bytecost_spec::survey::ClockVerdict;
use bytecost_spec::{CircumstanceKind, Counter, Metric, Reading, Transport};
use bytecost_stats::{Location, trimmed_mean_value};
use itertools::Itertools as _;

use super::{Caveat, caveat, ids, in_cells, nearer_causes, of_circumstance, span};
use crate::beside_sides::{holds_interrupts, log_of_one_more, with_error};
use crate::confidence::LEVEL;
use crate::pairing::Pairing;
use crate::phrases::{self, percent};
use crate::result::Closed;
use crate::stages::Measured;
use crate::trials::CellTrials;
use crate::value::{Trial, is_cpu_time};

/// The share of comparisons of equal cells that lose their verdict to readings of interrupts on idle
/// CPUs in steps of 10 ms.
const BY_CHANCE: f64 = 0.01;

/// The distance of two cells' ratio to 1 that is free to be wrong, on a log scale: all of it, and
/// as much as the smallest effect, which matters to nobody.
fn distance(pair: &Pairing<'_, '_>, metric: Metric) -> f64 {
    let ratio = trimmed_mean_value(&pair.log_ratios(metric)).unwrap_or(0.0);
    ratio.abs().max(pair.baseline.beside.smallest_effect)
}

/// Returns true where no more than half of the distance can be left over in either cell's books, so
/// that both together cannot turn the ratio. Cells without books are no reason to doubt.
pub(super) fn books_suffice(pair: &Pairing<'_, '_>, metric: Metric) -> bool {
    let most = distance(pair, metric) / 2.0;
    let is_within = |left: Location| {
        let Some(interval) = left.interval(LEVEL) else {
            return true;
        };
        let ends = [interval.low, interval.high].map(|share| share.max(-1.0).ln_1p());
        ends.into_iter().all(|end| end.abs() <= most)
    };
    let cells = [pair.baseline, pair.other].into_iter();
    cells.filter_map(|c| c.beside.left_over).all(is_within)
}

/// Returns true unless two cells are shown to differ in interrupts on idle CPUs that are no part of
/// their costs, by more than half of the distance.
pub(super) fn interrupts_are_alike(pair: &Pairing<'_, '_>, metric: Metric) -> bool {
    let cells = [pair.baseline, pair.other];
    if !holds_interrupts(metric) {
        return true;
    }
    match cells.map(|c| c.beside.charged().is_some()) {
        [true, true] => return true,
        [false, false] => {}
        _ => return false,
    }
    let [Some(below), Some(above)] = cells.map(|c| c.beside.interrupts) else {
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
    !is_shown || apart.value.abs() <= distance(pair, metric) / 2.0
}

/// The cells of the study's comparisons of CPU time that do not fulfil a condition.
fn unfulfilled(run: &Measured<'_>, is_met: fn(&Pairing<'_, '_>, Metric) -> bool) -> Vec<String> {
    let asked = run.trials.asked().filter(|a| is_cpu_time(a.metric.measure));
    let unmet = asked.filter(|a| !is_met(&a.pairing, a.metric));
    let cells = unmet.flat_map(|a| [a.pairing.baseline, a.pairing.other]);
    cells.map(|c| c.id.clone()).unique().collect()
}

fn signed(share: f64) -> String {
    format!("{:+.1} %", 100.0 * share)
}

pub(super) fn books_open(run: &Measured<'_>) -> Option<Caveat> {
    let is_excluded = nearer_causes(run, CircumstanceKind::BooksOpen.row().name);
    let by_nearer = |id: &String| run.trials.by_id(id).is_some_and(&is_excluded);
    let open = run.books.iter().filter(|b| b.closed == Closed::No);
    let open = open.filter(|b| !by_nearer(&b.cell));
    let (open, shares): (Vec<_>, Vec<_>) = open.map(|b| (b.cell.clone(), b.left_over)).unzip();
    let (cells, shares) = (phrases::count(open.len(), "cell"), span(&shares, signed));
    open.first()?;
    of_circumstance(
        CircumstanceKind::BooksOpen,
        "",
        format!(
            "CPU time of {cells} is unaccounted for, or counted twice: something works for them, or beside them, that no clock of ours has."
        ),
        format!("left over: {shares} of the cell's own CPU time, sums over blocks"),
        open,
    )
}

/// The comparisons that the books of their cells leave open.
pub(super) fn books_not_closed(run: &Measured<'_>) -> Option<Caveat> {
    let cells = unfulfilled(run, books_suffice);
    let books = run.books.iter().filter(|b| cells.contains(&b.cell));
    let (lows, highs): (Vec<f64>, Vec<f64>) = books.map(|b| (b.low, b.high)).unzip();
    let lowest = lows.into_iter().fold(0.0, f64::min);
    let highest = highs.into_iter().fold(0.0, f64::max);
    let (lowest, highest) = (signed(lowest), signed(highest));
    let has_account = |c: &CellTrials<'_>| {
        let read = |t: &Trial<'_>| t.of_all(Counter::MachineTasksNs).is_some();
        c.trials().any(read)
    };
    let is_coarse = |id: &String| run.trials.by_id(id).is_some_and(|c| !has_account(c));
    let coarse = if cells.iter().any(is_coarse) {
        "; the scheduler's own account of all tasks was not available, and what the machine did is known in steps of 10 ms"
    } else {
        ""
    };
    let is_excluded = nearer_causes(run, CircumstanceKind::BooksOpen.row().name);
    let by_nearer = |id: &String| run.trials.by_id(id).is_some_and(&is_excluded);
    let brief = if cells.iter().all(by_nearer) {
        String::new()
    } else {
        let count = phrases::count(cells.len(), "cell");
        format!("CPU time not accounted for in {count} could reverse a comparison")
    };
    caveat(
        format!(
            "The books of {} do not show that nothing is hidden in their CPU time. A verdict on CPU time stands where what is left over is within half the distance of the ratio to 1.",
            phrases::count(cells.len(), "cell")
        ),
        format!(
            "95 % intervals of what is left over: within {lowest} to {highest} of the cell's own CPU time{coarse}"
        ),
        "more blocks (a longer --budget) or a longer --window; stop other programs",
        cells,
    )
    .map(|caveat| Caveat { brief, ..caveat })
}

pub(super) fn interrupts_differ(run: &Measured<'_>) -> Option<Caveat> {
    let cells = unfulfilled(run, interrupts_are_alike);
    caveat(
        format!(
            "Interrupts on idle CPUs work for {}, and cells that are compared differ in them. They are in no task's time, and this run knows them too coarsely to add them to a cost.",
            phrases::count(cells.len(), "cell")
        ),
        interrupts_of(run, &cells),
        "more blocks (a longer --budget) or a longer --window; as root, --evidence counts reads them exactly",
        cells,
    )
}

pub(super) fn interrupts_charged(run: &Measured<'_>) -> Option<Caveat> {
    let charged = run.measured().filter(|c| c.beside.charged().is_some());
    let cells = ids(charged);
    caveat(
        "Interrupts on idle CPUs work for these cells. Those above the idle rate of the run are a part of the CPU time of both sides together, with their error; the CPU time of the sender or of the receiver alone does not include them.",
        interrupts_of(run, &cells),
        "more blocks (a longer --budget) or a longer --window narrow the intervals",
        cells,
    )
}

/// What is known of interrupts on idle CPUs in some cells.
fn interrupts_of(run: &Measured<'_>, cells: &[String]) -> String {
    let books = run.books.iter().filter(|b| cells.contains(&b.cell));
    let shares = books.filter_map(|b| b.interrupts.map(|i| i.value));
    let shares = span(&shares.collect_vec(), signed);
    format!("interrupts on idle CPUs: {shares} of the CPU time of both sides, means over windows")
}

/// Books that could not be kept, since the processes of others cannot be seen.
pub(super) fn hidden_processes(run: &Measured<'_>) -> Option<Caveat> {
    let mut trials = run.measured().flat_map(CellTrials::trials);
    let why = trials.find_map(
        |t| match t.sample.machine.get(&Counter::OtherProcessesNs)? {
            Reading::Absent { absent } => Some(absent.as_str()),
            Reading::Measured(_) => None,
        },
    )?;
    of_circumstance(
        CircumstanceKind::HiddenProcesses,
        "other processes are not visible, so their CPU time is not read",
        "The processes of others are not visible. What they do on the CPUs is not read: cells have no books, and no block was measured again for it.",
        why,
        Vec::new(),
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

pub(super) fn cpu_clock(run: &Measured<'_>) -> Option<Caveat> {
    let clock = run.input.manifest.survey.cpu_clock.as_ref()?;
    let over_a_network = |c: &&CellTrials<'_>| c.cell.transport != Transport::Unix;
    match clock.verdict() {
        ClockVerdict::Keeps => None,
        ClockVerdict::Loses => loses(run, clock.ratio()),
        ClockVerdict::NotTold => caveat(
            "It is not known whether this kernel leaves interrupts out of a thread's CPU time. If it does, CPU time over a network is too low.",
            "the thread that was to show it was taken off its CPU in every try, and the kernel's configuration cannot be read",
            "stop what else runs and run again; `bytecost doctor` repeats the test",
            ids(run.moved().filter(over_a_network)),
        ),
    }
}

fn loses(run: &Measured<'_>, ratio: Option<f64>) -> Option<Caveat> {
    let read = |cell| Some((cell, means(cell)?));
    let (cells, read): (Vec<_>, Vec<_>) = run.measured().filter_map(read).unzip();
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
