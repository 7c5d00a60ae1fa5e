//! The cost of another way on this machine, from a run that has measured both.

use bytecost_spec::{Axis, Cell, Transport};

use super::price::{CallLength, Price, Priced};
use crate::comparison::Pairing;
use crate::input::Input;
use crate::pipeline;
use crate::result::CaveatKind;
use crate::trials::{CellTrials, Trials};

/// The most that the ratio may differ by in another program, whose buffers lie otherwise in caches and whose
/// threads otherwise on CPUs than those that were measured. `make bench-profile` tries it.
const OTHER_PROGRAM: f64 = 0.05;
/// A measured length stands for those up to twice as long or as short.
const NEAR: f64 = 2.0;

/// Prices a pattern with calls of so many bytes by a run; none where the run has not measured both
/// ways at such a length over that transport, else the caveat for which it says nothing about them.
pub fn measured_price(
    input: Input<'_>,
    price: &Price,
    bytes: f64,
    transport: Transport,
) -> Option<Result<Priced, CaveatKind>> {
    let trials = Trials::of_run(&input);
    let measured = pipeline::measured(&input, &trials);
    let judged = pipeline::judged(&measured);
    let distance = |cell: &CellTrials<'_>| {
        let of_call = price.bytes(cell.cell) as f64;
        of_call.max(bytes) / of_call.min(bytes)
    };
    let mut now: Vec<&CellTrials<'_>> = trials
        .measured()
        .filter(|c| c.cell.mover == price.now && c.cell.transport == transport)
        .filter(|c| distance(c) <= NEAR)
        .collect();
    // The nearest cell, then that of the longest file, as the program made many calls, then that with the
    // shortest id, which has the fewest unusual values.
    let file_bytes = |cell: &CellTrials<'_>| match price.length {
        CallLength::Block => cell.cell.size_bytes,
        CallLength::Size | CallLength::Field => 0,
    };
    now.sort_by(|a, b| {
        distance(a)
            .total_cmp(&distance(b))
            .then(file_bytes(b).cmp(&file_bytes(a)))
            .then(a.id.len().cmp(&b.id.len()))
    });
    let pairing = now.iter().find_map(|cell| {
        let is_other = |other: &&CellTrials<'_>| is_instead(price, cell.cell, other.cell);
        let other = trials.measured().find(is_other)?;
        Some(Pairing {
            axis: Axis::Mover,
            baseline: cell,
            other,
        })
    })?;
    if let Some(kind) = judged.withheld_by(price.metric(), &pairing) {
        return Some(Err(kind));
    }
    let contrast = measured.comparisons.contrast(&pairing, price.metric())?;
    let ratio = contrast.ratio();
    Some(Ok(Priced {
        ratio: ratio.value,
        low: (ratio.low - OTHER_PROGRAM).max(0.0),
        high: ratio.high + OTHER_PROGRAM,
        call_bytes: price.bytes(pairing.baseline.cell),
    }))
}

/// Returns true if a cell moves the same bytes by the other way, and differs in nothing else.
fn is_instead(price: &Price, now: &Cell, other: &Cell) -> bool {
    let free = [Axis::Mover, Axis::Block, Axis::Size];
    let has_size = match price.instead_bytes {
        Some(bytes) => other.size_bytes == bytes,
        None => other.size_bytes == now.size_bytes,
    };
    other.mover == price.instead && has_size && other.id_without(&free) == now.id_without(&free)
}
