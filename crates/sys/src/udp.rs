//! What UDP sockets can be told and rustix has no word for.

use std::io;
use std::os::fd::AsFd;

use crate::syscall::set_option;

/// Has the kernel take what one call sends as a train of datagrams of so many bytes of payload, the
/// last maybe shorter, and hand it to the device in one piece (UDP_SEGMENT, udp(7), since Linux
/// 4.18): at most 64 datagrams, 128 since Linux 6.9, and 65,507 bytes. 0 turns it off. ENOPROTOOPT
/// where the kernel does not know it, or the socket is not one of UDP.
pub fn set_segment(socket: impl AsFd, bytes: u16) -> io::Result<()> {
    let value = libc::c_int::from(bytes);
    set_option(socket, libc::SOL_UDP, libc::UDP_SEGMENT, &value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_socket_of_another_kind_has_no_such_option() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(set_segment(&tcp, 1000).is_err());
    }
}
