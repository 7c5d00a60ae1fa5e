//! Somebody else who took every packet of a trial.

use bytecost_spec::PacketSocket;
use itertools::Itertools as _;

use super::{UnnamedCaveat, ids};
use crate::phrases;
use crate::trials::CellTrials;
use crate::view::View;

/// The packet sockets that some trial of a cell saw, each once.
pub(super) fn of<'s>(cell: &CellTrials<'s>) -> Vec<&'s PacketSocket> {
    let all = cell.trials().flat_map(|t| &t.sample.packet_sockets);
    all.unique().collect()
}

/// `tcpdump (pid 812) on lo`.
pub(super) fn named(socket: &PacketSocket) -> String {
    let holder = socket.holder.as_deref().unwrap_or("a process unseen");
    match &socket.device {
        Some(device) => format!("{holder} on {device}"),
        None => format!("{holder} on all devices"),
    }
}

pub(super) fn detect(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let heard = |c: &&CellTrials<'_>| !of(c).is_empty();
    let cells: Vec<&CellTrials<'_>> = view.measured().filter(heard).collect();
    if cells.is_empty() {
        return Vec::new();
    }
    let mut names: Vec<String> = cells.iter().flat_map(|c| of(c)).map(named).collect();
    names.sort();
    names.dedup();
    let all = cells.iter().flat_map(|c| c.trials());
    let trials = all.filter(|t| !t.sample.packet_sockets.is_empty()).count();
    vec![UnnamedCaveat {
        text: "A packet socket took the packets of these trials too: the kernel clones each for it, and copies what a zero-copy send had left where it was. Over wire it gets the acknowledgements alone, since packets with payload are taken off before.".to_owned(),
        evidence: format!(
            "/proc/net/packet, {}: {}",
            phrases::count(trials, "trial"),
            phrases::list(&names)
        ),
        remedy: "end it (tcpdump, a monitor, a DHCP client) and run again".to_owned(),
        cells: ids(cells),
    }]
}
