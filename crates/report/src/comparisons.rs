//! The comparisons of a result: a table a question, and all findings in one list.

use bytecost_analysis::{Analysis, Estimate, Finding, Verdict};
use bytecost_spec::{Axis, Metric};
use itertools::Itertools as _;

use crate::caveats::withholding_reason;
use crate::descriptions;
use crate::document::{DocBlock, DocColumn, DocEntry, DocMark, DocRow, DocTable, Document};
use crate::numbers::{self, p_value, ratio, ratio_interval};
use crate::phrases;
use crate::question::{QuestionEntry, QuestionRow, QuestionTable, axis_in_words};
use crate::style::Ink;
use crate::text::count;

const NOT_THE_QUOTIENT: &str = "This ratio is not that of the two numbers. It compares block by block, and the numbers are over all trials; where values vary much between blocks, or have two modes, the two differ.";

/// The tables of all questions with their estimates, and every finding. `shown` are the questions, by
/// their places, whose estimates the answer has.
pub(crate) fn section(
    a: &Analysis,
    questions: &[QuestionTable<'_>],
    shown: &[usize],
    d: &mut Document,
) {
    if questions.is_empty() {
        return;
    }
    d.section("Comparisons", "comparisons", "Comparisons");
    let mut notes = Vec::new();
    let mut cards = Vec::new();
    let mut above = Vec::new();
    for (place, q) in questions.iter().enumerate() {
        let (metric, panel) = (
            descriptions::metric_heading(a, q),
            descriptions::panel_heading(q),
        );
        let table = table(a, q, &mut notes);
        if shown.contains(&place) && !table.has_footnotes() {
            above.push(format!(
                "{metric}, {panel}: every estimate is in the table at the top."
            ));
            continue;
        }
        cards.push(DocBlock::Card(vec![
            DocBlock::heading(metric),
            DocBlock::paragraph(Ink::Faint, panel),
            DocBlock::Table(table),
        ]));
    }
    if !cards.is_empty() {
        let legend = format!(
            "Each entry: the estimate, its ratio to the baseline, the verdict: ▲ better, ▼ worse, = no difference that matters (within ±{}), ? not decided{}.",
            numbers::percent(a.study.smallest_effect),
            not_judged(a.findings.iter())
        );
        d.paragraph(Ink::Faint, legend);
    }
    d.paragraph(Ink::Faint, descriptions::families(a));
    for line in above {
        d.paragraph(Ink::Plain, line);
    }
    if !cards.is_empty() {
        let tables = count(cards.len(), "table", "tables");
        d.push(DocBlock::rest(
            format!("{tables} with every estimate"),
            cards,
        ));
    }
    d.push(DocBlock::Notes(notes));
    let number = a.findings.len();
    let title = format!("All {number} comparisons, with interval, p value and blocks");
    let fold = DocBlock::fold(title, vec![DocBlock::Table(list(a))]);
    d.push(DocBlock::PageOnly(vec![fold]));
}

fn table(a: &Analysis, q: &QuestionTable<'_>, notes: &mut Vec<String>) -> DocTable {
    let headings = match q.x {
        Some(x) => q.columns.iter().map(|c| x.in_words(c)).collect(),
        None => vec![q.metric.measure.row().unit.to_owned()],
    };
    let baseline = q.rows.iter().find(|row| row.is_baseline);
    let row = |of: &QuestionRow<'_>| {
        let entries = of.entries.iter().enumerate().map(|(i, e)| {
            let compared = baseline.and_then(|b| match b.entries.get(i) {
                Some(QuestionEntry::Measured(estimate, _)) => Some(estimate),
                _ => None,
            });
            entry(a, q.metric, e, of.is_baseline, compared, notes)
        });
        DocRow {
            is_baseline: of.is_baseline,
            ..DocRow::new(of.name.to_string(), entries)
        }
    };
    DocTable {
        rows: q.rows.iter().map(row).collect(),
        columns: DocColumn::numbers(q.axis.name(), headings),
        ..DocTable::default()
    }
}

fn entry(
    a: &Analysis,
    metric: Metric,
    entry: &QuestionEntry<'_>,
    is_baseline: bool,
    baseline: Option<&Estimate>,
    notes: &mut Vec<String>,
) -> DocEntry {
    match entry {
        QuestionEntry::Gap(why) => DocEntry::gap().noted(notes, Some(why)),
        QuestionEntry::Measured(e, None) => DocEntry {
            ratio: if is_baseline { "1×" } else { "" }.to_owned(),
            ..DocEntry::from(numbers::amount(metric, e.value))
        },
        QuestionEntry::Measured(e, Some(f)) => {
            let quotient = baseline.map(|b| e.value / b.value);
            let odd = quotient.is_some_and(|q| contradicts(f, q, a.study.smallest_effect));
            let withheld = f.withheld.or(f.amount_withheld);
            let why = withheld
                .map(withholding_reason)
                .or(odd.then_some(NOT_THE_QUOTIENT));
            let (ratio, interval, family) = (ratio(f.ratio), ratio_interval(f), f.family.name());
            let (value, other, verdict) = (&f.value, &f.baseline_value, verdict(f));
            let description = format!(
                "{value}: {ratio} {other} (95 % interval {interval}), {verdict} ({family})"
            );
            let plain = DocEntry {
                ratio,
                description,
                ..DocEntry::from(numbers::amount(metric, e.value))
            };
            plain.marked(DocMark::from(f.verdict)).noted(notes, why)
        }
    }
}

/// Returns true if the quotient of the two values contradicts the ratio of the finding: it is
/// outside the interval, and differs by more than the smallest effect that matters.
fn contradicts(f: &Finding, quotient: f64, matters: f64) -> bool {
    let apart = (quotient / f.ratio).ln().abs();
    let is_outside = quotient < f.low || quotient > f.high;
    is_outside && apart.is_finite() && apart > (1.0 + matters).ln()
}

/// Addition to a legend where any of the findings is not judged.
pub(crate) fn not_judged<'f>(mut findings: impl Iterator<Item = &'f Finding>) -> &'static str {
    if findings.any(|f| f.verdict == Verdict::NotJudged) {
        ", · not judged"
    } else {
        ""
    }
}

/// The verdict in words, with the blocks needed or the reason where it is not decided.
fn verdict(f: &Finding) -> String {
    match (f.withheld, f.verdict, f.blocks_needed) {
        (Some(kind), ..) => format!("no verdict: {}", withholding_reason(kind)),
        (None, verdict, _) if let Some(kind) = f.amount_withheld => {
            let (direction, why) = (DocMark::from(verdict).words, withholding_reason(kind));
            format!("{direction}; by how much is not said: {why}")
        }
        (None, Verdict::NotDecided, Some(needed)) => {
            format!("not decided; about {needed} blocks would decide")
        }
        (None, Verdict::NotDecided, None) if let Some(apart) = phrases::by_rounds(f) => {
            format!("not decided; {apart} here")
        }
        _ => DocMark::from(f.verdict).words.to_owned(),
    }
}

/// Values of the varied axes that both cells of a finding share, in words.
pub(crate) fn place(a: &Analysis, f: &Finding) -> String {
    let Some(cell) = a.cell(&f.cell) else {
        return f.cell.clone();
    };
    let others = a.study.varied.iter().filter(|axis| **axis != f.axis);
    others
        .map(|&axis| match axis {
            Axis::Size => axis.in_words(&cell.value(axis)),
            _ => axis_in_words(axis, &cell.value(axis)),
        })
        .join(", ")
}

fn list(a: &Analysis) -> DocTable {
    let rows = a.findings.iter().enumerate().map(|(number, f)| {
        let verdict = DocEntry::from(verdict(f)).marked(DocMark::from(f.verdict));
        let entries: [DocEntry; 9] = [
            format!("{} against {}", f.value, f.baseline_value).into(),
            place(a, f).into(),
            f.family.name().into(),
            ratio(f.ratio).into(),
            ratio_interval(f).into(),
            DocEntry::or_gap(f.p_corrected.map(p_value)),
            verdict,
            f.blocks.to_string().into(),
            format!("±{}", numbers::percent(f.detectable)).into(),
        ];
        DocRow {
            finding: Some(number),
            ..DocRow::new(f.metric.title(a.study.unit), entries)
        }
    });
    let of_finding = "Metric | What | Where | Family | Ratio> | 95 % interval>";
    let of_verdict = "p (corrected)> | Verdict | Blocks> | Could have seen>";
    DocTable {
        columns: DocColumn::all(&format!("{of_finding} | {of_verdict}")),
        rows: rows.collect(),
        ..DocTable::default()
    }
}
