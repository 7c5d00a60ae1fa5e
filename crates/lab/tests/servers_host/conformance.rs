//! All requests of all clients are answered, rightly and in order, and the server counts as many.

use std::sync::atomic::AtomicBool;

use bytecost_engine::{Server, Service};
use bytecost_lab::load::{Errors, Load, LoadSpan, Pace};
use bytecost_spec::service::Fairness;

use crate::process::{Running, Start};

/// The name of a load, and its difference to one connection with so many requests.
pub type Way = (&'static str, fn(&mut Load));

const EACH: u64 = 50;

pub const LOADS: &[Way] = &[
    ("one", |_| ()),
    ("many", |load| {
        (load.connections, load.idle, load.threads) = (20, 5, 2);
    }),
    ("pipelined", |load| (load.connections, load.depth) = (5, 16)),
    ("new-connections", |load| {
        (load.connections, load.kept) = (8, false);
        load.span = LoadSpan::Requests(10);
    }),
    ("open", |load| {
        load.connections = 10;
        load.pace = Pace::Open { per_s: 2000.0 };
        load.span = LoadSpan::Requests(20);
    }),
];

/// Messages that no call moves at once are tried with a single client.
fn sizes(service: &Service, is_single: bool) -> Vec<usize> {
    match service.sizes {
        None => vec![0],
        Some((_, most)) if is_single => vec![1, 64, most as usize],
        Some(_) => vec![3000],
    }
}

pub fn check(server: &'static Server, service: &'static Service, (name, way): Way) {
    for size in sizes(service, name == "one") {
        let running = Running::start(&Start::new(server, service.name, size));
        let descriptors = running.descriptors_alone();
        let mut load = running.load(service.name, size);
        load.span = LoadSpan::Requests(EACH);
        way(&mut load);
        if server.in_turn && load.kept {
            // A server that serves in turn would let kept connections wait for ever.
            (load.connections, load.idle, load.threads) = (1, 0, 1);
        }
        if service.name == "top" {
            // Its answers take a reading of the whole process table each.
            load.span = LoadSpan::Requests(3);
        }
        let LoadSpan::Requests(each) = load.span else {
            panic!("{name}: a load of so long is not counted");
        };
        let outcome = load.run(&AtomicBool::new(false), &|_| ()).unwrap();
        let all = each * u64::from(load.connections);
        assert_eq!(outcome.errors, Errors::default(), "size {size}");
        assert_eq!((outcome.answers, outcome.unanswered), (all, 0));
        assert_eq!(outcome.latency_ns.len(), all);
        let Fairness { least, most, .. } = outcome.fairness();
        if matches!(load.pace, Pace::Closed { .. }) {
            assert_eq!((least, most), (each, each));
        }
        running.has_descriptors(descriptors);
        let tally = running.stop();
        assert_eq!(tally.requests, all);
        assert_eq!(tally.connections, outcome.opened + 1);
        assert_eq!((tally.broken, tally.too_long, tally.timed_out), (0, 0, 0));
    }
}
