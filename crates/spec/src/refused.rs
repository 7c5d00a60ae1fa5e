//! Cells that are not available on a host. They are written by reason, and those of a reason as products
//! of values, since most are refused for one value in all combinations of the others.

use std::collections::BTreeSet;

use itertools::Itertools as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::axis::{AXES, Axis, Value};
use crate::cell::{Cell, MAX_CELLS};

/// A cell of the study that is not available on this host. It is data, drawn as a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedCell {
    /// The cell.
    pub cell: Cell,
    /// The reason, and the remedy where there is one.
    pub why: String,
}

/// The refused cells of one reason, as manifests and findings contain them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RefusedCells {
    /// The reason, and the remedy where there is one.
    why: String,
    /// The cells.
    cells: Vec<CellProduct>,
}

/// A set of cells: all combinations of the values of some axes, with the other axes as in one cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct CellProduct {
    /// [`Cell::id`] of the first cell.
    like: String,
    /// The axes that vary, with their values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    values: Vec<(Axis, Vec<Value>)>,
}

impl CellProduct {
    /// Products whose union is exactly these cells.
    fn cover(cells: &[&Cell]) -> Vec<CellProduct> {
        let Some(first) = cells.first() else {
            return Vec::new();
        };
        let values_of = |axis| cells.iter().map(move |cell| cell.value(axis)).unique();
        let product = CellProduct {
            like: first.id(),
            values: (AXES.iter())
                .map(|row| (row.axis, values_of(row.axis).collect_vec()))
                .filter(|(_, values)| values.len() > 1)
                .collect(),
        };
        let Some((axis, _)) = product.values.first() else {
            return vec![product];
        };
        if product.is_exactly(cells) {
            return vec![product];
        }
        grouped(cells.iter().map(|cell| (cell.value(*axis), *cell)))
            .iter()
            .flat_map(|(_, part)| CellProduct::cover(part))
            .collect()
    }

    fn is_exactly(&self, cells: &[&Cell]) -> bool {
        let known: BTreeSet<&Cell> = cells.iter().copied().collect();
        let has_only_known = || {
            self.cells()
                .is_some_and(|product| product.iter().all(|cell| known.contains(cell)))
        };
        self.count() == Some(cells.len()) && has_only_known()
    }

    /// Number of its cells; none if there are more than a study may have.
    fn count(&self) -> Option<usize> {
        let lengths = self.values.iter().map(|(_, values)| values.len());
        let count = lengths.fold(1, usize::saturating_mul);
        (count <= MAX_CELLS).then_some(count)
    }

    /// All of its cells; none if a value or the id is invalid, or there are too many.
    fn cells(&self) -> Option<Vec<Cell>> {
        self.count()?;
        let mut cells = vec![Cell::from_id(&self.like)?];
        for (axis, values) in &self.values {
            cells = (cells.iter().cartesian_product(values))
                .map(|(base, value)| {
                    let mut cell = base.clone();
                    cell.set_value(*axis, value).ok()?;
                    Some(cell)
                })
                .collect::<Option<_>>()?;
        }
        Some(cells)
    }
}

/// The cells grouped by key, keys and cells in the order in which they first come.
fn grouped<'c, K: PartialEq>(
    pairs: impl IntoIterator<Item = (K, &'c Cell)>,
) -> Vec<(K, Vec<&'c Cell>)> {
    let mut groups: Vec<(K, Vec<&Cell>)> = Vec::new();
    for (key, cell) in pairs {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, cells)) => cells.push(cell),
            None => groups.push((key, vec![cell])),
        }
    }
    groups
}

/// Serialisation of refused cells as [`RefusedCells`], for `#[serde(with)]`.
pub mod by_reason {
    use serde::de::Error as _;

    use super::{
        CellProduct, Deserialize as _, Deserializer, MAX_CELLS, RefusedCell, RefusedCells,
        Serialize as _, Serializer, grouped,
    };

    /// Writes the cells by reason, in the order in which the reasons first come.
    pub fn serialize<S: Serializer>(refused: &[RefusedCell], to: S) -> Result<S::Ok, S::Error> {
        grouped(refused.iter().map(|r| (&r.why, &r.cell)))
            .into_iter()
            .map(|(why, cells)| RefusedCells {
                why: why.clone(),
                cells: CellProduct::cover(&cells),
            })
            .collect::<Vec<_>>()
            .serialize(to)
    }

    /// Reads the cells in the order in which they were written, by reason.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<RefusedCell>, D::Error> {
        let mut refused = Vec::new();
        for RefusedCells {
            why,
            cells: products,
        } in Vec::deserialize(from)?
        {
            for product in products {
                let cells = (product.cells())
                    .filter(|cells| refused.len() + cells.len() <= MAX_CELLS)
                    .ok_or_else(|| {
                        D::Error::custom(format!(
                            "`{}` is no cell, or a value is none, or there are more than {MAX_CELLS} cells",
                            product.like
                        ))
                    })?;
                refused.extend(cells.into_iter().map(|cell| RefusedCell {
                    cell,
                    why: why.clone(),
                }));
            }
        }
        Ok(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(mover: &str, size_bytes: u64, threads: u32) -> Cell {
        Cell {
            mover: mover.to_owned(),
            size_bytes,
            threads,
            ..Cell::default()
        }
    }

    #[derive(Serialize, Deserialize)]
    struct Holder(#[serde(with = "by_reason")] Vec<RefusedCell>);

    #[test]
    fn cells_of_one_reason_are_written_as_products_and_read_back() {
        let why = |cell: Cell, why: &str| RefusedCell {
            cell,
            why: why.to_owned(),
        };
        let mut refused = Vec::new();
        for mover in ["send", "sendfile"] {
            for size in [256, 4096, 65536] {
                refused.push(why(cell(mover, size, 2), "no CPU"));
            }
        }
        refused.push(why(cell("splice", 256, 1), "no pipe"));
        // No product: one combination is missing.
        for (size, threads) in [(256, 4), (256, 8), (4096, 4)] {
            refused.push(why(cell("send", size, threads), "no socket"));
        }
        let text = serde_json::to_string(&Holder(refused.clone())).unwrap();
        assert_eq!(text.matches("\"like\"").count(), 1 + 1 + 2, "{text}");
        let Holder(back) = serde_json::from_str(&text).unwrap();
        assert_eq!(back, refused);
        let broken = text.replacen("sendfile", "send/file", 1);
        assert!(serde_json::from_str::<Holder>(&broken).is_err());
        assert_eq!(serde_json::to_string(&Holder(Vec::new())).unwrap(), "[]");
        // Few words may not ask for more cells than a study has.
        let twos = vec!["2"; 200];
        let values = ["threads", "fields", "size"].map(|axis| (axis, &twos));
        let many = serde_json::json!([{
            "why": "x",
            "cells": [{ "like": Cell::default().id(), "values": values }],
        }]);
        assert!(serde_json::from_value::<Holder>(many).is_err());
    }
}
