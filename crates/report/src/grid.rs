//! Aligned tables for a terminal, laid out by comfy-table.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};

use crate::document::{Align, ColumnKind, DocColumn};
use crate::text::{clean, columns, wrap};

/// The widest label of a table's row before it is broken over lines.
pub(crate) const ROW_COLUMNS: usize = 32;
/// The least width of a column of texts; with less, entries are printed one below the other.
const LEAST_COLUMNS: usize = 8;

/// The lines of a table, headings first; no line is wider than asked.
pub(crate) fn lines(heads: &[&DocColumn], rows: Vec<Vec<String>>, width: usize) -> Vec<String> {
    let content = |(i, head): (usize, &&DocColumn)| widest(&rows, i).max(columns(&head.heading));
    let widths: Vec<usize> = heads.iter().enumerate().map(content).collect();
    let least = |(head, own_width): (&&DocColumn, &usize)| {
        let least = if head.kind == ColumnKind::Names {
            usize::MAX
        } else {
            LEAST_COLUMNS
        };
        least.min(*own_width) + 2
    };
    let least: usize = heads.iter().zip(&widths).map(least).sum();
    if least > width + 2 && heads.iter().any(|head| head.kind == ColumnKind::Names) {
        return stacked(heads, &rows, width);
    }
    let are_numbers = heads.len() > 1 && heads[1..].iter().all(|h| h.align == Align::Right);
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(width + 2).unwrap_or(u16::MAX));
    if heads.iter().any(|head| !head.heading.is_empty()) {
        table.set_header(heads.iter().map(|head| clean(&head.heading)));
    }
    for row in &rows {
        // Spaces that align are kept.
        table.add_row(row.iter().map(|text| text.replace(char::is_control, " ")));
    }
    for (i, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if heads[i].align == Align::Right {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let fixed =
            |text_width: usize| Width::Fixed(u16::try_from(text_width + 2).unwrap_or(u16::MAX));
        if heads[i].kind == ColumnKind::Names {
            column.set_constraint(ColumnConstraint::Absolute(fixed(widths[i])));
        } else if are_numbers && i == 0 && widths.iter().sum::<usize>() + 2 * widths.len() > width {
            column.set_constraint(ColumnConstraint::UpperBoundary(fixed(ROW_COLUMNS)));
        }
    }
    // A no-break space has done its work by now.
    let lines = table.lines().map(|line| line.replace('\u{a0}', " "));
    lines.map(|line| line.trim_end().to_owned()).collect()
}

/// Width of the widest text of a column.
pub(crate) fn widest(rows: &[Vec<String>], column: usize) -> usize {
    let texts = rows.iter().filter_map(|row| row.get(column));
    texts.map(|text| columns(text)).max().unwrap_or(0)
}

/// A table that has no room: each row's first entry on a line, the others below it.
fn stacked(heads: &[&DocColumn], rows: &[Vec<String>], width: usize) -> Vec<String> {
    let first = heads.first().map_or("", |head| &head.heading);
    let mut lines = vec![clean(first)];
    for row in rows {
        lines.extend(wrap(row.first().map_or("", String::as_str), width, "", ""));
        for (head, text) in heads.iter().zip(row).skip(1) {
            let line = format!("{}: {text}", head.heading);
            lines.extend(wrap(&line, width, "  ", "    "));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_wider_than_asked() {
        let long = "x".repeat(64);
        let heads = [DocColumn::left("name"), DocColumn::left("what it is")];
        let rows = vec![vec![long.clone(), format!("{long} and {long}")]];
        let lines = lines(&heads.each_ref(), rows, 58);
        let fits = |line: &String| columns(line) <= 58;
        assert!(lines.len() > 3 && lines.iter().all(fits), "{lines:?}");
    }
}
