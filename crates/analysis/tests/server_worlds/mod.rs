//! A run with servers, of which is known what they do.
#![allow(dead_code)] // each test file uses a part of it

use bytecost_analysis::{Analysis, Explanation};
use bytecost_spec::survey::{ServerFacts, ServerSurvey};
use bytecost_spec::{Cell, Counter, Reading};

use crate::world::{True, World, study};

const STUDY: &str = study!(
    "server-models",
    r#"
[axes]
pattern = ["ask"]
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

[[figure]]
title = "Rate"
x = "connections"
y = "messages_per_s"
series = "server"
"#
);

/// The model of a cell.
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

/// The run.
pub fn run() -> World {
    let mut world = World::new(STUDY);
    // The rest of the grid was not paid for.
    let paid: Vec<Cell> = world.manifest.study.tiers[..3]
        .iter()
        .flat_map(|t| t.cells())
        .collect();
    world.cells.retain(|c| paid.contains(c));
    let facts = |name: &str, task_per_connection| ServerFacts {
        name: name.to_owned(),
        in_turn: name == "single",
        task_per_connection,
        ..ServerFacts::default()
    };
    world.manifest.survey.serving = Some(ServerSurvey {
        servers: vec![
            facts("epoll", false),
            facts("thread", true),
            facts("select", false),
            facts("single", false),
        ],
        ..ServerSurvey::default()
    });
    let truth = |cell: &Cell| True {
        sender_ns_per_byte: 50.0,
        receiver_ns_per_byte: 100.0,
        gbit_per_s: rate(cell) * 64.0 * 8.0 / 1e9,
        latency_us: if server(cell) == "single" { 9.0 } else { 12.0 },
        copied: None,
    };
    let mut world = world.run(3, 12, 0.01, truth);
    let all: Vec<Cell> = world.cells.clone();
    world.each(|sample| {
        let cell = &all[sample.trial.cell as usize];
        let put = |side: &mut bytecost_spec::SideReadings, counter, n| {
            side.readings.insert(counter, Reading::Measured(n));
        };
        let tasks = match server(cell) {
            "thread" => cell.serving.all_connections(),
            _ => 1,
        };
        let server = sample.receiver.as_mut().unwrap();
        put(server, Counter::Tasks, tasks);
        put(
            server,
            Counter::MemoryBytes,
            1_000_000 + 20 * 1024 * (tasks - 1),
        );
        // It was looked at for half of the clients' window only.
        put(server, Counter::ElapsedNs, 50_000_000);
        let half = server.readings[&Counter::CpuNs].measured().unwrap() / 2;
        put(server, Counter::CpuNs, half);
        let clients = &mut sample.sender;
        put(clients, Counter::GeneratorLimited, 0);
        put(clients, Counter::GeneratorBusyNs, 50_000_000);
        put(clients, Counter::GeneratorLateNsP99, 1000);
        put(clients, Counter::AnswersLeast, 30);
        put(clients, Counter::AnswersMedian, 40);
        for counter in [
            Counter::ErrorsRefused,
            Counter::ErrorsReset,
            Counter::ErrorsClosed,
            Counter::ErrorsTimeout,
            Counter::ErrorsWrong,
            Counter::ErrorsLocal,
        ] {
            put(clients, counter, 0);
        }
    });
    world
}

/// What is told to a question.
pub fn explained<'a>(analysis: &'a Analysis, key: &str) -> &'a Explanation {
    crate::world::question(analysis, key).unwrap_or_else(|| panic!("{key} is not asked"))
}

/// The answer to a question, which there is.
pub fn answer<'a>(analysis: &'a Analysis, key: &str) -> &'a str {
    let explanation = explained(analysis, key);
    explanation.answer.as_deref().unwrap_or_else(|| {
        panic!("{key}: {:?}", explanation.missing);
    })
}
