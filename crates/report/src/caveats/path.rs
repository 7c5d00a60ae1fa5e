//! Obstacles on the path of packets, in words.

use bytecost_spec::CircumstanceKind;
use bytecost_spec::cell::Device;
use bytecost_spec::host::Obstacle;
use itertools::Itertools as _;

use super::known::Known;
use crate::phrases;

pub(super) fn obstacles(c: &Known<'_>) -> String {
    phrases::list(c.obstacles().map(name).dedup())
}

fn name(obstacle: &Obstacle) -> String {
    use CircumstanceKind::{Filter, Qdisc, SocketMemory, Tracking};
    let Obstacle { found, place, .. } = obstacle;
    match obstacle.kind {
        Qdisc => format!("the queueing discipline {found} on {place}"),
        Filter | Tracking | SocketMemory => found.clone(),
        _ => format!("{found} on {place}"),
    }
}

/// Sentence about the effect that obstacles of these kinds have on results.
pub(super) fn meaning(c: &Known<'_>) -> String {
    let kinds = c.obstacles().map(|o| o.kind).dedup();
    let means = kinds.map(|kind| kind.row().means).join("; ");
    phrases::sentence(&phrases::capital(&means))
}

pub(super) fn kind_of_limit(c: &Known<'_>) -> Option<String> {
    let kind = match c.obstacles().next()?.kind {
        CircumstanceKind::TcFilter => "A filter of tc",
        _ => "A queueing discipline",
    };
    Some(kind.to_owned())
}

/// The cells with a device that is not the usual one, in words; none where no cell has one.
pub(super) fn whose_device(c: &Known<'_>) -> Option<String> {
    let over_veth = c.cells().filter(|cell| cell.cell.device == Device::Veth);
    let whose = match over_veth.count() {
        0 => return None,
        n if n == c.caveat.cells.len() => "Their device was",
        _ => "The device of those with device=veth was",
    };
    Some(whose.to_owned())
}
