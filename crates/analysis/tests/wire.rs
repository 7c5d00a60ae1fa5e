//! A transport without a receiving side: what is said of it, and what is not compared with it.

use bytecost_spec::{Counter, Measure, Metric, Reading, Sample, Side};

use crate::world::{At, Found, True, World, of, says, with_axes};

fn over(transports: &str) -> World {
    let mut world =
        World::new(&with_axes(&format!("transport = [{transports}]")))
            .run(1, 12, 0.003, |_| True::costs(0.2));
    world.change(
        |c| c.transport == bytecost_spec::Transport::Wire && c.mover != "null",
        |s| {
            let responder = s.receiver.take().unwrap();
            let cpu_ns = responder.readings[&Counter::CpuNs].measured().unwrap();
            count(s, Counter::ResponderCpuNs, cpu_ns);
            count(s, Counter::ResponderWritingNs, 1_000);
            count(s, Counter::WirePackets, 500);
            count(s, Counter::WireAcknowledgements, 100);
            count(s, Counter::WireGaps, 0);
            count(s, Counter::WireRepeats, 0);
        },
    );
    world
}

fn count(sample: &mut Sample, counter: Counter, value: u64) {
    sample.machine.insert(counter, Reading::Measured(value));
}

#[test]
fn that_one_side_is_measured_is_always_said() {
    let analysis = over("\"wire\"").analyse();
    assert_eq!(analysis.kinds(), [("one-side", 16)]);
    let caveat = &analysis.caveats[0];
    says(&caveat.text, ["the sender's cost alone"]);
    let told = "96,000 packets taken off, 19,200 acknowledgements written";
    assert_eq!(caveat.evidence, told);
    assert_eq!(over("\"loopback\"").analyse().kinds(), [("", 0); 0]);
}

#[test]
fn the_device_is_told_where_it_is_not_the_usual_one() {
    let check = |devices: &str, expected: &str| {
        let analysis = over(&format!("\"wire\"]\ndevice = [{devices}")).analyse();
        let text = &analysis.caveats[0].text;
        assert!(text.ends_with(expected), "{devices}: {text}");
    };
    let veth = "one end of a veth pair, not a tun device: each packet has the head of a frame too.";
    check("\"tun\"", "no receiver is in them.");
    check("\"veth\"", &format!("Their device was {veth}"));
    check(
        "\"tun\", \"veth\"",
        &format!("The device of those with device=veth was {veth}"),
    );
}

#[test]
fn what_nobody_receives_has_no_receivers_readings_and_says_why() {
    let analysis = over("\"wire\"").analyse();
    let measure = Measure::CpuSPerGb;
    let of = |side| Metric { measure, side };
    for cell in analysis.cells.iter().filter(|c| c.cell.mover != "null") {
        let both = cell.estimates[&of(Side::Both)].value;
        let sender = cell.estimates[&of(Side::Sender)].value;
        assert!((both / sender - 1.0).abs() < 1e-9);
        assert!(!cell.estimates.contains_key(&of(Side::Receiver)));
        let why = &cell.absent[&of(Side::Receiver)];
        assert!(why.contains("nobody receives over wire"), "{why}");
    }
}

#[test]
fn one_side_is_not_held_against_two() {
    for (transports, is_compared) in [
        ("\"loopback\", \"wire\"", false),
        ("\"loopback\", \"veth\"", true),
    ] {
        let mut world = over(transports);
        world.manifest.study.compare[0].axis = bytecost_spec::Axis::Transport;
        world.manifest.study.compare[0].baseline = "loopback".to_owned();
        assert_eq!(!world.analyse().findings.is_empty(), is_compared);
    }
}

#[test]
fn what_came_out_of_order_is_counted_and_told() {
    let mut world = over("\"wire\"");
    let strays = [(Counter::WireGaps, 2), (Counter::WireRepeats, 3)];
    world.put(of("writev"), At::Machine, strays);
    let analysis = world.analyse();
    assert_eq!(analysis.kinds(), [("one-side", 16), ("wire-strays", 4)]);
    let told = "96 packets began after what was expected and 144 brought nothing new, of 24,000";
    assert_eq!(analysis.caveats[1].evidence, told);
}

#[test]
fn work_on_the_responders_account_is_told_from_a_share_on() {
    let with = |share: f64| {
        let mut world = over("\"wire\"");
        world.change(of("send"), |s| {
            let cpu = s.sender.readings[&Counter::CpuNs].measured().unwrap() as f64;
            count(s, Counter::ResponderWritingNs, (cpu * share) as u64);
        });
        world.analyse()
    };
    assert_eq!(with(0.04).kinds(), [("one-side", 16)]);
    let analysis = with(0.2);
    assert_eq!(analysis.kinds(), [("one-side", 16), ("wire-responder", 4)]);
    says(&analysis.caveats[1].evidence, ["20 %"]);
}
