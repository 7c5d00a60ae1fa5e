//! The questions about why, with their answers, for a terminal.

use bytecost_analysis::{Analysis, Explanation};

use crate::ceiling;
use crate::style::{Ink, Style};
use crate::text::wrap;

/// Renders every question of a result: its answer or what is missing for one, the numbers and the
/// evidence behind it, and what would change it. No line is wider than `style.width`.
#[must_use]
pub fn explain(a: &Analysis, style: Style) -> String {
    let mut page = Page {
        style,
        out: String::new(),
    };
    if a.explanations.is_empty() {
        page.prose(
            None,
            "This run has no cell that these questions are about: ways to send over a socket, with and without a copy, ways to read a file, or ways from a file to a socket.",
            "",
            "",
        );
    }
    for (number, explanation) in a.explanations.iter().enumerate() {
        if number > 0 {
            page.out.push('\n');
        }
        page.explanation(number + 1, explanation);
    }
    page.out.push('\n');
    page.prose(
        Some(Ink::Faint),
        &format!(
            "Ratios are of the first to the second, with their {} % intervals in brackets. Run {}, study {}.",
            (100.0 * a.study.level).round(),
            a.run.id,
            a.study.name
        ),
        "",
        "",
    );
    if let Some(hint) = ceiling::hint(a) {
        page.prose(Some(Ink::Faint), hint, "", "");
    }
    page.out
}

struct Page {
    style: Style,
    out: String,
}

impl Page {
    fn prose(&mut self, ink: Option<Ink>, text: &str, first: &str, rest: &str) {
        for line in wrap(text, self.style.columns(), first, rest) {
            match ink {
                Some(ink) => self.out.push_str(&self.style.paint(ink, &line)),
                None => self.out.push_str(&line),
            }
            self.out.push('\n');
        }
    }

    fn explanation(&mut self, number: usize, e: &Explanation) {
        let head = format!("{number}. ");
        self.prose(Some(Ink::Strong), &e.question, &head, "   ");
        if let Some(answer) = &e.answer {
            self.prose(None, answer, "   ", "   ");
        }
        if let Some(missing) = &e.missing {
            let text = format!("No answer: {missing}.");
            self.prose(Some(Ink::Warn), &text, "   ", "   ");
        }
        self.list("Numbers", &e.numbers);
        self.list("Evidence", &e.evidence);
        if let Some(change) = &e.would_change {
            let text = format!("What would change it: {change}.");
            self.prose(Some(Ink::Faint), &text, "   ", "   ");
        }
    }

    fn list(&mut self, name: &str, rows: &[String]) {
        if rows.is_empty() {
            return;
        }
        self.prose(Some(Ink::Faint), &format!("{name}:"), "   ", "   ");
        for row in rows {
            self.prose(None, row, "   • ", "     ");
        }
    }
}
