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

/// The share of the machine that others may use, as in the studies.
const OTHERS_MOST: f64 = 0.05;

/// A row of the table.
#[derive(Debug)]
pub struct Bench {
    /// What the command line calls it.
    pub name: &'static str,
    /// What it asks.
    pub question: &'static str,
    /// What must be reached.
    pub target: &'static str,
    /// Whether it runs only when asked for, since it takes long.
    pub by_name_alone: bool,
    /// Runs it.
    pub run: fn(&Context) -> Result<Told>,
}

/// What every bench is run with.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// How often every subject is measured.
    pub blocks: u32,
    /// Length of a measured window.
    pub window: Duration,
    /// Seed of the order within blocks.
    pub seed: u64,
    /// The CPU of senders and the CPU of receivers.
    pub cpus: (u32, u32),
}

impl Context {
    /// The window in whole seconds, rounded up, for peers that know no others.
    pub fn window_s(&self) -> u64 {
        u64::try_from(self.window.as_millis().div_ceil(1000)).unwrap_or(u64::MAX)
    }
}

/// What a bench says.
#[derive(Debug)]
pub enum Told {
    /// It ran.
    Found(Found),
    /// It could not be run here: why, and what to do.
    Missing(String),
}

/// What a bench found.
#[derive(Debug, Default)]
pub struct Found {
    /// The comparisons.
    pub rows: Vec<Row>,
    /// What else a reader should know, in lines.
    pub notes: Vec<String>,
    /// Trials that failed, in lines.
    pub failures: Vec<String>,
    /// Shares of the machine that others used during bytecost's own trials.
    pub others: Vec<f64>,
}

impl Found {
    /// The largest share that others used, where that is enough to turn comparisons round.
    pub fn disturbed(&self) -> Option<f64> {
        let most = self.others.iter().copied().fold(0.0, f64::max);
        (most > OTHERS_MOST).then_some(most)
    }
}

/// The benches of those names; without names all but those that take long.
pub fn chosen(names: &[String], with_build: bool) -> Result<Vec<&'static Bench>> {
    if let Some(name) = names.iter().find(|n| BENCHES.iter().all(|b| b.name != **n)) {
        let known: Vec<&str> = BENCHES.iter().map(|b| b.name).collect();
        bail!(
            "bench `{name}` is not known: choose from {}",
            known.join(", ")
        );
    }
    let asked = |b: &&Bench| {
        if b.name == clean_build::BENCH.name && with_build {
            return true;
        }
        match names {
            [] => !b.by_name_alone,
            names => names.iter().any(|n| n == b.name),
        }
    };
    Ok(BENCHES.iter().filter(asked).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(names: &[&str], with_build: bool, expected: &[&str]) {
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        let got: Vec<&str> = chosen(&names, with_build)
            .unwrap()
            .iter()
            .map(|b| b.name)
            .collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn a_bench_is_disturbed_above_five_percent() {
        let disturbed = |others: &[f64]| {
            Found {
                others: others.to_vec(),
                ..Found::default()
            }
            .disturbed()
        };
        assert_eq!(disturbed(&[]), None);
        assert_eq!(disturbed(&[0.01, 0.05]), None);
        assert_eq!(disturbed(&[0.01, 0.5, 0.2]), Some(0.5));
    }

    #[test]
    fn benches_are_chosen_by_name_and_long_ones_only_so() {
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
