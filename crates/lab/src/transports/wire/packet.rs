//! The few packets that the far end of `wire` reads and writes: IPv4 (RFC 791) with TCP
//! (RFC 9293), behind what the device puts before them: the header of a tun device (`struct
//! virtio_net_hdr`), or of a frame of Ethernet.

use std::net::{Ipv4Addr, SocketAddrV4};

use bytecost_spec::cell::Device;

use super::device::{LEAD_BYTES_MOST, frame, lead_bytes};

/// The longest packet that is looked at, in bytes: one that opens a connection has no payload, so
/// two headers of at most 60 bytes each.
pub const MOST_BYTES: usize = LEAD_BYTES_MOST + 120;
/// Powers of two by which the windows of this end are to be taken: the most that there is
/// (RFC 7323), so that the window never holds the sender back.
pub const WINDOW_SHIFT: u8 = 14;

const IP_BYTES: usize = 20;
const TCP_BYTES: usize = 20;
const TCP: u8 = 6;
/// What this end writes at most: its headers and two options.
const ROOM: usize = LEAD_BYTES_MOST + IP_BYTES + TCP_BYTES + 8;
/// The checksum is still to be made, so the kernel does not check it: VIRTIO_NET_HDR_F_NEEDS_CSUM.
const NEEDS_CHECKSUM: u8 = 1;
/// Where the checksum lies within a TCP header.
const CHECKSUM_AT: u16 = 16;

/// FIN of the flags of TCP: nothing more will come.
pub const FIN: u8 = 1;
/// SYN: a connection is opened.
pub const SYN: u8 = 2;
/// RST: it is given up.
pub const RST: u8 = 4;
/// ACK: the number acknowledged is one.
pub const ACK: u8 = 16;

/// A packet that asks for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SynPacket {
    /// Who asks.
    pub from: SocketAddrV4,
    /// Whom.
    pub to: SocketAddrV4,
    /// The sequence number of its SYN.
    pub sequence: u32,
    /// Whether windows can be scaled.
    pub scales: bool,
}

/// Why a packet is not taken for an opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strange {
    /// It ends within a header.
    Short,
    /// It is not IPv4, or its lengths contradict each other.
    NotIp,
    /// It is a part of one, or not TCP.
    NotTcp,
    /// It does not open a connection.
    NoOpening,
}

impl SynPacket {
    /// Reads a packet, without what a device puts before it.
    ///
    /// # Errors
    /// What is strange about it.
    pub fn parse(ip: &[u8]) -> Result<SynPacket, Strange> {
        let ip_head: &[u8; IP_BYTES] = ip.first_chunk().ok_or(Strange::Short)?;
        let ip_bytes = usize::from(ip_head[0] & 15) * 4;
        let total = usize::from(u16_at(ip_head, 2));
        if ip_head[0] >> 4 != 4 || ip_bytes < IP_BYTES || total < ip_bytes || total > ip.len() {
            return Err(Strange::NotIp);
        }
        // More fragments, or not the first one.
        if ip_head[9] != TCP || u16_at(ip_head, 6) & 0x3fff != 0 {
            return Err(Strange::NotTcp);
        }
        let tcp = &ip[ip_bytes..total];
        let head: &[u8; TCP_BYTES] = tcp.first_chunk().ok_or(Strange::Short)?;
        let tcp_bytes = usize::from(head[12] >> 4) * 4;
        if tcp_bytes < TCP_BYTES || tcp_bytes > tcp.len() {
            return Err(Strange::NotTcp);
        }
        if head[13] & (SYN | ACK | RST | FIN) != SYN || tcp.len() > tcp_bytes {
            return Err(Strange::NoOpening);
        }
        let address = |at: usize, port: usize| {
            let [a, b, c, d] = [at, at + 1, at + 2, at + 3].map(|i| ip_head[i]);
            SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), u16_at(head, port))
        };
        Ok(SynPacket {
            from: address(12, 0),
            to: address(16, 2),
            sequence: u32::from_be_bytes([head[4], head[5], head[6], head[7]]),
            scales: has_option(&tcp[TCP_BYTES..tcp_bytes], 3),
        })
    }
}

/// Whether an option is among those of a TCP header. What is after one that contradicts itself is
/// not looked at.
fn has_option(mut options: &[u8], wanted: u8) -> bool {
    while let [kind, rest @ ..] = options {
        options = match (*kind, rest) {
            (0, _) => return false,
            (1, rest) => rest,
            (kind, _) if kind == wanted => return true,
            (_, [length, ..]) if *length >= 2 => {
                options.get(usize::from(*length)..).unwrap_or_default()
            }
            _ => return false,
        };
    }
    false
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// A packet to be written to a device's descriptor, behind what stands before it there.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    bytes: [u8; ROOM],
    lead: usize,
    len: usize,
}

/// What the far end says to the sender of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saying {
    /// The far end.
    pub from: SocketAddrV4,
    /// The sender.
    pub to: SocketAddrV4,
    /// Its own sequence number.
    pub sequence: u32,
    /// The sequence number that it waits for.
    pub acknowledged: u32,
    /// Flags of TCP.
    pub flags: u8,
}

impl Packet {
    /// The answer to an opening: a SYN that tells the largest segment, for an MTU, and that windows
    /// are scaled, where the opening can.
    #[must_use]
    pub fn opened(device: Device, saying: Saying, mtu_bytes: u32, scales: bool) -> Packet {
        let most = mtu_bytes.saturating_sub((IP_BYTES + TCP_BYTES) as u32);
        let [high, low] = u16::try_from(most).unwrap_or(u16::MAX).to_be_bytes();
        let scaled = [2, 4, high, low, 1, 3, 3, WINDOW_SHIFT];
        let options = if scales { &scaled[..] } else { &scaled[..4] };
        Packet::new(device, saying, options)
    }

    /// A packet without options: an acknowledgement, or the end of a connection.
    #[must_use]
    pub fn plain(device: Device, saying: Saying) -> Packet {
        Packet::new(device, saying, &[])
    }

    fn new(device: Device, saying: Saying, options: &[u8]) -> Packet {
        let lead = lead_bytes(device);
        let len = lead + IP_BYTES + TCP_BYTES + options.len();
        let mut packet = Packet {
            bytes: [0; ROOM],
            lead,
            len,
        };
        let (head, ip) = packet.bytes.split_at_mut(lead);
        match device {
            Device::Tun => {
                head[0] = NEEDS_CHECKSUM;
                head[6..8].copy_from_slice(&(IP_BYTES as u16).to_ne_bytes());
                head[8..10].copy_from_slice(&CHECKSUM_AT.to_ne_bytes());
            }
            Device::Veth => head.copy_from_slice(&frame()),
        }
        let (ip, tcp) = ip.split_at_mut(IP_BYTES);
        let tcp_bytes = (TCP_BYTES + options.len()) as u16;
        ip[0] = 0x45;
        ip[2..4].copy_from_slice(&(IP_BYTES as u16 + tcp_bytes).to_be_bytes());
        ip[6] = 0x40; // do not fragment
        ip[8] = 64;
        ip[9] = TCP;
        ip[12..16].copy_from_slice(&saying.from.ip().octets());
        ip[16..20].copy_from_slice(&saying.to.ip().octets());
        let checksum = !folded(sum(ip));
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        tcp[0..2].copy_from_slice(&saying.from.port().to_be_bytes());
        tcp[2..4].copy_from_slice(&saying.to.port().to_be_bytes());
        tcp[4..8].copy_from_slice(&saying.sequence.to_be_bytes());
        tcp[8..12].copy_from_slice(&saying.acknowledged.to_be_bytes());
        tcp[12] = ((tcp_bytes / 4) << 4) as u8;
        tcp[13] = saying.flags;
        tcp[14..16].copy_from_slice(&u16::MAX.to_be_bytes());
        tcp[TCP_BYTES..][..options.len()].copy_from_slice(options);
        let pseudo = sum(&ip[12..20]) + u32::from(TCP) + u32::from(tcp_bytes);
        let checksum = match device {
            // Of the pseudo header alone: whoever makes the checksum adds the rest.
            Device::Tun => folded(pseudo),
            Device::Veth => !folded(pseudo + sum(&tcp[..usize::from(tcp_bytes)])),
        };
        tcp[16..18].copy_from_slice(&checksum.to_be_bytes());
        packet
    }

    /// Its bytes, with what stands before it.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Its bytes from the head of IPv4 on.
    #[must_use]
    pub fn ip(&self) -> &[u8] {
        &self.bytes[self.lead..self.len]
    }
}

/// The sum of an even number of bytes as the Internet checksum takes them (RFC 1071).
fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.as_chunks::<2>().0.iter();
    words.map(|w| u32::from(u16::from_be_bytes(*w))).sum()
}

fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saying(flags: u8) -> Saying {
        Saying {
            from: SocketAddrV4::new(Ipv4Addr::new(198, 18, 0, 2), 5201),
            to: SocketAddrV4::new(Ipv4Addr::new(198, 18, 0, 1), 40_000),
            sequence: 7,
            acknowledged: u32::MAX,
            flags,
        }
    }

    /// A valid opening, as the kernel writes one.
    fn opening() -> Vec<u8> {
        Packet::opened(Device::Tun, saying(SYN), 1500, true)
            .ip()
            .to_vec()
    }

    #[test]
    fn an_opening_is_read_as_it_was_written() {
        let expected = |scales| SynPacket {
            from: saying(SYN).from,
            to: saying(SYN).to,
            sequence: 7,
            scales,
        };
        assert_eq!(SynPacket::parse(&opening()), Ok(expected(true)));
        let unscaled = Packet::opened(Device::Veth, saying(SYN), 1500, false);
        assert_eq!(SynPacket::parse(unscaled.ip()), Ok(expected(false)));
        let mut followed = opening();
        followed.extend([0; 20]);
        assert_eq!(
            SynPacket::parse(&followed),
            Ok(expected(true)),
            "padding is none of it"
        );
    }

    #[test]
    fn what_is_no_opening_is_told_apart() {
        let check = |change: &dyn Fn(&mut Vec<u8>), expected| {
            let mut bytes = opening();
            change(&mut bytes);
            assert_eq!(SynPacket::parse(&bytes), Err(expected));
        };
        let tcp = IP_BYTES;
        check(&|b| b.truncate(19), Strange::Short);
        check(&|b| b.truncate(3), Strange::Short);
        check(&|b| b[0] = 0x65, Strange::NotIp);
        check(&|b| b[0] = 0x44, Strange::NotIp);
        check(&|b| b[0] = 0x4f, Strange::NotIp);
        check(&|b| b[3] = 255, Strange::NotIp);
        check(&|b| b[3] = 19, Strange::NotIp);
        check(&|b| b[3] = 30, Strange::Short);
        check(&|b| b[9] = 17, Strange::NotTcp);
        check(&|b| b[6] = 0x20, Strange::NotTcp);
        check(&|b| b[7] = 1, Strange::NotTcp);
        check(&|b| b[tcp + 12] = 0x40, Strange::NotTcp);
        check(&|b| b[tcp + 12] = 0xf0, Strange::NotTcp);
        for flags in [0, ACK, SYN | ACK, SYN | RST, SYN | FIN, RST] {
            check(&|b| b[tcp + 13] = flags, Strange::NoOpening);
        }
        // Payload in it: what is no option is data.
        check(&|b| b[tcp + 12] = 0x50, Strange::NoOpening);
    }

    #[test]
    fn options_end_where_they_contradict_themselves() {
        let check = |options: &[u8], expected| assert_eq!(has_option(options, 3), expected);
        check(&[], false);
        check(&[1, 1, 3, 3, 7], true);
        check(&[2, 4, 5, 0xb4, 3, 3, 7], true);
        check(&[0, 3, 3, 7], false);
        check(&[2, 0, 3, 3, 7], false);
        check(&[2, 1, 3, 3, 7], false);
        check(&[2, 40, 3, 3, 7], false);
        check(&[2], false);
    }

    #[test]
    fn what_is_written_has_its_lengths_and_checksums() {
        let check = |packet: Packet, head: &[u8], expected: fn(&[u8], u32) -> u32| {
            assert_eq!(packet.bytes().strip_suffix(packet.ip()).unwrap(), head);
            let ip = packet.ip();
            assert_eq!(usize::from(u16_at(ip, 2)), ip.len());
            assert_eq!(folded(sum(&ip[..IP_BYTES])), 0xffff);
            let tcp = &ip[IP_BYTES..];
            assert_eq!(usize::from(tcp[12] >> 4) * 4, tcp.len());
            let pseudo = sum(&ip[12..20]) + u32::from(TCP) + tcp.len() as u32;
            assert_eq!(folded(expected(tcp, pseudo)), 0xffff);
        };
        // What the kernel would do to complete it, and check afterwards.
        let completed = |tcp: &[u8], pseudo: u32| {
            let checksum = !folded(sum(tcp));
            sum(tcp) - u32::from(u16_at(tcp, 16)) + u32::from(checksum) + pseudo
        };
        let whole = |tcp: &[u8], pseudo: u32| sum(tcp) + pseudo;
        let virtio = [1, 0, 0, 0, 0, 0, 20, 0, 16, 0];
        let ethernet = [2, 0, 198, 18, 0, 1, 2, 0, 198, 18, 0, 2, 8, 0];
        let ack = saying(ACK);
        check(Packet::plain(Device::Tun, ack), &virtio, completed);
        check(Packet::plain(Device::Veth, ack), &ethernet, whole);
        for scales in [true, false] {
            let opened = |device| Packet::opened(device, saying(SYN | ACK), 9000, scales);
            check(opened(Device::Tun), &virtio, completed);
            check(opened(Device::Veth), &ethernet, whole);
        }
    }

    #[test]
    fn the_largest_segment_is_that_of_the_mtu() {
        for (mtu, expected) in [
            (1500, 1460),
            (576, 536),
            (65_535, 65_495),
            (u32::MAX, 65_535),
        ] {
            let packet = Packet::opened(Device::Tun, saying(SYN | ACK), mtu, true);
            let options = &packet.ip()[IP_BYTES + TCP_BYTES..];
            assert_eq!(u16_at(options, 2), expected);
            assert_eq!(options[4..], [1, 3, 3, WINDOW_SHIFT]);
        }
    }
}
