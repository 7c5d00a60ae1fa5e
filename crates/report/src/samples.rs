//! `samples.csv`: one row a trial, every reading a column.

use bytecost_spec::axis::{AXES, ValueKind};
use bytecost_spec::reading::{COUNTERS, Scope};
use bytecost_spec::sample::FlowReading;
use bytecost_spec::{Axis, Cell, Counter, Held, Reading, Ring, Sample};
use itertools::Itertools as _;

use crate::text::csv_rows;

/// Error of writing samples as a table.
#[derive(Debug, thiserror::Error)]
pub enum SamplesError {
    /// A sample names a cell that the plan does not have.
    #[error(
        "block {block}: sample of cell {cell}, but the plan has {cells} cells: the log and the manifest are not of the same run"
    )]
    UnknownCell {
        /// The sample's block.
        block: u32,
        /// The cell that it names.
        cell: u32,
        /// Cells of the plan.
        cells: usize,
    },
    /// The table could not be put together.
    #[error("samples.csv could not be written: {0}")]
    Csv(#[from] csv::Error),
}

/// Renders samples as CSV: a header, then one row a trial in the order given, repeated trials
/// included and marked in `repeated_because`. Units are in the names of the columns. What is
/// absent is empty, never zero.
///
/// # Errors
/// A sample whose cell is not among `cells`.
pub fn samples_csv(cells: &[Cell], samples: &[Sample]) -> Result<Vec<u8>, SamplesError> {
    let mut rows = vec![header()];
    for sample in samples {
        let trial = sample.trial;
        rows.push(match cells.get(trial.cell as usize) {
            Some(cell) => row(cell, sample),
            None => {
                return Err(SamplesError::UnknownCell {
                    block: trial.block,
                    cell: trial.cell,
                    cells: cells.len(),
                });
            }
        });
    }
    Ok(csv_rows(rows)?)
}

/// Payload in Gbit/s, of the receiver where there is one. None where a flow has no window.
fn throughput_gbit_per_s(sample: &Sample) -> Option<f64> {
    let side = sample.receiver.as_ref().unwrap_or(&sample.sender);
    if side.flows.is_empty() || side.flows.iter().any(|f| f.elapsed_ns == 0) {
        return None;
    }
    let rate = |f: &FlowReading| f.bytes as f64 * 8.0 / f.elapsed_ns as f64;
    Some(side.flows.iter().map(rate).sum())
}

fn header() -> Vec<String> {
    let first = ["block", "cell", "twin", "attempt"];
    let mut names = first.map(str::to_owned).to_vec();
    names.extend(AXES.iter().map(|row| axis_column(row.axis)));
    names.extend(["started_ms", "trial_ms", "throughput_gbit_per_s"].map(str::to_owned));
    for side in ["sender", "receiver"] {
        names.push(format!("{side}_flows"));
        let of_side = counters(Scope::Side).map(|c| format!("{side}_{}", c.name()));
        names.extend(of_side);
    }
    names.extend(counters(Scope::Machine).map(|c| c.name().to_owned()));
    names.extend(["sent_bytes", "received_bytes", "compared_bytes", "checked"].map(str::to_owned));
    names.extend(["sender_cpus", "receiver_cpus", "neighbour_cpus"].map(str::to_owned));
    names
}

fn row(cell: &Cell, sample: &Sample) -> Vec<String> {
    let trial = sample.trial;
    let mut values = vec![
        trial.block.to_string(),
        trial.cell.to_string(),
        (if cell.twin { "yes" } else { "no" }).to_owned(),
        trial.attempt.to_string(),
    ];
    values.extend(AXES.iter().map(|row| axis_value(cell, row.axis)));
    values.push(sample.started_ms.to_string());
    values.push(sample.trial_ms.to_string());
    values.push(or_empty(throughput_gbit_per_s(sample)));
    for side in [Some(&sample.sender), sample.receiver.as_ref()] {
        values.push(or_empty(side.map(|s| s.flows.len())));
        values.extend(counters(Scope::Side).map(|c| or_empty(side.and_then(|s| s.measured(c)))));
    }
    let machine = |c| sample.machine.get(&c).and_then(Reading::measured);
    values.extend(counters(Scope::Machine).map(|c| or_empty(machine(c))));
    let truth = sample.truth.as_ref();
    values.extend([
        or_empty(truth.map(|t| t.sent_bytes)),
        or_empty(truth.map(|t| t.received_bytes)),
        or_empty(truth.map(|t| t.compared_bytes)),
        or_empty(truth.map(|t| &t.checked)),
        cpus(&sample.sender.held),
        (sample.receiver.as_ref()).map_or_else(String::new, |s| cpus(&s.held)),
        cpus(&sample.neighbour),
    ]);
    values
}

/// The CPUs of each thread: `0;2`, or `0+1` where one may run on several.
fn cpus(held: &[Held]) -> String {
    held.iter().map(|h| h.cpus.iter().join("+")).join(";")
}

fn counters(scope: Scope) -> impl Iterator<Item = Counter> {
    let rows = COUNTERS.iter().filter(move |row| row.scope == scope);
    rows.map(|row| row.counter)
}

fn or_empty(value: Option<impl ToString>) -> String {
    value.map(|v| v.to_string()).unwrap_or_default()
}

/// The axis's column: its name, with the unit where the value is a number of bytes.
fn axis_column(axis: Axis) -> String {
    let name = axis.name().replace('-', "_");
    let is_of_bytes = matches!(axis.row().kind, ValueKind::Bytes | ValueKind::PlainBytes);
    if is_of_bytes && !name.ends_with("_bytes") {
        return name + "_bytes";
    }
    name
}

/// The axis's value; sizes as plain numbers, a socket buffer that the kernel tunes as nothing.
fn axis_value(cell: &Cell, axis: Axis) -> String {
    let value = cell.value(axis);
    let bytes = match axis {
        Axis::ReadSize => Some(cell.read_bytes()),
        Axis::Response => Some(cell.answer_bytes()),
        Axis::Ring if cell.ring == Ring::Message => Some(cell.size_bytes),
        _ => value.number(),
    };
    match axis.row().kind {
        ValueKind::Bytes => or_empty(bytes),
        ValueKind::PlainBytes => or_empty(bytes.filter(|_| axis.is_shown(&value))),
        _ => value.to_string(),
    }
}
