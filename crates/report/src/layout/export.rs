//! A run as CSV in a [`ColumnLayout`].

use std::collections::BTreeMap;

use bytecost_analysis::typical;
use bytecost_spec::claim::has;
use bytecost_spec::sample::FlowReading;
use bytecost_spec::{Axis, Cell, Counter, Sample, Side, SideReadings, Value};
use itertools::Itertools as _;

use super::{Column, ColumnLayout, FIELDS, Quantity, TableLayout};

const MOST_DECIMALS: usize = 12;

impl TableLayout for ColumnLayout {
    fn name(&self) -> &'static str {
        self.name
    }

    /// The cells of a run, in the order of the layout. Each number is the 20 % trimmed mean of the windows
    /// of the trials that count. Cells without such a trial have no row. A value that is not available
    /// is empty.
    fn csv(
        &self,
        cells: &[Cell],
        samples: &[Sample],
        as_published: bool,
    ) -> Result<String, String> {
        let counted = counted(samples);
        let mut chosen: BTreeMap<[u64; 3], &Cell> = BTreeMap::new();
        let is_row = |c: &&Cell| has_row(self, c) && counted.contains_key(&c.id());
        for cell in cells.iter().filter(is_row) {
            // Of cells with the same key the first stays, since a run's main cells come first. A run as
            // published takes the cell most like the published programs.
            let kept = chosen.entry(self.sort_key(cell)).or_insert(cell);
            if as_published && likeness(self, cell) > likeness(self, kept) {
                *kept = cell;
            }
        }
        if chosen.is_empty() {
            return Err(no_row(self));
        }
        let rows = chosen.values().map(|cell| {
            let trials = &counted[&cell.id()];
            row(self, cell, |column| {
                let quantity = column.quantity;
                let value = |s: &&Sample| window_value(self, quantity, cell, s, as_published);
                typical(&trials.iter().map(value).collect::<Option<Vec<f64>>>()?)
            })
        });
        Ok(header(self) + &rows.collect::<String>())
    }
}

/// The samples that count, by the id of their cell: those of the last attempt at each block.
pub(super) fn counted(samples: &[Sample]) -> BTreeMap<String, Vec<&Sample>> {
    let mut last: BTreeMap<(&str, u32), &Sample> = BTreeMap::new();
    for sample in samples {
        let key = (sample.cell.as_str(), sample.trial.block);
        let latest = last.entry(key).or_insert(sample);
        if latest.trial.attempt <= sample.trial.attempt {
            *latest = sample;
        }
    }
    let mut by_cell: BTreeMap<String, Vec<&Sample>> = BTreeMap::new();
    for ((cell, _), sample) in last {
        by_cell.entry(cell.to_owned()).or_default().push(sample);
    }
    by_cell
}

/// Returns true if a layout has a row for a cell: the layout has a name for its mover, its message consists
/// of [`FIELDS`] equal fields, and its transport and pattern, which have no column, are the published ones.
fn has_row(layout: &ColumnLayout, cell: &Cell) -> bool {
    let decides = |axis: &Axis| matches!(axis, Axis::Transport | Axis::Pattern);
    let mut deciding = layout.axes.iter().filter(|(axis, _)| decides(axis));
    cell.fields == FIELDS
        && cell.size_bytes.is_multiple_of(u64::from(FIELDS))
        && layout.implementation(&cell.mover).is_some()
        && deciding.all(|(axis, value)| has(cell, *axis, &Value::from(*value)))
}

/// Number of axes along which a cell has the values of the published programs.
fn likeness(layout: &ColumnLayout, cell: &Cell) -> usize {
    let is_same = |(axis, value): &&(Axis, &str)| has(cell, *axis, &Value::from(*value));
    layout.axes.iter().filter(is_same).count()
}

/// The error of a run without a row.
fn no_row(layout: &ColumnLayout) -> String {
    let value = |wanted: Axis| {
        let row = layout.axes.iter().find(|(axis, _)| *axis == wanted);
        row.map_or("", |(_, value)| *value)
    };
    let mut movers = layout.impls.iter().map(|(_, mover)| *mover);
    format!(
        "the run measured no cell that layout {} has a row for: transport {}, pattern {}, {FIELDS} fields and mover {}",
        layout.name,
        value(Axis::Transport),
        value(Axis::Pattern),
        movers.join(", ")
    )
}

fn header(layout: &ColumnLayout) -> String {
    layout.columns.iter().map(|c| c.name).join(",") + "\n"
}

fn row(layout: &ColumnLayout, cell: &Cell, value: impl Fn(&Column) -> Option<f64>) -> String {
    let mut values = layout.columns.iter().map(|column| match column.quantity {
        Quantity::Impl => (layout.implementation(&cell.mover).unwrap_or_default()).to_owned(),
        Quantity::Size => (cell.size_bytes / layout.sizes_per_message()).to_string(),
        Quantity::Threads => cell.threads.to_string(),
        _ => value(column).map_or_else(String::new, |v| formatted(v, column.decimals)),
    });
    values.join(",") + "\n"
}

/// A number with the decimals of its column, or with three significant digits if these are more: a small
/// value is not written as zero.
pub(super) fn formatted(value: f64, decimals: usize) -> String {
    if decimals == 0 {
        return format!("{value:.0}");
    }
    // Zero and negative values have as many digits as 1.
    let magnitude = (if value > 0.0 { value } else { 1.0 }).log10().floor();
    let digits = (2.0 - magnitude).max(0.0) as usize;
    let wanted = digits.clamp(decimals, MOST_DECIMALS);
    let text = format!("{value:.wanted$}");
    let point = text.find('.').unwrap_or(text.len());
    let kept = text.trim_end_matches('0').len().max(point + 1 + decimals);
    text[..kept.min(text.len())].to_owned()
}

/// The value of a column in one window. With `first_alone` it is that of the first flow; counters are always
/// those of the whole side.
fn window_value(
    layout: &ColumnLayout,
    quantity: Quantity,
    cell: &Cell,
    sample: &Sample,
    first_alone: bool,
) -> Option<f64> {
    // The client of the published programs is the receiver here.
    let client = sample.receiver.as_ref().unwrap_or(&sample.sender);
    let flows = match client.flows.as_slice() {
        [first, ..] if first_alone => std::slice::from_ref(first),
        all => all,
    };
    if let Quantity::Counters(counters, _) = quantity {
        return counter_sum(layout, sample, counters);
    }
    if flows.is_empty() || flows.iter().any(|f| f.elapsed_ns == 0) {
        return None;
    }
    let sum = |value: &dyn Fn(&FlowReading) -> f64| flows.iter().map(value).sum::<f64>();
    let bytes = sum(&|f| f.bytes as f64);
    let elapsed_ns = sum(&|f| f.elapsed_ns as f64);
    let messages = match sum(&|f| f.messages as f64) {
        // A receiver that does not know the bounds of messages counts bytes alone.
        0.0 => bytes / cell.size_bytes.max(1) as f64,
        n => n,
    };
    match quantity {
        Quantity::Throughput => Some(sum(&|f| 8.0 * f.bytes as f64 / f.elapsed_ns as f64)),
        Quantity::Bytes => Some(bytes),
        Quantity::Messages => Some(messages),
        Quantity::Duration => Some(elapsed_ns / flows.len() as f64 / 1e9),
        Quantity::Latency => (messages > 0.0).then(|| elapsed_ns / messages / 1e3),
        _ => None,
    }
}

fn counter_sum(layout: &ColumnLayout, sample: &Sample, counters: &[Counter]) -> Option<f64> {
    let side = match layout.counted {
        Side::Receiver => sample.receiver.as_ref()?,
        _ => &sample.sender,
    };
    counters.iter().map(|c| counter(side, *c)).sum()
}

/// The reading of a counter; none for a hardware counter that did not run all the time.
fn counter(side: &SideReadings, counter: Counter) -> Option<f64> {
    let is_hardware = matches!(
        counter,
        Counter::Cycles | Counter::Instructions | Counter::L1dLoadMisses | Counter::LlcLoadMisses
    );
    let [running, enabled] = [Counter::PerfRunningNs, Counter::PerfEnabledNs];
    if is_hardware && side.measured(running)? < side.measured(enabled)? {
        return None;
    }
    side.measured(counter).map(|n| n as f64)
}

#[cfg(test)]
mod tests {
    #[test]
    fn small_numbers_keep_three_digits_within_a_bound() {
        let formatted = [0.000_412_3, 1e-30].map(|value| super::formatted(value, 3));
        assert_eq!(formatted, ["0.000412", "0.000"]);
    }
}
