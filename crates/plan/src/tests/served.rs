//! Cells with a server: their refusals, and their lack of a loop's cost.

use bytecost_spec::survey::{ServerFacts, ServerSurvey, ServiceFacts, ServingLimits};
use bytecost_spec::{Cell, Survey, Transport};

use crate::host_sides::HostSides;

use super::{host, one, plan_on, refused, refuses, survey};

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
            filter_refused: None,
        }),
        ..survey()
    }
}

#[test]
fn a_plan_of_servers_has_no_cell_of_the_loops_cost() {
    let study = one("server epoll; size 64");
    let plan = plan_on(&study, &host(), &with_servers(LIMITS));
    assert_eq!(plan.cells.len(), 1, "{:?}", plan.cells);
}

#[test]
fn a_server_in_reach_of_others_is_refused_on_two_hosts_only() {
    let mut survey = with_servers(LIMITS);
    let why = "packet filters: Operation not permitted";
    survey.serving.as_mut().unwrap().filter_refused = Some(why.to_owned());
    let mut cell = one("server epoll; size 64").cells()[0].1.clone();
    let refused = |asked: &Cell, sides| crate::served::refused(asked, 0, &survey, sides);
    assert_eq!(refused(&cell, HostSides::Both), None);
    cell.transport = Transport::Peer;
    assert_eq!(refused(&cell, HostSides::Receiver).as_deref(), Some(why));
    assert_eq!(
        refused(&cell, HostSides::Sender),
        None,
        "it serves on the other host"
    );
}

#[test]
fn a_load_that_a_server_cannot_have_is_refused_with_the_reason() {
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
