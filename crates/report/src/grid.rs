//! Aligned tables for a terminal, laid out by comfy-table.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};

use crate::text::{clean, columns};

/// A table without rules: a header and rows of text. The first column stands left.
#[derive(Debug)]
pub(crate) struct TextGrid<'a> {
    /// Columns that the table may take.
    pub width: usize,
    /// Indent of every line.
    pub indent: &'a str,
    /// The most columns of each column; the last serves for all that follow.
    pub most: &'a [usize],
    /// Whether all but the first column stand right.
    pub right: bool,
}

impl TextGrid<'_> {
    /// The table's lines, header first; no line is wider than asked.
    pub(crate) fn lines(&self, header: &[String], rows: &[Vec<String>]) -> Vec<String> {
        let width = self.width.saturating_sub(columns(self.indent));
        let mut table = Table::new();
        table
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(u16::try_from(width).unwrap_or(u16::MAX))
            .set_header(header.iter().map(|text| clean(text)));
        for row in rows {
            table.add_row(row.iter().map(|text| unbroken(text)));
        }
        for (i, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            if let Some(most) = self.most.get(i).or(self.most.last()) {
                let most = u16::try_from(most + 2).unwrap_or(u16::MAX);
                column.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(most)));
            }
            if self.right && i > 0 {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
            .lines()
            .map(|line| format!("{}{line}", self.indent).trim_end().to_owned())
            .collect()
    }
}

/// Control characters out, spaces that align kept.
fn unbroken(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_wider_than_asked() {
        let long = "x".repeat(64);
        let layout = TextGrid {
            width: 60,
            indent: "  ",
            most: &[20, 40],
            right: false,
        };
        let rows = [vec![long.clone(), format!("{long} and {long}")]];
        let lines = layout.lines(&["name".into(), "what it is".into()], &rows);
        assert!(lines.len() > 3);
        for line in lines {
            assert!(columns(&line) <= 60, "{line}");
        }
    }
}
