//! What the CPU clock of a thread counts on a host, and what reading hardware counters costs.

use serde::{Deserialize, Serialize};

/// Share of elapsed time, on its CPU throughout, below which a thread's clock leaves something out.
const KEPT: f64 = 0.97;

/// The clock of a pinned thread that sent to itself over loopback, against elapsed time. Where the
/// kernel accounts for interrupts apart (CONFIG_IRQ_TIME_ACCOUNTING), the receiving half of that
/// work, softirq, is not in the thread's CPU time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuClock {
    /// Tries in which the thread was never off its CPU; the others do not count.
    pub tries: u32,
    /// Elapsed time of the quickest try, in ns.
    pub elapsed_ns: u64,
    /// CPU time of the thread in that try, in ns.
    pub cpu_ns: u64,
    /// Where no try counts: what the kernel's configuration says of CONFIG_IRQ_TIME_ACCOUNTING.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configured: Option<bool>,
    /// Why there was no try at all, where that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// Whether the time of interrupts is in a thread's CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockVerdict {
    /// It is.
    Keeps,
    /// It is not.
    Loses,
    /// Neither was measured, and the kernel's configuration cannot be read.
    NotTold,
}

impl CpuClock {
    /// CPU time over elapsed time of the quickest try; none where no try counts.
    pub fn ratio(&self) -> Option<f64> {
        let told = self.tries > 0 && self.elapsed_ns > 0;
        told.then(|| self.cpu_ns as f64 / self.elapsed_ns as f64)
    }

    /// What follows from it.
    pub fn verdict(&self) -> ClockVerdict {
        match (self.ratio(), self.configured) {
            (Some(ratio), _) if ratio < KEPT => ClockVerdict::Loses,
            (Some(_), _) | (None, Some(false)) => ClockVerdict::Keeps,
            (None, Some(true)) => ClockVerdict::Loses,
            (None, None) => ClockVerdict::NotTold,
        }
    }
}

/// One trial of several that show what reading hardware counters costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CounterTrial {
    /// Its mover.
    pub mover: String,
    /// Whether the counters were read.
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
    fn a_clock_is_judged_by_its_quickest_try_or_else_by_the_configuration() {
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
        check(0, 0, None, ClockVerdict::NotTold);
    }
}
