//! The isolation of a trial: scheduler class of its threads, and control group of its processes.

use std::fmt;
use std::str::FromStr;

use itertools::Itertools as _;
use serde::{Deserialize, Serialize};

use super::Invalid;
use crate::cpulist::{self, MOST_CPUS};

/// Nice values, sched(7): the lower, the more CPU time.
pub const NICE: std::ops::RangeInclusive<i32> = -20..=19;
/// Weights of a control group, cgroup v2's own bounds.
pub const WEIGHTS: std::ops::RangeInclusive<u32> = 1..=10_000;
/// The largest quota, in percent of one CPU: the time of the most CPUs that a machine can have.
pub const MOST_QUOTA_PERCENT: u32 = 100 * MOST_CPUS;
/// The period of a quota, in µs: the kernel's default.
pub const QUOTA_PERIOD_US: u64 = 100_000;
/// CPU time that the class `deadline` reserves in each of its periods, in ns.
pub const DEADLINE_RUNTIME_NS: u64 = 500_000;
/// Period of the class `deadline`, in ns, which is also its deadline.
pub const DEADLINE_PERIOD_NS: u64 = 1_000_000;

/// A scheduler class, sched(7).
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Class {
    /// SCHED_OTHER, with a nice value.
    Other(i32),
    /// SCHED_BATCH, with a nice value.
    Batch(i32),
    /// SCHED_IDLE.
    Idle,
    /// SCHED_FIFO, at the lowest priority of real time.
    Fifo,
    /// SCHED_RR, as [`Class::Fifo`].
    Rr,
    /// SCHED_DEADLINE: [`DEADLINE_RUNTIME_NS`] in each [`DEADLINE_PERIOD_NS`].
    Deadline,
}

impl Default for Class {
    fn default() -> Class {
        Class::Other(0)
    }
}

impl Class {
    const WITHOUT_NICE: [Class; 4] = [Class::Idle, Class::Fifo, Class::Rr, Class::Deadline];

    fn name(self) -> &'static str {
        self.into()
    }

    /// Returns true if its threads run before all threads of the ordinary classes.
    pub fn is_realtime(self) -> bool {
        matches!(self, Class::Fifo | Class::Rr | Class::Deadline)
    }

    /// Returns true if a process without privileges cannot take the class.
    pub fn needs_privilege(self) -> bool {
        let raised = matches!(self, Class::Other(nice) | Class::Batch(nice) if nice < 0);
        self.is_realtime() || raised
    }

    /// Returns true if a thread of the class keeps its CPU until it blocks or yields, so that a
    /// watchdog must end it.
    pub fn needs_watchdog(self) -> bool {
        matches!(self, Class::Fifo | Class::Rr)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Class::Other(nice) | Class::Batch(nice) if *nice != 0 => {
                write!(f, "{}:nice={nice}", self.name())
            }
            class => f.write_str(class.name()),
        }
    }
}

impl FromStr for Class {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Class, Invalid> {
        let wrong = || {
            Invalid(format!(
                "class `{text}`: write `other`, `batch`, `idle`, `fifo`, `rr` or `deadline`; `other` and `batch` also with a nice value from {} to {}, as in other:nice=10",
                NICE.start(),
                NICE.end()
            ))
        };
        let (name, nice) = match text.split_once(":nice=") {
            None => (text, None),
            Some((name, number)) => {
                let nice = number.parse().ok().filter(|n| NICE.contains(n));
                (name, Some(nice.ok_or_else(wrong)?))
            }
        };
        match (name, nice) {
            ("other", nice) => Ok(Class::Other(nice.unwrap_or(0))),
            ("batch", nice) => Ok(Class::Batch(nice.unwrap_or(0))),
            (name, None) => (Class::WITHOUT_NICE.iter().copied())
                .find(|class| class.name() == name)
                .ok_or_else(wrong),
            _ => Err(wrong()),
        }
    }
}

/// The limits of the control group of a trial's processes; without any limit there is no group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Cgroup {
    /// The quota (`cpu.max`) in percent of one CPU, per [`QUOTA_PERIOD_US`].
    pub quota_percent: Option<u32>,
    /// The weight (`cpu.weight`); the kernel's default is 100.
    pub weight: Option<u32>,
    /// The CPUs (`cpuset.cpus`); an empty list is the first CPU that may be used.
    pub cpuset: Option<Vec<u32>>,
}

impl Cgroup {
    /// Returns true if there are no limits, and therefore no group.
    pub fn is_none(&self) -> bool {
        *self == Cgroup::default()
    }
}

impl fmt::Display for Cgroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quota = self.quota_percent.map(|n| format!("max={n}%"));
        let weight = self.weight.map(|n| format!("weight={n}"));
        let cpuset = self.cpuset.as_ref().map(|cpus| match cpus.as_slice() {
            [] => "cpuset".to_owned(),
            cpus => format!("cpuset={}", cpulist::write_in_order(cpus)),
        });
        let none = self.is_none().then(|| "none".to_owned());
        let parts = [none, quota, weight, cpuset].into_iter().flatten();
        write!(f, "{}", parts.format("+"))
    }
}

impl FromStr for Cgroup {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Cgroup, Invalid> {
        if text == "none" {
            return Ok(Cgroup::default());
        }
        let wrong = || {
            Invalid(format!(
                "cgroup `{text}`: write `none`, or what the group is given: max=50% (of one CPU), weight=10 (from {} to {}; 100 is usual), cpuset or cpuset=0-1; several are joined by +, as in max=50%+weight=10",
                WEIGHTS.start(),
                WEIGHTS.end()
            ))
        };
        let mut group = Cgroup::default();
        for part in text.split('+') {
            let (name, value) = match part.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (part, None),
            };
            let number = |digits: &str| digits.parse::<u32>().ok();
            match (name, value) {
                ("max", Some(value)) if group.quota_percent.is_none() => {
                    let percent = (value.strip_suffix('%').and_then(number))
                        .filter(|n| (1..=MOST_QUOTA_PERCENT).contains(n));
                    group.quota_percent = Some(percent.ok_or_else(wrong)?);
                }
                ("weight", Some(value)) if group.weight.is_none() => {
                    let weight = number(value).filter(|n| WEIGHTS.contains(n));
                    group.weight = Some(weight.ok_or_else(wrong)?);
                }
                ("cpuset", value) if group.cpuset.is_none() => {
                    let cpus = value.map(|list| cpulist::parse_in_order(list).ok_or_else(wrong));
                    group.cpuset = Some(cpus.transpose()?.unwrap_or_default());
                }
                _ => return Err(wrong()),
            }
        }
        Ok(group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_parsed_as_it_is_printed() {
        for (text, class) in [
            ("other", Class::Other(0)),
            ("other:nice=19", Class::Other(19)),
            ("other:nice=-20", Class::Other(-20)),
            ("batch", Class::Batch(0)),
            ("batch:nice=5", Class::Batch(5)),
            ("idle", Class::Idle),
            ("fifo", Class::Fifo),
            ("rr", Class::Rr),
            ("deadline", Class::Deadline),
        ] {
            assert_eq!(text.parse(), Ok(class));
            assert_eq!(class.to_string(), text);
        }
        assert_eq!("other:nice=0".parse(), Ok(Class::default()));
        let wrong = " nice other:nice=20 fifo:nice=1 idle:nice=3 other:10";
        for text in wrong.split(' ') {
            let error = text.parse::<Class>().unwrap_err().to_string();
            assert!(error.contains("other:nice=10"), "{text}: {error}");
        }
    }

    #[test]
    fn a_control_group_is_parsed_as_it_is_printed() {
        let texts = "none max=50% max=250% weight=10 cpuset cpuset=0,2 max=50%+weight=10+cpuset=1";
        for text in texts.split(' ') {
            let group: Cgroup = text.parse().unwrap();
            assert_eq!(group.to_string(), text);
            assert_eq!(group.is_none(), text == "none");
        }
        let group: Cgroup = "cpuset=0-2+max=5%".parse().unwrap();
        assert_eq!(group.to_string(), "max=5%+cpuset=0,1,2");
        let wrong = " max max=50 max=0% weight=0 weight=10001 weight=1+weight=2 cpuset= cpuset=x none+max=5% max=5%,weight=3";
        for text in wrong.split(' ') {
            let error = text.parse::<Cgroup>().unwrap_err().to_string();
            assert!(error.contains("max=50%+weight=10"), "{text}: {error}");
        }
    }
}
