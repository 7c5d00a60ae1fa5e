//! Which perf events a thread can count here, and what a group's counts mean.

use std::io;

use bytecost_spec::Reading;
use bytecost_sys::perf::{Group, GroupValues, PerfEvent, Refused, Scope};
use bytecost_sys::{clock, process};

use crate::grown;

/// The hardware group: what cannot be counted beside the others is given up from the end.
pub(crate) const HARDWARE: [PerfEvent; 6] = [
    PerfEvent::Cycles,
    PerfEvent::Instructions,
    PerfEvent::LlcLoadMisses,
    PerfEvent::L1dLoadMisses,
    PerfEvent::Branches,
    PerfEvent::BranchMisses,
];

/// Where migrations are not told elsewhere; else the task clock alone. Context switches are here
/// since the same code of the kernel counts both, and their truth is known at once.
pub(crate) const SOFTWARE: [PerfEvent; 3] = [
    PerfEvent::TaskClock,
    PerfEvent::ContextSwitches,
    PerfEvent::CpuMigrations,
];

/// What opens groups and reads them: the kernel, or a test's own.
pub(crate) trait Pmu {
    type Group;
    fn lead(&mut self, event: PerfEvent, scope: Scope) -> io::Result<Self::Group>;
    fn add(&mut self, group: &mut Self::Group, event: PerfEvent) -> io::Result<()>;
    fn enable(&mut self, group: &mut Self::Group) -> io::Result<()>;
    fn read(&mut self, group: &Self::Group) -> Option<GroupValues>;
    /// Does a little work, and says by other means how much it was.
    fn work(&mut self) -> KnownWork;
    /// kernel.perf_event_paranoid, where it can be read.
    fn paranoid(&self) -> Option<i32>;
}

/// Work whose counts are known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KnownWork {
    /// Turns of a loop; each takes an instruction, a cycle and a branch, or not much less.
    pub(crate) turns: u64,
    /// CPU time, by the thread's CPU clock.
    pub(crate) cpu_ns: u64,
    /// Times that the thread waited, by getrusage.
    pub(crate) waits: u64,
}

/// The events that were wanted: each with its place in the group's values, or why it has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Members(Vec<(PerfEvent, Result<usize, String>)>);

impl Members {
    /// None of them, all for one reason.
    pub(crate) fn none_of(events: &[PerfEvent], why: &str) -> Members {
        Members(events.iter().map(|e| (*e, Err(why.to_owned()))).collect())
    }

    #[cfg(test)]
    pub(crate) fn of_all(events: &[PerfEvent]) -> Members {
        let places = events.iter().enumerate();
        Members(places.map(|(place, e)| (*e, Ok(place))).collect())
    }

    /// Those that can be counted by what is known so far.
    fn left(&mut self) -> impl Iterator<Item = &mut (PerfEvent, Result<usize, String>)> {
        self.0.iter_mut().filter(|(_, place)| place.is_ok())
    }

    fn place(&self, event: PerfEvent) -> Result<usize, &str> {
        match self.0.iter().find(|(e, _)| *e == event) {
            Some((_, place)) => place.as_ref().copied().map_err(String::as_str),
            None => Err("it was not requested"),
        }
    }

    pub(crate) fn refused(&self, event: PerfEvent) -> Option<&str> {
        self.place(event).err()
    }

    /// Why there is no group at all: the reason of its first event. None where there is one.
    pub(crate) fn refused_altogether(&self) -> Option<&str> {
        let has_group = self.0.iter().any(|(_, place)| place.is_ok());
        let (_, first) = self.0.first().filter(|_| !has_group)?;
        first.as_ref().err().map(String::as_str)
    }

    /// What an event counted between two reads. A group that was not on the CPU for all the time
    /// that it was enabled gives nothing: counts are never scaled up.
    pub(crate) fn reading(&self, event: PerfEvent, edges: [Option<&GroupValues>; 2]) -> Reading {
        let place = match self.place(event) {
            Ok(place) => place,
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
        grown(start.values[place], end.values[place])
    }

    pub(crate) fn time(
        &self,
        edges: [Option<&GroupValues>; 2],
        of: fn(&GroupValues) -> u64,
    ) -> Reading {
        match (self.refused_altogether(), edges) {
            (Some(why), _) => Reading::absent(why),
            (None, [Some(start), Some(end)]) => grown(of(start), of(end)),
            (None, _) => Reading::absent(UNREAD),
        }
    }
}

/// With the kernel included, or not at all: what a system call costs would be missing.
pub(crate) fn open_hardware<P: Pmu>(pmu: &mut P) -> (Option<P::Group>, Members) {
    open(pmu, &HARDWARE, Scope::WithKernel)
}

/// The task clock first; it alone is left where the kernel, in which the others happen, is barred.
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
        for (event, place) in members.left() {
            let result = match &mut group {
                Some(group) => pmu.add(group, *event),
                None => pmu.lead(*event, scope).map(|g| group = Some(g)),
            };
            match result {
                Ok(()) => {
                    *place = Ok(opened.len());
                    opened.push(*event);
                }
                Err(e) => *place = Err(in_words(*event, scope, &e, pmu.paranoid())),
            }
        }
        let is_counting = group.as_mut().map(|group| test(pmu, group, &opened));
        match is_counting {
            Some(Ok(true)) | None => return (group, members),
            // At least one was opened, so that each round has one event fewer.
            Some(Ok(false)) => {
                if let Some((_, last)) = members.left().last() {
                    *last = Err(NO_ROOM.to_owned());
                }
            }
            Some(Err(why)) => {
                for (_, place) in members.left() {
                    *place = Err(format!("self-test failed: {why}"));
                }
                return (None, members);
            }
        }
    }
}

const UNREAD: &str = "the counter group could not be read";
const NO_ROOM: &str = "the CPU has no counter free for it beside the others: the NMI watchdog \
    takes one (kernel.nmi_watchdog=0 gives it back), other programs may take more";

/// Counts known work: whether the group was on the CPU, or what is wrong with it.
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
        return Ok(true); // shared just now; each window is judged by itself
    }
    for (place, event) in events.iter().enumerate() {
        let counted = end.values[place].saturating_sub(start.values[place]);
        let least = match event {
            PerfEvent::Cycles | PerfEvent::Instructions | PerfEvent::Branches => work.turns / 4,
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

pub(crate) fn in_words(
    event: PerfEvent,
    scope: Scope,
    error: &io::Error,
    paranoid: Option<i32>,
) -> String {
    let what_to_do = match Refused::from_error(error) {
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
    what_to_do.to_owned()
}

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
        const TURNS: u64 = 20_000;
        const SLEEP_NS: u64 = 20_000;
        let waited = || process::thread_usage().map_or(0, |u| u.switches_voluntary);
        let (waits, cpu) = (waited(), clock::thread_cpu_ns());
        for turn in 0..TURNS {
            std::hint::black_box(turn);
        }
        for _ in 0..3 {
            clock::sleep_until_ns(clock::monotonic_ns() + SLEEP_NS);
        }
        KnownWork {
            turns: TURNS,
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
