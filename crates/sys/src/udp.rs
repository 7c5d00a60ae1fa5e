//! What UDP sockets can be told and rustix has no word for.

use std::io;
use std::os::fd::AsFd;

use crate::syscall::set_option;

/// Has the kernel take what one call sends as a train of datagrams of so many bytes of payload, of
/// which the last may be shorter, and hand it to the device in one piece (UDP_SEGMENT, udp(7),
/// since Linux 4.18). At most 64 datagrams, 128 since Linux 6.9, and 65,507 bytes altogether; what
/// fits into one datagram is one. 0 turns it off.
///
/// # Errors
/// ENOPROTOOPT where the kernel does not know it, or the socket is not one of UDP, setsockopt(2).
pub fn set_segment(socket: impl AsFd, bytes: u16) -> io::Result<()> {
    let value = libc::c_int::from(bytes);
    set_option(socket, libc::SOL_UDP, libc::UDP_SEGMENT, &value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};
    use std::time::Duration;

    #[test]
    fn one_call_is_a_train_of_datagrams() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let check = |segment, size: usize, expected: &[usize]| {
            set_segment(&sender, segment).unwrap();
            let sent = sender
                .send_to(&vec![7; size], receiver.local_addr().unwrap())
                .unwrap();
            assert_eq!(sent, size);
            let got: Vec<usize> = expected
                .iter()
                .map(|_| receiver.recv(&mut [0; 4096]).unwrap())
                .collect();
            assert_eq!(got, expected);
        };
        check(1000, 2500, &[1000, 1000, 500]);
        check(1000, 1000, &[1000]);
        check(1000, 7, &[7]);
        check(0, 2500, &[2500]);
    }

    #[test]
    fn a_socket_of_another_kind_has_no_such_option() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(set_segment(&tcp, 1000).is_err());
    }
}
