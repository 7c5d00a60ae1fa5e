//! The plan of a run: its cells, and the order of each block.

use serde::{Deserialize, Serialize};

use super::Expectation;
use crate::cell::Cell;
#[cfg(feature = "schema")]
use crate::refused::RefusedCells;
use crate::refused::{RefusedCell, by_reason};
use crate::survey::LeftOut;

/// The cells of a run and their order in each block, and the cells that it does not measure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Plan {
    /// The cells; the log names them by index. The `null` mover's cell, the cost of the loop alone, is
    /// first if there is one; the twins of baselines are last. Written as their ids.
    #[serde(with = "ids")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub cells: Vec<Cell>,
    /// The indices of the cells in the order in which each block measures them, block 0 first: as many
    /// blocks as the budget can pay for at most. Each is written as one text: `2 0 1`.
    #[serde(with = "rows")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub orders: Vec<Vec<u32>>,
    /// The indices of cells that are compared with each other: a block measures them one after another.
    /// Each group is written as one text.
    #[serde(with = "rows")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub groups: Vec<Vec<u32>>,
    /// Expected duration of a trial in ms, mean over the cells: set-up, warm-up and window.
    pub trial_ms: u64,
    /// Cells of the study that this host does not allow, by reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "by_reason")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<RefusedCells>"))]
    pub refused: Vec<RefusedCell>,
    /// Cells that the budget does not pay for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// Decisions that the study leaves open, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The effects that the run is expected to find; none where the noise was not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expectation: Option<Expectation>,
}

impl Plan {
    /// Returns true if all orders and groups consist of indices of cells, each at most once.
    pub fn is_consistent(&self) -> bool {
        let cells = self.cells.len();
        let are_distinct_cells = |indices: &Vec<u32>| {
            let mut is_seen = vec![false; cells];
            indices.iter().all(|index| {
                (is_seen.get_mut(*index as usize))
                    .is_some_and(|seen| !std::mem::replace(seen, true))
            })
        };
        self.orders
            .iter()
            .chain(&self.groups)
            .all(are_distinct_cells)
    }
}

/// Serialisation of cells as their ids, for `#[serde(with)]`.
mod ids {
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    use crate::cell::Cell;

    pub(super) fn serialize<S: Serializer>(cells: &[Cell], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(cells.iter().map(Cell::id))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Cell>, D::Error> {
        let cell = |id: String| {
            Cell::from_id(&id).ok_or_else(|| D::Error::custom(format!("`{id}` is no cell")))
        };
        Vec::<String>::deserialize(from)?
            .into_iter()
            .map(cell)
            .collect()
    }
}

/// Serialisation of rows of numbers as one text each, so that a row is one line of the manifest.
mod rows {
    use itertools::Itertools as _;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(rows: &[Vec<u32>], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(rows.iter().map(|row| row.iter().join(" ")))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<Vec<u32>>, D::Error> {
        let row = |text: String| {
            let numbers: Result<Vec<u32>, _> = text.split_whitespace().map(str::parse).collect();
            numbers.map_err(|_| D::Error::custom(format!("`{text}` is no row of numbers")))
        };
        Vec::<String>::deserialize(from)?
            .into_iter()
            .map(row)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let cell = |size_bytes| Cell {
            size_bytes,
            ..Cell::default()
        };
        Plan {
            cells: vec![cell(256), cell(4096)],
            orders: vec![vec![0, 1], vec![1, 0]],
            groups: vec![vec![0, 1]],
            ..Plan::default()
        }
    }

    #[test]
    fn cells_are_written_as_their_ids_and_orders_as_a_line_each() {
        let plan = plan();
        let json = serde_json::to_value(&plan).unwrap();
        assert_eq!(json["cells"][1], plan.cells[1].id());
        assert_eq!(json["orders"][1], "1 0");
        assert_eq!(serde_json::from_value::<Plan>(json).unwrap(), plan);
        let text = r#"{"cells": [], "orders": ["0 x"], "groups": [], "trial_ms": 1}"#;
        let no_row = serde_json::from_str::<Plan>(text).unwrap_err();
        assert!(no_row.to_string().contains("`0 x` is no row"), "{no_row}");
        let unknown = r#"{"cells": ["teleport"], "orders": [], "groups": [], "trial_ms": 1}"#;
        let no_cell = serde_json::from_str::<Plan>(unknown).unwrap_err();
        assert!(
            no_cell.to_string().starts_with("`teleport` is no cell"),
            "{no_cell}"
        );
    }

    #[test]
    fn a_plan_orders_its_own_cells_once_in_a_block() {
        assert!(plan().is_consistent());
        for order in [vec![0, 2], vec![1, 1]] {
            let mut other = plan();
            other.orders[1] = order;
            assert!(!other.is_consistent(), "{other:?}");
        }
        let mut other = plan();
        other.groups.push(vec![2]);
        assert!(!other.is_consistent());
    }
}
