//! Each rule fires on what it is about, says so with its evidence, and is silent on the opposite.

use crate::rules;
use crate::world;

use bytecost_spec::host::Cpu;
use bytecost_spec::manifest::{Difference, Leg};
use bytecost_spec::sample::OtherProcess;
use bytecost_spec::survey::{CpuClock, ReceiverFacts, Release, Route};
use bytecost_spec::{Cell, Counter, Measure, Metric, PacketSocket, Reading, Sample};
use rules::{MOVERS, fires, found, put, quiet, run, silent};
use world::{At, True, World, all, begins, cache, ends, facts, says, scale};

fn is_sendfile(cell: &Cell) -> bool {
    cell.mover == "sendfile"
}

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
        world.put(
            is_zero_copy,
            At::Sender,
            [
                (Counter::HugeMemoryBytes, huge),
                (Counter::TcpBusyUs, 100_000),
                (Counter::TcpSndbufLimitedUs, limited),
            ],
        );
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
    for (transport, is_own) in [("wire-udp", true), ("loopback", false)] {
        let axes = format!("transport = [\"{transport}\"]\n{MOVERS}");
        let mut world = run(&axes, |_| True::costs(0.2));
        silent(&world, "zero-copy-no-room");
        world.put(is_zero_copy, At::Sender, [(Counter::Enobufs, 3)]);
        let caveat = fires(&world, "zero-copy-no-room", 2, "ENOBUFS 72 times");
        let own = caveat.remedy.contains("fewer in flight by --ring");
        assert_eq!(own, is_own, "{caveat:#?}");
    }
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

fn cpus(world: &mut World, cpus: usize) {
    world.manifest.host.cpus = vec![Cpu::default(); cpus];
}

#[test]
fn threads_that_are_ready_and_get_no_cpu_are_told() {
    let waits = |world: &mut World, ns: u64| {
        world.put(all, At::Sender, [(Counter::RunQueueNs, ns)]);
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
        world.put(is_sendfile, At::Sender, [(Counter::CpuNs, cpu_ns)]);
        world
    };
    fires(&with(55_000_000), "off-cpu", 2, "for 45 % of the window");
    silent(&with(99_000_000), "off-cpu");
    // What sleeps until its beat waits for nothing, unless it is ready and waits.
    let mut wakes = with(1_000_000);
    wakes.put(is_sendfile, At::Sender, [(Counter::BeatsMissed, 0)]);
    silent(&wakes, "off-cpu");
    wakes.put(is_sendfile, At::Sender, [(Counter::RunQueueNs, 30_000_000)]);
    fires(&wakes, "off-cpu", 2, "for 30 % of the window");
}

#[test]
fn a_frequency_that_changes_and_heat_are_told() {
    let mut world = quiet();
    let khz = |world: &mut World, of: fn(u32) -> u64| {
        world.each(|s| {
            let khz = of(s.trial.block);
            put(&mut s.machine, Counter::FrequencyKhz, khz);
            put(&mut s.machine, Counter::ThermalThrottles, 0);
        });
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
    world.put(is_zero_copy, At::Machine, [(Counter::ThermalThrottles, 2)]);
    fires(&world, "throttled", 2, "slowed down 48 times in 24 trials");
}

#[test]
fn a_core_to_core_latency_that_changes_is_told_with_what_it_costs() {
    let latencies = |world: &mut World, of: fn(u32) -> [u64; 2]| {
        world.each(|s| {
            let [before, after] = of(s.trial.cell + s.trial.block);
            put(&mut s.machine, Counter::CoreToCoreBeforeNs, before);
            put(&mut s.machine, Counter::CoreToCoreAfterNs, after);
        });
    };
    let mut world = quiet();
    latencies(&mut world, |at| [24 + u64::from(at % 4), 30]);
    silent(&world, "core-to-core");
    latencies(&mut world, |at| match at % 4 {
        0 | 1 => [25, 25],
        2 => [150, 150],
        _ => [25, 150],
    });
    let told = "25 ns (10 % quantile) to 150 ns (90 %); it was low both times in 50 % of the trials, high both times in 25 %, and changed in 25 %";
    let caveat = fires(&world, "core-to-core", 6, told);
    let costs = "as much where it was high";
    assert!(!caveat.evidence.contains(costs), "{caveat:#?}");
    world.each(|s| {
        if (s.trial.cell + s.trial.block) % 4 == 2 {
            scale(&mut s.sender.readings, Counter::CpuNs, 2.0);
            let receiver = &mut s.receiver.as_mut().expect("a receiver").readings;
            scale(receiver, Counter::CpuNs, 2.0);
        }
    });
    fires(&world, "core-to-core", 6, &format!("was 2.00× {costs}"));
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
    world.put(is_zero_copy, At::Sender, [(Counter::ElapsedNs, 5_000_000)]);
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
    begins(&caveat.text, "`recv` never touches");
    silent(&blind(true), "untouched");
}

#[test]
fn segments_of_different_sizes_are_told_where_a_comparison_is_decided() {
    let world = |cost: f64, small: u64| {
        let mut world = run(MOVERS, move |c| match c.mover.as_str() {
            "sendfile" => True::costs(cost),
            _ => True::costs(0.2),
        });
        world.each(|s| {
            let bytes = s.sender.readings[&Counter::Bytes].measured().unwrap_or(0);
            let of = if s.cell.contains("/sendfile/") {
                small
            } else {
                64_000
            };
            put(&mut s.sender.readings, Counter::TcpDataSegments, bytes / of);
        });
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
        world.put(
            is_zero_copy,
            At::Sender,
            [
                (Counter::TcpRetransmits, n),
                (Counter::TcpDataSegments, 10_000),
            ],
        );
    };
    again(&mut world, 1);
    silent(&world, "retransmits");
    again(&mut world, 100);
    let told = "TCP_INFO: 2400 retransmitted, 1 % of a cell's segments";
    fires(&world, "retransmits", 2, told);
}

#[test]
fn a_quiet_run_leaves_no_caveat() {
    for world in [quiet(), asking(10.0)] {
        assert_eq!(world.analyse().caveats, []);
    }
}

#[test]
fn other_processes_are_named_where_they_used_more_than_the_study_allows() {
    let used = |cpu_ns| {
        let mut world = quiet();
        world.blocks[3].others_ns = cpu_ns;
        world.blocks[3].others = vec![OtherProcess {
            name: "rustc".to_owned(),
            pid: 812,
            cpu_ns,
        }];
        world
    };
    // 0.3 CPUs of 10 s, on however many CPUs.
    let told = "0.30 CPUs in use by processes that are not ours, more than 0.100; most by rustc";
    let caveat = fires(&used(3_000_000_000), "other-processes", 0, told);
    assert!(caveat.text.contains("in 1 of 12 blocks"), "{caveat:#?}");
    silent(&used(900_000_000), "other-processes");
}

#[test]
fn steal_is_told_of_the_run_as_a_whole() {
    let stolen = |from: fn(&Cell) -> bool| {
        let mut world = quiet();
        world.put(from, At::Machine, [(Counter::MachineStealNs, 10_000_000)]);
        world
    };
    // Steps of 10 ms in some windows are no more than a clock's step.
    silent(&stolen(|c| is_sendfile(c) && c.size_bytes == 4096), "steal");
    fires(&stolen(|_| true), "steal", 0, "5 % of the CPUs' time");
}

#[test]
fn pacing_is_told_of_what_holds_to_its_rate() {
    let axes = format!("congestion = [\"default\"]\n{MOVERS}");
    let by = |control: &str| {
        let mut world = run(&axes, |_| True::costs(0.2));
        world.manifest.host.congestion_default = Some(control.to_owned());
        world.each(|s| {
            let rates = [1_200_000_000, 1_000_000_000];
            put(
                &mut s.sender.readings,
                Counter::TcpPacingRateBytesPerS,
                rates[0],
            );
            put(
                &mut s.sender.readings,
                Counter::TcpDeliveryRateBytesPerS,
                rates[1],
            );
        });
        world
    };
    // Every connection has a pacing rate; cubic does not keep to it.
    silent(&by("cubic"), "pacing");
    fires(&by("bbr"), "pacing", 6, "1.2 times the delivery rate");
}

#[test]
fn a_send_buffer_that_holds_the_sender_back_is_told() {
    let held = |limited| {
        let mut world = quiet();
        world.put(
            is_sendfile,
            At::Sender,
            [
                (Counter::TcpBusyUs, 100_000),
                (Counter::TcpSndbufLimitedUs, limited),
                (Counter::SendBufferBytes, 16_384),
            ],
        );
        world
    };
    let told = "80 % of the busy time, SO_SNDBUF 16,384 B";
    fires(&held(80_000), "send-buffer", 2, told);
    silent(&held(40_000), "send-buffer");
}

#[test]
fn payload_that_stays_in_the_cache_is_told() {
    let with = |sizes: [u64; 2]| {
        let cache = |(place, size)| cache(place as u32 + 2, size);
        let mut world = quiet();
        world.manifest.host.caches = sizes.into_iter().enumerate().map(cache).collect();
        world
    };
    silent(&with([64 << 20, 2 << 20]), "hot-payload");
    let told = "payload memory of all flows 4 MiB, level 3 cache 32 MiB";
    let caveat = fires(&with([1 << 20, 32 << 20]), "hot-payload", 6, told);
    assert!(caveat.remedy.starts_with("--ring 128MiB"), "{caveat:#?}");
}

#[test]
fn crowded_and_shared_cpus_are_told() {
    let axes = format!("threads = [\"1\", \"4\"]\n{MOVERS}");
    let mut world = run(&axes, |_| True::costs(0.2));
    cpus(&mut world, 4);
    let told = "up to 8 threads, two for each flow, on 4 CPUs";
    let caveat = fires(&world, "threads", 6, told);
    assert!(caveat.cells.iter().all(|id| id.contains("/8/4/")));
    cpus(&mut world, 8);
    silent(&world, "threads");

    let mut world = quiet();
    silent(&world, "one-cpu");
    cpus(&mut world, 1);
    fires(&world, "one-cpu", 6, "one CPU may be used");
    let axes = format!("placement = [\"0:1\", \"1:1\"]\n{MOVERS}");
    let world = run(&axes, |_| True::costs(0.2));
    fires(&world, "one-cpu", 6, "placement 1:1");
}

/// Messages with a response that comes so late.
fn asking(latency_us: f64) -> World {
    run(&format!("pattern = [\"ask\"]\n{MOVERS}"), move |_| True {
        latency_us,
        ..True::costs(0.2)
    })
}

// Their tails alone are in two groups, so that rates have their verdicts.
#[test]
fn latencies_in_two_groups_withhold_latencies_alone() {
    let metrics = "metrics = [\"latency_us_p99\", \"messages_per_s\"]";
    let world = |latency_us| {
        let study = rules::study(&format!("pattern = [\"ask\"]\n{MOVERS}"));
        let at = study.find("metrics = ").expect("compared metrics");
        let end = at + study[at..].find('\n').expect("a line");
        let study = format!("{}{metrics}{}", &study[..at], &study[end..]);
        World::new(&study).run(1, 20, 0.003, move |_| True {
            latency_us,
            ..True::costs(0.2)
        })
    };
    let (mut parted, slow) = (world(10.0), world(30.0));
    silent(&parted, "two-modes-latency");
    let is_third = |s: &Sample| s.cell.contains("/sendfile/") && s.trial.block.is_multiple_of(3);
    let from = slow.samples.iter().filter(|s| is_third(s));
    for (to, from) in parted.samples.iter_mut().filter(|s| is_third(s)).zip(from) {
        to.latency_ns_histogram
            .clone_from(&from.latency_ns_histogram);
    }
    let caveat = fires(&parted, "two-modes-latency", 2, "p99 latency: ");
    silent(&parted, "two-modes-time");
    for finding in &parted.analyse().findings {
        let is_affected = finding.metric == Metric::both(Measure::LatencyUsP99)
            && caveat.cells.contains(&finding.cell);
        assert_eq!(finding.withheld.is_some(), is_affected, "{finding:#?}");
    }
}

#[test]
fn wake_ups_that_drown_the_rest_are_told() {
    let waiting = |latency_us| {
        let mut world = asking(latency_us);
        world.each(|s| {
            let messages = s.sender.readings[&Counter::Messages].clone();
            let waits = Counter::ContextSwitchesVoluntary;
            s.sender.readings.insert(waits, messages);
        });
        world
    };
    silent(&asking(30.0), "wake-ups");
    let told = "1.0 voluntary context switches a message";
    fires(&waiting(30.0), "wake-ups", 6, told);
    silent(&waiting(8.0), "wake-ups");
}

/// A run in which each trial of a block costs so many times as much.
fn costing(of_block: impl Fn(u32) -> f64) -> World {
    let mut world = World::new(&rules::study(MOVERS)).run(1, 20, 0.003, |_| True::costs(0.2));
    world.each(|s| {
        let factor = of_block(s.trial.block);
        for side in s.sides_mut() {
            scale(&mut side.readings, Counter::CpuNs, factor);
        }
    });
    world
}

#[test]
fn drift_within_a_cell_is_told_and_noise_is_not() {
    let world = costing(|block| 1.0 + 0.05 * f64::from(block));
    let caveat = fires(&world, "drift", 6, "from the first block to the last");
    let text = "The CPU time per byte of 6 cells";
    assert!(caveat.text.starts_with(text), "{caveat:#?}");
    silent(&quiet(), "drift");
}

#[test]
fn legs_are_told_and_drift_is_looked_for_within_them() {
    // The second half costs twice as much: a trend over all, and none within either leg.
    let mut world = costing(|block| if block < 10 { 1.0 } else { 2.0 });
    assert!(!found(&world, "drift").is_empty());
    silent(&world, "several-legs");
    let ratios =
        |world: &World| -> Vec<f64> { world.analyse().findings.iter().map(|f| f.ratio).collect() };
    let before = ratios(&world);
    world.manifest.legs.push(Leg {
        first_block: 10,
        started: world.manifest.started.clone(),
        bytecost_version: "0.1.0".to_owned(),
        build_id: None,
        host: world.manifest.host.clone(),
        differences: vec![Difference {
            what: "kernel".to_owned(),
            was: "6.1".to_owned(),
            is: "6.2".to_owned(),
        }],
    });
    silent(&world, "drift");
    let told = "leg 2 from block 10: kernel was 6.1, is 6.2";
    fires(&world, "several-legs", 6, told);
    assert_eq!(
        ratios(&world),
        before,
        "pairs are of one block, and so of one leg"
    );
    // A leg that measured nothing yet says nothing.
    world.samples.retain(|s| s.trial.block < 10);
    silent(&world, "several-legs");
}

#[test]
fn a_log_that_lost_records_is_told() {
    let mut world = quiet();
    silent(&world, "missing-trials");
    world.damage = Some("5 of its 9 records are missing".to_owned());
    let caveat = fires(&world, "missing-trials", 0, "5 of its 9 records");
    ends(&caveat.remedy, "--resume quiet-otter");
}

#[test]
fn a_clock_that_leaves_out_interrupts_is_told_with_what_was_read_in_its_place() {
    let clock = |cpu_ns| {
        Some(CpuClock {
            tries: 10,
            elapsed_ns: 1000,
            cpu_ns,
            ..CpuClock::default()
        })
    };
    let mut world = quiet();
    for kept_or_lost in [None, clock(999), clock(712)] {
        // Lost, but nothing went by other means: the study goes over no network.
        world.manifest.survey.cpu_clock = kept_or_lost;
        silent(&world, "cpu-clock");
    }
    let told = "had 71.2 % of the elapsed time as CPU time";
    world.put(is_zero_copy, At::Sender, [(Counter::ThreadCpuNs, 5)]);
    let text = fires(&world, "cpu-clock", 2, told).text;
    says(&text, "in 2 cells CPU time is the perf task clock");
    assert!(!text.contains("two means"), "{text}");
    world.put(
        is_sendfile,
        At::Sender,
        [(Counter::ThreadCpuNs, 5), (Counter::InterruptNs, 5)],
    );
    let text = fires(&world, "cpu-clock", 4, told).text;
    says(&text, "in 2 cells the interrupts of its CPUs are added");
    assert!(text.contains("two means"), "{text}");
    world.each(|s| {
        put(&mut s.sender.readings, Counter::ThreadCpuNs, 5);
        let absent = Reading::absent("nothing serves");
        s.sender.readings.insert(Counter::CpuNs, absent);
    });
    let text = fires(&world, "cpu-clock", 6, told).text;
    assert!(text.contains("in 6 cells there is no CPU time"), "{text}");
}

#[test]
fn a_clock_that_could_not_be_tested_is_told() {
    let mut world = quiet();
    world.manifest.survey.cpu_clock = Some(CpuClock::default());
    fires(&world, "cpu-clock", 6, "in every try");
    world.manifest.survey.cpu_clock = Some(CpuClock {
        configured: Some(false),
        ..CpuClock::default()
    });
    silent(&world, "cpu-clock");
}
