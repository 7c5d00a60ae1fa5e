//! A packet socket, packet(7): the frames of one device, as they are.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::syscall::checked;

/// Opens one on a device of the calling thread's network, which should be up, named by its number.
/// What is read from it is one frame that has come in there and carries IPv4, and what is written
/// is one that leaves by it, each behind its header of the link; neither blocks. What the device
/// sends is not read, so that nothing is copied for it.
///
/// # Errors
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network;
    use rustix::io::Errno;

    #[test]
    fn it_is_bound_to_its_device_and_does_not_block() {
        let Some(network) = network::tests::new() else {
            return;
        };
        // The loopback device is the first of every network.
        let [there, nowhere] = [1, 4711].map(|device| network.within(|| open(device)).unwrap());
        let errno = nowhere.unwrap_err().raw_os_error();
        assert_eq!(errno, Some(Errno::NODEV.raw_os_error()));
        let socket = there.unwrap();
        let read = || rustix::io::read(&socket, &mut [0; 64][..]);
        assert_eq!(read(), Err(Errno::NETDOWN), "nobody has brought it up");
        assert_eq!(read(), Err(Errno::AGAIN));
        let listed = network.within(|| std::fs::read_to_string("/proc/thread-self/net/packet"));
        let listed = listed.unwrap().unwrap();
        assert_eq!(listed.lines().count(), 2, "{listed}");
        let words: Vec<&str> = listed.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(words[3..5], ["0800", "1"], "{listed}");
    }
}
