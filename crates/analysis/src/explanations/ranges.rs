//! Several numbers in a few words: from the least to the greatest, with what their intervals span.

use bytecost_spec::{Metric, units};

use super::{Why, estimate};
use crate::crossovers::Ratio;
use crate::phrases;
use crate::result::Estimate;

/// Cells of a row of numbers; the rest is in the tables.
const MOST_OF_A_ROW: usize = 6;

/// From the least to the greatest of some ratios, with all that their intervals span:
/// `0.12× to 0.30× (0.11 to 0.33)`.
pub(super) fn hull(ratios: &[Ratio]) -> String {
    let least = ratios.iter().min_by(|a, b| a.value.total_cmp(&b.value));
    let most = ratios.iter().max_by(|a, b| a.value.total_cmp(&b.value));
    let (Some(least), Some(most)) = (least, most) else {
        return String::new();
    };
    let low = ratios.iter().map(|r| r.low).fold(f64::INFINITY, f64::min);
    let high = ratios.iter().map(|r| r.high).fold(0.0, f64::max);
    if ratios.len() == 1 {
        return phrases::ratio(least.value, low, high);
    }
    let [value, top, low, high] = [least.value, most.value, low, high].map(units::number);
    // Alike in all digits that are written.
    if least.value > 0.995 * most.value {
        return format!("{top}× ({low} to {high})");
    }
    format!("{value}× to {top}× ({low} to {high})")
}

/// The numbers of a row, the last of them as how many more there are.
pub(super) fn span_of(told: &[String]) -> String {
    let shown = &told[..told.len().min(MOST_OF_A_ROW)];
    let more = match told.len() - shown.len() {
        0 => String::new(),
        n => format!("; {n} more in the tables"),
    };
    format!("{}{more}", shown.join("; "))
}

/// The estimates of a metric over some cells, with all that their intervals span:
/// `2.0 to 2.2 (1.9 to 2.3)`; none where no cell has it.
pub(super) fn estimates(why: &Why<'_>, cells: &[&str], metric: Metric) -> Option<(f64, String)> {
    let of = |id: &&str| {
        let result = why.view.cells.iter().find(|c| c.id == **id)?;
        result.estimates.get(&metric)
    };
    let known: Vec<&Estimate> = cells.iter().filter_map(of).collect();
    let least = known.iter().map(|e| e.value).reduce(f64::min)?;
    let most = known.iter().map(|e| e.value).reduce(f64::max)?;
    if let [one] = known[..] {
        return Some((least, estimate(one, metric)));
    }
    let low = known.iter().map(|e| e.low.unwrap_or(e.value));
    let high = known.iter().map(|e| e.high.unwrap_or(e.value));
    let low = units::number(low.fold(f64::INFINITY, f64::min));
    let high = units::number(high.fold(0.0, f64::max));
    let unit = metric.measure.row().unit;
    let [from, to] = [least, most].map(units::number);
    let values = if from == to {
        format!("{from} {unit}")
    } else {
        format!("{from} to {to} {unit}")
    };
    Some((least, format!("{} ({low} to {high})", values.trim_end())))
}
