//! From what size zero-copy beats copying.

use bytecost_spec::{Measure, Metric};

use super::{MOST_ROWS, Told, Why, rows};
use crate::crossovers::Curve;
use crate::doubts::copied;

pub(super) fn ask(why: &Why<'_>) -> Option<Told> {
    let pairs = why.zero_copy_pairs();
    let (zero, copying) = *pairs.first()?;
    let mut seen: Vec<&str> = Vec::new();
    let mut curves: Vec<Curve<'_>> = Vec::new();
    // Of each zero-copy mover the nearest way that copies and was measured.
    for (zero, copying) in &pairs {
        let found = why.over_size(copying, zero);
        if !found.is_empty() && !seen.contains(zero) {
            seen.push(zero);
            curves.extend(found);
        }
    }
    let metrics = why.metrics();
    let numbers = rows(&curves, &metrics);
    let answered = match curves.first() {
        Some(curve) => why.first_crossing(curve, &metrics),
        None => Err(why.why_no_curve(copying, zero)),
    };
    let (answer, findings) = match answered {
        Ok((sentence, findings)) => (Ok(sentence), findings),
        Err(missing) => (Err(missing), Vec::new()),
    };
    // What the first answer says of one metric, the others may turn round.
    let further = curves.iter().skip(1).take(MOST_ROWS);
    let others = further.filter_map(|c| c.crossover(why.view, metrics[0]));
    let evidence = others
        .map(|c| c.sentence)
        .chain(copied(why.view).into_iter().map(|c| c.sentence()));
    Some(Told {
        answer,
        numbers,
        evidence: evidence.collect(),
        would_change: "a path on which the kernel does not copy after all (one that leaves this machine, or --transport wire), sizes beyond the range, or payload from memory that is in no cache (--ring)",
        findings,
    })
}

/// Whether the metric is one that tells copied buffers.
pub(super) const COPIED: Metric = Metric::both(Measure::CopiedShare);
