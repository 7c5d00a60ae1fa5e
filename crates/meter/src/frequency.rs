//! The meter of the CPUs' frequency and of thermal throttling.
//!
//! Sources: `cpufreq/scaling_cur_freq` and `thermal_throttle/*_throttle_count` of each CPU, below
//! `/sys/devices/system/cpu` (Documentation/admin-guide/pm/cpufreq.rst,
//! Documentation/ABI/testing/sysfs-devices-system-cpu). Virtual machines usually have neither.

use std::fs::File;
use std::path::Path;

use bytecost_spec::{Counter, Reading, Readings};

use crate::{increase_if_read, proc_text};

const DIR: &str = "sys/devices/system/cpu";
const FREQUENCY: &str = "cpufreq/scaling_cur_freq";
const THROTTLES: [&str; 2] = ["core_throttle_count", "package_throttle_count"];
/// The most CPUs that are read: each takes the kernel some µs.
const MOST_CPUS: usize = 64;

/// The open frequency and throttle files of some CPUs. They are read by the thread that watches a trial,
/// outside of its window.
#[derive(Debug, Default)]
pub struct FrequencyMeter {
    frequencies: Vec<File>,
    throttles: Vec<File>,
}

/// A read of a [`FrequencyMeter`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrequencySnapshot {
    /// The highest frequency, since idle CPUs are slow.
    khz: Option<u64>,
    throttles: Option<u64>,
}

impl FrequencyMeter {
    /// Opens the files of these CPUs, at most of 64, below `root`, which is `/` except in tests.
    pub fn open(root: &Path, cpus: &[u32]) -> FrequencyMeter {
        let open = |cpu: &u32, file: &str| File::open(root.join(format!("{DIR}/cpu{cpu}/{file}")));
        let cpus = || cpus.iter().take(MOST_CPUS);
        let counts = |cpu| {
            THROTTLES
                .into_iter()
                .filter_map(move |file| open(cpu, &format!("thermal_throttle/{file}")).ok())
        };
        FrequencyMeter {
            frequencies: cpus().filter_map(|cpu| open(cpu, FREQUENCY).ok()).collect(),
            throttles: cpus().flat_map(counts).collect(),
        }
    }

    /// Reads all files. Does not allocate.
    pub fn read(&self) -> FrequencySnapshot {
        let mut buffer = [0_u8; 32];
        let mut number = |file| proc_text::lone_number(proc_text::reread(file, &mut buffer)?);
        let khz = self.frequencies.iter().filter_map(&mut number).max();
        let mut throttles = None;
        for count in self.throttles.iter().filter_map(&mut number) {
            throttles = Some(throttles.unwrap_or(0_u64).saturating_add(count));
        }
        FrequencySnapshot { khz, throttles }
    }

    /// The frequency at the end, and the number of throttle events between two reads.
    pub fn difference(&self, start: &FrequencySnapshot, end: &FrequencySnapshot) -> Readings {
        let no_frequency = || format!("no CPU reports its frequency in /{DIR}/*/{FREQUENCY}");
        let khz = end
            .khz
            .map_or_else(|| Reading::absent(no_frequency()), Reading::Measured);
        let no_throttles = format!("no CPU reports it in /{DIR}/*/thermal_throttle");
        let throttles = increase_if_read(start.throttles, end.throttles, no_throttles);
        [
            (Counter::FrequencyKhz, khz),
            (Counter::ThermalThrottles, throttles),
        ]
        .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::put;

    fn of_cpu(cpu: u32, file: &str) -> String {
        format!("{DIR}/cpu{cpu}/{file}")
    }

    #[test]
    fn the_highest_frequency_and_the_sum_of_throttles_are_read() {
        let root = tempfile::tempdir().unwrap();
        let write =
            |cpu, file: &str, n: u64| put(root.path(), &of_cpu(cpu, file), &format!("{n}\n"));
        for (cpu, khz, core, package) in [(0, 3_400_000, 5, 9), (1, 1_200_000, 7, 9)] {
            write(cpu, FREQUENCY, khz);
            write(cpu, "thermal_throttle/core_throttle_count", core);
            write(cpu, "thermal_throttle/package_throttle_count", package);
        }
        let meter = FrequencyMeter::open(root.path(), &[0, 1]);
        let start = meter.read();
        write(1, "thermal_throttle/core_throttle_count", 10);
        write(0, FREQUENCY, 2_900_000);
        let readings = meter.difference(&start, &meter.read());
        let khz = &readings[&Counter::FrequencyKhz];
        assert_eq!(*khz, Reading::Measured(2_900_000));
        assert_eq!(readings[&Counter::ThermalThrottles], Reading::Measured(3));
    }

    #[test]
    fn readings_that_no_cpu_reports_are_absent() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), &of_cpu(0, FREQUENCY), "<unknown>\n");
        let meter = FrequencyMeter::open(root.path(), &[0, 1]);
        let start = meter.read();
        let readings = meter.difference(&start, &meter.read());
        assert_eq!(readings.len(), 2);
        assert!(readings.values().all(|r| r.measured().is_none()));
    }
}
