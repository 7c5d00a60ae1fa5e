//! The perf events of a process tree, as `perf stat` counts them.

use bytecost_spec::{Counter, Reading};
use bytecost_sys::perf::{CounterValue, InheritedCounter, PerfEvent, Refused, Scope};

use crate::events::{Kernel, Pmu, in_words};
use crate::increase;

/// The counted events, in the order of `perf stat`.
const EVENTS: [(Counter, PerfEvent); 8] = [
    (Counter::TaskClockNs, PerfEvent::TaskClock),
    (Counter::Migrations, PerfEvent::CpuMigrations),
    (Counter::Cycles, PerfEvent::Cycles),
    (Counter::Instructions, PerfEvent::Instructions),
    (Counter::BusCycles, PerfEvent::BusCycles),
    (Counter::CacheMisses, PerfEvent::CacheMisses),
    (Counter::Branches, PerfEvent::Branches),
    (Counter::BranchMisses, PerfEvent::BranchMisses),
];

const LEFT_OUT: &str = "perf events were left out of this trial, since they make each context \
    switch cost more: --perf on counts them";

/// The counter of each event, or the reason why there is none.
#[derive(Debug)]
pub(super) struct InheritedEvents(Vec<(Counter, Result<InheritedCounter, String>)>);

pub(super) type InheritedCounts = [Option<CounterValue>; EVENTS.len()];

impl InheritedEvents {
    /// Opens the events for the calling thread and all that it starts later, if `perf`; without hardware
    /// events, for the reason `no_hardware`.
    pub(super) fn open(perf: bool, no_hardware: Option<&str>) -> InheritedEvents {
        let open = |(counter, event): (Counter, PerfEvent)| {
            if let Some(why) = no_hardware.filter(|_| event.is_hardware()) {
                return (counter, Err(why.to_owned()));
            }
            if !perf {
                return (counter, Err(LEFT_OUT.to_owned()));
            }
            let opened = match InheritedCounter::open(event, Scope::WithKernel) {
                // The task clock counts the same without the kernel.
                Err(e)
                    if event == PerfEvent::TaskClock
                        && Refused::from_error(&e) == Refused::NotAllowed =>
                {
                    InheritedCounter::open(event, Scope::UserOnly)
                }
                other => other,
            };
            let why = |e| in_words(event, Scope::WithKernel, &e, Kernel.paranoid());
            (counter, opened.map_err(why))
        };
        InheritedEvents(EVENTS.into_iter().map(open).collect())
    }

    pub(super) fn has_migrations(&self) -> bool {
        (self.0.iter()).any(|(counter, event)| *counter == Counter::Migrations && event.is_ok())
    }

    pub(super) fn read(&self) -> InheritedCounts {
        let mut counts = InheritedCounts::default();
        for (count, (_, event)) in counts.iter_mut().zip(&self.0) {
            *count = event.as_ref().ok().and_then(InheritedCounter::read);
        }
        counts
    }

    pub(super) fn difference(
        &self,
        start: &InheritedCounts,
        end: &InheritedCounts,
    ) -> impl Iterator<Item = (Counter, Reading)> {
        let rows = self.0.iter().zip(start.iter().zip(end));
        rows.map(|((counter, event), edges)| {
            let reading = match (event, edges) {
                (Err(why), _) => Reading::absent(why.as_str()),
                (Ok(_), (Some(from), Some(to))) => between(from, to),
                _ => Reading::absent("the event could not be read"),
            };
            (*counter, reading)
        })
    }
}

/// The increase of an event between two reads; absent if it was not counted all the time.
fn between(start: &CounterValue, end: &CounterValue) -> Reading {
    let enabled = end.enabled_ns.saturating_sub(start.enabled_ns);
    let running = end.running_ns.saturating_sub(start.running_ns);
    if enabled == 0 {
        return Reading::absent("nothing of the side ran within the window");
    }
    if running < enabled {
        let percent = u128::from(running) * 100 / u128::from(enabled);
        return Reading::absent(format!(
            "the event was on the CPU {percent} % of the time: the CPU has too few counters for all at once, or another user of them"
        ));
    }
    increase(start.value, end.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_this_machine_lacks_is_absent_for_that_reason() {
        for perf in [false, true] {
            let events = InheritedEvents::open(perf, Some("no such counter"));
            for ((counter, event), (listed, opened)) in EVENTS.iter().zip(&events.0) {
                assert_eq!(counter, listed);
                let lacking = matches!(opened, Err(why) if why == "no such counter");
                assert_eq!(lacking, event.is_hardware(), "{opened:?}");
            }
        }
    }

    #[test]
    fn an_event_that_was_not_counted_all_the_time_is_absent() {
        let counted = |value, enabled_ns, running_ns| CounterValue {
            value,
            enabled_ns,
            running_ns,
        };
        let check = |end: CounterValue, expected: Reading| {
            assert_eq!(between(&counted(5, 100, 100), &end), expected);
        };
        check(counted(12, 300, 300), Reading::Measured(7));
        let shared = "the event was on the CPU 50 % of the time: the CPU has too few counters for all at once, or another user of them";
        check(counted(12, 300, 200), Reading::absent(shared));
        let nothing = "nothing of the side ran within the window";
        check(counted(5, 100, 100), Reading::absent(nothing));
    }
}
