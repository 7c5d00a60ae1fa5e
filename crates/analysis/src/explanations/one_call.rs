//! From what size one call beats one for each field.

use bytecost_spec::{Measure, Metric, Side, units};

use super::{Explained, Why, rows};
use crate::crossovers::Curve;
use crate::phrases;

const SEVERAL: &str = "send-fields";
const ONE: [&str; 2] = ["sendmsg", "send"];

pub(super) fn ask(why: &Why<'_>) -> Option<Explained> {
    let planned = |mover: &str| why.view.trials.moving().any(|c| c.cell.mover == mover);
    if !planned(SEVERAL) && !ONE.into_iter().any(planned) {
        return None;
    }
    let curves: Vec<Curve<'_>> = ONE
        .into_iter()
        .flat_map(|one| why.over_size(SEVERAL, one))
        .collect();
    let metrics = why.metrics();
    let numbers = rows(&curves, &metrics);
    let answered = match curves.first() {
        Some(curve) => why.first_crossing(curve, &metrics),
        None => Err(why.why_no_curve(SEVERAL, ONE[0])),
    };
    let (answer, findings) = match answered {
        Ok((sentence, findings)) => (Ok(sentence), findings),
        Err(missing) => (Err(missing), Vec::new()),
    };
    Some(Explained {
        answer,
        numbers,
        evidence: [SEVERAL, ONE[0], ONE[1]]
            .into_iter()
            .filter_map(|mover| calls(why, mover))
            .collect(),
        would_change: "other --fields, sizes beyond the range, or the other --pattern (streaming, or waiting for answers)",
        findings,
    })
}

/// How many calls a message took.
pub(super) fn calls(why: &Why<'_>, mover: &str) -> Option<String> {
    let metric = Metric {
        measure: Measure::CallsPerMessage,
        side: Side::Sender,
    };
    let known: Vec<f64> = why
        .cells(mover)
        .filter_map(|c| Some(c.estimates.get(&metric)?.value))
        .collect();
    let least = known.iter().copied().reduce(f64::min)?;
    let most = known.iter().copied().reduce(f64::max)?;
    let [least, most] = [least, most].map(units::number);
    let span = if least == most {
        least
    } else {
        format!("{least} to {most}")
    };
    Some(format!("`{mover}`: {span} {}", phrases::metric(metric)))
}
