//! Links and addresses of the network that the calling thread is in, by rtnetlink(7).

pub(crate) mod dump;

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, LinkXdp, State,
    XdpAttached,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{SendFlags, SocketFlags, SocketType, sendto};

use crate::socket::set_patience;

/// How long the kernel may take for an answer, which it gives before the call returns.
const PATIENCE: Duration = Duration::from_secs(2);
/// A link told with all that the kernel knows of it takes some 2 KiB.
const MOST_BYTES: usize = 32 << 10;
/// Datagrams that are read for one answer.
const MOST_DATAGRAMS: usize = 16;

/// A link, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) mtu_bytes: Option<u32>,
    /// The most that is handed to it in one packet of IPv4, in bytes, and the most that this can
    /// be set to.
    pub(crate) segment_bytes: Option<u32>,
    pub(crate) segment_bytes_most: Option<u32>,
    /// Whether packets can pass.
    pub(crate) is_up: bool,
    /// Whether it is one end of a veth pair.
    pub(crate) is_veth: bool,
    /// Whether an XDP program is attached.
    pub(crate) has_xdp: bool,
    /// The most segments that are handed to it in one packet.
    pub(crate) segments: Option<u32>,
}

/// A conversation with the kernel about one network.
pub(crate) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    /// Begins one about the network of the calling thread.
    pub(crate) fn open() -> io::Result<Netlink> {
        let socket = rustix::net::socket_with(
            rustix::net::AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            None,
        )?;
        set_patience(&socket, PATIENCE)?;
        Ok(Netlink {
            socket,
            sequence: 0,
        })
    }

    /// Makes a veth pair, veth(4): `name` here and `peer` in another network, both down.
    pub(crate) fn add_veth(
        &mut self,
        name: &str,
        peer: &str,
        peers: impl AsFd,
        mtu_bytes: u32,
    ) -> io::Result<()> {
        let end = |name: &str, more: LinkAttribute| {
            let mut end = LinkMessage::default();
            end.attributes.extend([
                LinkAttribute::IfName(name.to_owned()),
                LinkAttribute::Mtu(mtu_bytes),
                more,
            ]);
            end
        };
        let other = end(peer, LinkAttribute::NetNsFd(peers.as_fd().as_raw_fd()));
        let info = vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(other))),
        ];
        let link = end(name, LinkAttribute::LinkInfo(info));
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        self.ask(RouteNetlinkMessage::NewLink(link), flags)?;
        Ok(())
    }

    /// The link of that name; none where there is none.
    pub(crate) fn link(&mut self, name: &str) -> io::Result<Option<Link>> {
        let mut asked = LinkMessage::default();
        asked
            .attributes
            .push(LinkAttribute::IfName(name.to_owned()));
        match self.ask(RouteNetlinkMessage::GetLink(asked), 0) {
            Ok(Some(RouteNetlinkMessage::NewLink(told))) => Ok(Some(link(&told))),
            Ok(_) => Err(io::ErrorKind::InvalidData.into()),
            Err(e) if e.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The link of that name, which is an error where there is none.
    pub(crate) fn known(&mut self, name: &str) -> io::Result<Link> {
        self.link(name)?.ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, format!("there is no link {name}"))
        })
    }

    /// Brings a link up.
    pub(crate) fn set_up(&mut self, index: u32) -> io::Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        link.header.flags = LinkFlags::Up;
        link.header.change_mask = LinkFlags::Up;
        self.ask(RouteNetlinkMessage::SetLink(link), 0)?;
        Ok(())
    }

    /// Gives a link an MTU.
    pub(crate) fn set_mtu(&mut self, index: u32, mtu_bytes: u32) -> io::Result<()> {
        self.set(index, [LinkAttribute::Mtu(mtu_bytes)])
    }

    /// Bounds what a link is handed in one packet: so many bytes, and so many segments.
    pub(crate) fn set_segment(&mut self, index: u32, bytes: u32, segments: u32) -> io::Result<()> {
        let bounds = [
            LinkAttribute::GsoMaxSize(bytes),
            LinkAttribute::GsoIpv4MaxSize(bytes),
            LinkAttribute::GsoMaxSegs(segments),
        ];
        self.set(index, bounds)
    }

    /// Gives a link that is down a hardware address, and has it ask for no other's (IFF_NOARP).
    pub(crate) fn set_hardware(&mut self, index: u32, address: [u8; 6]) -> io::Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        link.header.flags = LinkFlags::Noarp;
        link.header.change_mask = LinkFlags::Noarp;
        link.attributes
            .push(LinkAttribute::Address(address.to_vec()));
        self.ask(RouteNetlinkMessage::SetLink(link), 0)?;
        Ok(())
    }

    fn set<const N: usize>(&mut self, index: u32, these: [LinkAttribute; N]) -> io::Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        link.attributes.extend(these);
        self.ask(RouteNetlinkMessage::SetLink(link), 0)?;
        Ok(())
    }

    /// Gives a link an address.
    pub(crate) fn add_address(
        &mut self,
        index: u32,
        address: Ipv4Addr,
        prefix_bits: u8,
    ) -> io::Result<()> {
        let mut message = AddressMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.prefix_len = prefix_bits;
        message.header.index = index;
        let ip = IpAddr::V4(address);
        message
            .attributes
            .extend([AddressAttribute::Local(ip), AddressAttribute::Address(ip)]);
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        self.ask(RouteNetlinkMessage::NewAddress(message), flags)?;
        Ok(())
    }

    /// Removes a link; the other end of a veth pair goes with it.
    pub(crate) fn remove(&mut self, index: u32) -> io::Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        self.ask(RouteNetlinkMessage::DelLink(link), 0)?;
        Ok(())
    }

    /// Asks, and waits until the kernel says that it is done; gives what it told on the way.
    fn ask(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> io::Result<Option<RouteNetlinkMessage>> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(&self.socket, &bytes, SendFlags::empty(), &kernel)?;
        let mut told = None;
        let mut buffer = vec![0; MOST_BYTES];
        for _ in 0..MOST_DATAGRAMS {
            let length = rustix::io::read(&self.socket, &mut buffer[..])?;
            for answer in answers(&buffer[..length])? {
                if answer.header.sequence_number != self.sequence {
                    continue;
                }
                match answer.payload {
                    NetlinkPayload::Error(end) => {
                        return match end.code {
                            None => Ok(told),
                            Some(code) => Err(io::Error::from_raw_os_error(code.get().abs())),
                        };
                    }
                    NetlinkPayload::InnerMessage(inner) => told = Some(inner),
                    _ => {}
                }
            }
        }
        Err(io::Error::other("the kernel's response has no end"))
    }
}

/// The messages of one datagram, each beginning at a multiple of four bytes.
fn answers(mut bytes: &[u8]) -> io::Result<Vec<NetlinkMessage<RouteNetlinkMessage>>> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(bytes)
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string()))?;
        let length = (message.header.length as usize).next_multiple_of(4);
        all.push(message);
        bytes = bytes.get(length.max(4)..).unwrap_or_default();
    }
    Ok(all)
}

fn link(told: &LinkMessage) -> Link {
    let has = |wanted: fn(&LinkAttribute) -> bool| told.attributes.iter().any(wanted);
    let number = |read: fn(&LinkAttribute) -> Option<u32>| told.attributes.iter().find_map(read);
    Link {
        index: told.header.index,
        mtu_bytes: number(|a| match a {
            LinkAttribute::Mtu(bytes) => Some(*bytes),
            _ => None,
        }),
        // A bound of IPv4's own exists since Linux 6.3.
        segment_bytes: number(|a| match a {
            LinkAttribute::GsoIpv4MaxSize(bytes) => Some(*bytes),
            _ => None,
        })
        .or(number(|a| match a {
            LinkAttribute::GsoMaxSize(bytes) => Some(*bytes),
            _ => None,
        })),
        segment_bytes_most: number(|a| match a {
            LinkAttribute::TsoMaxSize(bytes) => Some(*bytes),
            _ => None,
        }),
        segments: number(|a| match a {
            LinkAttribute::GsoMaxSegs(n) => Some(*n),
            _ => None,
        }),
        has_xdp: has(|a| {
            let LinkAttribute::Xdp(all) = a else {
                return false;
            };
            let is_on =
                |x: &LinkXdp| matches!(x, LinkXdp::Attached(at) if *at != XdpAttached::None);
            all.iter().any(is_on)
        }),
        is_up: has(|a| matches!(a, LinkAttribute::OperState(State::Up))),
        is_veth: has(|a| {
            let LinkAttribute::LinkInfo(info) = a else {
                return false;
            };
            info.contains(&LinkInfo::Kind(InfoKind::Veth))
        }),
    }
}
