//! Caveats about the transport `wire`: what it leaves out, and whether it did what it should.

use bytecost_spec::cell::Device;
use bytecost_spec::{Counter, units};
use itertools::Itertools as _;

use super::{UnnamedCaveat, caveat, ids, seen, span};
use crate::phrases::{self, percent};
use crate::trials::CellTrials;
use crate::value::Trial;
use crate::view::View;

/// The kernel's work on the responder's account, as a share of the sender's CPU time, that is
/// passed over.
const ASIDE: f64 = 0.05;

fn over_wire<'v>(view: &View<'v>) -> impl Iterator<Item = &'v CellTrials<'v>> {
    let is_wire = |c: &&CellTrials<'_>| c.cell.transport.is_wire();
    view.measured().filter(is_wire)
}

/// A count, which a number for readers may have given decimals.
pub(super) fn whole(count: f64) -> String {
    let text = units::number(count);
    text.split('.').next().unwrap_or(&text).to_owned()
}

/// What the device was, where it was not the usual one.
fn device(cells: &[&CellTrials<'_>]) -> String {
    let on_veth = |c: &&&CellTrials<'_>| c.cell.device == Device::Veth;
    let text = match cells.iter().filter(on_veth).count() {
        0 => return String::new(),
        n if n == cells.len() => "Their device was",
        _ => "The device of those with device=veth was",
    };
    format!(
        " {text} {}, not {}: each packet has the head of a frame too.",
        Device::Veth.in_words(),
        Device::Tun.in_words()
    )
}

/// No fault, but what every number over wire must be read with.
pub(super) fn one_side(view: &View<'_>) -> Option<UnnamedCaveat> {
    let cells = over_wire(view).collect_vec();
    let count = |counter| -> f64 { cells.iter().map(|c| c.sum(|t| t.of_all(counter))).sum() };
    caveat(
        format!(
            "Over wire packets are freed as they leave: these cells show the sender's cost alone, against a peer that costs nothing. No network card can do better, and no receiver is in them.{}",
            device(&cells)
        ),
        format!(
            "{} packets taken off, {} acknowledgements written",
            whole(count(Counter::WirePackets)),
            whole(count(Counter::WireAcknowledgements))
        ),
        "loopback and veth have both sides, with a copy on delivery",
        ids(cells),
    )
}

/// Packets that did not come in order, once.
pub(super) fn strays(view: &View<'_>) -> Option<UnnamedCaveat> {
    let shows = |cell: &CellTrials<'_>| {
        let sum = |counter| cell.sum(|t| t.of_all(counter));
        let (early, again) = (sum(Counter::WireGaps), sum(Counter::WireRepeats));
        let all = [early, again, sum(Counter::WirePackets)];
        (early + again > 0.0).then(|| all.map(Some))
    };
    let (cells, sums) = seen(over_wire(view), shows)?;
    let [early, again, all] = sums.map(|of| whole(of.iter().sum()));
    caveat(
        "Not all packets over wire came in order and once, though nothing can be lost there: the sender sent some again, and that is in its cost.",
        format!(
            "{early} packets began after what was expected and {again} brought nothing new, of {all}"
        ),
        "give the responder a CPU of its own with --placement, so that acknowledgements are not late",
        ids(cells),
    )
}

/// Work of the sender's that the kernel did while an acknowledgement was written.
pub(super) fn responder(view: &View<'_>) -> Option<UnnamedCaveat> {
    let shows = |cell: &CellTrials<'_>| Some([Some(cell.typical(aside).filter(|s| *s > ASIDE)?)]);
    let (cells, [shares]) = seen(over_wire(view), shows)?;
    caveat(
        "A part of the sender's work was done while acknowledgements were handed to the kernel, on the responder's account: these cells cost the machine more than the sender's CPU time shows.",
        format!(
            "writing acknowledgements took {} of the sender's CPU time, median of {}",
            span(&shares, percent),
            phrases::count(cells.len(), "cell")
        ),
        "a larger --ack-bytes has fewer of them; add this share where what the machine pays is asked for",
        ids(cells),
    )
}

fn aside(trial: &Trial<'_>) -> Option<f64> {
    let cpu = trial.sent(Counter::CpuNs).filter(|ns| *ns > 0.0)?;
    Some(trial.of_all(Counter::ResponderWritingNs)? / cpu)
}
