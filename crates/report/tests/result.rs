//! What a reader gets: the words of every renderer, and that they hold whatever the names are.

mod fixture;

use bytecost_analysis::{CountersCost, Estimate};
use bytecost_report::{Style, findings_json, html, markdown, terminal};

const PLAIN: Style = Style {
    width: 100,
    color: false,
};

/// Columns of a line on a terminal: every character of these reports takes one.
fn columns(line: &str) -> usize {
    line.chars().count()
}

#[test]
fn the_terminal_shows_the_answer_first() {
    insta::assert_snapshot!("terminal", terminal(&fixture::analysis(), PLAIN));
}

#[test]
fn latencies_and_a_narrow_terminal() {
    let style = Style {
        width: 80,
        color: false,
    };
    insta::assert_snapshot!("terminal-80", terminal(&fixture::with_latency(), style));
}

#[test]
fn a_run_that_came_to_nothing_still_says_so() {
    insta::assert_snapshot!("terminal-empty", terminal(&fixture::empty(), PLAIN));
    let page = html(&fixture::empty());
    assert!(page.contains("This run gives no answer."));
    assert!(page.contains("the budget ended before the first block"));
    assert!(markdown(&fixture::empty()).contains("This run gives no answer."));
}

#[test]
fn an_imported_table_is_told_as_one() {
    let a = fixture::imported();
    insta::assert_snapshot!("terminal-imported", terminal(&a, PLAIN));
    let page = html(&a);
    for (part, is_there) in [
        (
            "Imported from pa02-a: 24 published cells measured elsewhere and none here.",
            true,
        ),
        ("published by pa02-a, without an interval", true),
        ("gives no answer", false),
        ("id=\"machine\"", false),
        ("id=\"method\"", false),
        ("Bands are", false),
        ("id=\"published\"", false),
    ] {
        assert_eq!(page.contains(part), is_there, "{part}");
    }
    assert_eq!(page.matches("<figure").count(), 6);
    assert!(markdown(&a).contains("| send-fields, 256 B, 1 thread | 0 | 40,877 |"));
}

#[test]
fn crossovers_explanations_claims_and_published_numbers_are_told_everywhere() {
    let a = fixture::with_latency();
    let page = html(&a);
    let everywhere = [
        terminal(
            &a,
            Style {
                width: 400,
                color: false,
            },
        ),
        markdown(&a),
        page.clone(),
    ];
    for text in &everywhere {
        for part in [
            "never costs less CPU time per byte than",
            "Why is zero-copy not always fastest?",
            "cache misses by level: this machine has no hardware counters",
            "confirmed for another reason",
            "undecided",
            "the two-copy version takes 40.8 ms a message because it copies more",
            "13 of the 24 cells that pa02-a published have a counterpart in this run",
        ] {
            assert!(text.contains(part), "{part}");
        }
    }
    for text in &everywhere[1..] {
        for part in [
            "never within 256 B to 1 MiB",
            "5.4 KiB to 6.9 KiB",
            "payload prepared (theirs refilled)",
            "256 B: 6.94 times the CPU time per byte of",
        ] {
            assert!(text.contains(part), "{part}");
        }
    }
}

#[test]
fn a_figure_shows_what_was_published_what_stalls_and_why_there_is_nothing() {
    let page = html(&fixture::with_latency());
    let figures: Vec<&str> = page.split("<figure").skip(1).collect();
    let check = |number: usize, part: &str, times: usize| {
        let figure = figures[number].split_once("</figure>").unwrap().0;
        assert_eq!(
            figure.matches(part).count(),
            times,
            "{part} in figure {number}"
        );
    };
    // Three movers were published at four sizes, one of them as 0.
    check(
        0,
        "data-interval=\"published by pa02-a, without an interval\"",
        11,
    );
    // On its mark, twice in the table (for eyes and for ears), and below.
    check(0, "published as 0", 4);
    check(1, "cannot be had here, so this is CPU time", 1);
    check(3, "data-stalled=", 2);
    check(4, "class=\"none\"", 1);
    check(4, "not measured here: hardware counters", 1);
    check(4, "class=\"dot\"", 0);
    check(0, "class=\"none\"", 0);
}

#[test]
fn markdown_says_the_same() {
    insta::assert_snapshot!("markdown", markdown(&fixture::with_latency()));
}

#[test]
fn the_page_in_words_and_paths() {
    insta::assert_snapshot!("page", text_and_paths(&html(&fixture::analysis())));
}

// Invariant 3.
#[test]
fn the_same_result_gives_the_same_bytes() {
    for make in [
        fixture::analysis,
        fixture::with_latency,
        fixture::hostile,
        fixture::empty,
        fixture::imported,
    ] {
        let (a, b) = (make(), make());
        assert_eq!(html(&a), html(&b));
        assert_eq!(terminal(&a, PLAIN), terminal(&b, PLAIN));
        assert_eq!(markdown(&a), markdown(&b));
        assert_eq!(findings_json(&a), findings_json(&b));
    }
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for width in [40, 60, 80, 100, 200] {
        for a in [
            fixture::analysis(),
            fixture::with_latency(),
            fixture::hostile(),
            fixture::imported(),
        ] {
            let style = Style {
                width,
                color: false,
            };
            for line in terminal(&a, style).lines() {
                assert!(
                    columns(line) <= width,
                    "{} > {width}: {line}",
                    columns(line)
                );
            }
        }
    }
}

#[test]
fn colour_changes_nothing_but_colour() {
    let a = fixture::with_latency();
    let plain = terminal(&a, PLAIN);
    let painted = terminal(
        &a,
        Style {
            color: true,
            ..PLAIN
        },
    );
    assert!(!plain.contains('\x1b'));
    assert!(painted.contains("\x1b[1mUp to 4 KiB"));
    assert!(painted.contains("\x1b[32m▲"));
    let mut unpainted = String::new();
    let mut rest = painted.as_str();
    while let Some((before, after)) = rest.split_once('\x1b') {
        unpainted.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    unpainted.push_str(rest);
    assert_eq!(unpainted, plain);
}

#[test]
fn names_cannot_break_out() {
    let a = fixture::hostile();
    let page = html(&a);
    let ours = html(&fixture::analysis()).matches("<script").count();
    assert_eq!(page.matches("<script").count(), ours);
    assert!(!page.contains("<img") && !page.contains("<b>bold"));
    assert!(page.contains("&#60;script&#62;alert(1)"));
    for text in [terminal(&a, PLAIN), markdown(&a), page] {
        assert!(!text.contains('\x1b'), "an escape sequence got through");
    }
    let text = markdown(&a);
    assert!(!text.contains("<script") && !text.contains("<img") && !text.contains("<b>"));
}

#[test]
fn the_page_is_one_small_file() {
    let page = html(&fixture::with_latency());
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    for outside in ["http://", "https://", "url(", "@import", " src="] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn every_number_of_a_figure_is_in_its_table() {
    let page = html(&fixture::analysis());
    for figure in page.split("<figure").skip(1) {
        let figure = figure.split_once("</figure>").unwrap().0;
        let (drawn, table) = figure.split_once("class=\"data").unwrap();
        let values = drawn.split("data-value=\"").skip(1);
        let mut count = 0;
        for value in values.map(|rest| rest.split([' ', '"']).next().unwrap()) {
            assert!(table.contains(&format!("<b>{value}</b>")), "{value}");
            count += 1;
        }
        assert_eq!(table.matches("<b>").count(), count);
        assert!(count >= 12);
    }
}

#[test]
fn a_gap_tells_its_reason_wherever_it_is_known() {
    let metric = "sender_cpu_s_per_gb".parse().unwrap();
    let mut a = fixture::analysis();
    let found = a
        .cells
        .iter_mut()
        .find(|c| c.id.contains("/splice/recv/4KiB/"));
    let cell = found.unwrap();
    cell.estimates.remove(&metric);
    cell.absent
        .insert(metric, "the clock stood still".to_owned());
    a.refusals.remove(0);
    a.cells
        .retain(|c| !c.id.contains("/sendfile/recv/64KiB/8/4/"));
    let text = terminal(&a, PLAIN);
    for (reason, from) in [
        ("the clock stood still", "the cell"),
        (
            "io_uring could not register",
            "the figure, now that the refusal is gone",
        ),
        ("not measured in this run", "nowhere"),
    ] {
        let note = text.lines().find(|line| line.contains(reason));
        assert!(note.is_some_and(|line| line.starts_with("  –")), "{from}");
    }
    let row = |name: &str| {
        text.lines()
            .find(|l| l.trim_start().starts_with(name))
            .unwrap()
    };
    assert!(row("splice").contains('–'));
}

#[test]
fn what_reading_counters_costs_stands_beside_the_cost_of_the_loop() {
    let mut a = fixture::analysis();
    let estimate = a.loop_floor_ns_per_message.unwrap();
    a.counters_cost = vec![CountersCost {
        mover: "send".to_owned(),
        without_ns_per_message: estimate,
        with_ns_per_message: Estimate {
            value: 2.5,
            ..estimate
        },
    }];
    let wide = Style {
        width: 400,
        color: false,
    };
    for text in [terminal(&a, wide), markdown(&a), html(&a)] {
        let told = "send 2.50 instead of 2.14 ns of CPU time a message";
        assert!(text.contains(told), "{text}");
    }
}

#[test]
fn findings_can_be_read_back() {
    let a = fixture::with_latency();
    let text = findings_json(&a);
    let back: bytecost_analysis::Analysis = serde_json::from_str(&text).unwrap();
    assert!(back == a, "something was lost");
}

/// The page's text and the paths of its drawings, one a line: what a reader sees, without the
/// markup around it.
fn text_and_paths(page: &str) -> String {
    let mut out = Vec::new();
    let body = page.split_once("<body>").unwrap().1;
    let body = body.split_once("<script>").unwrap().0;
    for piece in body.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').unwrap();
        if let Some((_, path)) = tag.split_once(" d=\"") {
            let class = tag.split_once("class=\"").map_or("", |c| c.1);
            let class = class.split('"').next().unwrap();
            let path = path.split('"').next().unwrap();
            if !class.is_empty() && class != "marker" && class != "tick" {
                out.push(format!("{class}: {path}"));
            }
        }
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if !text.is_empty() {
            out.push(text);
        }
    }
    out.join("\n")
}
