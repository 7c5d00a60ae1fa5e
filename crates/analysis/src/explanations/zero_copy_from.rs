//! From what size zero-copy beats copying.

use bytecost_spec::{Measure, Metric};

use super::{Explained, MOST_ROWS, Why, rows};
use crate::caveats::copied;
use crate::caveats::flags::is_no_zero_copy;
use crate::crossovers::Curve;

pub(super) fn ask(why: &Why<'_>) -> Option<Explained> {
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
    let real: Vec<&Curve<'_>> = curves.iter().filter(|c| is_real(why, c)).collect();
    let answered = match real.first() {
        Some(curve) => why.first_crossing(curve, &metrics),
        None if !curves.is_empty() => Err(withheld(why, &curves[0].value)),
        None => Err(why.why_no_curve(copying, zero)),
    };
    let (answer, findings) = match answered {
        Ok((sentence, findings)) => (Ok(sentence), findings),
        Err(missing) => (Err(missing), Vec::new()),
    };
    // What the first answer says of one metric, the others may turn round.
    let further = real.iter().skip(1).take(MOST_ROWS);
    let others = further.filter_map(|c| c.crossover(why.view, metrics[0]));
    let evidence = others
        .map(|c| c.sentence)
        .chain(copied(why.view).into_iter().map(|c| c.sentence()));
    Some(Explained {
        answer,
        numbers,
        evidence: evidence.collect(),
        would_change: "a path on which the kernel does not copy after all (one that leaves this machine, or --transport wire), sizes beyond the range, or payload from memory that is in no cache (--ring)",
        findings,
    })
}

/// Whether anything of a curve is zero-copy at all.
pub(super) fn is_real(why: &Why<'_>, curve: &Curve<'_>) -> bool {
    let mut points = curve.points.iter();
    points.any(|p| !is_no_zero_copy(why.view, &p.pairing.other.id))
}

/// Why nothing is said of zero-copy by what a mover measured that the kernel copied for.
pub(super) fn withheld(why: &Why<'_>, zero: &str) -> String {
    let copied = copied(why.view).into_iter().filter(|c| c.mover == zero);
    let told: Vec<String> = copied.map(|c| c.sentence()).collect();
    format!(
        "withheld, since what was measured is no zero-copy: {} On a path where nothing copies (`bytecost run send-wire`, as root) it can be answered",
        told.join(" ")
    )
}

/// Whether the metric is one that tells copied buffers.
pub(super) const COPIED: Metric = Metric::both(Measure::CopiedShare);
