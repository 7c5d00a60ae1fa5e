//! The table of cells in findings.json, where values that many cells share stand once.

use std::collections::BTreeMap;

use bytecost_spec::{Axis, Cell, Metric, Value};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{CeilingShare, CellResult, Estimate, NoValue, StoodStill, TwoGroups};
use crate::grid;
use crate::grouping::grouped;

/// The cells, and the metrics that are not available in them.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct CellTable {
    /// Every cell of the plan with its estimates.
    cells: Vec<CellRow>,
    /// Metrics that apply to cells and are not available, by reason, except those of two groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    absent: Vec<AbsentMetrics>,
}

/// The row of a cell in findings.json.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct CellRow {
    /// [`Cell::id`].
    id: String,
    /// Its values on the axes in which the cells of this run differ. On all others it has those of
    /// `study.constants`.
    cell: BTreeMap<Axis, CellValue>,
    /// Trials that count.
    trials: usize,
    /// Trials that failed.
    failed: usize,
    /// Estimates by metric; a metric that does not apply to the cell has no entry.
    estimates: BTreeMap<Metric, CellEstimate>,
    /// Metrics by which its trials fall into two groups; those whose groups lie far apart have no
    /// estimate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    two_groups: Vec<TwoGroups>,
    /// The check of the payload: `content`, `count` or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    checked: Option<String>,
    /// Its throughput as a share of the machine's highest rate, where another run measured that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ceiling: Option<CeilingShare>,
    /// Windows in which its flow stood still, where there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stood_still: Option<StoodStill>,
}

/// A value of an axis, with bytes and counts as numbers.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
enum CellValue {
    /// Bytes, or a count.
    Number(u64),
    /// A word or a duration: `250ms`, `on`, `sendmsg`.
    Text(String),
}

impl From<Value> for CellValue {
    fn from(value: Value) -> CellValue {
        value
            .number()
            .map_or_else(|| CellValue::Text(value.to_string()), CellValue::Number)
    }
}

#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct CellEstimate {
    /// The estimate, as [`Estimate::value`].
    value: f64,
    /// Lower end of the 95 % interval; absent with fewer trials than an interval needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    low: Option<f64>,
    /// Upper end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    high: Option<f64>,
    /// Trials that it rests on, where these are not the cell's `trials`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trials: Option<usize>,
}

/// Metrics that are not available in cells, for one reason.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct AbsentMetrics {
    /// The reason.
    why: NoValue,
    /// The metrics.
    metrics: Vec<Metric>,
    /// [`Cell::id`]s.
    cells: Vec<String>,
}

pub(super) fn serialize<S: Serializer>(cells: &[CellResult], to: S) -> Result<S::Ok, S::Error> {
    let varied = grid::varied(cells.iter().map(|c| &c.cell));
    let table = CellTable {
        cells: cells.iter().map(|c| CellRow::new(c, &varied)).collect(),
        absent: absent(cells),
    };
    table.serialize(to)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<CellResult>, D::Error> {
    let table = CellTable::deserialize(from)?;
    let cell = |row| CellRow::result(row, &table.absent).map_err(D::Error::custom);
    table.cells.into_iter().map(cell).collect()
}

fn absent(cells: &[CellResult]) -> Vec<AbsentMetrics> {
    let of_cells = cells.iter().flat_map(|cell| {
        let by_reason = grouped(cell.absent.iter().map(|(metric, why)| (why, *metric)));
        by_reason.into_iter().map(|reason| (reason, &cell.id))
    });
    let groups = grouped(of_cells)
        .into_iter()
        .map(|((why, metrics), ids)| AbsentMetrics {
            why: why.clone(),
            metrics,
            cells: ids.into_iter().cloned().collect(),
        });
    groups.collect()
}

impl CellRow {
    fn new(cell: &CellResult, varied: &[Axis]) -> CellRow {
        let estimates = cell
            .estimates
            .iter()
            .map(|(metric, e)| (*metric, CellEstimate::new(e, cell.trials)));
        let values = grid::coordinates(&cell.cell, varied).into_iter();
        CellRow {
            id: cell.id.clone(),
            cell: values.map(|(axis, value)| (axis, value.into())).collect(),
            trials: cell.trials,
            failed: cell.failed,
            estimates: estimates.collect(),
            two_groups: cell.two_groups.clone(),
            checked: cell.checked.clone(),
            ceiling: cell.ceiling.clone(),
            stood_still: cell.stood_still,
        }
    }

    fn result(self, absent: &[AbsentMetrics]) -> Result<CellResult, String> {
        let cell = Cell::from_id(&self.id).ok_or_else(|| format!("`{}` is no cell", self.id))?;
        let absent = absent
            .iter()
            .filter(|a| a.cells.contains(&self.id))
            .flat_map(|a| a.metrics.iter().map(|metric| (*metric, a.why.clone())));
        let estimates = self
            .estimates
            .into_iter()
            .map(|(metric, e)| (metric, e.estimate(self.trials)));
        Ok(CellResult {
            cell,
            trials: self.trials,
            failed: self.failed,
            estimates: estimates.collect(),
            absent: absent.collect(),
            two_groups: self.two_groups,
            checked: self.checked,
            ceiling: self.ceiling,
            stood_still: self.stood_still,
            id: self.id,
        })
    }
}

impl CellEstimate {
    fn new(estimate: &Estimate, of_cell: usize) -> CellEstimate {
        CellEstimate {
            value: estimate.value,
            low: estimate.low,
            high: estimate.high,
            trials: Some(estimate.trials).filter(|trials| *trials != of_cell),
        }
    }

    fn estimate(self, of_cell: usize) -> Estimate {
        Estimate {
            value: self.value,
            low: self.low,
            high: self.high,
            trials: self.trials.unwrap_or(of_cell),
        }
    }
}
