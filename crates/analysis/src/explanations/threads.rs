//! How threads interact with caches, told apart from there being more threads than CPUs.

use bytecost_spec::{Axis, Measure, Metric};

use super::caches::LEVELS;
use super::{Explained, Why, estimate, why_absent};
use crate::crossovers::Ratio;
use crate::grid;
use crate::pairing::Pairing;
use crate::phrases;
use crate::trials::CellTrials;

/// Threads of one flow: one sends, one takes in.
const THREADS_OF_A_FLOW: usize = 2;

/// One way at several numbers of flows, all else alike, by rising number.
struct Flows<'v> {
    cells: Vec<&'v CellTrials<'v>>,
    cpus: usize,
}

pub(super) fn ask(why: &Why<'_>) -> Option<Explained> {
    let told = |answer, numbers| Explained {
        answer,
        numbers,
        evidence: Vec::new(),
        would_change: "a machine with more CPUs, threads that are kept on CPUs of their own (--placement), or payload that does not fit into the caches (--ring)",
        findings: Vec::new(),
    };
    let Some(flows) = Flows::most(why) else {
        let one = why.view.measured().next().map(|c| c.cell.threads);
        let missing = one.map_or("no cell was measured".to_owned(), |n| {
            format!(
                "needs cells with several numbers of flows; the run has {n} alone (--threads 1,2,4)"
            )
        });
        return Some(told(Err(missing), Vec::new()));
    };
    let numbers = flows.numbers(why);
    let mut told = told(flows.answer(why), numbers);
    told.evidence.push(format!(
        "{}, {THREADS_OF_A_FLOW} threads a flow: up to {} each thread has a CPU",
        phrases::count(flows.cpus, "CPU"),
        phrases::count(flows.cpus / THREADS_OF_A_FLOW, "flow"),
    ));
    Some(told)
}

impl<'v> Flows<'v> {
    /// The way that was measured at most numbers of flows, the largest messages of these first.
    fn most(why: &Why<'v>) -> Option<Flows<'v>> {
        let mut groups: Vec<(String, Vec<&CellTrials<'_>>)> = Vec::new();
        for cell in why.view.measured() {
            let name = cell.cell.id_without(&[Axis::Threads]);
            match groups.iter_mut().find(|(n, _)| *n == name) {
                Some((_, cells)) => cells.push(cell),
                None => groups.push((name, vec![cell])),
            }
        }
        let cpus = why.view.cpus();
        let stalls = |c: &&CellTrials<'_>| why.view.stalls.waits(&c.id).is_some();
        groups.retain(|(_, cells)| cells.len() > 1 && !cells.iter().any(stalls));
        // The first of equals: the order of the plan.
        groups.sort_by_key(|(_, cells)| std::cmp::Reverse((cells.len(), cells[0].cell.size_bytes)));
        let (_, mut cells) = groups.into_iter().next()?;
        cells.sort_by_key(|c| c.cell.threads);
        Some(Flows { cells, cpus })
    }

    fn fits(&self, cell: &CellTrials<'_>) -> bool {
        THREADS_OF_A_FLOW * cell.cell.threads as usize <= self.cpus
    }

    /// A row for each number of flows.
    fn numbers(&self, why: &Why<'_>) -> Vec<String> {
        const TOLD: [Measure; 4] = [
            Measure::ThroughputGbitPerS,
            Measure::ContextSwitchesPerMessage,
            Measure::L1dLoadMissesPerKib,
            Measure::LlcLoadMissesPerKib,
        ];
        let rows = self.cells.iter().filter_map(|cell| {
            let result = why.view.cells.iter().find(|r| r.id == cell.id)?;
            let flows = cell.cell.threads;
            let mut parts: Vec<String> = Vec::new();
            for measure in TOLD {
                let metric = Metric::both(measure);
                let Some(e) = result.estimates.get(&metric) else {
                    continue;
                };
                parts.push(format!(
                    "{} {}",
                    phrases::metric(metric),
                    estimate(e, metric)
                ));
                if measure == Measure::ThroughputGbitPerS && flows > 1 {
                    let each = e.value / f64::from(flows);
                    parts.push(format!(
                        "{} Gbit/s a flow",
                        bytecost_spec::units::number(each)
                    ));
                }
            }
            let fits = if self.fits(cell) {
                ""
            } else {
                ", more threads than CPUs"
            };
            let held: Vec<Axis> = why
                .varied
                .iter()
                .copied()
                .filter(|a| *a != Axis::Threads)
                .collect();
            let place = phrases::circumstances(&grid::coordinates(cell.cell, &held));
            let flows = phrases::count(flows as usize, "flow");
            Some(format!("{flows}{fits} ({place}): {}", parts.join("; ")))
        });
        rows.collect()
    }

    fn ratio(
        &self,
        from: &'v CellTrials<'v>,
        to: &'v CellTrials<'v>,
        measure: Measure,
    ) -> Option<Ratio> {
        let pairing = Pairing {
            axis: Axis::Threads,
            baseline: from,
            other: to,
        };
        Ratio::of(&pairing.log_ratios(Metric::both(measure)))
    }

    /// How the misses of each counted level change between two numbers of flows.
    fn misses(&self, from: &'v CellTrials<'v>, to: &'v CellTrials<'v>) -> Option<String> {
        let levels = LEVELS.iter().filter_map(|(name, measure, _)| {
            let r = self.ratio(from, to, *measure)?;
            Some(format!(
                "{} in the {name}",
                phrases::ratio(r.value, r.low, r.high)
            ))
        });
        let levels: Vec<String> = levels.collect();
        (!levels.is_empty()).then(|| phrases::list(&levels))
    }

    fn answer(&self, why: &Why<'_>) -> Result<String, String> {
        let (Some(first), Some(last)) = (self.cells.first(), self.cells.last()) else {
            return Err("needs cells with several numbers of flows".to_owned());
        };
        if self.misses(first, last).is_none() {
            let (_, measure, counter) = LEVELS[1];
            let reason = why_absent(why.view, Metric::both(measure), counter.name());
            let crowded = self.cells.iter().filter(|c| !self.fits(c)).count();
            let apart = if crowded + 1 >= self.cells.len() {
                format!(
                    "; and {} leave no two numbers of flows at which each thread has a CPU, so that waiting for a CPU and finding the caches cold cannot be told apart",
                    phrases::count(self.cpus, "CPU")
                )
            } else {
                String::new()
            };
            return Err(format!(
                "cache misses cannot be counted here: {reason}{apart}"
            ));
        }
        let flows = |c: &CellTrials<'_>| phrases::count(c.cell.threads as usize, "flow");
        let fitting = self.cells.iter().rev().find(|c| self.fits(c));
        let alone = fitting
            .filter(|c| c.cell.threads > first.cell.threads)
            .and_then(|c| Some((flows(c), self.misses(first, c)?)));
        let crowded = (!self.fits(last))
            .then(|| Some((flows(last), self.misses(fitting.unwrap_or(first), last)?)))
            .flatten();
        let start = flows(first);
        Ok(match (alone, crowded) {
            (Some((to, misses)), None) => format!(
                "with a CPU for each thread, from {start} to {to} the load misses per KiB become {misses}."
            ),
            (None, Some((to, misses))) => format!(
                "from {start} to {to} the load misses per KiB become {misses}, but there are more threads than CPUs, so that what taking turns on a CPU does to its caches is in it."
            ),
            (Some((to, misses)), Some((end, more))) => format!(
                "with a CPU for each thread, from {start} to {to} the load misses per KiB become {misses}; from there to {end}, where threads take turns on the CPUs, {more}."
            ),
            (None, None) => {
                return Err("no two numbers of flows have cache misses in three blocks".to_owned());
            }
        })
    }
}
