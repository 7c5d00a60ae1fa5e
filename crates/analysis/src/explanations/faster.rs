//! Why one way is cheaper or faster than another: copies, calls, and where the CPU time goes.

use bytecost_spec::evidence::{CopyPlace, Means};

use super::largest_differences::{decided, events, place};
use super::{Answers, Explained, MOST_ROWS, Question, Why, cpu_time};
use crate::phrases;
use crate::result::{CellCopies, CellCounts, Finding};

/// Copies for each byte from which on two ways differ in them.
const APART: f64 = 0.05;

pub(super) const QUESTION: Question = Question {
    key: "why-one-way-wins",
    text: "Why is one way better than another?",
    asks: |_| true,
    answers: Answers::Own(ask),
    would_change: "another size or transport; a path on which the kernel copies less, or more (--transport wire)",
};

fn ask(why: &Why<'_>) -> Option<Explained> {
    let view = why.view;
    let asked = |means: Means| {
        let mut all = view.input.manifest.evidence.iter();
        all.find(|a| a.means == means && !a.unasked)
    };
    let told = |answer: Result<String, String>, numbers, findings| Explained {
        answer: answer.map_err(Into::into),
        numbers,
        evidence: Vec::new(),
        findings,
    };
    let counted = |id: &str| {
        let copies = view
            .copies
            .iter()
            .any(|c| c.cell == id && !c.is_flagged_only());
        copies || view.counts.iter().any(|c| c.cell == id)
    };
    if !view.cells.iter().any(|c| counted(&c.id)) {
        let refused = [Means::Copies, Means::Counts].into_iter().find_map(asked)?;
        let missing = match &refused.refused {
            Some(refused) => refused.clone(),
            None => "no cell was counted to its end: go on with --resume".to_owned(),
        };
        return Some(told(Err(missing), Vec::new(), Vec::new()));
    }
    let findings = decided(why, counted);
    let Some(first) = findings.first() else {
        let missing = "no two counted cells differ by more than the blocks leave open";
        return Some(told(Err(missing.to_owned()), Vec::new(), Vec::new()));
    };
    let numbers = findings.iter().skip(1).take(MOST_ROWS);
    let numbers = numbers.map(|f| sentence(why, f)).collect();
    let ids = findings.iter().take(1 + MOST_ROWS).map(|f| f.id.clone());
    Some(told(Ok(sentence(why, first)), numbers, ids.collect()))
}

/// `` `sendfile` needs 0.28× the CPU time per byte of `send` at 64 KiB: each byte is copied 1.00
/// times instead of 2.00 (into the kernel 0.00 instead of 1.00), with …``
fn sentence<'v>(why: &Why<'v>, finding: &'v Finding) -> String {
    let copies = |id: &str| why.view.copies.iter().find(|c| c.cell == id);
    let counts = |id: &str| why.view.counts.iter().find(|c| c.cell == id);
    let mut parts = Vec::new();
    if let (Some(from), Some(to)) = (copies(&finding.baseline), copies(&finding.cell)) {
        parts.extend(copied(from, to));
    }
    if let (Some(from), Some(to)) = (counts(&finding.baseline), counts(&finding.cell)) {
        parts.extend(called(from, to));
    }
    if let Some(time) = cpu_time::between(why, finding) {
        parts.push(time);
    }
    if parts.is_empty() {
        parts.push("nothing that was counted tells it".to_owned());
    }
    format!(
        "{} has {} of the {} of {}{}: {}.",
        finding.axis.subject(&finding.value),
        phrases::ratio(finding.ratio, finding.low, finding.high),
        phrases::metric(finding.metric),
        finding.axis.subject(&finding.baseline_value),
        place(why, finding),
        parts.join("; "),
    )
}

/// What differs in copies, in words; that nothing does, where that is so.
fn copied(from: &CellCopies, to: &CellCopies) -> Option<String> {
    let both = |c: &CellCopies| c.per_byte(bytecost_spec::Side::Both)?.ok();
    let (before, after) = (both(from)?, both(to)?);
    let legs = CopyPlace::ALL.iter().filter_map(|leg| {
        let (a, b) = (from.at(*leg).unwrap_or(0.0), to.at(*leg).unwrap_or(0.0));
        let differs = (a - b).abs() > APART;
        differs.then(|| format!("{} {b:.2} instead of {a:.2}", leg.title()))
    });
    let legs: Vec<String> = legs.collect();
    Some(if legs.is_empty() {
        format!("each byte is copied as often ({after:.2} times)")
    } else if (before - after).abs() > APART {
        format!(
            "each byte is copied {after:.2} times instead of {before:.2} ({})",
            phrases::list(&legs)
        )
    } else {
        format!(
            "each byte is copied as often ({after:.2} times), and elsewhere ({})",
            phrases::list(&legs)
        )
    })
}

fn called(from: &CellCounts, to: &CellCounts) -> Option<String> {
    let told = events(from, to);
    (!told.is_empty()).then(|| phrases::list(&told))
}
