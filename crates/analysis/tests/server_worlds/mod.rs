//! A run with servers, of which is known what they do.

use bytecost_spec::survey::{ServerFacts, ServerSurvey};
use bytecost_spec::{Cell, Counter};

use crate::world::{True, World, put, scale, study};

const STUDY: &str = study!(
    "server-models",
    r#"
[axes]
pattern = ["request-response"]
server = ["epoll", "thread", "select", "single"]
size = ["64"]
connections = [1, 500]
idle = [0, 900]

[[tier]]
title = "busy"
[tier.axes]
server = ["epoll", "thread", "select"]
connections = [1, 500]
idle = [0]

[[tier]]
title = "idle"
[tier.axes]
server = ["epoll", "select"]
connections = [1]
idle = [900]

[[tier]]
title = "in turn"
[tier.axes]
server = ["single"]
connections = [1]
idle = [0]

[[compare]]
axis = "server"
baseline = "epoll"
metrics = ["messages_per_s", "server_cpu_ns_per_message", "latency_us_p50"]

[[compare]]
axis = "idle"
baseline = "0"
metrics = ["messages_per_s"]
"#
);

pub fn server(cell: &Cell) -> &str {
    cell.serving.server.as_deref().unwrap_or_default()
}

/// Requests per second: a thread for each connection does half, `select` falls to a quarter with
/// idle connections, and who serves one at a time is soonest.
fn rate(cell: &Cell) -> f64 {
    match (server(cell), cell.serving.connections, cell.serving.idle) {
        ("thread", 500, _) => 50_000.0,
        ("select", _, 900) => 20_000.0,
        ("single", ..) => 90_000.0,
        _ => 80_000.0,
    }
}

pub fn run() -> World {
    let mut world = World::new(STUDY);
    // The rest of the grid was not paid for.
    let tiers = world.manifest.study.tiers[..3].iter();
    let paid: Vec<Cell> = tiers.flat_map(|t| t.cells()).collect();
    world.cells.retain(|c| paid.contains(c));
    let facts = |name: &str| ServerFacts {
        name: name.to_owned(),
        in_turn: name == "single",
        task_per_connection: name == "thread",
        scans_all: name == "select",
        descriptors_below: (name == "select").then_some(1024),
        ..ServerFacts::default()
    };
    world.manifest.survey.serving = Some(ServerSurvey {
        servers: ["epoll", "thread", "select", "single"].map(facts).to_vec(),
        ..ServerSurvey::default()
    });
    let truth = |cell: &Cell| True {
        sender_ns_per_byte: 50.0,
        receiver_ns_per_byte: 100.0,
        gbit_per_s: rate(cell) * 64.0 * 8.0 / 1e9,
        latency_us: if server(cell) == "single" { 9.0 } else { 12.0 },
        copied: None,
    };
    world = world.run(3, 12, 0.01, truth);
    world.by_cell(|cell, sample| {
        let tasks = match server(cell) {
            "thread" => cell.serving.all_connections(),
            _ => 1,
        };
        let own = &mut sample.receiver.as_mut().unwrap().readings;
        put(own, Counter::Tasks, tasks);
        let memory_bytes = 1_000_000 + 20 * 1024 * (tasks - 1);
        put(own, Counter::MemoryBytes, memory_bytes);
        // It was looked at for half of the clients' window only.
        put(own, Counter::ElapsedNs, 50_000_000);
        scale(own, Counter::CpuNs, 0.5);
        for (counter, n) in [
            (Counter::GeneratorLimited, 0),
            (Counter::GeneratorBusyNs, 50_000_000),
            (Counter::GeneratorLateNsP99, 1000),
            (Counter::AnswersLeast, 30),
            (Counter::AnswersMedian, 40),
            (Counter::ErrorsRefused, 0),
            (Counter::ErrorsReset, 0),
            (Counter::ErrorsClosed, 0),
            (Counter::ErrorsTimeout, 0),
            (Counter::ErrorsWrong, 0),
            (Counter::ErrorsLocal, 0),
        ] {
            put(&mut sample.sender.readings, counter, n);
        }
    });
    world
}
