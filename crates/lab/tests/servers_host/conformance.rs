//! All requests of all clients are answered, rightly and in their order, and the server counts
//! as many as the clients.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytecost_engine::services::ServiceSetup;
use bytecost_engine::{Server, Service};
use bytecost_lab::load::{Errors, Load, LoadSpan, RequestPace};
use libtest_mimic::Failed;

use crate::process::{Running, Start};

/// A way to ask.
pub struct Way {
    pub name: &'static str,
    connections: u32,
    idle: u32,
    each: u64,
    kept: bool,
    depth: u32,
    open_per_s: Option<f64>,
    threads: u32,
}

const PLAIN: Way = Way {
    name: "one",
    connections: 1,
    idle: 0,
    each: 50,
    kept: true,
    depth: 1,
    open_per_s: None,
    threads: 1,
};

pub const LOADS: &[Way] = &[
    PLAIN,
    Way {
        name: "many",
        connections: 20,
        idle: 5,
        threads: 2,
        ..PLAIN
    },
    Way {
        name: "pipelined",
        connections: 5,
        depth: 16,
        ..PLAIN
    },
    Way {
        name: "new-connections",
        connections: 8,
        each: 10,
        kept: false,
        ..PLAIN
    },
    Way {
        name: "open",
        connections: 10,
        each: 20,
        open_per_s: Some(2000.0),
        ..PLAIN
    },
];

/// Messages that no call moves at once are tried with a single client.
fn sizes(service: &Service, way: &Way) -> Vec<usize> {
    match (service.sizes, way.connections) {
        (None, _) => vec![0],
        (Some((_, most)), 1) => vec![1, 64, most as usize],
        (Some(_), _) => vec![3000],
    }
}

pub fn check(server: &'static Server, service: &'static Service, way: &Way) -> Result<(), Failed> {
    // A server that serves in turn would let kept connections wait for ever.
    let in_turn = server.in_turn && way.kept;
    let connections = if in_turn { 1 } else { way.connections };
    let threads = way.threads.min(connections);
    // Its answers take a reading of the whole process table each.
    let each = if service.name == "top" { 3 } else { way.each };
    for size in sizes(service, way) {
        let running = Running::start(&Start::new(server, service.name, size));
        let descriptors = running.descriptors_alone();
        let mut load = Load::once(running.address, service, ServiceSetup::of(size));
        load.connections = connections;
        load.idle = if in_turn { 0 } else { way.idle };
        load.kept = way.kept;
        load.depth = way.depth;
        load.threads = threads;
        load.span = LoadSpan::Requests(each);
        load.patience = Duration::from_secs(60);
        if let Some(per_s) = way.open_per_s {
            load.pace = RequestPace::Open { per_s };
        }
        let outcome = load.run(&AtomicBool::new(false), &|_| ())?;
        let all = each * u64::from(connections);
        assert_eq!(outcome.errors, Errors::default(), "size {size}");
        assert_eq!((outcome.answers, outcome.unanswered), (all, 0));
        assert_eq!(outcome.latency_ns.len(), all);
        let fair = outcome.fairness();
        if way.open_per_s.is_none() {
            assert_eq!((fair.min, fair.max), (each, each));
        }
        running.has_descriptors(descriptors);
        let tally = running.stop();
        assert_eq!(tally.requests, all);
        assert_eq!(tally.connections, outcome.opened + 1);
        assert_eq!((tally.broken, tally.too_long, tally.timed_out), (0, 0, 0));
    }
    Ok(())
}
