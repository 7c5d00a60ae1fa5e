//! Devices and sizes of packets that cannot be had, and cells that do not differ in them.

use bytecost_spec::cell::Device;
use bytecost_spec::survey::LinkSupport;
use bytecost_spec::{Axis, Cell, Survey, Transport};

use super::refusals::refused;
use super::{chosen, host, is_refused, rows, study, survey};
use crate::candidates::{Norm, candidates};

fn link(transport: Transport, device: Device, most: u32) -> LinkSupport {
    LinkSupport {
        transport,
        device,
        segment_bytes_most: Some(most),
        refused: None,
    }
}

fn tried() -> Survey {
    Survey {
        links: vec![
            link(Transport::Wire, Device::Tun, 65_536),
            link(Transport::Wire, Device::Veth, 524_280),
            link(Transport::Veth, Device::Tun, 524_280),
        ],
        ..survey()
    }
}

#[test]
fn a_segment_is_refused_where_it_cannot_be_had() {
    let small = "segment of 1499 B with an MTU of 1500: one whole packet already has more: choose a --segment of at least 1500, or a smaller --mtu";
    let large = "segment of 128 KiB over wire: the kernel hands a tun device 65536 bytes at most in one packet: choose a smaller --segment, or --device veth";
    let table = format!(
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
    for (axes, reason) in rows(&table) {
        is_refused(&axes, refused(&axes, &host(), &tried()), reason);
    }
}

#[test]
fn a_device_that_cannot_be_made_is_refused_with_the_other_one() {
    let mut lacking = tried();
    let check = |survey: &Survey, device, expected: Option<&str>| {
        let changes = [(Axis::Transport, "wire"), (Axis::Device, device)];
        assert_eq!(refused(&changes, &host(), survey).as_deref(), expected);
    };
    lacking.links[0].refused = Some("there is none".to_owned());
    let or_veth = "wire on a tun device: there is none: or choose --device veth";
    check(&lacking, "tun", Some(or_veth));
    check(&lacking, "veth", None);
    lacking.links[1].refused = Some("nor that".to_owned());
    check(&lacking, "tun", Some("wire on a tun device: there is none"));
    check(
        &lacking,
        "veth",
        Some("wire on one end of a veth pair: nor that"),
    );
    // A plan of old did not try.
    check(&survey(), "tun", None);
}

#[test]
fn a_device_makes_cells_of_wires_alone_and_a_segment_of_every_size_one() {
    let axes = "transport loopback veth wire wire-udp; mover send; size 4KiB; threads 1; device tun veth; segment auto 16KiB";
    let study = chosen(study(&[]), axes);
    let (host, survey) = (host(), tried());
    let norm = Norm::new(&study, &host, &survey, None);
    let found = candidates(&study, &norm);
    let ids: Vec<String> = found.iter().map(|c| c.cell.id()).collect();
    let over = |t: &str| {
        ids.iter()
            .filter(|id| id.split('/').next() == Some(t))
            .count()
    };
    let counts = ["loopback", "veth", "wire", "wire-udp"].map(over);
    assert_eq!(counts, [1, 2, 4, 2], "{ids:?}");
    let on_veth = |c: &Cell| c.device == Device::Veth;
    assert!(
        found
            .iter()
            .all(|c| !on_veth(&c.cell) || c.cell.transport.is_wire())
    );
}
