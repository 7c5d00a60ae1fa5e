//! The layout of a publication that timed programs: a row for each run, with its mode and its time in s.

use bytecost_spec::claim::has;
use bytecost_spec::sample::FlowReading;
use bytecost_spec::{Axis, Cell, Sample};
use itertools::Itertools as _;

use super::export::{counted, formatted};
use super::{LAYOUTS, TableLayout};

const COLUMNS: [&str; 3] = ["Run", "Mode", "Time_s"];
const DECIMALS: usize = 3;

/// The work of a published program: bytes of a file, or steps of each thread. A trial's rate gives the time
/// for it.
const BYTES: f64 = (1u64 << 30) as f64;
const STEPS: f64 = 1e9;
/// The mover of the modes without a file.
const WORK: &str = "work-integer";

/// A mode of a published program, and the cells that measure it again.
#[derive(Debug)]
struct Mode {
    name: &'static str,
    feature: &'static str,
    /// The axis in which it differs from the other mode of its feature.
    axis: Axis,
    /// Its cells have this mover, all of the axes, and one of the placements if there are any.
    mover: &'static str,
    axes: Conditions,
    placements: &'static [&'static str],
}

type Conditions = &'static [(Axis, &'static str)];

/// A layout of runs and modes. published/README.md defines the time of a trial.
#[derive(Debug)]
pub struct Runs {
    /// Name of the layout, and of the study that measures it again.
    pub name: &'static str,
    modes: &'static [Mode],
}

const SEQUENTIAL: Conditions = &[(Axis::Access, "sequential")];
const ONE_THREAD: Conditions = &[(Axis::Threads, "1"), (Axis::Background, "idle")];
const TWO_THREADS: Conditions = &[(Axis::Threads, "2"), (Axis::Background, "idle")];
const APART: &[&str] = &["same-cache", "cross-cache", "cross-node"];

const ASYNC: (&str, Axis) = ("async_io", Axis::Mover);
const PINNED: (&str, Axis) = ("scheduler_affinity", Axis::Placement);
const SMT: (&str, Axis) = ("smt_interference", Axis::Placement);
const ZERO_COPY: (&str, Axis) = ("zero_copy_io", Axis::Mover);

const fn mode(
    (feature, axis): (&'static str, Axis),
    name: &'static str,
    mover: &'static str,
    axes: Conditions,
    placements: &'static [&'static str],
) -> Mode {
    Mode {
        name,
        feature,
        axis,
        mover,
        axes,
        placements,
    }
}

/// The layouts with a row for each run, in the order of the documentation.
pub const RUNS: &[Runs] = &[Runs {
    name: "os-features",
    modes: &[
        mode(ASYNC, "sync_io", "pread", SEQUENTIAL, &[]),
        mode(ASYNC, "async_aio", "posix-aio", SEQUENTIAL, &[]),
        mode(PINNED, "no_affinity", WORK, ONE_THREAD, &["free"]),
        mode(PINNED, "pinned_affinity", WORK, ONE_THREAD, &["same-cpu"]),
        mode(SMT, "shared_core", WORK, TWO_THREADS, &["smt-sibling"]),
        mode(SMT, "separate_core", WORK, TWO_THREADS, APART),
        mode(ZERO_COPY, "regular_read", "read-null", &[], &[]),
        mode(ZERO_COPY, "sendfile", "sendfile-null", &[], &[]),
    ],
}];

/// Every layout, in the order of the documentation.
pub fn layouts() -> impl Iterator<Item = &'static dyn TableLayout> {
    let cells = LAYOUTS.iter().map(|layout| layout as &dyn TableLayout);
    cells.chain(RUNS.iter().map(|runs| runs as &dyn TableLayout))
}

impl Mode {
    fn has_cell(&self, cell: &Cell) -> bool {
        let is_at = |axis: Axis, value: &str| has(cell, axis, &value.into());
        let mut placements = self.placements.iter();
        is_at(Axis::Mover, self.mover)
            && self.axes.iter().all(|(axis, value)| is_at(*axis, value))
            && (self.placements.is_empty() || placements.any(|v| is_at(Axis::Placement, v)))
    }

    /// The time for the program's work at the rate of a trial, in s.
    fn seconds(&self, sample: &Sample) -> Option<f64> {
        let flows = &sample.receiver.as_ref().unwrap_or(&sample.sender).flows;
        let done = |f: &FlowReading| match self.mover {
            WORK => f.messages,
            _ => f.bytes,
        };
        if flows.is_empty() || flows.iter().any(|f| f.elapsed_ns == 0 || done(f) == 0) {
            return None;
        }
        let rate = |f: &FlowReading| 1e9 * done(f) as f64 / f.elapsed_ns as f64;
        let rate: f64 = flows.iter().map(rate).sum();
        Some(match self.mover {
            // Each thread does all of the work, concurrently.
            WORK => STEPS * flows.len() as f64 / rate,
            _ => BYTES / rate,
        })
    }
}

impl TableLayout for Runs {
    fn name(&self) -> &'static str {
        self.name
    }

    /// The trials of a run, mode by mode. A mode without a trial has no row.
    fn csv(&self, cells: &[Cell], samples: &[Sample], _: bool) -> Result<String, String> {
        let counted = counted(samples);
        let is_measured = |cell: &&Cell| counted.contains_key(&cell.id());
        let measured: Vec<&Cell> = cells.iter().filter(is_measured).collect();
        let mut rows = String::new();
        for mode in self.modes {
            let is_other = |m: &&Mode| m.feature == mode.feature && m.name != mode.name;
            let other = self.modes.iter().find(is_other);
            let cells_of_mode = || measured.iter().filter(|c| mode.has_cell(c));
            let has_counterpart = |cell: &&&Cell| {
                measured.iter().any(|c| {
                    c.id_without(&[mode.axis]) == cell.id_without(&[mode.axis])
                        && other.is_some_and(|o| o.has_cell(c))
                })
            };
            let chosen = (cells_of_mode().find(has_counterpart)).or(cells_of_mode().next());
            let trials = chosen.map_or(&[][..], |cell| &counted[&cell.id()]);
            let times = trials.iter().filter_map(|s| mode.seconds(s));
            for (number, seconds) in (1..).zip(times) {
                let seconds = formatted(seconds, DECIMALS);
                rows += &format!("{number},{},{seconds}\n", mode.name);
            }
        }
        if rows.is_empty() {
            let modes = self.modes.iter().map(|m| m.name).join(", ");
            return Err(format!(
                "the run measured no cell that layout {} has a row for: its modes are {modes}, which `bytecost run {0}` measures",
                self.name
            ));
        }
        Ok(format!("{}\n{rows}", COLUMNS.join(",")))
    }
}
