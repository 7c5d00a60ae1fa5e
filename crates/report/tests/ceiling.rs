//! The ceiling in a terminal, in figures and in pictures.

use crate::fixture::{self, estimate};

use bytecost_analysis::{Analysis, Ceiling, CeilingKind, CeilingLine, CeilingRate};
use bytecost_report::{Picture, Style, ceiling, explain, html, pictures, terminal};
use bytecost_spec::{Measure, Metric};

const STYLE: Style = Style::plain(90);

fn rate(kind: CeilingKind, size_bytes: u64, set: u64, depth: u32, value: f64) -> CeilingRate {
    CeilingRate {
        kind,
        mover: "uring-read".to_owned(),
        size_bytes,
        working_set_bytes: set,
        depth,
        gbit_per_s: estimate(value, 0.02, 10),
    }
}

fn measured() -> Ceiling {
    let copy = |kind, set, value| rate(kind, 65_536, set, 1, value);
    Ceiling {
        run: "2026-11-21T0300-ceiling".to_owned(),
        started: "2026-11-21T03:00:00Z".to_owned(),
        dir: Some("/var/tmp".to_owned()),
        device: Some(7),
        disturbed: None,
        rates: vec![
            copy(CeilingKind::UserCopy, 64 << 10, 269.0),
            copy(CeilingKind::UserCopy, 16 << 20, 130.0),
            copy(CeilingKind::KernelRead, 64 << 10, 159.0),
            copy(CeilingKind::KernelRead, 16 << 20, 81.5),
            copy(CeilingKind::KernelWrite, 64 << 10, 149.0),
            rate(CeilingKind::DiskSequential, 1 << 20, 256 << 20, 1, 9.1),
            rate(CeilingKind::DiskSequential, 1 << 20, 256 << 20, 16, 17.4),
            rate(CeilingKind::DiskRandom, 4096, 256 << 20, 32, 5.7),
        ],
    }
}

fn drawn(points: fn(usize) -> Option<f64>) -> Analysis {
    let mut analysis = fixture::analysis();
    let throughput = Metric::both(Measure::ThroughputGbitPerS);
    for figure in &mut analysis.figures {
        figure.ceiling = (figure.y == throughput).then(|| CeilingLine {
            kind: Some(CeilingKind::KernelRead),
            points: (0..figure.x_values.len()).map(points).collect(),
        });
    }
    analysis.ceiling = Some(measured());
    analysis
}

#[test]
fn the_table_has_a_row_a_working_set_and_a_gap_where_nothing_was_measured() {
    let text = ceiling(&measured(), &fixture::analysis(), STYLE);
    let (tables, _) = text.rsplit_once("\n\n").unwrap();
    insta::assert_snapshot!("ceiling", tables);
}

#[test]
fn a_figure_has_the_line_only_where_a_ceiling_is_known() {
    let words = "copy out of the kernel";
    for (analysis, expected) in [
        (drawn(|_| Some(90.0)), true),
        (drawn(|_| None), false),
        (fixture::analysis(), false),
    ] {
        let page = html(&analysis);
        assert_eq!(page.contains("<g class=\"ceiling\">"), expected);
        assert_eq!(page.contains(words), expected);
        let parts = ["class=\"ceiling\"", words];
        let has_line = |p: &Picture| parts.iter().all(|part| p.svg.contains(part));
        assert_eq!(pictures(&analysis).iter().any(has_line), expected);
    }
}

#[test]
fn the_hint_stands_where_no_ceiling_is_known_and_there_alone() {
    let hint = "`bytecost ceiling` measures once";
    let said = |analysis: &Analysis| {
        [terminal(analysis, STYLE), explain(analysis, STYLE)].map(|text| text.contains(hint))
    };
    assert_eq!(said(&fixture::analysis()), [true, true]);
    assert_eq!(said(&drawn(|_| Some(90.0))), [false, false]);
    assert_eq!(said(&fixture::empty()), [false, false]);
    let mut own = fixture::analysis();
    own.study.name = "ceiling".to_owned();
    assert_eq!(said(&own), [false, false]);
}
