//! TCP sockets: their state (TCP_INFO) and options that rustix does not have. Source: struct tcp_info
//! of include/uapi/linux/tcp.h, as linux-raw-sys has it, since libc's differs between C libraries; older
//! kernels fill less of it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use linux_raw_sys::net::tcp_info;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::syscall::{checked, set_option};

/// Bytes of the structure up to the last field that is required.
const LEAST_BYTES: usize = std::mem::offset_of!(tcp_info, tcpi_delivered);
/// Bytes that kernels fill which count marked segments (since 4.18).
const MARKED_BYTES: usize = std::mem::offset_of!(tcp_info, tcpi_bytes_sent);

/// The state of a connection. Times in µs, rates in bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Smoothed round-trip time.
    pub rtt_us: u32,
    /// Least round-trip time seen.
    pub min_rtt_us: u32,
    /// Congestion window, in segments.
    pub cwnd_segments: u32,
    /// Maximum segment size of sending, in bytes.
    pub snd_mss_bytes: u32,
    /// Path MTU, in bytes.
    pub path_mtu_bytes: u32,
    /// Retransmitted segments so far.
    pub retransmits: u32,
    /// Bytes that the peer has acknowledged so far.
    pub bytes_acked: u64,
    /// Bytes received so far.
    pub bytes_received: u64,
    /// Segments with data sent so far.
    pub data_segments_out: u32,
    /// Delivered segments that a router marked for congestion (ECN, CE) so far; none before 4.18.
    pub delivered_marked: Option<u32>,
    /// Rate at which sending is paced; `u64::MAX` if it is not.
    pub pacing_rate: u64,
    /// Most recent delivery rate.
    pub delivery_rate: u64,
    /// Time with data in flight so far.
    pub busy_us: u64,
    /// Time limited by the receive window so far.
    pub rwnd_limited_us: u64,
    /// Time limited by the send buffer so far.
    pub sndbuf_limited_us: u64,
}

/// IP_BIND_ADDRESS_NO_PORT of include/uapi/linux/in.h.
const BIND_ADDRESS_NO_PORT: libc::c_int = 24;

/// Binds to a source address, with a port that is chosen when the socket connects, so that ports in
/// TIME_WAIT can be used, ip(7).
pub fn bind_source(socket: impl AsFd, address: Ipv4Addr) -> io::Result<()> {
    let on: libc::c_int = 1;
    set_option(&socket, libc::IPPROTO_IP, BIND_ADDRESS_NO_PORT, &on)?;
    Ok(rustix::net::bind(&socket, &SocketAddrV4::new(address, 0))?)
}

/// Bounds the rate of sending, socket(7) SO_MAX_PACING_RATE: TCP paces without a queueing discipline.
pub fn set_max_pacing_rate(socket: impl AsFd, bytes_per_s: u64) -> io::Result<()> {
    // A value of 8 bytes is accepted since Linux 4.20.
    let option = libc::SO_MAX_PACING_RATE;
    set_option(socket, libc::SOL_SOCKET, option, &bytes_per_s)
}

/// A TCP socket of the address's family, closed on exec.
pub fn socket(address: SocketAddr, flags: SocketFlags) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = flags | SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(
        family,
        SocketType::STREAM,
        flags,
        None,
    )?)
}

/// The offset of a packet's IP header in a classic filter (SKF_NET_OFF, linux/filter.h).
const HEADER: u32 = (-0x0010_0000_i32) as u32;
/// The offsets of the source address in it.
const SOURCE_V4: u32 = HEADER + 12;
const SOURCE_V6: u32 = HEADER + 8;

/// Restricts a listening socket, and the connections that it accepts, to packets from one address: all
/// others are dropped without a response (SO_ATTACH_FILTER, socket(7)).
pub fn admit_only(socket: impl AsFd, from: IpAddr) -> io::Result<()> {
    let (offset, words) = match from {
        IpAddr::V4(from) => (SOURCE_V4, vec![from.to_bits()]),
        IpAddr::V6(from) => {
            let bits = from.to_bits();
            let words = [96, 64, 32, 0].map(|shift| (bits >> shift) as u32);
            (SOURCE_V6, words.to_vec())
        }
    };
    let step = |code: u32, jf: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    };
    let jump_if_equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let mut steps = Vec::with_capacity(2 * words.len() + 2);
    for (i, word) in words.iter().enumerate() {
        let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
        steps.push(step(load, 0, offset + 4 * i as u32));
        // Over the remaining pairs, and over the step that accepts a packet.
        let remaining = (words.len() - 1 - i) as u8;
        steps.push(step(jump_if_equal, 2 * remaining + 1, *word));
    }
    steps.push(step(libc::BPF_RET | libc::BPF_K, 0, u32::MAX));
    steps.push(step(libc::BPF_RET | libc::BPF_K, 0, 0));
    // It points to `len` steps, which the kernel copies.
    let program = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Reads TCP_INFO; `Unsupported` for a kernel that fills too few fields (before 4.10).
pub fn info(socket: impl AsFd) -> io::Result<TcpInfo> {
    // SAFETY: all zeros are a valid `tcp_info`: it consists of integers.
    let mut raw: tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of::<tcp_info>() as libc::socklen_t;
    let (fd, level, value) = (socket.as_fd().as_raw_fd(), libc::IPPROTO_TCP, &raw mut raw);
    // SAFETY: `raw` is plain integers, of the length that is passed; the kernel writes no more.
    checked(unsafe { libc::getsockopt(fd, level, libc::TCP_INFO, value.cast(), &raw mut len) })?;
    if (len as usize) < LEAST_BYTES {
        let why = "this kernel's TCP_INFO has no busy and limited times";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    Ok(TcpInfo {
        rtt_us: raw.tcpi_rtt,
        min_rtt_us: raw.tcpi_min_rtt,
        cwnd_segments: raw.tcpi_snd_cwnd,
        snd_mss_bytes: raw.tcpi_snd_mss,
        path_mtu_bytes: raw.tcpi_pmtu,
        retransmits: raw.tcpi_total_retrans,
        bytes_acked: raw.tcpi_bytes_acked,
        bytes_received: raw.tcpi_bytes_received,
        data_segments_out: raw.tcpi_data_segs_out,
        delivered_marked: (len as usize >= MARKED_BYTES).then_some(raw.tcpi_delivered_ce),
        pacing_rate: raw.tcpi_pacing_rate,
        delivery_rate: raw.tcpi_delivery_rate,
        busy_us: raw.tcpi_busy_time,
        rwnd_limited_us: raw.tcpi_rwnd_limited,
        sndbuf_limited_us: raw.tcpi_sndbuf_limited,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lack::{Lack, skipped};
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_listener_admits_one_address_alone() {
        let addresses = [
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.9", false),
            ("::1", "::1", true),
            ("::1", "::2", false),
            ("::1", "1::1", false),
        ];
        for (text, from, is_admitted) in addresses {
            let at: IpAddr = text.parse().unwrap();
            let Ok(listener) = TcpListener::bind((at, 0)) else {
                assert!(at.is_ipv6(), "a kernel without IPv6");
                continue;
            };
            match admit_only(&listener, from.parse().unwrap()) {
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                    return skipped(Lack::Right, "a filter of a socket");
                }
                result => result.unwrap(),
            }
            let address = listener.local_addr().unwrap();
            let patience = std::time::Duration::from_millis(if is_admitted { 60_000 } else { 50 });
            let mut sender = match TcpStream::connect_timeout(&address, patience) {
                Ok(sender) => sender,
                Err(e) => {
                    assert!(!is_admitted && e.kind() == io::ErrorKind::TimedOut, "{e}");
                    continue;
                }
            };
            assert!(is_admitted);
            let (mut receiver, _) = listener.accept().unwrap();
            sender.write_all(b"bytes").unwrap();
            let mut received = [0; 5];
            receiver.read_exact(&mut received).unwrap();
            assert_eq!(&received, b"bytes");
        }
    }

    #[test]
    fn a_used_connection_has_a_round_trip_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        sender.write_all(&[1; 1000]).unwrap();
        receiver.read_exact(&mut [0; 1000]).unwrap();
        let info = info(&sender).unwrap();
        assert!(info.rtt_us > 0);
        assert!(info.cwnd_segments > 0);
        assert!((500..100_000).contains(&info.snd_mss_bytes), "{info:?}");
        // On a busy machine the segment may be retransmitted after a timeout, which counts as well.
        let (segments, retransmits) = (info.data_segments_out, info.retransmits);
        assert_eq!(u64::from(segments), 1 + u64::from(retransmits), "{info:?}");
    }

    #[test]
    fn a_unix_socket_has_none() {
        let (a, _b) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(info(&a).is_err());
    }
}
