//! A document for a terminal.

use crate::document::{
    Align, DocBlock, DocColumn, DocEntry, DocLine, DocMark, DocTable, DocTerm, Document, MarkKind,
};
use crate::grid::{self, ROW_COLUMNS, widest};
use crate::numbers::superscript;
use crate::style::{Ink, MARKS, Style, VERDICTS};
use crate::text::{clean, columns, wrap};

/// The widest label with its lines to the right.
const LABEL_COLUMNS: usize = 24;
/// The widest heading of a column before it is broken over lines.
const HEADING_COLUMNS: usize = 20;
/// The least room for notes in a table.
const NOTE_COLUMNS: usize = 20;
/// The least columns for lines to the right of labels; with fewer, the first line follows `label:
/// `.
const LEAST_BESIDE: usize = 30;

/// Prints a document. No line is wider than `style.width`; every line ends in a newline.
pub(crate) fn print(document: &Document, style: Style) -> String {
    let mut printer = Printer::new(style);
    printer.blocks(&document.blocks);
    printer.out
}

/// Lines of text to the right of their labels, which have `label` columns.
pub(crate) fn labelled(
    rows: impl IntoIterator<Item = (&'static str, String)>,
    label: usize,
    style: Style,
) -> String {
    let rest = " ".repeat(label + 2);
    let wrapped = |(name, text): (&str, String)| {
        let first = format!("  {name:<label$}");
        wrap(&text, style.columns(), &first, &rest)
    };
    let lines = rows.into_iter().flat_map(wrapped);
    lines.map(|line| line + "\n").collect()
}

pub(crate) struct Printer {
    style: Style,
    indent: String,
    pub out: String,
    /// True if an empty line may stand before the next block: not below a heading, nor in a card.
    may_gap: bool,
}

impl Printer {
    pub(crate) fn new(style: Style) -> Printer {
        Printer {
            style,
            indent: String::new(),
            out: String::new(),
            may_gap: false,
        }
    }

    pub(crate) fn line(&mut self, line: &str) {
        self.out.push_str(line);
        self.out.push('\n');
    }

    /// A text over as many lines as it takes; the signs of a plain one are painted.
    pub(crate) fn wrapped(&mut self, ink: Ink, text: &str, first: &str, rest: &str) {
        let [first, rest] = [first, rest].map(|s| format!("{}{s}", self.indent));
        for line in wrap(text, self.style.columns(), &first, &rest) {
            match ink {
                Ink::Plain => self.line(&self.style.paint_signs(&line, MARKS)),
                ink => self.line(&self.style.paint(ink, &line)),
            }
        }
    }

    fn blocks(&mut self, blocks: &[DocBlock]) {
        let mut before: Option<&DocBlock> = None;
        for block in blocks.iter().filter(|block| block.is_in_text()) {
            let runs_on = match before {
                Some(DocBlock::Paragraph(_)) => {
                    matches!(block, DocBlock::Paragraph(_) | DocBlock::List(_))
                }
                Some(DocBlock::List(_)) => matches!(block, DocBlock::Fold { is_rest: true, .. }),
                _ => false,
            };
            if self.may_gap && !runs_on && !self.out.is_empty() {
                self.line("");
            }
            self.block(block);
            before = Some(block);
        }
    }

    fn block(&mut self, block: &DocBlock) {
        self.may_gap = true;
        match block {
            DocBlock::Heading(heading) => {
                self.wrapped(Ink::Strong, &heading.text, "", "  ");
                self.may_gap = false;
            }
            DocBlock::Paragraph(line) => self.doc_line(line, ""),
            DocBlock::List(lines) => {
                for line in lines {
                    self.doc_line(line, "•");
                }
            }
            DocBlock::Terms(terms) => self.terms(terms),
            DocBlock::Table(table) => self.table(table),
            DocBlock::Notes(notes) => {
                for (i, note) in notes.iter().enumerate() {
                    let first = format!("  –{} ", superscript(i + 1));
                    let rest = " ".repeat(columns(&first));
                    self.wrapped(Ink::Faint, note, &first, &rest);
                }
            }
            DocBlock::Figure(_, instead) => {
                self.may_gap = false;
                self.blocks(instead);
            }
            DocBlock::Card(blocks) => {
                for inside in blocks.iter().filter(|inside| inside.is_in_text()) {
                    self.block(inside);
                }
            }
            DocBlock::PageOnly(_) => {}
            DocBlock::Fold {
                title,
                blocks,
                is_rest,
            } => {
                let indent = self.indent.len();
                if !is_rest {
                    self.wrapped(Ink::Faint, title, "  ", "  ");
                    self.indent.push_str("  ");
                }
                self.may_gap = false;
                self.blocks(blocks);
                self.indent.truncate(indent);
            }
            DocBlock::Code(text) => self.wrapped(Ink::Plain, text, "  ", "    "),
        }
    }

    fn doc_line(&mut self, line: &DocLine, bullet: &str) {
        let (ink, sign) = match (line.mark, line.ink) {
            (Some(mark), _) => (mark.kind.ink(), mark.sign),
            (None, Ink::Warning) => (Ink::Warning, "!"),
            (None, ink) => (ink, bullet),
        };
        match sign {
            "" => self.wrapped(ink, &line.text, "", ""),
            sign => self.wrapped(ink, &line.text, &format!("{sign} "), "  "),
        }
    }

    /// Labels with their lines to the right: in a column where labels are short and the terminal is
    /// wide, else after `label: `.
    fn terms(&mut self, terms: &[DocTerm]) {
        let label_of = |term: &DocTerm| DocMark::sign_of(term.mark) + &clean(&term.label);
        let names: Vec<String> = terms.iter().map(label_of).collect();
        let widest = names.iter().map(|name| columns(name)).max().unwrap_or(0);
        let room = self.style.columns().saturating_sub(self.indent.len());
        let is_beside = widest <= LABEL_COLUMNS && widest + LEAST_BESIDE < room;
        let rest = " ".repeat(if is_beside { widest + 2 } else { 4 });
        for (term, name) in terms.iter().zip(names) {
            let mut head = if is_beside {
                format!("{name}{}", " ".repeat(widest + 2 - columns(&name)))
            } else {
                format!("{name}: ")
            };
            // Of several lines one sees where each begins.
            let hang = if term.lines.len() > 1 { "  " } else { "" };
            for line in &term.lines {
                let ink = match (line.ink, term.mark) {
                    (Ink::Plain, Some(mark)) if mark.kind == MarkKind::Open => Ink::Warning,
                    (ink, _) => ink,
                };
                if is_beside {
                    self.wrapped(ink, &line.text, &head, &format!("{rest}{hang}"));
                    head.clone_from(&rest);
                } else {
                    self.wrapped(ink, &format!("{head}{}", line.text), "  ", &rest);
                    head = "  ".to_owned();
                }
            }
        }
    }

    fn table(&mut self, table: &DocTable) {
        let last = table.columns.last();
        let has_notes = table.columns.len() > 2 && last.is_some_and(|c| c.align == Align::Left);
        let room = self.style.columns().saturating_sub(2 + self.indent.len());
        let is_narrow = || columns_of_numbers(table) + NOTE_COLUMNS > room;
        if has_notes && table.is_matrix() && is_narrow() {
            let (numbers, notes) = table.without_notes();
            self.table(&numbers);
            for (name, note) in notes {
                self.wrapped(Ink::Plain, &format!("{name}: {note}"), "  ", "    ");
            }
            return;
        }
        if !table.caption.is_empty() {
            self.wrapped(Ink::Faint, &table.caption, "", "  ");
        }
        let texts = entry_texts(table);
        let signs = if table.is_marked() { VERDICTS } else { MARKS };
        let numbers = table.columns.iter().skip(1);
        let parts = if numbers.clone().all(|c| c.align == Align::Right) {
            // A table of numbers is cut into several below each other where it does not fit.
            let widths = (numbers.enumerate()).map(|(i, column)| {
                let heading = columns(&column.heading).min(HEADING_COLUMNS);
                widest(&texts, i + 1).max(heading)
            });
            let heading = table.columns.first().map_or(0, |c| columns(&c.heading));
            let label = widest(&texts, 0).max(heading).min(ROW_COLUMNS);
            fitting(&widths.collect::<Vec<_>>(), room.saturating_sub(label + 2))
        } else {
            std::iter::once(0..numbers.len()).collect()
        };
        for (number, part) in parts.into_iter().enumerate() {
            if number > 0 {
                self.line("");
            }
            let kept = |i: &usize| *i == 0 || part.contains(&(i - 1));
            let chosen: Vec<usize> = (0..table.columns.len()).filter(kept).collect();
            let heads: Vec<_> = chosen.iter().map(|i| &table.columns[*i]).collect();
            let row = |row: &Vec<String>| -> Vec<String> {
                let entries = chosen.iter().filter_map(|i| row.get(*i));
                entries.cloned().collect()
            };
            let lines = grid::lines(&heads, texts.iter().map(row).collect(), room);
            for (i, line) in lines.iter().enumerate() {
                let line = format!("{}  {line}", self.indent);
                match i {
                    0 => self.line(&self.style.paint(Ink::Faint, &line)),
                    _ => self.line(&self.style.paint_signs(&line, signs)),
                }
            }
        }
    }
}

/// Number of columns that all but the last column of a table take, with the blanks after each.
pub(crate) fn columns_of_numbers(table: &DocTable) -> usize {
    let texts = entry_texts(table);
    let width =
        |(i, column): (usize, &DocColumn)| widest(&texts, i).max(columns(&column.heading)) + 2;
    let widths = table.columns.iter().enumerate().map(width);
    widths.take(table.columns.len().saturating_sub(1)).sum()
}

/// The text of every entry; the parts of an entry with a ratio or a mark are on lines of their own.
fn entry_texts(table: &DocTable) -> Vec<Vec<String>> {
    let value = |entry: &DocEntry| {
        let note = entry.note.map(superscript).unwrap_or_default();
        format!("{}{note}", clean(&entry.text))
    };
    let widest = |column: usize, part: fn(&DocEntry) -> &str| {
        let entries = table.rows.iter().filter_map(|row| row.entries.get(column));
        entries.map(|entry| columns(part(entry))).max().unwrap_or(0)
    };
    let text = |(i, entry): (usize, &DocEntry)| {
        let mut text = value(entry);
        let is_number = table.columns.get(i).map(|c| c.align) == Some(Align::Right);
        if !is_number {
            return DocMark::sign_of(entry.mark) + &text;
        }
        let parts: [fn(&DocEntry) -> &str; 2] = [|e| &e.ratio, |e| e.mark.map_or("", |m| m.sign)];
        for part in parts {
            let (width, part) = (widest(i, part), part(entry));
            if width > 0 {
                let blanks = " ".repeat(width - columns(part));
                text = format!("{text} {blanks}{part}");
            }
        }
        // A no-break space keeps the parts together when the table is laid out.
        text.replace(' ', "\u{a0}")
    };
    let rows = table.rows.iter();
    rows.map(|row| row.entries.iter().enumerate().map(text).collect())
        .collect()
}

/// Cuts columns into runs that fit into the room; at least one column a run.
fn fitting(widths: &[usize], room: usize) -> Vec<std::ops::Range<usize>> {
    let mut runs = Vec::new();
    let (mut start, mut used) = (0, 0);
    for (i, width) in widths.iter().enumerate() {
        if i > start && used + width > room {
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
    use crate::document::DocColumn;

    #[test]
    fn columns_are_cut_where_they_no_longer_fit() {
        assert_eq!(fitting(&[10; 4], 34), [0..3, 3..4]);
        assert_eq!(fitting(&[10; 4], 33), [0..2, 2..4]);
        assert_eq!(fitting(&[50, 10], 20), [0..1, 1..2]);
        assert!(fitting(&[], 20).is_empty());
    }

    #[test]
    fn a_name_that_must_be_copied_is_never_broken() {
        let id = "20261122-014658-file-to-socket";
        let columns_of = vec![DocColumn::names("run"), DocColumn::left("state")];
        let state = "interrupted: the terminal was closed while it ran";
        let table = DocTable::of(columns_of, [vec![id, state]]);
        let document = Document {
            blocks: vec![DocBlock::Table(table)],
        };
        for width in [40, 60, 100] {
            let text = print(&document, Style::plain(width));
            assert!(text.contains(id), "{text}");
            assert!(text.lines().all(|l| columns(l) <= width), "{text}");
        }
    }
}
