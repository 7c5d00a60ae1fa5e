//! Devices and sizes of packets that cannot be had, and cells that do not differ in them.

use bytecost_spec::cell::Device;
use bytecost_spec::survey::LinkSupport;
use bytecost_spec::{Axis, Cell, Survey, Transport};

use super::refusals::refused;
use super::{host, study, survey};
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
    let check = |transport, segment, mtu, device, needle: &str| {
        let changes = [
            (Axis::Transport, transport),
            (Axis::Segment, segment),
            (Axis::Mtu, mtu),
            (Axis::Device, device),
        ];
        let why = refused(&changes, &host(), &tried()).unwrap_or_default();
        assert_eq!(why.is_empty(), needle.is_empty(), "{changes:?}: {why}");
        assert!(why.contains(needle), "{changes:?}: {why}");
    };
    check("loopback", "auto", "auto", "tun", "");
    for device in ["tun", "veth"] {
        check("wire", "16KiB", "auto", device, "");
        check("wire", "1500", "auto", device, "");
        check("wire", "64KiB", "65535", device, "");
        check(
            "wire",
            "1499",
            "auto",
            device,
            "segment of 1499 B with an MTU of 1500: one whole packet already has more: choose a --segment of at least 1500, or a smaller --mtu",
        );
    }
    check("veth", "8KiB", "9000", "tun", "at least 9000");
    check("veth", "128KiB", "auto", "tun", "");
    check("wire", "128KiB", "auto", "veth", "");
    check(
        "wire",
        "128KiB",
        "auto",
        "tun",
        "segment of 128 KiB over wire: the kernel hands a tun device 65536 bytes at most in one packet: choose a smaller --segment, or --device veth",
    );
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
    let mut study = study(&[]);
    for (axis, values) in [
        (
            Axis::Transport,
            &["loopback", "veth", "wire", "wire-udp"][..],
        ),
        (Axis::Mover, &["send"]),
        (Axis::Size, &["4KiB"]),
        (Axis::Threads, &["1"]),
        (Axis::Device, &["tun", "veth"]),
        (Axis::Segment, &["auto", "16KiB"]),
    ] {
        let values: Vec<String> = values.iter().map(|v| (*v).to_owned()).collect();
        study.set_axis(axis, &values).unwrap();
    }
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
