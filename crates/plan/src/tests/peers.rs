//! Runs on two hosts: the cells that cross the network, and the refusals of either host.

use bytecost_spec::manifest::RatioNoise;
use bytecost_spec::{Host, PeerHost, PeerSide, Plan, Survey, Transport};

use super::{host, study, survey};

fn peer(side: PeerSide) -> PeerHost {
    PeerHost {
        name: "db7".to_owned(),
        program: "ssh".to_owned(),
        command_digest: String::new(),
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

fn plan(changes: &[(&str, &str)], survey: &Survey, peer: &PeerHost) -> Plan {
    let mut study = study(changes);
    study.go_to_peer();
    let noise = Some(&RatioNoise::ASSUMED);
    let here = crate::SurveyedHost {
        host: &host(),
        survey,
    };
    crate::plan(&study, here, Some(peer), 7, noise).unwrap()
}

fn refusal(plan: &Plan, mover: &str) -> Option<String> {
    let found = plan.refused.iter().find(|r| r.cell.mover == mover)?;
    Some(found.why.clone())
}

#[test]
fn cells_over_tcp_go_to_the_other_host_and_others_are_left_out() {
    let plan = plan(&[], &survey(), &peer(PeerSide::Receiver));
    let (null_cell, others) = plan.cells.split_first().unwrap();
    assert_eq!(null_cell.mover, "null");
    assert_eq!(null_cell.transport, Transport::Loopback);
    assert!(others.len() >= 12);
    assert!(others.iter().all(|c| c.transport == Transport::Peer));
    let mut reasons = plan.refused.iter().map(|r| &r.why);
    assert!(reasons.all(|why| why.contains("RLIMIT_MEMLOCK")));
    let left_out: Vec<(&str, usize)> = (plan.left_out.iter())
        .filter(|l| l.why.contains("do not cross a network"))
        .map(|l| (l.what.as_str(), l.cells))
        .collect();
    assert_eq!(left_out, [("transport unix", 36)]);
}

#[test]
fn cells_that_become_equal_on_two_hosts_are_measured_once() {
    let two_transports = [("[\"loopback\", \"unix\"]", "[\"loopback\", \"veth\"]")];
    let one_transport = [("[\"loopback\", \"unix\"]", "[\"loopback\"]")];
    let cells = |changes| plan(changes, &survey(), &peer(PeerSide::Receiver)).cells;
    assert_eq!(cells(&two_transports), cells(&one_transport));
}

#[test]
fn each_host_refuses_for_the_side_that_it_runs() {
    let without = |name: &str| {
        let mut survey = survey();
        let rows = survey.movers.iter_mut().chain(&mut survey.receivers);
        for row in rows.filter(|r| r.name == name) {
            row.refused = Some("the kernel is too old".to_owned());
        }
        survey
    };
    let (all, no_mover, no_receiver) = (survey(), without("sendfile"), without("recv"));
    let mover = "mover `sendfile` over peer: the kernel is too old";
    let mover_there: &str = &format!("on db7: {mover}");
    let receiver = "on db7: receiver `recv` over peer: the kernel is too old";
    for (side, here, there, expected) in [
        // This host sends, so that the peer needs no mover.
        (PeerSide::Receiver, &all, &no_mover, None),
        (PeerSide::Sender, &all, &no_mover, Some(mover_there)),
        (PeerSide::Receiver, &no_mover, &all, Some(mover)),
        (PeerSide::Sender, &no_mover, &all, None),
        (PeerSide::Receiver, &all, &no_receiver, Some(receiver)),
    ] {
        let peer = PeerHost {
            survey: there.clone(),
            ..peer(side)
        };
        let plan = plan(&[], here, &peer);
        assert_eq!(refusal(&plan, "sendfile").as_deref(), expected, "{side:?}");
    }
}

#[test]
fn a_feature_of_one_host_is_refused_with_its_remedy() {
    for (side, axis, remedy) in [
        (
            PeerSide::Receiver,
            "placement = [\"same-cpu\"]",
            "on two hosts: choose --placement free",
        ),
        (
            PeerSide::Receiver,
            "cgroup = [\"max=50%\"]",
            "leave --cgroup",
        ),
        (PeerSide::Receiver, "background = [\"spin\"]", ""),
        (PeerSide::Sender, "background = [\"spin\"]", "--reverse"),
    ] {
        let axes = format!("{axis}\nsize = [");
        let plan = plan(&[("size = [", &axes)], &survey(), &peer(side));
        let why = refusal(&plan, "send").unwrap_or_default();
        assert_eq!(why.is_empty(), remedy.is_empty(), "{axis}: {why}");
        assert!(why.contains(remedy), "{axis}: {why}");
    }
}

#[test]
fn the_congestion_control_is_available_to_the_sender() {
    let mut other_host = peer(PeerSide::Sender);
    other_host.host = Host {
        congestion_available: vec!["reno".to_owned()],
        congestion_default: Some("reno".to_owned()),
        ..host()
    };
    let sending = plan(&[], &survey(), &other_host);
    assert!(
        sending
            .refused
            .iter()
            .all(|r| !r.why.contains("congestion"))
    );
    assert!(sending.cells[1..].iter().all(|c| c.congestion == "reno"));
    other_host.side = PeerSide::Receiver;
    let plan = plan(&[], &survey(), &other_host);
    assert!(plan.refused.iter().all(|r| !r.why.contains("congestion")));
    assert!(plan.cells[1..].iter().all(|c| c.congestion == "cubic"));
}
