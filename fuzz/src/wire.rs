//! Frames of the device of `wire`, behind its own header: any bytes.

use std::net::{Ipv4Addr, SocketAddrV4};

use bytecost_lab::transports::wire::packet::{MOST_BYTES, Packet, SYN, SegmentFields, SynPacket};
use bytecost_spec::cell::Device;

use crate::edit::edited;
use crate::target::target;

const WORDS: &[&str] = &["\0", "\u{1}", "\u{3}\u{3}", "\0\0\0\0", "E", "\u{2}\u{4}"];

fn opening(scales: bool) -> Vec<u8> {
    let fields = SegmentFields {
        from: SocketAddrV4::new(Ipv4Addr::new(198, 18, 0, 1), 40_000),
        to: SocketAddrV4::new(Ipv4Addr::new(198, 18, 0, 2), 5201),
        sequence: 7,
        acknowledged: 0,
        flags: SYN,
    };
    Packet::opened(Device::Tun, fields, 1500, scales)
        .ip()
        .to_vec()
}

fn any_bytes(input: &[u8]) {
    check(input);
    check(&[&opening(true)[..10], input].concat());
    check(&[&opening(true)[..20], input].concat());
}

fn spoilt(input: &[u8]) {
    for valid in [opening(true), opening(false)] {
        check(&edited(&valid, WORDS, 3, input));
    }
}

/// Reading ends in an opening, whose answer is read the same way but for its flags, or in what is
/// strange; it allocates nothing.
fn check(bytes: &[u8]) {
    let mut read = None;
    let used = allocation_counter::measure(|| read = Some(SynPacket::parse(bytes)));
    assert_eq!(used.count_total, 0);
    let Some(Some(opening)) = read else {
        return;
    };
    let again = SegmentFields {
        from: opening.from,
        to: opening.to,
        sequence: opening.sequence,
        acknowledged: 0,
        flags: SYN,
    };
    for device in Device::ALL {
        let packet = Packet::opened(*device, again, 1500, opening.scales);
        assert!(packet.bytes().len() <= MOST_BYTES);
        assert_eq!(SynPacket::parse(packet.ip()), Some(opening));
    }
}

// Invariant 8.
target!(any_bytes_are_an_opening_or_strange, 3_000, any_bytes);
target!(a_spoilt_opening_is_an_opening_or_strange, 3_000, spoilt);

#[test]
fn openings_are_valid_before_they_are_spoilt() {
    for scales in [true, false] {
        assert_eq!(
            SynPacket::parse(&opening(scales)).map(|o| o.scales),
            Some(scales)
        );
    }
}
