//! `bytecost audit`: claims with their rulings, for a terminal and as JSON.

use bytecost_analysis::{Analysis, Audited, Ruling};
use itertools::Itertools as _;
use serde::Serialize;

use crate::document::{DocMark, MarkKind};
use crate::style::{Ink, Style};
use crate::terminal::Printer;
use crate::text::{count, joined};

mod book;
mod ruling;
mod text;

pub use ruling::text;
pub use text::{AuditFigure, AuditText, FigureSubject};

/// The version of the format of [`json`].
const FORMAT: u32 = 1;
/// The most figures of a claim that a terminal shows.
const MOST_FIGURES: usize = 8;

/// The rulings of a result in words.
pub(crate) fn texts(a: &Analysis) -> Vec<AuditText> {
    a.audit.iter().map(text).collect()
}

/// A claim with its ruling, and the run that the ruling is from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Settled {
    /// The run's name; none for a ruling without a run.
    pub run: Option<String>,
    /// The claim and its ruling.
    #[serde(flatten)]
    pub audited: AuditText,
}

/// All rulings, in the order in which [`summary`] counts them.
const RULINGS: [Ruling; 6] = [
    Ruling::Confirmed,
    Ruling::ConfirmedInPart,
    Ruling::ConfirmedByLessThanMatters,
    Ruling::ConfirmedForAnotherReason,
    Ruling::Refuted,
    Ruling::Undecided,
];

/// The mark that stands for a ruling in documents: sign, words and kind.
pub(crate) fn mark(ruling: Ruling) -> DocMark {
    let (sign, words, kind) = match ruling {
        Ruling::Confirmed => ("✓", "confirmed", MarkKind::Better),
        Ruling::ConfirmedInPart => ("✓", "confirmed in part", MarkKind::Better),
        Ruling::ConfirmedByLessThanMatters => {
            ("=", "confirmed, by less than matters", MarkKind::Same)
        }
        Ruling::ConfirmedForAnotherReason => ("≠", "confirmed for another reason", MarkKind::Open),
        Ruling::Refuted => ("✗", "refuted", MarkKind::Worse),
        Ruling::Undecided => ("?", "undecided", MarkKind::Same),
    };
    DocMark::new(sign, words, kind)
}

/// Chooses for each claim the run whose ruling counts: one that decides the claim before one that does
/// not, then one with measured figures, then one of a study that settles the claim, and of equal ones
/// the first. All runs list the same claims in the same order.
pub fn settled(runs: Vec<(Option<String>, Vec<Audited>)>) -> Vec<Settled> {
    let rank = |a: &AuditText| (a.ruling == Ruling::Undecided, !a.is_measured(), !a.of_study);
    let mut best: Vec<Settled> = Vec::new();
    for (run, audits) in runs {
        for (index, audited) in audits.iter().map(text).enumerate() {
            let settled = Settled {
                run: run.clone(),
                audited,
            };
            match best.get_mut(index) {
                None => best.push(settled),
                Some(old) if rank(&settled.audited) < rank(&old.audited) => *old = settled,
                Some(_) => {}
            }
        }
    }
    best
}

/// Renders rulings for a terminal: claims with figures or findings of a run in full, then the other
/// claims, a line each.
pub fn terminal(settled: &[Settled], style: Style) -> String {
    let mut out = Printer::new(style);
    let audits = || settled.iter().map(|s| &s.audited);
    out.wrapped(Ink::Strong, &summary(audits()), "", "  ");
    let several = !settled.iter().map(|s| &s.run).all_equal();
    for s in settled.iter().filter(|s| !s.audited.is_silent()) {
        print_claim(&mut out, &s.audited, s.run.as_deref().filter(|_| several));
    }
    print_silent(&mut out, audits().filter(|a| a.is_silent()));
    out.out
}

/// The number of claims with each ruling, as a sentence: `3 claims: 1 confirmed; 2 undecided.`
pub(crate) fn summary<'a>(audits: impl Iterator<Item = &'a AuditText> + Clone) -> String {
    let mut counts = RULINGS.into_iter().filter_map(|ruling| {
        let n = audits.clone().filter(|a| a.ruling == ruling).count();
        (n > 0).then(|| format!("{n} {}", mark(ruling).words))
    });
    let all = count(audits.clone().count(), "claim", "claims");
    joined([all, counts.join("; ")], ": ") + "."
}

/// Renders rulings as JSON: the format, and a list of claims with the run of each.
pub fn json(settled: &[Settled]) -> String {
    #[derive(Serialize)]
    struct Claims<'a> {
        format: u32,
        claims: &'a [Settled],
    }
    crate::text::pretty(&Claims {
        format: FORMAT,
        claims: settled,
    })
}

/// Prints a claim with its ruling, reason and figures.
fn print_claim(out: &mut Printer, a: &AuditText, run: Option<&str>) {
    out.line("");
    let mark = mark(a.ruling);
    let head = format!("{} {} ({}): {}", mark.sign, a.id, a.source, a.words);
    out.wrapped(mark.kind.ink(), &head, "", "  ");
    let claimed = format!("Claimed: {}", a.claim);
    out.wrapped(Ink::Plain, &claimed, "  ", "    ");
    out.wrapped(Ink::Plain, &a.because, "  ", "  ");
    let mut detail = |text: &str| out.wrapped(Ink::Faint, text, "    · ", "      ");
    // Measured figures come before figures from published files alone.
    let figures = a
        .figures
        .iter()
        .sorted_by_key(|f| f.subject != FigureSubject::AsPublished && f.measured.is_none());
    for figure in figures.take(MOST_FIGURES) {
        let both = [("here", &figure.measured), ("published", &figure.published)];
        let numbers = both.map(|(source, n)| n.as_ref().map(|n| format!("{source} {n}")));
        let text = match (&figure.subject, &figure.published) {
            (FigureSubject::AsPublished, Some(words)) => words.clone(),
            _ => numbers.iter().flatten().join("; "),
        };
        detail(&format!("{}: {text}", figure.subject));
    }
    let more = a.figures.len().saturating_sub(MOST_FIGURES);
    if more > 0 {
        let more = count(more, "figure more", "figures more");
        detail(&format!("{more}: --json"));
    }
    if let Some(run) = run {
        detail(&format!("from run {run}"));
    }
}

/// Prints claims for which no run has figures or findings, a line each.
fn print_silent<'a>(out: &mut Printer, audits: impl Iterator<Item = &'a AuditText>) {
    for (index, a) in audits.enumerate() {
        if index == 0 {
            out.line("");
            let heading = "Undecided, as no run was made with figures for them:";
            out.wrapped(Ink::Strong, heading, "", "  ");
        }
        let line = format!("{} ({}): {}", a.id, a.source, a.because);
        out.wrapped(Ink::Plain, &line, "  ? ", "    ");
    }
}
