//! Each rule fires on what it is about, says so with its evidence, and is silent on the opposite.

use bytecost_spec::host::Cpu;
use bytecost_spec::manifest::{Difference, Leg};
use bytecost_spec::sample::OtherProcess;
use bytecost_spec::survey::{CpuClock, ReceiverFacts, Release, Route};
use bytecost_spec::{Cell, Counter, Measure, Metric, PacketSocket, Sample};

use crate::world::{
    At, MOVERS, True, World, all, at, begins, by_mover, cache, ends, facts, fires, found, planted,
    put, quiet, run, says, scale_cpu_time, silent, study_of,
};

/// The quiet run with these readings in some cells.
fn by<const N: usize>(which: impl Fn(&Cell) -> bool, at: At, read: [(Counter, u64); N]) -> World {
    let mut world = quiet();
    world.put(which, at, read);
    world
}

/// The usual movers with these axes as well, each at the same cost.
fn alike(axes: &str) -> World {
    run(&format!("{axes}\n{MOVERS}"), |_| True::costs(0.2))
}

fn packet_socket(world: &mut World, device: Option<&str>, holder: Option<&str>) {
    world.change(by_mover("send-zerocopy"), |s| {
        s.packet_sockets = vec![PacketSocket {
            device: device.map(str::to_owned),
            holder: holder.map(str::to_owned),
        }];
    });
}

#[test]
fn a_packet_socket_is_named_with_its_holder() {
    silent(&quiet(), "packet-socket");
    let world = planted(|w| packet_socket(w, Some("lo"), Some("tcpdump (pid 812)")));
    let evidence = "/proc/net/packet, 24 trials: tcpdump (pid 812) on lo";
    fires(&world, "packet-socket", 2, evidence);
}

#[test]
fn where_zero_copy_was_copied_and_by_whom_is_reported_of_each_transport() {
    for (transport, place, why) in [
        ("loopback", "on loopback", "is copied on delivery"),
        ("veth", "over veth", "is copied on delivery"),
        ("wire", "over wire", "or the flag is wrong"),
    ] {
        let axes = format!("transport = [\"{transport}\"]\n{MOVERS}");
        let copied = |share: f64| {
            run(&axes, move |c| {
                True::costs(0.2).copied((c.mover == "send-zerocopy").then_some(share))
            })
        };
        let mut world = copied(1.0);
        let on_delivery = fires(&world, "zero-copy-copied", 2, "100 %");
        says(&on_delivery.text, [place, why]);
        silent(&copied(0.0), "zero-copy-copied");
        if transport == "wire" {
            packet_socket(&mut world, None, None);
            let by_whom = "/proc/net/packet: a process unseen on all devices";
            let caveat = fires(&world, "zero-copy-copied", 2, by_whom);
            says(&caveat.text, ["A packet socket took"]);
        }
    }
}

#[test]
fn registered_huge_pages_are_reported_where_they_fill_the_account() {
    let fill = |huge: u64, limited: u64| {
        let read = [
            (Counter::HugeMemoryBytes, huge),
            (Counter::TcpBusyUs, 100_000),
            (Counter::TcpSndbufLimitedUs, limited),
        ];
        let mut world = by(by_mover("send-zerocopy"), At::Sender, read);
        let mut registered = facts("send-zerocopy", Release::AtCompletion, true);
        registered.locks_rings = 1;
        world.manifest.survey.mover_facts[2] = registered;
        world
    };
    let evidence =
        "4 MiB of the sender's memory in huge pages; limited by the send buffer for 90 %";
    fires(&fill(4 << 20, 90_000), "registered-huge-pages", 2, evidence);
    silent(&fill(4 << 20, 90_000), "send-buffer");
    silent(&fill(0, 90_000), "registered-huge-pages");
    assert_eq!(found(&fill(0, 90_000), "send-buffer").len(), 1);
    silent(&fill(4 << 20, 10_000), "registered-huge-pages");
}

#[test]
fn no_room_for_zero_copy_is_remedied_otherwise_in_a_network_of_its_own() {
    for (transport, is_own) in [("wire", true), ("loopback", false)] {
        let mut world = alike(&format!("transport = [\"{transport}\"]"));
        silent(&world, "zero-copy-no-room");
        world.put(
            by_mover("send-zerocopy"),
            At::Sender,
            [(Counter::Enobufs, 3)],
        );
        let caveat = fires(&world, "zero-copy-no-room", 2, "ENOBUFS 72 times");
        let own = caveat.remedy.contains("fewer in flight by --ring");
        assert_eq!(own, is_own, "{caveat:#?}");
    }
}

#[test]
fn one_buffer_waits_for_every_completion() {
    let world = alike("ring = [\"message\"]");
    // Only the zero-copy sender gets completions.
    let evidence = "the ring holds one message";
    let caveat = fires(&world, "waits-for-every-completion", 2, evidence);
    assert!(caveat.cells.iter().all(|id| id.contains("send-zerocopy")));
    silent(&alike("ring = [\"4MiB\"]"), "waits-for-every-completion");
}

fn cpus(world: &mut World, cpus: usize) {
    world.manifest.host.cpus = vec![Cpu::default(); cpus];
}

#[test]
fn threads_that_are_ready_and_get_no_cpu_are_reported() {
    let waits = |mut world: World, count: usize, ns: u64| {
        cpus(&mut world, count);
        world.put(all, At::Sender, [(Counter::RunQueueNs, ns)]);
        world
    };
    let evidence = "waited for a CPU for 20 %";
    fires(&waits(quiet(), 2, 20_000_000), "off-cpu", 6, evidence);
    silent(&waits(quiet(), 2, 1_000_000), "off-cpu");
    // Where both ends are on one CPU, or there is no other, they wait for each other.
    let shared = alike("placement = [\"0:0\"]");
    silent(&waits(shared, 2, 20_000_000), "off-cpu");
    silent(&waits(quiet(), 1, 20_000_000), "off-cpu");
}

#[test]
fn work_whose_cpu_time_is_far_below_its_wall_time_is_reported() {
    let with = |cpu_ns: u64| {
        let mut world = by(by_mover("sendfile"), At::Sender, [(Counter::CpuNs, cpu_ns)]);
        cpus(&mut world, 2);
        let movers = &mut world.manifest.survey.mover_facts;
        movers.last_mut().expect("sendfile").route = Route::Work;
        world
    };
    fires(&with(55_000_000), "off-cpu", 2, "for 45 % of the window");
    silent(&with(99_000_000), "off-cpu");
    // A cell that sleeps until its next beat has no wait, unless it is ready and waits for a CPU.
    let mut wakes = with(1_000_000);
    wakes.put(
        by_mover("sendfile"),
        At::Sender,
        [(Counter::BeatsMissed, 0)],
    );
    silent(&wakes, "off-cpu");
    let ready = [(Counter::RunQueueNs, 30_000_000)];
    wakes.put(by_mover("sendfile"), At::Sender, ready);
    fires(&wakes, "off-cpu", 2, "for 30 % of the window");
}

#[test]
fn a_frequency_that_changes_and_heat_are_reported() {
    let khz = |of: fn(u32) -> u64| {
        let mut world = by(all, At::Machine, [(Counter::ThermalThrottles, 0)]);
        world.each(|s| put(&mut s.machine, Counter::FrequencyKhz, of(s.trial.block)));
        world
    };
    let steady = khz(|block| 3_000_000 + 1_000 * u64::from(block));
    silent(&steady, "frequency");
    silent(&steady, "throttled");
    let mut falls = khz(|block| if block < 6 { 3_600_000 } else { 2_400_000 });
    let evidence = "2.40 GHz (10 % quantile) to 3.60 GHz (90 %)";
    fires(&falls, "frequency", 6, evidence);
    let hot = [(Counter::ThermalThrottles, 2)];
    falls.put(by_mover("send-zerocopy"), At::Machine, hot);
    fires(&falls, "throttled", 2, "slowed down 48 times in 24 trials");
}

#[test]
fn a_core_to_core_latency_that_changes_is_reported_with_what_it_costs() {
    let latencies = |of: fn(u32) -> [u64; 2]| {
        planted(|w| {
            w.each(|s| {
                let [before, after] = of(s.trial.cell + s.trial.block);
                put(&mut s.machine, Counter::CoreToCoreBeforeNs, before);
                put(&mut s.machine, Counter::CoreToCoreAfterNs, after);
            });
        })
    };
    silent(
        &latencies(|at| [24 + u64::from(at % 4), 30]),
        "core-to-core",
    );
    let mut world = latencies(|at| match at % 4 {
        0 | 1 => [25, 25],
        2 => [150, 150],
        _ => [25, 150],
    });
    let evidence = "25 ns (10 % quantile) to 150 ns (90 %); it was low both times in 50 % of the trials, high both times in 25 %, and changed in 25 %";
    let caveat = fires(&world, "core-to-core", 6, evidence);
    let costs = "as much where it was high";
    assert!(!caveat.evidence.contains(costs), "{caveat:#?}");
    world.each(|s| {
        if (s.trial.cell + s.trial.block) % 4 == 2 {
            scale_cpu_time(s, 2.0);
        }
    });
    fires(&world, "core-to-core", 6, &format!("was 2.00× {costs}"));
}

#[test]
fn windows_with_next_to_nothing_in_them_are_reported() {
    let rate = |gbit_per_s: f64| run(MOVERS, move |_| True::costs(0.2).at_rate(gbit_per_s));
    // 6 messages of 64 KiB, 96 of 4 KiB, in 100 ms.
    let evidence = "6 messages of a flow within 100 ms";
    fires(&rate(0.0315), "short-window", 3, evidence);
    silent(&rate(1.0), "short-window");
    let elapsed = [(Counter::ElapsedNs, 5_000_000)];
    let short = by(by_mover("send-zerocopy"), At::Sender, elapsed);
    fires(&short, "short-window", 2, "within 5 ms");
}

#[test]
fn a_receiver_that_touches_nothing_is_reported() {
    let blind = |sees_content: bool| {
        planted(|w| {
            w.manifest.survey.receiver_facts = vec![ReceiverFacts {
                name: "recv".to_owned(),
                summary: String::new(),
                sees_content,
            }];
        })
    };
    let evidence = "6 cells; its bytes are counted";
    let caveat = fires(&blind(false), "untouched", 6, evidence);
    begins(&caveat.text, "`recv` never touches");
    silent(&blind(true), "untouched");
}

#[test]
fn segments_of_different_sizes_are_reported_where_a_comparison_is_decided() {
    let world = |cost: f64, small: u64| {
        let mut world = run(MOVERS, move |c| match c.mover.as_str() {
            "sendfile" => True::costs(cost),
            _ => True::costs(0.2),
        });
        world.each(|s| {
            let bytes = s.sender.readings[&Counter::Bytes].measured().unwrap_or(0);
            let is_small = s.cell.contains("/sendfile/");
            let segments = bytes / if is_small { small } else { 64_000 };
            put(&mut s.sender.readings, Counter::TcpDataSegments, segments);
        });
        world
    };
    let evidence = " B, `sendfile` 16,000 B";
    fires(&world(0.1, 16_000), "segments-differ", 4, evidence);
    silent(&world(0.1, 60_000), "segments-differ");
    // Without a difference there is no caveat.
    silent(&world(0.2, 16_000), "segments-differ");
}

#[test]
fn segments_that_were_sent_again_are_reported() {
    let again = |n: u64| {
        let all = (Counter::TcpDataSegments, 10_000);
        let read = [(Counter::TcpRetransmits, n), all];
        by(by_mover("send-zerocopy"), At::Sender, read)
    };
    silent(&again(1), "retransmits");
    let evidence = "TCP_INFO: 2400 retransmitted, 1 % of a cell's segments";
    fires(&again(100), "retransmits", 2, evidence);
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
        planted(|w| {
            w.blocks[3].others_ns = cpu_ns;
            w.blocks[3].others = vec![OtherProcess {
                name: "rustc".to_owned(),
                pid: 812,
                cpu_ns,
            }];
        })
    };
    // 0.3 CPUs of 10 s, on however many CPUs.
    let evidence =
        "0.30 CPUs in use by processes that are not ours, more than 0.100; most by rustc";
    let caveat = fires(&used(3_000_000_000), "other-processes", 0, evidence);
    says(&caveat.text, ["in 1 of 12 blocks"]);
    silent(&used(900_000_000), "other-processes");
}

#[test]
fn steal_is_reported_of_the_run_as_a_whole() {
    let steal = [(Counter::MachineStealNs, 10_000_000)];
    // Steps of 10 ms in some windows are no more than a clock's step.
    silent(&by(at("sendfile", 4096), At::Machine, steal), "steal");
    let evidence = "5 % of the CPUs' time";
    fires(&by(all, At::Machine, steal), "steal", 0, evidence);
}

#[test]
fn pacing_is_reported_of_what_holds_to_its_rate() {
    let by = |control: &str| {
        let mut world = alike("congestion = [\"default\"]");
        world.manifest.host.congestion_default = Some(control.to_owned());
        let rates = [
            (Counter::TcpPacingRateBytesPerS, 1_200_000_000),
            (Counter::TcpDeliveryRateBytesPerS, 1_000_000_000),
        ];
        world.put(all, At::Sender, rates);
        world
    };
    // Every connection has a pacing rate; cubic does not keep to it.
    silent(&by("cubic"), "pacing");
    fires(&by("bbr"), "pacing", 6, "1.2 times the delivery rate");
}

#[test]
fn a_send_buffer_that_holds_the_sender_back_is_reported() {
    let held = |limited| {
        let read = [
            (Counter::TcpBusyUs, 100_000),
            (Counter::TcpSndbufLimitedUs, limited),
            (Counter::SendBufferBytes, 16_384),
        ];
        by(by_mover("sendfile"), At::Sender, read)
    };
    let evidence = "80 % of the busy time, SO_SNDBUF 16,384 B";
    fires(&held(80_000), "send-buffer", 2, evidence);
    silent(&held(40_000), "send-buffer");
}

#[test]
fn payload_that_stays_in_the_cache_is_reported() {
    let with =
        |l2: u64, l3: u64| planted(|w| w.manifest.host.caches = vec![cache(2, l2), cache(3, l3)]);
    silent(&with(64 << 20, 2 << 20), "hot-payload");
    let evidence = "payload memory of all flows 4 MiB, level 3 cache 32 MiB";
    let caveat = fires(&with(1 << 20, 32 << 20), "hot-payload", 6, evidence);
    begins(&caveat.remedy, "--ring 128MiB");
}

#[test]
fn crowded_and_shared_cpus_are_reported() {
    let mut crowded = alike("threads = [\"1\", \"4\"]");
    cpus(&mut crowded, 4);
    let evidence = "up to 8 threads, two for each flow, on 4 CPUs";
    let caveat = fires(&crowded, "threads", 6, evidence);
    assert!(caveat.cells.iter().all(|id| id.contains("/8/4/")));
    cpus(&mut crowded, 8);
    silent(&crowded, "threads");

    silent(&quiet(), "one-cpu");
    let one = planted(|w| cpus(w, 1));
    fires(&one, "one-cpu", 6, "one CPU may be used");
    let world = alike("placement = [\"0:1\", \"1:1\"]");
    fires(&world, "one-cpu", 6, "placement 1:1");
}

/// Messages with a response that comes so late.
fn asking(latency_us: f64) -> World {
    run(
        &format!("pattern = [\"request-response\"]\n{MOVERS}"),
        move |_| True::costs(0.2).late(latency_us),
    )
}

// Their tails alone are in two groups, so that rates have their verdicts.
#[test]
fn latencies_in_two_groups_withhold_latencies_alone() {
    let study = study_of(&format!("pattern = [\"request-response\"]\n{MOVERS}")).replace(
        "\"cpu_s_per_gb\", \"throughput_gbit_per_s\"",
        "\"latency_us_p99\", \"messages_per_s\"",
    );
    let world = |latency_us| {
        World::new(&study).run(1, 20, 0.003, move |_| True::costs(0.2).late(latency_us))
    };
    let (mut parted, slow) = (world(10.0), world(30.0));
    silent(&parted, "two-modes-latency");
    let is_third = |s: &Sample| s.cell.contains("/sendfile/") && s.trial.block.is_multiple_of(3);
    let both = parted.samples.iter_mut().zip(&slow.samples);
    for (to, from) in both.filter(|(s, _)| is_third(s)) {
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
fn wake_ups_that_drown_the_rest_are_reported() {
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
    let evidence = "1.0 voluntary context switches a message";
    fires(&waiting(30.0), "wake-ups", 6, evidence);
    silent(&waiting(8.0), "wake-ups");
}

/// A run in which each trial of a block costs so many times as much.
fn costing(of_block: impl Fn(u32) -> f64) -> World {
    let mut world = World::new(&study_of(MOVERS)).run(1, 20, 0.003, |_| True::costs(0.2));
    world.each(|s| scale_cpu_time(s, of_block(s.trial.block)));
    world
}

#[test]
fn drift_within_a_cell_is_reported_and_noise_is_not() {
    let world = costing(|block| 1.0 + 0.05 * f64::from(block));
    let caveat = fires(&world, "drift", 6, "from the first block to the last");
    begins(&caveat.text, "The CPU time per byte of 6 cells");
    silent(&quiet(), "drift");
}

#[test]
fn legs_are_reported_and_drift_is_looked_for_within_them() {
    // The second half costs twice as much: a trend over all, and none within either leg.
    let mut world = costing(|block| if block < 10 { 1.0 } else { 2.0 });
    assert!(!found(&world, "drift").is_empty());
    silent(&world, "several-legs");
    let ratios = |measured: &World| -> Vec<f64> {
        measured
            .analyse()
            .findings
            .iter()
            .map(|f| f.ratio)
            .collect()
    };
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
    let evidence = "leg 2 from block 10: kernel was 6.1, is 6.2";
    fires(&world, "several-legs", 6, evidence);
    assert_eq!(ratios(&world), before, "pairs are of one block and leg");
    // A leg that measured nothing yet says nothing.
    world.samples.retain(|s| s.trial.block < 10);
    silent(&world, "several-legs");
}

#[test]
fn a_log_that_lost_records_is_reported() {
    silent(&quiet(), "missing-trials");
    let lost = planted(|w| w.damage = Some("5 of its 9 records are missing".to_owned()));
    let caveat = fires(&lost, "missing-trials", 0, "5 of its 9 records");
    ends(&caveat.remedy, "--resume quiet-otter");
}

#[test]
fn a_clock_that_leaves_out_interrupts_is_reported_with_what_was_read_in_its_place() {
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
    let evidence = "had 71.2 % of the elapsed time as CPU time";
    let (own, interrupts) = ((Counter::ThreadCpuNs, 5), (Counter::InterruptNs, 5));
    world.put(by_mover("send-zerocopy"), At::Sender, [own]);
    let one_clock = fires(&world, "cpu-clock", 2, evidence).text;
    says(&one_clock, ["in 2 cells CPU time is the perf task clock"]);
    assert!(!one_clock.contains("two means"), "{one_clock}");
    world.put(by_mover("sendfile"), At::Sender, [own, interrupts]);
    let two_clocks = fires(&world, "cpu-clock", 4, evidence).text;
    let added = "in 2 cells the interrupts of its CPUs are added";
    says(&two_clocks, [added, "two means"]);
    world.put(all, At::Sender, [own]);
    world.hide(Counter::CpuNs, "nothing serves");
    let none_read = fires(&world, "cpu-clock", 6, evidence).text;
    says(&none_read, ["in 6 cells there is no CPU time"]);
}

#[test]
fn a_clock_that_could_not_be_tested_is_reported() {
    let with = |configured| {
        planted(|w| {
            w.manifest.survey.cpu_clock = Some(CpuClock {
                configured,
                ..CpuClock::default()
            });
        })
    };
    fires(&with(None), "cpu-clock", 6, "in every try");
    silent(&with(Some(false)), "cpu-clock");
}
