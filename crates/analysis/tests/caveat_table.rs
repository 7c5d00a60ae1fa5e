//! Every row of the table of caveats is tested both ways: planted here, or next to its condition.

use std::fs;

use bytecost_analysis::{CaveatEffect, Finding, Verdict, caveat_kinds};
use bytecost_spec::{Axis, Cell, Counter, Measure, Metric, Sample};

use crate::server_worlds;
use crate::world::{
    At, Found, MOVERS, True, World, all, at, fires, planted, quiet, run, says, scale_cpu_time,
    silent, study_of,
};

fn sources() -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
    let files = fs::read_dir(folder)
        .expect("the tests")
        .map(|entry| entry.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|e| e == "rs"));
    let text: String = files
        .map(|path| fs::read_to_string(path).expect("tests"))
        .collect();
    text.split_whitespace().collect()
}

#[test]
fn every_row_is_tested_both_ways() {
    let all = sources();
    for kind in caveat_kinds() {
        let named = format!("\"{kind}\"");
        let called = |what: &str| {
            let mut calls = all.split(what).skip(1);
            calls.any(|rest| rest.split(';').next().is_some_and(|c| c.contains(&named)))
        };
        let [fires, silent, both] = ["fires(", "silent(", "both("].map(called);
        assert!(fires || both, "{kind} fires in no test");
        assert!(silent || both, "{kind} is silent in no test");
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Withholds {
    Nothing,
    CpuTime,
    Times,
    /// CPU time, rates and latencies.
    Costs,
    All,
}

/// The caveat is not there without what is planted, is there with it, and withholds what it should
/// of the cells that it affects.
#[track_caller]
pub fn both(kind: &str, without: &World, with: &World, withholds: Withholds, evidence: &str) {
    silent(without, kind);
    let analysis = with.analyse();
    let caveats = bytecost_report::caveats(&analysis);
    let caveat = caveats
        .iter()
        .find(|c| c.kind == kind)
        .unwrap_or_else(|| panic!("{kind}: {caveats:#?}"));
    says(&caveat.evidence, [evidence]);
    let effect = match withholds {
        Withholds::Nothing => CaveatEffect::Annotates,
        Withholds::All => CaveatEffect::WithholdsAll,
        Withholds::CpuTime | Withholds::Times | Withholds::Costs => CaveatEffect::WithholdsMetric,
    };
    assert_eq!(caveat.effect, effect, "{kind}");
    let affected = |f: &Finding| {
        let named = |id: &String| caveat.cells.is_empty() || caveat.cells.contains(id);
        named(&f.cell) || named(&f.baseline)
    };
    for finding in &analysis.findings {
        let is_cpu = finding.metric.to_string().contains("cpu");
        let expected = affected(finding)
            && match withholds {
                Withholds::Nothing => false,
                Withholds::CpuTime => is_cpu,
                Withholds::Times => !is_cpu,
                Withholds::Costs | Withholds::All => true,
            };
        assert_eq!(finding.withheld.is_some(), expected, "{kind}: {finding:#?}");
        assert!(!expected || finding.verdict == Verdict::NotDecided);
    }
    let any = analysis.findings.iter().any(|f| f.withheld.is_some());
    assert_eq!(any, withholds != Withholds::Nothing, "{kind}");
}

/// A run of more blocks than most have, in so many of which `sendfile` failed at 4 KiB.
fn failed(blocks: u32, reason: &str) -> World {
    let mut world = World::new(&study_of(MOVERS)).run(1, 30, 0.003, |_| True::costs(0.2));
    let cell = world.id("sendfile", 4096);
    world
        .samples
        .retain(|s| s.cell != cell || s.trial.block >= blocks);
    for block in 0..blocks {
        world.fail(block, &cell, reason);
    }
    world
}

#[test]
fn the_course_of_the_run() {
    use Withholds::{All, Nothing, Times};
    let early = planted(|w| w.ended_early = Some("Ctrl-C".to_owned()));
    both("ended-early", &quiet(), &early, Nothing, "of the log");
    let changed = planted(|w| w.notes = vec!["`cubic` is not available".to_owned()]);
    both("changed-plan", &quiet(), &changed, Nothing, "the plan");
    let five_blocks = planted(|w| w.samples.retain(|s| s.trial.block < 5));
    both("few-blocks", &quiet(), &five_blocks, Nothing, "5 blocks");
    let noisy = World::new(&study_of(MOVERS)).run(4, 12, 0.06, |_| True::costs(0.2));
    both("imprecise", &quiet(), &noisy, Nothing, "95 % intervals");
    let wild = World::new(&study_of(MOVERS)).run(4, 12, 0.5, |_| True::costs(0.2));
    let remedy = fires(&wild, "imprecise", 4, "95 % intervals").remedy;
    assert!(remedy.starts_with("a quieter machine"), "{remedy}");

    let [never, one, three] = [0, 1, 3].map(|n| failed(n, "the receiver was killed by SIGKILL."));
    both("failed-trials", &never, &one, Nothing, "SIGKILL");
    let tenth = "10 % of their trials";
    both("many-failed-trials", &one, &three, All, tenth);
    silent(&three, "failed-trials");
    let mut watched = failed(3, "the receiver was killed by SIGKILL.");
    for failure in &mut watched.failures {
        failure.for_evidence = true;
    }
    both("failed-trials", &never, &watched, Nothing, "SIGKILL");
    silent(&watched, "many-failed-trials");
    let [once, often] = [1, 3].map(|n| failed(n, "a flow moved nothing and used no CPU."));
    both("stood-still", &once, &often, Times, tenth);
    silent(&often, "many-failed-trials");
    both("stalled-trials", &never, &once, Nothing, "used no CPU");
    silent(&once, "failed-trials");
    silent(&often, "stalled-trials");
    // One that lasted as long as two other windows is a sixteenth of the time.
    let lasted = |windows: f64| {
        let mut world = failed(1, "a flow moved nothing and used no CPU.");
        let window_ns = world.samples[0].sender.measured(Counter::ElapsedNs);
        let ns = window_ns.expect("a length") as f64 * windows;
        world.failures[0].stood_still_ns = Some(ns as u64);
        world
    };
    let by_time = "6.5 % of their trials or time";
    both("stood-still", &lasted(0.5), &lasted(2.0), Times, by_time);
    let short = lasted(0.5);
    let caveat = fires(&short, "stalled-trials", 1, "used no CPU");
    says(&caveat.text, ["with their time mean rates are 1.7 % lower"]);
    let analysis = short.analyse();
    let found = analysis
        .of_id(&short.id("sendfile", 4096))
        .stood_still
        .expect("a stall");
    assert_eq!(found.windows, 1);
    assert!((found.share - 0.5 / 29.5).abs() < 1e-6, "{}", found.share);
    // One and one more of another kind are too many for times, and each is reported.
    let mut mixed = once;
    mixed.fail(1, &mixed.id("sendfile", 4096), "the receiver was killed.");
    let evidence = "6.5 % of their trials";
    both("stood-still", &quiet(), &mixed, Times, evidence);
    fires(&mixed, "failed-trials", 1, "killed");
}

#[test]
fn a_mover_that_delivered_wrong_bytes_once_has_no_verdict_at_any_size() {
    let other = failed(1, "the receiver was killed");
    let mut world = failed(0, "");
    world.fail_with_wrong_bytes(0, &world.id("sendfile", 4096));
    let evidence = "1 trial, the first: receiver: what";
    both("wrong-bytes", &other, &world, Withholds::All, evidence);
    let found = fires(&world, "wrong-bytes", 2, "byte 7");
    assert!(found.cells.iter().all(|id| id.contains("/sendfile/")));
    let text = "`sendfile` delivered wrong bytes. Nothing is said of it.";
    assert_eq!(found.text, text);
}

/// So many times as much CPU time in a third of the blocks.
fn dear(factor: f64) -> impl FnMut(&mut Sample) {
    move |s| {
        let factor = if s.trial.block % 3 == 0 { factor } else { 1.0 };
        scale_cpu_time(s, factor);
    }
}

#[test]
fn trials_in_two_groups() {
    use Withholds::{CpuTime, Nothing, Times};
    let sendfile = at("sendfile", 4096);
    let cost = |factor| planted(|w| w.change(sendfile, dear(factor)));
    let (near, far) = (cost(1.35), cost(3.0));
    both("two-modes", &quiet(), &near, Nothing, "33 % of the trials");
    silent(&near, "two-modes-cpu-time");
    let evidence = "at 4 KiB, CPU time per byte: 0.3";
    both("two-modes-cpu-time", &near, &far, CpuTime, evidence);
    silent(&far, "two-modes");
    let slow = planted(|w| {
        w.change(sendfile, |s| {
            let third = s.trial.block % 3 == 0;
            for flow in s.sides_mut().flat_map(|side| &mut side.flows) {
                flow.elapsed_ns *= if third { 3 } else { 1 };
            }
        });
    });
    both("two-modes-time", &far, &slow, Times, "throughput: ");
}

// A deviation that all cells of a size share in a block cancels in their ratios.
#[test]
fn groups_that_both_cells_of_a_ratio_are_in_withhold_nothing() {
    let movers = "mover = [\"send\", \"send-zerocopy\", \"sendfile\"]";
    let sizes = "size = [\"4KiB\", \"16KiB\", \"64KiB\"]";
    let world = |is_dear: fn(&Cell) -> bool| {
        let mut world = run(&format!("{movers}\n{sizes}"), |_| True::costs(0.2));
        world.change(is_dear, dear(3.0));
        world
    };
    let of_cpu_time = |f: &&Finding| f.metric.to_string().starts_with("cpu_s_per_gb");
    let shared = world(|c| c.size_bytes == 4096);
    let together = fires(&shared, "two-modes-cpu-time", 3, "at 4 KiB");
    assert_eq!(together.effect, CaveatEffect::Annotates);
    let found = shared.analyse().findings;
    assert!(found.iter().filter(of_cpu_time).count() >= 6);
    assert!(found.iter().all(|f| f.withheld.is_none()), "{found:#?}");
    // One of three is not dear with them: its ratio is withheld, that of the two others stands.
    let parted = world(|c| c.size_bytes == 4096 && c.mover != "sendfile");
    let caveat = fires(&parted, "two-modes-cpu-time", 2, "at 4 KiB");
    assert_eq!(caveat.effect, CaveatEffect::WithholdsMetric);
    for f in parted.analyse().findings.iter().filter(of_cpu_time) {
        let is_apart = f.cell.contains("/sendfile/") && f.cell.contains("/4KiB/");
        assert_eq!(f.withheld.is_some(), is_apart, "{f:#?}");
    }
}

#[test]
fn what_sets_the_rates_withholds_them() {
    let times = Withholds::Times;
    let bbr = run(&format!("congestion = [\"bbr\"]\n{MOVERS}"), |_| {
        True::costs(0.2)
    });
    both("pacing", &quiet(), &bbr, Withholds::Costs, "bbr");
    // One congestion control against another is what was asked: pacing is the difference then.
    let study = study_of(&format!("congestion = [\"reno\", \"bbr\"]\n{MOVERS}"))
        .replace("axis = \"mover\"", "axis = \"congestion\"")
        .replace("baseline = \"send\"", "baseline = \"reno\"");
    let against = World::new(&study).run(1, 12, 0.003, |cell| {
        True::costs(if cell.congestion == "bbr" { 0.3 } else { 0.2 })
    });
    fires(&against, "pacing", 6, "bbr");
    let findings = against.analyse().findings;
    let cost = Metric::both(Measure::CpuSPerGb);
    let mut costs = findings
        .iter()
        .filter(|f| f.axis == Axis::Congestion && f.metric == cost);
    assert!(costs.all(|f| f.verdict == Verdict::Worse && f.withheld.is_none()));
    assert!(findings.iter().any(|f| f.axis == Axis::Congestion));
    let receiver = |receiver_ns_per_byte, sender| {
        run(MOVERS, move |_| True {
            receiver_ns_per_byte,
            gbit_per_s: 20.0,
            ..True::costs(sender)
        })
    };
    let both_busy = receiver(0.4, 0.4);
    let bound = receiver(0.4, 0.2);
    both(
        "receiver-bound",
        &both_busy,
        &bound,
        times,
        "receiver 100 %",
    );
    let [short, long] = [20_000, 80_000].map(|limited| {
        let mut world = receiver(0.1, 0.1);
        let busy = (Counter::TcpBusyUs, 100_000);
        let read = [busy, (Counter::TcpRwndLimitedUs, limited)];
        world.put(all, At::Sender, read);
        world
    });
    both("receive-window", &short, &long, times, "for 80 %");
}

#[test]
fn cautions_are_reported_where_they_are_true() {
    let caution = |w: &mut World, spares: bool| {
        let facts = &mut w.manifest.survey.mover_facts[2];
        facts.caution = Some("it is not asynchronous".to_owned());
        facts.caution_spares_direct = spares;
    };
    let cautioned = planted(|w| caution(w, true));
    let nothing = Withholds::Nothing;
    both("mover-caution", &quiet(), &cautioned, nothing, "2 cells");
    let axes = format!("cache = [\"direct\"]\n{MOVERS}");
    let mut direct = run(&axes, |_| True::costs(0.2));
    caution(&mut direct, true);
    silent(&direct, "mover-caution");
    caution(&mut direct, false);
    fires(&direct, "mover-caution", 2, "2 cells");
    // It was not measured.
    direct
        .samples
        .retain(|s| !s.cell.contains("/send-zerocopy/"));
    silent(&direct, "mover-caution");
}

#[test]
fn a_shift_of_the_split_between_the_sides() {
    let shifted = planted(|w| {
        w.change(at("sendfile", 4096), |s| {
            if s.trial.block % 2 == 0 {
                let receiver = s.receiver.as_mut().expect("a receiver");
                let cpu = &Counter::CpuNs;
                let sent = s.sender.readings.get_mut(cpu).expect("CPU time");
                std::mem::swap(sent, receiver.readings.get_mut(cpu).expect("CPU time"));
            }
        });
    });
    let evidence = "points of 100";
    both("who-pays", &quiet(), &shifted, Withholds::Nothing, evidence);
}

#[test]
fn requests_that_failed_and_servers_with_a_caution() {
    use Withholds::{All, Nothing};
    let usual = server_worlds::run();
    let with = |timeouts: u64| {
        let mut world = server_worlds::run();
        let select = |c: &Cell| server_worlds::server(c) == "select";
        world.put(select, At::Sender, [(Counter::ErrorsTimeout, timeouts)]);
        world
    };
    let answers = |w: &World| w.samples[0].sender.readings[&Counter::Messages].measured();
    let many = answers(&usual).expect("a count") / 5;
    let (few, many) = (with(1 + many / 50), with(many));
    let no_response = "no response in time";
    both("failed-requests", &usual, &few, Nothing, no_response);
    both("many-failed-requests", &few, &many, All, no_response);
    let mut cautioned = server_worlds::run();
    let serving = cautioned.manifest.survey.serving.as_mut().expect("servers");
    serving.servers[0].caution = Some("it hides its children".to_owned());
    let evidence = "the table of servers";
    both("server-caution", &usual, &cautioned, Nothing, evidence);
}
