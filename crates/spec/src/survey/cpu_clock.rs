//! The accuracy of a thread's CPU clock on a host, and the cost of reading hardware counters.

use serde::{Deserialize, Serialize};

/// The least share of elapsed time that a thread's clock shows if nothing is left out.
const KEPT: f64 = 0.97;

/// The CPU time of a pinned thread that sent to itself over loopback, compared with elapsed time. If the
/// kernel accounts for interrupts separately (CONFIG_IRQ_TIME_ACCOUNTING), the receiving half of that
/// work, softirq, is not in the thread's CPU time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuClock {
    /// Number of tries in which the thread was never off its CPU; others do not count.
    pub tries: u32,
    /// Elapsed time of the fastest try, in ns.
    pub elapsed_ns: u64,
    /// CPU time of the thread in that try, in ns.
    pub cpu_ns: u64,
    /// CONFIG_IRQ_TIME_ACCOUNTING of the kernel, if no try counts and the configuration is readable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configured: Option<bool>,
    /// The reason why there was no try at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// The presence of interrupt time in a thread's CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClockVerdict {
    /// It is included.
    Keeps,
    /// It is not included.
    Loses,
    /// Unknown: no try counts, and the kernel's configuration is not readable.
    Unknown,
}

impl CpuClock {
    /// CPU time over elapsed time of the fastest try; none if no try counts.
    pub fn ratio(&self) -> Option<f64> {
        let is_measured = self.tries > 0 && self.elapsed_ns > 0;
        is_measured.then(|| self.cpu_ns as f64 / self.elapsed_ns as f64)
    }

    /// The conclusion, from the tries or else from the configuration.
    pub fn verdict(&self) -> ClockVerdict {
        match (self.ratio(), self.configured) {
            (Some(ratio), _) if ratio < KEPT => ClockVerdict::Loses,
            (Some(_), _) | (None, Some(false)) => ClockVerdict::Keeps,
            (None, Some(true)) => ClockVerdict::Loses,
            (None, None) => ClockVerdict::Unknown,
        }
    }
}

/// One of several trials that show the cost of reading hardware counters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CounterTrial {
    /// Its mover.
    pub mover: String,
    /// True if the counters were read.
    pub with: bool,
    /// CPU time of both sides in the window, in ns.
    pub cpu_ns: u64,
    /// Messages of the window.
    pub messages: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_judged_by_its_fastest_try_or_else_by_the_configuration() {
        let check = |tries, cpu_ns, configured, expected| {
            let clock = CpuClock {
                tries,
                elapsed_ns: 1000,
                cpu_ns,
                configured,
                failed: None,
            };
            assert_eq!(clock.verdict(), expected, "{clock:?}");
        };
        check(10, 999, None, ClockVerdict::Keeps);
        check(1, 970, None, ClockVerdict::Keeps);
        check(1, 969, None, ClockVerdict::Loses);
        check(10, 700, Some(false), ClockVerdict::Loses);
        check(0, 0, Some(true), ClockVerdict::Loses);
        check(0, 0, Some(false), ClockVerdict::Keeps);
        check(0, 0, None, ClockVerdict::Unknown);
    }
}
