//! The means by which an endpoint reads CPU time and counters, chosen for each trial.

use bytecost_engine::{InFlight, Mover};
use bytecost_meter::{Extras, LEFT_OUT, ProcessTreeMeter, ThreadMeter};
use bytecost_plan::Pins;
use bytecost_spec::survey::{ClockVerdict, CpuClock};
use bytecost_spec::{Cache, Cell, Counter, Pattern, Reading, Readings, Survey, Transport};
use bytecost_sys::clock;
use serde::{Deserialize, Serialize};

use crate::passes::Passes;
use crate::pinned_trial::PinnedTrial;

/// The largest share of a window that one step of /proc/stat may be, where it is read for it.
const STEP_SHARE: f64 = 0.03;

const NO_PARTS: &str = "this kernel leaves interrupts out of a thread's user and system time";

/// The largest share of the threads' CPU time that others work where clocks lack interrupts.
const WORKERS_SHARE: f64 = 0.03;
const WORKERS_LOSE: &str = "this kernel leaves interrupts out of CPU time, and other threads of the process did a part of the work, for which nothing else is read";

/// The means by which the CPU time of a side is read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CpuBy {
    /// The threads' own clocks.
    #[default]
    Thread,
    /// These, and the interrupts of the CPUs that the threads are held to.
    Interrupts,
    /// The perf software event task-clock.
    TaskClock,
    /// None, for this reason.
    Nothing(String),
}

/// The counters that an endpoint reads, and the means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Meters {
    /// The means by which the CPU time is read.
    pub cpu_by: CpuBy,
    /// The reason why no hardware counters are read; none where they are.
    pub no_hardware: Option<String>,
    /// True if the task clock is read too: it stands in for hardware counters in a test.
    pub stand_in: bool,
}

impl Default for Meters {
    fn default() -> Meters {
        Meters {
            cpu_by: CpuBy::Thread,
            no_hardware: Some(LEFT_OUT.to_owned()),
            stand_in: false,
        }
    }
}

impl Meters {
    /// The meter of the calling thread, which is held to its CPUs already.
    pub(crate) fn thread(&self) -> ThreadMeter {
        ThreadMeter::with(&Extras {
            hardware: self.no_hardware.clone().map_or(Ok(()), Err),
            task_clock: self.stand_in || self.cpu_by == CpuBy::TaskClock,
            interrupts: self.cpu_by == CpuBy::Interrupts,
        })
    }

    pub(crate) fn process_tree(&self, cell: &Cell) -> ProcessTreeMeter {
        ProcessTreeMeter::open(cell.serving.perf, self.no_hardware.as_deref())
    }

    /// Replaces the CPU time by that of these means, and keeps the time of the threads' own clocks as
    /// `thread-cpu-ns`. The parts of user and system time are then not known.
    pub(crate) fn take_cpu(&self, readings: &mut Readings) {
        let read = |counter| {
            let missing = || Reading::absent("it was not read");
            readings.get(&counter).cloned().unwrap_or_else(missing)
        };
        let threads = read(Counter::CpuNs);
        let cpu = match &self.cpu_by {
            CpuBy::Thread => return,
            CpuBy::Interrupts => threads.plus(&read(Counter::InterruptNs)),
            CpuBy::TaskClock => read(Counter::TaskClockNs),
            CpuBy::Nothing(why) => Reading::absent(why.as_str()),
        };
        readings.insert(Counter::ThreadCpuNs, threads);
        readings.insert(Counter::CpuNs, cpu);
        for part in [Counter::UserNs, Counter::SystemNs] {
            readings.insert(part, Reading::absent(NO_PARTS));
        }
    }

    /// The CPU time of a side's threads with that of their workers, which is known by clocks alone.
    pub(crate) fn with_workers(&self, threads: &Reading, workers: &Reading) -> Reading {
        let matters = match (threads.measured(), workers.measured()) {
            (Some(threads), Some(workers)) => workers as f64 > WORKERS_SHARE * threads as f64,
            _ => false,
        };
        match (&self.cpu_by, matters) {
            (CpuBy::Interrupts | CpuBy::TaskClock, true) => Reading::absent(WORKERS_LOSE),
            _ => threads.plus(workers),
        }
    }
}

/// This machine's clocks and counters, as the survey found them.
#[derive(Clone, Debug)]
pub(crate) struct AvailableCounters {
    clock: Option<CpuClock>,
    /// The reasons why there are no hardware counters, and no task clock.
    pub(crate) no_hardware: Option<String>,
    no_task_clock: Option<String>,
    pub(crate) stand_in: bool,
}

impl Default for AvailableCounters {
    /// Those of a machine without a survey: no perf events.
    fn default() -> AvailableCounters {
        AvailableCounters {
            clock: None,
            no_hardware: Some(LEFT_OUT.to_owned()),
            no_task_clock: Some(LEFT_OUT.to_owned()),
            stand_in: false,
        }
    }
}

impl AvailableCounters {
    pub(crate) fn from_survey(survey: &Survey) -> AvailableCounters {
        AvailableCounters {
            clock: survey.cpu_clock.clone(),
            no_hardware: survey.no_hardware().map(str::to_owned),
            no_task_clock: survey
                .counter_refused(Counter::TaskClockNs)
                .map(str::to_owned),
            stand_in: false,
        }
    }

    pub(crate) fn meters(&self, trial: PinnedTrial<'_>) -> Meters {
        let cell = trial.cell;
        let left_out = || (!reads_hardware(cell)).then(|| LEFT_OUT.to_owned());
        let no_hardware = if cell.is_served() {
            self.no_hardware.clone()
        } else {
            self.no_hardware.clone().or_else(left_out)
        };
        Meters {
            cpu_by: self.cpu_by(trial),
            no_hardware,
            stand_in: self.stand_in && reads_hardware(cell),
        }
    }

    /// The threads' own clocks, unless they leave out interrupts and the cell's bytes go over a
    /// network. Then the CPUs' interrupt time, at no cost, where each thread has a CPU alone and
    /// the window is long enough. Else the task clock, which makes each context switch cost more.
    /// Else none.
    fn cpu_by(&self, PinnedTrial { cell, pins, window }: PinnedTrial<'_>) -> CpuBy {
        let Some(clock) = &self.clock else {
            return CpuBy::Thread;
        };
        if clock.verdict() != ClockVerdict::Loses || !goes_over_a_network(cell) {
            return CpuBy::Thread;
        }
        let step_ns = clock::proc_stat_unit_ns() as f64;
        let is_long = step_ns < STEP_SHARE * window.as_nanos() as f64;
        let by_clock = Passes::new(cell).is_none() && !cell.is_served();
        // The configuration alone is not enough: the time might be counted twice.
        let measured = clock.ratio().is_some();
        if measured && by_clock && is_long && have_exclusive_cpus(cell, pins) {
            return CpuBy::Interrupts;
        }
        let remedy = match (&self.no_task_clock, cell.is_served() && !cell.serving.perf) {
            (None, false) => return CpuBy::TaskClock,
            (None, true) => "choose --perf on, whose task clock counts them".to_owned(),
            (Some(why), _) => format!(
                "pin both ends to CPUs of their own with a --window of {:.0} ms, boot with tsc=noirqtime, or have perf events: {why}",
                (step_ns / STEP_SHARE / 1e6).ceil() + 1.0
            ),
        };
        CpuBy::Nothing(format!(
            "this kernel leaves interrupts out of a thread's CPU time, and with them a part of what is sent and received: {remedy}"
        ))
    }
}

/// Returns true if a cell's timed trials read hardware counters. A perf event costs some µs at every
/// context switch, which requests and wake-ups are made of. Of several threads, one's say nothing.
pub fn reads_hardware(cell: &Cell) -> bool {
    let Some(mover) = Mover::named(&cell.mover) else {
        return false;
    };
    let of_one_thread = matches!(mover.in_flight, InFlight::One | InFlight::Several);
    let waits = mover.route.is_ping() || mover.beat_ns().is_some();
    let of_a_disk = mover.route.is_of_files() && matches!(cell.cache, Cache::Cold | Cache::Direct);
    let streams = cell.pattern == Pattern::Stream && !cell.is_served();
    streams && of_one_thread && !waits && !of_a_disk
}

fn goes_over_a_network(cell: &Cell) -> bool {
    let has_peer = Mover::named(&cell.mover).is_some_and(|m| m.has_peer());
    cell.is_served() || has_peer && cell.transport != Transport::Unix
}

/// Returns true if each thread of both sides is held to one CPU, and no two to the same.
fn have_exclusive_cpus(cell: &Cell, pins: &Pins) -> bool {
    let mut taken = Vec::new();
    for side in [&pins.sender, &pins.receiver] {
        for flow in 0..cell.threads as usize {
            match side.get(flow % side.len().max(1)).map(Vec::as_slice) {
                Some([cpu]) if !taken.contains(cpu) => taken.push(*cpu),
                _ => return false,
            }
        }
    }
    true
}

#[cfg(test)]
mod tests;
