//! Links and addresses of the network that the calling thread is in, by rtnetlink(7).

pub(crate) mod dump;

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader,
    NetlinkMessage, NetlinkPayload, NetlinkSerializable,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, LinkXdp, State,
    XdpAttached,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{Protocol, SendFlags, SocketFlags, SocketType, sendto};

use crate::socket::set_timeout;

/// The longest time for a part of the kernel's answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The kernel makes no datagram larger than this; a whole link takes some 2 KiB.
const MOST_BYTES: usize = 32 << 10;
/// Datagrams that are read for one answer; a list that is longer is an error, not cut short.
const MOST_DATAGRAMS: usize = 4096;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) mtu_bytes: Option<u32>,
    /// The most that is handed to it in one packet of IPv4, in bytes, and the most that can be set.
    pub(crate) segment_bytes: Option<u32>,
    pub(crate) segment_bytes_most: Option<u32>,
    pub(crate) is_up: bool,
    /// True if it is set up by its administrator: loopback has no other state.
    pub(crate) is_set_up: bool,
    pub(crate) is_veth: bool,
    pub(crate) has_xdp: bool,
    pub(crate) segments: Option<u32>,
}

pub(crate) struct Netlink(OwnedFd);

impl Netlink {
    pub(crate) fn open() -> io::Result<Netlink> {
        Ok(Netlink(socket(None)?))
    }

    /// Makes a veth pair, veth(4): `name` here and `peer` in another network, both down.
    pub(crate) fn add_veth(
        &mut self,
        name: &str,
        peer: &str,
        peers: impl AsFd,
        mtu_bytes: u32,
    ) -> io::Result<()> {
        let end = |link_name: &str, more: LinkAttribute| {
            let mut end = LinkMessage::default();
            end.attributes.extend([
                LinkAttribute::IfName(link_name.to_owned()),
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
        self.ask(RouteNetlinkMessage::NewLink(link), flags)
    }

    pub(crate) fn link(&mut self, name: &str) -> io::Result<Option<Link>> {
        let mut asked = LinkMessage::default();
        asked.attributes = vec![LinkAttribute::IfName(name.to_owned())];
        let answers = converse(&self.0, RouteNetlinkMessage::GetLink(asked), NLM_F_ACK);
        match answers.map(|mut links| links.pop()) {
            Ok(Some(RouteNetlinkMessage::NewLink(message))) => Ok(Some(link(&message))),
            Ok(_) => Err(io::ErrorKind::InvalidData.into()),
            Err(e) if e.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The link of that name, which is an error where there is none.
    pub(crate) fn existing_link(&mut self, name: &str) -> io::Result<Link> {
        self.link(name)?.ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, format!("there is no link {name}"))
        })
    }

    pub(crate) fn set_up(&mut self, index: u32) -> io::Result<()> {
        self.set(index, LinkFlags::Up, vec![])
    }

    pub(crate) fn set_mtu(&mut self, index: u32, mtu_bytes: u32) -> io::Result<()> {
        let mtu = vec![LinkAttribute::Mtu(mtu_bytes)];
        self.set(index, LinkFlags::empty(), mtu)
    }

    /// Bounds what a link is handed in one packet: so many bytes, and so many segments.
    pub(crate) fn set_segment(&mut self, index: u32, bytes: u32, segments: u32) -> io::Result<()> {
        let bounds = vec![
            LinkAttribute::GsoMaxSize(bytes),
            LinkAttribute::GsoIpv4MaxSize(bytes),
            LinkAttribute::GsoMaxSegs(segments),
        ];
        self.set(index, LinkFlags::empty(), bounds)
    }

    /// Gives a link that is down a hardware address, and has it ask for no other's (IFF_NOARP).
    pub(crate) fn set_hardware(&mut self, index: u32, address: [u8; 6]) -> io::Result<()> {
        let address = vec![LinkAttribute::Address(address.to_vec())];
        self.set(index, LinkFlags::Noarp, address)
    }

    fn set(&mut self, index: u32, flags: LinkFlags, to: Vec<LinkAttribute>) -> io::Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        link.header.flags = flags;
        link.header.change_mask = flags;
        link.attributes = to;
        self.ask(RouteNetlinkMessage::SetLink(link), 0)
    }

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
        message.attributes = vec![AddressAttribute::Local(ip), AddressAttribute::Address(ip)];
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        self.ask(RouteNetlinkMessage::NewAddress(message), flags)
    }

    pub(crate) fn remove(&mut self, index: u32) -> io::Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        self.ask(RouteNetlinkMessage::DelLink(link), 0)
    }

    fn ask(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        converse(&self.0, message, NLM_F_ACK | flags).map(drop)
    }
}

fn socket(protocol: Option<Protocol>) -> io::Result<OwnedFd> {
    let (family, flags) = (rustix::net::AddressFamily::NETLINK, SocketFlags::CLOEXEC);
    let socket = rustix::net::socket_with(family, SocketType::RAW, flags, protocol)?;
    set_timeout(&socket, TIMEOUT)?;
    Ok(socket)
}

fn converse<M: NetlinkSerializable + NetlinkDeserializable>(
    socket: &OwnedFd,
    message: M,
    flags: u16,
) -> io::Result<Vec<M>> {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | flags;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(socket, &bytes, SendFlags::empty(), &kernel)?;
    let mut messages = Vec::new();
    let mut buffer = vec![0; MOST_BYTES];
    for _ in 0..MOST_DATAGRAMS {
        let length = rustix::io::read(socket, &mut buffer[..])?;
        if take(&buffer[..length], &mut messages)? {
            return Ok(messages);
        }
    }
    Err(io::Error::other("the kernel's response has no end"))
}

/// Adds the messages of one datagram, each at a multiple of four bytes. Returns true if it is the last
/// one.
fn take<M: NetlinkDeserializable>(mut bytes: &[u8], messages: &mut Vec<M>) -> io::Result<bool> {
    while !bytes.is_empty() {
        let message = NetlinkMessage::<M>::deserialize(bytes)
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string()))?;
        match message.payload {
            NetlinkPayload::Done(_) => return Ok(true),
            NetlinkPayload::Error(end) => match end.code {
                None => return Ok(true),
                Some(code) => return Err(io::Error::from_raw_os_error(code.get().abs())),
            },
            NetlinkPayload::InnerMessage(inner) => messages.push(inner),
            _ => {}
        }
        let length = (message.header.length as usize).next_multiple_of(4);
        bytes = bytes.get(length.max(4)..).unwrap_or_default();
    }
    Ok(false)
}

fn link(message: &LinkMessage) -> Link {
    let mut link = Link {
        index: message.header.index,
        is_set_up: message.header.flags.contains(LinkFlags::Up),
        ..Link::default()
    };
    let mut of_ipv4 = None;
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::Mtu(bytes) => link.mtu_bytes = Some(*bytes),
            LinkAttribute::GsoMaxSize(bytes) => link.segment_bytes = Some(*bytes),
            LinkAttribute::GsoIpv4MaxSize(bytes) => of_ipv4 = Some(*bytes),
            LinkAttribute::TsoMaxSize(bytes) => link.segment_bytes_most = Some(*bytes),
            LinkAttribute::GsoMaxSegs(segments) => link.segments = Some(*segments),
            LinkAttribute::OperState(state) => link.is_up = *state == State::Up,
            LinkAttribute::LinkInfo(info) => {
                link.is_veth = info.contains(&LinkInfo::Kind(InfoKind::Veth));
            }
            LinkAttribute::Xdp(all) => {
                let is_on =
                    |x: &LinkXdp| matches!(x, LinkXdp::Attached(at) if *at != XdpAttached::None);
                link.has_xdp = all.iter().any(is_on);
            }
            _ => {}
        }
    }
    // A bound of IPv4's own exists since Linux 6.3.
    link.segment_bytes = of_ipv4.or(link.segment_bytes);
    link
}
