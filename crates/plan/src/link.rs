//! What the link of a cell cannot be, or not on this host.

use bytecost_spec::cell::Device;
use bytecost_spec::units::bytes_in_words;
use bytecost_spec::{Cell, Survey};

pub(crate) fn refused(cell: &Cell, survey: &Survey) -> Option<String> {
    device(cell, survey).or_else(|| segment(cell, survey))
}

/// The other kind, where the cell's own cannot be made.
fn device(cell: &Cell, survey: &Survey) -> Option<String> {
    let why = survey.link(cell)?.refused.as_ref()?;
    if !cell.transport.is_wire() {
        return Some(format!("{}: {why}", cell.transport.name()));
    }
    let mut other = cell.clone();
    other.device = match cell.device {
        Device::Tun => Device::Veth,
        Device::Veth => Device::Tun,
    };
    let works = survey.link(&other).is_some_and(|l| l.refused.is_none());
    Some(format!(
        "{} on {}: {why}{}",
        cell.transport.name(),
        cell.device.in_words(),
        if works {
            format!(": or choose --device {}", other.device.name())
        } else {
            String::new()
        }
    ))
}

/// Packets of a size that this MTU or device does not give.
fn segment(cell: &Cell, survey: &Survey) -> Option<String> {
    let bytes = cell.segment_bytes?;
    let over = cell.transport.name();
    let size = bytes_in_words(bytes.into());
    let mtu_bytes = cell.link_mtu_bytes();
    if bytes < mtu_bytes {
        return Some(format!(
            "segment of {size} with an MTU of {mtu_bytes}: one whole packet already has more: choose a --segment of at least {mtu_bytes}, or a smaller --mtu"
        ));
    }
    let most = survey.link(cell)?.segment_bytes_most?;
    (bytes > most).then(|| {
        let is_tun = cell.transport.is_wire() && cell.device == Device::Tun;
        format!(
            "segment of {size} over {over}: the kernel hands {} {most} bytes at most in one packet: choose a smaller --segment{}",
            if is_tun { Device::Tun } else { Device::Veth }.in_words(),
            if is_tun { ", or --device veth" } else { "" }
        )
    })
}
