//! Twins: the noise that they show, and that they are nowhere a cell of their own.

use bytecost_analysis::{Analysis, Finding};
use bytecost_spec::{Cell, Counter, Measure, Metric};

use crate::world::{Found, STUDY, True, World, fires, says, scale, silent};

const COST: Metric = Metric::both(Measure::CpuSPerGb);

/// The usual study, in which each `send` has a twin.
fn twinned() -> World {
    let mut world = World::new(STUDY);
    let send = world.cells.iter().filter(|c| c.mover == "send");
    let twins: Vec<Cell> = send.map(Cell::other_twin).collect();
    world.cells.extend(twins);
    world
}

/// Every `send` costs what the others do, and its twin so many times as much.
fn apart(factor: f64, noise: f64) -> World {
    let truth = move |cell: &Cell| True::costs(if cell.twin { 0.2 * factor } else { 0.2 });
    twinned().run(3, 12, noise, truth)
}

#[test]
fn equal_twins_are_the_noise_floor_and_no_caveat() {
    let world = apart(1.0, 0.01);
    let analysis = world.analyse();
    let cells: Vec<&str> = analysis.twins.iter().map(|t| t.cell.as_str()).collect();
    let send = world.cells.iter().filter(|c| c.mover == "send" && !c.twin);
    assert_eq!(cells, send.map(Cell::id).collect::<Vec<_>>());
    for twin in &analysis.twins {
        assert!((twin.metric, twin.blocks) == (COST, 12), "{twin:?}");
        assert!((0.95..1.05).contains(&twin.ratio), "{twin:?}");
        assert!(twin.low < twin.ratio, "{twin:?}");
        assert_eq!(twin.different, twin.low > 1.0 || twin.high < 1.0);
    }
    let floor = analysis.noise_floor.as_ref().expect("a floor");
    let width = |t: &bytecost_analysis::Twin| t.high / t.low;
    let widest = analysis.twins.iter().map(width).fold(0.0, f64::max);
    assert!((floor.twins, width(&floor.widest)) == (4, widest));
    let start = "Noise floor today: `send` against itself ";
    let end = " in CPU time per byte at the widest; 0 of 4 twins came out different (5 % would by chance).";
    says(bytecost_report::markdown(&analysis), [start, end]);
    silent(&world, "twins-differ");
}

#[test]
fn more_different_twins_than_chance_explains_are_a_caveat() {
    let all_apart = apart(1.2, 0.01);
    let of_all = all_apart.analyse();
    assert!(of_all.twins.iter().all(|t| t.different && t.ratio > 1.05));
    let floor = of_all.noise_floor.as_ref().expect("a floor");
    assert!(floor.different == 4 && floor.chance < 1e-4, "{floor:?}");
    fires(&all_apart, "twins-differ", 4, "");
    // One of four comes out different in every fifth run.
    let mut world = apart(1.0, 0.01);
    let first = world.id("send", 256);
    let is_first = |c: &Cell| c.twin && c.size_bytes == 256;
    world.change(is_first, |s| {
        scale(&mut s.sender.readings, Counter::CpuNs, 2.0);
    });
    let analysis = world.analyse();
    let different = analysis.twins.iter().filter(|t| t.different);
    let cells: Vec<&str> = different.map(|t| t.cell.as_str()).collect();
    assert_eq!(cells, [first]);
    silent(&world, "twins-differ");
}

#[test]
fn a_baseline_and_its_twin_are_one_value_in_each_block() {
    let cost = |a: &Analysis, id: &str| a.of_id(id).estimates[&COST].value;
    let world = apart(1.21, 0.0);
    let paired = world.analyse();
    let (send, writev) = (world.id("send", 4096), world.id("writev", 4096));
    // The receiver's 0.1 stands in both sums.
    let both = (0.3_f64 * (0.2 * 1.21 + 0.1)).sqrt();
    assert!((cost(&paired, &send) / cost(&paired, &writev) - both / 0.3).abs() < 1e-6);
    let ratio = |a: &Analysis| a.of_cell(COST, &writev).ratio;
    let found = ratio(&paired);
    assert!((found - 0.3 / both).abs() < 1e-6, "{found}");
    // Where the twin has no trial, the baseline's own stands.
    let mut alone = world;
    alone.samples.retain(|s| !s.cell.ends_with("/twin"));
    let analysis = alone.analyse();
    assert!((ratio(&analysis) - 1.0).abs() < 1e-6);
    assert_eq!((analysis.twins.len(), analysis.noise_floor), (0, None));
}

#[test]
fn a_twin_that_fails_is_a_failure_of_its_cell() {
    let mut world = apart(1.0, 0.01);
    let send = world.id("send", 256);
    world.fail(0, &format!("{send}/twin"), "the receiver is gone");
    assert_eq!(fires(&world, "failed-trials", 1, "").cells, [send]);
}

#[test]
fn runs_with_twins_keep_the_promised_rates() {
    let runs = 120;
    let (mut alarms, mut different, mut twins) = (0, 0, 0);
    for seed in 0..runs {
        let analysis = twinned()
            .run(4000 + seed, 8, 0.05, |_| True::costs(0.2))
            .analyse();
        alarms += usize::from(analysis.findings.iter().any(Finding::is_apart));
        different += analysis.twins.iter().filter(|t| t.different).count();
        twins += analysis.twins.len();
    }
    // 5 % of 120 are 6; 14 or more would come up once in a thousand.
    assert!(alarms <= 13, "{alarms} of {runs}");
    // 5 % of 480 are 24, with a standard deviation of 5.
    assert_eq!(twins, 480);
    assert!((9..=39).contains(&different), "{different} of {twins}");
}
