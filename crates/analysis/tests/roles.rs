//! Counters, events and CPU samples of a server's roles for a request.

use bytecost_analysis::{CellCounts, TimePer};
use bytecost_spec::evidence::{CountedEvent, EventCount, Kind, Means, Party, TrialEvidence};
use bytecost_spec::{Cell, Counter, Reading, Side};

use crate::cpu_time::{EVERY_NS, looks, time_by_kind};
use crate::server_worlds::{run, server};
use crate::world::{self, Found, World, put, says, scale};

/// A thousand requests were answered: the server was found so often in its scheduler, and called
/// the kernel so often for each.
fn evidence(world: &World, number: usize, switching: u64, calls: u64) -> TrialEvidence {
    let looks = |party, kind, count| looks(party, kind, "f", count, 0);
    let called = |side, n| EventCount {
        event: CountedEvent::SystemCalls,
        side,
        count: Reading::Measured(1000 * n),
    };
    TrialEvidence {
        counts: vec![called(Side::Sender, 7), called(Side::Receiver, calls)],
        time: time_by_kind(vec![
            looks(Party::Sender, Kind::Protocol, 900),
            looks(Party::Receiver, Kind::Protocol, 100),
            looks(Party::Receiver, Kind::Scheduling, switching),
        ]),
        ..world.evidence_of(number)
    }
}

/// The run, whose two busy cells of 500 connections were watched and counted.
fn watched() -> World {
    let mut world = run();
    world.ask(&[Means::Counts, Means::Time]);
    let at = |name: &str| {
        let own = |c: &Cell| server(c) == name && c.serving.connections == 500;
        world.cells.iter().position(own).unwrap()
    };
    for attempt in 0..5 {
        for (server, switching, calls) in [("epoll", 20, 2), ("thread", 400, 3)] {
            let mut found = evidence(&world, at(server), switching, calls);
            found.trial.attempt = attempt;
            world.evidence.push(found);
        }
    }
    world
}

#[test]
fn what_a_request_takes_is_reported_of_the_server_alone() {
    let analysis = watched().analyse();
    let ns_per_look = EVERY_NS as f64 / 1000.0;
    for (id, switching) in [("epoll", 20.0), ("thread", 400.0)] {
        let mut times = analysis.cpu_time.iter();
        let time = times
            .find(|t| t.cell.contains(&format!("server={id}")))
            .unwrap();
        assert_eq!(time.per, TimePer::Request);
        let near = |found: f64, looks: f64| assert!((found - looks * ns_per_look).abs() < 1e-6);
        near(time.of_kind(Kind::Scheduling), switching);
        near(time.total(), 100.0 + switching);
    }
    let calls = |counts: &CellCounts| counts.per_message(CountedEvent::SystemCalls);
    let calls: Vec<_> = analysis.counts.iter().map(calls).collect();
    assert_eq!(calls, [Some(2.0), Some(3.0)]);
    let sides: Vec<Side> = analysis.counts[0].events.iter().map(|e| e.side).collect();
    assert_eq!(sides, [Side::Client, Side::Server]);
}

#[test]
fn why_one_server_is_better_is_reported_by_what_a_request_takes() {
    let mut world = watched();
    let is_thread = |cell: &Cell| server(cell) == "thread";
    world.change(is_thread, |sample| {
        let readings = &mut sample.receiver.as_mut().unwrap().readings;
        scale(readings, Counter::CpuNs, 2.0);
    });
    let analysis = world.analyse();
    let why = analysis.answer("why-one-way-wins");
    says(
        why,
        [
            "the CPU time per request of the server of `epoll`",
            "3 system calls of the server for each request instead of 2",
        ],
    );
}

#[test]
fn the_counters_of_a_role_are_those_of_its_own_window() {
    let mut counted = run();
    counted.each(|sample| {
        for side in sample.sides_mut() {
            let readings = &mut side.readings;
            let messages = readings[&Counter::Messages].measured().unwrap();
            put(readings, Counter::Cycles, 5000 * messages);
        }
    });
    let of_all = counted.analyse();
    let measured = of_all.cells.iter().filter(|c| c.trials > 0).count();
    assert_eq!(of_all.roles.len(), 2 * measured);
    for role in &of_all.roles {
        let mut counters = role.counters.iter();
        let cycles = counters.find(|c| c.name == "cpu_cycles").unwrap();
        // The server was looked at for half of the clients' window.
        let is_server = role.role == Side::Server;
        let expected = if is_server { 10_000.0 } else { 5000.0 };
        let found = cycles.per_request.unwrap();
        assert!((found / expected - 1.0).abs() < 0.02, "{role:?}");
    }
    // Where perf counts in some cells, only these are reported.
    let perf = of_all.cells.iter().position(|c| c.trials > 0).unwrap();
    let mut world = run();
    world.cells[perf].serving.perf = true;
    let id = world.cells[perf].id();
    let is_of_perf = |c: &Cell| c.serving.perf;
    world.change(is_of_perf, |sample| sample.cell.clone_from(&id));
    let analysis = world.analyse();
    assert_eq!(analysis.roles.len(), 2);
    assert!(analysis.roles.iter().all(|r| r.cell == id));
    assert_eq!(World::new(world::STUDY).analyse().roles, []);
}
