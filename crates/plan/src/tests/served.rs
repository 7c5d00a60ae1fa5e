//! Cells with a server: what is the same measurement, what is refused, what has no loop's cost.

use bytecost_spec::survey::{ServerFacts, ServerSurvey, ServiceFacts, ServingLimits};
use bytecost_spec::{Axis, Study, Survey};

use super::{host, study, survey};
use crate::Plan;

fn with_servers() -> Survey {
    let server = |name: &str, task_per_connection| ServerFacts {
        name: name.to_owned(),
        bound: (name == "select").then(|| (1000, "FD_SETSIZE is 1024".to_owned())),
        in_turn: name == "single",
        task_per_connection,
        refused: (name == "uring").then(|| "io_uring is closed".to_owned()),
        ..ServerFacts::default()
    };
    let service = |name: &str, sizes| ServiceFacts {
        name: name.to_owned(),
        summary: String::new(),
        sizes,
    };
    Survey {
        serving: Some(ServerSurvey {
            servers: vec![
                server("single", false),
                server("thread", true),
                server("select", false),
                server("epoll", false),
                server("uring", false),
            ],
            services: vec![service("top", None), service("echo", Some((1, 65_536)))],
            limits: Some(ServingLimits {
                descriptors: 20_000,
                tasks: 5000,
                tasks_by: "kernel.threads-max".to_owned(),
                ports: 28_232,
            }),
            generator: None,
        }),
        ..survey()
    }
}

fn served(changes: &[(Axis, &str)]) -> Study {
    let mut one = study(&[]);
    for (axis, value) in [
        (Axis::Server, "epoll"),
        (Axis::Size, "64"),
        (Axis::Mover, "send"),
        (Axis::Transport, "loopback"),
        (Axis::Threads, "1"),
    ]
    .iter()
    .chain(changes)
    {
        let values: Vec<String> = value.split(' ').map(str::to_owned).collect();
        one.set_axis(*axis, &values).unwrap();
    }
    one
}

fn plan(changes: &[(Axis, &str)]) -> Plan {
    Plan::new(&served(changes), &host(), &with_servers(), 1).unwrap()
}

#[test]
fn what_is_a_movers_business_means_nothing_to_a_server() {
    let check = |changes: &[(Axis, &str)], ids: &[&str]| {
        let cells = plan(changes).cells;
        let found: Vec<String> = cells
            .iter()
            .map(|c| {
                let id = c.id();
                id.split_once("/server=").unwrap().1.to_owned()
            })
            .collect();
        assert_eq!(found, ids, "{changes:?}");
        assert!(cells.iter().all(|c| c.value(Axis::Pattern) == "ask"));
    };
    // No loop's cost: nothing of it is carried out by that loop.
    check(&[], &["epoll"]);
    check(
        &[(Axis::Fields, "1 8"), (Axis::Ring, "1MiB 4MiB")],
        &["epoll"],
    );
    check(
        &[(Axis::Cache, "warm"), (Axis::Nodelay, "on off")],
        &["epoll"],
    );
    check(
        &[(Axis::Service, "top"), (Axis::Size, "64 1KiB")],
        &["epoll/service=top"],
    );
    check(
        &[(Axis::Rate, "100"), (Axis::Think, "0 1ms")],
        &["epoll/rate=100"],
    );
}

#[test]
fn without_a_server_there_are_no_connections() {
    let plan = plan(&[(Axis::Server, "none"), (Axis::Connections, "1 2 3")]);
    let ids: Vec<String> = plan.cells.iter().map(|c| c.id()).collect();
    assert_eq!(ids.len(), 2, "{ids:?}"); // the loop's cost, and the cell
    assert!(ids.iter().all(|id| !id.contains("connections")));
}

#[test]
fn what_a_server_cannot_is_refused_with_its_reason() {
    let check = |changes: &[(Axis, &str)], needle: &str| {
        let plan = plan(changes);
        let why = plan.refusals.first().map(|r| r.why.as_str());
        match (needle, why) {
            ("", None) => {}
            (_, Some(why)) if !needle.is_empty() => assert!(why.contains(needle), "{why}"),
            other => panic!("{changes:?}: {other:?}"),
        }
    };
    let of = |server, connections| [(Axis::Server, server), (Axis::Connections, connections)];
    check(&of("single", "1"), "");
    check(&of("single", "2"), "all but one wait for ever");
    let mut fresh = of("single", "2").to_vec();
    fresh.push((Axis::Connect, "new"));
    check(&fresh, "");
    check(
        &[(Axis::Server, "single"), (Axis::Idle, "1")],
        "holds up all others for ever",
    );
    check(&of("select", "1000"), "");
    check(&of("select", "1001"), "FD_SETSIZE is 1024");
    check(&of("uring", "1"), "io_uring is closed");
    check(&of("thread", "4744"), "");
    check(&of("thread", "4745"), "kernel.threads-max allows 5000");
    check(&of("epoll", "19680"), "");
    check(
        &of("epoll", "19681"),
        "a server of 19681 connections needs 20001",
    );
    check(&[(Axis::Threads, "2")], "choose fewer --threads");
    check(
        &[(Axis::Depth, "4"), (Axis::Connect, "new")],
        "choose --depth 1",
    );
    check(
        &[(Axis::Transport, "unix")],
        "to another host alone, not over unix",
    );
    check(&[(Axis::Placement, "0:7")], "CPU 7 is not among those");
    check(&[(Axis::Congestion, "bbr")], "`bbr` is not available");
}

#[test]
fn ports_and_memory_are_bounds_too() {
    let mut survey = with_servers();
    let limits = survey.serving.as_mut().and_then(|s| s.limits.as_mut());
    if let Some(limits) = limits {
        (limits.descriptors, limits.ports, limits.tasks) = (1 << 20, 1000, 1 << 20);
    }
    let check = |changes: &[(Axis, &str)], needle: &str| {
        let plan = Plan::new(&served(changes), &host(), &survey, 1).unwrap();
        assert!(plan.refusals[0].why.contains(needle), "{:?}", plan.refusals);
    };
    check(
        &[(Axis::Connections, "1"), (Axis::Idle, "1000")],
        "net.ipv4.ip_local_port_range leaves 1000",
    );
    if let Some(limits) = survey.serving.as_mut().and_then(|s| s.limits.as_mut()) {
        limits.ports = 1 << 20;
    }
    let thread = [(Axis::Server, "thread"), (Axis::Connections, "40000")];
    let plan = Plan::new(&served(&thread), &host(), &survey, 1).unwrap();
    assert!(
        plan.refusals[0]
            .why
            .contains("memory: 40000 tasks of `thread`")
    );
}
