//! Which way leads from one host to the other: one side listens at its addresses, the other tries
//! them all at once, and the first in their order that answers with its key is the way.

use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytecost_spec::{Cell, NetworkCard};
use bytecost_sys::tcp;
use rustix::net::netdevice;

use super::channel::{Door, FoundWay};
use crate::greeters::{FlowKey, Greeters, KEY_BYTES, address};
use crate::netlink::dump::{attribute, list, number};
use crate::side_by_side;
use crate::transports::{self, Listener};

/// How long an address may take to be reached.
const REACHED_WITHIN: Duration = Duration::from_secs(2);
/// How long somebody is waited for who may try one address after the other.
pub(super) const TRIED_WITHIN: Duration = Duration::from_secs(5);
/// How often it is looked whether that is over.
const LOOK: Duration = Duration::from_millis(20);
/// The most addresses that are tried.
const MOST_ADDRESSES: usize = 64;

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

/// Where others may reach this host: first where ssh did, last where nobody does but from within.
pub(super) fn addresses() -> io::Result<Vec<IpAddr>> {
    let own = own_addresses()?;
    let by_ssh = std::env::var("SSH_CONNECTION").ok();
    let by_ssh = by_ssh.and_then(|words| words.split(' ').nth(2)?.parse::<IpAddr>().ok());
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
        Some(bytecost_host::cards::named(&name))
    });
    cards.take(1).flatten().collect()
}

/// Somebody is listened for at each of these addresses.
pub(super) struct ListeningDoors {
    listeners: Vec<Listener>,
    pub(super) doors: Vec<Door>,
}

impl ListeningDoors {
    /// Opens them: where that cannot be done, an address is left out.
    pub(super) fn open(addresses: &[IpAddr]) -> io::Result<ListeningDoors> {
        let plain = Cell {
            congestion: "default".to_owned(),
            ..Cell::default()
        };
        let (mut listeners, mut doors) = (Vec::new(), Vec::new());
        for at in addresses {
            if let Ok(listener) = transports::listen_for_peer(&plain, *at, None)
                && let Ok(at) = listener.address().parse()
            {
                listeners.push(listener);
                doors.push(Door {
                    at,
                    key: FlowKey::new()?,
                    answer: FlowKey::new()?,
                });
            }
        }
        Ok(ListeningDoors { listeners, doors })
    }

    /// Answers all who know a key, until it is over, and tells the place of the door of each and
    /// the address that it came from. The other side tries all doors at once.
    pub(super) fn all_who_come(&self, over: &AtomicBool, mut tell: impl FnMut(usize, IpAddr)) {
        let keys: Vec<FlowKey> = self.doors.iter().map(|door| door.key).collect();
        let mut greeters = Greeters::new(&keys);
        let until = Instant::now() + TRIED_WITHIN;
        while !over.load(Ordering::Relaxed) && Instant::now() < until {
            if let Ok((door, socket)) = greeters.next(&self.listeners, LOOK)
                && self.doors[door].answer.say(&socket).is_ok()
                && let Some(from) = address(&socket)
            {
                tell(door, from.ip());
            }
        }
    }
}

/// The first of these doors, in their order, that is opened.
pub(super) fn reach(doors: &[Door]) -> Option<(usize, FoundWay)> {
    let doors = &doors[..doors.len().min(MOST_ADDRESSES)];
    let tried = side_by_side::each(doors, |door| knock(door).ok());
    let mut ways = tried.into_iter().enumerate();
    ways.find_map(|(place, way)| Some((place, way?)))
}

fn knock(door: &Door) -> io::Result<FoundWay> {
    let mut stream = TcpStream::connect_timeout(&door.at, REACHED_WITHIN)?;
    stream.set_read_timeout(Some(REACHED_WITHIN))?;
    let from = stream.local_addr()?.ip();
    let socket = OwnedFd::from(stream.try_clone()?);
    door.key.say(&socket)?;
    let mut said = [0; KEY_BYTES];
    stream.read_exact(&mut said)?;
    if !door.answer.is(&said) {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    let info = tcp::info(&socket)?;
    Ok(FoundWay {
        to: door.at.ip(),
        from,
        round_trip_us: u64::from(info.min_rtt_us.min(info.rtt_us)),
        path_mtu: Some(info.path_mtu_bytes.into()).filter(|mtu| *mtu > 0),
    })
}
