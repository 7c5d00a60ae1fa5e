//! Refusals of a cell's link: its device and the size of its packets.

use bytecost_spec::cell::Device;
use bytecost_spec::units::bytes_in_words;
use bytecost_spec::{Cell, Survey};

/// The reason why a cell's link is not available on this host; none if it is.
pub(crate) fn refused(cell: &Cell, survey: &Survey) -> Option<String> {
    device(cell, survey).or_else(|| segment(cell, survey))
}

/// The refusal of the device, with the other device as a remedy if it works.
fn device(cell: &Cell, survey: &Survey) -> Option<String> {
    let why = survey.link(cell)?.refused.as_ref()?;
    if !cell.transport.is_wire() {
        return Some(why.clone());
    }
    let mut other = cell.clone();
    other.device = match cell.device {
        Device::Tun => Device::Veth,
        Device::Veth => Device::Tun,
    };
    let works = survey.link(&other).is_some_and(|l| l.refused.is_none());
    Some(format!(
        "on {}: {why}{}",
        cell.device.in_words(),
        if works {
            format!(": or choose --device {}", other.device.name())
        } else {
            String::new()
        }
    ))
}

/// The refusal of a packet size that is below the MTU or above the device's limit.
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
