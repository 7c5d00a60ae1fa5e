//! The device of a wire: a tun device, or a veth pair of which the sender has one end.
//!
//! The program takes packets off before a device has them, so the two differ for a sender in the
//! head of a frame and in the largest packet. What the program lets through and the responder says
//! goes by the tun device's descriptor, or a packet socket at the pair's other end, where only
//! openings come in, so nothing is copied for it.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use bytecost_spec::cell::Device;
use bytecost_sys::network::Network;
use bytecost_sys::{packet, tun};
use rustix::io::Errno;
use rustix::net::sockopt;

use super::packet::{FAR_HARDWARE, SENDER_HARDWARE};
use super::program;
use crate::netlink::Netlink;
use crate::transports::link::LinkChoice;
use crate::transports::veth::{self, NAMES, NetworkPart, SENDER};

/// The address that senders connect to. No socket listens there: the responder answers.
pub(crate) const FAR_END: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(198, 18, 0, 2), 5201);
/// Name of the device, the sender's end where it is a pair.
pub(crate) const NAME: &str = NAMES[0];
/// Name of the other end of a pair.
const FAR_NAME: &str = NAMES[1];
/// The receive buffer of the packet socket, in bytes, so that openings wait until the responder reads.
const OPENINGS_BYTES: usize = 4 << 20;

/// Makes the device with its program in a network. Returns the far end's descriptor and the program's map.
pub(super) fn made(network: &Network, link: LinkChoice) -> io::Result<(OwnedFd, OwnedFd)> {
    network.within(|| match link.device {
        Device::Tun => on_tun(link),
        Device::Veth => on_veth(network, link),
    })?
}

fn on_tun(link: LinkChoice) -> io::Result<(OwnedFd, OwnedFd)> {
    let tun = tun::open(NAME).map_err(|e| refused(NetworkPart::Tun, &e))?;
    // Before it is up, so that no packet is seen that is not ours.
    let map = program::attach(NAME, link.device).map_err(|e| refused(NetworkPart::Program, &e))?;
    link.bring_up(&mut Netlink::open()?, NAME, SENDER)
        .map_err(|e| refused(NetworkPart::TunNetwork, &e))?;
    Ok((tun, map))
}

fn on_veth(network: &Network, link: LinkChoice) -> io::Result<(OwnedFd, OwnedFd)> {
    let mut netlink = Netlink::open()?;
    netlink
        .add_veth(NAME, FAR_NAME, network, link.mtu_bytes)
        .map_err(|e| veth::refused(NetworkPart::VethPair, &e))?;
    let map = program::attach(NAME, link.device).map_err(|e| refused(NetworkPart::Program, &e))?;
    let mut up = || {
        for (name, address) in [(NAME, SENDER_HARDWARE), (FAR_NAME, FAR_HARDWARE)] {
            let index = netlink.existing_link(name)?.index;
            netlink.set_hardware(index, address)?;
        }
        let far = netlink.existing_link(FAR_NAME)?.index;
        netlink.set_up(far)?;
        link.bring_up(&mut netlink, NAME, SENDER)?;
        // Each end is up only when the other one is.
        veth::await_up(NAME)?;
        veth::await_up(FAR_NAME)?;
        Ok(far)
    };
    let far = up().map_err(|e: io::Error| refused(NetworkPart::VethNetwork, &e))?;
    let socket = packet::open(far).map_err(|e| refused(NetworkPart::PacketSocket, &e))?;
    // Past the limit of the host where that is allowed, else up to it.
    sockopt::set_socket_recv_buffer_size_force(&socket, OPENINGS_BYTES)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, OPENINGS_BYTES))?;
    Ok((socket, map))
}

pub(super) fn refused(part: NetworkPart, error: &io::Error) -> io::Error {
    let is_refused = error.kind() == io::ErrorKind::PermissionDenied;
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    let text = match errno {
        _ if is_refused && part == NetworkPart::PacketSocket => format!(
            "{part}: not available ({error}): run it as root, `sudo bytecost …`, or give a container CAP_NET_RAW"
        ),
        _ if is_refused => format!(
            "{part}: not available ({error}): run it as root, `sudo bytecost …`, or give a container CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_BPF and /dev/net/tun"
        ),
        Some(Errno::NOENT | Errno::NXIO | Errno::NODEV) if part == NetworkPart::Tun => format!(
            "{part}: not available ({error}): load it as root with `modprobe tun`, if the kernel has it; a container needs /dev/net/tun"
        ),
        Some(Errno::INVAL) if part == NetworkPart::Namespaces => {
            format!("this kernel has no {part} ({error}): it needs CONFIG_NET_NS")
        }
        Some(Errno::AGAIN | Errno::NOMEM | Errno::NOSPC) => {
            format!("{part}: not available: {}", veth::limited(part, error))
        }
        _ => format!(
            "{part}: not available: {error}: the kernel needs tun or veth with packet sockets, BPF (CONFIG_BPF_SYSCALL) and clsact (CONFIG_NET_CLS_BPF, CONFIG_NET_SCH_INGRESS)"
        ),
    };
    io::Error::new(error.kind(), text)
}
