//! A veth pair, veth(4), between two network namespaces of the run's own.
//!
//! The host's network never sees them: namespaces have no names, links are made inside, and only
//! descriptors of [`VethPair`] and endpoints hold them. These end with the coordinator, however
//! that ends, and the kernel cleans up: there is nothing that a SIGKILL could prevent.

use std::io;
use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

use bytecost_sys::network::Network;
use rustix::io::Errno;

use super::link::LinkChoice;
use crate::limits;
use crate::netlink::Netlink;
use crate::role::Role;

/// The sender's address. 198.18.0.0/15 is set aside for benchmarks of networks (RFC 2544), so no
/// host should have it; and since the namespaces have no way out, it could not collide anyway.
pub const SENDER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// The receiver's address.
pub const RECEIVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
pub(crate) const NAMES: [&str; 2] = ["bytecost0", "bytecost1"];
const TIMEOUT: Duration = Duration::from_secs(5);

/// A part of a network of the run's own, which the kernel may refuse.
#[derive(Clone, Copy, PartialEq, Eq, strum::Display)]
pub(super) enum NetworkPart {
    #[strum(serialize = "network namespaces")]
    Namespaces,
    #[strum(serialize = "a veth pair")]
    VethPair,
    #[strum(serialize = "the veth pair's network")]
    VethNetwork,
    #[strum(serialize = "a tun device")]
    Tun,
    #[strum(serialize = "the tun device's network")]
    TunNetwork,
    #[strum(serialize = "a BPF program")]
    Program,
    #[strum(serialize = "a packet socket")]
    PacketSocket,
}

/// Two namespaces and the link between them. Dropping it drops both.
#[derive(Debug)]
pub struct VethPair {
    sender: Network,
    receiver: Network,
}

impl VethPair {
    /// Makes a pair with both ends up, and the usual offloads but for a bound. Errors have a remedy: no
    /// rights (CAP_SYS_ADMIN, CAP_NET_ADMIN), no namespaces or veth, an MTU or bound that the kernel
    /// refuses.
    pub fn new(link: LinkChoice) -> io::Result<VethPair> {
        let pair = VethPair {
            sender: Network::new().map_err(|e| refused(NetworkPart::Namespaces, &e))?,
            receiver: Network::new().map_err(|e| refused(NetworkPart::Namespaces, &e))?,
        };
        let [sender, receiver] = NAMES;
        pair.sender
            .within(|| Netlink::open()?.add_veth(sender, receiver, &pair.receiver, link.mtu_bytes))?
            .map_err(|e| refused(NetworkPart::VethPair, &e))?;
        let ends = [
            (&pair.sender, sender, SENDER),
            (&pair.receiver, receiver, RECEIVER),
        ];
        for (network, name, address) in ends {
            network.within(|| link.bring_up(&mut Netlink::open()?, name, address))??;
        }
        // Each end is up only when the other one is.
        for (network, name, _) in ends {
            network.within(|| await_up(name))??;
        }
        Ok(pair)
    }

    /// The namespace of one side.
    pub fn network(&self, role: Role) -> &Network {
        match role {
            Role::Sender | Role::Client | Role::Background | Role::Observer => &self.sender,
            Role::Receiver | Role::Server => &self.receiver,
        }
    }
}

/// An error in words, with the limit that was reached where it is one of lack.
pub(super) fn limited(part: NetworkPart, error: &io::Error) -> String {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(errno @ (Errno::AGAIN | Errno::NOMEM)) => limits::named(errno.into()).to_string(),
        Some(Errno::NOSPC) if part == NetworkPart::Namespaces => format!(
            "{error}: there are as many as user.max_net_namespaces allows: as root, raise it with `sysctl -w`"
        ),
        _ => error.to_string(),
    }
}

/// The error of a part that cannot be made, with its remedy.
pub(super) fn refused(part: NetworkPart, error: &io::Error) -> io::Error {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    let text = match errno {
        Some(Errno::PERM | Errno::ACCESS) => format!(
            "{part} need root: call it as `sudo bytecost …`, or give a container CAP_SYS_ADMIN and CAP_NET_ADMIN"
        ),
        Some(Errno::OPNOTSUPP) => format!(
            "this kernel has no veth ({error}): `modprobe veth` as root loads it where the kernel has it"
        ),
        Some(Errno::INVAL) if part == NetworkPart::Namespaces => {
            format!("this kernel has no {part} ({error}): it needs CONFIG_NET_NS")
        }
        _ => format!("{part} cannot be made: {}", limited(part, error)),
    };
    io::Error::new(error.kind(), text)
}

pub(super) fn await_up(name: &str) -> io::Result<()> {
    let mut netlink = Netlink::open()?;
    let began = Instant::now();
    while !netlink.existing_link(name)?.is_up {
        if began.elapsed() > TIMEOUT {
            let seconds = TIMEOUT.as_secs();
            let why = format!("the link {name} did not come up within {seconds} s");
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use bytecost_spec::cell::LINK_MTU_BYTES;

    use super::*;
    use crate::flow_key::{FlowKey, KEY_BYTES};
    use crate::lack::{Lack, skipped};
    use crate::netlink::Link;
    use crate::transports::{Listener, Socket, connect, listen};
    use bytecost_meter::NetworkMeter;
    use bytecost_spec::{Cell, Counter, Transport};
    use bytecost_sys::proc_view;
    use std::fs;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::OwnedFd;
    use std::process::{Child, Command, Stdio};

    /// The network, or none without the rights, which the error must name.
    pub(in crate::transports) fn if_allowed<T>(made: io::Result<T>) -> Option<T> {
        made.map_err(|e| {
            assert!(!rustix::process::geteuid().is_root(), "{e}");
            assert!(e.to_string().contains("sudo bytecost"), "{e}");
            skipped(Lack::Right, e);
        })
        .ok()
    }

    /// A pair; none, and the reason printed, without the rights for one.
    fn pair(mtu_bytes: u32, segment_bytes: Option<u32>) -> Option<VethPair> {
        let link = LinkChoice {
            mtu_bytes,
            segment_bytes,
            ..LinkChoice::default()
        };
        if_allowed(VethPair::new(link))
    }

    fn cell() -> Cell {
        Cell {
            transport: Transport::Veth,
            congestion: "reno".to_owned(),
            ..Cell::default()
        }
    }

    fn at<T: Send>(pair: &VethPair, role: Role, work: impl FnOnce() -> io::Result<T> + Send) -> T {
        pair.network(role).within(work).unwrap().unwrap()
    }

    fn listener(pair: &VethPair) -> Listener {
        at(pair, Role::Receiver, || listen(&cell(), None))
    }

    fn connection(pair: &VethPair) -> (OwnedFd, OwnedFd) {
        let listener = listener(pair);
        let address = listener.address();
        let sender = at(pair, Role::Sender, || connect(&cell(), &address, TIMEOUT));
        (sender, listener.accept(Duration::from_secs(60)).unwrap())
    }

    /// Sends a key from one end to the other.
    fn pass(a: &OwnedFd, b: &OwnedFd) {
        FlowKey::new().unwrap().send(&mut Socket(a)).unwrap();
        Socket(b).read_exact(&mut [0; KEY_BYTES]).unwrap();
    }

    #[test]
    fn the_two_ends_find_each_other_and_nobody_else() {
        let Some(pair) = pair(LINK_MTU_BYTES, None) else {
            return;
        };
        let (a, b) = connection(&pair);
        pass(&a, &b);
        let of_the_receiver = listener(&pair).address();
        assert!(of_the_receiver.starts_with("198.18.0.2:"));
        for role in [Role::Sender, Role::Receiver] {
            let read = |path: &'static str| at(&pair, role, || fs::read_to_string(path));
            let routes = read("/proc/thread-self/net/route");
            // One heading, and the network of four addresses on the link itself.
            assert_eq!(routes.lines().count(), 2, "{routes}");
            assert!(routes.contains("\t000012C6\t00000000\t"), "{routes}");
            let links = read("/proc/thread-self/net/dev");
            assert_eq!(links.lines().count(), 4, "lo and the link: {links}");
        }
        let outside = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        assert!(!outside.contains("bytecost"), "{outside}");
    }

    #[test]
    fn the_mtu_is_that_of_the_link_and_of_its_segments() {
        for mtu in [576, LINK_MTU_BYTES, 9000] {
            let Some(pair) = pair(mtu, None) else { return };
            for end in ends(&pair) {
                assert_eq!(end.mtu_bytes, Some(mtu));
            }
            let (a, b) = connection(&pair);
            pass(&a, &b);
            // The headers of IPv4 and TCP take 40 bytes, and up to 20 with options.
            let segment = bytecost_sys::tcp::info(&a).unwrap().snd_mss_bytes;
            assert!((mtu - 60..=mtu - 40).contains(&segment), "{mtu}: {segment}");
        }
    }

    fn ends(pair: &VethPair) -> [Link; 2] {
        let of = |role, name| at(pair, role, || Netlink::open()?.existing_link(name));
        [of(Role::Sender, NAMES[0]), of(Role::Receiver, NAMES[1])]
    }

    /// The tests of wire check the packets.
    #[test]
    fn both_ends_keep_to_the_bound_of_packets() {
        let Some(pair) = pair(LINK_MTU_BYTES, Some(16 << 10)) else {
            return;
        };
        for end in ends(&pair) {
            assert_eq!(end.segments, Some(11), "{end:?}");
            assert!(end.segment_bytes.is_some_and(|b| b >= 16 << 10), "{end:?}");
        }
    }

    /// A process in one of the namespaces, which ends with its input.
    fn waiting(network: &Network) -> Child {
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped());
        network.start_in(&mut command).unwrap();
        command.spawn().unwrap()
    }

    #[test]
    fn the_counters_of_a_pair_hold_its_own_traffic_alone() {
        let Some(pair) = pair(LINK_MTU_BYTES, None) else {
            return;
        };
        let both = [Role::Sender, Role::Receiver].map(|role| waiting(pair.network(role)));
        let dirs = both
            .each_ref()
            .map(|child| proc_view::directory(child.id()));
        let meter = NetworkMeter::open(&dirs);
        let grown = |work: &dyn Fn()| {
            let start = meter.read();
            work();
            let readings = meter.difference(&start, &meter.read());
            readings[&Counter::TcpOutSegs].measured().unwrap()
        };
        let elsewhere = || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            for _ in 0..20 {
                let _socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                listener.accept().unwrap();
            }
        };
        assert_eq!(grown(&elsewhere), 0, "nothing of the host is in them");
        let connecting = || drop(connection(&pair));
        // A handshake alone takes three segments.
        assert!(grown(&connecting) >= 3);
        both.into_iter()
            .for_each(|child| drop(child.wait_with_output()));
    }

    #[test]
    fn an_error_says_what_to_do() {
        let check = |part: NetworkPart, errno: Errno, says: &str| {
            let error = refused(part, &errno.into()).to_string();
            assert!(error.contains(says), "{error}");
        };
        check(NetworkPart::Namespaces, Errno::PERM, "sudo bytecost");
        check(NetworkPart::VethPair, Errno::PERM, "CAP_NET_ADMIN");
        check(NetworkPart::Namespaces, Errno::INVAL, "CONFIG_NET_NS");
        check(NetworkPart::VethPair, Errno::OPNOTSUPP, "modprobe veth");
        check(NetworkPart::VethPair, Errno::INVAL, "cannot be made");
        check(
            NetworkPart::Namespaces,
            Errno::AGAIN,
            "more threads and processes",
        );
        check(
            NetworkPart::Namespaces,
            Errno::NOSPC,
            "user.max_net_namespaces",
        );
    }
}
