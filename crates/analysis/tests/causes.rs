//! Causes of a difference: planted differences in counts, with planted unit costs.

use bytecost_analysis::{
    Analysis, AvoidWith, CauseMeans, CauseOf, FindingCauses, Interim, pairs_to_count,
};
use bytecost_spec::evidence::{
    Copied, CopiedBytes, CopyPlace, CountedEvent, EventCount, Kind, Party, TrialEvidence,
};
use bytecost_spec::survey::{CostTrial, Priced, Route, UnitCost};
use bytecost_spec::{Axis, Counter, Measure, Metric, Reading, Side, Value};
use bytecost_stats::Generator;

use crate::cpu_time::{EVERY_NS, looks, time_by_kind};
use crate::world::{self, Found, True, World, by_mover as of_mover, one, row, says, study};

const CALLS: CauseOf = CauseOf::Event(CountedEvent::SystemCalls);
const SWITCHES: CauseOf = CauseOf::Event(CountedEvent::ContextSwitches);
const WHY: &str = "why-one-way-wins";
const MESSAGES: f64 = 100_000.0;

const ASKED: &str = study!(
    "send-copies",
    r#"
[axes]
mover = ["send", "send-fields", "writev"]
size = ["256"]

[[compare]]
axis = "mover"
baseline = "send"
metrics = ["cpu_s_per_gb", "throughput_gbit_per_s"]
"#
);

/// The events of a message: calls, context switches, packets.
type Takes = [f64; 3];

/// A run in which a message of `send` takes 512 ns, one of `send-fields` `dearer_ns` more, and
/// `writev` is `send` by another name. What they take varies from trial to trial by `chance`.
fn counted(seed: u64, dearer_ns: f64, takes: [Takes; 2], chance: f64) -> World {
    counted_in(ASKED, seed, |_| dearer_ns, takes, chance)
}

/// The same of another study, in which it depends on the size by how much more.
fn counted_in(
    study: &str,
    seed: u64,
    dearer_ns: impl Fn(u64) -> f64,
    [send, fields]: [Takes; 2],
    chance: f64,
) -> World {
    let mut world = World::new(study).run(seed, 12, 0.02, |cell| {
        // The receiver takes 0.1 ns a byte.
        True::costs(match cell.mover.as_str() {
            "send-fields" => 1.9 + dearer_ns(cell.size_bytes) / cell.size_bytes as f64,
            _ => 1.9,
        })
    });
    let movers = ["send", "send-fields", "writev"];
    let rows = movers.map(|mover| row(mover, Route::MemoryToSocket));
    world.manifest.survey.mover_facts = rows.to_vec();
    let mut g = Generator::new(seed + 1000);
    for round in 0..5 {
        for number in 0..world.cells.len() {
            let is_dear = world.cells[number].mover == "send-fields";
            let takes = if is_dear { fields } else { send };
            let found = evidence(&world, number, round, takes, chance, &mut g);
            world.evidence.push(found);
        }
    }
    world
}

fn evidence(
    world: &World,
    number: usize,
    round: u32,
    takes: Takes,
    chance: f64,
    g: &mut Generator,
) -> TrialEvidence {
    let events = [
        (CountedEvent::SystemCalls, Side::Sender),
        (CountedEvent::ContextSwitches, Side::Receiver),
        (CountedEvent::Packets, Side::Both),
    ];
    let counts = events.into_iter().zip(takes).map(|((event, side), each)| {
        let count = MESSAGES * each * (chance * g.normal()).exp();
        EventCount {
            event,
            side,
            count: Reading::Measured(count as u64),
        }
    });
    let mut evidence = world.evidence_of(number);
    evidence.trial.attempt = round;
    evidence.sent_bytes = 256 * MESSAGES as u64;
    evidence.sent_messages = MESSAGES as u64;
    evidence.counts = counts.collect();
    evidence
}

/// A call costs 1 µs, a switch 3 µs on one CPU as across CPUs, a packet 2 µs; each to 2 %.
fn priced(mut world: World, times: f64) -> World {
    let trial = |ns: f64| CostTrial {
        cpu_ns: (1000.0 * times * ns) as i64,
        events: 1000,
        other_cpus_thousandths: None,
    };
    let cost = |event, ns: f64| UnitCost {
        event,
        trials: [0.98, 1.0, 1.02, 1.0, 0.99, 1.01]
            .map(|by| trial(ns * by))
            .to_vec(),
        absent: None,
    };
    world.manifest.survey.unit_costs = vec![
        cost(Priced::SocketCall, 1000.0),
        cost(Priced::SwitchSameCpu, 3000.0),
        cost(Priced::SwitchOtherCpu, 3000.0),
        cost(Priced::Packet, 2000.0),
    ];
    world
}

fn mover_causes<'a>(analysis: &'a Analysis, mover: &str) -> Option<&'a FindingCauses> {
    let metric = Metric::both(Measure::CpuSPerGb);
    let own = |c: &&FindingCauses| {
        let finding = analysis.findings.get(c.finding);
        finding.is_some_and(|f| f.metric == metric && f.value == mover)
    };
    analysis.causes.iter().find(own)
}

/// Seven more calls of 1 µs in 8.75 µs, a packet in ten more, and fewer switches.
fn eight_calls() -> World {
    counted(1, 8750.0, [[1.0, 0.05, 0.1], [8.0, 0.01, 0.2]], 0.02)
}

#[test]
fn calls_that_cost_most_are_named_first_with_their_share() {
    let analysis = priced(eight_calls(), 1.0).analyse();
    let found = mover_causes(&analysis, "send-fields").unwrap();
    let calls = one(&found.causes);
    assert_eq!(calls.of, CALLS);
    let share = calls.share.unwrap();
    assert!((share.value - 0.8).abs() < 0.05, "{share:?}");
    // The error of the model is a factor of three.
    let holds = (0.25..0.3).contains(&share.low) && (2.3..2.6).contains(&share.high);
    assert!(holds, "{share:?}");
    assert!((calls.cost_ns.unwrap().value - 7000.0).abs() < 200.0);
    says(
        analysis.answer(WHY),
        [
            "8.0",
            " system calls a message instead of ",
            "% of the difference or more",
        ],
    );
}

/// The reason of what is worse, with the places at which it is one.
fn reason(analysis: &Analysis) -> Option<(CauseOf, [f64; 2], Vec<Value>)> {
    let mut worse = analysis.advice.situations.iter().flat_map(|s| &s.avoid);
    match worse.next().expect("a way that is worse").with.clone()? {
        AvoidWith::Cause { of, from, to, at } => Some((of, [from, to], at)),
        AvoidWith::Copied(_) => None,
    }
}

fn is_of_calls(reason: Option<(CauseOf, [f64; 2], Vec<Value>)>) -> bool {
    reason.is_some_and(|(of, ..)| of == CALLS)
}

#[test]
fn the_reason_on_the_screen_carries_half_of_the_difference_at_that_size() {
    let takes = [[1.0, 0.05, 0.1], [8.0, 0.05, 0.1]];
    let most = priced(counted(1, 8750.0, takes, 0.0), 1.0).analyse();
    let (of_it, times, at) = reason(&most).unwrap();
    assert!(is_of_calls(Some((of_it, times, at.clone()))) && at.is_empty());
    assert_eq!(times.map(f64::round), [1.0, 8.0]);
    let little = priced(counted(1, 87_500.0, takes, 0.0), 1.0).analyse();
    let calls = one(&mover_causes(&little, "send-fields").unwrap().causes);
    let share = calls.share.unwrap().value;
    assert!((0.07..0.09).contains(&share), "{share}");
    assert!(!is_of_calls(reason(&little)));
    // Where a cause carries half at one of two sizes, that one is named.
    let two = ASKED.replace("[\"256\"]", "[\"256\", \"4KiB\"]");
    let dearer_ns = |size| if size == 256 { 8750.0 } else { 87_500.0 };
    let both = priced(counted_in(&two, 1, dearer_ns, takes, 0.0), 1.0).analyse();
    assert_eq!(reason(&both).unwrap().2, ["256"]);
    // Without unit costs nothing is known to carry anything.
    let unpriced = counted(1, 8750.0, takes, 0.0).analyse();
    assert!(!is_of_calls(reason(&unpriced)));
}

/// Lets CPU samples find so many ns of each kind in a message of two movers.
fn sampled(mut world: World, movers: [(&str, &[(Kind, f64)]); 2]) -> World {
    for (mover, kinds) in movers {
        let looks = kinds.iter().map(|(kind, ns)| {
            let count = ns * MESSAGES / EVERY_NS as f64;
            looks(Party::Sender, *kind, "f", count as u64, 0)
        });
        let mut found = world.evidence_of(world.place(mover, 256));
        found.sent_bytes = 256 * MESSAGES as u64;
        found.sent_messages = MESSAGES as u64;
        found.time = time_by_kind(looks.collect());
        world.evidence.push(found);
    }
    world
}

#[test]
fn samples_say_the_shares_where_they_show_the_difference() {
    use Kind::{DataCopy, Entry, Memory, Socket};
    let send: &[_] = &[(DataCopy, 800.0), (Entry, 300.0), (Socket, 700.0)];
    let fields: &[_] = &[
        (DataCopy, 3688.0),
        (Entry, 1600.0),
        (Socket, 5262.0),
        (Memory, 20.0),
    ];
    let with_all = [("send", send), ("send-fields", fields)];
    let of_all = sampled(priced(eight_calls(), 1.0), with_all).analyse();
    let found = mover_causes(&of_all, "send-fields").unwrap();
    assert_eq!(found.by, CauseMeans::Samples);
    let shares = found.causes.iter().map(|c| (c.of, c.share.unwrap()));
    let expected = [(Socket, 0.52), (DataCopy, 0.33), (Entry, 0.15)];
    for ((of, share), (kind, planted)) in shares.zip(expected) {
        assert_eq!(of, CauseOf::Work(kind));
        assert!(share.low < planted && planted < share.high, "{share:?}");
        assert!(share.high - share.low < 0.1, "{share:?}");
    }
    assert!(found.explained.unwrap().value > 0.99);
    says(of_all.answer(WHY), ["by CPU samples, ", "ns of data copy"]);
    assert_eq!(reason(&of_all).unwrap().0, CauseOf::Work(Socket));
    // A cost that is lower for the more expensive mover counts as negative.
    let saving: &[_] = &[(Entry, 1800.0), (Socket, 9462.0)];
    let with_saving = [("send", send), ("send-fields", saving)];
    let of_saving = sampled(priced(eight_calls(), 1.0), with_saving).analyse();
    let last = mover_causes(&of_saving, "send-fields")
        .unwrap()
        .causes
        .last()
        .unwrap();
    assert_eq!(last.of, CauseOf::Work(DataCopy));
    assert!((last.share.unwrap().value + 0.085).abs() < 0.01, "{last:?}");
    // Samples of another difference than that of the timed trials are of another regime.
    let with_copies = [("send", send), ("send-fields", &fields[..1])];
    let of_copies = sampled(priced(eight_calls(), 1.0), with_copies).analyse();
    assert_eq!(
        mover_causes(&of_copies, "send-fields").unwrap().by,
        CauseMeans::Counts
    );
}

#[test]
fn causes_are_net_of_what_the_dearer_way_saves() {
    // Seven calls more, and three packets fewer of 2 µs: 7 µs less 6 µs of 1 µs.
    let with_savings = counted(4, 1000.0, [[1.0, 0.05, 4.0], [8.0, 0.05, 1.0]], 0.005);
    let of_both = priced(with_savings, 1.0).analyse();
    let found = mover_causes(&of_both, "send-fields").unwrap();
    let named: Vec<CauseOf> = found.causes.iter().map(|c| c.of).collect();
    assert_eq!(named, [CALLS, CauseOf::Event(CountedEvent::Packets)]);
    let costs = found.causes.iter().map(|c| c.cost_ns.unwrap().value);
    let net: f64 = costs.sum();
    assert!((net - 1000.0).abs() < 200.0, "{net}");
    let explained = found.explained.unwrap();
    assert!((explained.value - 1.0).abs() < 0.2, "{explained:?}");
    says(of_both.answer(WHY), [" save ", "together "]);
    // Savings alone are no cause.
    let savings_alone = counted(4, 1000.0, [[1.0, 0.05, 4.0], [1.0, 0.05, 1.0]], 0.005);
    let of_savings = priced(savings_alone, 1.0).analyse();
    assert_eq!(mover_causes(&of_savings, "send-fields").unwrap().causes, []);
}

#[test]
fn unit_costs_of_repetitions_with_others_do_not_count() {
    let mut world = priced(eight_calls(), 1.0);
    let disturb = |disturbed: &mut World, some: usize| {
        for cost in &mut disturbed.manifest.survey.unit_costs {
            for trial in cost.trials.iter_mut().take(some) {
                trial.cpu_ns *= 3;
                trial.other_cpus_thousandths = Some(700);
            }
        }
    };
    disturb(&mut world, 2);
    let mostly_alone = world.analyse();
    let share = mover_causes(&mostly_alone, "send-fields").unwrap().causes[0].share;
    assert!((share.unwrap().value - 0.8).abs() < 0.05, "{share:?}");
    disturb(&mut world, 6);
    let analysis = world.analyse();
    assert_eq!(
        mover_causes(&analysis, "send-fields").unwrap().causes[0].share,
        None
    );
    assert!(!is_of_calls(reason(&analysis)));
}

#[test]
fn switches_are_those_of_timed_trials_since_counting_changes_them() {
    let mut world = counted(1, 2000.0, [[1.0, 0.05, 0.1], [1.0, 0.709, 0.1]], 0.02);
    world.change(of_mover("send-fields"), |sample| {
        let readings = &mut sample.receiver.as_mut().unwrap().readings;
        let messages = readings[&Counter::Messages].measured().unwrap();
        let switches = (0.487 * messages as f64) as u64;
        world::put(readings, Counter::ContextSwitchesVoluntary, switches);
    });
    let analysis = priced(world, 1.0).analyse();
    let switches = one(&mover_causes(&analysis, "send-fields").unwrap().causes);
    assert_eq!(switches.of, SWITCHES);
    assert!((switches.to - 0.487).abs() < 0.01, "{switches:?}");
}

#[test]
fn bytes_that_another_cpu_has_written_are_copied_at_that_price() {
    let cost = |placement: &str| {
        let axes = format!("[axes]\nplacement = [\"{placement}\"]");
        let study = ASKED.replace("[axes]", &axes);
        let takes = [[1.0, 0.05, 0.1]; 2];
        let mut world = priced(counted_in(&study, 1, |_| 200.0, takes, 0.0), 1.0);
        let (near, other) = (Priced::CopyMiddle, Priced::CopyOtherCpu);
        for (event, cpu_ns) in [(near, 10_000), (other, 40_000)] {
            let trials = [98, 100, 102, 100, 99, 101].map(|percent| CostTrial {
                cpu_ns: cpu_ns * percent / 100,
                events: 100_000,
                other_cpus_thousandths: None,
            });
            world.manifest.survey.unit_costs.push(UnitCost {
                event,
                trials: trials.to_vec(),
                absent: None,
            });
        }
        for found in &mut world.evidence {
            let copies = if found.cell.contains("/send-fields/") {
                2
            } else {
                1
            };
            found.copies = Some(CopiedBytes {
                payload_bytes: 1000,
                legs: vec![Copied {
                    leg: CopyPlace::ToReader,
                    means: None,
                    bytes: Reading::Measured(1000 * copies),
                }],
                gaps: Vec::new(),
            });
        }
        let analysis = world.analyse();
        one(&mover_causes(&analysis, "send-fields").unwrap().causes)
            .cost_ns
            .unwrap()
    };
    let (pinned, free) = (cost("pinned"), cost("free"));
    assert!((pinned.value - 0.4 * 256.0).abs() < 0.1, "{pinned:?}");
    assert!((free.value - 0.1 * 256.0).abs() < 0.1, "{free:?}");
    assert!(free.high > pinned.value, "{free:?}");
}

#[test]
fn a_cause_has_the_sign_of_the_effect() {
    for times in [0.0, 1.0] {
        let analysis = priced(eight_calls(), times).analyse();
        let mut causes = mover_causes(&analysis, "send-fields")
            .unwrap()
            .causes
            .iter();
        assert!(causes.all(|c| c.of != SWITCHES && c.to > c.from));
    }
    // The cheaper one is explained by fewer, less the packets that it has more of.
    let cheaper = counted(2, -300.0, [[1.3, 0.01, 0.1], [1.0, 0.05, 0.2]], 0.02);
    let analysis = priced(cheaper, 1.0).analyse();
    let found = mover_causes(&analysis, "send-fields").unwrap();
    let named: Vec<CauseOf> = found.causes.iter().map(|c| c.of).collect();
    assert_eq!(named, [CALLS, CauseOf::Event(CountedEvent::Packets)]);
}

#[test]
fn equal_cells_name_no_cause() {
    for seed in 0..20 {
        let world = counted(seed, 8750.0, [[1.0, 0.05, 0.1], [8.0, 0.05, 0.1]], 0.1);
        let analysis = priced(world, 1.0).analyse();
        assert_eq!(mover_causes(&analysis, "writev"), None, "{seed}");
        assert!(mover_causes(&analysis, "send-fields").is_some(), "{seed}");
    }
}

#[test]
fn chance_in_counts_is_no_cause_more_often_than_promised() {
    let mut named = 0;
    for seed in 0..60 {
        let equal = [1.0, 0.3, 0.3];
        let world = counted(seed, 600.0, [equal, equal], 0.2);
        let analysis = priced(world, 1.0).analyse();
        let found = mover_causes(&analysis, "send-fields").unwrap();
        named += found.causes.len();
        if found.causes.is_empty() {
            says(analysis.answer(WHY), ["the counts do not explain it"]);
        }
    }
    // Three events, each by chance more often in 2.5 % of runs: 4.5.
    assert!(named <= 9, "{named}");
}

#[test]
fn costs_that_are_more_than_the_difference_have_no_share() {
    let analysis = priced(eight_calls(), 1.6).analyse();
    let found = mover_causes(&analysis, "send-fields").unwrap();
    assert_eq!(found.explained, None);
    let mut causes = found.causes.iter();
    assert!(causes.all(|c| c.share.is_none() && c.cost_ns.is_some()));
    says(analysis.answer(WHY), ["no share"]);
}

#[test]
fn without_unit_costs_causes_are_named_without_shares() {
    let analysis = eight_calls().analyse();
    let found = mover_causes(&analysis, "send-fields").unwrap();
    assert_eq!(found.causes[0].of, CALLS);
    let mut causes = found.causes.iter();
    assert!(causes.all(|c| c.share.is_none() && c.cost_ns.is_none()));
    let answer = analysis.answer(WHY);
    says(&answer, ["system calls"]);
    assert!(!answer.contains('%'), "{answer}");
}

#[test]
fn timed_trials_give_the_counts_where_there_are_fewer_than_five_of_evidence() {
    let mut world = priced(eight_calls(), 1.0);
    world.evidence.retain(|e| e.trial.attempt < 4);
    world.change(of_mover("send-fields"), |sample| {
        let readings = &mut sample.sender.readings;
        let messages = readings[&Counter::Messages].measured().unwrap();
        readings.insert(Counter::Calls, Reading::Measured(7 * messages));
    });
    let analysis = world.analyse();
    let found = mover_causes(&analysis, "send-fields").unwrap();
    let calls = found.causes.iter().find(|c| c.of == CALLS).unwrap();
    // Both sides make one each, and this sender seven.
    let near = |counted: f64, expected: f64| (counted - expected).abs() < 0.01;
    assert!(near(calls.from, 2.0) && near(calls.to, 8.0), "{calls:?}");
}

#[test]
fn what_is_shown_on_the_way_is_a_ratio_with_its_precision_at_one_place() {
    let planted = |seed, blocks| {
        World::new(world::STUDY).run(seed, blocks, 0.02, |cell| match cell.mover.as_str() {
            "sendfile" => True::costs(0.15),
            _ => True::costs(0.3),
        })
    };
    let shown = |world: &World| Interim::new(world.input()).estimates;
    assert_eq!(shown(&planted(5, 2)), None, "two blocks say nothing");
    let [few, many] = [4, 40].map(|blocks| shown(&planted(5, blocks)).unwrap());
    assert_eq!((&few.baseline, few.axis), (&many.baseline, Axis::Mover));
    assert_eq!(few.baseline.mover, "send");
    for way in &many.ways {
        // The receiver takes 0.1 ns a byte.
        let is_sendfile = way.value == "sendfile";
        let truth = if is_sendfile { 0.25 / 0.4 } else { 1.0 };
        assert!((way.ratio / truth).ln().abs() < 0.03, "{way:?}");
        let before = few.ways.iter().find(|w| w.value == way.value).unwrap();
        assert!(way.half_width < before.half_width, "{before:?} {way:?}");
    }
}

#[test]
fn what_differs_most_is_counted_first() {
    let world = World::new(world::STUDY).run(3, 12, 0.02, |cell| match cell.mover.as_str() {
        "sendfile" => True::costs(0.1),
        "send-zerocopy" => True::costs(0.5),
        _ => True::costs(0.3),
    });
    let pairs = pairs_to_count(world.input());
    let have_sendfile = pairs.iter().map(|[_, other]| other.contains("sendfile"));
    assert_eq!(
        have_sendfile.collect::<Vec<bool>>(),
        [true, false],
        "one pair of each mover: {pairs:?}"
    );
    let mut baselines = pairs.iter().map(|[baseline, _]| baseline);
    assert!(baselines.all(|baseline| baseline.contains("/send/")));
}
