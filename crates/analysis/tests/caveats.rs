//! Each caveat arises from its evidence, names its cells, and stays away from a quiet run.

use crate::world;

use bytecost_analysis::{Analysis, Caveat};
use bytecost_spec::host::{Cpu, CpuCache};
use bytecost_spec::sample::{OtherProcess, TrialKey};
use bytecost_spec::survey::Release;
use bytecost_spec::{Cell, Counter, Failure, Reading, Sample};
use bytecost_stats::Generator;
use world::{STUDY, True, World, facts};

fn quiet() -> World {
    World::new(STUDY).run(1, 12, 0.003, |_| True::costs(0.2))
}

fn ask(latency_us: f64) -> World {
    let study = STUDY.replace("mover = [", "pattern = [\"ask\"]\nmover = [");
    World::new(&study).run(2, 12, 0.003, |_| True {
        latency_us,
        ..True::costs(0.2)
    })
}

fn kinds(analysis: &Analysis) -> Vec<&str> {
    analysis.caveats.iter().map(|d| d.kind.as_str()).collect()
}

#[track_caller]
fn only(world: &World, kind: &str) -> Caveat {
    let analysis = world.analyse();
    assert_eq!(kinds(&analysis), [kind]);
    for id in &analysis.caveats[0].cells {
        assert!(analysis.cells.iter().any(|c| c.id == *id), "{id}");
    }
    analysis.caveats[0].clone()
}

fn set(sample: &mut Sample, counter: Counter, value: u64) {
    sample
        .sender
        .readings
        .insert(counter, Reading::Measured(value));
}

fn is_sendfile(cell: &Cell) -> bool {
    cell.mover == "sendfile"
}

#[test]
fn a_quiet_run_leaves_no_caveat() {
    assert_eq!(kinds(&quiet().analyse()), [""; 0]);
    assert_eq!(kinds(&ask(10.0).analyse()), [""; 0]);
}

#[test]
fn copied_buffers_and_cautions_are_told() {
    let world = World::new(STUDY).run(1, 12, 0.003, |c| True {
        copied: (c.mover == "send-zerocopy").then_some(0.97),
        ..True::costs(0.2)
    });
    let caveat = only(&world, "zero-copy-copied");
    let text =
        "`send-zerocopy` is not zero-copy on loopback: the kernel copied 97 % of the buffers.";
    assert!(caveat.text.starts_with(text), "{}", caveat.text);
    assert_eq!(caveat.cells.len(), 4);

    let mut world = quiet();
    let mut sendfile = facts("sendfile", Release::Never, true);
    sendfile.caution = Some("the file must not change while it is sent".to_owned());
    world.manifest.survey.mover_facts.push(sendfile);
    let caveat = only(&world, "mover-caution");
    assert_eq!(
        caveat.text,
        "`sendfile`: the file must not change while it is sent."
    );
    // It was not measured.
    world.samples.retain(|s| !s.cell.contains("/sendfile/"));
    assert_eq!(kinds(&world.analyse()), [""; 0]);
}

#[test]
fn other_processes_are_named_where_they_used_more_than_the_study_allows() {
    let mut world = quiet();
    let used = |world: &mut World, ns| {
        let block = &mut world.blocks[3];
        block.others_ns = ns;
        block.others = vec![OtherProcess {
            name: "rustc".to_owned(),
            pid: 812,
            cpu_ns: ns,
        }];
    };
    // 0.3 CPUs of 10 s, on however many CPUs.
    used(&mut world, 3_000_000_000);
    let caveat = only(&world, "other-processes");
    assert!(caveat.text.contains("in 1 of 12 blocks"), "{}", caveat.text);
    assert_eq!(
        caveat.evidence,
        "0.30 CPUs in use by processes that are not ours, more than 0.100; most by rustc"
    );
    used(&mut world, 900_000_000);
    assert_eq!(kinds(&world.analyse()), [""; 0]);
}

#[test]
fn steal_is_told_of_the_run_as_a_whole() {
    let mut world = quiet();
    // Steps of 10 ms in some windows are no more than a clock's step.
    world.change(
        |c| c.mover == "sendfile" && c.size_bytes == 256,
        |s| set_machine(s, Counter::MachineStealNs, 10_000_000),
    );
    assert_eq!(kinds(&world.analyse()), [""; 0]);
    world.change(
        |_| true,
        |s| set_machine(s, Counter::MachineStealNs, 10_000_000),
    );
    assert!(
        only(&world, "steal")
            .evidence
            .contains("5 % of the CPUs' time")
    );
}

fn set_machine(sample: &mut Sample, counter: Counter, n: u64) {
    sample.machine.insert(counter, Reading::Measured(n));
}

#[test]
fn pacing_is_told_of_what_holds_to_its_rate() {
    let rates = |s: &mut Sample| {
        set(s, Counter::TcpPacingRateBytesPerS, 1_200_000_000);
        set(s, Counter::TcpDeliveryRateBytesPerS, 1_000_000_000);
    };
    let study = STUDY.replace("mover = [", "congestion = [\"default\"]\nmover = [");
    let mut world = World::new(&study).run(1, 12, 0.003, |_| True::costs(0.2));
    world.manifest.host.congestion_default = Some("cubic".to_owned());
    world.change(|_| true, rates);
    // Every connection has a pacing rate; cubic does not keep to it.
    assert_eq!(kinds(&world.analyse()), [""; 0]);
    world.manifest.host.congestion_default = Some("bbr".to_owned());
    let caveat = only(&world, "pacing");
    assert!(
        caveat.evidence.contains("1.2 times the delivery rate"),
        "{}",
        caveat.evidence
    );
}

#[test]
fn limits_of_the_kernel_are_told() {
    let mut world = quiet();
    world.change(is_sendfile, |s| {
        set(s, Counter::TcpBusyUs, 100_000);
        set(s, Counter::TcpSndbufLimitedUs, 80_000);
        set(s, Counter::SendBufferBytes, 16_384);
    });
    let caveat = only(&world, "send-buffer");
    assert!(
        caveat
            .evidence
            .contains("80 % of the busy time, SO_SNDBUF 16,384 B"),
        "{}",
        caveat.evidence
    );
    world.change(is_sendfile, |s| {
        set(s, Counter::TcpSndbufLimitedUs, 40_000);
    });
    assert_eq!(kinds(&world.analyse()), [""; 0]);

    let mut world = quiet();
    world.change(is_sendfile, |s| set(s, Counter::Enobufs, 5));
    let caveat = only(&world, "zero-copy-no-room");
    assert_eq!(caveat.evidence, "ENOBUFS 240 times");
    assert!(!caveat.remedy.contains("wire"), "{}", caveat.remedy);
    world.change(is_sendfile, |s| set(s, Counter::Enobufs, 0));
    assert_eq!(kinds(&world.analyse()), [""; 0]);
}

#[test]
fn payload_that_stays_in_the_cache_is_told() {
    let mut world = quiet();
    let cache = |level, size_bytes| CpuCache {
        level,
        kind: "Unified".to_owned(),
        size_bytes,
        shared_by: vec![0],
    };
    world.manifest.host.caches = vec![cache(2, 64 << 20), cache(3, 2 << 20)];
    assert_eq!(kinds(&world.analyse()), [""; 0]);
    world.manifest.host.caches = vec![cache(2, 1 << 20), cache(3, 32 << 20)];
    let caveat = only(&world, "hot-payload");
    assert_eq!(
        caveat.evidence,
        "payload memory of all flows 4 MiB, level 3 cache 32 MiB"
    );
    assert!(
        caveat.remedy.starts_with("--ring 128MiB"),
        "{}",
        caveat.remedy
    );
    assert_eq!(caveat.cells.len(), 16);
}

#[test]
fn crowded_and_shared_cpus_are_told() {
    let cpu = |cpu| Cpu {
        cpu,
        package: None,
        core: None,
        node: None,
        siblings: vec![cpu],
        governor: None,
        ..Cpu::default()
    };
    let study = STUDY.replace("mover = [", "threads = [\"1\", \"4\"]\nmover = [");
    let mut world = World::new(&study).run(1, 12, 0.003, |_| True::costs(0.2));
    world.manifest.host.cpus = (0..4).map(cpu).collect();
    let caveat = only(&world, "threads");
    assert_eq!(
        caveat.evidence,
        "up to 8 threads, two for each flow, on 4 CPUs"
    );
    assert!(
        caveat.cells.iter().all(|id| id.contains("/8/4/")),
        "{:?}",
        caveat.cells
    );
    world.manifest.host.cpus = (0..8).map(cpu).collect();
    assert_eq!(kinds(&world.analyse()), [""; 0]);

    let mut world = quiet();
    world.manifest.host.cpus = vec![cpu(0)];
    assert_eq!(only(&world, "one-cpu").evidence, "one CPU may be used");

    let study = STUDY.replace("mover = [", "placement = [\"0:1\", \"1:1\"]\nmover = [");
    let world = World::new(&study).run(1, 12, 0.003, |_| True::costs(0.2));
    let caveat = only(&world, "one-cpu");
    assert_eq!(caveat.evidence, "placement 1:1");
    assert_eq!(caveat.cells.len(), 16);
}

#[test]
fn wake_ups_that_drown_the_rest_are_told() {
    let waits = |world: &mut World| {
        world.change(
            |_| true,
            |s| {
                let messages = s.sender.readings[&Counter::Messages].clone();
                s.sender
                    .readings
                    .insert(Counter::ContextSwitchesVoluntary, messages);
            },
        );
    };
    let mut slow = ask(30.0);
    assert_eq!(kinds(&slow.analyse()), [""; 0]);
    waits(&mut slow);
    let caveat = only(&slow, "wake-ups");
    assert!(
        caveat
            .evidence
            .starts_with("1.0 voluntary context switches a message"),
        "{}",
        caveat.evidence
    );
    let mut quick = ask(8.0);
    waits(&mut quick);
    assert_eq!(kinds(&quick.analyse()), [""; 0]);
}

#[test]
fn drift_within_a_cell_is_told_and_noise_is_not() {
    let mut world = quiet();
    world.change(
        |_| true,
        |s| {
            let grown = 1.0 + 0.05 * f64::from(s.trial.block);
            for side in [Some(&mut s.sender), s.receiver.as_mut()]
                .into_iter()
                .flatten()
            {
                let cpu = side.readings[&Counter::CpuNs].measured().unwrap_or(0) as f64;
                let reading = Reading::Measured((cpu * grown) as u64);
                side.readings.insert(Counter::CpuNs, reading);
            }
        },
    );
    let caveat = only(&world, "drift");
    assert_eq!(caveat.cells.len(), 16);
    assert!(
        caveat.text.starts_with("The CPU time per byte of 16 cells"),
        "{}",
        caveat.text
    );
}

#[test]
fn a_shift_of_who_pays_is_told() {
    let mut world = quiet();
    let mut g = Generator::new(3);
    world.change(is_sendfile, |s| {
        let receiver = s.receiver.as_mut().expect("a receiver");
        let of = |r: &bytecost_spec::Readings| r[&Counter::CpuNs].measured().unwrap_or(0);
        let moved = (0.6 * g.unit() * of(&s.sender.readings) as f64) as u64;
        let (from, to) = (
            of(&s.sender.readings) - moved,
            of(&receiver.readings) + moved,
        );
        s.sender
            .readings
            .insert(Counter::CpuNs, Reading::Measured(from));
        receiver
            .readings
            .insert(Counter::CpuNs, Reading::Measured(to));
    });
    let caveat = only(&world, "who-pays");
    assert!(caveat.cells.iter().all(|id| id.contains("/sendfile/")) && !caveat.cells.is_empty());
}

#[test]
fn trials_that_fall_into_groups_are_told() {
    // Three blocks of ten take three times as long.
    let planted = |c: &Cell| is_sendfile(c) && c.size_bytes == 4096;
    let mut world = World::new(STUDY).run(5, 40, 0.003, |_| True::costs(0.2));
    world.change(planted, |s| {
        let times = if s.trial.block % 10 < 3 { 3 } else { 1 };
        for side in [Some(&mut s.sender), s.receiver.as_mut()]
            .into_iter()
            .flatten()
        {
            let cpu = side.readings[&Counter::CpuNs].measured().unwrap_or(0);
            let reading = Reading::Measured(times * cpu);
            side.readings.insert(Counter::CpuNs, reading);
        }
    });
    let analysis = world.analyse();
    assert_eq!(kinds(&analysis), ["two-modes-cpu-time", "imprecise"]);
    let caveat = &analysis.caveats[0];
    assert_eq!(caveat.cells, [world.id("sendfile", 4096)]);
    let told = "at 4 KiB, CPU time per byte: 0.300 s/GB in 70 % of the trials, 0.898";
    assert!(caveat.evidence.contains(told), "{}", caveat.evidence);
}

#[test]
fn failures_ends_and_short_runs_are_told() {
    let mut world = World::new(STUDY).run(9, 24, 0.003, |_| True::costs(0.2));
    world.failures.push(Failure {
        trial: TrialKey {
            block: 3,
            cell: 4,
            attempt: 0,
        },
        cell: world.cells[4].id(),
        started_ms: 0,
        reason: "the receiver was killed by SIGKILL.".to_owned(),
    });
    let caveat = only(&world, "failed-trials");
    assert_eq!(
        caveat.evidence,
        "the first: the receiver was killed by SIGKILL"
    );
    assert!(
        caveat
            .text
            .starts_with("1 trial in 1 cell failed and was left out"),
        "{}",
        caveat.text
    );

    let mut world = quiet();
    world.ended_early = Some("Ctrl-C".to_owned());
    let caveat = only(&world, "ended-early");
    assert_eq!(caveat.remedy, "bytecost run --resume quiet-otter");

    let mut world = quiet();
    world.samples.retain(|s| s.trial.block < 5);
    let caveat = only(&world, "few-blocks");
    assert_eq!(caveat.evidence, "5 blocks, at least 6 asked for");
    let mut world = quiet();
    world.samples.retain(|s| s.trial.block < 6);
    assert_eq!(kinds(&world.analyse()), [""; 0]);

    let world = World::new(STUDY).run(4, 8, 0.05, |_| True::costs(0.2));
    let analysis = world.analyse();
    let caveat = analysis
        .caveats
        .iter()
        .find(|d| d.kind == "imprecise")
        .expect("a caveat");
    assert!(
        caveat
            .text
            .contains("of 12 comparisons in the first metric"),
        "{}",
        caveat.text
    );
    assert!(
        caveat.remedy.starts_with("a longer run, such as --budget "),
        "{}",
        caveat.remedy
    );
    let wild = World::new(STUDY)
        .run(4, 8, 0.5, |_| True::costs(0.2))
        .analyse();
    let caveat = wild
        .caveats
        .iter()
        .find(|d| d.kind == "imprecise")
        .expect("a caveat");
    assert!(
        caveat.remedy.starts_with("a quieter machine"),
        "{}",
        caveat.remedy
    );
}

#[test]
fn what_the_plan_changed_is_told() {
    let mut world = quiet();
    world.notes = vec!["`cubic` is not to be had here".to_owned()];
    let caveat = only(&world, "changed-plan");
    assert!(
        caveat.text.contains("`cubic` is not to be had here."),
        "{}",
        caveat.text
    );
}
