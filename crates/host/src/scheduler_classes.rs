//! Scheduler classes, sched(7), that this process may not use, with the reason and the remedy.

use std::fmt;

use bytecost_spec::Class;

use crate::capabilities;
use crate::cgroups;
use crate::roots::Roots;

/// A setting of the kernel by which a class is not available. `Display` joins both sentences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassObstacle {
    /// The setting and its effect.
    pub found: &'static str,
    /// The remedy.
    pub remedy: &'static str,
}

impl fmt::Display for ClassObstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.found, self.remedy)
    }
}

/// The reason why a class is not available, as far as files of the kernel show it; none if only an attempt
/// can show it.
pub fn obstacle(roots: &Roots, class: Class) -> Option<ClassObstacle> {
    if !class.is_realtime() {
        return None;
    }
    let runtime = roots.proc("sys/kernel/sched_rt_runtime_us");
    if runtime.as_deref() == Ok("0") {
        return Some(ClassObstacle {
            found: "kernel.sched_rt_runtime_us is 0, so that no real-time thread ever runs",
            remedy: "as root: `sysctl kernel.sched_rt_runtime_us=950000`",
        });
    }
    let budget = cgroups::realtime_us(roots);
    if class.needs_watchdog() && budget == Some(0) {
        return Some(ClassObstacle {
            found: "real-time group scheduling: this process's control group has no budget (cpu.rt_runtime_us is 0)",
            remedy: "as root, move the shell to the root group of the cpu controller, or boot with rt_group_sched=0",
        });
    }
    None
}

/// An explanation, with the remedy, of the error with which sched_setattr(2) refused a class.
pub fn refusal_reason(roots: &Roots, class: Class, error: &std::io::Error) -> String {
    // errno(3): the same on every architecture of Linux.
    const EPERM: i32 = 1;
    const EBUSY: i32 = 16;
    match (error.raw_os_error(), class) {
        (Some(EBUSY), Class::Deadline) => {
            "deadline admission: so much time is reserved already that no half of a CPU is left (EBUSY): fewer --threads, or end what reserves it".to_owned()
        }
        (Some(EPERM), _) if !capabilities::read(roots).may_schedule() => {
            "it needs root, or CAP_SYS_NICE: `sudo bytecost …`; `ulimit -r` and `ulimit -e` allow others real time and nice values".to_owned()
        }
        (Some(EPERM), Class::Deadline) => {
            "a deadline thread must be allowed to run on every CPU of its scheduling domain (EPERM): leave --placement free, and start bytecost without taskset and outside of a cpuset".to_owned()
        }
        (Some(EPERM), class) if class.is_realtime() => {
            "real-time group scheduling: the control group has no budget (EPERM, cpu.rt_runtime_us): leave --cgroup out, or boot with rt_group_sched=0".to_owned()
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::machine;
    use std::io;

    #[test]
    fn a_class_that_files_rule_out_is_unavailable() {
        let rt = "proc/sys/kernel/sched_rt_runtime_us";
        let mount = "31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        let none = machine(&[(rt, "0\n")]);
        let group = machine(&[
            (rt, "950000\n"),
            ("proc/self/mountinfo", mount),
            ("proc/self/cgroup", "1:cpu:/shell\n"),
            ("sys/fs/cgroup/cpu/shell/cpu.rt_runtime_us", "0\n"),
        ]);
        let usual = machine(&[(rt, "950000\n")]);
        let check = |(_, roots): &(tempfile::TempDir, Roots), class, needle: Option<&str>| {
            let why = obstacle(roots, class).map(|obstacle| obstacle.to_string());
            match needle {
                None => assert_eq!(why, None, "{class}"),
                Some(needle) => assert!(why.as_ref().unwrap().contains(needle), "{why:?}"),
            }
        };
        for class in [Class::Fifo, Class::Rr, Class::Deadline] {
            check(&none, class, Some("sched_rt_runtime_us is 0"));
            check(&usual, class, None);
        }
        check(&group, Class::Rr, Some("has no budget"));
        check(&group, Class::Deadline, None);
        check(&none, Class::Other(19), None);
        check(&none, Class::Idle, None);
    }

    #[test]
    fn an_error_is_explained_by_the_class_and_the_capabilities() {
        let nobody = machine(&[("proc/self/status", "CapEff:\t0000000000000000\n")]);
        let root = machine(&[("proc/self/status", "CapEff:\t000001ffffffffff\n")]);
        let check = |(_, roots): &(tempfile::TempDir, Roots), class, errno, needle: &str| {
            let why = refusal_reason(roots, class, &io::Error::from_raw_os_error(errno));
            assert!(why.contains(needle), "{class}: {why}");
        };
        check(&nobody, Class::Fifo, 1, "CAP_SYS_NICE");
        check(&nobody, Class::Other(-5), 1, "CAP_SYS_NICE");
        check(&root, Class::Fifo, 1, "the control group has no budget");
        check(&root, Class::Deadline, 1, "leave --placement free");
        check(&root, Class::Deadline, 16, "deadline admission");
        check(&root, Class::Batch(3), 22, "Invalid argument");
    }
}
