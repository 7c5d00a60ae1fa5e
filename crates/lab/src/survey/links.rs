//! Links that can be made for a study, found by making them.

use std::io;

use bytecost_spec::cell::Device;
use bytecost_spec::survey::LinkSupport;
use bytecost_spec::{Cell, Transport};

use crate::netlink::Netlink;
use crate::networks::Networks;
use crate::protocol::Role;
use crate::transports::veth::NAMES;

/// Tries to make one link for each pair of transport and device in these cells, and reports for each why it
/// was refused, or the largest packet that it takes. Cells whose transport needs no link of ours are left
/// out. The cells' MTUs are not set.
pub fn links<'c>(cells: impl IntoIterator<Item = &'c Cell>) -> Vec<LinkSupport> {
    let mut found: Vec<LinkSupport> = Vec::new();
    for cell in cells {
        let transport = cell.transport;
        let device = if transport.is_wire() {
            cell.device
        } else {
            Device::default()
        };
        let is_there = |l: &LinkSupport| l.transport == transport && l.device == device;
        if !transport.is_made() || found.iter().any(is_there) {
            continue;
        }
        let most = segment_bytes_most(transport, device);
        found.push(LinkSupport {
            transport,
            device,
            segment_bytes_most: most.as_ref().ok().copied().flatten(),
            refused: most.err().map(|e| e.to_string()),
        });
    }
    found
}

/// Makes a link, and reads the largest unsegmented packet (TSO_MAX_SIZE) that the kernel hands its sending
/// end, in bytes; none if the kernel does not report that.
fn segment_bytes_most(transport: Transport, device: Device) -> io::Result<Option<u32>> {
    let cell = Cell {
        transport,
        device,
        ..Cell::default()
    };
    let mut networks = Networks::default();
    let link = (networks.between(&cell)?)
        .within(Role::Sender, || Netlink::open()?.existing_link(NAMES[0]))??;
    Ok(link.segment_bytes_most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_link_is_made_once_and_tells_how_much_it_takes_in_a_packet() {
        let cell = |transport, device| Cell {
            transport,
            device,
            ..Cell::default()
        };
        let cells = [
            cell(Transport::Loopback, Device::Veth),
            cell(Transport::Wire, Device::Tun),
            cell(Transport::Wire, Device::Veth),
            cell(Transport::Wire, Device::Tun),
            cell(Transport::Veth, Device::Tun),
        ];
        let found = links(&cells);
        let are: Vec<_> = found.iter().map(|l| (l.transport, l.device)).collect();
        let expected = [
            (Transport::Wire, Device::Tun),
            (Transport::Wire, Device::Veth),
            (Transport::Veth, Device::Tun),
        ];
        assert_eq!(are, expected);
        for link in found {
            if rustix::process::geteuid().is_root() {
                assert_eq!(link.refused, None);
                // Before Linux 5.19 it is not reported.
                assert!(link.segment_bytes_most.is_none_or(|most| most >= 65_536));
            } else {
                assert!(link.refused.unwrap().contains("sudo bytecost"));
            }
        }
    }
}
