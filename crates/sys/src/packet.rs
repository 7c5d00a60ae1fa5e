//! Packet sockets, packet(7), which read and write the frames of one device.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::syscall::checked;

/// Opens a packet socket on a device, by its interface index, of the calling thread's namespace. A read
/// gives one received frame that carries IPv4, a write sends one, each with its link-layer header;
/// neither blocks. Frames that the device sends are not read.
///
/// # Errors
/// EPERM without CAP_NET_RAW, EAFNOSUPPORT without packet sockets, ENODEV without the device.
pub fn open(device: u32) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // Without a protocol, so that it receives nothing before it is bound.
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as libc::c_ushort,
        sll_protocol: (libc::ETH_P_IP as u16).to_be(),
        sll_ifindex: libc::c_int::try_from(device).unwrap_or(libc::c_int::MAX),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: the address is a whole `sockaddr_ll` that lives through the call, and its size is
    // the one passed.
    let bound = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of_val(&address) as libc::socklen_t,
        )
    };
    checked(bound)?;
    Ok(socket)
}
