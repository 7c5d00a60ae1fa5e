//! Figures: panels, order, and gaps with their reasons.

use bytecost_analysis::{FigureData, Gap, Input, Interim, LeftOut, NoValue, Point};
use bytecost_spec::{Counter, RefusedCell};

use crate::world::{STUDY, True, World, at, by_mover, one, put, scale_cpu_time};

fn no_counters() -> Gap {
    Gap::Absent(NoValue::Recorded("no hardware counters".to_owned()))
}

fn quiet(study: &str) -> World {
    World::new(study).run(1, 8, 0.01, |_| True::costs(0.2))
}

fn gap(figure: &FigureData, series: &str, at: usize) -> Gap {
    let mut lines = figure.series.iter();
    let line = lines.find(|s| s.name == series).expect("a line");
    match &line.points[at] {
        Point::Gap(why) => why.clone(),
        Point::Measured(_) => panic!("{series} was measured at {at}"),
    }
}

// Invariant 5.
#[test]
fn what_was_not_measured_is_a_gap_with_its_reason() {
    let mut world = World::new(STUDY);
    let failed = world.id("writev", 256);
    world.fail(0, &failed, "the receiver was killed");

    // Refused and left-out cells are not in the plan at all.
    let refused = world
        .cells
        .iter()
        .filter(|c| c.mover == "send-zerocopy")
        .map(|c| RefusedCell {
            cell: c.clone(),
            why: "no SO_ZEROCOPY here".to_owned(),
        });
    world.refused = refused.collect();
    let left_out = at("sendfile", 1 << 20);
    world
        .cells
        .retain(|c| c.mover != "send-zerocopy" && !left_out(c));
    world.left_out = vec![LeftOut {
        values: Vec::new(),
        what: "sendfile 1MiB".to_owned(),
        cells: 1,
        why: "the budget ended: --budget 120s brings it in".to_owned(),
    }];
    world = world.run(2, 8, 0.01, |_| True::costs(0.2));
    let silent = [world.id("writev", 256), world.id("writev", 4096)];
    world.samples.retain(|s| !silent.contains(&s.cell));
    world.ended_early = Some("Ctrl-C".to_owned());

    let figure = &world.analyse().figures[0];
    assert_eq!(
        gap(figure, "writev", 0),
        Gap::Failed("the receiver was killed".to_owned())
    );
    assert_eq!(
        gap(figure, "writev", 1),
        Gap::EndedEarly("Ctrl-C".to_owned())
    );
    for at in 0..4 {
        assert_eq!(
            gap(figure, "send-zerocopy", at),
            Gap::Refused("no SO_ZEROCOPY here".to_owned())
        );
    }
    let why = "the budget ended: --budget 120s brings it in".to_owned();
    assert_eq!(gap(figure, "sendfile", 3), Gap::LeftOut(Some(why)));
}

/// A run in which `writev` at 4 KiB costs a third more in every other trial.
fn noisy() -> World {
    let mut world = World::new(STUDY).run(5, 8, 0.01, |_| True::costs(0.2));
    let mut flip = 1.0;
    world.change(at("writev", 4096), |s| {
        flip = if flip > 1.0 { 1.0 } else { 1.3 };
        scale_cpu_time(s, flip);
    });
    world
}

#[test]
fn progress_names_the_least_precise_comparison() {
    let world = quiet(STUDY);
    let noisy = noisy();
    let widest = |measured: &World| Interim::new(measured.input()).widest.expect("progress");
    let (calm, wild) = (widest(&world), widest(&noisy));
    assert!(calm.half_width < 0.05 && calm.comparisons == 12, "{calm:?}");
    assert!(wild.half_width > 0.08, "{wild:?}");
    assert_eq!(wild.cell, noisy.id("writev", 4096));
    assert_eq!(wild.baseline, noisy.id("send", 4096));
    let run = noisy.analyse().run;
    assert!((run.widest_interval.expect("an interval") - wild.half_width).abs() < 1e-12);

    // Two blocks are not enough to say anything.
    let mut early = world.samples.clone();
    early.retain(|s| s.trial.block < 2);
    let interim = Interim::new(Input::of(&world.manifest, &world.cells, &early));
    assert_eq!(interim.widest, None);
}

/// A study whose figures ask for cycles, which the fixture's machine does not count.
fn of_cycles(or: &str) -> String {
    STUDY.replacen(
        "y = \"cpu_s_per_gb\"",
        &format!("y = \"cycles_per_byte\"{or}"),
        1,
    )
}

#[test]
fn one_cell_that_has_a_metric_is_enough_to_draw_it() {
    let mut world = quiet(&of_cycles("\nor = \"cpu_s_per_gb\""));
    world.change(by_mover("send"), |s| {
        for side in s.sides_mut() {
            put(&mut side.readings, Counter::Cycles, 1_000_000);
            put(&mut side.readings, Counter::PerfEnabledNs, 1_000_000);
            put(&mut side.readings, Counter::PerfRunningNs, 1_000_000);
        }
    });
    let figure = &world.analyse().figures[0];
    assert_eq!(figure.y.to_string(), "cycles_per_byte");
    assert_eq!(figure.replaced, None);
    assert_eq!(gap(figure, "sendfile", 0), no_counters());
}

#[test]
fn a_figure_that_is_available_nowhere_is_drawn_as_gaps() {
    let figures = quiet(&of_cycles("")).analyse().figures;
    let figure = one(&figures);
    assert_eq!(figure.y.to_string(), "cycles_per_byte");
    for line in &figure.series {
        for at in 0..4 {
            assert_eq!(gap(figure, &line.name, at), no_counters());
        }
    }
}
