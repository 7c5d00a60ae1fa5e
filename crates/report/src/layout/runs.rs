//! The layout of a publication that timed programs: a row a run, with its mode and its seconds.

use std::collections::BTreeMap;

use bytecost_spec::claim::has;
use bytecost_spec::study::{Compare, Figure, Study, Tier};
use bytecost_spec::table::{TableError, number};
use bytecost_spec::{Axis, Cell, Imported, Measure, Metric, Published, Sample, Table};

use super::export::{counted, written};
use super::import::{fail, study_of};
use crate::times::TIMES;

/// The columns, in their order.
const COLUMNS: [&str; 3] = ["Run", "Mode", "Time_s"];
/// The column that says which feature a mode is of, in a table that joins those of all.
const FEATURE: &str = "feature";
/// Decimals of its seconds.
const DECIMALS: usize = 3;
/// The most runs of a mode, and the shortest and the longest, in s.
const MOST_RUNS: u64 = 10_000;
const LEAST_S: f64 = 1e-9;
const MOST_S: f64 = 1e6;

/// What a program does, so that a speed becomes its time.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Amount {
    /// So many bytes.
    Bytes(f64),
    /// So many steps of each thread.
    Steps(f64),
}

/// A mode of its programs.
#[derive(Debug)]
struct Mode {
    name: &'static str,
    feature: &'static str,
    /// The axis in which it differs from the other mode of its feature.
    axis: Axis,
    amount: Amount,
    /// Which cells it is.
    axes: &'static [(Axis, &'static [&'static str])],
}

/// A layout of runs and modes.
#[derive(Debug)]
pub struct Runs {
    /// Its name, which is also that of the study that sets it up again.
    pub name: &'static str,
    /// What is worth knowing of how its columns are computed, a sentence each.
    pub notes: &'static [&'static str],
    modes: &'static [Mode],
}

type Conditions = &'static [(Axis, &'static [&'static str])];

const GIB: Amount = Amount::Bytes((1u64 << 30) as f64);
const STEPS: Amount = Amount::Steps(1e9);

const fn mode(
    (feature, axis): (&'static str, Axis),
    name: &'static str,
    amount: Amount,
    axes: Conditions,
) -> Mode {
    Mode {
        name,
        feature,
        axis,
        amount,
        axes,
    }
}

const ASYNC: (&str, Axis) = ("async_io", Axis::Mover);
const PINNED: (&str, Axis) = ("scheduler_affinity", Axis::Placement);
const SMT: (&str, Axis) = ("smt_interference", Axis::Placement);
const ZERO_COPY: (&str, Axis) = ("zero_copy_io", Axis::Mover);

/// The conditions on work of so many threads at a placement.
macro_rules! work {
    ($threads:literal, $($placement:literal),+) => {
        &[
            (Axis::Mover, &["work-integer"]),
            (Axis::Threads, &[$threads]),
            (Axis::Neighbour, &["idle"]),
            (Axis::Placement, &[$($placement),+]),
        ]
    };
}

/// Every layout of this kind, in the order of the documentation.
pub const RUNS: &[Runs] = &[Runs {
    name: "os-features",
    notes: &[
        "A row is a trial that counts, the runs of a mode numbered from 1; Time_s is what the work of a program takes at the speed of that trial.",
        "The work is 1 GiB of a file for sync_io, async_aio, regular_read and sendfile, and 10^9 steps of work-integer of each thread for the other modes: what theirs computes is not told.",
        "Where several cells are such a mode, it is the first of the plan that has a counterpart of the other mode; separate_core is two CPUs that are not siblings.",
    ],
    modes: &[
        mode(
            ASYNC,
            "sync_io",
            GIB,
            &[(Axis::Mover, &["pread"]), (Axis::Access, &["sequential"])],
        ),
        mode(
            ASYNC,
            "async_aio",
            GIB,
            &[
                (Axis::Mover, &["posix-aio"]),
                (Axis::Access, &["sequential"]),
            ],
        ),
        mode(PINNED, "no_affinity", STEPS, work!("1", "free")),
        mode(PINNED, "pinned_affinity", STEPS, work!("1", "same-cpu")),
        mode(SMT, "shared_core", STEPS, work!("2", "smt-sibling")),
        mode(
            SMT,
            "separate_core",
            STEPS,
            work!("2", "same-cache", "cross-cache", "cross-node"),
        ),
        mode(
            ZERO_COPY,
            "regular_read",
            GIB,
            &[(Axis::Mover, &["read-null"])],
        ),
        mode(
            ZERO_COPY,
            "sendfile",
            GIB,
            &[(Axis::Mover, &["sendfile-null"])],
        ),
    ],
}];

impl Mode {
    fn is_of(&self, cell: &Cell) -> bool {
        self.axes
            .iter()
            .all(|(axis, values)| values.iter().any(|v| has(cell, *axis, v)))
    }

    /// What the work of a program takes at the speed of a trial, in s.
    fn seconds(&self, sample: &Sample) -> Option<f64> {
        let side = sample.receiver.as_ref().unwrap_or(&sample.sender);
        let done = |f: &bytecost_spec::sample::FlowReading| match self.amount {
            Amount::Bytes(_) => f.bytes,
            Amount::Steps(_) => f.messages,
        };
        let rates: Vec<f64> = (side.flows.iter())
            .filter(|f| f.elapsed_ns > 0 && done(f) > 0)
            .map(|f| 1e9 * done(f) as f64 / f.elapsed_ns as f64)
            .collect();
        if rates.is_empty() || rates.len() < side.flows.len() {
            return None;
        }
        let rate = rates.iter().sum::<f64>();
        Some(match self.amount {
            Amount::Bytes(bytes) => bytes / rate,
            // Each thread does all of it, and the threads at the same time.
            Amount::Steps(steps) => steps * rates.len() as f64 / rate,
        })
    }
}

impl Runs {
    /// Renders the trials of a run, mode by mode. A mode without a trial has no row.
    ///
    /// # Errors
    /// That the run has no cell that is one of the modes.
    pub fn csv(&self, cells: &[Cell], samples: &[Sample]) -> Result<String, String> {
        let counted = counted(samples);
        let is_measured = |c: &&Cell| counted.contains_key(&c.id());
        let mut rows = Vec::new();
        for (place, mode) in self.modes.iter().enumerate() {
            let own: Vec<&Cell> = (cells.iter())
                .filter(|c| mode.is_of(c))
                .filter(is_measured)
                .collect();
            let other = (self.modes.iter().enumerate())
                .find(|(at, m)| *at != place && m.feature == mode.feature)
                .map(|(_, m)| m);
            let has_counterpart = |cell: &&&Cell| {
                let alike = |c: &Cell| {
                    c.id_without(&[mode.axis]) == cell.id_without(&[mode.axis])
                        && other.is_some_and(|o| o.is_of(c))
                };
                cells.iter().filter(is_measured).any(alike)
            };
            let chosen = own.iter().find(has_counterpart).or(own.first());
            let trials = chosen.and_then(|cell| counted.get(&cell.id()));
            let seconds = trials.into_iter().flatten().filter_map(|s| mode.seconds(s));
            for (at, seconds) in seconds.enumerate() {
                rows.push(row(at as f64 + 1.0, mode.name, seconds));
            }
        }
        if rows.is_empty() {
            let names: Vec<&str> = self.modes.iter().map(|m| m.name).collect();
            return Err(format!(
                "the run measured no cell that layout {} has a row for: its modes are {}, which `bytecost run {0}` measures",
                self.name,
                names.join(", ")
            ));
        }
        Ok(format!("{}\n{}", COLUMNS.join(","), rows.concat()))
    }

    /// Renders a table as it was read.
    #[must_use]
    pub fn csv_of_imported(&self, imported: &Imported) -> String {
        let rows = imported.rows.iter().filter_map(|numbers| {
            let [run, mode, seconds] = COLUMNS.map(|name| numbers.get(name).copied());
            let mode = self.modes.get((mode? as usize).checked_sub(1)?)?;
            Some(row(run?, mode.name, seconds?))
        });
        format!("{}\n{}", COLUMNS.join(","), rows.collect::<String>())
    }

    /// Reads a table of runs, or one that joins those of all features by one more column.
    ///
    /// # Errors
    /// The first line that is wrong: other columns, an unknown mode, a mode of another feature, a
    /// run or a time out of bounds, a run twice.
    pub fn import(&self, text: &str) -> Result<Imported, TableError> {
        let table = Table::parse(self.name, text)?;
        let place = |wanted: &str| {
            let mut names = table.columns.iter();
            names.position(|name| name.eq_ignore_ascii_case(wanted))
        };
        let feature = place(FEATURE);
        let known = COLUMNS.len() + usize::from(feature.is_some());
        let [Some(run), Some(mode), Some(seconds)] = COLUMNS.map(place) else {
            return self.other_columns();
        };
        if table.columns.len() != known {
            return self.other_columns();
        }
        let mut rows = Vec::with_capacity(table.rows.len());
        let mut joined = Table {
            name: self.name.to_owned(),
            columns: [FEATURE, "mode", "run", "time_s"]
                .map(str::to_owned)
                .to_vec(),
            rows: Vec::with_capacity(table.rows.len()),
        };
        let mut seen: BTreeMap<(u64, usize), u64> = BTreeMap::new();
        for (line, values) in &table.rows {
            let read = || -> Result<(u64, usize, f64), String> {
                let of_mode = self.mode(&values[mode], feature.map(|at| values[at].as_str()))?;
                Ok((run_number(&values[run])?, of_mode, time(&values[seconds])?))
            };
            let (run, at, seconds) = read().or_else(|message| fail(*line, message))?;
            if let Some(first) = seen.insert((run, at), *line) {
                return fail(
                    *line,
                    format!("the same run of the same mode as in line {first}"),
                );
            }
            let mode = &self.modes[at];
            let numbers = [run as f64, at as f64 + 1.0, seconds];
            let names = COLUMNS.map(str::to_owned);
            rows.push(names.into_iter().zip(numbers).collect());
            let texts = [
                mode.feature,
                mode.name,
                &run.to_string(),
                &seconds.to_string(),
            ];
            joined.rows.push((*line, texts.map(str::to_owned).to_vec()));
        }
        if rows.is_empty() {
            return fail(1, "there is no row below the header".to_owned());
        }
        let times = TIMES.iter().find(|t| t.source == self.name);
        let published = times.map(|t| t.published(&[joined])).transpose();
        Ok(Imported {
            layout: self.name.to_owned(),
            published: published.or_else(|why| fail(1, why))?.unwrap_or_default(),
            rows,
        })
    }

    fn other_columns<T>(&self) -> Result<T, TableError> {
        let message = format!(
            "the columns of layout {} are {}, and {FEATURE} where several features are in one table",
            self.name,
            COLUMNS.join(",")
        );
        fail(1, message)
    }

    fn mode(&self, name: &str, feature: Option<&str>) -> Result<usize, String> {
        let Some(at) = self.modes.iter().position(|m| m.name == name) else {
            let names: Vec<&str> = self.modes.iter().map(|m| m.name).collect();
            return Err(format!("Mode: `{name}` is not known: {}", names.join(", ")));
        };
        match feature {
            Some(other) if other != self.modes[at].feature => Err(format!(
                "Mode: `{name}` is of {}, not of `{other}`",
                self.modes[at].feature
            )),
            _ => Ok(at),
        }
    }

    /// The study that a table would be a run of: a part for each of its cells.
    #[must_use]
    pub fn study(&self, published: &Published) -> Study {
        let throughput = Metric::both(Measure::ThroughputGbitPerS);
        let tiers = published.cells.iter().map(|c| Tier {
            title: "a mode".to_owned(),
            axes: (published.tells.iter())
                .map(|axis| (*axis, vec![c.cell.value(*axis)]))
                .collect(),
        });
        Study {
            prediction: "these are its numbers, without intervals: the mean of its runs, each the time of a whole program".to_owned(),
            tiers: tiers.collect(),
            compare: vec![Compare::of(Axis::Mover, "pread", vec![throughput])],
            figures: vec![Figure {
                title: "Throughput".to_owned(),
                x: Axis::Size,
                y: throughput,
                series: Axis::Mover,
                relative: false,
                or: None,
            }],
            ..study_of(self.name)
        }
    }
}

fn row(run: f64, mode: &str, seconds: f64) -> String {
    format!("{run:.0},{mode},{}\n", written(seconds, DECIMALS))
}

fn run_number(text: &str) -> Result<u64, String> {
    let run = text.parse().ok().filter(|n| (1..=MOST_RUNS).contains(n));
    run.ok_or_else(|| {
        format!("Run: `{text}` is out of bounds: a whole number from 1 to {MOST_RUNS}")
    })
}

fn time(text: &str) -> Result<f64, String> {
    let seconds = number(text).map_err(|why| format!("Time_s: {why}"))?;
    if (LEAST_S..=MOST_S).contains(&seconds) {
        Ok(seconds)
    } else {
        Err(format!(
            "Time_s: `{text}` is out of bounds: seconds from {LEAST_S} to {MOST_S}"
        ))
    }
}
