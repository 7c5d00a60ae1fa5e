//! The settings of a link that is made for a cell.

use std::io;
use std::net::Ipv4Addr;

use bytecost_spec::Cell;
use bytecost_spec::cell::Device;

use crate::netlink::Netlink;

/// Heads of IPv4 and TCP without options, in bytes.
const HEAD_BYTES: u32 = 40;
/// Bytes within the bound that the kernel keeps free for heads: MAX_TCP_HEADER, some 320.
const KEPT_FREE_BYTES: u32 = 512;
/// The largest bound of a device where the kernel does not report one: before Linux 5.19 it was the
/// same for all.
const USUAL_MOST_BYTES: u32 = 65_536;

/// The prefix of a network of four addresses: the two ends of a link, its own and broadcast.
const PREFIX_BITS: u8 = 30;

/// The settings of a link. Cells with the same settings share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkChoice {
    /// The device of a wire.
    pub device: Device,
    /// Its MTU, in bytes.
    pub mtu_bytes: u32,
    /// The largest packet that TCP hands to its device, in bytes; none is the device's own bound.
    pub segment_bytes: Option<u32>,
}

impl Default for LinkChoice {
    fn default() -> LinkChoice {
        LinkChoice::new(&Cell::default())
    }
}

impl LinkChoice {
    /// The settings of a cell's link.
    pub fn new(cell: &Cell) -> LinkChoice {
        LinkChoice {
            device: cell.device,
            mtu_bytes: cell.link_mtu_bytes(),
            segment_bytes: cell.segment_bytes,
        }
    }

    /// The number of whole segments of the MTU in such a packet. This bound is exact, where TCP puts two
    /// segments into a packet even if fewer bytes are allowed (tcp_tso_autosize, net/ipv4/tcp_output.c).
    fn segments(self) -> Option<u32> {
        let segment_bytes = self.mtu_bytes.saturating_sub(HEAD_BYTES).max(1);
        let payload_bytes = self.segment_bytes?.saturating_sub(HEAD_BYTES);
        Some((payload_bytes / segment_bytes).max(1))
    }

    /// Brings up the loopback device and one of the thread's network, with this address and bounds.
    pub(super) fn bring_up(
        self,
        netlink: &mut Netlink,
        name: &str,
        address: Ipv4Addr,
    ) -> io::Result<()> {
        let (loopback, device) = (
            netlink.existing_link("lo")?.index,
            netlink.existing_link(name)?.index,
        );
        netlink.set_up(loopback)?;
        netlink.set_mtu(device, self.mtu_bytes)?;
        self.bound(netlink, name)?;
        netlink.add_address(device, address, PREFIX_BITS)?;
        netlink.set_up(device)
    }

    /// Bounds the packets of a device of the thread's network. Connected sockets do not change.
    fn bound(self, netlink: &mut Netlink, name: &str) -> io::Result<()> {
        let (Some(bytes), Some(segments)) = (self.segment_bytes, self.segments()) else {
            return Ok(());
        };
        let refused = |why: String| {
            io::Error::other(format!(
                "the kernel does not bound the packets of {name} to {bytes} bytes: {why}"
            ))
        };
        let device = netlink.existing_link(name)?;
        let most = device.segment_bytes_most.unwrap_or(USUAL_MOST_BYTES);
        let wide = bytes.saturating_add(KEPT_FREE_BYTES).min(most.max(bytes));
        netlink
            .set_segment(device.index, wide, segments)
            .map_err(|e| refused(e.to_string()))?;
        // Kernels before Linux 6.3 have one bound for all, of 64 KiB at most, and ignore others.
        match netlink.existing_link(name)?.segment_bytes {
            Some(held) if held != wide => Err(refused(format!("it keeps to {held}"))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_has_whole_segments_of_the_mtu_and_one_at_least() {
        let check = |mtu_bytes, segment_bytes, expected| {
            let link = LinkChoice {
                mtu_bytes,
                segment_bytes,
                ..LinkChoice::default()
            };
            assert_eq!(link.segments(), expected, "{link:?}");
        };
        check(1500, None, None);
        check(1500, Some(1500), Some(1));
        check(1500, Some(2959), Some(1));
        check(1500, Some(2960), Some(2));
        check(1500, Some(65_536), Some(44));
        check(9000, Some(65_536), Some(7));
        check(65_535, Some(65_536), Some(1));
        check(576, Some(524_280), Some(978));
    }
}
