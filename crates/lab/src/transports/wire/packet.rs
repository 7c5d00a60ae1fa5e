//! The far end's packets of IPv4 (RFC 791) and TCP (RFC 9293), behind the header of the device: a tun
//! device's (`struct virtio_net_hdr`), or Ethernet's.

use std::net::SocketAddrV4;

use bytecost_spec::cell::Device;
use bytecost_sys::tun;
use etherparse::checksum::Sum16BitWords;
use etherparse::{
    EtherType, Ethernet2Header, IpNumber, Ipv4Header, Ipv4Slice, TcpHeader, TcpOptionElement,
    TcpOptions, TcpSlice,
};

/// Hardware addresses of the two ends of a veth pair, of the range that everybody may choose from.
pub(super) const SENDER_HARDWARE: [u8; 6] = [2, 0, 198, 18, 0, 1];
pub(super) const FAR_HARDWARE: [u8; 6] = [2, 0, 198, 18, 0, 2];
/// The longest header of a device, in bytes.
const LEAD_BYTES_MOST: usize = Ethernet2Header::LEN;
/// The longest packet that is looked at, in bytes: an opening has two headers of at most 60 each.
pub const MOST_BYTES: usize = LEAD_BYTES_MOST + 120;
/// Powers of two of this end's windows: the most (RFC 7323), so they never hold the sender back.
pub const WINDOW_SHIFT: u8 = 14;

const IP_BYTES: u16 = Ipv4Header::MIN_LEN as u16;
const TCP_BYTES: u16 = TcpHeader::MIN_LEN as u16;
/// The longest packet that this end writes, in bytes: its headers and two options.
const ROOM: usize = LEAD_BYTES_MOST + Ipv4Header::MIN_LEN + TcpHeader::MIN_LEN + 8;
/// The checksum is still to be made, so the kernel does not check it: VIRTIO_NET_HDR_F_NEEDS_CSUM.
const NEEDS_CHECKSUM: u8 = 1;
/// The place of the checksum in a TCP header.
const CHECKSUM_AT: u16 = 16;

/// FIN of the flags of TCP: nothing more will come.
pub const FIN: u8 = 1;
/// SYN: a connection is opened.
pub const SYN: u8 = 2;
/// ACK: the number acknowledged is one.
pub const ACK: u8 = 16;

/// The length of the header before each packet of a device's descriptor, in bytes.
pub(super) fn lead_bytes(device: Device) -> usize {
    match device {
        Device::Tun => tun::HEADER_BYTES,
        Device::Veth => Ethernet2Header::LEN,
    }
}

/// A packet that asks for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SynPacket {
    /// Its sender.
    pub from: SocketAddrV4,
    /// Its receiver.
    pub to: SocketAddrV4,
    /// The sequence number of its SYN.
    pub sequence: u32,
    /// True if windows can be scaled.
    pub scales: bool,
}

impl SynPacket {
    /// Reads a packet without the device's header; none where it is not whole or opens no connection.
    /// Options after a malformed one are ignored.
    pub fn parse(ip: &[u8]) -> Option<SynPacket> {
        let ip = Ipv4Slice::from_slice(ip).ok()?;
        let (head, payload) = (ip.header(), ip.payload());
        let tcp = TcpSlice::from_slice(payload.payload).ok()?;
        let is_tcp = head.protocol() == IpNumber::TCP && !payload.fragmented;
        let opens = tcp.syn() && !tcp.ack() && !tcp.rst() && !tcp.fin();
        let scale = |option| matches!(option, Ok(TcpOptionElement::WindowScale(_)));
        (is_tcp && opens && tcp.payload().is_empty()).then(|| SynPacket {
            from: SocketAddrV4::new(head.source_addr(), tcp.source_port()),
            to: SocketAddrV4::new(head.destination_addr(), tcp.destination_port()),
            sequence: tcp.sequence_number(),
            scales: tcp.options_iterator().any(scale),
        })
    }
}

/// A packet to be written to a device's descriptor, with the device's header.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    bytes: [u8; ROOM],
    lead: usize,
    len: usize,
}

/// The addresses, numbers and flags of a packet from the far end to the sender of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentFields {
    /// The far end.
    pub from: SocketAddrV4,
    /// The sender.
    pub to: SocketAddrV4,
    /// The far end's sequence number.
    pub sequence: u32,
    /// The next expected sequence number of the sender.
    pub acknowledged: u32,
    /// Flags of TCP.
    pub flags: u8,
}

impl Packet {
    /// The answer to an opening: a SYN with an MTU's largest segment, and scaled windows if it can.
    pub fn opened(device: Device, fields: SegmentFields, mtu_bytes: u32, scales: bool) -> Packet {
        let most = mtu_bytes.saturating_sub(u32::from(IP_BYTES + TCP_BYTES));
        let [high, low] = u16::try_from(most).unwrap_or(u16::MAX).to_be_bytes();
        let options = if scales {
            TcpOptions::from([2, 4, high, low, 1, 3, 3, WINDOW_SHIFT])
        } else {
            TcpOptions::from([2, 4, high, low])
        };
        Packet::new(device, fields, options)
    }

    /// A packet without options: an acknowledgement, or the end of a connection.
    pub fn plain(device: Device, fields: SegmentFields) -> Packet {
        Packet::new(device, fields, TcpOptions::default())
    }

    fn new(device: Device, fields: SegmentFields, options: TcpOptions) -> Packet {
        let [from, to] = [fields.from, fields.to];
        let mut tcp = TcpHeader {
            acknowledgment_number: fields.acknowledged,
            fin: fields.flags & FIN != 0,
            syn: fields.flags & SYN != 0,
            ack: fields.flags & ACK != 0,
            options,
            ..TcpHeader::new(from.port(), to.port(), fields.sequence, u16::MAX)
        };
        let mut ip = Ipv4Header {
            total_len: IP_BYTES + tcp.header_len_u16(),
            dont_fragment: true,
            time_to_live: 64,
            protocol: IpNumber::TCP,
            source: from.ip().octets(),
            destination: to.ip().octets(),
            ..Ipv4Header::default()
        };
        ip.header_checksum = ip.calc_header_checksum();
        let pseudo = Sum16BitWords::new()
            .add_4bytes(ip.source)
            .add_4bytes(ip.destination)
            .add_2bytes([0, ip.protocol.0])
            .add_2bytes(tcp.header_len_u16().to_be_bytes());
        let mut lead = [0; LEAD_BYTES_MOST];
        tcp.checksum = match device {
            Device::Tun => {
                lead[0] = NEEDS_CHECKSUM;
                lead[6..8].copy_from_slice(&IP_BYTES.to_ne_bytes());
                lead[8..10].copy_from_slice(&CHECKSUM_AT.to_ne_bytes());
                // The sum of the pseudo header alone: the kernel completes the checksum.
                !pseudo.ones_complement().to_be()
            }
            Device::Veth => {
                let frame = Ethernet2Header {
                    source: FAR_HARDWARE,
                    destination: SENDER_HARDWARE,
                    ether_type: EtherType::IPV4,
                };
                lead = frame.to_bytes();
                pseudo.add_slice(&tcp.to_bytes()).ones_complement().to_be()
            }
        };
        let (mut bytes, mut len) = ([0; ROOM], 0);
        for part in [&lead[..lead_bytes(device)], &ip.to_bytes(), &tcp.to_bytes()] {
            bytes[len..len + part.len()].copy_from_slice(part);
            len += part.len();
        }
        Packet {
            bytes,
            lead: lead_bytes(device),
            len,
        }
    }

    /// Its bytes, with the device's header.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Its bytes from the head of IPv4 on.
    pub fn ip(&self) -> &[u8] {
        &self.bytes[self.lead..self.len]
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn fields(flags: u8) -> SegmentFields {
        SegmentFields {
            from: SocketAddrV4::new(Ipv4Addr::new(198, 18, 0, 2), 5201),
            to: SocketAddrV4::new(Ipv4Addr::new(198, 18, 0, 1), 40_000),
            sequence: 7,
            acknowledged: u32::MAX,
            flags,
        }
    }

    fn syn(device: Device, mtu_bytes: u32, scales: bool) -> Vec<u8> {
        let opened = Packet::opened(device, fields(SYN), mtu_bytes, scales);
        opened.ip().to_vec()
    }

    #[test]
    fn an_opening_is_read_as_it_was_written() {
        let expected = |scales| SynPacket {
            from: fields(SYN).from,
            to: fields(SYN).to,
            sequence: 7,
            scales,
        };
        let opening = syn(Device::Tun, 1500, true);
        let padded = [&opening[..], &[0; 20]].concat();
        let unscaled = syn(Device::Veth, 1500, false);
        for (bytes, scales) in [(opening, true), (padded, true), (unscaled, false)] {
            assert_eq!(SynPacket::parse(&bytes), Some(expected(scales)));
        }
    }

    #[test]
    fn other_packets_are_no_openings() {
        let check = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = syn(Device::Tun, 1500, true);
            change(&mut bytes);
            assert_eq!(SynPacket::parse(&bytes), None, "{bytes:?}");
        };
        for len in 0..syn(Device::Tun, 1500, true).len() {
            check(&|b| b.truncate(len));
        }
        // Of IPv4: another version or length, another protocol, a part of a packet.
        for (at, value) in [(0, 0x65), (0, 0x44), (0, 0x4f), (3, 255), (3, 19), (3, 30)] {
            check(&|b| b[at] = value);
        }
        for (at, value) in [(9, 17), (6, 0x20), (7, 1)] {
            check(&|b| b[at] = value);
        }
        // Of TCP: another length, of which one has what is no option be data; other flags.
        for (at, value) in [(32, 0x40), (32, 0xf0), (32, 0x50)] {
            check(&|b| b[at] = value);
        }
        const RST: u8 = 4;
        for flags in [0, ACK, SYN | ACK, SYN | RST, SYN | FIN, RST] {
            check(&|b| b[33] = flags);
        }
    }

    #[test]
    fn options_end_where_they_contradict_themselves() {
        let check = |options: [u8; 8], expected| {
            let mut bytes = syn(Device::Tun, 1500, true);
            bytes[40..].copy_from_slice(&options);
            let found = SynPacket::parse(&bytes).unwrap();
            assert_eq!(found.scales, expected, "{options:?}");
        };
        check([0; 8], false);
        check([1, 1, 3, 3, 7, 0, 0, 0], true);
        check([2, 4, 5, 0xb4, 3, 3, 7, 1], true);
        check([0, 3, 3, 7, 0, 0, 0, 0], false);
        check([2, 0, 3, 3, 7, 0, 0, 0], false);
        check([2, 1, 3, 3, 7, 0, 0, 0], false);
        check([2, 40, 3, 3, 7, 0, 0, 0], false);
        check([1, 1, 1, 1, 1, 1, 1, 2], false);
    }

    #[test]
    fn what_is_written_has_its_lengths_and_checksums() {
        let check = |packet: Packet, lead: &[u8], completed: bool| {
            assert_eq!(packet.bytes().strip_suffix(packet.ip()).unwrap(), lead);
            let ip = Ipv4Slice::from_slice(packet.ip()).unwrap();
            let (head, tcp) = (ip.header().to_header(), ip.payload().payload);
            assert_eq!(head.header_checksum, head.calc_header_checksum());
            let (tcp, payload) = TcpHeader::from_slice(tcp).unwrap();
            assert!(payload.is_empty());
            let whole = tcp.calc_checksum_ipv4(&head, &[]).unwrap();
            if completed {
                return assert_eq!(tcp.checksum, whole);
            }
            // Completed as the kernel does it: a sum over the header with this value in the checksum field.
            let sum = Sum16BitWords::new().add_slice(&tcp.to_bytes());
            assert_eq!(sum.ones_complement().to_be(), whole);
        };
        let virtio = [1, 0, 0, 0, 0, 0, 20, 0, 16, 0];
        let ethernet = [2, 0, 198, 18, 0, 1, 2, 0, 198, 18, 0, 2, 8, 0];
        for (device, lead) in [(Device::Tun, &virtio[..]), (Device::Veth, &ethernet)] {
            let completed = device == Device::Veth;
            check(Packet::plain(device, fields(ACK)), lead, completed);
            for scales in [true, false] {
                let opened = Packet::opened(device, fields(SYN | ACK), 9000, scales);
                check(opened, lead, completed);
            }
        }
    }

    #[test]
    fn the_largest_segment_is_that_of_the_mtu() {
        for (mtu, expected) in [
            (1500, 1460),
            (576, 536),
            (65_535, 65_495),
            (u32::MAX, 65_535_u16),
        ] {
            let [high, low] = expected.to_be_bytes();
            let options = [2, 4, high, low, 1, 3, 3, WINDOW_SHIFT];
            assert_eq!(syn(Device::Tun, mtu, true)[40..], options);
        }
    }
}
