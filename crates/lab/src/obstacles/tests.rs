use std::process::Command;

use bytecost_sys::network::Network;

use super::*;
use crate::lack::{Lack, skipped};
use crate::netlink::dump::written;
use crate::transports::link::LinkChoice;
use crate::transports::veth::VethPair;
use crate::transports::wire::Wire;
use crate::trial_processes::SideProcess;

fn tc(words: &str) -> bool {
    let status = Command::new("tc").args(words.split(' ')).status();
    status.is_ok_and(|s| s.success())
}

/// The obstacles of loopback in a new network after a change; none, with the reason printed, if it fails.
fn after(change: impl FnOnce() -> bool + Send) -> Option<Vec<Obstacle>> {
    let Ok(network) = Network::new() else {
        assert!(!rustix::process::geteuid().is_root());
        skipped(Lack::Right, "it needs root");
        return None;
    };
    let within = network.within(|| {
        let mut netlink = Netlink::open().unwrap();
        let lo = netlink.existing_link("lo").unwrap();
        netlink.set_up(lo.index).unwrap();
        change().then(|| of_loopback(&Roots::real()))
    });
    let Some(found) = within.unwrap() else {
        skipped(Lack::Machine, "the kernel refuses an obstacle");
        return None;
    };
    assert_eq!(found.unseen, [""; 0], "root sees all");
    Some(found.obstacles)
}

#[track_caller]
fn check(change: impl FnOnce() -> bool + Send, kind: CircumstanceKind, found: &str, limits: bool) {
    let place = match kind {
        CircumstanceKind::Filter => "netfilter",
        _ => "lo",
    };
    if let Some(all) = after(change) {
        let wanted = obstacle(kind, place, found.to_owned());
        assert_eq!(all, [Obstacle { limits, ..wanted }]);
    }
}

fn netlink(change: impl FnOnce(&mut Netlink, u32)) -> bool {
    let mut netlink = Netlink::open().unwrap();
    let lo = netlink.existing_link("lo").unwrap().index;
    change(&mut netlink, lo);
    true
}

#[test]
fn nothing_is_in_the_way_of_a_new_network() {
    if let Some(all) = after(|| true) {
        assert_eq!(all, []);
    }
}

#[test]
fn changes_of_loopback_are_reported() {
    use CircumstanceKind::{Mtu, Offload as Off, Qdisc};
    let smaller = || netlink(|n, lo| n.set_mtu(lo, 1500).unwrap());
    check(smaller, Mtu, "MTU 1500, usually 65536", false);
    let bound = || netlink(|n, lo| n.set_segment(lo, 16 << 10, 65_535).unwrap());
    let found = "packets of 16 KiB at most (gso_max_size)";
    check(bound, Off, found, false);
    let off = || Offload::SEGMENTATION.switch("lo", false).is_ok();
    check(off, Off, "offloads off: tso", false);
    let bucket = || tc("qdisc add dev lo root tbf rate 2gbit burst 1mb latency 50ms");
    check(bucket, Qdisc, "tbf, 2.00 Gbit/s", true);
    check(|| tc("qdisc add dev lo root pfifo"), Qdisc, "pfifo", false);
    check(|| tc("qdisc add dev lo root htb"), Qdisc, "htb", false);
    let classes = || {
        tc("qdisc add dev lo root handle 1: htb default 1")
            && tc("class add dev lo parent 1: classid 1:1 htb rate 1gbit ceil 3gbit")
    };
    check(classes, Qdisc, "htb, classes of up to 3.00 Gbit/s", true);
}

#[test]
fn filters_of_tc_are_listed_with_their_actions_and_small_buffers_are_named() {
    use CircumstanceKind::{Qdisc, SocketMemory, TcFilter};
    let at_lo = |kind, found: &str, limits| Obstacle {
        limits,
        ..obstacle(kind, "lo", found.to_owned())
    };
    let filters = || {
        tc("qdisc add dev lo clsact")
            && tc("filter add dev lo egress u32 match ip protocol 6 0xff flowid 1:1")
    };
    if let Some(all) = after(filters) {
        let expected = [
            at_lo(TcFilter, "1 filter of tc at egress: u32", false),
            at_lo(Qdisc, "clsact", false),
        ];
        assert_eq!(all, expected);
    }
    // Where the kernel has the action.
    let police = || {
        tc("qdisc add dev lo clsact")
            && tc(
                "filter add dev lo ingress matchall action police rate 1gbit burst 1mb conform-exceed drop",
            )
    };
    if let Some(all) = after(police) {
        let found = "1 filter of tc at ingress: matchall (police 1.00 Gbit/s)";
        assert!(all.contains(&at_lo(TcFilter, found, true)), "{all:?}");
    }
    let small = || std::fs::write("/proc/sys/net/ipv4/tcp_wmem", "4096 16384 16384").is_ok();
    if let Some(all) = after(small) {
        let found = "tcp_wmem 4096 16384 16384 (usually 4096 16384 4194304)".to_owned();
        assert_eq!(all, [obstacle(SocketMemory, "sysctl", found)]);
    }
}

#[test]
fn a_device_of_ours_is_looked_at_where_it_is_and_what_a_cell_asked_for_is_no_obstacle() {
    let link = LinkChoice {
        mtu_bytes: 9000,
        segment_bytes: Some(18_000),
        ..LinkChoice::default()
    };
    let bucket = || tc("qdisc add dev bytecost0 root tbf rate 300mbit burst 1mb latency 50ms");
    let found = "tbf, 300 Mbit/s".to_owned();
    let wanted = Obstacle {
        limits: true,
        ..obstacle(CircumstanceKind::Qdisc, "bytecost0", found)
    };
    let check = |transport, networks: [&Network; 2]| {
        let mut sides = networks.map(|network| {
            let mut side = Command::new("sleep");
            network.start_in(side.arg("600")).unwrap();
            side.spawn().unwrap()
        });
        let trial = trial(transport, [sides[0].id(), sides[1].id()]);
        let devices = PathDevices::open(&trial);
        // The networks are held, though the sides have ended.
        for side in &mut sides {
            side.kill().unwrap();
            side.wait().unwrap();
        }
        let own = std::process::id();
        assert_eq!(devices.obstacles(&trial, own), []);
        if networks[0].within(bucket).unwrap() {
            assert_eq!(
                devices.obstacles(&trial, own),
                std::slice::from_ref(&wanted)
            );
        }
    };
    if let Ok(pair) = VethPair::new(link) {
        let networks = [Role::Sender, Role::Receiver].map(|role| pair.network(role));
        check(Transport::Veth, networks);
    }
    if let Ok(wire) = Wire::new(LinkChoice::default()) {
        check(Transport::Wire, [&wire.network; 2]);
    }
    let own = std::process::id();
    let mut lone = trial(Transport::Loopback, [own; 2]);
    lone.processes.sides.truncate(1);
    for trial in [lone, trial(Transport::Unix, [own; 2])] {
        assert_eq!(PathDevices::open(&trial).obstacles(&trial, own), []);
    }
}

/// A trial whose sender and receiver are these processes.
fn trial(transport: Transport, [sender, receiver]: [u32; 2]) -> ObservedTrial {
    let mut trial = ObservedTrial::default();
    trial.cell.transport = transport;
    trial.processes.sides = vec![
        SideProcess {
            role: Role::Receiver,
            pid: receiver,
        },
        SideProcess {
            role: Role::Sender,
            pid: sender,
        },
    ];
    trial
}

fn chain(family: u8, hook: Option<u32>, rules: u32) -> Vec<u8> {
    // NLA_F_NESTED.
    let number = |n: u32| written(HOOK_NUMBER, &n.to_be_bytes());
    let chain_hook = hook.map(|n| written(CHAIN_HOOK | 0x8000, &number(n)));
    let chain_use = written(CHAIN_USE, &rules.to_be_bytes());
    [
        vec![family, 0, 0, 0],
        chain_hook.unwrap_or_default(),
        chain_use,
    ]
    .concat()
}

#[test]
fn chains_on_the_way_are_counted_and_others_are_not() {
    let chains = of_chains(&[
        chain(1, Some(1), 2),
        chain(2, Some(3), 3),
        chain(2, Some(FORWARD), 10),
        chain(10, Some(1), 20),
        chain(2, None, 30),
        vec![2],
    ]);
    let found = "nftables with 2 chains at the hooks of IPv4 (5 rules in them)".to_owned();
    let expected = obstacle(CircumstanceKind::Filter, "netfilter", found);
    assert_eq!(chains, Some(expected));
    assert_eq!(of_chains(&[chain(2, Some(FORWARD), 1)]), None);
}

/// Sends a request to nftables: begins a batch, asks, and ends it (NFNL_MSG_BATCH_BEGIN and _END).
fn nft(requests: &[(u16, Vec<u8>)]) -> bool {
    use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, sendto, socket_with};
    let kernel = rustix::net::netlink::SocketAddrNetlink::new(0, 0);
    let (family, socket_kind) = (AddressFamily::NETLINK, SocketType::RAW);
    let socket = socket_with(family, socket_kind, SocketFlags::CLOEXEC, Some(NETFILTER)).unwrap();
    let message = |kind: u16, flags: u16, body: &[u8]| {
        let length = 16 + body.len() as u32;
        let parts = [
            &length.to_ne_bytes()[..],
            &kind.to_ne_bytes(),
            &flags.to_ne_bytes(),
            &[0; 8],
            body,
        ];
        let mut all = parts.concat();
        all.resize(all.len().next_multiple_of(4), 0);
        all
    };
    let edge = [0, 0, 0, 10];
    let mut all = message(0x10, 1, &edge);
    for (kind, body) in requests {
        // NLM_F_REQUEST, NLM_F_ACK and NLM_F_CREATE.
        all.extend(message(10 << 8 | kind, 0x405, body));
    }
    all.extend(message(0x11, 1, &edge));
    sendto(&socket, &all, SendFlags::empty(), &kernel).unwrap();
    let mut answer = [0; 4096];
    requests.iter().all(|_| {
        rustix::io::read(&socket, &mut answer[..]).unwrap();
        answer[16..20] == [0; 4]
    })
}

#[test]
fn rules_of_nftables_are_found_where_they_are() {
    let table = || [vec![2, 0, 0, 0], written(1, b"mine\0")].concat();
    let number = written(HOOK_NUMBER, &1_u32.to_be_bytes());
    let hook = [number, written(2, &[0; 4])].concat();
    let hook = written(CHAIN_HOOK | 0x8000, &hook);
    let (name, kind) = (written(3, b"in\0"), written(7, b"filter\0"));
    let chain = [table(), name, hook, kind].concat();
    // NFT_MSG_NEWTABLE and NFT_MSG_NEWCHAIN.
    let made = || nft(&[(0, table()), (3, chain)]);
    let found = "nftables with 1 chain at the hooks of IPv4 (0 rules in them)";
    check(made, CircumstanceKind::Filter, found, false);
}
