//! Flows of UDP over the device of `wire`. Nobody has to answer them, and nobody acknowledges.
//!
//! UDP opens and closes nothing, so a flow does: by a datagram to a port of its own. That which
//! opens is let through to the responder, so that it knows whom to look for; the program on the
//! device starts to count anew with it, and notes the one that closes.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use bytecost_spec::Cell;
use bytecost_sys::udp;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};

use super::FAR_END;
use crate::transports::listener::set_buffers;

/// Where a flow says that it begins; `crates/lab/bpf/wire.bpf.c` has the same.
const OPENING_PORT: u16 = FAR_END.port() + 1;
/// Where it says that it is over.
const CLOSING_PORT: u16 = FAR_END.port() + 2;
const IP_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
const UDP: u8 = 17;

/// A socket with the cell's options, connected to the far end, whose messages the kernel hands to
/// the device whole, as what a card would cut into segments of its MTU (UDP_SEGMENT, Linux 4.18).
///
/// # Errors
/// What the system calls answer.
pub fn connect(cell: &Cell, address: &str) -> io::Result<OwnedFd> {
    let far: SocketAddrV4 = address.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
    let kind = SocketType::DGRAM;
    let socket = rustix::net::socket_with(AddressFamily::INET, kind, SocketFlags::CLOEXEC, None)?;
    set_buffers(&socket, cell)?;
    let mtu_bytes = cell.link_mtu_bytes();
    let heads = (IP_BYTES + UDP_BYTES) as u32;
    let segment = u16::try_from(mtu_bytes.saturating_sub(heads)).unwrap_or(u16::MAX);
    rustix::net::connect(&socket, &far)?;
    tell(&socket, OPENING_PORT)?;
    udp::set_segment(&socket, segment)?;
    Ok(socket)
}

/// Says that a flow is over.
///
/// # Errors
/// What sendto(2) answers.
pub fn close(socket: &OwnedFd) -> io::Result<()> {
    tell(socket, CLOSING_PORT)
}

fn tell(socket: &OwnedFd, port: u16) -> io::Result<()> {
    let to = SocketAddrV4::new(*FAR_END.ip(), port);
    rustix::net::sendto(socket, &[], SendFlags::NOSIGNAL, &to)?;
    Ok(())
}

/// Who opens a flow, if that is what a packet is for, without what a device puts before it.
#[must_use]
pub fn opened(packet: &[u8]) -> Option<SocketAddrV4> {
    let ip: &[u8; IP_BYTES] = packet.first_chunk()?;
    let udp: &[u8; UDP_BYTES] = packet.get(IP_BYTES..)?.first_chunk()?;
    // Version 4 without options, as the program on the device lets through.
    if ip[0] != 0x45 || ip[9] != UDP || u16::from_be_bytes([udp[2], udp[3]]) != OPENING_PORT {
        return None;
    }
    let from = Ipv4Addr::new(ip[12], ip[13], ip[14], ip[15]);
    Some(SocketAddrV4::new(
        from,
        u16::from_be_bytes([udp[0], udp[1]]),
    ))
}
