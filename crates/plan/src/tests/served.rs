//! Cells with a server: what is the same measurement, what is refused, what has no loop's cost.

use bytecost_spec::survey::{ServerFacts, ServerSurvey, ServiceFacts, ServingLimits};
use bytecost_spec::{Axis, Cell, Survey};

use super::{host, one, refused, refuses, survey};
use crate::Plan;

const LIMITS: ServingLimits = ServingLimits {
    descriptors: 20_000,
    tasks: 5000,
    tasks_by: String::new(),
    ports: 28_232,
};

pub(super) fn services() -> Vec<ServiceFacts> {
    let service = |name: &str, sizes| ServiceFacts {
        name: name.to_owned(),
        summary: String::new(),
        sizes,
    };
    vec![service("top", None), service("echo", Some((1, 65_536)))]
}

fn with_servers(limits: ServingLimits) -> Survey {
    let server = |name: &str| ServerFacts {
        name: name.to_owned(),
        bound: (name == "select").then(|| (1000, "FD_SETSIZE is 1024".to_owned())),
        in_turn: name == "single",
        task_per_connection: name == "thread",
        refused: (name == "uring").then(|| "io_uring is closed".to_owned()),
        ..ServerFacts::default()
    };
    Survey {
        serving: Some(ServerSurvey {
            servers: ["single", "thread", "select", "epoll", "uring"]
                .map(server)
                .to_vec(),
            services: services(),
            limits: Some(ServingLimits {
                tasks_by: "kernel.threads-max".to_owned(),
                ..limits
            }),
            generator: None,
        }),
        ..survey()
    }
}

fn cells(axes: &str) -> Vec<Cell> {
    let study = one(&format!("server epoll; size 64; {axes}"));
    let survey = with_servers(LIMITS);
    Plan::new(&study, &host(), &survey, 1).unwrap().cells
}

#[test]
fn what_is_a_movers_business_means_nothing_to_a_server() {
    // No loop's cost: nothing of it is carried out by that loop.
    for (axes, expected) in [
        ("", "epoll"),
        ("fields 1 8; ring 1MiB 4MiB", "epoll"),
        ("cache warm; nodelay on off", "epoll"),
        ("service top; size 64 1KiB", "epoll/service=top"),
        ("rate 100; think 0 1ms", "epoll/rate=100"),
    ] {
        let cells = cells(axes);
        let ids: Vec<String> = cells.iter().map(Cell::id).collect();
        let found = ids.iter().map(|id| id.split_once("/server=").unwrap().1);
        assert_eq!(found.collect::<Vec<_>>(), [expected], "{axes}");
        assert!(cells.iter().all(|c| c.value(Axis::Pattern) == "ask"));
    }
}

#[test]
fn without_a_server_there_are_no_connections() {
    let cells = cells("server none; connections 1 2 3");
    assert_eq!(cells.len(), 2, "{cells:?}"); // the loop's cost, and the cell
    assert!(cells.iter().all(|c| !c.id().contains("connections")));
}

#[test]
fn what_a_server_cannot_is_refused_with_its_reason() {
    let few_ports = ServingLimits {
        descriptors: 1 << 20,
        ports: 1000,
        ..LIMITS
    };
    let many = ServingLimits {
        descriptors: 1 << 20,
        ports: 1 << 20,
        tasks: 1 << 20,
        ..LIMITS
    };
    for (limits, table) in [
        (
            LIMITS,
            "server single; connections 1 |
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
            congestion bbr | `bbr` is not available",
        ),
        (
            few_ports,
            "connections 1; idle 1000 | net.ipv4.ip_local_port_range leaves 1000",
        ),
        (
            many,
            "server thread; connections 40000 | memory: 40000 tasks of `thread`",
        ),
    ] {
        let survey = with_servers(limits);
        refuses(table, |axes| {
            let axes = format!("server epoll; size 64; {axes}");
            refused(&axes, &host(), &survey)
        });
    }
}
