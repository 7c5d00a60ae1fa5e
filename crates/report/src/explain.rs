//! The questions about why, with their answers, for a terminal.

use bytecost_analysis::Analysis;

use crate::document::{DocBlock, Document};
use crate::explanations::explanations;
use crate::style::{Ink, Style};
use crate::{ceiling, sections, stalls, terminal};

/// Renders every question of a result: its answer or what is missing for one, the numbers and the
/// evidence behind it, and what would change it. No line is wider than `style.width`.
pub fn explain(a: &Analysis, style: Style) -> String {
    let mut d = Document::default();
    if a.explanations.is_empty() {
        d.paragraph(
            Ink::Plain,
            "This run has no cell that these questions are about: ways to send over a socket, with and without a copy, ways to read a file, or ways from a file to a socket.",
        );
    }
    let stalls = stalls::lines(a);
    if !stalls.is_empty() {
        let lines = stalls
            .into_iter()
            .map(|line| DocBlock::paragraph(Ink::Plain, line));
        let title = DocBlock::heading("What waits for a timer?");
        d.push(DocBlock::Card(
            std::iter::once(title).chain(lines).collect(),
        ));
    }
    let questions = explanations(a).into_iter();
    let cards = questions.map(|e| DocBlock::Card(sections::explanation(&e)));
    d.blocks.extend(cards);
    let (level, run, study) = ((100.0 * a.study.level).round(), &a.run.id, &a.study.name);
    let about = format!(
        "Ratios are of the first to the second, with their {level} % intervals in brackets. Run {run}, study {study}."
    );
    let foot = std::iter::once(about).chain(ceiling::hint(a).map(str::to_owned));
    let foot = foot.map(|text| DocBlock::paragraph(Ink::Faint, text));
    d.push(DocBlock::Card(foot.collect()));
    terminal::print(&d, style)
}
