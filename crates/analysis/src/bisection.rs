//! Sizes between two of a run, where one way becomes better.

use bytecost_spec::{Axis, Cache, Cell};
use itertools::Itertools as _;

use crate::grouping::grouped;
use crate::result::{Finding, Input, Verdict};

/// How far two sizes must be apart for one between them to tell more.
const APART: u64 = 4;

/// The cells that a bisection measures next: of each way that is better than its baseline at one
/// size and not at the next decided one, both at the power of two between these, in the order of
/// the findings. Only of the first metric of a comparison, by corrected verdicts.
///
/// Which sizes are measured depends on verdicts, and whether measuring stops does not: the new cells
/// have samples of their own, and their comparisons are secondary unless the study says otherwise of
/// these sizes. Sizes with an undecided one between need blocks rather than sizes, and get none here.
/// Neither do cells with a server or with files on a disk, which are prepared before a run.
pub fn bisected(input: Input<'_>) -> Vec<Cell> {
    let findings = crate::analyse(input).findings;
    let first = findings.iter().filter(|f| f.first && f.axis == Axis::Mover);
    let placed = first.filter_map(|f| Some((f, sent(input.cells, &f.cell)?)));
    let curves = grouped(placed.map(|(finding, cell)| {
        let way = cell.id_without(&[Axis::Size]);
        (
            (finding.metric, &finding.baseline_value, way),
            (finding, cell),
        )
    }));
    let is_better = |f: &Finding| match f.verdict {
        Verdict::NotDecided | Verdict::NotJudged => None,
        verdict => Some(verdict == Verdict::Better),
    };
    let mut cells: Vec<Cell> = Vec::new();
    for (_, mut curve) in curves {
        curve.sort_by_key(|(_, cell)| cell.size_bytes);
        for ((below, from), (above, to)) in curve.iter().tuple_windows() {
            let both = is_better(below).zip(is_better(above));
            let turns = both.is_some_and(|(below, above)| below != above);
            let between = between(from.size_bytes, to.size_bytes).filter(|_| turns);
            let Some(size_bytes) = between else { continue };
            let pair = [&below.baseline, &below.cell].map(|id| sent(input.cells, id));
            for cell in pair.into_iter().flatten() {
                let cell = Cell {
                    size_bytes,
                    ..cell.clone()
                };
                if !cells.contains(&cell) && !input.cells.contains(&cell) {
                    cells.push(cell);
                }
            }
        }
    }
    cells
}

/// The power of two between two sizes by their logarithm; none where they are too near.
fn between(from: u64, to: u64) -> Option<u64> {
    let far = from > 0 && to / from >= APART;
    far.then(|| 1 << ((from.ilog2() + to.ilog2()) / 2))
}

/// The cell of an id, where it sends memory over a socket.
fn sent<'c>(cells: &'c [Cell], id: &str) -> Option<&'c Cell> {
    let sends = |c: &&Cell| !c.is_served() && c.cache == Cache::Memory && c.size_bytes > 0;
    cells.iter().filter(sends).find(|c| !c.twin && c.id() == id)
}
