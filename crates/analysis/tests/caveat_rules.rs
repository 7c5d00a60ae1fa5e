//! Each rule fires on what it is about, says so with its evidence, and is silent on the opposite.

use crate::rules;
use crate::world;

use bytecost_spec::host::Cpu;
use bytecost_spec::survey::{ReceiverFacts, Release, Route};
use bytecost_spec::{Cell, Counter, PacketSocket, Sample};
use rules::{MOVERS, fires, found, put, quiet, run, silent};
use world::{True, World, facts};

fn is_zero_copy(cell: &Cell) -> bool {
    cell.mover == "send-zerocopy"
}

#[test]
fn a_packet_socket_is_named_with_its_holder() {
    let mut world = quiet();
    silent(&world, "packet-socket");
    world.change(is_zero_copy, |s| {
        s.packet_sockets = vec![PacketSocket {
            device: Some("lo".to_owned()),
            holder: Some("tcpdump (pid 812)".to_owned()),
        }];
    });
    let told = "/proc/net/packet, 24 trials: tcpdump (pid 812) on lo";
    fires(&world, "packet-socket", 2, told);
}

#[test]
fn where_zero_copy_was_copied_and_by_whom_is_told_of_each_transport() {
    for (transport, place, why) in [
        ("loopback", "on loopback", "is copied on delivery"),
        ("veth", "over veth", "is copied on delivery"),
        ("wire", "over wire", "or the flag is wrong"),
        ("wire-udp", "over wire-udp", "or the flag is wrong"),
    ] {
        let axes = format!("transport = [\"{transport}\"]\n{MOVERS}");
        let copied = |share: f64| {
            run(&axes, move |c| True {
                copied: is_zero_copy(c).then_some(share),
                ..True::costs(0.2)
            })
        };
        let caveat = fires(&copied(1.0), "zero-copy-copied", 2, "100 %");
        for part in [place, why] {
            assert!(caveat.text.contains(part), "{part}: {caveat:#?}");
        }
        silent(&copied(0.0), "zero-copy-copied");
    }
}

#[test]
fn who_made_the_kernel_copy_over_wire_is_told() {
    let axes = format!("transport = [\"wire\"]\n{MOVERS}");
    let mut world = run(&axes, |c| True {
        copied: is_zero_copy(c).then_some(1.0),
        ..True::costs(0.2)
    });
    let caveat = fires(&world, "zero-copy-copied", 2, "flagged as copied: 100 %");
    assert!(caveat.text.contains("or the flag is wrong"), "{caveat:#?}");
    world.change(is_zero_copy, |s| {
        s.packet_sockets = vec![PacketSocket {
            device: None,
            holder: None,
        }];
    });
    let by_whom = "/proc/net/packet: a process unseen on all devices";
    let caveat = fires(&world, "zero-copy-copied", 2, by_whom);
    assert!(caveat.text.contains("A packet socket took"), "{caveat:#?}");
}

#[test]
fn registered_huge_pages_are_told_where_they_fill_the_account() {
    let mut world = quiet();
    let mut registered = facts("send-zerocopy", Release::AtCompletion, true);
    registered.locks_rings = 1;
    world.manifest.survey.mover_facts[2] = registered;
    let fill = |world: &mut World, huge: u64, limited: u64| {
        world.change(is_zero_copy, |s| {
            put(&mut s.sender.readings, Counter::HugeMemoryBytes, huge);
            put(&mut s.sender.readings, Counter::TcpBusyUs, 100_000);
            put(&mut s.sender.readings, Counter::TcpSndbufLimitedUs, limited);
        });
    };
    fill(&mut world, 4 << 20, 90_000);
    let told = "4 MiB of the sender's memory in huge pages; limited by the send buffer for 90 %";
    fires(&world, "registered-huge-pages", 2, told);
    silent(&world, "send-buffer");
    fill(&mut world, 0, 90_000);
    silent(&world, "registered-huge-pages");
    assert_eq!(found(&world, "send-buffer").len(), 1);
    fill(&mut world, 4 << 20, 10_000);
    silent(&world, "registered-huge-pages");
}

#[test]
fn no_room_for_zero_copy_is_remedied_otherwise_in_a_network_of_its_own() {
    let axes = format!("transport = [\"wire-udp\"]\n{MOVERS}");
    let mut world = run(&axes, |_| True::costs(0.2));
    silent(&world, "zero-copy-no-room");
    world.change(is_zero_copy, |s| {
        put(&mut s.sender.readings, Counter::Enobufs, 3);
    });
    let caveat = fires(&world, "zero-copy-no-room", 2, "ENOBUFS 72 times");
    assert!(
        caveat.remedy.contains("fewer in flight by --ring"),
        "{caveat:#?}"
    );
}

#[test]
fn one_buffer_waits_for_every_completion() {
    let with = |ring: &str| {
        run(&format!("ring = [\"{ring}\"]\n{MOVERS}"), |_| {
            True::costs(0.2)
        })
    };
    let world = with("message");
    // Only the zero-copy sender is told of its buffers.
    let caveat = fires(
        &world,
        "waits-for-every-completion",
        2,
        "the ring holds one message",
    );
    assert!(caveat.cells.iter().all(|id| id.contains("send-zerocopy")));
    silent(&with("4MiB"), "waits-for-every-completion");
}

#[test]
fn a_receiver_that_is_busy_throughout_is_told() {
    let with = |receiver_ns_per_byte: f64| {
        run(MOVERS, move |_| True {
            receiver_ns_per_byte,
            gbit_per_s: 20.0,
            ..True::costs(0.1)
        })
    };
    // 2.5 GB/s at 0.4 ns for each byte.
    fires(&with(0.4), "receiver-bound", 6, "receiver 100");
    silent(&with(0.2), "receiver-bound");
}

fn cpus(world: &mut World, cpus: usize) {
    world.manifest.host.cpus = vec![Cpu::default(); cpus];
}

#[test]
fn threads_that_are_ready_and_get_no_cpu_are_told() {
    let waits = |world: &mut World, ns: u64| {
        world.change(
            |_| true,
            |s: &mut Sample| put(&mut s.sender.readings, Counter::RunQueueNs, ns),
        );
    };
    let mut world = quiet();
    cpus(&mut world, 2);
    waits(&mut world, 20_000_000);
    fires(&world, "off-cpu", 6, "waited for a CPU for 20 %");
    waits(&mut world, 1_000_000);
    silent(&world, "off-cpu");
    // Where both ends are on one CPU, or there is no other, they wait for each other.
    let mut shared = run(&format!("placement = [\"0:0\"]\n{MOVERS}"), |_| {
        True::costs(0.2)
    });
    cpus(&mut shared, 2);
    waits(&mut shared, 20_000_000);
    silent(&shared, "off-cpu");
    cpus(&mut world, 1);
    waits(&mut world, 20_000_000);
    silent(&world, "off-cpu");
}

#[test]
fn work_whose_cpu_time_is_far_below_its_wall_time_is_told() {
    let with = |cpu_ns: u64| {
        let mut world = quiet();
        cpus(&mut world, 2);
        let movers = &mut world.manifest.survey.mover_facts;
        let work = movers.last_mut().expect("sendfile");
        work.route = Route::Work;
        world.change(
            |c| c.mover == "sendfile",
            |s| put(&mut s.sender.readings, Counter::CpuNs, cpu_ns),
        );
        world
    };
    fires(&with(55_000_000), "off-cpu", 2, "for 45 % of the window");
    silent(&with(99_000_000), "off-cpu");
    // What sleeps until its beat waits for nothing, unless it is ready and waits.
    let mut wakes = with(1_000_000);
    wakes.change(
        |c| c.mover == "sendfile",
        |s| put(&mut s.sender.readings, Counter::BeatsMissed, 0),
    );
    silent(&wakes, "off-cpu");
    wakes.change(
        |c| c.mover == "sendfile",
        |s| put(&mut s.sender.readings, Counter::RunQueueNs, 30_000_000),
    );
    fires(&wakes, "off-cpu", 2, "for 30 % of the window");
}

#[test]
fn a_frequency_that_changes_and_heat_are_told() {
    let mut world = quiet();
    let khz = |world: &mut World, of: fn(u32) -> u64| {
        world.change(
            |_| true,
            |s| {
                let khz = of(s.trial.block);
                put(&mut s.machine, Counter::FrequencyKhz, khz);
                put(&mut s.machine, Counter::ThermalThrottles, 0);
            },
        );
    };
    khz(&mut world, |block| 3_000_000 + 1_000 * u64::from(block));
    silent(&world, "frequency");
    silent(&world, "throttled");
    khz(
        &mut world,
        |block| if block < 6 { 3_600_000 } else { 2_400_000 },
    );
    fires(
        &world,
        "frequency",
        6,
        "2.40 GHz (10 % quantile) to 3.60 GHz (90 %)",
    );
    world.change(is_zero_copy, |s| {
        put(&mut s.machine, Counter::ThermalThrottles, 2)
    });
    fires(&world, "throttled", 2, "slowed down 48 times in 24 trials");
}

#[test]
fn windows_with_next_to_nothing_in_them_are_told() {
    let rate = |gbit_per_s: f64| {
        run(MOVERS, move |_| True {
            gbit_per_s,
            ..True::costs(0.2)
        })
    };
    // 6 messages of 64 KiB, 96 of 4 KiB, in 100 ms.
    fires(
        &rate(0.0315),
        "short-window",
        3,
        "6 messages of a flow within 100 ms",
    );
    silent(&rate(1.0), "short-window");
    let mut world = quiet();
    world.change(is_zero_copy, |s| {
        put(&mut s.sender.readings, Counter::ElapsedNs, 5_000_000);
    });
    fires(&world, "short-window", 2, "within 5 ms");
}

#[test]
fn a_receiver_that_touches_nothing_is_told() {
    let blind = |sees_content: bool| {
        let mut world = quiet();
        world.manifest.survey.receiver_facts = vec![ReceiverFacts {
            name: "recv".to_owned(),
            summary: String::new(),
            sees_content,
        }];
        world
    };
    let caveat = fires(
        &blind(false),
        "untouched",
        6,
        "6 cells; its bytes are counted",
    );
    assert!(
        caveat.text.starts_with("`recv` never touches"),
        "{caveat:#?}"
    );
    silent(&blind(true), "untouched");
}

#[test]
fn segments_of_different_sizes_are_told_where_a_comparison_is_decided() {
    let world = |cost: f64, small: u64| {
        let mut world = run(MOVERS, move |c| match c.mover.as_str() {
            "sendfile" => True::costs(cost),
            _ => True::costs(0.2),
        });
        world.change(
            |_| true,
            |s| {
                let bytes = s.sender.readings[&Counter::Bytes].measured().unwrap_or(0);
                let of = if s.cell.contains("/sendfile/") {
                    small
                } else {
                    64_000
                };
                put(&mut s.sender.readings, Counter::TcpDataSegments, bytes / of);
            },
        );
        world
    };
    let told = " B, `sendfile` 16,000 B";
    fires(&world(0.1, 16_000), "segments-differ", 4, told);
    silent(&world(0.1, 60_000), "segments-differ");
    // What does not differ needs no excuse.
    silent(&world(0.2, 16_000), "segments-differ");
}

#[test]
fn segments_that_were_sent_again_are_told() {
    let mut world = quiet();
    let again = |world: &mut World, n: u64| {
        world.change(is_zero_copy, |s| {
            put(&mut s.sender.readings, Counter::TcpRetransmits, n);
            put(&mut s.sender.readings, Counter::TcpDataSegments, 10_000);
        });
    };
    again(&mut world, 1);
    silent(&world, "retransmits");
    again(&mut world, 100);
    let told = "TCP_INFO: 2400 retransmitted, 1 % of a cell's segments";
    fires(&world, "retransmits", 2, told);
}

#[test]
fn a_receive_window_is_told_unless_the_receiver_is_busy() {
    let held = |receiver_ns_per_byte: f64, limited: u64| {
        let mut world = run(MOVERS, move |_| True {
            receiver_ns_per_byte,
            gbit_per_s: 20.0,
            ..True::costs(0.1)
        });
        world.change(
            |_| true,
            |s| {
                put(&mut s.sender.readings, Counter::TcpBusyUs, 100_000);
                put(&mut s.sender.readings, Counter::TcpRwndLimitedUs, limited);
            },
        );
        world
    };
    let told = "limited by the receive window for 80 % of the busy time";
    fires(&held(0.1, 80_000), "receive-window", 6, told);
    silent(&held(0.1, 20_000), "receive-window");
    silent(&held(0.4, 80_000), "receive-window");
}
