//! What a wire is made of: a tun device, or a veth pair of which the sender has one end.
//!
//! The program takes packets off before a device has them, so the two are alike for a sender but
//! for the head of a frame, and for how large a packet the kernel hands them at most. What the
//! program lets through and what the responder says goes by a descriptor: that of the tun device,
//! or a packet socket at the other end of the pair. That socket is given what comes in there, and
//! nothing else does but what opens a flow, so it has nothing copied.

use std::io;
use std::os::fd::OwnedFd;

use bytecost_spec::cell::Device;
use bytecost_sys::network::Network;
use bytecost_sys::{packet, tun};
use rustix::net::sockopt;

use super::{FAR_NAME, NAME, PREFIX_BITS, SENDER, program, told};
use crate::netlink::Netlink;
use crate::transports::link::LinkChoice;
use crate::transports::veth;

/// Hardware addresses of the two ends of the pair, of the range that everybody may choose from.
pub(super) const SENDER_HARDWARE: [u8; 6] = [2, 0, 198, 18, 0, 1];
/// See above.
pub(super) const FAR_HARDWARE: [u8; 6] = [2, 0, 198, 18, 0, 2];
/// Type of a frame that carries IPv4.
const IPV4: [u8; 2] = [8, 0];
/// Bytes of the head of a frame of Ethernet.
const ETHERNET_BYTES: usize = 14;
/// The most that stands before a packet, in bytes.
pub const LEAD_BYTES_MOST: usize = ETHERNET_BYTES;
/// Room for what is let through, in bytes, so that it waits until the responder looks.
const OPENINGS_BYTES: usize = 4 << 20;

/// Bytes that stand before each packet that is read from or written to a device's descriptor.
#[must_use]
pub fn lead_bytes(device: Device) -> usize {
    match device {
        Device::Tun => tun::HEADER_BYTES,
        Device::Veth => ETHERNET_BYTES,
    }
}

/// The head of a frame from the far end.
pub(super) fn frame() -> [u8; ETHERNET_BYTES] {
    let mut head = [0; ETHERNET_BYTES];
    head[..6].copy_from_slice(&SENDER_HARDWARE);
    head[6..12].copy_from_slice(&FAR_HARDWARE);
    head[12..].copy_from_slice(&IPV4);
    head
}

/// Makes the device with its program in a network, and gives what packets come and go by at the
/// far end, and the program's map.
pub(super) fn made(network: &Network, link: LinkChoice) -> io::Result<(OwnedFd, OwnedFd)> {
    network.within(|| match link.device {
        Device::Tun => on_tun(link),
        Device::Veth => on_veth(network, link),
    })?
}

fn on_tun(link: LinkChoice) -> io::Result<(OwnedFd, OwnedFd)> {
    let tun = tun::open(NAME).map_err(|e| told("a tun device", &e))?;
    // Before it is up, so that no packet is seen that is not ours.
    let map = program::attach(NAME, link.device).map_err(|e| told("a BPF program", &e))?;
    bring_up(&mut Netlink::open()?, link).map_err(|e| told("the tun device's network", &e))?;
    Ok((tun, map))
}

fn on_veth(network: &Network, link: LinkChoice) -> io::Result<(OwnedFd, OwnedFd)> {
    let mut netlink = Netlink::open()?;
    netlink
        .add_veth(NAME, FAR_NAME, network, link.mtu_bytes)
        .map_err(|e| veth::told("a veth pair", &e))?;
    let map = program::attach(NAME, link.device).map_err(|e| told("a BPF program", &e))?;
    let mut up = || {
        for (name, address) in [(NAME, SENDER_HARDWARE), (FAR_NAME, FAR_HARDWARE)] {
            let index = netlink.known(name)?.index;
            netlink.set_hardware(index, address)?;
        }
        let far = netlink.known(FAR_NAME)?.index;
        netlink.set_up(far)?;
        bring_up(&mut netlink, link)?;
        // Neither is up before the other is.
        veth::await_up(NAME)?;
        veth::await_up(FAR_NAME)?;
        Ok(far)
    };
    let far = up().map_err(|e: io::Error| told("the veth pair's network", &e))?;
    let socket = packet::open(far).map_err(|e| told("a packet socket", &e))?;
    // Past the limit of the host where that is allowed, else up to it.
    sockopt::set_socket_recv_buffer_size_force(&socket, OPENINGS_BYTES)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, OPENINGS_BYTES))?;
    Ok((socket, map))
}

/// The sender's end.
pub(super) fn bring_up(netlink: &mut Netlink, link: LinkChoice) -> io::Result<()> {
    let (loopback, device) = (netlink.known("lo")?.index, netlink.known(NAME)?.index);
    netlink.set_up(loopback)?;
    netlink.set_mtu(device, link.mtu_bytes)?;
    link.bound(netlink, NAME)?;
    netlink.add_address(device, SENDER, PREFIX_BITS)?;
    netlink.set_up(device)
}
