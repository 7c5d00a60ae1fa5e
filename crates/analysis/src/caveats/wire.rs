//! Caveats about the transport `wire`: what it leaves out, and whether it did what it should.

use bytecost_spec::cell::Device;
use bytecost_spec::{Counter, units};
use itertools::Itertools as _;

use super::{Caveat, caveat, ids, spans};
use crate::phrases::{self, percent};
use crate::stages::Measured;
use crate::trials::CellTrials;
use crate::value::Trial;

/// The kernel's work on the responder's account over the sender's CPU time, passed over.
const ASIDE: f64 = 0.05;

fn over_wire<'v>(run: &Measured<'v>) -> impl Iterator<Item = &'v CellTrials<'v>> {
    let is_wire = |c: &&CellTrials<'_>| c.cell.transport.is_wire();
    run.measured().filter(is_wire)
}

/// A count, which a number for readers may have given decimals.
pub(super) fn whole(count: f64) -> String {
    let text = units::number(count);
    text.split('.').next().unwrap_or(&text).to_owned()
}

fn total(cells: &[&CellTrials<'_>], counter: Counter) -> String {
    whole(cells.iter().map(|c| c.sum(|t| t.of_all(counter))).sum())
}

/// What the device was, where it was not the usual one.
fn device(cells: &[&CellTrials<'_>]) -> String {
    let on_veth = |c: &&&CellTrials<'_>| c.cell.device == Device::Veth;
    let text = match cells.iter().filter(on_veth).count() {
        0 => return String::new(),
        n if n == cells.len() => "Their device was",
        _ => "The device of those with device=veth was",
    };
    let [veth, tun] = [Device::Veth, Device::Tun].map(Device::in_words);
    format!(" {text} {veth}, not {tun}: each packet has the head of a frame too.")
}

/// No fault, but what every number over wire must be read with.
pub(super) fn one_side(run: &Measured<'_>) -> Option<Caveat> {
    let cells = over_wire(run).collect_vec();
    let [packets, written] =
        [Counter::WirePackets, Counter::WireAcknowledgements].map(|of| total(&cells, of));
    caveat(
        "Over wire packets are freed as they leave: these cells show the sender's cost alone, against a peer that costs nothing. No network card can do better, and no receiver is in them.".to_owned()
            + &device(&cells),
        format!("{packets} packets taken off, {written} acknowledgements written"),
        "loopback and veth have both sides, with a copy on delivery",
        ids(cells),
    )
}

pub(super) fn strays(run: &Measured<'_>) -> Option<Caveat> {
    const STRAYS: [Counter; 2] = [Counter::WireGaps, Counter::WireRepeats];
    let has_strays = |c: &&CellTrials<'_>| {
        let sum = |counter| c.sum(|t| t.of_all(counter));
        STRAYS.into_iter().any(|of| sum(of) > 0.0)
    };
    let cells = over_wire(run).filter(has_strays).collect_vec();
    let [early, again] = STRAYS.map(|of| total(&cells, of));
    let all = total(&cells, Counter::WirePackets);
    caveat(
        "Not all packets over wire came in order and once, though nothing can be lost there: the sender sent some again, and that is in its cost.",
        format!(
            "{early} packets began after what was expected and {again} brought nothing new, of {all}"
        ),
        "give the responder a CPU of its own with --placement, so that acknowledgements are not late",
        ids(cells),
    )
}

pub(super) fn responder(run: &Measured<'_>) -> Option<Caveat> {
    let aside = |t: &Trial<'_>| {
        let cpu = t.sent(Counter::CpuNs).filter(|ns| *ns > 0.0)?;
        Some(t.of_all(Counter::ResponderWritingNs)? / cpu)
    };
    let shows = |cell: &CellTrials<'_>| Some([Some(cell.typical(aside).filter(|s| *s > ASIDE)?)]);
    let (cells, [share]) = spans(over_wire(run), shows, [percent])?;
    let of = phrases::count(cells.len(), "cell");
    caveat(
        "A part of the sender's work was done while acknowledgements were handed to the kernel, on the responder's account: these cells cost the machine more than the sender's CPU time shows.",
        format!("writing acknowledgements took {share} of the sender's CPU time, median of {of}"),
        "a larger --ack-bytes has fewer of them; add this share where what the machine pays is asked for",
        cells,
    )
}
