//! The overview: how many times as fast one way of each pair is as the other.

use crate::fixture::{self, estimate, section};

use bytecost_analysis::{Analysis, Finding, Gap, Point, SpeedUp, SpeedUpRow, Verdict};
use bytecost_report::{Style, findings_json, html, markdown, pictures, terminal};
use bytecost_spec::{Axis, Measure, Metric};

const REFUSAL: &str = "the kernel shows no two hardware threads of one core, as a guest of a hypervisor often sees it, so that <none> can be chosen";

fn row(value: &str, mover: &str, point: Point) -> SpeedUpRow {
    SpeedUpRow {
        value: value.into(),
        place: vec![(Axis::Mover, mover.into())],
        cell: "a".to_owned(),
        baseline: "b".to_owned(),
        point,
    }
}

fn measured(value: f64) -> Point {
    Point::Measured(estimate(value, 0.1, 12))
}

fn picture(a: &Analysis) -> String {
    let picture = pictures(a).into_iter().find(|p| p.name == "speed-ups");
    picture.unwrap().svg
}

fn pair(title: &str, published: Option<f64>, rows: Vec<SpeedUpRow>) -> SpeedUp {
    SpeedUp {
        title: title.to_owned(),
        metric: Metric::both(Measure::MessagesPerS),
        axis: Axis::Placement,
        against: "free".into(),
        published,
        note: published.map(|_| "Near 2 is the mark of <time-slicing>.".to_owned()),
        rows,
    }
}

pub fn analysis() -> Analysis {
    let work = |point| row("same-cache", "work-integer", point);
    let mut a = fixture::analysis();
    a.speed_ups = vec![
        pair(
            "Pinned against free",
            Some(1.005),
            vec![
                row("same-cpu", "work-integer", measured(0.98)),
                row("same-cpu", "work-float", measured(1.02)),
            ],
        ),
        pair(
            "Two cores against one",
            Some(1.961),
            vec![work(Point::Gap(Gap::Refused(REFUSAL.to_owned())))],
        ),
        pair("Two CPUs against one", None, vec![work(measured(2.0))]),
    ];
    a
}

#[test]
fn the_page_draws_every_pair_and_says_it_as_a_table() {
    insta::assert_snapshot!("speed_ups", section(&html(&analysis()), "overview"));
}

#[test]
fn without_pairs_there_is_no_overview() {
    let a = fixture::analysis();
    assert!(!html(&a).contains("id=\"overview\""));
    assert!(pictures(&a).iter().all(|p| p.name != "speed-ups"));
    assert!(!findings_json(&a).contains("speed_ups"));
    assert!(!markdown(&a).contains("Speed-ups"));
}

#[test]
fn an_exploratory_pair_is_not_among_the_decided_ones() {
    let mut a = analysis();
    a.speed_ups.drain(..2);
    let style = Style {
        color: false,
        width: 200,
    };
    for (verdict, expected) in [
        (Verdict::Better, ""),
        (Verdict::NotJudged, "exploratory in 1 cell"),
        (Verdict::NotDecided, "undecided in 1 cell"),
    ] {
        let finding = Finding {
            metric: a.speed_ups[0].metric,
            cell: "a".to_owned(),
            baseline: "b".to_owned(),
            verdict,
            withheld: None,
            ..a.findings[0].clone()
        };
        let with = Analysis {
            findings: vec![finding],
            ..a.clone()
        };
        let text = terminal(&with, style);
        for words in ["exploratory in 1 cell", "undecided in 1 cell"] {
            assert_eq!(text.contains(words), words == expected, "{text}");
        }
    }
}

#[test]
fn a_picture_says_what_is_hollow_where_something_is() {
    let mut a = analysis();
    let is_said = |of: &Analysis| picture(of).contains("hollow");
    assert!(is_said(&a));
    a.speed_ups.retain(|s| s.published.is_none());
    assert!(!is_said(&a));
}

#[test]
fn odd_numbers_and_many_rows_are_drawn_within_bounds() {
    let mut a = analysis();
    let many = |n: usize| row("same-cpu", &"x".repeat(n + 20), measured(1e-6 * n as f64));
    a.speed_ups[0].rows = (0..200).map(many).collect();
    a.speed_ups[2].rows[0].point = measured(f64::NAN);
    a.speed_ups[2].published = Some(f64::INFINITY);
    let page = html(&a);
    assert!(page.contains("rows are in findings.json alone."));
    let picture = picture(&a);
    let mut coordinates = picture.split("d=\"M").skip(1);
    assert!(coordinates.clone().count() > 60);
    assert!(coordinates.all(|d| !d.starts_with("NaN") && !d.starts_with("inf")));
}
