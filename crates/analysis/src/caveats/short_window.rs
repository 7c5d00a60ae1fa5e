//! Windows in which so little happened that where they begin and end is a part of the result.

use bytecost_spec::{Cache, Counter, Pattern};

use super::{UnnamedCaveat, of_cells, span};
use crate::phrases::{self, percent};
use crate::trials::CellTrials;
use crate::value::{Trial, machine, read};
use crate::view::View;

/// Messages of a flow below which each is a large part of the window.
const FEW: f64 = 10.0;
/// From this size on a window is a number of whole messages, however few.
const LONG_BYTES: u64 = 4 << 20;

/// How far the windows of both sides and of the machine may differ in length. Each thread counts
/// by its own clock, so that its numbers are right in any case; but then the sides say little of
/// the same time.
const APART: f64 = 0.25;

/// How far they differ.
fn apart(trial: &Trial<'_>) -> Option<f64> {
    let sample = trial.sample;
    let mut lengths = vec![read(&sample.sender, Counter::ElapsedNs).ok()?];
    lengths.extend(machine(sample, Counter::MachineElapsedNs));
    let receiver = sample.receiver.as_ref();
    lengths.extend(receiver.and_then(|r| read(r, Counter::ElapsedNs).ok()));
    let least = lengths.iter().copied().fold(f64::INFINITY, f64::min);
    let most = lengths.iter().copied().fold(0.0, f64::max);
    (least > 0.0).then(|| most / least - 1.0)
}

/// By how much more was sent than received: what the window filled the buffers with, as the
/// logarithm of the rates' ratio. By chance it is as often below zero as above.
fn kept(trial: &Trial<'_>) -> Option<f64> {
    let receiver = trial.sample.receiver.as_ref()?;
    let rate = |side| {
        let bytes = read(side, Counter::Bytes).ok()?;
        Some(bytes / read(side, Counter::ElapsedNs).ok()?)
    };
    let ratio = rate(&trial.sample.sender)? / rate(receiver)?;
    (ratio.is_finite() && ratio > 0.0).then(|| ratio.ln())
}

pub(super) fn detect(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let matters = view.input.manifest.study.smallest_effect;
    let by_clock = |c: &&CellTrials<'_>| {
        let by_passes = c.cell.size_bytes >= LONG_BYTES || c.cell.cache == Cache::Cold;
        !by_passes && view.stalls.waits(&c.id).is_none()
    };
    let shows = |cell: &CellTrials<'_>| {
        let flows = f64::from(cell.cell.threads.max(1));
        let of = |counter| cell.typical(|t| t.sent(counter));
        let (n, ns) = (of(Counter::Messages)? / flows, of(Counter::ElapsedNs)?);
        // Whole exchanges leave nothing in the buffers.
        let streams = cell.cell.pattern == Pattern::Stream;
        let kept = cell.typical(kept).filter(|_| streams).unwrap_or(0.0).abs();
        let apart = cell.typical(apart).unwrap_or(0.0);
        let short = n < FEW || kept > matters || apart > APART;
        short.then(|| [n, ns / 1e6, kept.max(apart)].map(Some))
    };
    of_cells(
        view.moved().filter(by_clock),
        shows,
        |cells, [messages, lengths, edges]| {
            (
            "These windows are too short: so little happened in them that where they begin and end is a part of the result.".to_owned(),
            format!(
                "{} messages of a flow within {} ms, and {} between the windows of the two sides or of the machine; medians of {}",
                span(&messages, |n| format!("{n:.0}")),
                span(&lengths, |ms| format!("{ms:.0}")),
                span(&edges, percent),
                phrases::count(cells.len(), "cell")
            ),
            "a longer --window, such as --window 500ms",
        )
        },
    )
}
