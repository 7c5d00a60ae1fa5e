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
    // The last column needs no blanks after it.
    let of_numbers: usize = (1..heads.len()).map(|i| widest(&rows, i) + 2).sum();
    let label_room = width.saturating_sub(of_numbers);
    let is_wide = widths.iter().sum::<usize>() + 2 * widths.len() > width + 2;
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
        let is_label = are_numbers && i == 0;
        if heads[i].kind == ColumnKind::Names {
            // A title may be broken over lines where labels stand, and no name and no number is.
            let room = if is_label { label_room } else { usize::MAX };
            let text_width = widths[i].min(room).max(longest_word(&rows, i));
            column.set_constraint(ColumnConstraint::Absolute(fixed(text_width)));
        } else if is_label && is_wide {
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

/// Width of the longest word of a column.
fn longest_word(rows: &[Vec<String>], column: usize) -> usize {
    let texts = rows.iter().filter_map(|row| row.get(column));
    let words = texts.flat_map(|text| text.split(' '));
    words.map(columns).max().unwrap_or(0)
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
    fn a_label_is_broken_over_lines_and_no_number_is() {
        let mut heads = ["threads", "1", "2", "4", "8"].map(DocColumn::right);
        heads[0] = DocColumn::names("threads");
        let row = |label: &str, number: &str| {
            let numbers = std::iter::repeat_n(number.to_owned(), 4);
            std::iter::once(label.to_owned()).chain(numbers).collect()
        };
        let rows = vec![
            row("size 512 KiB · CPU time per byte (s/GB)", ""),
            row("send", "3.80\u{a0}Gbit/s\u{a0}\u{a0}"),
        ];
        let heights = [97, 98, 99].map(|width| {
            let lines = lines(&heads.each_ref(), rows.clone(), width);
            let is_right = |line: &String| !line.is_empty() && columns(line) <= width;
            assert!(lines.iter().all(is_right), "{lines:#?}");
            lines.len()
        });
        assert_eq!(heights, [4, 4, 3]);
    }

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
