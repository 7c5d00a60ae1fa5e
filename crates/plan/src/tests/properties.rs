//! Properties of all plans.

use std::collections::HashSet;
use std::sync::LazyLock;

use bytecost_spec::axis::{AXES, AxisRow, CellFacts};
use bytecost_spec::{Axis, Cell, Study};
use proptest::prelude::*;
use proptest::sample::subsequence;
use proptest::test_runner::RngSeed;

use super::{blocks_ms, host, of_all_kinds, plan, study, survey};
use crate::SurveyedHost;
use crate::candidates::{PlanContext, baselines, candidates, has_peer};

pub(super) fn seeded(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(20_261_121),
        ..ProptestConfig::default()
    }
}

fn some(values: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
    subsequence(values, 1..=values.len()).prop_map(|v| v.into_iter().map(str::to_owned).collect())
}

prop_compose! {
    /// A study with the values of its grid, of its middle tier and its budget at random.
    pub(crate) fn studies()(
        movers in some(&["send", "null", "sendfile", "uring-send-zc"]),
        tier_movers in some(&["sendfile", "uring-send-zc", "null", "send"]),
        sizes in some(&["256", "1KiB", "4KiB", "16KiB", "64KiB", "1MiB", "16MiB"]),
        threads in some(&["1", "2", "4", "256"]),
        transports in some(&["loopback", "unix"]),
        budget_ms in 1_u64..400_000,
        both in any::<bool>(),
    ) -> Study {
        let list = |name: &str, values: &[String]| format!("{name} = {values:?}");
        let mut study = study(&[
            ("mover = [\"send\", \"sendfile\", \"uring-send-zc\"]\nsize = [\"64KiB\"]",
             &format!("{}\nsize = [\"64KiB\"]", list("mover", &tier_movers))),
            ("threads = [1, 2, 4]", &list("threads", &threads)),
            ("transport = [\"loopback\", \"unix\"]", &list("transport", &transports)),
            ("size = [\"256\", \"4KiB\", \"64KiB\", \"1MiB\"]", &list("size", &sizes)),
        ]);
        study.budget_ms = budget_ms;
        if both {
            study.compare.push(bytecost_spec::study::Compare::new(Axis::Threads, threads[0].as_str(), study.compare[0].metrics.clone()));
        }
        let grid = study.tiers.last_mut().unwrap();
        for (_, values) in grid.axes.iter_mut().filter(|(axis, _)| *axis == Axis::Mover) {
            *values = movers.iter().map(|mover| mover.as_str().into()).collect();
        }
        study
    }
}

fn one_of(axis: Axis, pick: usize) -> &'static str {
    static VALUES: LazyLock<Vec<Vec<String>>> = LazyLock::new(|| {
        let movers = || of_all_kinds().mover_facts.into_iter().map(|m| m.name);
        let values = |row: &AxisRow| match row.axis {
            Axis::Mover => movers().collect(),
            Axis::Server => ["none", "none", "epoll"].map(str::to_owned).to_vec(),
            Axis::Service => ["top", "echo"].map(str::to_owned).to_vec(),
            axis => WORDS
                .split(' ')
                .filter_map(|word| axis.read(word).ok())
                .map(|value| value.to_string())
                .collect(),
        };
        AXES.iter().map(values).collect()
    });
    let values = &VALUES[axis as usize];
    &values[pick % values.len()]
}

/// Words that are values of axes; most axes have several of them.
const WORDS: &str = "loopback unix veth wire stream request-response recv cubic auto on off 0 1 2 600 \
    1500 64KiB 100KiB message field same-cpu full never prepared refilled tun warm memory random \
    sequential other fifo closed kept new idle spin none max=5% fixed poisson";

proptest! {
    #![proptest_config(seeded(200))]

    #[test]
    fn every_cell_is_measured_refused_or_left_out(study in studies()) {
        let plan = plan(&study);
        let (host, survey) = (host(), survey());
        let here = SurveyedHost { host: &host, survey: &survey };
        let context = PlanContext::new(&study, here, None);
        let all: Vec<Cell> = candidates(&study, &context).into_iter().map(|c| c.cell).collect();
        let ids: HashSet<String> = all.iter().map(Cell::id).collect();
        prop_assert_eq!(ids.len(), all.len());
        let chosen: HashSet<&Cell> = plan.cells.iter().collect();
        prop_assert_eq!(chosen.len(), plan.cells.len());
        let of_the_study = plan.cells.iter().filter(|c| ids.contains(&c.id())).count();
        prop_assert!(plan.cells.len() - of_the_study <= 1, "only the floor is added");
        let left: usize = plan.left_out.iter().map(|l| l.cells).sum();
        prop_assert_eq!(of_the_study + plan.refused.len() + left, all.len());
        for refused in &plan.refused {
            prop_assert!(ids.contains(&refused.cell.id()) && !refused.why.is_empty());
        }
        prop_assert_eq!(&plan, &super::plan(&study), "same in, same out");
    }

    #[test]
    fn the_floor_is_first_and_once(study in studies()) {
        let plan = plan(&study);
        let survey = survey();
        if plan.cells.iter().any(|c| has_peer(&survey, c)) {
            prop_assert_eq!(plan.cells[0].mover.as_str(), "null");
        }
    }

    #[test]
    fn the_fewest_blocks_fit_the_budget(study in studies()) {
        let plan = plan(&study);
        let cut = plan.notes.iter().any(|n| n.contains("too short"));
        if cut {
            prop_assert!(plan.cells.len() <= 3 || blocks_ms(&plan, 6) * 10 <= study.budget_ms * 9);
        } else {
            prop_assert!(blocks_ms(&plan, 6) * 10 <= study.budget_ms * 9);
        }
    }

    #[test]
    fn the_baseline_of_a_chosen_cell_is_chosen_or_refused(study in studies()) {
        let (host, survey) = (host(), survey());
        let plan = plan(&study);
        let here = SurveyedHost { host: &host, survey: &survey };
        let context = PlanContext::new(&study, here, None);
        let all = candidates(&study, &context);
        let refused: HashSet<&Cell> = plan.refused.iter().map(|r| &r.cell).collect();
        for baseline_of in baselines(&all, &study, &context) {
            for (candidate, baseline) in all.iter().zip(baseline_of) {
                let Some(baseline) = baseline.map(|b| &all[b].cell) else { continue };
                let is_available = !refused.contains(baseline);
                prop_assert!(
                    !plan.cells.contains(&candidate.cell) || !is_available || plan.cells.contains(baseline),
                    "{} without {}", candidate.cell.id(), baseline.id());
            }
        }
    }

    #[test]
    fn cells_do_not_differ_by_an_axis_that_does_not_apply(
        picks in prop::collection::vec(any::<usize>(), AXES.len()),
        other in any::<usize>(),
    ) {
        let (study, host, survey) = (study(&[]), host(), of_all_kinds());
        let here = SurveyedHost { host: &host, survey: &survey };
        let context = PlanContext::new(&study, here, None);
        let mut cell = Cell::default();
        for (row, pick) in AXES.iter().zip(picks) {
            cell.set(row.axis, one_of(row.axis, pick)).unwrap();
        }
        let normal = context.normalised(&cell);
        prop_assert_eq!(&context.normalised(&normal), &normal);
        prop_assert_eq!(Cell::from_id(&normal.id()), Some(normal.clone()));
        let facts = CellFacts::new(&cell, context.survey);
        for row in AXES.iter().filter(|row| !facts.applies(row.axis)) {
            let mut changed = cell.clone();
            changed.set(row.axis, one_of(row.axis, other)).unwrap();
            prop_assert_eq!(&context.normalised(&changed), &normal, "{}", row.name);
            let except = if row.axis == Axis::Size { Axis::Threads } else { Axis::Size };
            let changed_facts = CellFacts::new(&changed, context.survey);
            prop_assert!(changed_facts.agrees(&facts, &[except]), "{}", row.name);
        }
    }

    #[test]
    fn a_block_is_a_permutation(cells in 0_usize..300, seed in any::<u64>(), block in any::<u32>()) {
        let order = shuffled(cells, seed, block);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        prop_assert_eq!(sorted, (0..cells).collect::<Vec<_>>());
        if cells > 20 {
            let of_next_block = shuffled(cells, seed, block.wrapping_add(1));
            prop_assert_ne!(&order, &of_next_block);
            let of_next_seed = shuffled(cells, seed.wrapping_add(1), block);
            prop_assert_ne!(&order, &of_next_seed);
        }
    }
}

/// The order of a block of cells that are not compared.
fn shuffled(cells: usize, seed: u64, block: u32) -> Vec<usize> {
    let cells: Vec<u32> = (0..cells as u32).collect();
    let groups: Vec<&[u32]> = cells.chunks(1).collect();
    let order = crate::order::grouped(&groups, seed, block);
    order.into_iter().map(|cell| cell as usize).collect()
}

#[test]
fn each_cell_is_at_each_position_with_the_same_probability() {
    let mut counts = [[0_u32; 5]; 5];
    let blocks = 5_000;
    for block in 0..blocks {
        for (position, cell) in shuffled(5, 99, block).into_iter().enumerate() {
            counts[position][cell] += 1;
        }
    }
    // Chi-square with 16 degrees of freedom: above 39.3 once in a thousand seeds.
    let expected = f64::from(blocks) / 5.0;
    let distance: f64 = counts
        .iter()
        .flatten()
        .map(|n| (f64::from(*n) - expected).powi(2) / expected)
        .sum();
    assert!(distance < 39.3, "{distance}");
}

#[test]
fn twenty_thousand_cells_are_planned() {
    let mut study = study(&[]);
    let counts: Vec<String> = (1..=200).map(|n| n.to_string()).collect();
    let sizes: Vec<String> = (1..=33).map(|n| (n * 1024).to_string()).collect();
    study.set_axis(Axis::Transport, &["loopback"]).unwrap();
    study.set_axis(Axis::Size, &sizes).unwrap();
    study.set_axis(Axis::Threads, &counts).unwrap();
    let plan = plan(&study);
    let left: usize = plan.left_out.iter().map(|l| l.cells).sum();
    let planned = plan.cells.len() - 1 + plan.refused.len() + left;
    assert_eq!(planned, 3 * 33 * 200);
}
