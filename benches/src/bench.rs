//! The table of benches.

use std::time::Duration;

use anyhow::{Result, bail};

use crate::result::Row;
use crate::{
    bare_c, bare_file, clean_build, fio, iperf3, loop_floor, noise, profiles, reports, rounds,
    servers, sockperf, truth, two_hosts,
};

/// All benches, in the order in which they run.
pub const BENCHES: &[Bench] = &[
    loop_floor::BENCH,
    iperf3::BENCH,
    sockperf::BENCH,
    fio::BENCH,
    bare_c::BENCH,
    bare_file::BENCH,
    servers::BENCH,
    two_hosts::BENCH,
    reports::BENCH,
    clean_build::BENCH,
    truth::BENCH,
    noise::BENCH,
    rounds::BENCH,
    profiles::BENCH,
];

/// Share of the machine that other processes may use, as in the studies.
const MAX_OTHERS: f64 = 0.05;

/// A row of the table: a question about bytecost that is answered by measuring.
#[derive(Debug)]
pub struct Bench {
    /// Its name on the command line.
    pub name: &'static str,
    /// Printed above its notes.
    pub question: &'static str,
    /// The bounds of its results, in words.
    pub target: &'static str,
    /// It takes minutes, and runs only if the command line names it.
    pub by_name_alone: bool,
    /// Measures, within the settings.
    pub run: fn(&Context) -> Result<BenchOutcome>,
}

/// The settings of the command line, which are those of all benches.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// Number of measurements of each subject.
    pub blocks: u32,
    /// Length of a measured window.
    pub window: Duration,
    /// Seed of the order within blocks.
    pub seed: u64,
    /// The CPU of senders and the CPU of receivers.
    pub cpus: (u32, u32),
}

impl Context {
    /// The window in whole seconds, rounded up, for peers that take no other times.
    pub fn window_s(&self) -> u64 {
        u64::try_from(self.window.as_millis().div_ceil(1000)).unwrap_or(u64::MAX)
    }
}

/// The end of a bench that met no error.
#[derive(Debug)]
pub enum BenchOutcome {
    /// It measured; single measurements may have failed.
    Ran(BenchResults),
    /// It needs something that this machine does not have: the reason with its remedy.
    NotRun(String),
}

/// The comparisons and notes of a bench.
#[derive(Debug, Default)]
pub struct BenchResults {
    /// Lines of the table.
    pub rows: Vec<Row>,
    /// Lines below the question: units, versions, medians.
    pub notes: Vec<String>,
    /// The reasons of measurements that failed, a line each.
    pub failures: Vec<String>,
    /// Shares of the machine that other processes used during bytecost's own trials.
    pub others: Vec<f64>,
}

impl BenchResults {
    /// The largest share that other processes used, if that may have changed a verdict.
    pub fn disturbed(&self) -> Option<f64> {
        let max = self.others.iter().copied().fold(0.0, f64::max);
        (max > MAX_OTHERS).then_some(max)
    }
}

/// The benches of these names; without names all but those that take minutes.
pub fn chosen(names: &[String], with_build: bool) -> Result<Vec<&'static Bench>> {
    if let Some(name) = names.iter().find(|n| BENCHES.iter().all(|b| b.name != **n)) {
        let known: Vec<&str> = BENCHES.iter().map(|b| b.name).collect();
        bail!(
            "bench `{name}` is not known: choose from {}",
            known.join(", ")
        );
    }
    let is_chosen = |b: &&Bench| {
        if b.name == clean_build::BENCH.name && with_build {
            return true;
        }
        match names {
            [] => !b.by_name_alone,
            names => names.iter().any(|n| n == b.name),
        }
    };
    Ok(BENCHES.iter().filter(is_chosen).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(names: &[&str], with_build: bool, expected: &[&str]) {
        let owned: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        let benches = chosen(&owned, with_build).unwrap();
        let found: Vec<&str> = benches.iter().map(|b| b.name).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_bench_is_disturbed_above_five_percent() {
        let disturbed = |others: &[f64]| {
            BenchResults {
                others: others.to_vec(),
                ..BenchResults::default()
            }
            .disturbed()
        };
        assert_eq!(disturbed(&[]), None);
        assert_eq!(disturbed(&[0.01, 0.05]), None);
        assert_eq!(disturbed(&[0.01, 0.5, 0.2]), Some(0.5));
    }

    #[test]
    fn benches_that_take_minutes_are_chosen_only_by_name() {
        let quick = [
            "loop",
            "iperf3",
            "sockperf",
            "fio",
            "bare-c",
            "bare-file",
            "servers",
            "peer",
            "reports",
        ];
        check(&[], false, &quick);
        check(&[], true, &[&quick[..], &["build"]].concat());
        check(&["sockperf", "loop"], false, &["loop", "sockperf"]);
        check(&["build"], false, &["build"]);
        let error = chosen(&["netperf".to_owned()], false).unwrap_err();
        assert!(error.to_string().contains("iperf3, sockperf"), "{error}");
    }
}
