//! Media of a result: every one has all of it, whatever the names in it are. The goldens of the command
//! hold the words of real runs.

use std::collections::BTreeMap;

use crate::fixture::distances::paired;
use crate::fixture::{self, empty, hostile, planted};

use bytecost_analysis::{
    Analysis, Caveat, CaveatKind, CountersCost, Estimate, Finding, NoValue, Point, Situation,
    Verdict,
};
use bytecost_report::{
    Findings, Style, audit, caveats, disturbances, explanations, findings_json, html, markdown,
    pictures, screen, terminal,
};
use bytecost_spec::{Axis, Cell, Value};

const PLAIN: Style = Style::plain(100);
const WIDE: Style = Style::plain(20_000);

/// All results that there are, recorded and planted.
fn all() -> Vec<Analysis> {
    let recorded = fixture::goldens().into_iter().map(|(_, a)| a);
    let all = [planted(), hostile(), empty(), paired()];
    recorded.chain(all).collect()
}

/// A result in the three media in which readers have it.
fn media(a: &Analysis) -> [String; 3] {
    [terminal(a, WIDE), markdown(a), html(a)]
}

/// The words of a text in any medium, without its marks.
fn words(text: &str) -> String {
    let mut out = String::new();
    let mut in_tag = false;
    for c in text.chars() {
        match c {
            '<' => in_tag = true,
            '>' => in_tag = false,
            _ if in_tag => {}
            _ => out.push(c),
        }
    }
    let entities = ["&lt;", "&gt;", "&#39;", "&quot;", "&amp;"];
    for (entity, c) in entities.iter().zip(["<", ">", "'", "\"", "&"]) {
        out = out.replace(entity, c);
    }
    plain(&out)
}

/// The same of a text of the result itself.
fn plain(text: &str) -> String {
    text.replace(['`', '\\', '*'], "")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn every_medium_has_all_texts_of_a_result() {
    for (study, a) in fixture::goldens() {
        let media = [
            plain(&terminal(&a, WIDE)),
            words(&markdown(&a)),
            words(&html(&a)),
        ];
        let asked = explanations(&a);
        let fixed: Vec<String> = asked
            .iter()
            .flat_map(|e| e.would_change.into_iter().chain([e.question]))
            .map(str::to_owned)
            .collect();
        let rulings: Vec<_> = a.audit.iter().map(audit::text).collect();
        let caveats = caveats(&a);
        let of_caveats = caveats
            .iter()
            .flat_map(|c| [&c.text, &c.evidence, &c.remedy]);
        let explanations = asked.iter().flat_map(|e| {
            let some = e.answer.iter().chain(&e.missing);
            some.chain(&e.numbers).chain(&e.evidence)
        });
        let cell_refusals = a.refused_cells.iter().map(|r| &r.why);
        let refusals = cell_refusals.chain(a.refused_counters.iter().map(|r| &r.why));
        let audit = rulings.iter().flat_map(|c| [&c.claim, &c.because]);
        let study_text = [&a.study.question, &a.study.prediction];
        let found = of_caveats.chain(explanations).chain(&fixed);
        let others = refusals.chain(audit).chain(study_text);
        for text in found.chain(others) {
            for (medium, text_of_medium) in ["terminal", "markdown", "page"].iter().zip(&media) {
                assert!(
                    text_of_medium.contains(&plain(text)),
                    "{study}, {medium}: {text}"
                );
            }
        }
    }
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for a in all() {
        for width in [40, 60, 80, 100, 140] {
            let style = Style::plain(width);
            for line in terminal(&a, style).lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }
}

#[test]
fn colour_changes_nothing_but_colour() {
    for a in [planted(), hostile()] {
        let plain = terminal(&a, PLAIN);
        let color = true;
        let painted = terminal(&a, Style { color, ..PLAIN });
        assert!(painted.contains("\x1b[1m") && painted.contains("\x1b[33m?"));
        let mut unpainted = String::new();
        let mut rest = painted.as_str();
        while let Some((before, after)) = rest.split_once("\x1b[") {
            unpainted.push_str(before);
            rest = after.split_once('m').unwrap().1;
        }
        assert_eq!(unpainted + rest, plain);
    }
}

#[test]
fn texts_cannot_break_out() {
    let a = hostile();
    let page = html(&a);
    let ours = html(&fixture::analysis()).matches("<script").count();
    assert_eq!(page.matches("<script").count(), ours);
    assert!(!page.contains("<img") && !page.contains("<b>bold"));
    let escaped = page.matches("&lt;script&gt;alert(1)").count();
    assert!(escaped > 50, "{escaped} texts were spoilt");
    for text in [terminal(&a, PLAIN), markdown(&a), page] {
        assert!(!text.contains('\x1b'), "an escape sequence got through");
    }
    let text = markdown(&a);
    assert!(!text.contains("<script") && !text.contains("<img") && !text.contains("<b>"));
}

#[test]
fn a_page_is_one_small_file_whose_links_lead_somewhere() {
    for a in all() {
        let page = html(&a);
        assert!(page.len() < 250_000, "{} bytes", page.len());
        let findings = findings_json(&a);
        assert!(findings.len() < 300_000, "{} bytes", findings.len());
        for outside in ["http://", "https://", "url(", "@import", " src=\""] {
            assert!(!page.contains(outside), "{outside}");
        }
        let values = |name: &str| -> Vec<String> {
            let before = format!(" {name}=\"");
            let found = page.split(&before).skip(1);
            found
                .map(|rest| rest.split('"').next().unwrap().to_owned())
                .collect()
        };
        let mut ids = values("id");
        ids.sort();
        assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "{ids:?}");
        for link in values("href").iter().filter_map(|l| l.strip_prefix('#')) {
            assert!(ids.iter().any(|id| id == link), "#{link}");
        }
        for tag in ["section", "div", "details", "table", "dl", "figure"] {
            let [open, close] = [format!("<{tag}"), format!("</{tag}>")];
            assert_eq!(page.matches(&open).count(), page.matches(&close).count());
        }
        assert_eq!(page.matches("<h1").count(), 1);
    }
}

#[test]
fn a_page_begins_with_the_answer_beside_a_figure_with_points() {
    for (study, a) in fixture::goldens() {
        let page = html(&a);
        let rest = page.split("class=\"hero").nth(1).unwrap();
        let (hero, _) = rest.split_once("</section>").unwrap();
        let has_points = a.figures.iter().flat_map(|f| &f.series);
        let mut points = has_points.flat_map(|s| &s.points);
        let is_drawn = points.any(|p| matches!(p, Point::Measured(_)));
        assert_eq!(hero.contains("class=\"dot\""), is_drawn, "{study}");
    }
}

#[test]
fn every_number_of_a_figure_is_in_its_table() {
    for (study, a) in fixture::goldens() {
        let page = html(&a);
        for part in page.split("<figure class=\"card chart").skip(1) {
            let (figure, _) = part.split_once("</figure>").unwrap();
            let (drawn, table) = figure.split_once("class=\"data").unwrap();
            let values = drawn.split("data-value=\"").skip(1);
            let mut count = 0;
            for value in values.map(|rest| rest.split([' ', '"']).next().unwrap()) {
                let entry = format!("<b>{value}</b>");
                assert!(table.contains(&entry), "{study}: {value}");
                count += 1;
            }
            assert_eq!(table.matches("<b>").count(), count, "{study}");
        }
    }
}

#[test]
fn a_run_that_came_to_nothing_still_says_so() {
    let a = empty();
    for text in media(&a) {
        assert!(text.contains("This run gives no answer."));
        assert!(text.contains("the budget ended before the first block"));
    }
}

#[test]
fn a_figure_shows_what_was_published_what_stalls_and_why_there_is_nothing() {
    let a = planted();
    let page = html(&a);
    let figure = |number: usize| {
        let figure = page.split(&format!("id=\"figure-{number}\"")).nth(1);
        figure.unwrap().split_once("</figure>").unwrap().0
    };
    let first = figure(1);
    assert!(first.contains("published by pa02-a, without an interval"));
    assert!(first.contains("data-stalled=\"waits for a delayed acknowledgement\""));
    assert!(first.contains("the clock &#60;stood&#62; still"));
    let none = "<p class=\"none\">not measured here: hardware counters: this machine has none</p>";
    assert!(figure(2).contains(none), "{}", figure(2));
    assert!(!figure(2).contains("class=\"dot\""));
    let published = page.split("id=\"published\"").nth(1).unwrap();
    assert!(published.contains("payload prepared (theirs refilled)"));
}

#[test]
fn a_table_of_one_column_is_in_a_report_once() {
    let mut a = fixture::analysis();
    let is_small = |id: &String| id.split('/').any(|value| value == "4KiB");
    a.cells.retain(|c| is_small(&c.id));
    a.findings.retain(|f| is_small(&f.cell));
    a.study.varied.retain(|axis| *axis == Axis::Mover);
    let first = "CPU time per byte (s/GB, less is better), mover against send: every estimate is in the table at the top.";
    let [text, report, page] = media(&a).map(|text| plain(&text));
    for medium in [&text, &report, &page] {
        assert!(medium.contains(first), "{medium}");
        assert!(medium.contains("1 table with every estimate") || medium == &text);
    }
    for amount in ["3.48 3.82× ▼", "1.06 1.17× ?"] {
        assert_eq!(text.matches(amount).count(), 1, "{text}");
    }
    assert_eq!(report.matches("3.48 (3.82×) ▼").count(), 1, "{report}");
}

#[test]
fn a_way_with_an_axis_of_its_own_stands_in_the_table_of_its_baseline() {
    let plain = fixture::analysis();
    let mut a = plain.clone();
    let ids: BTreeMap<String, String> = (a.cells.iter_mut())
        .filter(|c| c.cell.mover == "send-zerocopy")
        .map(|c| {
            c.cell.set(Axis::Reaping, "one-look").unwrap();
            let id = c.cell.id();
            (std::mem::replace(&mut c.id, id.clone()), id)
        })
        .collect();
    assert!(!ids.is_empty());
    for f in &mut a.findings {
        f.cell = ids.get(&f.cell).cloned().unwrap_or_else(|| f.cell.clone());
    }
    a.study.varied.push(Axis::Reaping);
    let [found, expected] = [&a, &plain].map(|a| screen(a, PLAIN, "", ""));
    assert_eq!(found, expected);
}

#[test]
fn a_place_with_a_default_is_named_with_others() {
    let mut a = fixture::analysis();
    let first = a.advice.situations[0].clone();
    assert!(first.uses.iter().any(|used| used.value == "send"));
    let with = |threads: &str| Situation {
        place: [&first.place[..], &[(Axis::Threads, Value::parse(threads))]].concat(),
        ..first.clone()
    };
    let unlike = Situation {
        uses: Vec::new(),
        ..with("8")
    };
    a.advice.situations = vec![first.clone(), with("4"), unlike];
    let text = screen(&a, PLAIN, "", "");
    let expected = "Data in memory  with 1 thread and with 4 threads, use `send`";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn a_mover_that_waits_in_other_cells_is_not_said_not_to_wait() {
    let mut a = fixture::golden("pa02-a");
    let says =
        |run: &Analysis| screen(run, PLAIN, "", "").contains("`sendmsg` (0.0185 to 0.142 ms)");
    assert!(says(&a));
    let is_stall = |c: &&Caveat| c.kind == "nagle-stall";
    let mut stall = a.caveats.iter().find(is_stall).unwrap().clone();
    let sendmsg = a.cells.iter().find(|c| c.cell.mover == "sendmsg").unwrap();
    stall.cells = vec![sendmsg.id.clone()];
    a.caveats.push(stall);
    assert!(!says(&a));
}

#[test]
fn a_gap_has_its_reason_as_a_footnote() {
    let mut a = fixture::analysis();
    let finding = a.findings[0].clone();
    let cell = a.cells.iter_mut().find(|c| c.id == finding.cell).unwrap();
    cell.estimates.remove(&finding.metric);
    let why = NoValue::Recorded("the clock stood still".to_owned());
    cell.absent.insert(finding.metric, why);
    let text = terminal(&a, PLAIN);
    assert!(text.contains("–¹") && text.contains("  –¹ the clock stood still"));
    assert!(markdown(&a).contains("–¹ the clock stood still"));
    let page = html(&a);
    assert!(page.contains("<li id=\"note-1-1\">the clock stood still</li>"));
    assert!(page.contains("href=\"#note-1-1\""));
}

#[test]
fn a_ratio_that_the_numbers_beside_it_do_not_give_has_a_footnote() {
    let note = "This ratio is not that of the two numbers.";
    let with = |ratio: f64, width: f64| {
        let mut a = fixture::analysis();
        let f = &mut a.findings[0];
        let value = |id: &str| {
            let cell = a.cells.iter().find(|c| c.id == id).unwrap();
            cell.estimates[&f.metric].value
        };
        let quotient = value(&f.cell) / value(&f.baseline);
        f.ratio = ratio * quotient;
        f.low = f.ratio / width;
        f.high = f.ratio * width;
        for other in &mut a.findings[1..] {
            // Wide enough for any numbers beside them.
            (other.low, other.high) = (0.0, f64::MAX);
        }
        media(&a).map(|text| text.contains(note))
    };
    assert_eq!(with(1.5, 1.2), [true; 3]);
    assert_eq!(with(1.5, 1.6), [false; 3], "the interval has the quotient");
    assert_eq!(with(1.02, 1.01), [false; 3], "so little does not matter");
}

#[test]
fn what_a_run_found_out_about_itself_is_in_every_medium() {
    let check = |change: fn(&mut Analysis), says: &str| {
        let mut a = fixture::analysis();
        change(&mut a);
        for text in media(&a) {
            assert!(text.replace("&gt;", ">").contains(says), "{says}: {text}");
        }
    };
    let withheld = |a: &mut Analysis| {
        a.findings[0].verdict = Verdict::NotDecided;
        a.findings[0].withheld = Some(CaveatKind("receiver-bound"));
    };
    let wide = |a: &mut Analysis| a.run.widest_interval = Some(7_476_570.825);
    let costly = |a: &mut Analysis| {
        let estimate = a.loop_floor_ns_per_message.unwrap();
        let ns = |value| Estimate { value, ..estimate };
        a.counters_cost = vec![CountersCost {
            mover: "send".to_owned(),
            without_ns_per_message: ns(2.14),
            with_ns_per_message: ns(2.5),
        }];
    };
    let cost = "send 2.50 instead of 2.14 ns of CPU time a message";
    check(withheld, "the receiver is the bottleneck");
    check(wide, "±>999\u{a0}%");
    check(costly, cost);
}

#[test]
fn what_is_not_judged_looks_unlike_what_is_not_decided() {
    let mut a = fixture::analysis();
    assert!(media(&a).iter().all(|text| !text.contains("· not judged")));
    a.findings[0].verdict = Verdict::NotJudged;
    (a.findings[0].p_corrected, a.findings[0].level) = (None, None);
    for text in media(&a) {
        assert!(text.contains("? not decided, · not judged"), "{text}");
    }
    assert!(html(&a).contains("data-verdict=\"bare\""));
}

#[test]
fn findings_can_be_read_back() {
    for a in all() {
        // All but the digits beyond the fifth.
        let text = findings_json(&a);
        let back: Findings<'_> = serde_json::from_str(&text).unwrap();
        assert_eq!(back.caveats, caveats(&a));
        assert_eq!(back.disturbances, disturbances(&a));
        let back = fixture::with_caveats_of(back.analysis.into_owned(), &a);
        assert!(findings_json(&back) == text, "something was lost");
        let refused = |of: &Analysis| {
            let refused = of
                .refused_cells
                .iter()
                .map(|r| (r.cell.clone(), r.why.clone()));
            refused.collect::<BTreeMap<Cell, String>>()
        };
        assert_eq!(refused(&back), refused(&a));
        let keys = a.findings.iter().map(Finding::key);
        assert!(back.findings.iter().map(Finding::key).eq(keys));
    }
}

#[test]
fn pictures_are_of_all_figures() {
    for (study, a) in fixture::goldens() {
        let drawn = a.figures.len() + a.matrices.len();
        assert!(pictures(&a).len() >= drawn, "{study}");
    }
}

#[test]
fn the_first_line_says_where_ends_were_pinned_and_that_some_were_free() {
    let line_of = |placements: [&str; 2]| {
        let mut a = fixture::golden("send-copies");
        for (of, cell) in a.cells.iter_mut().enumerate() {
            cell.cell.placement = placements[of % 2].parse().unwrap();
        }
        let screen = screen(&a, WIDE, "report.html", "run");
        screen.lines().next().unwrap().to_owned()
    };
    assert!(!line_of(["free", "free"]).contains("placement"));
    let pinned = line_of(["pinned", "pinned"]);
    assert!(pinned.contains(" · placement pinned · "), "{pinned}");
    let both = line_of(["free", "pinned"]);
    assert!(both.contains(" · placement free and pinned · "), "{both}");
}
