//! A transport without a receiving side: what is said of it, and what is not compared with it.

use bytecost_spec::{Axis, Cell, Counter, Transport};

use crate::world::{At, True, World, by_mover, fires, put, says, silent, with_axes};

fn over(transports: &str) -> World {
    let study = with_axes(&format!("transport = [{transports}]"));
    let mut world = World::new(&study).run(1, 12, 0.003, |_| True::costs(0.2));
    let is_moved = |c: &Cell| c.transport == Transport::Wire && c.mover != "null";
    world.change(is_moved, |s| {
        let responder = s.receiver.take().unwrap();
        let cpu_ns = responder.readings[&Counter::CpuNs].measured().unwrap();
        put(&mut s.machine, Counter::ResponderCpuNs, cpu_ns);
    });
    let counts = [
        (Counter::ResponderWritingNs, 1_000),
        (Counter::WirePackets, 500),
        (Counter::WireAcknowledgements, 100),
        (Counter::WireGaps, 0),
        (Counter::WireRepeats, 0),
    ];
    world.put(is_moved, At::Machine, counts);
    world
}

#[test]
fn that_one_side_is_measured_is_always_said() {
    let world = over("\"wire\"");
    let caveat = fires(&world, "one-side", 16, "");
    says(&caveat.text, ["the sender's cost alone"]);
    let evidence = "96,000 packets taken off, 19,200 acknowledgements written";
    assert_eq!(caveat.evidence, evidence);
    assert_eq!(bytecost_report::caveats(&world.analyse()), [caveat]);
    silent(&over("\"loopback\""), "one-side");
}

#[test]
fn the_device_is_reported_where_it_is_not_the_usual_one() {
    let check = |devices: &str, expected: &str| {
        let analysis = over(&format!("\"wire\"]\ndevice = [{devices}")).analyse();
        let text = &bytecost_report::caveats(&analysis)[0].text;
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
fn one_side_is_not_held_against_two() {
    for (transports, is_compared) in [
        ("\"loopback\", \"wire\"", false),
        ("\"loopback\", \"veth\"", true),
    ] {
        let mut world = over(transports);
        world.manifest.study.compare[0].axis = Axis::Transport;
        world.manifest.study.compare[0].baseline = "loopback".into();
        assert_eq!(!world.analyse().findings.is_empty(), is_compared);
    }
}

#[test]
fn what_came_out_of_order_is_counted_and_reported() {
    let mut world = over("\"wire\"");
    let strays = [(Counter::WireGaps, 2), (Counter::WireRepeats, 3)];
    silent(&world, "wire-strays");
    world.put(by_mover("writev"), At::Machine, strays);
    let evidence =
        "96 packets began after what was expected and 144 brought nothing new, of 24,000";
    let caveat = fires(&world, "wire-strays", 4, evidence);
    assert_eq!(caveat.evidence, evidence);
}

#[test]
fn work_on_the_responders_account_is_reported_from_a_share_on() {
    let with = |share: f64| {
        let mut world = over("\"wire\"");
        world.change(by_mover("send"), |s| {
            let cpu = s.sender.readings[&Counter::CpuNs].measured().unwrap() as f64;
            let written = (cpu * share) as u64;
            put(&mut s.machine, Counter::ResponderWritingNs, written);
        });
        world
    };
    silent(&with(0.04), "wire-responder");
    fires(&with(0.2), "wire-responder", 4, "20 %");
}
