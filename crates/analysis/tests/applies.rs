//! An axis keeps two cells apart only where it applies to both.

use bytecost_analysis::Analysis;
use bytecost_spec::Axis;
use bytecost_spec::axis::CellFacts;
use bytecost_spec::survey::Route;

use crate::world::{self, True, World, one};

/// The analysis of a study of these axes and this comparison, with its cells as a plan has them.
fn analysis(axes: &str, axis: &str, baseline: &str) -> Analysis {
    let head = world::study!("applies", "");
    let mut world = World::new(&format!(
        "{head}\n[axes]\n{axes}\n[[compare]]\naxis = \"{axis}\"\nbaseline = \"{baseline}\"\nmetrics = [\"cpu_s_per_gb\"]\n"
    ));
    world.manifest.survey.mover_facts = vec![
        world::row("null", Route::Nowhere),
        world::row("send", Route::MemoryToSocket),
        world::row("sendfile", Route::FileToSocket),
    ];
    let survey = &world.manifest.survey;
    for cell in &mut world.cells {
        *cell = CellFacts::new(cell, survey).normal();
    }
    let truth = |cell: &bytecost_spec::Cell| match (cell.mover.as_str(), cell.mtu_bytes) {
        ("sendfile", _) | (_, Some(_)) => True::costs(0.5),
        _ => True::costs(1.0),
    };
    world.run(7, 12, 0.02, truth).analyse()
}

#[test]
fn a_mover_without_a_file_is_the_baseline_of_one_with_a_warm_one() {
    let axes = "mover = [\"send\", \"sendfile\"]\nsize = [\"64KiB\"]\ncache = [\"warm\"]";
    let found = analysis(axes, "mover", "send");
    let finding = one(&found.findings);
    assert_eq!(finding.value, "sendfile");
    assert_eq!(finding.baseline_value, "send");
    assert_eq!(found.study.varied, [Axis::Mover]);
    let cache = (Axis::Cache, "warm".into());
    assert!(found.study.constants.contains(&cache));
}

#[test]
fn the_usual_mtu_is_a_baseline_under_both_its_names() {
    for usual in ["1500", "auto"] {
        let axes = format!(
            "mover = [\"send\"]\nsize = [\"64KiB\"]\ntransport = [\"veth\"]\nmtu = [\"{usual}\", \"9000\"]"
        );
        let found = analysis(&axes, "mtu", usual);
        let finding = one(&found.findings);
        assert_eq!(finding.value, "9000");
        assert_eq!(finding.baseline_value, "1500");
    }
}
