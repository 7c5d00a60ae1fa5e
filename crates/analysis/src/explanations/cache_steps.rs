//! Working sets at which the cost of an access rises.

use bytecost_spec::survey::WorkKind;
use bytecost_spec::{HugePages, Measure, Metric};
use itertools::Itertools as _;

use super::pairs::{Answer, MeasuredWay};
use crate::result::{AccessCost, Fact, Uncertain};
use crate::stages::Explained;

const METRIC: Metric = Metric::both(Measure::CpuNsPerMessage);
/// A rise of so much between two sizes, with intervals apart, is a step.
const RISE: f64 = 1.25;
/// The fewest sizes over which steps are looked for.
const FEWEST_SIZES: usize = 3;

/// Work in which each access waits for the one before it, alone on its CPU.
fn waits_for_each(way: MeasuredWay<'_>) -> bool {
    way.works(WorkKind::Chain) && way.is_alone()
}

/// The sizes of pages for which such work is planned over enough working sets.
pub(super) fn kinds(run: &Explained<'_>) -> Vec<HugePages> {
    let planned = run
        .measured
        .trials
        .moving()
        .filter(|c| waits_for_each(run.way(c)));
    let sizes = planned.map(|c| (c.cell.huge_pages, c.cell.size_bytes));
    let number = sizes.unique().map(|(pages, _)| pages).counts();
    [HugePages::Auto, HugePages::Off, HugePages::On]
        .into_iter()
        .filter(|pages| number.get(pages).is_some_and(|n| *n >= FEWEST_SIZES))
        .collect()
}

pub(super) fn ask(run: &Explained<'_>) -> Option<Answer> {
    let facts = kinds(run)
        .into_iter()
        .filter_map(|pages| {
            let costs = costs(run, pages);
            let steps = steps(&costs);
            (costs.len() >= FEWEST_SIZES).then_some(Fact::Steps {
                pages,
                costs,
                steps,
            })
        })
        .collect_vec();
    Some(Answer::from_facts(facts))
}

/// The cost of an access for each size, of the first measured placement, by rising size.
fn costs(run: &Explained<'_>, pages: HugePages) -> Vec<AccessCost> {
    run.measured
        .trials
        .measured()
        .filter(|c| waits_for_each(run.way(c)) && c.cell.threads == 1 && c.cell.huge_pages == pages)
        .filter_map(|c| {
            let e = run.measured.result(&c.id)?.estimates.get(&METRIC)?;
            Some(AccessCost {
                bytes: c.cell.size_bytes,
                ns: Uncertain {
                    value: e.value,
                    low: e.low?,
                    high: e.high?,
                },
            })
        })
        .unique_by(|c| c.bytes)
        .sorted_by_key(|c| c.bytes)
        .collect()
}

/// The first and the last cost of each step: rises that follow each other are one.
fn steps(costs: &[AccessCost]) -> Vec<[usize; 2]> {
    let mut steps: Vec<[usize; 2]> = Vec::new();
    for (from, (before, after)) in costs.iter().map(|c| c.ns).tuple_windows().enumerate() {
        if after.value < RISE * before.value || after.low <= before.high {
            continue;
        }
        match steps.last_mut() {
            Some(last) if last[1] == from => last[1] = from + 1,
            _ => steps.push([from, from + 1]),
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rises_that_follow_each_other_are_one_and_what_intervals_allow_to_be_level_is_none() {
        let points = [
            (4, 1.2),
            (16, 1.2),
            (64, 4.0),
            (256, 4.2),
            (1024, 9.0),
            (4096, 14.0),
        ];
        let cost = |(kib, ns): (u64, f64)| AccessCost {
            bytes: kib << 10,
            ns: Uncertain {
                value: ns,
                low: ns * 0.95,
                high: ns * 1.05,
            },
        };
        let mut costs = points.map(cost);
        assert_eq!(steps(&costs), [[1, 2], [3, 5]]);
        costs[2].ns.low = 1.2;
        assert_eq!(steps(&costs), [[3, 5]]);
    }
}
