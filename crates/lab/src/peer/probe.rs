//! The path from one host to the other: one side listens at its addresses, the other tries them all at
//! once, and the first in their order that answers with its key is the path.

use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytecost_spec::{Cell, NetworkCard};
use bytecost_sys::tcp;
use rustix::net::netdevice;

use crate::flow_acceptor::{FlowAcceptor, address};
use crate::flow_key::{FlowKey, KEY_BYTES};
use crate::netlink::dump::{attribute, list, number};
use crate::peer_channel::{Candidate, FoundPath};
use crate::side_by_side;
use crate::socket::Socket;
use crate::transports::{self, Listener};

/// The longest time for a connection to an address.
const REACHED_WITHIN: Duration = Duration::from_secs(2);
/// The longest wait for a side that tries all addresses.
pub(super) const TRIED_WITHIN: Duration = Duration::from_secs(5);
/// The time between checks if that is over.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The most addresses that are tried.
pub(super) const MOST_ADDRESSES: usize = 64;
/// The first port that needs no privilege, ip(7): nobody listens for a check below it.
const FIRST_UNPRIVILEGED_PORT: u16 = 1024;

/// RTM_GETADDR and what it asks for and gives, rtnetlink(7).
const GET_ADDRESSES: u16 = 22;
const HEAD_BYTES: usize = 8;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;

/// The addresses of the network that this process is in, each with the number of its device.
fn own_addresses() -> io::Result<Vec<(IpAddr, u32)>> {
    let all = list(None, GET_ADDRESSES, &[0; HEAD_BYTES])?;
    let address = |message: &Vec<u8>| {
        let attributes = message.get(HEAD_BYTES..)?;
        let of = |kind| attribute(attributes, kind);
        let bytes = of(IFA_LOCAL).or_else(|| of(IFA_ADDRESS))?;
        let old = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
        let ip = old.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from));
        Some((ip.ok()?, number(message, 4)?))
    };
    Ok(all.iter().filter_map(address).collect())
}

/// The addresses at which others may reach this host: the one that ssh used first, loopback last.
pub(super) fn addresses() -> io::Result<Vec<IpAddr>> {
    let own = own_addresses()?;
    let by_ssh = std::env::var("SSH_CONNECTION")
        .ok()
        .and_then(|words| words.split(' ').nth(2)?.parse::<IpAddr>().ok());
    let mut all: Vec<IpAddr> = own.iter().map(|(ip, _)| *ip).collect();
    all.retain(|ip| match ip {
        IpAddr::V4(ip) => !ip.is_link_local(),
        IpAddr::V6(ip) => !ip.is_unicast_link_local(),
    });
    all.sort_by_key(|ip| (Some(*ip) != by_ssh, ip.is_loopback(), ip.is_ipv6()));
    all.dedup();
    all.truncate(MOST_ADDRESSES);
    Ok(all)
}

/// The devices that packets of an address of this host go by.
pub(super) fn cards(at: IpAddr) -> Vec<NetworkCard> {
    let devices = own_addresses().unwrap_or_default().into_iter();
    let cards = devices.filter(|(ip, _)| *ip == at).map(|(_, device)| {
        let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
        let name = netdevice::index_to_name(&socket, device).ok()?;
        Some(bytecost_host::cards::read_card(&name))
    });
    cards.take(1).flatten().collect()
}

/// Listening sockets for a connectivity check, one for each address of this host.
pub(super) struct ListeningCandidates {
    listeners: Vec<Listener>,
    pub(super) candidates: Vec<Candidate>,
}

impl ListeningCandidates {
    /// Opens them: where that cannot be done, an address is left out.
    pub(super) fn open(addresses: &[IpAddr]) -> io::Result<ListeningCandidates> {
        let plain = Cell {
            congestion: "default".to_owned(),
            ..Cell::default()
        };
        let (mut listeners, mut candidates) = (Vec::new(), Vec::new());
        for address in addresses {
            if let Ok(listener) = transports::listen_for_peer(&plain, *address, None)
                && let Ok(at) = listener.address().parse()
            {
                listeners.push(listener);
                candidates.push(Candidate {
                    at,
                    key: FlowKey::new()?,
                    answer: FlowKey::new()?,
                });
            }
        }
        Ok(ListeningCandidates {
            listeners,
            candidates,
        })
    }

    /// Responds to all who know a key, until `over`. `on_check` is called with the index of a
    /// candidate and the address that the connection came from; all are tried at once.
    pub(super) fn respond(&self, over: &AtomicBool, mut on_check: impl FnMut(usize, IpAddr)) {
        let keys: Vec<FlowKey> = self.candidates.iter().map(|c| c.key.digest()).collect();
        let mut acceptor = FlowAcceptor::new(&keys);
        let until = Instant::now() + TRIED_WITHIN;
        while !over.load(Ordering::Relaxed) && Instant::now() < until {
            if let Ok((index, socket)) = acceptor.next(&self.listeners, POLL_INTERVAL)
                && let Some(from) = address(&socket)
            {
                // Known here before the other side may name it.
                on_check(index, from.ip());
                let _ = self.candidates[index].answer.send(&mut Socket(&socket));
            }
        }
    }
}

/// The addresses that another host may have this one connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permitted {
    /// Only this one, which the user named.
    One(IpAddr),
    /// Those of other hosts.
    Others,
    /// Those of other hosts and of loopback: the other "host" is on this machine.
    OnThisMachine,
}

impl Permitted {
    /// Returns true if a host may be asked to connect there: never to a port that needs a privilege.
    pub(super) fn allows(self, at: SocketAddr) -> bool {
        let ip = at.ip().to_canonical();
        let is_of_a_host = match ip {
            IpAddr::V4(v4) => !v4.is_link_local() && !v4.is_broadcast(),
            IpAddr::V6(v6) => !v6.is_unicast_link_local(),
        };
        let is_permitted = match self {
            Permitted::One(one) => ip == one.to_canonical(),
            Permitted::Others => is_of_a_host && !ip.is_loopback(),
            Permitted::OnThisMachine => is_of_a_host,
        };
        is_permitted
            && !ip.is_unspecified()
            && !ip.is_multicast()
            && at.port() >= FIRST_UNPRIVILEGED_PORT
    }
}

/// Tries these candidates at once: the first in their order that can be reached, with its index.
pub(super) fn reach(candidates: &[Candidate], permitted: Permitted) -> Option<(usize, FoundPath)> {
    let tried = &candidates[..candidates.len().min(MOST_ADDRESSES)];
    let paths = side_by_side::each(tried, |candidate| {
        (permitted
            .allows(candidate.at)
            .then(|| check(candidate).ok()))
        .flatten()
    });
    (paths.into_iter().enumerate()).find_map(|(index, path)| Some((index, path?)))
}

fn check(candidate: &Candidate) -> io::Result<FoundPath> {
    let mut stream = TcpStream::connect_timeout(&candidate.at, REACHED_WITHIN)?;
    stream.set_read_timeout(Some(REACHED_WITHIN))?;
    let from = stream.local_addr()?.ip();
    let socket = OwnedFd::from(stream.try_clone()?);
    candidate.key.digest().send(&mut stream)?;
    let mut response = [0; KEY_BYTES];
    stream.read_exact(&mut response)?;
    if !candidate.answer.matches(&response) {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    let info = tcp::info(&socket)?;
    Ok(FoundPath {
        to: candidate.at.ip(),
        from,
        round_trip_us: u64::from(info.min_rtt_us.min(info.rtt_us)),
        path_mtu: Some(info.path_mtu_bytes.into()).filter(|mtu| *mtu > 0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::net::TcpListener;

    #[test]
    fn a_host_is_sent_to_addresses_of_other_hosts_alone() {
        let check = |permitted: Permitted, allowed: &[&str], refused: &[&str]| {
            for at in allowed {
                assert!(permitted.allows(at.parse().unwrap()), "{permitted:?} {at}");
            }
            for at in refused {
                assert!(!permitted.allows(at.parse().unwrap()), "{permitted:?} {at}");
            }
        };
        let host = ["192.0.2.7:40000", "[2001:db8::7]:40000"];
        let local = ["127.0.0.1:40000", "[::1]:40000", "[::ffff:127.0.0.1]:40000"];
        let nowhere = [
            "0.0.0.0:40000",
            "224.0.0.1:40000",
            "255.255.255.255:40000",
            "169.254.1.1:40000",
            "[fe80::1]:40000",
            "[ff02::1]:40000",
            "192.0.2.7:25",
        ];
        check(Permitted::Others, &host, &[&local[..], &nowhere].concat());
        check(Permitted::OnThisMachine, &host, &nowhere);
        check(Permitted::OnThisMachine, &local, &[]);
        let one = Permitted::One("127.0.0.1".parse().unwrap());
        check(one, &local[..1], &["127.0.0.1:22", host[0]]);
    }

    #[test]
    fn who_listens_receives_no_bytes_that_the_other_host_chose() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let chosen = *b"GET / HTTP/1.1\r\n";
        let candidate = Candidate {
            at: listener.local_addr().unwrap(),
            key: FlowKey::from_bytes(chosen),
            answer: FlowKey::new().unwrap(),
        };
        let stranger = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut received = [0; KEY_BYTES];
            stream.read_exact(&mut received).unwrap();
            let _ = stream.write_all(&received);
            received
        });
        let candidates = [candidate];
        assert_eq!(reach(&candidates, Permitted::OnThisMachine), None);
        assert_ne!(stranger.join().unwrap(), chosen);
        assert_eq!(reach(&candidates, Permitted::Others), None);
    }

    #[test]
    fn a_check_finds_the_way_and_is_known_before_its_response() {
        let own = [IpAddr::from(Ipv4Addr::LOCALHOST)];
        let open = ListeningCandidates::open(&own).unwrap();
        let over = AtomicBool::new(false);
        let mut checks = Vec::new();
        let found = std::thread::scope(|scope| {
            scope.spawn(|| open.respond(&over, |index, from| checks.push((index, from))));
            let found = reach(&open.candidates, Permitted::OnThisMachine);
            over.store(true, Ordering::Relaxed);
            found
        });
        let (index, path) = found.unwrap();
        assert_eq!((index, path.to), (0, own[0]));
        assert_eq!(checks, [(0, path.from)]);
    }
}
