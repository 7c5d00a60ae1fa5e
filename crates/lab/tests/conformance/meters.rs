//! By which means trials are read where a CPU clock lacks interrupts, or with hardware counters.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytecost_lab::Lab;
use bytecost_lab::files::Files;
use bytecost_lab::settings::Settings;
use bytecost_meter::{LEFT_OUT, ThreadMeter};
use bytecost_spec::survey::CpuClock;
use bytecost_spec::{Counter, Reading, Readings, Refusal, Sample, Survey};
use bytecost_sys::process;
use libtest_mimic::Trial;

use super::{case, cell, given, lab, read, settings, trial_in};
use crate::harness::lack::{Lack, skipped};

pub fn trials() -> Vec<Trial> {
    vec![
        case("CPU time is read by the task clock", by_task_clock),
        case("CPU time has the interrupts of its CPUs", by_interrupts),
        case("where no means serves there is no CPU time", by_nothing),
        case("no perf event without hardware counters", no_events),
        case("what counters cost is tried by turns", counters_cost),
    ]
}

/// A survey of this machine's counters, on which a thread's clock loses a quarter.
fn losing() -> Survey {
    Survey {
        cpu_clock: Some(CpuClock {
            tries: 10,
            elapsed_ns: 100_000,
            cpu_ns: 75_000,
            ..CpuClock::default()
        }),
        counters_refused: ThreadMeter::open().refused(),
        ..Survey::default()
    }
}

fn surveyed(survey: &Survey, window: Duration) -> Lab {
    let settings = Settings {
        window,
        ..settings()
    };
    lab(settings, Files::default()).surveyed(survey)
}

fn made(lab: &mut Lab, values: &str) -> Sample {
    given(trial_in(lab, &cell(values)))
}

const SHORT: Duration = Duration::from_millis(20);

fn sides(sample: &Sample) -> impl Iterator<Item = &Readings> {
    let receiver = sample.receiver.iter().map(|r| &r.readings);
    std::iter::once(&sample.sender.readings).chain(receiver)
}

fn by_task_clock() {
    let survey = losing();
    if let Some(why) = survey.counter_refused(Counter::TaskClockNs) {
        return skipped(Lack::Right, why);
    }
    let over_loopback = made(&mut surveyed(&survey, SHORT), "");
    for side in sides(&over_loopback) {
        let cpu = read(side, Counter::CpuNs);
        assert_eq!(cpu, read(side, Counter::TaskClockNs));
        assert!(read(side, Counter::ThreadCpuNs) > 0, "no clock");
    }
    let over_unix = made(&mut surveyed(&survey, SHORT), "transport=unix");
    for side in sides(&over_unix) {
        let replaced = side.contains_key(&Counter::ThreadCpuNs);
        assert!(!replaced, "no interrupt does a part of this");
    }
}

fn by_interrupts() {
    let cpus = process::affinity().unwrap();
    let [one, other, ..] = cpus[..] else {
        return skipped(Lack::Machine, "one CPU, which both sides share");
    };
    let placement = format!("{one}:{other}");
    let mut lab = surveyed(&losing(), Duration::from_millis(350));
    let sample = made(&mut lab, &format!("placement={placement}"));
    for side in sides(&sample) {
        let [all, own, interrupts] = [Counter::CpuNs, Counter::ThreadCpuNs, Counter::InterruptNs]
            .map(|counter| read(side, counter));
        assert_eq!(all, own + interrupts);
        let opened = side[&Counter::TaskClockNs].measured().is_some();
        assert!(!opened, "a perf event was opened");
    }
}

fn by_nothing() {
    let mut survey = losing();
    survey
        .counters_refused
        .retain(|r| r.subject != Counter::TaskClockNs);
    survey.counters_refused.push(Refusal {
        subject: Counter::TaskClockNs,
        why: "perf events are not allowed".to_owned(),
    });
    let mut lab = surveyed(&survey, SHORT);
    for values in ["", "server=epoll pattern=request-response"] {
        let is_served = !values.is_empty();
        let sample = made(&mut lab, values);
        for side in sides(&sample) {
            let cpu = &side[&Counter::CpuNs];
            let is_refused = matches!(cpu, Reading::Absent { absent } if absent.contains("leaves interrupts out"));
            assert!(is_refused, "{cpu:?}");
            // On a busy machine a server may be read too late, which is recorded.
            let own = &side[&Counter::ThreadCpuNs];
            let late =
                matches!(own, Reading::Absent { absent } if absent.contains("late in a window"));
            assert!((is_served && late) || own.measured().is_some(), "{own:?}");
        }
    }
}

fn no_events() {
    let mut survey = losing();
    survey.cpu_clock = None;
    let counters = [
        Counter::Cycles,
        Counter::Instructions,
        Counter::L1dLoadMisses,
        Counter::LlcLoadMisses,
        Counter::Branches,
        Counter::BranchMisses,
    ];
    survey.counters_refused = counters
        .map(|subject| Refusal {
            subject,
            why: "this machine has none".to_owned(),
        })
        .to_vec();
    let mut lab = surveyed(&survey, SHORT);
    for pattern in ["stream", "request-response"] {
        let sample = made(&mut lab, &format!("pattern={pattern}"));
        for side in sides(&sample) {
            for counter in counters {
                assert_eq!(side[&counter], Reading::absent("this machine has none"));
            }
            assert_eq!(side[&Counter::TaskClockNs], Reading::absent(LEFT_OUT));
        }
    }
}

/// The task clock stands in for hardware counters.
fn counters_cost() {
    let stop = AtomicBool::new(false);
    let survey = Survey {
        cpu_clock: None,
        ..losing()
    };
    let mut lab = surveyed(&survey, SHORT);
    if survey.no_hardware().is_some() {
        assert!(lab.counters_cost(&stop).is_empty(), "none to read");
    }
    lab.stand_in_for_counters();
    let found = lab.counters_cost(&stop);
    for mover in ["null", "send"] {
        for with in [false, true] {
            let same = found.iter().filter(|t| t.mover == mover && t.with == with);
            // A machine that is too busy may leave some out.
            let n = same.clone().count();
            assert!((1..=5).contains(&n), "{n} trials of {mover}, {with}");
            for t in same {
                assert!(t.cpu_ns > 0 && t.messages > 0, "{t:?}");
            }
        }
    }
    if survey.counter_refused(Counter::TaskClockNs).is_none() {
        let sample = made(&mut lab, "");
        for side in sides(&sample) {
            read(side, Counter::TaskClockNs);
        }
    }
}
