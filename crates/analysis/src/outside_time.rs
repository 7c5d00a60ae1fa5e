//! CPU time outside of a cell's sides: interrupts on idle CPUs, and time that no account has.
//!
//! The kernel receives a packet in softirq. Where that is within the sender's system call, the
//! sender's clock has it. Where a timer sends the packet (a token bucket), a card delivers it, or it
//! is steered to another CPU, no task's clock has it if that CPU was idle. It is work for the cell.
//!
//! Idle time comes in steps of 10 ms, as long as half a window. So a cell has one share, the mean
//! over its windows, with the error of that mean; a window's own value would be noise.

use bytecost_spec::evidence::{CPU_USERS, CpuAccounts, CpuLine, CpuUser};
use bytecost_spec::{Metric, Side};
use bytecost_stats::{BetweenRounds, Location, mean, student_mean};
use itertools::Itertools as _;

use crate::confidence::{FEWEST, LEVEL};
use crate::measures::is_cpu_time;
use crate::window_books::WindowBooks;

/// The step of idle time, /proc/stat.
const STEP_NS: f64 = 1e7;
/// The variance of a difference of two readings in steps, in steps: each begins anywhere in one.
const STEP_VARIANCE: f64 = 1.0 / 6.0;
/// Kernel threads that handle interrupts and packets, as accounts of the CPUs name them.
const SOFTIRQ_THREADS: [&str; 4] = ["ksoftirqd", "napi", "backlog_napi", "irq"];

/// CPU time outside of the sides of a cell, as shares of their CPU time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OutsideTime {
    /// In interrupts on idle CPUs and in kernel threads that handle interrupts, above the run's idle
    /// rate; none where the kernel's accounts do not show it.
    pub(crate) interrupts: Option<Location>,
    /// True if the interrupts count as cost of the cell; the same for all cells of a run.
    pub(crate) is_charged: bool,
    /// CPU time that no account has.
    pub(crate) left_over: Option<Location>,
    /// The smallest effect of the study, as a logarithm.
    pub(crate) smallest_effect: f64,
}

impl OutsideTime {
    /// From the books of a cell's windows, and from the accounts of the CPUs that the kernel's
    /// tracepoints gave in trials for evidence. These are exact, and so preferred, where three have
    /// them.
    pub(crate) fn new(
        windows: &[WindowBooks],
        counted: &[&CpuAccounts],
        idle: IdleRates,
        smallest_effect: f64,
    ) -> OutsideTime {
        let of_windows = || {
            let above = |w: &WindowBooks| Some(w.interrupts_ns? - idle.of_windows * w.elapsed_ns);
            let above: Vec<f64> = windows.iter().map(above).collect::<Option<_>>()?;
            in_steps(&above, typical_sides_ns(windows)?)
        };
        OutsideTime {
            interrupts: counted_share(counted, idle.counted).or_else(of_windows),
            is_charged: false,
            left_over: left_over(windows),
            smallest_effect,
        }
    }

    /// The share by which interrupts on idle CPUs raise the cell's cost. A negative one is an error of
    /// reading.
    pub(crate) fn charged(&self) -> Option<Location> {
        let interrupts = self.interrupts.filter(|_| self.is_charged)?;
        Some(Location {
            value: interrupts.value.max(0.0),
            ..interrupts
        })
    }

    /// The p value of interrupts on idle CPUs being too few to matter: less than half of the smallest
    /// effect, so that two cells cannot differ by more in them.
    pub(crate) fn p_of_interrupts(&self) -> Option<f64> {
        let (interrupts, least) = (self.interrupts?, self.smallest_effect / 2.0);
        let p = interrupts.p_value(least)? / 2.0;
        Some(if interrupts.value > least { p } else { 1.0 - p })
    }
}

/// CPUs that interrupts keep busy on idle CPUs where nothing is moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdleRates {
    /// In timed windows.
    of_windows: f64,
    /// In trials whose CPU time is counted, which have more interrupts for that.
    counted: f64,
}

impl IdleRates {
    /// From windows in which nothing is moved; 0 where these do not show it. Nobody counts the mover
    /// that moves nothing, so that the cell with the least interrupts stands for it there.
    pub(crate) fn new<'e>(
        idle: &[WindowBooks],
        counted: impl IntoIterator<Item = &'e CpuAccounts>,
    ) -> IdleRates {
        let rate = |a: &CpuAccounts| {
            let interrupts = a.ns_of(handles_interrupts)? as f64;
            (a.elapsed_ns > 0).then(|| interrupts / a.elapsed_ns as f64)
        };
        let rates = counted.into_iter().filter_map(rate);
        IdleRates {
            of_windows: rate_of_windows(idle),
            counted: rates.reduce(f64::min).unwrap_or(0.0),
        }
    }
}

fn rate_of_windows(windows: &[WindowBooks]) -> f64 {
    let shown = || {
        let known: Option<Vec<f64>> = windows.iter().map(|w| w.interrupts_ns).collect();
        let interrupts = known?;
        let elapsed = mean(&windows.iter().map(|w| w.elapsed_ns).collect_vec())?;
        let rate = in_steps(&interrupts, elapsed)?;
        (rate.interval(LEVEL)?.low > 0.0).then_some(rate.value)
    };
    shown().unwrap_or(0.0)
}

/// The mean CPU time over the windows that no account has, with each window scaled to the CPU time of a
/// typical one.
fn left_over(windows: &[WindowBooks]) -> Option<Location> {
    let typical_ns = typical_sides_ns(windows)?;
    let share = |w: &WindowBooks| w.ns_of(CpuUser::LeftOver) / typical_ns;
    student_mean(&windows.iter().map(share).collect_vec()).filter(|l| l.count >= FEWEST)
}

/// The CPU time of both sides in a typical window, in ns.
pub(crate) fn typical_sides_ns(windows: &[WindowBooks]) -> Option<f64> {
    let sides = windows.iter().map(|w| w.sides_ns).collect_vec();
    mean(&sides).filter(|ns| *ns > 0.0)
}

/// The mean of differences that were read in steps, as a share of `whole_ns`. Few windows may all
/// have the same number of steps: their error is no less than steps let expect.
fn in_steps(each_ns: &[f64], whole_ns: f64) -> Option<Location> {
    let shares = each_ns.iter().map(|ns| ns / whole_ns).collect_vec();
    let found = student_mean(&shares).filter(|l| l.count >= FEWEST)?;
    let of_steps = STEP_NS / whole_ns * (STEP_VARIANCE / found.count as f64).sqrt();
    Some(Location {
        standard_error: found.standard_error.max(of_steps),
        ..found
    })
}

fn handles_interrupts(line: &CpuLine) -> bool {
    match line.user {
        CpuUser::Interrupts => true,
        CpuUser::KernelThreads => SOFTIRQ_THREADS.contains(&line.name.as_str()),
        _ => false,
    }
}

fn counted_share(accounts: &[&CpuAccounts], idle_rate: f64) -> Option<Location> {
    let is_of_side = |l: &CpuLine| {
        let mut rows = CPU_USERS.iter().filter(|row| row.user == l.user);
        rows.any(|row| row.side.is_some())
    };
    let share = |a: &&CpuAccounts| {
        let sides = a.ns_of(is_of_side).filter(|ns| *ns > 0)? as f64;
        let interrupts = a.ns_of(handles_interrupts)? as f64;
        Some((interrupts - idle_rate * a.elapsed_ns as f64) / sides)
    };
    let shares = accounts.iter().filter_map(share).collect_vec();
    student_mean(&shares).filter(|l| l.count >= FEWEST)
}

/// Returns true for metrics that interrupts on idle CPUs are a part of.
pub(crate) fn holds_interrupts(metric: Metric) -> bool {
    metric.side == Side::Both && is_cpu_time(metric.measure)
}

/// The logarithm of one and a share that is not negative.
pub(crate) fn log_of_one_more(share: Location) -> Location {
    Location {
        value: share.value.ln_1p(),
        standard_error: share.standard_error / (1.0 + share.value),
        ..share
    }
}

/// A location with the independent error of another one on top.
pub(crate) fn with_error(location: Location, other: &Location) -> Location {
    let error = BetweenRounds {
        variance: other.standard_error.powi(2),
        degrees: other.degrees,
    };
    location.with_rounds(error, 1)
}
