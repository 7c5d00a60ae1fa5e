//! Links that can be made for a study, found by trials over them.

use std::io;

use bytecost_spec::Cell;
use bytecost_spec::cell::Device;
use bytecost_spec::survey::LinkSupport;

use super::{PLAIN, cell};
use crate::local_host::LocalHost;
use crate::netlink::Netlink;
use crate::networks::Networks;
use crate::protocol::Role;
use crate::short_trials::Surveyor;
use crate::transports::veth::NAMES;

/// Tries one link for each pair of transport and device in these cells, and reports for each why it
/// was refused, or the largest packet that it takes. Cells whose transport needs no link of ours are left
/// out. The cells' MTUs are not set.
pub fn links<'c>(
    surveyor: &Surveyor<'_>,
    cells: impl IntoIterator<Item = &'c Cell>,
) -> Vec<LinkSupport> {
    let mut trials = surveyor.series(LocalHost::default());
    let mut found: Vec<LinkSupport> = Vec::new();
    for Cell {
        transport, device, ..
    } in cells
    {
        let linked = Cell {
            mover: PLAIN.to_owned(),
            device: if transport.is_wire() {
                *device
            } else {
                Device::default()
            },
            ..cell(*transport)
        };
        let is_there = |l: &LinkSupport| l.transport == *transport && l.device == linked.device;
        if !transport.is_made() || found.iter().any(is_there) {
            continue;
        }
        let most = trials.attempt(&linked).and_then(|()| {
            segment_bytes_most(&mut trials.bed.networks, &linked).map_err(|e| e.to_string())
        });
        found.push(LinkSupport {
            transport: *transport,
            device: linked.device,
            segment_bytes_most: most.as_ref().ok().copied().flatten(),
            refused: most.err(),
        });
    }
    found
}

/// Reads the largest unsegmented packet (TSO_MAX_SIZE) that the kernel hands the sending end of a cell's
/// link, in bytes; none if the kernel does not report that.
fn segment_bytes_most(networks: &mut Networks, cell: &Cell) -> io::Result<Option<u32>> {
    let link = (networks.between(cell)?)
        .within(Role::Sender, || Netlink::open()?.existing_link(NAMES[0]))??;
    Ok(link.segment_bytes_most)
}
