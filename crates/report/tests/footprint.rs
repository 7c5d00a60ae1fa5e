//! The table of what moving displaces from the caches.

use crate::fixture;

use bytecost_analysis::{Analysis, CellFootprint, Estimate, LevelFootprint};
use bytecost_report::{Style, html, markdown, terminal};

const PLAIN: Style = Style::plain(100);

fn level(level: u32, displaced_kib: Option<f64>) -> LevelFootprint {
    let estimate = |value| Estimate {
        value,
        low: Some(value * 0.9),
        high: Some(value * 1.1),
        trials: 40,
    };
    LevelFootprint {
        level,
        size_bytes: 32 << (10 + 4 * level),
        primed_bytes: 16 << (10 + 4 * level),
        moved_bytes: 64 << 10,
        displaced_kib: displaced_kib.map(estimate),
        idle_kib: displaced_kib.map(|_| estimate(0.25)),
        hit_ticks: 20.0,
        miss_ticks: 30.0,
        missing: match displaced_kib {
            Some(_) => None,
            None => Some("its hits look like its <misses>".to_owned()),
        },
    }
}

/// An analysis whose first cells were looked at, in two caches of which the second tells nothing.
fn looked_at(cells: usize) -> Analysis {
    let mut a = fixture::analysis();
    let own = a.cells.iter().take(cells).map(|c| CellFootprint {
        cell: c.id.clone(),
        levels: vec![level(1, Some(143.0)), level(2, None)],
    });
    a.footprints = own.collect();
    a
}

#[test]
fn each_cell_is_a_row_with_what_was_displaced_and_what_would_have_been_anyway() {
    let a = looked_at(3);
    let page = html(&a);
    let text = terminal(&a, PLAIN);
    for (all, what) in [
        (&page, "page"),
        (&text, "terminal"),
        (&markdown(&a), "markdown"),
    ] {
        assert_eq!(all.matches("143 (0.2)").count(), 3, "{what}");
        assert!(all.contains("What moving displaces"), "{what}");
    }
    assert!(page.contains("href=\"#footprint\""));
    assert!(page.contains("L2, nothing of 3 cells: its hits look like its &lt;misses&gt;."));
    assert!(text.contains("L2, nothing of 3 cells"));
    assert!(text.lines().all(|l| l.chars().count() <= 100));
}

#[test]
fn where_nothing_was_looked_at_there_is_no_table() {
    let a = looked_at(0);
    assert!(!html(&a).contains("id=\"footprint\""));
    assert!(!terminal(&a, PLAIN).contains("displaces"));
}
