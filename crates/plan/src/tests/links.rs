//! Devices and sizes of packets that cannot be had, and cells that do not differ in them.

use bytecost_spec::cell::Device;
use bytecost_spec::survey::LinkSupport;
use bytecost_spec::{Cell, Survey, Transport};

use super::{host, one, refused, refuses, spread_out, survey};

/// A survey in which devices cannot be made on wires for these reasons.
fn tried([tun, veth]: [Option<&str>; 2]) -> Survey {
    let link = |transport, device, most: u32, refused: Option<&str>| LinkSupport {
        transport,
        device,
        segment_bytes_most: Some(most),
        refused: refused.map(str::to_owned),
    };
    Survey {
        links: vec![
            link(Transport::Wire, Device::Tun, 65_536, tun),
            link(Transport::Wire, Device::Veth, 524_280, veth),
            link(Transport::Veth, Device::Tun, 524_280, None),
        ],
        ..survey()
    }
}

#[test]
fn a_segment_or_a_device_is_refused_where_it_cannot_be_had() {
    let small = "segment of 1499 B with an MTU of 1500: one whole packet already has more: choose a --segment of at least 1500, or a smaller --mtu";
    let large = "segment of 128 KiB over wire: the kernel hands a tun device 65536 bytes at most in one packet: choose a smaller --segment, or --device veth";
    let segments = format!(
        "transport loopback; segment auto |
        transport wire; segment 16KiB; device tun |
        transport wire; segment 16KiB; device veth |
        transport wire; segment 1500; device tun |
        transport wire; segment 1500; device veth |
        transport wire; segment 64KiB; mtu 65535; device tun |
        transport wire; segment 64KiB; mtu 65535; device veth |
        transport wire; segment 1499; device tun | {small}
        transport wire; segment 1499; device veth | {small}
        transport veth; segment 8KiB; mtu 9000 | at least 9000
        transport veth; segment 128KiB |
        transport wire; segment 128KiB; device veth |
        transport wire; segment 128KiB; device tun | {large}"
    );
    for (survey, table) in [
        (tried([None; 2]), segments.as_str()),
        (
            tried([Some("there is none"), None]),
            "transport wire; device tun | = wire on a tun device: there is none: or choose --device veth
            transport wire; device veth |",
        ),
        (
            tried([Some("there is none"), Some("nor that")]),
            "transport wire; device tun | = wire on a tun device: there is none
            transport wire; device veth | = wire on one end of a veth pair: nor that",
        ),
        // A plan of old did not try.
        (survey(), "transport wire; device tun |"),
    ] {
        refuses(table, |axes| refused(axes, &host(), &survey));
    }
}

#[test]
fn a_device_makes_cells_of_wires_alone_and_a_segment_of_every_size_one() {
    let study = one(
        "transport loopback veth wire wire-udp; size 4KiB; device tun veth; segment auto 16KiB",
    );
    let found = spread_out(&study, &tried([None; 2]));
    let over = |name: &str| {
        let over = found.iter().filter(|c| c.transport.name() == name);
        over.count()
    };
    let counts = ["loopback", "veth", "wire", "wire-udp"].map(over);
    assert_eq!(counts, [1, 2, 4, 2], "{found:?}");
    let is_strange = |c: &Cell| c.device == Device::Veth && !c.transport.is_wire();
    assert!(!found.iter().any(is_strange));
}
