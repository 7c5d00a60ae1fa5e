//! Circumstances that can bend a ranking: what they withhold, and which farther causes they exclude.

use bytecost_analysis::{Analysis, CaveatEffect, CaveatKind, Finding, Verdict};
use bytecost_spec::host::{Cpu, Obstacle};
use bytecost_spec::sample::{OtherProcess, Repeat};
use bytecost_spec::{CircumstanceKind, Counter, Metric, Reading};

use crate::caveat_table::{Withholds, both};
use crate::world::{
    At, Found as _, MOVERS, True, World, all, at, by_mover, disturbances, fires, found, one,
    planted, put, quiet, run, says, scale_cpu_time, silent,
};

/// `sendfile` costs so much more than `send`; `send-zerocopy` as much.
fn dearer(times: f64) -> World {
    let mut world = run(MOVERS, move |c| {
        True::costs(if c.mover == "sendfile" {
            0.2 * times
        } else {
            0.2
        })
    });
    world.manifest.host.cpus = vec![Cpu::default(); 2];
    world
}

/// Others use a whole CPU in the first of the blocks.
fn crowd(world: &mut World, blocks: usize) {
    for block in &mut world.blocks[..blocks] {
        block.others_ns = block.elapsed_ns;
        block.others = vec![OtherProcess {
            name: "hog".to_owned(),
            pid: 812,
            cpu_ns: block.elapsed_ns,
        }];
    }
}

fn cost_of<'a>(analysis: &'a Analysis, world: &World, mover: &str) -> &'a Finding {
    let cost: Metric = "cpu_s_per_gb".parse().expect("a metric");
    analysis.of_cell(cost, &world.id(mover, 4096))
}

#[test]
fn on_a_busy_machine_nothing_is_equal_and_no_amount_is_said() {
    let mut world = dearer(1.3);
    // One block of twelve is less than a tenth.
    crowd(&mut world, 1);
    silent(&world, "busy-machine");
    fires(&world, "other-processes", 0, "1.00 CPUs");
    let quiet = world.analyse();
    let equal = cost_of(&quiet, &world, "send-zerocopy");
    assert_eq!(equal.verdict, Verdict::NoDifferenceThatMatters);
    let dear = cost_of(&quiet, &world, "sendfile");
    assert_eq!((dear.verdict, dear.amount_withheld), (Verdict::Worse, None));
    assert_eq!(one(&quiet.disturbances).verdicts_withheld, 0);

    crowd(&mut world, 2);
    silent(&world, "other-processes");
    let caveat = fires(&world, "busy-machine", 0, "most by hog");
    assert_eq!(caveat.effect, CaveatEffect::WithholdsUnconfirmed);
    let busy = world.analyse();
    let busy_machine = Some(CaveatKind("busy-machine"));
    let not_decided = cost_of(&busy, &world, "send-zerocopy");
    assert_eq!(
        (not_decided.verdict, not_decided.withheld),
        (Verdict::NotDecided, busy_machine)
    );
    let still_dear = cost_of(&busy, &world, "sendfile");
    assert_eq!(
        (still_dear.verdict, still_dear.withheld),
        (Verdict::Worse, None)
    );
    assert_eq!(still_dear.amount_withheld, busy_machine);
    let found = bytecost_report::disturbances(&busy);
    let disturbance = one(&found);
    let words = "other processes, most of all hog, used 1.00 of 2 CPUs in 2 of 12 blocks";
    assert_eq!(disturbance.text, words);
    let withheld = busy
        .findings
        .iter()
        .filter(|f| f.withheld.is_some())
        .count();
    assert_eq!(disturbance.verdicts_withheld, withheld);
    assert!(
        withheld > 0 && disturbance.amounts_withheld > 0,
        "{disturbance:?}"
    );
    // No explanation has one either.
    let explanations = |a: &Analysis| format!("{:?}", bytecost_report::explanations(a));
    assert!(explanations(&quiet).contains('×'));
    assert!(
        !explanations(&busy).contains('×'),
        "{:#?}",
        busy.explanations
    );
    // The advice has no number of what is said with its direction alone.
    let worse = busy.advice.situations.iter().flat_map(|s| &s.avoid);
    let points = worse.flat_map(|avoid| &avoid.cost.points);
    assert!(points.clone().count() > 0 && points.clone().all(|p| p.has_no_amount));
}

#[test]
fn what_the_first_attempts_do_not_confirm_is_withheld() {
    let repeated = |first: f64| {
        let mut world = dearer(1.3);
        // Each block was measured again, and others were there still.
        let mut again = world.samples.clone();
        again.iter_mut().for_each(|s| s.trial.attempt = 1);
        world.change(by_mover("sendfile"), |s| scale_cpu_time(s, first));
        world.samples.extend(again);
        let mut stand = world.blocks.clone();
        stand.iter_mut().for_each(|b| b.attempt = 1);
        for block in &mut world.blocks {
            block.repeated_because = Some(Repeat::OtherProcesses {
                cpus_thousandths: 1000,
            });
        }
        stand.iter_mut().for_each(|b| b.others_ns = b.elapsed_ns);
        world.blocks.extend(stand);
        world
    };
    let verdict = |first| {
        let world = repeated(first);
        let analysis = world.analyse();
        let finding = cost_of(&analysis, &world, "sendfile");
        (finding.verdict, finding.withheld.is_some())
    };
    assert_eq!(verdict(1.0), (Verdict::Worse, false));
    // The first attempts have it as cheap as `send`, or cheaper.
    assert_eq!(verdict(1.0 / 1.3), (Verdict::NotDecided, true));
    assert_eq!(verdict(0.5), (Verdict::NotDecided, true));
}

#[test]
fn trials_before_a_window_has_its_length_do_not_count_and_a_note_says_so() {
    let mut world = dearer(1.3);
    let id = world.id("sendfile", 4096);
    // The windows grew after the second block: what the first two trials say is nonsense.
    world.change(at("sendfile", 4096), |s| {
        if s.trial.block < 2 {
            scale_cpu_time(s, 0.01);
        }
    });
    for block in &mut world.blocks {
        let times = [0, 4][usize::from(block.block >= 1)];
        block
            .longer
            .extend((times > 0).then(|| (id.clone(), times)));
    }
    let analysis = world.analyse();
    let finding = cost_of(&analysis, &world, "sendfile");
    assert_eq!(finding.verdict, Verdict::Worse);
    let whole = dearer(1.3).analyse();
    assert_eq!(
        finding.blocks + 2,
        cost_of(&whole, &world, "sendfile").blocks
    );
    let note = format!(
        "A flow of {id} moved nothing in its window: from block 3 on its windows are 4 times as long, and its earlier 2 trials do not count."
    );
    says(bytecost_report::markdown(&analysis), [note]);
    assert!(whole.run.notes.is_empty());
}

/// A world in which the receive window held the sender back.
fn held_by_window() -> World {
    let mut world = dearer(1.0);
    let read = [
        (Counter::TcpBusyUs, 100_000),
        (Counter::TcpRwndLimitedUs, 80_000),
    ];
    world.put(all, At::Sender, read);
    world
}

#[test]
fn the_receive_window_is_no_reason_where_a_nearer_cause_was_found() {
    fires(&held_by_window(), "receive-window", 6, "for 80 %");

    let mut one_cpu = held_by_window();
    one_cpu.manifest.host.cpus_allowed = vec![0];
    silent(&one_cpu, "receive-window");
    fires(&one_cpu, "one-cpu", 6, "one CPU may be used");
    let found = disturbances(&one_cpu);
    assert_eq!(one(&found).text, "one CPU may be used");

    let mut busy = held_by_window();
    crowd(&mut busy, 12);
    silent(&busy, "receive-window");

    // Time on the run queue is measured cell by cell.
    let mut waited = held_by_window();
    waited.change(by_mover("sendfile"), |s| {
        let receiver = s.receiver.as_mut().expect("a receiver");
        put(&mut receiver.readings, Counter::RunQueueNs, 30_000_000);
    });
    let cells = fires(&waited, "off-cpu", 2, "for 30 %").cells;
    let held = fires(&waited, "receive-window", 4, "for 80 %").cells;
    assert!(cells.iter().all(|id| !held.contains(id)), "{held:?}");
}

#[test]
fn both_ends_on_one_cpu_by_request_is_no_disturbance() {
    let axes = format!("placement = [\"0:0\"]\n{MOVERS}");
    let world = run(&axes, |_| True::costs(0.2));
    fires(&world, "one-cpu", 6, "placement 0:0");
    assert_eq!(world.analyse().disturbances, []);
}

fn obstacle(kind: CircumstanceKind, place: &str, found: &str, limits: bool) -> Obstacle {
    Obstacle {
        kind,
        place: place.to_owned(),
        found: found.to_owned(),
        limits,
    }
}

#[test]
fn small_buffers_are_named_with_what_sockets_got_and_nothing_is_said_that_was_not_measured() {
    let wmem = "tcp_wmem 4096 16384 16384 (usually 4096 16384 4194304)";
    let mut world = quiet();
    world.put(all, At::Sender, [(Counter::SendBufferBytes, 16_384)]);
    assert_eq!(found(&world, "path-cost"), []);
    world.each(|s| {
        let small = obstacle(CircumstanceKind::SocketMemory, "sysctl", wmem, false);
        s.obstacles.push(small);
    });
    let caveat = fires(&world, "path-cost", 6, "SO_SNDBUF 16,384 B");
    says(&caveat.text, [wmem, "was not measured"]);
    assert!(!caveat.text.contains("closer to 1"), "{}", caveat.text);
    assert_eq!(one(&disturbances(&world)).text, wmem);
}

#[test]
fn a_tracer_withholds_all_of_the_cells_that_it_stopped() {
    let traced = planted(|w| {
        w.each(|s| {
            let tracer = obstacle(
                CircumstanceKind::Tracer,
                "this process",
                "traced by strace",
                false,
            );
            s.obstacles.push(tracer);
        });
    });
    both(
        "tracer",
        &quiet(),
        &traced,
        Withholds::All,
        "traced by strace",
    );
    // It is nothing of the path.
    silent(&traced, "path-cost");
    let mut disturbances = disturbances(&traced).into_iter();
    assert!(disturbances.any(|d| d.text == "the processes were traced by strace"));
}

#[test]
fn a_policer_among_the_filters_of_tc_limits() {
    let police = "1 filter of tc at ingress: matchall (police 1.00 Gbit/s)";
    let mut world = quiet();
    world.each(|s| {
        let filter = obstacle(CircumstanceKind::TcFilter, "lo", police, true);
        s.obstacles.push(filter);
    });
    let caveat = fires(&world, "path-limit", 6, "read from the kernel");
    says(&caveat.text, ["A filter of tc limits lo"]);
    let analysis = world.analyse();
    let found = disturbances(&world);
    let disturbance = one(&found);
    says(&disturbance.text, [police]);
    let rates = analysis.findings.iter().filter(|f| f.withheld.is_some());
    assert_eq!(disturbance.verdicts_withheld, rates.count());
}

#[test]
fn processes_that_cannot_be_seen_are_named_with_the_reason() {
    let world = dearer(1.5);
    silent(&world, "hidden-processes");
    let mut hidden = dearer(1.5);
    hidden.each(|sample| {
        let why = Reading::absent("/proc hides the processes of other users (hidepid)");
        sample.machine.insert(Counter::OtherProcessesNs, why);
    });
    fires(&hidden, "hidden-processes", 0, "hidepid");
}

#[test]
fn a_run_that_was_stopped_says_so_and_what_became_of_its_blocks() {
    let mut world = dearer(1.5);
    silent(&world, "suspended");
    // One block was measured again, and its first attempt is not asked for anything.
    let mut again = world.blocks[0].clone();
    again.attempt = 1;
    let first = world.samples.clone().into_iter();
    let mut second: Vec<_> = first.filter(|s| s.trial.block == again.block).collect();
    second.iter_mut().for_each(|s| s.trial.attempt = 1);
    world.samples.extend(second);
    world.blocks[0].stopped_ns = 2_000_000_000;
    world.blocks[0].repeated_because = Some(Repeat::Stopped { ms: 2_000 });
    world.blocks.push(again);
    let repeated = fires(&world, "suspended", 0, "2.0 s in which");
    assert_eq!(repeated.effect, CaveatEffect::Annotates);
    says(&repeated.text, ["1 block, measured again", "no part of"]);
    silent(&world, "repeats-matter");
    let words = "the run was stopped for 2.0 s in 1 block, measured again";
    assert_eq!(one(&disturbances(&world)).text, words);

    // Another stands, since repeats have a bound.
    world.blocks[1].stopped_ns = 500_000_000;
    let caveat = fires(&world, "suspended", 0, "2.5 s in which");
    says(
        &caveat.text,
        ["2 blocks, 1 of them part of", "may be wrong"],
    );
}
