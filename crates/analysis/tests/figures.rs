//! Figures: panels, order, and gaps with their reasons.

use bytecost_analysis::{FigureData, Finding, Interim, LeftOut, Point};
use bytecost_spec::manifest::Bisection;
use bytecost_spec::{Axis, Cell, Counter, Refusal};

use crate::world::{STUDY, True, World, at, of, one, put, scale, with_axes};

fn quiet(study: &str) -> World {
    World::new(study).run(1, 8, 0.01, |_| True::costs(0.2))
}

fn gap(figure: &FigureData, series: &str, at: usize) -> String {
    let mut lines = figure.series.iter();
    let line = lines.find(|s| s.name == series).expect("a line");
    match &line.points[at] {
        Point::Gap(why) => why.clone(),
        Point::Measured(_) => panic!("{series} was measured at {at}"),
    }
}

#[test]
fn lines_and_values_stand_in_the_order_of_the_study() {
    let analysis = quiet(STUDY).analyse();
    // The second figure has one number of threads only, and no latency.
    assert_eq!(analysis.figures.len(), 1);
    let figure = &analysis.figures[0];
    assert_eq!(figure.title, "CPU time per byte");
    assert_eq!(figure.x_values, ["256", "4KiB", "64KiB", "1MiB"]);
    let numbers = vec![256.0, 4096.0, 65536.0, 1048576.0];
    assert_eq!(figure.x_numbers, Some(numbers));
    let names: Vec<&str> = figure.series.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["send", "writev", "send-zerocopy", "sendfile"]);
    let all = figure.series.iter().flat_map(|s| &s.points);
    assert!(all.clone().count() == 16 && all.into_iter().all(|p| matches!(p, Point::Measured(_))));
}

#[test]
fn a_size_that_a_run_added_for_two_ways_is_in_no_figure() {
    let mut world = World::new(STUDY);
    let is_added = |c: &Cell| c.size_bytes == 4096;
    let is_of_two = |c: &Cell| ["send", "writev"].contains(&c.mover.as_str());
    let keep = |c: &Cell| !is_added(c) || is_of_two(c);
    world.cells.retain(keep);
    let mut world = world.run(1, 8, 0.01, |_| True::costs(0.2));
    let added = world.cells.iter().filter(|c| is_added(c));
    world.manifest.bisection = Some(Bisection {
        first_block: 0,
        blocks: 8,
        cells: added.cloned().collect(),
    });
    let analysis = world.analyse();
    assert_eq!(analysis.figures[0].x_values, ["256", "64KiB", "1MiB"]);
}

#[test]
fn each_choice_of_the_other_axes_is_a_panel() {
    let study = with_axes("transport = [\"unix\", \"loopback\"]");
    let analysis = quiet(&study).analyse();
    let titles: Vec<&str> = analysis.figures.iter().map(|f| f.title.as_str()).collect();
    let expected = ["unix", "loopback"].map(|over| format!("CPU time per byte, over {over}"));
    assert_eq!(titles, expected);
    let held: Vec<_> = analysis.figures.iter().map(|f| f.panel.clone()).collect();
    assert_eq!(held[0], [(Axis::Transport, "unix".to_owned())]);
}

// Invariant 5.
#[test]
fn what_was_not_measured_is_a_gap_with_its_reason() {
    let mut world = World::new(STUDY);
    let failed = world.id("writev", 256);
    world.fail(0, &failed, "the receiver was killed");

    // Refused and left-out cells are not in the plan at all.
    let refused = world.cells.iter().filter(|c| c.mover == "send-zerocopy");
    let refused = refused.map(|c| Refusal {
        what: c.id(),
        why: "no SO_ZEROCOPY here".to_owned(),
    });
    world.refusals = refused.collect();
    let left_out = at("sendfile", 1 << 20);
    world
        .cells
        .retain(|c| c.mover != "send-zerocopy" && !left_out(c));
    world.left_out = vec![LeftOut {
        what: "sendfile 1MiB".to_owned(),
        cells: 1,
        why: "the budget ended: --budget 120s brings it in".to_owned(),
    }];
    let mut world = world.run(2, 8, 0.01, |_| True::costs(0.2));
    let silent = [world.id("writev", 256), world.id("writev", 4096)];
    world.samples.retain(|s| !silent.contains(&s.cell));
    world.ended_early = Some("Ctrl-C".to_owned());

    let figure = &world.analyse().figures[0];
    assert_eq!(gap(figure, "writev", 0), "failed: the receiver was killed");
    let why = "the run ended before its turn: Ctrl-C";
    assert_eq!(gap(figure, "writev", 1), why);
    for at in 0..4 {
        assert_eq!(gap(figure, "send-zerocopy", at), "no SO_ZEROCOPY here");
    }
    let why = "left out: the budget ended: --budget 120s brings it in";
    assert_eq!(gap(figure, "sendfile", 3), why);
}

/// A run in which `writev` at 4 KiB costs a third more in every other trial.
fn noisy() -> World {
    let mut world = World::new(STUDY).run(5, 8, 0.01, |_| True::costs(0.2));
    let mut flip = 1.0;
    world.change(at("writev", 4096), |s| {
        flip = if flip > 1.0 { 1.0 } else { 1.3 };
        for side in s.sides_mut() {
            scale(&mut side.readings, Counter::CpuNs, flip);
        }
    });
    world
}

#[test]
fn progress_names_the_least_precise_comparison() {
    let world = quiet(STUDY);
    let noisy = noisy();
    let of = |world: &World| {
        Interim::of(&world.manifest, &world.cells, &world.samples)
            .widest_interval()
            .expect("progress")
    };
    let (calm, wild) = (of(&world), of(&noisy));
    assert!(calm.half_width < 0.05 && calm.comparisons == 12, "{calm:?}");
    assert!(wild.half_width > 0.08, "{wild:?}");
    assert_eq!(wild.cell, noisy.id("writev", 4096));
    assert_eq!(wild.baseline, noisy.id("send", 4096));
    let run = noisy.analyse().run;
    assert!((run.widest_interval.expect("an interval") - wild.half_width).abs() < 1e-12);

    // Two blocks are not enough to say anything.
    let mut early = world.samples.clone();
    early.retain(|s| s.trial.block < 2);
    let interim = Interim::of(&world.manifest, &world.cells, &early);
    assert_eq!(interim.widest_interval(), None);
}

#[test]
fn later_blocks_need_the_cells_of_wide_intervals_and_their_baselines_alone() {
    let world = noisy();
    let needed = |precision| -> Vec<String> {
        let places = Interim::of(&world.manifest, &world.cells, &world.samples).too_wide(precision);
        places.into_iter().map(|i| world.cells[i].id()).collect()
    };
    let mut pair = vec![world.id("send", 4096), world.id("writev", 4096)];
    pair.sort();
    let mut found = needed(0.08);
    found.sort();
    assert_eq!(found, pair);
    assert_eq!(needed(9.0), Vec::<String>::new());
    assert!(needed(0.0001).len() > 10);
}

#[test]
fn a_relative_figure_draws_the_findings_against_their_baseline() {
    let relative = "series = \"mover\"\nrelative = true\n";
    let study = STUDY.replacen("series = \"mover\"\n", relative, 1);
    let world = World::new(&study).run(1, 12, 0.01, |cell| {
        True::costs(if cell.mover == "sendfile" { 0.1 } else { 0.2 })
    });
    let analysis = world.analyse();
    let figure = &analysis.figures[0];
    assert_eq!(figure.relative_to.as_deref(), Some("send"));
    for series in &figure.series {
        let name = series.name.as_str();
        for point in &series.points {
            let Point::Measured(ratio) = point else {
                panic!("{name}: {point:?}")
            };
            let of_it = |f: &Finding| {
                (f.value.as_str(), f.metric, f.ratio) == (name, figure.y, ratio.value)
            };
            assert!(
                name == "send" || analysis.findings.iter().any(of_it),
                "{name}"
            );
            assert_eq!(ratio.value < 0.9, name == "sendfile", "{name}");
            // The baseline is what it is held against, not a measurement of itself.
            assert_eq!(ratio.low.is_none(), name == "send");
        }
    }
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
fn another_metric_is_drawn_where_the_first_cannot_be_had() {
    let study = of_cycles("\nor = \"cpu_s_per_gb\"");
    let figures = quiet(&study).analyse().figures;
    let figure = one(&figures);
    assert_eq!(figure.y.to_string(), "cpu_s_per_gb");
    let note = "CPU time per byte instead of cycles per byte, which is not available on this machine: no hardware counters.";
    assert_eq!(figure.note.as_deref(), Some(note));
    let measured = |p: &Point| matches!(p, Point::Measured(_));
    assert!(figure.series.iter().flat_map(|s| &s.points).all(measured));

    // One cell that has it is enough to draw it.
    let mut world = quiet(&study);
    world.change(of("send"), |s| {
        for side in s.sides_mut() {
            put(&mut side.readings, Counter::Cycles, 1_000_000);
            put(&mut side.readings, Counter::PerfEnabledNs, 1_000_000);
            put(&mut side.readings, Counter::PerfRunningNs, 1_000_000);
        }
    });
    let figure = &world.analyse().figures[0];
    assert_eq!(figure.y.to_string(), "cycles_per_byte");
    assert_eq!(figure.note, None);
    assert_eq!(gap(figure, "sendfile", 0), "no hardware counters");
}

#[test]
fn a_figure_that_can_be_had_nowhere_is_drawn_as_gaps() {
    let figures = quiet(&of_cycles("")).analyse().figures;
    let figure = one(&figures);
    assert_eq!(figure.y.to_string(), "cycles_per_byte");
    for line in &figure.series {
        for at in 0..4 {
            assert_eq!(gap(figure, &line.name, at), "no hardware counters");
        }
    }
}
