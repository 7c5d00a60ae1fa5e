//! The result for a terminal: the answer first, then a table a question, then what weakens it.

use bytecost_analysis::Analysis;
use bytecost_spec::units;

use crate::books;
use crate::counted::{CountTable, counted, roles};
use crate::footprint;
use crate::grid::TextGrid;
use crate::numbers::{self, bare_ratio, mark, superscript};
use crate::question::{QuestionEntry, QuestionTable, questions, value_in_words};
use crate::style::{Ink, Style};
use crate::text::{clean, columns, count, wrap};
use crate::{ceiling, descriptions};

/// The widest label of a row before it is broken over lines.
const LABEL_COLUMNS: usize = 24;
/// The widest name of a cell.
const CELL_COLUMNS: usize = 40;
/// The widest heading of a column before it is broken over lines.
const HEADING_COLUMNS: usize = 20;

#[allow(dead_code)]
mod print;
mod reasons;

pub(crate) use print::print;

/// Renders a result for a terminal. No line is wider than `style.width`; every line ends in a
/// newline.
#[must_use]
pub fn terminal(a: &Analysis, style: Style) -> String {
    let mut page = Page {
        style,
        out: String::new(),
    };
    page.answer(a);
    page.overview(a);
    page.crossovers(a);
    page.explanations(a);
    page.claims(a);
    page.tables(a);
    if let Some(table) = books::short(a) {
        page.counted("Where the CPU time of each cell went", table);
    }
    if let Some(table) = counted(a) {
        page.counted("What a byte and a message take (counted)", table);
    }
    if let Some(mut table) = roles(a) {
        table.shorten();
        page.counted("What each role uses for a request", table);
    }
    page.footprints(a);
    page.caveats(a);
    page.refusals(a);
    page.failures(a);
    page.left_out(a);
    page.foot(a);
    page.out
}

struct Page {
    style: Style,
    out: String,
}

impl Page {
    fn line(&mut self, line: &str) {
        self.out.push_str(line);
        self.out.push('\n');
    }

    fn gap(&mut self) {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
    }

    fn prose(&mut self, ink: Option<Ink>, text: &str, first: &str, rest: &str) {
        for line in wrap(text, self.style.columns(), first, rest) {
            match ink {
                Some(ink) => self.line(&self.style.paint(ink, &line)),
                None => self.line(&line),
            }
        }
    }

    fn heading(&mut self, text: &str) {
        self.gap();
        self.prose(Some(Ink::Strong), text, "", "  ");
    }

    fn answer(&mut self, a: &Analysis) {
        if let Some(early) = &a.run.ended_early {
            let text = format!("This run ended early: {early}");
            self.prose(Some(Ink::Warn), &text, "! ", "  ");
        }
        let imported = descriptions::imported(a);
        match a.answers.split_first() {
            _ if imported.is_some() => {}
            Some((headline, rest)) => {
                self.prose(Some(Ink::Strong), &headline.sentence, "", "");
                let (told, folded) = descriptions::told_at_once(rest.iter().collect());
                for answer in &told {
                    self.prose(None, &answer.sentence, "• ", "  ");
                }
                if !folded.is_empty() {
                    self.more(told.len() + folded.len(), told.len());
                }
            }
            None => self.prose(Some(Ink::Strong), "This run gives no answer.", "", ""),
        }
        if let Some(published) = imported {
            return self.imported(a, published);
        }
        self.gap();
        self.prose(None, &format!("Asked: {}", a.study.question), "", "  ");
        let expected = format!("Expected before the run: {}", a.study.prediction);
        self.prose(None, &expected, "", "  ");
    }

    fn tables(&mut self, a: &Analysis) {
        let all = questions(a);
        let mut notes: Vec<String> = Vec::new();
        for q in &all {
            self.heading(&descriptions::metric_heading(q));
            let panel = descriptions::panel_heading(q);
            self.prose(Some(Ink::Faint), &panel, "  ", "  ");
            self.table(q, &mut notes);
        }
        if all.is_empty() {
            return;
        }
        self.gap();
        let legend = format!(
            "Each entry: the estimate, its ratio to the baseline, the verdict: ▲ better  ▼ worse  = no difference that matters (within ±{})  ? not decided",
            numbers::percent(a.study.smallest_effect)
        );
        for line in wrap(&legend, self.style.columns(), "  ", "  ") {
            self.line(&self.style.paint_verdicts(&line));
        }
        for (i, note) in notes.iter().enumerate() {
            let first = format!("  –{} ", superscript(i + 1));
            let rest = " ".repeat(columns(&first));
            self.prose(Some(Ink::Faint), note, &first, &rest);
        }
    }

    fn footprints(&mut self, a: &Analysis) {
        let Some(table) = footprint::table(a) else {
            return;
        };
        self.heading(table.heading);
        self.prose(Some(Ink::Faint), &table.panel, "  ", "  ");
        let mut header = vec!["cell".to_owned()];
        header.extend(table.columns);
        let rows: Vec<Vec<String>> = table
            .rows
            .into_iter()
            .map(|(name, entries)| std::iter::once(name).chain(entries).collect())
            .collect();
        let mut most = vec![CELL_COLUMNS];
        most.resize(header.len(), HEADING_COLUMNS);
        let layout = TextGrid {
            width: self.style.columns() + 2,
            indent: "  ",
            most: &most,
            right: true,
        };
        for (i, line) in layout.lines(&header, &rows).iter().enumerate() {
            match i {
                0 => self.line(&self.style.paint(Ink::Faint, line)),
                _ => self.line(line),
            }
        }
        for note in &table.notes {
            self.prose(Some(Ink::Faint), note, "  ", "  ");
        }
    }

    /// One table, cut into several below each other where its columns do not fit.
    fn table(&mut self, q: &QuestionTable<'_>, notes: &mut Vec<String>) {
        let texts = entry_texts(q, notes);
        let label = q.rows.iter().map(|r| columns(&clean(&r.name))).max();
        let label = label
            .unwrap_or(0)
            .max(columns(q.axis.name()))
            .min(LABEL_COLUMNS);
        let headings: Vec<String> = match q.x {
            Some(x) => q.columns.iter().map(|c| value_in_words(x, c)).collect(),
            None => vec![q.metric.measure.row().unit.to_owned()],
        };
        let widths: Vec<usize> = (0..headings.len())
            .map(|i| {
                let entries = texts.iter().map(|row| columns(&row[i])).max().unwrap_or(0);
                entries.max(columns(&headings[i]).min(HEADING_COLUMNS))
            })
            .collect();
        let room = self.style.columns().saturating_sub(2 + label + 2);
        for (part, range) in fitting(&widths, room).into_iter().enumerate() {
            if part > 0 {
                self.gap();
            }
            let mut header = vec![q.axis.name().to_owned()];
            header.extend_from_slice(&headings[range.clone()]);
            let rows: Vec<Vec<String>> = q
                .rows
                .iter()
                .zip(&texts)
                .map(|(row, texts)| {
                    let mut cells = vec![row.name.clone()];
                    cells.extend_from_slice(&texts[range.clone()]);
                    cells
                })
                .collect();
            let mut most = vec![label];
            most.extend_from_slice(&widths[range]);
            let layout = TextGrid {
                width: self.style.columns() + 2,
                indent: "  ",
                most: &most,
                right: true,
            };
            let lines = layout.lines(&header, &rows);
            for (i, line) in lines.iter().enumerate() {
                match i {
                    0 => self.line(&self.style.paint(Ink::Faint, line)),
                    _ => self.line(&self.style.paint_verdicts(line)),
                }
            }
        }
    }

    /// The first columns of what was counted; the page has all.
    fn counted(&mut self, heading: &str, table: CountTable) {
        const COLUMNS: usize = 7;
        self.heading(heading);
        let header: Vec<String> = table.columns.iter().take(COLUMNS).cloned().collect();
        let rows: Vec<Vec<String>> = table
            .rows
            .into_iter()
            .map(|(name, texts)| {
                let texts = texts.into_iter().take(COLUMNS - 1);
                std::iter::once(name).chain(texts).collect()
            })
            .collect();
        let layout = TextGrid {
            width: self.style.columns() + 2,
            indent: "  ",
            most: &[36, 10],
            right: true,
        };
        for (i, line) in layout.lines(&header, &rows).iter().enumerate() {
            match i {
                0 => self.line(&self.style.paint(Ink::Faint, line)),
                _ => self.line(line),
            }
        }
        for note in &table.notes {
            self.prose(Some(Ink::Faint), note, "  ", "    ");
        }
    }

    fn caveats(&mut self, a: &Analysis) {
        if a.caveats.is_empty() {
            return;
        }
        self.heading("Caveats");
        for caveat in &a.caveats {
            self.prose(Some(Ink::Warn), &caveat.text, "! ", "  ");
            self.prose(None, &format!("Evidence: {}", caveat.evidence), "  ", "  ");
            self.prose(None, &format!("Remedy: {}", caveat.remedy), "  ", "  ");
            if !caveat.cells.is_empty() {
                let ids: Vec<&str> = caveat.cells.iter().map(String::as_str).collect();
                let touched = format!("Affects: {}", descriptions::cells(&ids, &a.study.varied));
                self.prose(Some(Ink::Faint), &touched, "  ", "  ");
            }
        }
    }

    fn refusals(&mut self, a: &Analysis) {
        if a.refusals.is_empty() {
            return;
        }
        self.heading("What cannot be had here");
        for (what, why) in descriptions::refusals(a) {
            self.prose(None, &format!("{what}: {why}"), "- ", "  ");
        }
    }

    fn failures(&mut self, a: &Analysis) {
        if a.failures.is_empty() {
            return;
        }
        let heading = count(a.failures.len(), "trial failed", "trials failed");
        self.heading(&heading);
        for failure in &a.failures {
            let text = format!(
                "block {}, {}: {}",
                failure.trial.block,
                descriptions::cells(&[&failure.cell], &a.study.varied),
                failure.reason
            );
            self.prose(Some(Ink::Bad), &text, "✗ ", "  ");
        }
    }

    fn left_out(&mut self, a: &Analysis) {
        if a.left_out.is_empty() {
            return;
        }
        self.heading("Left out of this run");
        for left in &a.left_out {
            let cells = count(left.cells, "cell", "cells");
            let text = format!("{} ({cells}): {}", left.what, left.why);
            self.prose(None, &text, "- ", "  ");
        }
    }

    fn foot(&mut self, a: &Analysis) {
        if descriptions::imported(a).is_some() {
            return;
        }
        self.gap();
        let mut about = descriptions::run(a);
        if let Some(widest) = descriptions::widest(a) {
            about = format!("{about}; {widest}");
        }
        self.prose(Some(Ink::Faint), &about, "", "  ");
        for floor in descriptions::floors(a) {
            self.prose(Some(Ink::Faint), &floor, "", "  ");
        }
        self.prose(Some(Ink::Faint), &descriptions::place_line(a), "", "  ");
        if let Some(hint) = ceiling::hint(a) {
            self.prose(Some(Ink::Faint), hint, "", "  ");
        }
    }
}

/// The place of a reason among the footnotes, from 1; added where it is new.
pub(crate) fn note(notes: &mut Vec<String>, why: &str) -> usize {
    let why = clean(why);
    match notes.iter().position(|n| *n == why) {
        Some(at) => at + 1,
        None => {
            notes.push(why);
            notes.len()
        }
    }
}

/// The text of every entry, its three parts aligned within each column.
fn entry_texts(q: &QuestionTable<'_>, notes: &mut Vec<String>) -> Vec<Vec<String>> {
    let parts: Vec<Vec<(String, String, String)>> = q
        .rows
        .iter()
        .map(|row| {
            row.entries
                .iter()
                .map(|e| entry_parts(e, row.is_baseline, notes))
                .collect()
        })
        .collect();
    let widest = |column: usize, part: fn(&(String, String, String)) -> &String| {
        let widths = parts.iter().map(|row| columns(part(&row[column])));
        widths.max().unwrap_or(0)
    };
    parts
        .iter()
        .map(|row| {
            row.iter()
                .enumerate()
                .map(|(i, (estimate, ratio, mark))| {
                    let ratios = widest(i, |p| &p.1);
                    let marks = widest(i, |p| &p.2);
                    let ratio = format!("{}{ratio}", " ".repeat(ratios - columns(ratio)));
                    let mark = format!("{mark}{}", " ".repeat(marks - columns(mark)));
                    // A no-break space keeps the three together when the table is laid out.
                    format!("{estimate} {ratio} {mark}").replace(' ', "\u{a0}")
                })
                .collect()
        })
        .collect()
}

fn entry_parts(
    entry: &QuestionEntry<'_>,
    is_baseline: bool,
    notes: &mut Vec<String>,
) -> (String, String, String) {
    match entry {
        QuestionEntry::Gap(why) => {
            let note = superscript(note(notes, why));
            ("–".to_owned() + &note, String::new(), String::new())
        }
        QuestionEntry::Measured(e, finding) => {
            let value = units::number(e.value);
            match finding {
                Some(f) => (
                    value,
                    format!("{}×", bare_ratio(f.ratio)),
                    mark(f.verdict).to_owned(),
                ),
                None if is_baseline => (value, "1×".to_owned(), String::new()),
                None => (value, String::new(), String::new()),
            }
        }
    }
}

/// Cuts columns into runs that fit into the room; at least one column a run.
fn fitting(widths: &[usize], room: usize) -> Vec<std::ops::Range<usize>> {
    let mut runs = Vec::new();
    let (mut start, mut used) = (0, 0);
    for (i, width) in widths.iter().enumerate() {
        if i > start && used + width + 2 > room + 2 {
            runs.push(start..i);
            (start, used) = (i, 0);
        }
        used += width + 2;
    }
    if start < widths.len() {
        runs.push(start..widths.len());
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_cut_where_they_no_longer_fit() {
        let check = |widths: &[usize], room: usize, expected: &[(usize, usize)]| {
            let found: Vec<(usize, usize)> = fitting(widths, room)
                .into_iter()
                .map(|r| (r.start, r.end))
                .collect();
            assert_eq!(found, expected, "{widths:?} in {room}");
        };
        check(&[10, 10, 10], 34, &[(0, 3)]);
        check(&[10, 10, 10], 33, &[(0, 2), (2, 3)]);
        check(&[50, 10], 20, &[(0, 1), (1, 2)]);
        check(&[], 20, &[]);
    }
}
