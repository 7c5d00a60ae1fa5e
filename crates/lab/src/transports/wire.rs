//! A device that takes packets and delivers them to nobody, and a process that acknowledges them:
//! what a sender costs where nothing is copied on the way.
//!
//! Loopback and veth hand packets to a local socket, for which the kernel copies the pages of
//! every zero-copy send. Here a BPF program on the egress of a tun device takes the packets off,
//! notes how far each flow has come, and has them freed ([`board`]); a [`responder`] on a CPU of
//! its own answers SYN and FIN and acknowledges. The peer costs nothing, so this is the cost of
//! sending alone, and the most that a network card could give. UDP goes the same way, without an
//! answer ([`udp`]).
//!
//! The device lies in a network of its own, which has no name and no way out. Device, program and
//! map are held by descriptors alone, so that nothing outlives the processes that have them.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{BorrowedFd, OwnedFd};

use bytecost_sys::network::Network;
use bytecost_sys::tun;
use rustix::io::Errno;

use crate::netlink::Netlink;

pub mod board;
pub mod packet;
mod program;
pub mod responder;
pub mod udp;

/// The sender's address; as that of veth, of a range that is set aside for such things (RFC 2544).
pub const SENDER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// Where senders connect to. Nobody listens: the responder answers.
pub const FAR_END: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(198, 18, 0, 2), 5201);
const PREFIX_BITS: u8 = 30;
/// The MTU where a cell names none, in bytes: Ethernet's.
pub const MTU_BYTES: u32 = 1500;
/// Name of the device.
pub(crate) const NAME: &str = "bytecost0";

/// The device with its program, in a network of its own. Dropping it drops all of it.
#[derive(Debug)]
pub struct Wire {
    network: Network,
    tun: OwnedFd,
    map: OwnedFd,
    mtu_bytes: u32,
}

impl Wire {
    /// Makes one.
    ///
    /// # Errors
    /// In a sentence, with what to do: no rights (CAP_SYS_ADMIN, CAP_NET_ADMIN and CAP_BPF), a
    /// kernel without network namespaces, tun, BPF or clsact, an MTU that it refuses.
    pub fn new(mtu_bytes: u32) -> io::Result<Wire> {
        let network = Network::new().map_err(|e| told("network namespaces", &e))?;
        let (tun, map) = network.within(|| {
            let tun = tun::open(NAME).map_err(|e| told("a tun device", &e))?;
            // Before it is up, so that no packet is seen that is not ours.
            let map = program::attach(NAME).map_err(|e| told("a BPF program", &e))?;
            bring_up(mtu_bytes).map_err(|e| told("the tun device's network", &e))?;
            Ok::<_, io::Error>((tun, map))
        })??;
        Ok(Wire {
            network,
            tun,
            map,
            mtu_bytes,
        })
    }

    /// The network that senders are in.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// What a responder needs: the device, then the program's map.
    #[must_use]
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        use std::os::fd::AsFd;
        [self.tun.as_fd(), self.map.as_fd()]
    }

    /// The MTU of the device, in bytes.
    #[must_use]
    pub fn mtu_bytes(&self) -> u32 {
        self.mtu_bytes
    }
}

fn bring_up(mtu_bytes: u32) -> io::Result<()> {
    let mut netlink = Netlink::open()?;
    let mut index = |name| {
        let link = netlink.link(name)?;
        link.map(|l| l.index)
            .ok_or_else(|| io::Error::other(format!("there is no link {name}")))
    };
    let (loopback, device) = (index("lo")?, index(NAME)?);
    netlink.set_up(loopback)?;
    netlink.set_mtu(device, mtu_bytes)?;
    netlink.add_address(device, SENDER, PREFIX_BITS)?;
    netlink.set_up(device)
}

/// What to do about an error of making `what`.
fn told(what: &str, error: &io::Error) -> io::Error {
    let is_refused = error.kind() == io::ErrorKind::PermissionDenied;
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    let text = match errno {
        _ if is_refused => format!(
            "{what} cannot be had ({error}): call it as root, `sudo bytecost …`, or give a container CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_BPF and /dev/net/tun"
        ),
        Some(Errno::NOENT | Errno::NXIO | Errno::NODEV) if what == "a tun device" => format!(
            "{what} cannot be had ({error}): `modprobe tun` as root loads it where the kernel has it, and a container must be given /dev/net/tun"
        ),
        Some(Errno::INVAL) if what == "network namespaces" => {
            format!("this kernel has no {what} ({error}): it needs CONFIG_NET_NS")
        }
        _ => format!(
            "{what} cannot be had: {error}: the kernel must have tun, BPF (CONFIG_BPF_SYSCALL) and clsact (CONFIG_NET_CLS_BPF, CONFIG_NET_SCH_INGRESS)"
        ),
    };
    io::Error::new(error.kind(), text)
}

#[cfg(test)]
mod tests;
