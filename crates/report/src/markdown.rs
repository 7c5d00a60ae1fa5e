//! The result as Markdown, in the tables of GitHub, for pasting into an issue.

use bytecost_analysis::Analysis;
use bytecost_spec::units;

use crate::descriptions;
use crate::footprint;
use crate::heat::{self, heats};
use crate::numbers::{self, mark, ratio, superscript};
use crate::question::{QuestionEntry, QuestionTable, questions, value_in_words};
use crate::terminal::note;
use crate::text::{clean, count, spans};

mod reasons;

/// Renders a result as Markdown with the same content as [`crate::terminal`].
#[must_use]
pub fn markdown(a: &Analysis) -> String {
    let mut out = Vec::new();
    answer(a, &mut out);
    reasons::overview(a, &mut out);
    reasons::crossovers(a, &mut out);
    reasons::explanations(a, &mut out);
    reasons::claims(a, &mut out);
    reasons::published(a, &mut out);
    tables(a, &mut out);
    distances(a, &mut out);
    footprints(a, &mut out);
    caveats(a, &mut out);
    lists(a, &mut out);
    foot(a, &mut out);
    let mut text = out.join("\n");
    text.push('\n');
    text
}

fn answer(a: &Analysis, out: &mut Vec<String>) {
    out.push(format!("# {}\n", prose(&a.study.title)));
    if let Some(early) = &a.run.ended_early {
        out.push(format!("> This run ended early: {}\n", prose(early)));
    }
    if let Some(published) = descriptions::imported(a) {
        return reasons::imported(published, out);
    }
    match a.answers.split_first() {
        Some((headline, rest)) => {
            out.push(format!("**{}**\n", prose(&headline.sentence)));
            for answer in rest {
                out.push(format!("- {}", prose(&answer.sentence)));
            }
            if !rest.is_empty() {
                out.push(String::new());
            }
        }
        None => out.push("**This run gives no answer.**\n".to_owned()),
    }
    out.push(format!("Asked: {}\n", prose(&a.study.question)));
    let expected = prose(&a.study.prediction);
    out.push(format!("Expected before the run: {expected}\n"));
}

fn tables(a: &Analysis, out: &mut Vec<String>) {
    let all = questions(a);
    let mut notes = Vec::new();
    for q in &all {
        out.push(format!("## {}\n", prose(&descriptions::metric_heading(q))));
        out.push(format!("{}\n", prose(&descriptions::panel_heading(q))));
        table(q, &mut notes, out);
        out.push(String::new());
    }
    if all.is_empty() {
        return;
    }
    out.push(format!(
        "Each entry: the estimate, its ratio to the baseline, the verdict: ▲ better, ▼ worse, = no difference that matters (within ±{}), ? not decided.\n",
        numbers::percent(a.study.smallest_effect)
    ));
    for (i, why) in notes.iter().enumerate() {
        out.push(format!("- –{} {}", superscript(i + 1), prose(why)));
    }
    if !notes.is_empty() {
        out.push(String::new());
    }
}

fn footprints(a: &Analysis, out: &mut Vec<String>) {
    let Some(table) = footprint::table(a) else {
        return;
    };
    out.push(format!("## {}\n", table.heading));
    out.push(format!("{}\n", prose(&table.panel)));
    let columns: Vec<String> = table.columns.iter().map(|c| prose(c)).collect();
    out.push(format!("| cell | {} |", columns.join(" | ")));
    out.push(format!("| :--- |{}", " ---: |".repeat(columns.len())));
    for (name, entries) in &table.rows {
        out.push(format!("| {} | {} |", prose(name), entries.join(" | ")));
    }
    out.push(String::new());
    for note in &table.notes {
        out.push(format!("{}\n", prose(note)));
    }
}

fn distances(a: &Analysis, out: &mut Vec<String>) {
    for h in heats(a) {
        out.push(format!(
            "## {}: what the distance between two CPUs costs\n",
            prose(&h.title)
        ));
        out.push(format!("{}\n", prose(&h.sub)));
        out.push(heat::markdown(&h));
        out.push(String::new());
        out.push(format!("{}\n", prose(&h.told)));
    }
}

fn table(q: &QuestionTable<'_>, notes: &mut Vec<String>, out: &mut Vec<String>) {
    let headings: Vec<String> = match q.x {
        Some(x) => q
            .columns
            .iter()
            .map(|c| prose(&value_in_words(x, c)))
            .collect(),
        None => vec![prose(q.metric.measure.row().unit)],
    };
    out.push(format!("| {} | {} |", q.axis.name(), headings.join(" | ")));
    out.push(format!("| :--- |{}", " ---: |".repeat(headings.len())));
    for row in &q.rows {
        let entries: Vec<String> = row
            .entries
            .iter()
            .map(|entry| match entry {
                QuestionEntry::Gap(why) => format!("–{}", superscript(note(notes, why))),
                QuestionEntry::Measured(e, None) => units::number(e.value),
                QuestionEntry::Measured(e, Some(f)) => format!(
                    "{} ({}) {}",
                    units::number(e.value),
                    ratio(f.ratio),
                    mark(f.verdict)
                ),
            })
            .collect();
        let name = prose(&row.name);
        let name = if row.is_baseline {
            format!("{name} (baseline)")
        } else {
            name
        };
        out.push(format!("| {name} | {} |", entries.join(" | ")));
    }
}

fn caveats(a: &Analysis, out: &mut Vec<String>) {
    if a.caveats.is_empty() {
        return;
    }
    out.push("## Caveats\n".to_owned());
    for caveat in &a.caveats {
        let ids: Vec<&str> = caveat.cells.iter().map(String::as_str).collect();
        let touched = match ids.is_empty() {
            true => String::new(),
            false => format!(
                " Affects: {}.",
                prose(&descriptions::cells(&ids, &a.study.varied))
            ),
        };
        out.push(format!(
            "- **{}** Evidence: {} Remedy: {}{touched}",
            prose(&caveat.text),
            prose(&caveat.evidence),
            prose(&caveat.remedy)
        ));
    }
    out.push(String::new());
}

fn lists(a: &Analysis, out: &mut Vec<String>) {
    let varied = &a.study.varied;
    let refusals = descriptions::refusals(a).into_iter();
    let refusals = refusals.map(|(what, why)| format!("{}: {}", prose(&what), prose(&why)));
    let failures = a.failures.iter().map(|f| {
        let cell = descriptions::cells(&[&f.cell], varied);
        format!(
            "block {}, {}: {}",
            f.trial.block,
            prose(&cell),
            prose(&f.reason)
        )
    });
    let left_out = a.left_out.iter().map(|l| {
        let cells = count(l.cells, "cell", "cells");
        format!("{} ({cells}): {}", prose(&l.what), prose(&l.why))
    });
    let parts: [(&str, Vec<String>); 3] = [
        ("What cannot be had here", refusals.collect()),
        ("Trials that failed", failures.collect()),
        ("Left out of this run", left_out.collect()),
    ];
    for (heading, items) in parts {
        if !items.is_empty() {
            out.push(format!("## {heading}\n"));
            out.extend(items.iter().map(|item| format!("- {item}")));
            out.push(String::new());
        }
    }
}

fn foot(a: &Analysis, out: &mut Vec<String>) {
    let fence = "`".repeat(3);
    let command = format!("{fence}sh\n{}\n{fence}", clean(&descriptions::command(a)));
    if descriptions::imported(a).is_some() {
        return out.push(command);
    }
    let mut about = descriptions::run(a);
    if let Some(widest) = descriptions::widest(a) {
        about = format!("{about}; {widest}");
    }
    let floors = descriptions::floors(a)
        .into_iter()
        .map(|floor| prose(&floor));
    let sentences: Vec<String> = [format!("{about}.")].into_iter().chain(floors).collect();
    out.push(format!("{}\n", sentences.join(" ")));
    out.push(format!("{}\n", prose(&descriptions::place_line(a))));
    out.push(command);
}

/// A text within a line or an entry of a table: what is code stays code, everything else is
/// escaped so that it stands there as it is.
fn prose(text: &str) -> String {
    let mut out = String::new();
    for span in spans(text) {
        if span.code {
            out.push('`');
            out.push_str(&span.text.replace('|', "\\|"));
            out.push('`');
            continue;
        }
        for c in span.text.chars() {
            match c {
                '<' => out.push_str("&lt;"),
                '>' => out.push_str("&gt;"),
                '&' => out.push_str("&amp;"),
                '\\' | '|' | '*' | '_' | '[' | ']' | '`' | '#' | '~' => {
                    out.push('\\');
                    out.push(c);
                }
                _ => out.push(c),
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stands_in_markdown_as_it_is() {
        for (text, expected) in [
            ("a < b | c", "a &lt; b \\| c"),
            ("`send_x|y` is _fast_", "`send_x\\|y` is \\_fast\\_"),
            ("<img src=x>", "&lt;img src=x&gt;"),
            ("[a](b)", "\\[a\\](b)"),
        ] {
            assert_eq!(prose(text), expected);
        }
    }
}
