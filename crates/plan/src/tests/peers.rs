//! Runs on two hosts: what crosses, what either host refuses, and that a manifest keeps it.

use bytecost_spec::manifest::RatioNoise;
use bytecost_spec::{Axis, Cell, Host, PeerHost, PeerSide, Survey, Transport};

use super::{host, study, survey};
use crate::Plan;

fn peer(side: PeerSide) -> PeerHost {
    PeerHost {
        command: ["ssh", "--", "me@db7"].map(str::to_owned).to_vec(),
        address: "10.0.0.7".to_owned(),
        side,
        build: "b".to_owned(),
        host: host(),
        survey: survey(),
        cards: Vec::new(),
        round_trip_us: 200,
        path_mtu: None,
    }
}

/// The plan of the study with these changes, between two hosts.
fn plan(changes: &[(&str, &str)], survey: &Survey, peer: &PeerHost) -> Plan {
    let mut study = study(changes);
    study.go_to_peer();
    Plan::expecting(&study, &host(), survey, Some(peer), 7, &RatioNoise::ASSUMED).unwrap()
}

/// Why cells of a mover are refused.
fn why(plan: &Plan, mover: &str) -> Option<String> {
    let of_mover = |what: &str| Cell::from_id(what).is_some_and(|c| c.mover == mover);
    let found = plan.refusals.iter().find(|r| of_mover(&r.what))?;
    Some(found.why.clone())
}

#[test]
fn what_went_over_tcp_goes_to_the_other_host_and_the_rest_is_left_out() {
    let plan = plan(&[], &survey(), &peer(PeerSide::Receiver));
    let (floor, moved) = plan.cells.split_first().unwrap();
    assert_eq!(
        (floor.mover.as_str(), floor.transport),
        ("null", Transport::Loopback)
    );
    assert!(moved.len() >= 12);
    assert!(moved.iter().all(|c| c.transport == Transport::Peer));
    let fits = |why: &str| why.contains("RLIMIT_MEMLOCK");
    assert!(plan.refusals.iter().all(|r| fits(&r.why)));
    let stays: Vec<(&str, usize)> = (plan.left_out.iter())
        .filter(|l| l.why.contains("do not cross a network"))
        .map(|l| (l.what.as_str(), l.cells))
        .collect();
    assert_eq!(stays, [("transport unix", 36)]);
}

#[test]
fn cells_of_two_transports_that_become_one_are_one() {
    let both = [("[\"loopback\", \"unix\"]", "[\"loopback\", \"veth\"]")];
    let one = [("[\"loopback\", \"unix\"]", "[\"loopback\"]")];
    let cells = |changes| plan(changes, &survey(), &peer(PeerSide::Receiver)).cells;
    assert_eq!(cells(&both), cells(&one));
}

#[test]
fn the_side_that_plays_on_a_host_is_refused_by_that_host() {
    let without = |mover: &str, receiver: &str| {
        let mut lacking = survey();
        for row in lacking.movers.iter_mut().filter(|r| r.name == mover) {
            row.refused = Some("the kernel is too old".to_owned());
        }
        for row in lacking.receivers.iter_mut().filter(|r| r.name == receiver) {
            row.refused = Some("no such call".to_owned());
        }
        lacking
    };
    let there = |side, survey| PeerHost {
        survey,
        ..peer(side)
    };
    let lacks_mover = without("sendfile", "");
    let old = "mover `sendfile` over peer: the kernel is too old";
    // It sends here, so that what there is there does not matter.
    let fine = plan(
        &[],
        &survey(),
        &there(PeerSide::Receiver, lacks_mover.clone()),
    );
    assert_eq!(why(&fine, "sendfile"), None);
    let reverse = plan(
        &[],
        &survey(),
        &there(PeerSide::Sender, lacks_mover.clone()),
    );
    assert_eq!(why(&reverse, "sendfile"), Some(format!("on db7: {old}")));
    let own = plan(&[], &lacks_mover, &peer(PeerSide::Receiver));
    assert_eq!(why(&own, "sendfile").as_deref(), Some(old));
    let own = plan(&[], &lacks_mover, &peer(PeerSide::Sender));
    assert_eq!(why(&own, "sendfile"), None);
    let deaf = plan(
        &[],
        &survey(),
        &there(PeerSide::Receiver, without("", "recv")),
    );
    let told = why(&deaf, "send").unwrap();
    assert_eq!(told, "on db7: receiver `recv` over peer: no such call");
}

#[test]
fn what_needs_one_host_is_refused_with_its_remedy() {
    let told = |side, changes: &[(&str, &str)]| {
        let plan = plan(changes, &survey(), &peer(side));
        why(&plan, "send")
    };
    let near = [("size = [", "placement = [\"same-cpu\"]\nsize = [")];
    let near = told(PeerSide::Receiver, &near).unwrap();
    assert!(
        near.contains("two hosts") && near.contains("--placement free"),
        "{near}"
    );
    let group = [("size = [", "cgroup = [\"max=50%\"]\nsize = [")];
    let group = told(PeerSide::Receiver, &group).unwrap();
    assert!(group.contains("leave --cgroup"), "{group}");
    let load = [("size = [", "background = [\"spin\"]\nsize = [")];
    assert_eq!(told(PeerSide::Receiver, &load), None);
    let load = told(PeerSide::Sender, &load).unwrap();
    assert!(load.contains("--reverse"), "{load}");
}

#[test]
fn without_a_peer_the_way_to_it_is_refused() {
    let mut study = study(&[]);
    study.set_axis(Axis::Transport, &["peer"]).unwrap();
    let plan = Plan::new(&study, &host(), &survey(), 7).unwrap();
    assert!(plan.cells.is_empty(), "{:?}", plan.cells);
    let told = why(&plan, "send").unwrap();
    assert!(told.ends_with("name it with --peer"), "{told}");
}

#[test]
fn the_congestion_control_is_one_that_both_have() {
    let mut there = peer(PeerSide::Receiver);
    there.host = Host {
        congestion_available: vec!["reno".to_owned()],
        congestion_default: Some("reno".to_owned()),
        ..host()
    };
    let plan = plan(&[], &survey(), &there);
    assert!(plan.refusals.iter().all(|r| !r.why.contains("congestion")));
    assert!(plan.cells[1..].iter().all(|c| c.congestion == "reno"));
}
