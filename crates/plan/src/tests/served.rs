//! Cells with a server: what is the same measurement, what is refused, what has no loop's cost.

use bytecost_spec::survey::{ServerFacts, ServerSurvey, ServiceFacts, ServingLimits};
use bytecost_spec::{Axis, Study, Survey};

use super::{host, is_refused, rows, study, survey};
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
        let values: Vec<&str> = value.split(' ').collect();
        one.set_axis(*axis, &values).unwrap();
    }
    one
}

fn plan(changes: &[(Axis, &str)]) -> Plan {
    Plan::new(&served(changes), &host(), &with_servers(), 1).unwrap()
}

#[test]
fn what_is_a_movers_business_means_nothing_to_a_server() {
    // No loop's cost: nothing of it is carried out by that loop.
    let table = "| epoll
        fields 1 8; ring 1MiB 4MiB | epoll
        cache warm; nodelay on off | epoll
        service top; size 64 1KiB | epoll/service=top
        rate 100; think 0 1ms | epoll/rate=100";
    for (axes, expected) in rows(table) {
        let cells = plan(&axes).cells;
        let ids: Vec<String> = cells.iter().map(|c| c.id()).collect();
        let found = ids.iter().map(|id| id.split_once("/server=").unwrap().1);
        assert_eq!(found.collect::<Vec<_>>(), [expected], "{axes:?}");
        assert!(cells.iter().all(|c| c.value(Axis::Pattern) == "ask"));
    }
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
    let table = "server single; connections 1 |
        server single; connections 2 | all but one wait for ever
        server single; connections 2; connect new |
        server single; idle 1 | holds up all others for ever
        server select; connections 1000 |
        server select; connections 1001 | FD_SETSIZE is 1024
        server uring; connections 1 | io_uring is closed
        server thread; connections 4744 |
        server thread; connections 4745 | kernel.threads-max allows 5000
        server epoll; connections 19680 |
        server epoll; connections 19681 | a server of 19681 connections needs 20001
        threads 2 | choose fewer --threads
        depth 4; connect new | choose --depth 1
        transport unix | to another host alone, not over unix
        placement 0:7 | CPU 7 is not among those
        congestion bbr | `bbr` is not available";
    for (axes, reason) in rows(table) {
        let refusals = plan(&axes).refusals;
        is_refused(&axes, refusals.into_iter().next().map(|r| r.why), reason);
    }
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
