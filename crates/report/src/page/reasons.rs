//! The parts of the page that say why: crossovers, explanations, claims and what others
//! published.

use bytecost_analysis::{Analysis, AuditFigure};

use super::rests_on;
use crate::audit::{RULINGS, ruling};
use crate::crossing::Crossings;
use crate::descriptions;
use crate::published_tables::{PublishedTables, beside};
use crate::text::{TextSpan, clean, count, spans};

/// Sentences about crossovers that stand above their table.
const SENTENCES_MOST: usize = 4;

/// All of it, ready for the template.
pub(super) struct Reasons {
    pub crossings: Crossings,
    /// The sentences of the first crossovers that are decided.
    pub sentences: Vec<Vec<TextSpan>>,
    /// The sentences of the others that are.
    pub more_sentences: Vec<Vec<TextSpan>>,
    pub explanations: Vec<ExplanationText>,
    pub rulings: Vec<RulingText>,
    /// How often each ruling was reached: class, sign, words and number.
    pub ruled: Vec<(&'static str, &'static str, &'static str, usize)>,
    pub beside: Option<PublishedTables>,
    /// Of an imported run: what it is.
    pub imported: Option<String>,
}

pub(super) struct ExplanationText {
    pub question: Vec<TextSpan>,
    pub answer: Option<Vec<TextSpan>>,
    pub missing: Vec<TextSpan>,
    pub numbers: Vec<Vec<TextSpan>>,
    pub evidence: Vec<Vec<TextSpan>>,
    pub would_change: Option<Vec<TextSpan>>,
    /// Rows of the table of comparisons.
    pub rests_on: Vec<usize>,
}

pub(super) struct RulingText {
    pub source: String,
    pub claim: Vec<TextSpan>,
    pub class: &'static str,
    pub mark: &'static str,
    pub words: &'static str,
    pub because: Vec<TextSpan>,
    pub figures: Vec<FigureText>,
    pub rests_on: Vec<usize>,
}

/// A published figure beside the measured one.
pub(super) struct FigureText {
    pub what: String,
    pub published: String,
    pub measured: String,
}

impl ExplanationText {
    /// Whether there is anything to fold out.
    pub fn has_more(&self) -> bool {
        !self.numbers.is_empty()
            || !self.evidence.is_empty()
            || self.would_change.is_some()
            || !self.rests_on.is_empty()
    }
}

/// The link to comparisons: their rows, as the script takes them.
pub(super) fn rows(numbers: &[usize]) -> String {
    let rows: Vec<String> = numbers.iter().map(|n| format!("c{n}")).collect();
    rows.join(" ")
}

/// The words of that link.
pub(super) fn rests(numbers: &[usize]) -> String {
    count(numbers.len(), "comparison", "comparisons")
}

impl Reasons {
    pub fn of(a: &Analysis) -> Reasons {
        let crossings = Crossings::of(a);
        let decided = crossings.decided.iter();
        let mut sentences: Vec<Vec<TextSpan>> = decided.map(|c| spans(&c.sentence)).collect();
        let more_sentences = sentences.split_off(sentences.len().min(SENTENCES_MOST));
        let ruled = RULINGS.iter().map(|row| {
            let number = a.audit.iter().filter(|c| c.ruling == row.ruling).count();
            (row.class, row.sign, row.words, number)
        });
        Reasons {
            crossings,
            sentences,
            more_sentences,
            explanations: explanations(a),
            rulings: rulings(a),
            ruled: ruled.filter(|r| r.3 > 0).collect(),
            beside: beside(a),
            imported: descriptions::imported(a).map(|p| clean(&descriptions::imported_sentence(p))),
        }
    }
}

fn explanations(a: &Analysis) -> Vec<ExplanationText> {
    let list = |texts: &[String]| texts.iter().map(|t| spans(t)).collect();
    a.explanations
        .iter()
        .map(|e| ExplanationText {
            question: spans(&e.question),
            answer: e.answer.as_deref().map(spans),
            missing: spans(descriptions::missing(e)),
            numbers: list(&e.numbers),
            evidence: list(&e.evidence),
            would_change: e.would_change.as_deref().map(spans),
            rests_on: rests_on(a, &e.findings),
        })
        .collect()
}

fn rulings(a: &Analysis) -> Vec<RulingText> {
    let figure = |f: &AuditFigure| FigureText {
        what: clean(&f.what),
        published: f.published.as_deref().map_or("–".to_owned(), clean),
        measured: f.measured.as_deref().map_or("–".to_owned(), clean),
    };
    a.audit
        .iter()
        .map(|c| {
            let row = ruling(c.ruling);
            RulingText {
                source: clean(&c.source),
                claim: spans(&c.claim),
                class: row.class,
                mark: row.sign,
                words: row.words,
                because: spans(&c.because),
                figures: c.figures.iter().map(figure).collect(),
                rests_on: rests_on(a, &c.findings),
            }
        })
        .collect()
}
