//! Cells that wait for the timer of delayed acknowledgements are named, and nothing else is.

use bytecost_spec::{Cell, Counter, Nodelay};

use crate::world::{At, True, World, begins, fires, put, says, silent, study_of, with_axes};

const AXES: &str = r#"mover = ["send", "send-fields", "sendmsg"]
size = ["256", "4KiB", "64KiB"]
pattern = ["request-response"]"#;

/// Three ways to ask, of which eight calls stall where TCP_NODELAY is off.
fn asking(nodelay: &str) -> World {
    let study = study_of(&format!("{AXES}\nnodelay = [{nodelay}]"));
    let mut world = World::new(&study).run(3, 10, 0.003, |cell| {
        let is_dear = cell.mover == "send-fields";
        let truth = True::costs(if is_dear { 0.6 } else { 0.2 });
        if stalls(cell) {
            truth.at_rate(0.000_4).late(44_000.0)
        } else {
            truth.at_rate(1.0).late(9.0)
        }
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
        put(&mut sample.sender.readings, counter, value);
    }
}

#[test]
fn a_stall_is_named_with_its_evidence_and_its_measured_remedy() {
    let caveat = fires(&asking("\"off\", \"on\""), "nagle-stall", 3, "");
    says(
        &caveat.text,
        [
            "`send-fields` stalls",
            "not the cost of copying",
            "HZ/25, 40 ms",
        ],
    );
    says(
        &caveat.evidence,
        [
            "of the round trips took 35 to 60 ms",
            "smoothed round-trip time of the socket 20,500 µs; its least 3 µs",
            "data in flight for 99 % of the time",
            "TCP_NODELAY is off",
        ],
    );
    says(
        &caveat.remedy,
        [
            "TCP_NODELAY on: 9",
            "one call (`sendmsg`): 9",
            "instead of 44",
        ],
    );
    let stalls = |id: &String| id.contains("send-fields") && id.contains("/off/");
    assert!(caveat.cells.iter().all(stalls));
}

#[test]
fn what_does_not_wait_for_the_timer_is_not_named() {
    silent(&asking("\"on\""), "nagle-stall");
    silent(&asking("\"auto\""), "nagle-stall");
    // Round trips of 44 ms over a path that is that long: the least round trip says so.
    let mut far = asking("\"off\"");
    far.each(|s| tcp(s, 41_000, 40_000));
    silent(&far, "nagle-stall");
    // A socket that is slow by itself, without answers at the timer.
    let mut slow = asking("\"off\"");
    let quick_samples = asking("\"on\"").samples;
    for (sample, quick) in slow.samples.iter_mut().zip(quick_samples) {
        sample.latency_ns_histogram = quick.latency_ns_histogram;
    }
    silent(&slow, "nagle-stall");
}

#[test]
fn one_call_is_a_remedy_too() {
    let mut world = asking("\"off\"");
    world.keep(|c| c.mover != "sendmsg");
    // One call next to it is a remedy of its own.
    let caveat = fires(&world, "nagle-stall", 3, "");
    says(&caveat.remedy, ["one call (`send`)"]);
}

#[test]
fn completions_that_wait_for_the_acknowledgement_are_named() {
    let study = with_axes("ring = [\"4MiB\", \"message\"]");
    let one_slot = |c: &Cell| c.mover == "send-zerocopy" && c.ring_slots() == 1;
    let mut world = World::new(&study).run(3, 8, 0.003, |cell| {
        // One message each 44 ms.
        let stalled = 8.0 * cell.size_bytes as f64 / 44e6;
        True::costs(0.2).at_rate(if one_slot(cell) { stalled } else { 1.0 })
    });
    world.each(|s| tcp(s, 30, 3));
    world.change(one_slot, |s| {
        tcp(s, 20_500, 3);
        for flow in &mut s.sender.flows {
            (flow.messages, flow.elapsed_ns) = (10, 440_000_000);
        }
    });
    let evidence = "the ring holds one message";
    let caveat = fires(&world, "completion-waits-for-ack", 4, evidence);
    let why = "`send-zerocopy` stalls: a buffer comes back when";
    says(&caveat.text, [why]);
    says(&caveat.remedy, ["more buffers in flight (--ring 4MiB)"]);
    world.change(one_slot, |s| tcp(s, 29, 3));
    silent(&world, "completion-waits-for-ack");
}

#[test]
fn where_delayed_acknowledgements_are_counted_the_count_decides() {
    let counted = |acks: u64| {
        let mut world = asking("\"off\"");
        world.put(stalls, At::Sender, [(Counter::Messages, 100)]);
        world.put(stalls, At::Machine, [(Counter::TcpDelayedAcks, acks)]);
        world
    };
    silent(&counted(5), "nagle-stall");
    // Not every message waits, but nearly all of the time goes into waiting.
    let most_time = "of the time went into these";
    fires(&counted(30), "nagle-stall", 3, most_time);
    let evidence = "delayed acknowledgements per message";
    fires(&counted(97), "nagle-stall", 3, evidence);
}

/// A long message that waits once, for a part of its time that matters.
#[test]
fn a_long_message_that_waits_once_stalls_and_a_longer_one_does_not() {
    let taking = |message_ms: u64| {
        let mut world = asking("\"off\"");
        world.change(stalls, |sample| {
            for flow in &mut sample.sender.flows {
                (flow.messages, flow.elapsed_ns) = (10, 10 * message_ms * 1_000_000);
            }
            put(&mut sample.sender.readings, Counter::Messages, 10);
            put(&mut sample.machine, Counter::TcpDelayedAcks, 5);
        });
        let quick_samples = asking("\"on\"").samples;
        for (sample, quick) in world.samples.iter_mut().zip(quick_samples) {
            let histogram = &quick.latency_ns_histogram;
            sample.latency_ns_histogram.clone_from(histogram);
        }
        world
    };
    // Half of its messages wait 35 ms or more: of 80 ms a fifth, of 400 ms hardly anything.
    fires(
        &taking(80),
        "nagle-stall",
        3,
        "0.50 delayed acknowledgements",
    );
    silent(&taking(400), "nagle-stall");
}

#[test]
fn a_stall_in_some_trials_is_reported_as_that_with_their_signs() {
    let in_blocks = |stall: fn(u32) -> bool| {
        let mut world = asking("\"off\"");
        let quick = world
            .samples
            .iter()
            .find(|s| s.cell.contains("/send/"))
            .expect("a sample")
            .clone();
        world.change(stalls, |s| {
            let is_stalled = stall(s.trial.block);
            let acks = if is_stalled { 100 } else { 0 };
            put(&mut s.machine, Counter::TcpDelayedAcks, acks);
            put(&mut s.sender.readings, Counter::Messages, 100);
            if !is_stalled {
                s.latency_ns_histogram
                    .clone_from(&quick.latency_ns_histogram);
                tcp(s, 4, 3);
            }
        });
        world
    };
    let evidence = "in 12 of 30 trials: 1 delayed acknowledgements per message; 9";
    let some = fires(
        &in_blocks(|block| block % 5 < 2),
        "nagle-stall",
        3,
        evidence,
    );
    begins(&some.evidence, evidence);
    // One of ten is an outlier.
    silent(&in_blocks(|block| block == 3), "nagle-stall");
}

#[test]
fn what_waits_for_a_timer_is_not_reported_as_waiting_for_a_wake_up() {
    let mut world = asking("\"off\"");
    let often = [(Counter::ContextSwitchesVoluntary, 1_000_000)];
    world.put(stalls, At::Sender, often);
    silent(&world, "wake-ups");
}
