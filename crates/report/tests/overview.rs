//! The overview: how many times as fast one way of each pair is as the other.

use crate::fixture;

use bytecost_analysis::{Analysis, Estimate, Point, SpeedUp, SpeedUpRow};
use bytecost_report::{Style, findings_json, html, markdown, pictures, png, terminal};
use bytecost_spec::{Axis, Measure, Metric};

const STYLE: Style = Style::plain(100);
const REFUSAL: &str = "placement smt-sibling: the kernel shows no two hardware threads of one core, as a guest of a hypervisor often sees it, so that <none> can be chosen";

fn row(value: &str, mover: &str, point: Point) -> SpeedUpRow {
    SpeedUpRow {
        value: value.to_owned(),
        place: vec![(Axis::Mover, mover.to_owned())],
        cell: "a".to_owned(),
        baseline: "b".to_owned(),
        point,
    }
}

fn measured(value: f64) -> Point {
    Point::Measured(Estimate {
        value,
        low: Some(0.9 * value),
        high: Some(1.1 * value),
        trials: 12,
    })
}

fn pair(title: &str, published: Option<f64>, rows: Vec<SpeedUpRow>) -> SpeedUp {
    SpeedUp {
        title: title.to_owned(),
        metric: Metric::both(Measure::MessagesPerS),
        axis: Axis::Placement,
        against: "free".to_owned(),
        published,
        note: published.map(|_| "Near 2 is the mark of <time-slicing>.".to_owned()),
        rows,
    }
}

fn analysis() -> Analysis {
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
            vec![row(
                "same-cache",
                "work-integer",
                Point::Gap(REFUSAL.to_owned()),
            )],
        ),
        pair(
            "Two CPUs against one",
            None,
            vec![row("same-cache", "work-integer", measured(2.0))],
        ),
    ];
    a
}

#[test]
fn the_page_draws_every_pair_and_says_it_as_a_table() {
    let page = html(&analysis());
    assert!(page.contains("id=\"overview\"") && page.contains("href=\"#overview\""));
    let at = page.find("id=\"speed-ups\"").unwrap();
    let end = at + page[at..].find("</figure>").unwrap();
    let figure = &page[at..end];
    assert_eq!(figure.matches("class=\"interval\"").count(), 3);
    assert_eq!(figure.matches("class=\"theirs\"").count(), 2);
    assert_eq!(figure.matches("class=\"even\"").count(), 1, "a line at 1");
    for text in ["0.98×", "0.88 to 1.08", "1.96×", ">1×<", ">2×<"] {
        assert!(figure.contains(text), "{text}");
    }
    // The gap has its reason, broken over lines in the drawing and whole in the table.
    assert!(figure.contains("not here: placement smt-sibling"));
    let table = page[end..].split_once("</table>").unwrap().0;
    assert!(table.contains("so that &lt;none&gt; can be chosen"));
    assert_eq!(table.matches("<tr><td>").count(), 4);
    assert!(!figure.contains("<time-slicing>"));
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
fn the_picture_stands_by_itself() {
    let all = pictures(&analysis());
    let picture = all.iter().find(|p| p.name == "speed-ups").unwrap();
    assert!(picture.svg.starts_with("<svg") && !picture.svg.contains("var("));
    assert!(picture.svg.contains("hollow"));
    assert!(png(picture).is_ok());
    let mut own = analysis();
    own.speed_ups.retain(|s| s.published.is_none());
    let all = pictures(&own);
    let picture = all.iter().find(|p| p.name == "speed-ups").unwrap();
    assert!(!picture.svg.contains("hollow"));
}

#[test]
fn text_and_markdown_say_the_same() {
    let a = analysis();
    let text = terminal(&a, STYLE);
    for line in [
        "Speed-ups",
        "Pinned against free    same-cpu, work-float",
        "1.02×  0.92 to 1.12, 12 blocks",
        "–  placement smt-sibling",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let table = markdown(&a);
    assert!(table.contains("| Two CPUs against one | same-cache, work-integer | 2.00× |"));
    assert!(table.contains("&lt;none&gt;"));
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
    let all = pictures(&a);
    let picture = all.iter().find(|p| p.name == "speed-ups").unwrap();
    let coordinates = picture.svg.split("d=\"M").skip(1);
    assert!(coordinates.clone().count() > 60);
    assert!(
        coordinates
            .into_iter()
            .all(|d| !d.starts_with("NaN") && !d.starts_with("inf"))
    );
}
