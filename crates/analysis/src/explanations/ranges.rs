//! Several numbers in a few words: from the least to the greatest, with what their intervals span.

use bytecost_spec::{Metric, units};
use itertools::Itertools as _;

use super::View;
use crate::contrast::Ratio;
use crate::phrases;

/// Cells of a row of numbers; the rest is in the tables.
const MOST_OF_A_ROW: usize = 6;

/// From the least to the greatest of some ratios, with all that their intervals span:
/// `0.12× to 0.30× (0.11 to 0.33)`.
pub(super) fn hull(ratios: &[Ratio]) -> String {
    let by = |a: &&Ratio, b: &&Ratio| a.value.total_cmp(&b.value);
    let (Some(least), Some(most)) = (ratios.iter().min_by(by), ratios.iter().max_by(by)) else {
        return String::new();
    };
    let low = ratios.iter().map(|r| r.low).fold(f64::INFINITY, f64::min);
    let high = ratios.iter().map(|r| r.high).fold(0.0, f64::max);
    // Alike in all digits that are written.
    if least.value > 0.995 * most.value {
        return phrases::ratio(most.value, low, high);
    }
    let [value, top, low, high] = [least.value, most.value, low, high].map(units::number);
    format!("{value}× to {top}× ({low} to {high})")
}

/// The numbers of a row, the last of them as how many more there are.
pub(super) fn span_of(told: &[String]) -> String {
    let shown = told[..told.len().min(MOST_OF_A_ROW)].join("; ");
    match told.len().saturating_sub(MOST_OF_A_ROW) {
        0 => shown,
        n => format!("{shown}; {n} more in the tables"),
    }
}

/// The estimates of a metric over some cells, with all that their intervals span:
/// `2.0 to 2.2 (1.9 to 2.3)`; none where no cell has it.
pub(super) fn estimates<'i>(
    view: &View<'_>,
    cells: impl IntoIterator<Item = &'i str>,
    metric: Metric,
) -> Option<String> {
    let cells = cells.into_iter();
    let known = cells.filter_map(|id| view.result(id)?.estimates.get(&metric));
    let known = known.collect_vec();
    if known.is_empty() {
        return None;
    }
    let values = known.iter().map(|e| e.value).collect_vec();
    let values = phrases::span(&values, units::number);
    let values = format!("{values} {}", metric.measure.row().unit);
    let bounds = known.iter().flat_map(|e| [e.low, e.high]);
    let values = values.trim_end();
    match bounds.collect::<Option<Vec<f64>>>() {
        None => Some(values.to_owned()),
        Some(bounds) => {
            let (low, high) = bounds.into_iter().minmax().into_option()?;
            let [low, high] = [low, high].map(units::number);
            Some(format!("{values} ({low} to {high})"))
        }
    }
}
