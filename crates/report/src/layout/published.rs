//! A published table as cells and metrics.

use std::collections::BTreeMap;

use bytecost_spec::table::number;
use bytecost_spec::{Axis, Cell, Measure, Metric, Published, PublishedCell, Table, units};

use super::{Column, ColumnLayout, FIELDS, Quantity};

impl ColumnLayout {
    /// The publication as cells with metrics, from its table. Empty values are absent.
    ///
    /// # Errors
    /// The first line that is wrong: other columns, a name that is not known, a number that is none.
    pub fn published(&self, table: &Table) -> Result<Published, String> {
        if !self.columns.iter().map(|c| c.name).eq(&table.columns) {
            return Err(format!("its columns are not those of layout {}", self.name));
        }
        let mut cells = Vec::with_capacity(table.rows.len());
        for (line, values) in &table.rows {
            let cell = published_cell(self, values);
            cells.push(cell.map_err(|why| format!("line {line}: {why}"))?);
        }
        Ok(Published {
            source: self.name.to_owned(),
            cells,
            ..Published::default()
        })
    }
}

fn published_cell(layout: &ColumnLayout, values: &[String]) -> Result<PublishedCell, String> {
    let mut cell = Cell {
        fields: FIELDS,
        ..Cell::default()
    };
    // Settings that all cells of the published programs have.
    for (axis, value) in layout.axes {
        cell.set(*axis, value).map_err(|e| e.0)?;
    }
    let mut numbers = BTreeMap::new();
    for (column, value) in layout.columns.iter().zip(values) {
        match column.quantity {
            Quantity::Impl => cell.mover = mover(layout, value)?.to_owned(),
            Quantity::Size => {
                cell.set(Axis::Size, value).map_err(|e| e.0)?;
                cell.size_bytes *= layout.sizes_per_message();
            }
            Quantity::Threads => cell.set(Axis::Threads, value).map_err(|e| e.0)?,
            _ if value.is_empty() => {}
            _ => {
                numbers.insert(column.name, number(value)?);
            }
        }
    }
    Ok(PublishedCell {
        id: cell.id(),
        values: metrics(layout, &cell, &numbers),
        cell,
    })
}

fn mover(layout: &ColumnLayout, name: &str) -> Result<&'static str, String> {
    let row = layout.impls.iter().find(|(n, _)| *n == name);
    row.map(|(_, mover)| *mover)
        .ok_or_else(|| units::unknown("implementation", name, layout.impls.iter().map(|(n, _)| *n)))
}

/// The metrics of a published row. Its counters are of all threads, but its bytes of the first client, so
/// that costs are known with one thread alone.
fn metrics(
    layout: &ColumnLayout,
    cell: &Cell,
    numbers: &BTreeMap<&'static str, f64>,
) -> BTreeMap<Metric, f64> {
    let value = |quantity: Quantity| {
        let column = layout.columns.iter().find(|c| c.quantity == quantity)?;
        numbers.get(column.name).copied().filter(|n| *n > 0.0)
    };
    let metric = |column: &Column| {
        use Measure::{ContextSwitchesPerMessage, L1dLoadMissesPerKib, LlcLoadMissesPerKib};
        let n = *numbers.get(column.name)?;
        match column.quantity {
            Quantity::Throughput => Some((Metric::both(Measure::ThroughputGbitPerS), n)),
            Quantity::Latency => Some((Metric::both(Measure::LatencyUsP50), n)),
            Quantity::Counters(_, Some(measure)) if cell.threads == 1 => {
                let denominator = match measure {
                    ContextSwitchesPerMessage => value(Quantity::Messages)?,
                    L1dLoadMissesPerKib | LlcLoadMissesPerKib => value(Quantity::Bytes)? / 1024.0,
                    _ => value(Quantity::Bytes)?,
                };
                Some((Metric::new(measure, layout.counted), n / denominator))
            }
            _ => None,
        }
    };
    layout.columns.iter().filter_map(metric).collect()
}
