//! A document as Markdown, in the tables of GitHub, for pasting into an issue.

use itertools::Itertools as _;

use crate::document::{Align, DocBlock, DocEntry, DocLine, DocMark, DocTable, DocTerm, Document};
use crate::numbers::superscript;
use crate::style::Ink;
use crate::text::{clean, spans};

/// Prints a document below a heading of its own.
pub(crate) fn print(title: &str, document: &Document) -> String {
    let mut out = vec![format!("# {}", prose(title))];
    blocks(&document.blocks, &mut out);
    out.join("\n\n") + "\n"
}

/// Adds blocks, each a piece that an empty line parts from the next.
fn blocks(of: &[DocBlock], out: &mut Vec<String>) {
    for block in of.iter().filter(|block| block.is_in_text()) {
        match block {
            DocBlock::Heading(heading) => {
                let level = "#".repeat(heading.level.into());
                out.push(format!("{level} {}", prose(&heading.text)));
            }
            DocBlock::Paragraph(line) => out.push(prose_line(line)),
            DocBlock::List(lines) => out.push(list(lines.iter().map(prose_line))),
            DocBlock::Terms(terms) => out.push(list(terms.iter().map(term))),
            DocBlock::Table(table) => out.push(self::table(table)),
            DocBlock::Notes(notes) => {
                let note = |(i, why): (_, &String)| format!("–{} {}", superscript(i), prose(why));
                out.push(list((1..).zip(notes).map(note)));
            }
            DocBlock::Figure(_, instead) => blocks(instead, out),
            DocBlock::Card(card) => blocks(card, out),
            DocBlock::Fold {
                title,
                blocks: folded,
                ..
            } => {
                out.push(format!("<details><summary>{}</summary>", html(title)));
                blocks(folded, out);
                out.push("</details>".to_owned());
            }
            DocBlock::Code(text) => {
                let fence = "`".repeat(3);
                out.push(format!("{fence}sh\n{}\n{fence}", clean(text)));
            }
            DocBlock::PageOnly(_) => {}
        }
    }
}

fn prose_line(line: &DocLine) -> String {
    let mark = DocMark::sign_of(line.mark);
    let text = prose(&line.text);
    match (line.ink, line.mark) {
        (Ink::Strong | Ink::Warning, _) | (_, Some(_)) => format!("{mark}**{text}**"),
        _ => text,
    }
}

fn list(lines: impl Iterator<Item = String>) -> String {
    lines.map(|line| format!("- {line}")).join("\n")
}

/// A label with its line; several lines follow below it.
fn term(term: &DocTerm) -> String {
    let label = format!("**{}**:", prose(&term.label));
    match &term.lines[..] {
        [line] => format!("{label} {}", prose_line(line)),
        lines => {
            let items = lines
                .iter()
                .map(|line| format!("\n  - {}", prose_line(line)));
            label + &items.collect::<String>()
        }
    }
}

fn table(table: &DocTable) -> String {
    let headings = table.columns.iter().map(|c| prose(&c.heading));
    let rules = table.columns.iter().map(|c| match c.align {
        Align::Left => ":---".to_owned(),
        Align::Right => "---:".to_owned(),
    });
    let row = |entries: Vec<String>| format!("| {} |", entries.join(" | "));
    let mut lines = vec![row(headings.collect()), row(rules.collect())];
    lines.extend(table.rows.iter().map(|of| {
        let mut entries: Vec<String> = of.entries.iter().map(entry).collect();
        if let (true, Some(name)) = (of.is_baseline, entries.first_mut()) {
            name.push_str(" (baseline)");
        }
        row(entries)
    }));
    if !table.caption.is_empty() {
        lines.insert(0, format!("{}\n", prose(&table.caption)));
    }
    lines.join("\n")
}

fn entry(entry: &DocEntry) -> String {
    let mut text = prose(&entry.text);
    text.push_str(&entry.note.map(superscript).unwrap_or_default());
    if let Some(mark) = entry.mark {
        if !entry.ratio.is_empty() {
            text += &format!(" ({})", entry.ratio);
        }
        text += &format!(" {}", mark.sign);
    }
    text
}

/// A text for the inside of a tag.
fn html(text: &str) -> String {
    clean(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// A text within a line or an entry: code stays code, all else is escaped.
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
