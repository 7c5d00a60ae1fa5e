use super::*;
use crate::lack::{Lack, skipped};
use bytecost_sys::perf::MAX_EVENTS;
use rustix::io::Errno;

#[derive(Default)]
struct MadeUp {
    errors: Vec<(PerfEvent, Errno)>,
    /// If set, only a group of this many events is ever on the CPU.
    counters: Option<usize>,
    kernel_forbidden: bool,
    /// An event that counts nothing though it is open.
    deaf: Option<PerfEvent>,
    /// Groups are on the CPU half of the time, and count nothing.
    shared: bool,
    worked: u64,
}

const WORK: KnownWork = KnownWork {
    iterations: 1_000,
    cpu_ns: 50_000,
    waits: 3,
};

impl MadeUp {
    fn open(&self, event: PerfEvent, scope: Scope) -> io::Result<()> {
        if self.kernel_forbidden && scope == Scope::WithKernel {
            return Err(Errno::ACCESS.into());
        }
        match self.errors.iter().find(|(e, _)| *e == event) {
            Some((_, errno)) => Err((*errno).into()),
            None => Ok(()),
        }
    }
}

impl Pmu for MadeUp {
    type Group = (Vec<PerfEvent>, Scope);

    fn lead(&mut self, event: PerfEvent, scope: Scope) -> io::Result<Self::Group> {
        self.open(event, scope)?;
        Ok((vec![event], scope))
    }

    fn add(&mut self, group: &mut Self::Group, event: PerfEvent) -> io::Result<()> {
        self.open(event, group.1)?;
        group.0.push(event);
        Ok(())
    }

    fn enable(&mut self, _: &mut Self::Group) -> io::Result<()> {
        Ok(())
    }

    fn read(&mut self, group: &Self::Group) -> Option<GroupValues> {
        let events = &group.0;
        let runs = self.counters.is_none_or(|n| events.len() <= n);
        let mut values = [0; MAX_EVENTS];
        for (value, event) in values.iter_mut().zip(events) {
            let each = match event {
                PerfEvent::TaskClock => WORK.cpu_ns,
                PerfEvent::ContextSwitches => WORK.waits,
                PerfEvent::CpuMigrations => 0,
                _ => WORK.iterations,
            };
            if runs && !self.shared && self.deaf != Some(*event) {
                *value = each * self.worked;
            }
        }
        Some(GroupValues {
            enabled_ns: self.worked * 1_000,
            running_ns: match (runs, self.shared) {
                (false, _) => 0,
                (true, false) => self.worked * 1_000,
                (true, true) => self.worked * 500,
            },
            values,
        })
    }

    fn work(&mut self) -> KnownWork {
        self.worked += 1;
        WORK
    }

    fn paranoid(&self) -> Option<i32> {
        Some(2)
    }
}

fn places(members: &Members) -> Vec<(PerfEvent, Option<usize>)> {
    let place = |(event, place): &(PerfEvent, Result<usize, String>)| (*event, place.clone().ok());
    members.0.iter().map(place).collect()
}

#[test]
fn a_machine_with_everything_gives_one_group() {
    let mut pmu = MadeUp::default();
    let (hardware, of_hardware) = open_hardware(&mut pmu);
    assert_eq!(hardware.unwrap().0, HARDWARE);
    assert!(HARDWARE.iter().all(|e| of_hardware.refused(*e).is_none()));
    let (software, of_software) = open_software(&mut pmu, &SOFTWARE);
    assert_eq!(software.unwrap().0, SOFTWARE);
    assert_eq!(of_software.group_refused(), None);
}

#[test]
fn a_missing_event_does_not_take_the_others_with_it() {
    for missing in HARDWARE {
        let (opened, members) = open_hardware(&mut MadeUp {
            errors: vec![(missing, Errno::NOENT)],
            ..MadeUp::default()
        });
        let group = opened.unwrap().0;
        assert_eq!(group.len(), HARDWARE.len() - 1);
        for event in HARDWARE {
            let why = members.refused(event);
            assert_eq!(why.is_some(), event == missing, "{event:?} {why:?}");
        }
        // Each event's index is its position in the group.
        for (event, place) in places(&members) {
            assert_eq!(place, group.iter().position(|e| *e == event));
        }
    }
}

#[test]
fn with_too_few_counters_the_last_events_go() {
    for (counters, kept) in [(6, 6), (4, 4), (1, 1), (0, 0)] {
        let (group, members) = open_hardware(&mut MadeUp {
            counters: Some(counters),
            ..MadeUp::default()
        });
        assert_eq!(group.map_or(0, |g| g.0.len()), kept);
        for (n, event) in HARDWARE.iter().enumerate() {
            let why = members.refused(*event);
            assert_eq!(why.is_some(), n >= kept, "{event:?}");
            assert!(why.is_none_or(|w| w.contains("no counter free")));
        }
    }
}

#[test]
fn reasons_have_remedies() {
    let closed = "kernel not included: counting it is not allowed (kernel.perf_event_paranoid is 2); \
        set kernel.perf_event_paranoid to 1 or less or give CAP_PERFMON, and in a container let its \
        seccomp filter pass perf_event_open";
    let together = "the CPU cannot count it together with the others";
    let descriptors = "no file descriptor was left: raise `ulimit -n`";
    for (errno, why) in [
        (Errno::ACCESS, closed),
        (Errno::PERM, closed),
        (
            Errno::NOENT,
            "this machine has no such hardware counter: a virtual machine needs a virtual PMU; \
             elsewhere the CPU does not count this event",
        ),
        (Errno::INVAL, together),
        (Errno::MFILE, descriptors),
        (Errno::NOSYS, "this kernel was built without perf events"),
    ] {
        let (group, members) = open_hardware(&mut MadeUp {
            errors: HARDWARE.map(|e| (e, errno)).to_vec(),
            ..MadeUp::default()
        });
        assert!(group.is_none());
        assert_eq!(members.group_refused(), Some(why));
        for event in HARDWARE {
            let reading = members.reading(event, [None, None]);
            assert_eq!(reading, Reading::absent(why), "{event:?}");
        }
    }
}

#[test]
fn without_the_kernel_only_the_task_clock_is_left() {
    let mut pmu = MadeUp {
        kernel_forbidden: true,
        ..MadeUp::default()
    };
    let (group, members) = open_software(&mut pmu, &SOFTWARE);
    assert_eq!(group.unwrap().0, [PerfEvent::TaskClock]);
    assert_eq!(members.refused(PerfEvent::TaskClock), None);
    let why = members.refused(PerfEvent::CpuMigrations).unwrap();
    assert!(why.starts_with("kernel not included"), "{why}");
    let (hardware, _) = open_hardware(&mut pmu);
    assert!(hardware.is_none(), "hardware counts need the kernel");
}

#[test]
fn the_task_clock_alone_needs_no_kernel() {
    for kernel_forbidden in [false, true] {
        let mut pmu = MadeUp {
            kernel_forbidden,
            ..MadeUp::default()
        };
        let (group, members) = open_software(&mut pmu, &SOFTWARE[..1]);
        assert_eq!(group.unwrap().0, [PerfEvent::TaskClock]);
        assert_eq!(members.refused(PerfEvent::TaskClock), None);
        let other = members.refused(PerfEvent::CpuMigrations);
        assert_eq!(other, Some("it was not requested"));
    }
}

// Invariant 10.
#[test]
fn without_any_perf_events_the_reason_says_so() {
    let mut pmu = MadeUp {
        kernel_forbidden: true,
        errors: vec![(PerfEvent::TaskClock, Errno::ACCESS)],
        ..MadeUp::default()
    };
    let (group, members) = open_software(&mut pmu, &SOFTWARE);
    assert!(group.is_none());
    let why = members.group_refused().unwrap();
    assert!(why.starts_with("perf events are not allowed"), "{why}");
}

#[test]
fn a_group_that_does_not_count_fails_its_test() {
    for (deaf, least) in [
        (PerfEvent::TaskClock, 25_000),
        (PerfEvent::ContextSwitches, 3),
        (PerfEvent::Instructions, 250),
    ] {
        let mut pmu = MadeUp {
            deaf: Some(deaf),
            ..MadeUp::default()
        };
        let (group, members) = if deaf.is_hardware() {
            open_hardware(&mut pmu)
        } else {
            open_software(&mut pmu, &SOFTWARE)
        };
        assert!(group.is_none());
        let counted = format!("{deaf:?} counted 0 where there were at least {least}");
        let why = format!("self-test failed: {counted}");
        assert_eq!(members.group_refused(), Some(&*why));
    }
}

/// Enabled, running and the first event's count.
fn values(enabled_ns: u64, running_ns: u64, first: u64) -> GroupValues {
    let mut values = [0; MAX_EVENTS];
    values[0] = first;
    GroupValues {
        enabled_ns,
        running_ns,
        values,
    }
}

#[test]
fn a_group_that_was_not_running_all_the_time_is_absent() {
    let members = Members(vec![
        (PerfEvent::Cycles, Ok(0)),
        (PerfEvent::Branches, Err("no such counter".to_owned())),
    ]);
    let start = values(1_000, 1_000, 500);
    let shared = |percent: u64| {
        Reading::absent(format!(
            "the counter group was on the CPU {percent} % of the time: another user of the \
             counters?"
        ))
    };
    let unused = "the counter group was not enabled within the window";
    let back = "the kernel's counter went backwards within the window";
    for (end, expected) in [
        (values(2_000, 2_000, 800), Reading::Measured(300)),
        (values(2_000, 1_999, 800), shared(99)),
        (values(2_000, 1_500, 800), shared(50)),
        (values(2_000, 1_000, 500), shared(0)),
        (values(u64::MAX, u64::MAX / 2, 500), shared(49)),
        (values(1_000, 1_000, 500), Reading::absent(unused)),
        (values(2_000, 2_000, 400), Reading::absent(back)),
    ] {
        let edges = [Some(&start), Some(&end)];
        assert_eq!(members.reading(PerfEvent::Cycles, edges), expected);
        // The times are reported all the same.
        let enabled = members.time(edges, |v| v.enabled_ns);
        assert_eq!(enabled, Reading::Measured(end.enabled_ns - 1_000));
        let running = members.time(edges, |v| v.running_ns);
        assert_eq!(running, Reading::Measured(end.running_ns - 1_000));
        let lacking = members.reading(PerfEvent::Branches, edges);
        assert_eq!(lacking, Reading::absent("no such counter"));
    }
    for edges in [[Some(&start), None], [None, Some(&start)]] {
        let reading = members.reading(PerfEvent::Cycles, edges);
        assert_eq!(reading, Reading::absent(UNREAD));
        let time = members.time(edges, |v| v.enabled_ns);
        assert_eq!(time, Reading::absent(UNREAD));
    }
}

#[test]
fn a_group_shared_while_it_is_tested_is_kept() {
    // Its windows are checked one by one.
    let (group, members) = open_hardware(&mut MadeUp {
        shared: true,
        ..MadeUp::default()
    });
    assert!(group.is_some());
    assert_eq!(members.refused(PerfEvent::Cycles), None);
}

#[test]
fn the_kernel_counts_moves_in_the_software_group() {
    const MOVES: u64 = 10;
    let (opened, members) = open_software(&mut Kernel, &SOFTWARE);
    if let Some(why) = members.refused(PerfEvent::CpuMigrations) {
        assert!(!why.contains("self-test"), "{why}");
        return skipped(Lack::Right, why);
    }
    let group = opened.unwrap();
    let cpus = process::affinity().unwrap();
    let [one, other, ..] = cpus[..] else {
        return skipped(Lack::Machine, "one CPU");
    };
    let start = group.read();
    for n in 0..MOVES {
        let cpu = if n % 2 == 0 { one } else { other };
        process::set_affinity(&[cpu]).unwrap();
    }
    let end = group.read();
    let counted = |event| members.reading(event, [start.as_ref(), end.as_ref()]);
    let moved = counted(PerfEvent::CpuMigrations).measured().unwrap();
    assert!((MOVES - 2..=MOVES + 1).contains(&moved), "{moved}");
    let switches = counted(PerfEvent::ContextSwitches);
    assert!(switches.measured().unwrap() >= moved);
}
