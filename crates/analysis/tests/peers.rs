//! Runs on two hosts: effects of the network are caveats, and nothing else is.

use bytecost_spec::Survey;
use bytecost_spec::host::Cpu;
use bytecost_spec::peer::CardInterrupt;
use bytecost_spec::{
    Counter, Held, Host, Measure, Metric, NetworkCard, PeerHost, PeerSide, Reading,
};

use crate::caveat_table::Withholds::Times;
use crate::caveat_table::both;
use crate::world::{At, Found, MOVERS, True, World, all, at, fires, put, run, silent};

/// A card of hardware as it should be: 100 Gbit/s, of which the movers use a part.
fn card(name: &str) -> NetworkCard {
    let offloads = ["tso", "gso", "gro"].map(|offload| (offload.to_owned(), true));
    NetworkCard {
        name: name.to_owned(),
        driver: Some("mlx5_core".to_owned()),
        speed_mbit_per_s: Some(100_000),
        mtu: 1500,
        rx_queues: 8,
        tx_queues: 8,
        offloads: offloads.into(),
        coalesce_rx_us: Some(1),
        interrupts: vec![CardInterrupt {
            number: 40,
            cpus: vec![1],
            node: Some(0),
        }],
        ..NetworkCard::default()
    }
}

/// A run between two hosts, planted with what is wrong with it.
fn between(axes: &str, plant: impl Fn(&mut World)) -> World {
    let axes = format!("transport = [\"peer\"]\n{axes}");
    let mut world = run(&axes, |_| True::costs(0.2));
    let cpu = |cpu, node| Cpu {
        cpu,
        node: Some(node),
        ..Cpu::default()
    };
    world.manifest.own_cards = vec![card("eth0")];
    world.manifest.peer = Some(Box::new(PeerHost {
        name: "db7".to_owned(),
        program: "ssh".to_owned(),
        command_digest: String::new(),
        address: "10.0.0.7".to_owned(),
        side: PeerSide::Receiver,
        build: String::new(),
        host: Host {
            cpus: vec![cpu(0, 0), cpu(1, 0), cpu(2, 1)],
            ..Host::default()
        },
        survey: Survey::default(),
        cards: vec![card("eth1")],
        round_trip_us: 200,
        path_mtu: Some(1500),
    }));
    plant(&mut world);
    world
}

fn there(world: &mut World) -> &mut PeerHost {
    world.manifest.peer.as_mut().expect("a peer")
}

fn quiet() -> World {
    between(MOVERS, |_| ())
}

#[test]
fn a_link_that_is_full_sets_the_rates_if_hardware_carries_it() {
    // 32 Gbit/s of payload are more than 95 % of what 34 Gbit/s carry in packets of 1500 bytes.
    let slow = |is_virtual| {
        between(MOVERS, move |w| {
            let card = &mut there(w).cards[0];
            (card.speed_mbit_per_s, card.is_virtual) = (Some(34_000), is_virtual);
        })
    };
    fires(&slow(false), "link-limited", 6, "of the 32.");
    both("link-limited", &slow(true), &slow(false), Times, "");
    silent(&quiet(), "link-limited");
}

/// The quiet run with so many of each cell's 10,000 segments on another counter.
fn segments(counter: Counter, count: u64) -> World {
    let mut world = quiet();
    let read = [(Counter::TcpDataSegments, 10_000), (counter, count)];
    world.put(all, At::Sender, read);
    world
}

#[test]
fn a_way_that_loses_packets_sets_the_rates() {
    let lost = |count| segments(Counter::TcpRetransmits, count);
    fires(&lost(200), "path-losses", 6, "2 %");
    both("path-losses", &lost(50), &lost(200), Times, "");
    fires(&lost(50), "retransmits", 6, "0.5 %");
}

#[test]
fn a_way_that_marks_packets_sets_the_rates() {
    let marked = |count| segments(Counter::TcpMarkedSegments, count);
    fires(&marked(300), "path-marks", 6, "3 % of a cell's segments");
    both("path-marks", &marked(50), &marked(300), Times, "");
    silent(&marked(300), "path-losses");
    silent(&quiet(), "path-marks");
}

#[test]
fn a_way_that_changes_within_the_run_is_reported() {
    let takes = |of_sendfile: u64| {
        let mut world = quiet();
        let mtu = |bytes| [(Counter::TcpPathMtuBytes, bytes)];
        world.put(all, At::Sender, mtu(1500));
        world.put(at("sendfile", 4096), At::Sender, mtu(of_sendfile));
        world
    };
    fires(&takes(1420), "path-mtu-changed", 6, "1420 bytes in ");
    silent(&takes(1500), "path-mtu-changed");
    silent(&quiet(), "path-mtu-changed");
}

#[test]
fn what_the_way_is_made_of_is_reported() {
    let made = between(MOVERS, |w| {
        let card = &mut there(w).cards[0];
        (card.driver, card.is_virtual) = (Some("veth".to_owned()), true);
    });
    fires(&made, "virtual-way", 6, "eth1 of db7 (veth)");
    silent(&quiet(), "virtual-way");

    let tunnel = between(MOVERS, |w| there(w).path_mtu = Some(1420));
    let evidence = "IP_MTU 1420; MTU 1500 at eth0 of this machine";
    fires(&tunnel, "path-mtu", 6, evidence);
    silent(&quiet(), "path-mtu");
    let unknown = between(MOVERS, |w| there(w).path_mtu = None);
    silent(&unknown, "path-mtu");

    let other = between(MOVERS, |w| {
        there(w).cards[0].offloads.insert("gro".to_owned(), false);
        // An offload that one does not report is no difference.
        let own = &mut w.manifest.own_cards[0];
        own.offloads.insert("lro".to_owned(), true);
    });
    let caveat = fires(&other, "offloads-differ", 6, "gro here alone");
    assert!(!caveat.evidence.contains("lro"), "{caveat:?}");
    silent(&quiet(), "offloads-differ");
}

#[test]
fn interrupts_that_land_on_an_endpoint_or_on_another_node_are_reported() {
    let held = |cpu: u32| {
        let mut world = quiet();
        world.change(at("sendfile", 4096), |s| {
            s.receiver.as_mut().expect("a receiver").held = vec![Held {
                cpus: vec![cpu],
                ..Held::default()
            }];
        });
        world
    };
    fires(&held(1), "interrupts-land", 1, "endpoints in 1 cell");
    silent(&held(0), "interrupts-land");
    // The sender's CPU 1 is of this machine, and its card interrupts it as well.
    let mut own = held(0);
    own.change(at("sendfile", 4096), |s| {
        s.sender.held = s.receiver.as_ref().expect("a receiver").held.clone();
        s.sender.held[0].cpus = vec![1];
    });
    own.manifest.own_cards[0].interrupts[0].cpus = vec![7];
    silent(&own, "interrupts-land");
    let far = between(MOVERS, |w| there(w).cards[0].interrupts[0].cpus = vec![2]);
    fires(&far, "interrupts-land", 6, "eth1 of db7 on another node");
}

#[test]
fn a_card_that_waits_is_reported_of_round_trips_alone() {
    let asks = format!("pattern = [\"request-response\"]\n{MOVERS}");
    let waits =
        |axes: &str, us| between(axes, move |w| there(w).cards[0].coalesce_rx_us = Some(us));
    let evidence = "eth1 of db7: rx-usecs 50";
    fires(&waits(&asks, 50), "coalescing", 6, evidence);
    silent(&waits(&asks, 1), "coalescing");
    silent(&waits(MOVERS, 50), "coalescing");
}

#[test]
fn more_flows_than_queues_are_reported() {
    let queues = |n| {
        between(MOVERS, move |w| {
            there(w).cards[0].rx_queues = n;
            for cell in &mut w.cells {
                cell.threads = 2;
            }
            w.by_cell(|cell, sample| sample.cell = cell.id());
        })
    };
    fires(&queues(1), "shared-queues", 6, "1 queue on eth1 of db7");
    silent(&queues(2), "shared-queues");
    // A card that reports no queues has no known number of them.
    silent(&queues(0), "shared-queues");
}

#[test]
fn others_on_the_other_host_are_reported() {
    let busy = |cpus: f64| {
        let mut world = quiet();
        let others = (Counter::OtherProcessesNs, (cpus * 1e8) as u64);
        let read = [(Counter::MachineElapsedNs, 100_000_000), others];
        world.put(all, At::Peer, read);
        world
    };
    fires(&busy(1.5), "peer-busy", 6, "1.50 CPUs in use");
    silent(&busy(0.01), "peer-busy");
}

#[test]
fn two_hosts_do_not_share_cpus() {
    let mut world = quiet();
    world.manifest.host.cpus_allowed = vec![0];
    silent(&world, "one-cpu");
    silent(&world, "threads");
}

/// The books are those of both machines together: what either has left over is left over.
#[test]
fn books_have_the_lines_of_both_machines() {
    let books = |hidden: u64| {
        let mut world = quiet();
        world.each(|s| {
            let of = |n: Option<&Reading>| n.and_then(Reading::measured).unwrap_or(0);
            let receiver = s.receiver.as_ref().expect("a receiver");
            let sent = of(s.sender.readings.get(&Counter::CpuNs));
            let received = of(receiver.readings.get(&Counter::CpuNs));
            for (machine, own) in [
                (&mut s.machine, sent),
                (&mut s.peer_machine, received + hidden),
            ] {
                put(machine, Counter::MachineElapsedNs, 100_000_000);
                put(machine, Counter::MachineCpus, 2);
                put(machine, Counter::MachineIdleNs, 200_000_000 - own);
                put(machine, Counter::OtherProcessesNs, 0);
            }
        });
        world.analyse().books
    };
    let closed = books(0);
    assert_eq!(closed.len(), 6);
    let is_closed = closed.iter().all(|b| b.left_over.abs() < 1e-6);
    assert!(is_closed, "{closed:#?}");
    assert!(books(30_000_000).iter().all(|b| b.left_over > 0.1));
}

/// A card's interrupts land where no thread of the receiving side runs: on its host they are a part
/// of the cost like interrupts of this one.
#[test]
fn interrupts_on_idle_cpus_of_the_other_host_are_a_part_of_the_cost() {
    let cost = |interrupts: u64| {
        let mut world = between(MOVERS, |_| {});
        world.by_cell(|cell, s| {
            let of = |n: Option<&Reading>| n.and_then(Reading::measured).unwrap_or(0);
            let receiver = s.receiver.as_ref().expect("a receiver");
            let sent = of(s.sender.readings.get(&Counter::CpuNs));
            let received = of(receiver.readings.get(&Counter::CpuNs));
            let there = if cell.mover == "sendfile" {
                interrupts
            } else {
                0
            };
            for (machine, own, uncounted) in [
                (&mut s.machine, sent, 0),
                (&mut s.peer_machine, received, there),
            ] {
                put(machine, Counter::MachineElapsedNs, 100_000_000);
                put(machine, Counter::MachineCpus, 2);
                put(machine, Counter::MachineTasksNs, own);
                put(
                    machine,
                    Counter::MachineIdleNs,
                    200_000_000 - own - uncounted,
                );
                put(machine, Counter::OtherProcessesNs, 0);
            }
        });
        let id = world.id("sendfile", 64 << 10);
        let metric = Metric::both(Measure::CpuSPerGb);
        world.analyse().of_cell(metric, &id).ratio
    };
    // The sides use 120 ms in a window.
    let ratio = cost(60_000_000) / cost(0);
    assert!((ratio - 1.5).abs() < 0.05, "{ratio}");
}
