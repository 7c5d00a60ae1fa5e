//! A packet socket, packet(7): the frames of one device, as they are.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::syscall::checked;

/// Opens one on a device of the calling thread's network, which should be up, by its number. A read
/// gives one frame that has come in and carries IPv4, a write sends one, each behind its header of
/// the link; neither blocks. What the device sends is not read, so that nothing is copied for it.
/// EPERM without CAP_NET_RAW, EAFNOSUPPORT without packet sockets, ENODEV without the device.
pub fn open(device: u32) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // Of no protocol, so that it gets nothing before it is bound.
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
    // what is said.
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
