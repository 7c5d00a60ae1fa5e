//! Caveats about the kernel's own word on whether it copied.

use bytecost_spec::{Measure, Metric};

use super::{UnnamedCaveat, in_cells, span};
use crate::phrases::percent;
use crate::result::CellResult;
use crate::view::View;

/// How far flags and counts may lie apart.
const APART: f64 = 0.05;
/// Copied share from which on a cell is not what its mover's name says.
const MOSTLY: f64 = 0.5;

/// Whether the kernel copied what a zero-copy mover was to leave where it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AfterAll {
    /// The share of its bytes, or of its buffers where only flags tell.
    pub(crate) share: f64,
    /// Whether that was counted.
    pub(crate) is_counted: bool,
}

/// What became of the bytes of a zero-copy mover's cell, by the strongest means that there is;
/// none for movers that copy anyway.
pub(crate) fn after_all(view: &View<'_>, cell: &CellResult) -> Option<AfterAll> {
    let flagged = cell.estimates.get(&Metric::both(Measure::CopiedShare))?;
    let counted = view.copies.iter().find(|c| c.cell == cell.id);
    let counted = counted.and_then(|c| c.after_all());
    Some(AfterAll {
        // What is sent again is copied again.
        share: counted.unwrap_or(flagged.value).min(1.0),
        is_counted: counted.is_some(),
    })
}

/// Whether a cell's bytes were mostly copied although its mover is called zero-copy: nothing is
/// said of zero-copy by what it measured.
pub(crate) fn is_no_zero_copy(view: &View<'_>, id: &str) -> bool {
    let cell = view.cells.iter().find(|c| c.id == id);
    let found = cell.and_then(|c| after_all(view, c));
    found.is_some_and(|f| f.share >= MOSTLY)
}

pub(super) fn contradicted(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let mut movers: Vec<(&str, Vec<&CellResult>)> = Vec::new();
    let flagged = |c: &CellResult| {
        let flag = c.estimates.get(&Metric::both(Measure::CopiedShare));
        flag.map_or(0.0, |e| e.value)
    };
    let counted = |c: &CellResult| after_all(view, c).filter(|a| a.is_counted);
    for cell in view.cells {
        let apart = counted(cell).is_some_and(|a| (a.share - flagged(cell)).abs() > APART);
        if !apart {
            continue;
        }
        match movers.iter_mut().find(|(m, _)| *m == cell.cell.mover) {
            Some((_, cells)) => cells.push(cell),
            None => movers.push((&cell.cell.mover, vec![cell])),
        }
    }
    let told = movers.into_iter().map(|(mover, cells)| {
        let shares = |of: &dyn Fn(&CellResult) -> f64| {
            span(&cells.iter().map(|c| of(c)).collect::<Vec<f64>>(), percent)
        };
        let flags = shares(&flagged);
        let counts = shares(&|c| counted(c).map_or(0.0, |a| a.share));
        UnnamedCaveat {
            text: format!(
                "The kernel's flags and the count of bytes contradict each other {} of `{mover}`: flagged as copied are {flags} of the buffers, copied were {counts} of the bytes. The count is what is gone by. Linux 6.18 flags small sends by io_uring that share a packet with an earlier one, though it copies none of them.",
                in_cells(cells.len())
            ),
            evidence: format!("completions flagged {flags}, bytes counted {counts}"),
            remedy: "none is needed; where flags are all that there is, hold small sends by io_uring against send-zerocopy, whose flag is right".to_owned(),
            cells: cells.iter().map(|c| c.id.clone()).collect(),
        }
    });
    told.collect()
}
