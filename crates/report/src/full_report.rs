//! The full report of a result, the answer and every section, in each medium.

use bytecost_analysis::Analysis;

use crate::document::{DocBlock, Document};
use crate::page::{self, Drawings};
use crate::style::Style;
use crate::{screen, sections};

fn document(a: &Analysis) -> Document {
    let mut document = screen::answer(a);
    document.blocks.extend(sections::body(a).blocks);
    document
}

/// Renders all of a result for a terminal, every line ended and none wider than `style.width`.
pub fn terminal(a: &Analysis, style: Style) -> String {
    crate::terminal::print(&document(a), style)
}

/// Renders a result as Markdown with the same content as [`terminal`].
pub fn markdown(a: &Analysis) -> String {
    crate::markdown::print(&a.study.title, &document(a))
}

/// Renders a result as one HTML page: it requests nothing, and shows all of it without its script.
pub fn html(a: &Analysis) -> String {
    let drawings = Drawings::new(a);
    let mut answer = screen::answer(a).blocks;
    // The page has the advice and its tables next to the figure, and what follows at full width.
    let table = answer.iter().rposition(|b| matches!(b, DocBlock::Table(_)));
    let below = answer.split_off(table.map_or(answer.len(), |table| table + 1));
    let mut body = sections::body(a).blocks;
    if !below.is_empty() {
        body.insert(0, DocBlock::Card(below));
    }
    let foot = format!(
        "{} · started {} · measured with bytecost {}",
        a.run.id, a.run.started, a.run.bytecost_version
    );
    page::drawn(&drawings, &a.study.title, &answer, &body, &foot)
}
