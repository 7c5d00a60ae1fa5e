//! The program that takes packets off: loaded, and attached to a device.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use aya::include_bytes_aligned;
use aya::maps::Map;
use aya::programs::tc::{NlOptions, TcAttachOptions, qdisc_add_clsact};
use aya::programs::{SchedClassifier, TcAttachType};
use bytecost_evidence::bpf::{in_one_line, loaded};
use bytecost_spec::cell::Device;

/// Built from the file beside it.
static OBJECT: &[u8] = include_bytes_aligned!("../../../bpf/wire.bpf.o");

/// Attaches it to what leaves by a device of this thread's network, which holds it; gives its map.
pub(super) fn attach(device: &str, kind: Device) -> io::Result<OwnedFd> {
    let mut object = loaded(OBJECT, None, &[])?;
    let name = match kind {
        Device::Tun => "steal",
        Device::Veth => "steal_framed",
    };
    let program: &mut SchedClassifier = object
        .program_mut(name)
        .ok_or_else(|| io::Error::other(format!("the object has no program `{name}`")))?
        .try_into()
        .map_err(|e| in_one_line(&e))?;
    program.load().map_err(|e| in_one_line(&e))?;
    qdisc_add_clsact(device).map_err(|e| in_one_line(&e))?;
    // Not by a link (TCX, Linux 6.6), where TC_ACT_STOLEN does not exist and means to go on.
    let options = TcAttachOptions::Netlink(NlOptions::default());
    let attached = program
        .attach_with_options(device, TcAttachType::Egress, options)
        .and_then(|id| program.take_link(id))
        .map_err(|e| in_one_line(&e))?;
    // Dropped, it would detach by the number of its device, and on a thread of another network
    // that is another device. The program goes with its own.
    std::mem::forget(attached);
    match object.map("board") {
        Some(Map::Array(data)) => Ok(data.fd().as_fd().try_clone_to_owned()?),
        _ => Err(io::Error::other("the object has no map `board`")),
    }
}
