//! Twins of baselines, and their share of the budget.

use bytecost_spec::study::Compare;
use bytecost_spec::{Axis, Cell, Plan, Study};
use proptest::prelude::*;

use super::properties::{seeded, studies};
use super::{blocks_ms, chosen, paying, plan, study};

fn twinned(study: Study) -> Study {
    Study {
        twins: true,
        ..study
    }
}

fn twins(plan: &Plan) -> Vec<&Cell> {
    plan.cells.iter().filter(|c| c.twin).collect()
}

#[test]
fn each_baseline_of_another_cell_has_a_twin_at_the_end_of_the_plan() {
    let plan = plan(&twinned(paying(3600)));
    let baselines: Vec<Cell> = (plan.cells.iter())
        .filter(|c| c.mover == "send" && !c.twin)
        .map(Cell::other_twin)
        .collect();
    let ends: Vec<Cell> = plan.cells[plan.cells.len() - baselines.len()..].to_vec();
    assert_eq!(ends, baselines);
    assert_eq!(twins(&plan).len(), baselines.len());
    assert_eq!(plan.notes, Vec::<String>::new());
}

#[test]
fn a_baseline_without_compared_cells_has_no_twin() {
    let single = twinned(chosen(study(&[]), "mover send"));
    assert!(twins(&plan(&single)).is_empty());
}

#[test]
fn only_the_first_comparison_has_twins_if_they_would_be_more_than_a_third() {
    let mut study = twinned(paying(3600));
    let by_mover = twins(&plan(&study)).len();
    let metrics = study.compare[0].metrics.clone();
    let more = Compare::new(Axis::Transport, "loopback", metrics);
    study.compare.push(more);
    let both = plan(&study);
    assert_eq!(twins(&both).len(), by_mover);
    let note = "twins: only the baselines of the comparison over mover are measured twice";
    assert!(both.notes[0].starts_with(note), "{:?}", both.notes);
}

#[test]
fn the_budget_pays_for_twins_before_another_tier() {
    // 150 ms a trial and 6 blocks: 20 s pay for 20 cells, which are the floor, the 12 of the first
    // tier and 7 others. The second tier has 5 more cells and 2 more twins.
    let planned = |seconds: u64| {
        let study = paying(seconds);
        let (with, without) = (plan(&twinned(study.clone())), plan(&study));
        let counted = |plan: &Plan| plan.cells.len() - twins(plan).len();
        assert!(blocks_ms(&with, study.blocks_least) <= 18_000);
        let counts = (counted(&with), twins(&with).len(), counted(&without));
        (counts, with.notes)
    };
    assert_eq!(planned(20), ((13, 4, 18), vec![]));
    // No cell of the first tier goes for a twin.
    let (counts, notes) = planned(15);
    assert_eq!(counts, (13, 2, 13));
    let note =
        "twins: the budget pays for 2 of 4; the other baselines are measured once in a block";
    assert_eq!(notes, [note]);
    let (few_counts, few_notes) = planned(3);
    assert_eq!(few_counts, (3, 0, 3), "{few_notes:?}");
}

proptest! {
    #![proptest_config(seeded(100))]

    #[test]
    fn a_twin_has_its_baseline_and_chosen_cells_fit_the_budget(study in studies()) {
        let plan = plan(&twinned(study.clone()));
        let twins = twins(&plan);
        for twin in &twins {
            prop_assert!(plan.cells.contains(&twin.other_twin()));
        }
        prop_assert!(3 * twins.len() <= plan.cells.len());
        // The mean trial is rounded up.
        let rounded = plan.cells.len() as u64 * u64::from(study.blocks_least);
        let least_ms = blocks_ms(&plan, study.blocks_least) - rounded;
        let fits = least_ms * 10 <= study.budget_ms * 9;
        prop_assert!(fits || twins.is_empty());
        let without = super::plan(&study);
        let chosen = plan.cells.len() - twins.len();
        prop_assert!(without.cells[..chosen] == plan.cells[..chosen]);
    }
}
