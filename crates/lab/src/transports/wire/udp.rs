//! Flows of UDP over the device of `wire`, which nobody answers. A flow opens and closes by a
//! datagram to a port of its own: the first gets to the responder, and has the device's program
//! count anew.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::time::Duration;

use bytecost_spec::Cell;
use bytecost_sys::udp;
use etherparse::{IpNumber, Ipv4Header, Ipv4Slice, UdpHeader, UdpSlice};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};

use super::device::FAR_END;
use crate::transports::listener::set_buffers;
use crate::transports::set_patience;

/// Where a flow says that it begins; `crates/lab/bpf/wire.bpf.c` has the same.
const OPENING_PORT: u16 = FAR_END.port() + 1;
/// Where it says that it is over.
const CLOSING_PORT: u16 = FAR_END.port() + 2;
const HEAD_BYTES: u32 = (Ipv4Header::MIN_LEN + UdpHeader::LEN) as u32;

/// Messages go to the device whole, as a card would cut them (UDP_SEGMENT, Linux 4.18).
pub(crate) fn connect(cell: &Cell, address: &str, patience: Duration) -> io::Result<OwnedFd> {
    let far: SocketAddrV4 = address.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
    let kind = SocketType::DGRAM;
    let socket = rustix::net::socket_with(AddressFamily::INET, kind, SocketFlags::CLOEXEC, None)?;
    set_buffers(&socket, cell)?;
    set_patience(&socket, patience)?;
    let segment_bytes = cell.link_mtu_bytes().saturating_sub(HEAD_BYTES);
    let segment = u16::try_from(segment_bytes).unwrap_or(u16::MAX);
    rustix::net::connect(&socket, &far)?;
    tell(&socket, OPENING_PORT)?;
    udp::set_segment(&socket, segment)?;
    Ok(socket)
}

pub(crate) fn close(socket: &OwnedFd) -> io::Result<()> {
    tell(socket, CLOSING_PORT)
}

fn tell(socket: &OwnedFd, port: u16) -> io::Result<()> {
    let to = SocketAddrV4::new(*FAR_END.ip(), port);
    rustix::net::sendto(socket, &[], SendFlags::NOSIGNAL, &to)?;
    Ok(())
}

/// Who opens a flow, if that is what a packet is for, without what a device puts before it.
pub(crate) fn opened(packet: &[u8]) -> Option<SocketAddrV4> {
    let ip = Ipv4Slice::from_slice(packet).ok()?;
    let udp = UdpSlice::from_slice(ip.payload().payload).ok()?;
    let head = ip.header();
    // Without options, as the program on the device lets through.
    let opens = head.protocol() == IpNumber::UDP && head.ihl() == 5;
    (opens && udp.destination_port() == OPENING_PORT)
        .then(|| SocketAddrV4::new(head.source_addr(), udp.source_port()))
}
