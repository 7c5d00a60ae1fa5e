//! Cells that wait for the timer of delayed acknowledgements are named, and nothing else is.

use crate::world;

use bytecost_analysis::Verdict;
use bytecost_spec::{Cell, Counter, Measure, Metric, Nodelay, Reading};
use world::{Found, STUDY, True, World, one, says};

const AXES: &str = r#"mover = ["send", "send-fields", "sendmsg"]
size = ["256", "4KiB", "64KiB"]
pattern = ["ask"]"#;

const NODELAY: &str = r#"[[compare]]
axis = "nodelay"
baseline = "off"
metrics = ["latency_us_p50"]
"#;

/// Three ways to ask, of which eight calls stall where TCP_NODELAY is off.
fn asking(nodelay: &str) -> World {
    let start = STUDY.find("mover = [").expect("axes");
    let end = STUDY.find("\n\n[[compare]]").expect("a comparison");
    let axes = format!("{AXES}\nnodelay = [{nodelay}]");
    let compared = if nodelay.contains("off") { NODELAY } else { "" };
    let study = STUDY
        .replace(&STUDY[start..end], &axes)
        .replace("\"throughput_gbit_per_s\"]", "\"latency_us_p50\"]")
        .replacen("[[figure]]", &format!("{compared}\n[[figure]]"), 1);
    let mut world = World::new(&study).run(3, 10, 0.003, |cell| True {
        latency_us: if stalls(cell) { 44_000.0 } else { 9.0 },
        gbit_per_s: if stalls(cell) { 0.000_4 } else { 1.0 },
        ..True::costs(if cell.mover == "send-fields" {
            0.6
        } else {
            0.2
        })
    });
    world.each(|s| tcp(s, 4, 3));
    world.change(stalls, |s| tcp(s, 20_500, 3));
    world
}

fn stalls(cell: &Cell) -> bool {
    cell.mover == "send-fields" && cell.nodelay == Nodelay::Off
}

fn tcp(sample: &mut bytecost_spec::Sample, rtt_us: u64, min_us: u64) {
    for (counter, value) in [
        (Counter::TcpRttUs, rtt_us),
        (Counter::TcpMinRttUs, min_us),
        (Counter::TcpBusyUs, 99_000),
    ] {
        let reading = Reading::Measured(value);
        sample.sender.readings.insert(counter, reading);
    }
}

#[test]
fn a_stall_is_named_with_its_evidence_and_its_measured_remedy() {
    let analysis = asking("\"off\", \"on\"").analyse();
    let found = analysis.of_kind("nagle-stall");
    let caveat = one(&found);
    for part in [
        "`send-fields` stalls",
        "not the cost of copying",
        "HZ/25, 40 ms",
    ] {
        assert!(caveat.text.contains(part), "no `{part}` in {}", caveat.text);
    }
    for part in [
        "of the round trips took 35 to 60 ms",
        "smoothed round-trip time of the socket 20,500 µs; its least 3 µs",
        "data in flight for 99 % of the time",
        "TCP_NODELAY is off",
    ] {
        says(&caveat.evidence, part);
    }
    for part in [
        "TCP_NODELAY on: 9",
        "one call (`sendmsg`): 9",
        "instead of 44",
    ] {
        says(&caveat.remedy, part);
    }
    assert_eq!(caveat.cells.len(), 3);
    assert!(
        caveat
            .cells
            .iter()
            .all(|id| id.contains("send-fields") && id.contains("/off/"))
    );
}

#[test]
fn what_does_not_wait_for_the_timer_is_not_named() {
    let check = |world: &World| assert_eq!(world.analyse().of_kind("nagle-stall").len(), 0);
    check(&asking("\"on\""));
    check(&asking("\"auto\""));
    // Round trips of 44 ms over a path that is that long: the least round trip says so.
    let mut far = asking("\"off\"");
    far.each(|s| tcp(s, 41_000, 40_000));
    check(&far);
    // A socket that is slow by itself, without answers at the timer.
    let mut slow = asking("\"off\"");
    let quick: Vec<_> = asking("\"on\"")
        .samples
        .iter()
        .map(|s| s.latency_ns_histogram.clone())
        .collect();
    for (sample, histogram) in slow.samples.iter_mut().zip(quick) {
        sample.latency_ns_histogram = histogram;
    }
    check(&slow);
}

#[test]
fn a_stalled_way_is_not_announced_as_dear_but_as_stalled() {
    let analysis = asking("\"off\", \"on\"").analyse();
    let all: Vec<&str> = analysis
        .answers
        .iter()
        .map(|a| a.sentence.as_str())
        .collect();
    // CPU time is compared with the stall and without it: who waits uses none.
    let costs = analysis.advice.situations.iter().flat_map(|s| &s.avoid);
    let points = costs.flat_map(|avoid| &avoid.cost.points);
    let ratios: Vec<f64> = points.map(|p| p.ratio).collect();
    assert!(
        !ratios.is_empty() && ratios.iter().all(|r| *r < 10.0),
        "{ratios:?}"
    );
    // Of thousands nobody speaks.
    let told = |s: &&&str| s.contains("4,8") || s.contains("4,9") || s.contains("5,0");
    assert_eq!(all.iter().filter(told).count(), 0, "{all:#?}");
    let p50 = Metric::both(Measure::LatencyUsP50);
    let compared: Vec<_> = analysis
        .findings
        .iter()
        .filter(|f| f.metric == p50 && f.cell.contains("send-fields") && f.cell.contains("/off/"))
        .collect();
    assert_eq!(compared.len(), 3);
    for finding in compared {
        assert_eq!(finding.verdict, Verdict::NotDecided);
        let why = "no verdict (";
        assert!(finding.sentence.contains(why), "{}", finding.sentence);
        let why =
            "waits for the timer of delayed acknowledgements, which is not the cost of copying.";
        assert!(finding.sentence.ends_with(why), "{}", finding.sentence);
    }
    // What remedies a stall is compared with it: there the wait is the question.
    let remedy = |f: &&bytecost_analysis::Finding| {
        f.axis == bytecost_spec::Axis::Nodelay && f.baseline.contains("send-fields")
    };
    let remedies: Vec<_> = analysis.findings.iter().filter(remedy).collect();
    assert_eq!(remedies.len(), 3);
    assert!(remedies.iter().all(|f| f.verdict == Verdict::Better));
    // And where it crosses another is a matter of the others' cells alone.
    let off = |c: &&bytecost_analysis::Crossover| {
        c.value == "send-fields" && c.place.iter().any(|(_, v)| v == "off")
    };
    assert_eq!(analysis.crossovers.iter().filter(off).count(), 0);
    assert!(analysis.crossovers.iter().any(|c| c.value == "send-fields"));
}

#[test]
fn one_call_is_a_remedy_too() {
    let mut world = asking("\"off\"");
    world
        .cells
        .retain(|c| c.mover == "send-fields" || c.mover == "send");
    let ids: Vec<String> = world.cells.iter().map(Cell::id).collect();
    world.samples.retain(|s| ids.contains(&s.cell));
    let analysis = world.analyse();
    // One call beside it is a remedy of its own.
    assert!(
        analysis.of_kind("nagle-stall")[0]
            .remedy
            .contains("one call (`send`)")
    );
}

#[test]
fn completions_that_wait_for_the_acknowledgement_are_named() {
    let study = STUDY.replace("mover = [", "ring = [\"4MiB\", \"message\"]\nmover = [");
    let one_slot = |c: &Cell| c.mover == "send-zerocopy" && c.ring_slots() == 1;
    let mut world = World::new(&study).run(3, 8, 0.003, |cell| True {
        // One message each 44 ms.
        gbit_per_s: if one_slot(cell) {
            8.0 * cell.size_bytes as f64 / 44e6
        } else {
            1.0
        },
        ..True::costs(0.2)
    });
    world.each(|s| tcp(s, 30, 3));
    world.change(one_slot, |s| {
        tcp(s, 20_500, 3);
        for flow in &mut s.sender.flows {
            (flow.messages, flow.elapsed_ns) = (10, 440_000_000);
        }
    });
    let analysis = world.analyse();
    let found = analysis.of_kind("completion-waits-for-ack");
    let caveat = one(&found);
    says(
        &caveat.text,
        "`send-zerocopy` stalls: a buffer comes back when",
    );
    says(&caveat.evidence, "the ring holds one message");
    says(&caveat.remedy, "more buffers in flight (--ring 4MiB)");
    assert_eq!(caveat.cells.len(), 4);
    world.change(one_slot, |s| tcp(s, 29, 3));
    assert_eq!(world.analyse().of_kind("completion-waits-for-ack").len(), 0);
}

#[test]
fn where_delayed_acknowledgements_are_counted_the_count_decides() {
    let counted = |per_message: f64| {
        let mut world = asking("\"off\"");
        world.change(stalls, |s| {
            let sent = Reading::Measured(100);
            s.sender.readings.insert(Counter::Messages, sent);
            let acks = Reading::Measured((100.0 * per_message) as u64);
            s.machine.insert(Counter::TcpDelayedAcks, acks);
        });
        world.analyse()
    };
    let few = counted(0.05);
    assert_eq!(few.of_kind("nagle-stall").len(), 0);
    // Not every message waits, but nearly all of the time goes into waiting.
    let some = counted(0.3);
    assert!(
        some.of_kind("nagle-stall")[0]
            .evidence
            .contains("of the time went into these"),
    );
    let many = counted(0.97);
    let found = many.of_kind("nagle-stall");
    says(&found[0].evidence, "delayed acknowledgements per message");
    assert_eq!(found[0].cells.len(), 3);
}

#[test]
fn a_stall_in_some_trials_is_told_as_that_with_their_signs() {
    let in_blocks = |stall: fn(u32) -> bool| {
        let mut world = asking("\"off\"");
        let quick = world.samples.iter().find(|s| s.cell.contains("/send/"));
        let quick = quick.expect("a sample").clone();
        world.change(stalls, |s| {
            let is_stalled = stall(s.trial.block);
            let acks = Reading::Measured(if is_stalled { 100 } else { 0 });
            s.machine.insert(Counter::TcpDelayedAcks, acks);
            let sent = Reading::Measured(100);
            s.sender.readings.insert(Counter::Messages, sent);
            if !is_stalled {
                s.latency_ns_histogram
                    .clone_from(&quick.latency_ns_histogram);
                tcp(s, 4, 3);
            }
        });
        world.analyse()
    };
    let some = in_blocks(|block| block % 5 < 2);
    let found = some.of_kind("nagle-stall");
    let told = "in 12 of 30 trials: 1 delayed acknowledgements per message; 9";
    assert!(found[0].evidence.starts_with(told), "{found:#?}");
    // One of ten is an outlier.
    let one = in_blocks(|block| block == 3);
    assert_eq!(one.of_kind("nagle-stall").len(), 0);
}

#[test]
fn what_waits_for_a_timer_is_not_told_as_waiting_for_a_wake_up() {
    let mut world = asking("\"off\"");
    let often = |s: &mut bytecost_spec::Sample| {
        let slept = Reading::Measured(1_000_000);
        s.sender
            .readings
            .insert(Counter::ContextSwitchesVoluntary, slept);
    };
    world.change(stalls, often);
    assert_eq!(world.analyse().of_kind("wake-ups").len(), 0);
}
