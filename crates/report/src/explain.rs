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
        let mut card = vec![DocBlock::heading("What waits for a timer?")];
        card.extend(
            stalls
                .into_iter()
                .map(|line| DocBlock::paragraph(Ink::Plain, line)),
        );
        d.push(DocBlock::Card(card));
    }
    for explanation in explanations(a) {
        d.push(DocBlock::Card(sections::explanation(&explanation)));
    }
    let (level, run, study) = ((100.0 * a.study.level).round(), &a.run.id, &a.study.name);
    let about = format!(
        "Ratios are of the first to the second, with their {level} % intervals in brackets. Run {run}, study {study}."
    );
    let mut foot = vec![DocBlock::paragraph(Ink::Faint, about)];
    foot.extend(ceiling::hint(a).map(|hint| DocBlock::paragraph(Ink::Faint, hint)));
    d.push(DocBlock::Card(foot));
    terminal::print(&d, style)
}
