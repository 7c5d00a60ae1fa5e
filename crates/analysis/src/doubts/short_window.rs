//! Windows in which too little happened.

use bytecost_spec::{Cache, Counter};

use super::{Told, View, span, typical};
use crate::trials::CellTrials;
use crate::value::read;
use crate::words;

/// The shortest window that is long, in ms: a few ticks of the scheduler.
const SHORT_MS: f64 = 20.0;
/// Messages of a flow below which each is a large part of the window.
const FEW: f64 = 10.0;
/// From this size on a window is a number of whole messages, however few.
const LONG_BYTES: u64 = 4 << 20;

pub(super) fn detect(view: &View<'_>) -> Vec<Told> {
    let (mut cells, mut messages, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
    let by_clock = |c: &&CellTrials<'_>| {
        let by_passes = c.cell.size_bytes >= LONG_BYTES || c.cell.cache == Cache::Cold;
        !by_passes && view.stalls.waits(&c.id).is_none()
    };
    for cell in view.moved().filter(by_clock) {
        let flows = f64::from(cell.cell.threads.max(1));
        let of = |counter| typical(cell, |t| read(&t.sample.sender, counter).ok());
        let (Some(n), Some(ns)) = (of(Counter::Messages), of(Counter::ElapsedNs)) else {
            continue;
        };
        let (n, ms) = (n / flows, ns / 1e6);
        if n < FEW || ms < SHORT_MS {
            cells.push(cell.id.clone());
            messages.push(n);
            lengths.push(ms);
        }
    }
    if cells.is_empty() {
        return Vec::new();
    }
    vec![Told {
        text: "These windows are too short: so little happened in them that where they begin and end is a part of the result.".to_owned(),
        evidence: format!(
            "{} messages of a flow within {} ms, medians of {}",
            span(&messages, |n| format!("{n:.0}")),
            span(&lengths, |ms| format!("{ms:.0}")),
            words::count(cells.len(), "cell")
        ),
        cure: "a longer --window, such as --window 500ms".to_owned(),
        cells,
    }]
}
