//! A metric of all flows together over their number, with enough CPUs and without told apart.

use std::collections::BTreeMap;

use bytecost_spec::claim::{Between, Expected, Place, Quantity};
use bytecost_spec::{Axis, Cell, Metric};

use super::claim_test::{ClaimTest, Family, Item};
use super::context::{ClaimContext, runnable};
use super::ratio;
use crate::pairing::Pairing;
use crate::phrases;
use crate::trials::CellTrials;

/// What is claimed of it.
pub(super) struct ScalingClaim {
    pub(super) metric: Metric,
    pub(super) between: Between,
    pub(super) expect: Expected,
}

pub(super) fn draft(
    context: &ClaimContext<'_>,
    place: &Place,
    claimed: &ScalingClaim,
    cells: Quantity,
    family: &mut Family,
) -> ClaimTest {
    let mut groups: BTreeMap<String, Vec<&CellTrials<'_>>> = BTreeMap::new();
    for cell in context.cells(place) {
        let group = cell.cell.id_without(&[Axis::Threads]);
        groups.entry(group).or_default().push(cell);
    }
    groups.retain(|_, cells| cells.len() > 1);
    if groups.is_empty() {
        let why = context.no_cells(place, None);
        return ClaimTest::missing(format!("{why} over several numbers of threads"));
    }
    let cpus = context.cpus();
    let pairs = groups.values_mut().filter_map(|group| {
        group.sort_by_key(|c| c.cell.threads);
        let (baseline, other) = chosen(group, claimed.between, cpus)?;
        Some(Pairing {
            axis: Axis::Threads,
            baseline,
            other,
        })
    });
    let pairs: Vec<Pairing<'_, '_>> = pairs.collect();
    let cells_of: Vec<&Cell> = pairs.iter().map(|p| p.other.cell).collect();
    let places = context.places(&cells_of, &[Axis::Threads]);
    let items: Vec<Item> = pairs
        .iter()
        .zip(places)
        .map(|(pair, place)| {
            let threads = format!(
                "with {} against {}",
                phrases::count(pair.other.cell.threads as usize, "thread"),
                pair.baseline.cell.threads
            );
            let place: Vec<String> = [place, threads]
                .into_iter()
                .filter(|p| !p.is_empty())
                .collect();
            Item {
                place: place.join(", "),
                ..ratio::compared(context, pair, claimed.metric, claimed.expect, family)
            }
        })
        .collect();
    if items.is_empty() {
        return ClaimTest::missing(nothing(claimed.between, cpus));
    }
    let which = match claimed.between {
        Between::Numbers(low, high) => {
            format!("from {low} to {}", phrases::count(high as usize, "thread"))
        }
        Between::WithinCpus => "while every thread has a CPU".to_owned(),
        Between::BeyondCpus => "once there are more threads than CPUs".to_owned(),
    };
    ClaimTest {
        subject: format!(
            "the ratio of {} of all flows {which}",
            phrases::metric(claimed.metric)
        ),
        expected: claimed.expect.to_string(),
        noun: "place",
        cells,
        items,
        note: None,
        missing: None,
    }
}

/// The cells of the lesser and the greater number of flows, of a group in the order of threads.
fn chosen<'c>(
    group: &[&'c CellTrials<'c>],
    between: Between,
    cpus: usize,
) -> Option<(&'c CellTrials<'c>, &'c CellTrials<'c>)> {
    let of = |threads: u32| group.iter().copied().find(|c| c.cell.threads == threads);
    let fits = |c: &&&CellTrials<'_>| runnable(c.cell) <= cpus;
    let fitting = group.iter().rfind(fits).copied();
    let (low, high) = match between {
        Between::Numbers(low, high) => (of(low)?, of(high)?),
        Between::WithinCpus => (*group.first()?, fitting?),
        Between::BeyondCpus => (fitting?, *group.last()?),
    };
    (low.cell.threads < high.cell.threads).then_some((low, high))
}

fn nothing(between: Between, cpus: usize) -> String {
    let cpus = phrases::count(cpus, "CPU");
    match between {
        Between::Numbers(low, high) => {
            format!("the run has no cells with {low} and with {high} threads")
        }
        Between::WithinCpus => format!(
            "with {cpus} no two numbers of threads leave every thread a CPU, so that what threads do to caches cannot be told apart from waiting for a CPU; a machine with more CPUs would tell"
        ),
        Between::BeyondCpus => format!(
            "with {cpus} the run has no two numbers of threads of which only the greater is more than there are CPUs for"
        ),
    }
}
