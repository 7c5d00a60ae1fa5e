//! Groups of perf events: which events a thread can count here, and the readings of their counts.

use std::io;

use bytecost_spec::Reading;
use bytecost_sys::perf::{Group, GroupValues, PerfEvent, Refused, Scope};
use bytecost_sys::{clock, process};

use crate::increase;

/// The hardware group. Events that do not fit together are dropped from the end.
pub(crate) const HARDWARE: [PerfEvent; 6] = [
    PerfEvent::Cycles,
    PerfEvent::Instructions,
    PerfEvent::LlcLoadMisses,
    PerfEvent::L1dLoadMisses,
    PerfEvent::Branches,
    PerfEvent::BranchMisses,
];

/// The software group of kernels that do not report migrations in /proc; elsewhere the task clock alone.
/// Context switches are here for the self-test: the same code of the kernel counts both, and their true
/// number is known.
pub(crate) const SOFTWARE: [PerfEvent; 3] = [
    PerfEvent::TaskClock,
    PerfEvent::ContextSwitches,
    PerfEvent::CpuMigrations,
];

/// The interface of perf events: the kernel, or a test's fake.
pub(crate) trait Pmu {
    type Group;
    fn lead(&mut self, event: PerfEvent, scope: Scope) -> io::Result<Self::Group>;
    fn add(&mut self, group: &mut Self::Group, event: PerfEvent) -> io::Result<()>;
    fn enable(&mut self, group: &mut Self::Group) -> io::Result<()>;
    fn read(&mut self, group: &Self::Group) -> Option<GroupValues>;
    /// Does a little work whose counts are known by other means.
    fn work(&mut self) -> KnownWork;
    /// kernel.perf_event_paranoid, if it can be read.
    fn paranoid(&self) -> Option<i32>;
}

/// Counts of the self-test's work that are known without perf.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KnownWork {
    /// Iterations of a loop; each takes an instruction, a cycle and a branch, or not much less.
    pub(crate) iterations: u64,
    /// CPU time, by the thread's CPU clock.
    pub(crate) cpu_ns: u64,
    /// Voluntary context switches, by getrusage.
    pub(crate) waits: u64,
}

/// The wanted events of a group, each with the index of its value, or the reason why it is not counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Members(Vec<(PerfEvent, Result<usize, String>)>);

impl Members {
    /// Events of which none is counted, for one reason.
    pub(crate) fn none_of(events: &[PerfEvent], why: &str) -> Members {
        Members(events.iter().map(|e| (*e, Err(why.to_owned()))).collect())
    }

    #[cfg(test)]
    pub(crate) fn of_all(events: &[PerfEvent]) -> Members {
        let indices = events.iter().enumerate();
        Members(indices.map(|(index, e)| (*e, Ok(index))).collect())
    }

    /// The events without a reason against them so far.
    fn candidates(&mut self) -> impl Iterator<Item = &mut (PerfEvent, Result<usize, String>)> {
        self.0.iter_mut().filter(|(_, index)| index.is_ok())
    }

    fn index(&self, event: PerfEvent) -> Result<usize, &str> {
        match self.0.iter().find(|(e, _)| *e == event) {
            Some((_, index)) => index.as_ref().copied().map_err(String::as_str),
            None => Err("it was not requested"),
        }
    }

    /// The reason why an event is not counted.
    pub(crate) fn refused(&self, event: PerfEvent) -> Option<&str> {
        self.index(event).err()
    }

    /// The reason why there is no group at all: that of its first event. None if there is a group.
    pub(crate) fn group_refused(&self) -> Option<&str> {
        let has_group = self.0.iter().any(|(_, index)| index.is_ok());
        let (_, first) = self.0.first().filter(|_| !has_group)?;
        first.as_ref().err().map(String::as_str)
    }

    /// The increase of an event between two reads. Absent if the group was not on the CPU for all the
    /// time for which it was enabled: counts are never scaled up.
    pub(crate) fn reading(&self, event: PerfEvent, edges: [Option<&GroupValues>; 2]) -> Reading {
        let index = match self.index(event) {
            Ok(index) => index,
            Err(why) => return Reading::absent(why),
        };
        let [Some(start), Some(end)] = edges else {
            return Reading::absent(UNREAD);
        };
        let enabled = end.enabled_ns.saturating_sub(start.enabled_ns);
        let running = end.running_ns.saturating_sub(start.running_ns);
        if enabled == 0 {
            return Reading::absent("the counter group was not enabled within the window");
        }
        if running < enabled {
            let percent = u128::from(running) * 100 / u128::from(enabled);
            return Reading::absent(format!(
                "the counter group was on the CPU {percent} % of the time: another user of the \
                 counters?"
            ));
        }
        increase(start.values[index], end.values[index])
    }

    /// The increase of one of the group's times between two reads.
    pub(crate) fn time(
        &self,
        edges: [Option<&GroupValues>; 2],
        field: fn(&GroupValues) -> u64,
    ) -> Reading {
        match (self.group_refused(), edges) {
            (Some(why), _) => Reading::absent(why),
            (None, [Some(start), Some(end)]) => increase(field(start), field(end)),
            (None, _) => Reading::absent(UNREAD),
        }
    }
}

/// Opens the hardware group with the kernel included, or not at all: without it, the cost of system
/// calls would be missing.
pub(crate) fn open_hardware<P: Pmu>(pmu: &mut P) -> (Option<P::Group>, Members) {
    open(pmu, &HARDWARE, Scope::WithKernel)
}

/// Opens the software group. If counting the kernel is not allowed, only the task clock is left: the
/// other events happen in the kernel.
pub(crate) fn open_software<P: Pmu>(
    pmu: &mut P,
    wanted: &[PerfEvent],
) -> (Option<P::Group>, Members) {
    let denied = match pmu.lead(PerfEvent::TaskClock, Scope::WithKernel) {
        Err(e) if Refused::from_error(&e) == Refused::NotAllowed => e,
        _ => return open(pmu, wanted, Scope::WithKernel),
    };
    let (clocks, others): (Vec<PerfEvent>, Vec<PerfEvent>) =
        wanted.iter().partition(|e| **e == PerfEvent::TaskClock);
    let (group, Members(mut members)) = open(pmu, &clocks, Scope::UserOnly);
    let paranoid = pmu.paranoid();
    members.extend(others.into_iter().map(|e| {
        let why = in_words(e, Scope::WithKernel, &denied, paranoid);
        (e, Err(why))
    }));
    (group, Members(members))
}

/// Opens as many of the events as the machine can count together, and tests that they count.
fn open<P: Pmu>(pmu: &mut P, wanted: &[PerfEvent], scope: Scope) -> (Option<P::Group>, Members) {
    let mut members = Members(wanted.iter().map(|event| (*event, Ok(0))).collect());
    loop {
        let mut group: Option<P::Group> = None;
        let mut opened = Vec::new();
        for (event, index) in members.candidates() {
            let result = match &mut group {
                Some(group) => pmu.add(group, *event),
                None => pmu.lead(*event, scope).map(|g| group = Some(g)),
            };
            match result {
                Ok(()) => {
                    *index = Ok(opened.len());
                    opened.push(*event);
                }
                Err(e) => *index = Err(in_words(*event, scope, &e, pmu.paranoid())),
            }
        }
        let is_counting = group.as_mut().map(|group| test(pmu, group, &opened));
        match is_counting {
            Some(Ok(true)) | None => return (group, members),
            // At least one was opened, so that each iteration has one event fewer.
            Some(Ok(false)) => {
                if let Some((_, last)) = members.candidates().last() {
                    *last = Err(NO_ROOM.to_owned());
                }
            }
            Some(Err(why)) => {
                for (_, index) in members.candidates() {
                    *index = Err(format!("self-test failed: {why}"));
                }
                return (None, members);
            }
        }
    }
}

const UNREAD: &str = "the counter group could not be read";
const NO_ROOM: &str = "the CPU has no counter free for it beside the others: the NMI watchdog \
    takes one (kernel.nmi_watchdog=0 gives it back), other programs may take more";

/// The self-test of an open group by known work: true if it was on the CPU, else an error if it
/// counted too little.
fn test<P: Pmu>(pmu: &mut P, group: &mut P::Group, events: &[PerfEvent]) -> Result<bool, String> {
    let enabled = pmu.enable(group);
    enabled.map_err(|e| format!("it cannot be enabled: {e}"))?;
    let start = pmu.read(group);
    let work = pmu.work();
    let end = pmu.read(group);
    let (Some(start), Some(end)) = (start, end) else {
        return Err("the group cannot be read".to_owned());
    };
    if end.running_ns == start.running_ns {
        return Ok(false);
    }
    if end.running_ns - start.running_ns < end.enabled_ns - start.enabled_ns {
        return Ok(true); // shared at this moment; each window is checked by itself
    }
    for (index, event) in events.iter().enumerate() {
        let counted = end.values[index].saturating_sub(start.values[index]);
        let least = match event {
            PerfEvent::Cycles | PerfEvent::Instructions | PerfEvent::Branches => {
                work.iterations / 4
            }
            PerfEvent::TaskClock => work.cpu_ns / 2,
            PerfEvent::ContextSwitches => work.waits,
            PerfEvent::L1dLoadMisses
            | PerfEvent::LlcLoadMisses
            | PerfEvent::BranchMisses
            | PerfEvent::BusCycles
            | PerfEvent::CacheMisses
            | PerfEvent::CpuMigrations => 0,
        };
        if counted < least {
            return Err(format!(
                "{event:?} counted {counted} where there were at least {least}"
            ));
        }
    }
    Ok(true)
}

/// The reason why an event cannot be opened, with the remedy.
pub(crate) fn in_words(
    event: PerfEvent,
    scope: Scope,
    error: &io::Error,
    paranoid: Option<i32>,
) -> String {
    let reason = match Refused::from_error(error) {
        Refused::NotAllowed => {
            let what = match scope {
                Scope::WithKernel => "kernel not included: counting it is not allowed",
                Scope::UserOnly => "perf events are not allowed",
            };
            let level = paranoid.map_or_else(String::new, |n| {
                format!(" (kernel.perf_event_paranoid is {n})")
            });
            return format!(
                "{what}{level}; set kernel.perf_event_paranoid to 1 or less or give CAP_PERFMON, \
                 and in a container let its seccomp filter pass perf_event_open"
            );
        }
        Refused::NoSuchCounter if event.is_hardware() => {
            "this machine has no such hardware counter: a virtual machine needs a virtual PMU; \
             elsewhere the CPU does not count this event"
        }
        Refused::NoSuchCounter => "this kernel does not count it",
        Refused::NotTogether => "the CPU cannot count it together with the others",
        Refused::NoPerf => "this kernel was built without perf events",
        Refused::NoDescriptor => "no file descriptor was left: raise `ulimit -n`",
        Refused::Busy => "another program holds the counters for itself: end it",
        Refused::Other => return format!("perf_event_open failed: {error}"),
    };
    reason.to_owned()
}

/// The perf events of the running kernel.
pub(crate) struct Kernel;

impl Pmu for Kernel {
    type Group = Group;

    fn lead(&mut self, event: PerfEvent, scope: Scope) -> io::Result<Group> {
        Group::lead(event, scope)
    }

    fn add(&mut self, group: &mut Group, event: PerfEvent) -> io::Result<()> {
        group.add(event)
    }

    fn enable(&mut self, group: &mut Group) -> io::Result<()> {
        group.enable()
    }

    fn read(&mut self, group: &Group) -> Option<GroupValues> {
        group.read()
    }

    fn work(&mut self) -> KnownWork {
        const ITERATIONS: u64 = 20_000;
        const SLEEP_NS: u64 = 20_000;
        let waited = || process::thread_usage().map_or(0, |u| u.switches_voluntary);
        let (waits, cpu) = (waited(), clock::thread_cpu_ns());
        for i in 0..ITERATIONS {
            std::hint::black_box(i);
        }
        for _ in 0..3 {
            clock::sleep_until_ns(clock::monotonic_ns() + SLEEP_NS);
        }
        KnownWork {
            iterations: ITERATIONS,
            cpu_ns: clock::thread_cpu_ns() - cpu,
            waits: waited() - waits,
        }
    }

    fn paranoid(&self) -> Option<i32> {
        let text = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?;
        text.trim().parse().ok()
    }
}

#[cfg(test)]
mod tests;
