//! Obstacles to a trial's packets, on their devices and in their networks. They are read in each trial,
//! since anybody may change them, and after the window, where that costs nothing.

use std::io;

use bytecost_host::{Roots, filters, process_state, socket_memory};
use bytecost_spec::CircumstanceKind;
use bytecost_spec::Transport;
use bytecost_spec::host::Obstacle;
use bytecost_spec::units::{bytes_in_words, count};
use bytecost_sys::network::{Network, Offload};
use bytecost_sys::proc_view;
use rustix::net::netlink::NETFILTER;

use crate::netlink::dump::{attribute, is_absent, list};
use crate::netlink::{Link, Netlink};
use crate::protocol::ObservedTrial;
use crate::role::Role;
use crate::transports::veth::NAMES;

mod qdiscs;
mod tc_filters;

use qdiscs::Queueing;

/// The MTU of a loopback device as the kernel makes it, `drivers/net/loopback.c`.
const LOOPBACK_MTU_BYTES: u32 = 64 << 10;
/// The largest packet that a device is handed, unless it is bounded.
const PACKET_BYTES: u32 = 64 << 10;
const PACKET_SEGMENTS: u32 = 65_535;

/// NFNL_SUBSYS_NFTABLES and NFT_MSG_GETCHAIN, `include/uapi/linux/netfilter`.
const GET_CHAINS: u16 = 10 << 8 | 4;
/// Bytes of `struct nfgenmsg`.
const HEAD_BYTES: usize = 4;
/// NFPROTO_INET and NFPROTO_IPV4.
const FAMILIES: [u8; 2] = [1, 2];
const CHAIN_HOOK: u16 = 4;
const CHAIN_USE: u16 = 6;
const HOOK_NUMBER: u16 = 1;
/// The hook of packets that are sent on, which a trial's are not.
const FORWARD: u32 = 2;

/// Obstacles at one place, with the reasons for those that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundObstacles {
    /// The obstacles.
    pub obstacles: Vec<Obstacle>,
    /// The reasons why others are not known.
    pub unseen: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Device {
    Loopback,
    Veth,
    /// The device of [`Transport::Wire`], on which bytecost itself has a discipline.
    Wire,
    /// A network card.
    Card,
}

/// Obstacles on loopback, in the network of the calling thread.
pub fn of_loopback(roots: &Roots) -> FoundObstacles {
    of_device(roots, Device::Loopback, "lo")
}

/// The devices of a trial's packets on this host, in their networks. These are held, since the processes
/// that they belong to may end before the devices are read.
pub(crate) struct PathDevices(Vec<PathDevice>);

struct PathDevice {
    device: Device,
    name: &'static str,
    /// None is the network of this process.
    network: Option<Network>,
}

impl PathDevices {
    /// Those of the network between the sides of a trial; none where it has one side, or its path is by
    /// network cards.
    pub(crate) fn open(trial: &ObservedTrial) -> PathDevices {
        let of_side = |role, device, name| {
            let process = proc_view::directory(trial.processes.pid(role)?)?;
            let network = Some(Network::from_process(&process).ok()?);
            Some(PathDevice {
                device,
                name,
                network,
            })
        };
        let devices = match trial.cell.transport {
            _ if trial.processes.sides.len() < 2 => Vec::new(),
            Transport::Loopback => vec![Some(PathDevice {
                device: Device::Loopback,
                name: "lo",
                network: None,
            })],
            Transport::Veth => vec![
                of_side(Role::Sender, Device::Veth, NAMES[0]),
                of_side(Role::Receiver, Device::Veth, NAMES[1]),
            ],
            Transport::Wire => vec![of_side(Role::Sender, Device::Wire, NAMES[0])],
            Transport::Unix | Transport::Peer => Vec::new(),
        };
        PathDevices(devices.into_iter().flatten().collect())
    }

    /// Circumstances of a trial: of its packets on these devices and on network cards, and of its
    /// processes, of which `program` has started the others.
    pub(crate) fn obstacles(&self, trial: &ObservedTrial, program: u32) -> Vec<Obstacle> {
        let roots = Roots::real();
        let mut found: Vec<Obstacle> = (self.0.iter())
            .filter_map(|path| path.obstacles(&roots).ok())
            .flatten()
            .collect();
        found.sort();
        found.dedup();
        found.extend(trial.cards.iter().flat_map(|name| of_card(&roots, name)));
        let sides = trial.processes.sides.iter().map(|side| side.pid);
        let mut traced = sides.chain([program, std::process::id()]);
        found.extend(traced.find_map(|pid| process_state::tracer(&roots, &pid.to_string())));
        found
    }
}

impl PathDevice {
    fn obstacles(&self, roots: &Roots) -> io::Result<Vec<Obstacle>> {
        let read = || of_device(roots, self.device, self.name).obstacles;
        self.network
            .as_ref()
            .map_or_else(|| Ok(read()), |network| network.within(read))
    }
}

/// Circumstances of the packets of a network card. A discipline without a bound is usual there, and so
/// are rules and bounds of the network of this host.
fn of_card(roots: &Roots, name: &str) -> Vec<Obstacle> {
    let found = of_device(roots, Device::Card, name).obstacles;
    let is_of_card = |o: &Obstacle| o.limits || o.kind == CircumstanceKind::Xdp;
    found.into_iter().filter(is_of_card).collect()
}

/// Returns true if the loopback device of this network is known to be down.
pub fn is_loopback_down() -> bool {
    let link = Netlink::open().and_then(|mut n| n.existing_link("lo"));
    link.is_ok_and(|link| !link.is_set_up)
}

/// Obstacles on a device of the calling thread's network, and in the network.
fn of_device(roots: &Roots, device: Device, name: &str) -> FoundObstacles {
    let mut found = FoundObstacles::default();
    let mut add = |what: &str, seen: io::Result<Vec<Obstacle>>| match seen {
        Ok(obstacles) => found.obstacles.extend(obstacles),
        Err(e) => found.unseen.push(format!("{what}: {e}")),
    };
    let link = Netlink::open().and_then(|mut n| n.existing_link(name));
    let index = link.as_ref().map(|l| l.index);
    let qdiscs = index.map_or(Ok(Vec::new()), qdiscs::read);
    // Filters hang on disciplines.
    let filtered = index
        .ok()
        .filter(|_| qdiscs.as_ref().is_ok_and(|all| !all.is_empty()));
    let tc_filters = filtered.map_or(Ok(Vec::new()), tc_filters::read);
    // On a wire bytecost itself has a discipline and a filter, which hold back nothing.
    let as_obstacles = |kind, all: Vec<Queueing>| {
        let counts = |q: &Queueing| q.limits || device != Device::Wire;
        all.into_iter()
            .filter(counts)
            .map(|q| Obstacle {
                limits: q.limits,
                ..obstacle(kind, name, q.found)
            })
            .collect()
    };
    let queueing = tc_filters.map(|all| as_obstacles(CircumstanceKind::TcFilter, all));
    add(&format!("filters of tc on {name}"), queueing);
    let disciplines = qdiscs.map(|all| as_obstacles(CircumstanceKind::Qdisc, all));
    add(&format!("queueing disciplines of {name}"), disciplines);
    let links = link.map(|link| of_link(device, name, &link));
    add(&format!("the device {name}"), links);
    if device != Device::Wire {
        let read = Offload::ALL.map(|o| Some((o, o.is_on(name).ok()?)));
        let off = read.into_iter().flatten().filter(|(_, is_on)| !is_on);
        let names: Vec<&str> = off.map(|(o, _)| o.name).collect();
        if !names.is_empty() {
            let text = format!("offloads off: {}", names.join(", "));
            let offloads = obstacle(CircumstanceKind::Offload, name, text);
            found.obstacles.push(offloads);
        }
    }
    let chains = list(Some(NETFILTER), GET_CHAINS, &[0; HEAD_BYTES]);
    match chains {
        Ok(chains) => found.obstacles.extend(of_chains(&chains)),
        // A kernel without nftables has no such subsystem.
        Err(e) if is_absent(&e) => {}
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => found.unseen.push(format!(
            "rules of nftables ({e}): call it as root (`sudo bytecost …`)"
        )),
        Err(e) => found.unseen.push(format!("rules of nftables: {e}")),
    }
    let (filters, unseen) = filters::read(roots);
    found.obstacles.extend(filters);
    found.obstacles.extend(socket_memory::read(roots));
    found.unseen.extend(unseen);
    found
}

fn obstacle(kind: CircumstanceKind, place: &str, found: String) -> Obstacle {
    Obstacle {
        kind,
        place: place.to_owned(),
        found,
        limits: false,
    }
}

fn of_link(device: Device, name: &str, link: &Link) -> Vec<Obstacle> {
    let mut all = Vec::new();
    let mut add = |kind, found| all.push(obstacle(kind, name, found));
    // The settings of a link that is made for a cell are no obstacle.
    if device == Device::Loopback {
        if !link.is_set_up {
            add(CircumstanceKind::LoopbackDown, "down".to_owned());
        }
        if let Some(mtu) = link.mtu_bytes.filter(|m| *m != LOOPBACK_MTU_BYTES) {
            let found = format!("MTU {mtu}, usually {LOOPBACK_MTU_BYTES}");
            add(CircumstanceKind::Mtu, found);
        }
        if let Some(bytes) = link.segment_bytes.filter(|b| *b < PACKET_BYTES) {
            let most = bytes_in_words(u64::from(bytes));
            let found = format!("packets of {most} at most (gso_max_size)");
            add(CircumstanceKind::Offload, found);
        }
        if let Some(n) = link.segments.filter(|n| *n < PACKET_SEGMENTS) {
            let found = format!("packets of {n} segments at most (gso_max_segs)");
            add(CircumstanceKind::Offload, found);
        }
    }
    if link.has_xdp {
        add(CircumstanceKind::Xdp, "an XDP program".to_owned());
    }
    all
}

/// The chains of nftables that packets of IPv4 to a socket here go through.
fn of_chains(chains: &[Vec<u8>]) -> Option<Obstacle> {
    let network_order = |bytes: &[u8]| Some(u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?));
    let rules_of = |chain: &Vec<u8>| {
        let of_family = FAMILIES.contains(chain.first()?);
        let body = chain.get(HEAD_BYTES..)?;
        // A chain that only other chains jump to has no hook.
        let hook = network_order(attribute(attribute(body, CHAIN_HOOK)?, HOOK_NUMBER)?)?;
        let uses = attribute(body, CHAIN_USE).and_then(network_order);
        (of_family && hook != FORWARD).then_some(uses.unwrap_or(0) as usize)
    };
    let rules: Vec<usize> = chains.iter().filter_map(rules_of).collect();
    let hooked = count(rules.len(), "chain");
    let all = count(rules.iter().sum(), "rule");
    let found = format!("nftables with {hooked} at the hooks of IPv4 ({all} in them)");
    (!rules.is_empty()).then(|| obstacle(CircumstanceKind::Filter, "netfilter", found))
}

#[cfg(test)]
mod tests;
