//! A report as blocks, which a printer for each medium lays out. Texts are one line each, with
//! `code` between backticks; printers clean and escape them.

use bytecost_analysis::Verdict;

use crate::style::Ink;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Document {
    pub blocks: Vec<DocBlock>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum DocBlock {
    Heading(DocHeading),
    Paragraph(DocLine),
    List(Vec<DocLine>),
    /// Labels, each with its lines.
    Terms(Vec<DocTerm>),
    Table(DocTable),
    /// Footnotes of the tables above, numbered from 1.
    Notes(Vec<String>),
    /// A drawing, and the blocks that a text has instead.
    Figure(DrawingRef, Vec<DocBlock>),
    /// Blocks in a frame of their own.
    Card(Vec<DocBlock>),
    /// Blocks that a page shows when it is asked for them.
    Fold {
        title: String,
        blocks: Vec<DocBlock>,
        /// True for a continuation of the block above, whose title a text leaves out.
        is_rest: bool,
    },
    /// A command line that can be copied as it is.
    Code(String),
    /// Blocks that only a page shows: drawings, and details too long for a text.
    PageOnly(Vec<DocBlock>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DocHeading {
    /// 1 is the document's own, 2 a section's, 3 one within it.
    pub level: u8,
    pub text: String,
    /// The name by which a link finds the section; sections have one, others may.
    pub anchor: &'static str,
    /// Its name in a list of sections; empty where it is in none.
    pub short: &'static str,
}

/// One or more sentences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DocLine {
    pub text: String,
    pub ink: Ink,
    pub mark: Option<DocMark>,
    /// The findings that it rests on, by their places among all, from 0.
    pub rests_on: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DocTerm {
    pub label: String,
    pub mark: Option<DocMark>,
    pub lines: Vec<DocLine>,
}

/// A sign with its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DocMark {
    pub sign: &'static str,
    pub words: &'static str,
    pub kind: MarkKind,
}

/// Meaning of a sign, which gives its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum MarkKind {
    Better,
    Worse,
    /// No difference, nothing to be seen.
    Same,
    Open,
    /// Not judged.
    Bare,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DocTable {
    /// Caption of the table, one line above it; empty where a heading serves as one.
    pub caption: String,
    pub columns: Vec<DocColumn>,
    pub rows: Vec<DocRow>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DocColumn {
    pub heading: String,
    pub align: Align,
    pub kind: ColumnKind,
}

/// Content of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    Plain,
    /// Names that readers copy, which are therefore never broken over lines.
    Names,
    /// Notes on the rows, the last column of a table of numbers.
    Notes,
}

/// Alignment of the entries of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A row; its first entry is its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DocRow {
    pub entries: Vec<DocEntry>,
    /// True for the row that the other rows are compared with.
    pub is_baseline: bool,
    /// The finding that the row is of, by its place among all.
    pub finding: Option<usize>,
}

/// The text of an entry without a value.
pub(crate) const GAP: &str = "–";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DocEntry {
    pub text: String,
    /// Ratio to the baseline: `0.62×`.
    pub ratio: String,
    pub mark: Option<DocMark>,
    /// Footnote, from 1.
    pub note: Option<usize>,
    /// True for [`GAP`].
    pub is_gap: bool,
    /// The entry in words, for a tooltip and for screen readers.
    pub description: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DrawingRef {
    /// A chart, by its place among the figures.
    Chart(usize),
    /// A map of distances between CPUs.
    Heat(usize),
    Stack(usize),
    SpeedUps,
}

impl Document {
    /// Appends a block; an empty list, empty notes and an empty page-only block are left out.
    pub fn push(&mut self, block: DocBlock) {
        let is_empty = match &block {
            DocBlock::List(lines) => lines.is_empty(),
            DocBlock::Notes(notes) => notes.is_empty(),
            DocBlock::PageOnly(blocks) => blocks.is_empty(),
            _ => false,
        };
        self.blocks.extend((!is_empty).then_some(block));
    }

    pub fn section(&mut self, text: &str, anchor: &'static str, short: &'static str) {
        self.push(DocBlock::Heading(DocHeading {
            level: 2,
            text: text.to_owned(),
            anchor,
            short,
        }));
    }

    pub fn paragraph(&mut self, ink: Ink, text: impl Into<String>) {
        self.push(DocBlock::paragraph(ink, text));
    }
}

impl DocBlock {
    pub fn paragraph(ink: Ink, text: impl Into<String>) -> DocBlock {
        DocBlock::Paragraph(DocLine::of(ink, text))
    }

    pub fn heading(text: impl Into<String>) -> DocBlock {
        DocBlock::Heading(DocHeading {
            level: 3,
            text: text.into(),
            anchor: "",
            short: "",
        })
    }

    pub fn terms<N: Into<String>, L: Into<DocLine>>(
        terms: impl IntoIterator<Item = (N, L)>,
    ) -> DocBlock {
        let term = |(name, line)| DocTerm::new(name, [line]);
        DocBlock::Terms(terms.into_iter().map(term).collect())
    }

    pub fn fold(title: impl Into<String>, blocks: Vec<DocBlock>) -> DocBlock {
        DocBlock::Fold {
            title: title.into(),
            blocks,
            is_rest: false,
        }
    }

    /// A fold that continues the block above it, without a title in a text.
    pub fn rest(title: impl Into<String>, blocks: Vec<DocBlock>) -> DocBlock {
        DocBlock::Fold {
            title: title.into(),
            blocks,
            is_rest: true,
        }
    }

    /// Returns true if a text shows anything of the block.
    pub fn is_in_text(&self) -> bool {
        match self {
            DocBlock::PageOnly(_) => false,
            DocBlock::Figure(_, instead) => !instead.is_empty(),
            _ => true,
        }
    }
}

impl DocLine {
    pub fn of(ink: Ink, text: impl Into<String>) -> DocLine {
        DocLine {
            text: text.into(),
            ink,
            ..DocLine::default()
        }
    }

    pub fn resting_on(self, rests_on: Vec<usize>) -> DocLine {
        DocLine { rests_on, ..self }
    }
}

impl<T: Into<String>> From<T> for DocLine {
    fn from(text: T) -> DocLine {
        DocLine::of(Ink::Plain, text)
    }
}

impl DocTerm {
    pub fn new<L: Into<DocLine>>(
        label: impl Into<String>,
        lines: impl IntoIterator<Item = L>,
    ) -> DocTerm {
        DocTerm {
            label: label.into(),
            mark: None,
            lines: lines.into_iter().map(Into::into).collect(),
        }
    }

    /// Appends a term to others if it has a line.
    pub fn push<L: Into<DocLine>>(
        terms: &mut Vec<DocTerm>,
        label: impl Into<String>,
        lines: impl IntoIterator<Item = L>,
    ) {
        let term = DocTerm::new(label, lines);
        terms.extend((!term.lines.is_empty()).then_some(term));
    }
}

impl DocColumn {
    pub fn left(heading: impl Into<String>) -> DocColumn {
        DocColumn {
            heading: heading.into(),
            align: Align::Left,
            kind: ColumnKind::Plain,
        }
    }

    pub fn right(heading: impl Into<String>) -> DocColumn {
        DocColumn {
            align: Align::Right,
            ..DocColumn::left(heading)
        }
    }

    /// Columns by their headings, separated by `|`; a heading that ends in `>` has its entries
    /// aligned to the right.
    pub fn all(headings: &str) -> Vec<DocColumn> {
        let column = |heading: &str| match heading.strip_suffix('>') {
            Some(heading) => DocColumn::right(heading),
            None => DocColumn::left(heading),
        };
        headings.split(" | ").map(column).collect()
    }

    /// Columns of a table of numbers: the first names the rows, the others have the numbers.
    pub fn numbers<H: Into<String>>(
        first: impl Into<String>,
        headings: impl IntoIterator<Item = H>,
    ) -> Vec<DocColumn> {
        let mut columns = vec![DocColumn::left(first)];
        columns.extend(headings.into_iter().map(DocColumn::right));
        columns
    }

    pub fn notes() -> DocColumn {
        DocColumn {
            kind: ColumnKind::Notes,
            ..DocColumn::left("note")
        }
    }

    /// One of names that must be copied.
    pub fn names(heading: impl Into<String>) -> DocColumn {
        DocColumn {
            kind: ColumnKind::Names,
            ..DocColumn::left(heading)
        }
    }
}

impl DocRow {
    pub fn new<E: Into<DocEntry>>(
        name: impl Into<DocEntry>,
        entries: impl IntoIterator<Item = E>,
    ) -> DocRow {
        DocRow {
            entries: std::iter::once(name.into())
                .chain(entries.into_iter().map(Into::into))
                .collect(),
            ..DocRow::default()
        }
    }
}

impl DocTable {
    pub fn of<E: Into<DocEntry>>(
        columns: Vec<DocColumn>,
        rows: impl IntoIterator<Item = Vec<E>>,
    ) -> DocTable {
        let row = |entries: Vec<E>| DocRow {
            entries: entries.into_iter().map(Into::into).collect(),
            ..DocRow::default()
        };
        DocTable {
            caption: String::new(),
            columns,
            rows: rows.into_iter().map(row).collect(),
        }
    }

    pub fn captioned(self, caption: impl Into<String>) -> DocTable {
        DocTable {
            caption: caption.into(),
            ..self
        }
    }

    /// The table without its empty columns.
    pub fn without_empty_columns(mut self) -> DocTable {
        for i in (0..self.columns.len()).rev() {
            if self.rows.iter().all(|row| row.entries[i].text.is_empty()) {
                self.columns.remove(i);
                for row in &mut self.rows {
                    row.entries.remove(i);
                }
            }
        }
        self
    }

    /// The table without its last column, and the texts of that by the names of the rows.
    pub fn without_notes(&self) -> (DocTable, Vec<(String, String)>) {
        let mut numbers = self.clone();
        numbers.columns.pop();
        let mut notes = Vec::new();
        for row in &mut numbers.rows {
            let note = row.entries.pop().unwrap_or_default().text;
            let name = row.entries.first().map_or("", |entry| entry.text.trim());
            if !note.is_empty() {
                notes.push((name.to_owned(), note));
            }
        }
        (numbers, notes)
    }

    /// Returns true if its columns are numbers, but for the first and perhaps a last one of notes.
    pub fn is_matrix(&self) -> bool {
        let numbers = match self.columns.as_slice() {
            [_, numbers @ .., last] if !numbers.is_empty() && last.align == Align::Left => numbers,
            [_, numbers @ ..] => numbers,
            [] => &[],
        };
        numbers.iter().all(|column| column.align == Align::Right)
    }

    pub fn is_marked(&self) -> bool {
        self.entries().any(|entry| entry.mark.is_some())
    }

    pub fn has_footnotes(&self) -> bool {
        self.entries().any(|entry| entry.note.is_some())
    }

    fn entries(&self) -> impl Iterator<Item = &DocEntry> {
        self.rows.iter().flat_map(|row| &row.entries)
    }
}

impl<T: Into<String>> From<T> for DocEntry {
    fn from(text: T) -> DocEntry {
        DocEntry {
            text: text.into(),
            ..DocEntry::default()
        }
    }
}

impl DocEntry {
    /// An entry without a value.
    pub fn gap() -> DocEntry {
        DocEntry {
            is_gap: true,
            ..DocEntry::from(GAP)
        }
    }

    /// The entry of a value that may not be available.
    pub fn or_gap(value: Option<impl Into<DocEntry>>) -> DocEntry {
        value.map_or_else(DocEntry::gap, Into::into)
    }

    pub fn marked(self, mark: DocMark) -> DocEntry {
        let mark = Some(mark);
        DocEntry { mark, ..self }
    }

    /// The entry with a footnote, where there is a reason: one that is there, or a new one.
    pub fn noted(self, notes: &mut Vec<String>, why: Option<&str>) -> DocEntry {
        let note = why.map(crate::text::clean).map(|why| {
            if !notes.contains(&why) {
                notes.push(why.clone());
            }
            1 + notes.iter().take_while(|note| **note != why).count()
        });
        DocEntry { note, ..self }
    }
}

impl DocMark {
    pub const fn new(sign: &'static str, words: &'static str, kind: MarkKind) -> DocMark {
        DocMark { sign, words, kind }
    }

    /// The sign before a text, where there is one.
    pub fn sign_of(mark: Option<DocMark>) -> String {
        mark.map_or_else(String::new, |m| format!("{} ", m.sign))
    }
}

impl From<Verdict> for DocMark {
    fn from(verdict: Verdict) -> DocMark {
        use MarkKind::{Bare, Better, Open, Same, Worse};
        match verdict {
            Verdict::Better => DocMark::new("▲", "better", Better),
            Verdict::Worse => DocMark::new("▼", "worse", Worse),
            Verdict::NoDifferenceThatMatters => {
                DocMark::new("=", "no difference that matters", Same)
            }
            Verdict::NotDecided => DocMark::new("?", "not decided", Open),
            Verdict::NotJudged => DocMark::new("·", "not judged", Bare),
        }
    }
}

impl MarkKind {
    pub fn class(self) -> &'static str {
        self.into()
    }

    pub fn ink(self) -> Ink {
        match self {
            MarkKind::Better => Ink::Good,
            MarkKind::Worse => Ink::Bad,
            MarkKind::Same | MarkKind::Bare => Ink::Faint,
            MarkKind::Open => Ink::Warning,
        }
    }
}
