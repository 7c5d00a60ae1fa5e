//! Runs with servers: what is computed, what clients too slow withhold, and the questions answered.

use bytecost_analysis::{CaveatKind, Finding, Verdict};
use bytecost_spec::{Axis, Cell, Counter, Measure, Metric, Side};

use itertools::Itertools as _;

use crate::server_worlds::{run, server};
use crate::world::{Found, World, fires, found, put, question, says, scale, silent};

#[test]
fn a_servers_numbers_are_those_of_its_own_window() {
    let analysis = run().analyse();
    let mut cells = analysis.cells.iter();
    let cell = cells.find(|c| c.cell.serving.connections == 1).unwrap();
    let of = |measure, side| {
        let metric = Metric { measure, side };
        cell.estimates.get(&metric).map(|e| e.value)
    };
    let near = |estimate: Option<f64>, expected: f64| {
        let value = estimate.unwrap();
        assert!((value / expected - 1.0).abs() < 0.05, "{value} {expected}");
    };
    near(of(Measure::MessagesPerS, Side::Both), 80_000.0);
    // 64 B at 100 ns each, although only half of the window was looked at.
    near(of(Measure::CpuNsPerMessage, Side::Server), 6400.0);
    near(of(Measure::CpuNsPerMessage, Side::Client), 3200.0);
    near(of(Measure::CpuNsPerMessage, Side::Both), 9600.0);
    near(of(Measure::LeastServedShare, Side::Both), 0.75);
    assert_eq!(of(Measure::ErrorsPerMessage, Side::Both), Some(0.0));
    for measure in [Measure::ThroughputGbitPerS, Measure::CpuSPerGb] {
        assert_eq!(of(measure, Side::Both), None, "bytes mean nothing there");
    }
    assert_eq!(of(Measure::CpuNsPerMessage, Side::Sender), None);
}

#[test]
fn who_serves_one_at_a_time_is_compared_with_the_others() {
    let analysis = run().analyse();
    let single = question(&analysis, "single-soonest").unwrap();
    let start = "compared with `single` in median latency";
    says(single.answer.as_ref().unwrap(), [start]);
    let measures = single
        .findings
        .iter()
        .map(|number| analysis.findings[*number].metric.measure);
    assert_eq!(
        measures.unique().collect_vec(),
        [Measure::LatencyUsP50],
        "{single:#?}"
    );
}

/// A run in which `thread` costs twice as much CPU time, and how the clients of some cells may have
/// limited them.
fn limited(how: impl Fn(&Cell) -> u64) -> World {
    let mut world = run();
    world.by_cell(|cell, sample| {
        let of_clients = &mut sample.sender.readings;
        put(of_clients, Counter::GeneratorLimited, how(cell));
        let of_server = &mut sample.receiver.as_mut().unwrap().readings;
        if server(cell) == "thread" {
            scale(of_server, Counter::CpuNs, 2.0);
        }
    });
    world
}

#[test]
fn clients_that_were_the_limit_withhold_rates_and_leave_the_cost_of_a_request() {
    let world = limited(|cell| u64::from(server(cell) == "thread"));
    let caveat = fires(&world, "clients-limited", 2, "50 %");
    assert!(caveat.cells.iter().all(|id| id.contains("server=thread")));
    let analysis = world.analyse();
    let mut costs = 0;
    for finding in &analysis.findings {
        if finding.axis != Axis::Server || finding.value != "thread" {
            continue;
        }
        if finding.metric.measure == Measure::CpuNsPerMessage {
            costs += 1;
            assert_eq!(finding.verdict, Verdict::Worse, "{finding:?}");
        } else {
            assert_eq!(finding.verdict, Verdict::NotDecided);
            assert!(finding.withheld.is_some(), "{finding:?}");
        }
    }
    assert_eq!(costs, 2);
    let decided = |f: &&Finding| f.verdict != Verdict::NotDecided;
    assert!(analysis.findings.iter().any(|f| decided(&f)));
    assert!(!analysis.answer("which-server").contains("`thread`"));
    silent(&limited(|_| 0), "clients-limited");
}

/// A server that is slower than a rate that the clients capped is slower in any case.
#[test]
fn clients_that_limit_the_faster_server_leave_the_slower_one_its_verdict() {
    let of_thread = |limited_server: &'static str, factor: u64| {
        let mut world = limited(|cell| u64::from(server(cell) == limited_server));
        let is_thread = |cell: &Cell| server(cell) == "thread";
        world.change(is_thread, |sample| {
            for flow in &mut sample.sender.flows {
                flow.messages = flow.messages * factor / 4;
            }
        });
        let analysis = world.analyse();
        let mut findings = analysis.findings.into_iter();
        let rate = Metric::both(Measure::MessagesPerS);
        let found = findings.find(|f| f.metric == rate && f.value == "thread");
        found.unwrap().verdict
    };
    assert_eq!(of_thread("epoll", 1), Verdict::Worse);
    assert_eq!(of_thread("thread", 1), Verdict::NotDecided);
    assert_eq!(of_thread("epoll", 16), Verdict::NotDecided);
    assert_eq!(of_thread("thread", 16), Verdict::Better);
}

/// Where the clients of the baseline were the limit, the first sentence is about what a request
/// costs the server, there and nowhere else.
#[test]
fn the_first_sentence_is_of_what_the_clients_did_not_limit() {
    let metrics = |world: World| {
        let analysis = world.analyse();
        let situations = &analysis.advice.situations;
        let of = |at: &str| {
            let mut here = situations
                .iter()
                .filter(|s| s.axis == Axis::Server && s.baseline == "epoll" && s.measured == [at]);
            here.next().map(|s| (s.metric, s.avoid.len()))
        };
        (of("1"), of("500"))
    };
    let rate = Metric::both(Measure::MessagesPerS);
    let cost = Metric {
        measure: Measure::CpuNsPerMessage,
        side: Side::Server,
    };
    let crowd = |cell: &Cell| u64::from(cell.serving.connections == 500);
    let (alone, crowded) = metrics(limited(crowd));
    assert_eq!(crowded, Some((cost, 1)));
    assert_eq!(alone.unwrap().0, rate);
    let (_, unlimited) = metrics(limited(|_| 0));
    assert_eq!(unlimited, Some((rate, 1)));
    let analysis = limited(crowd).analyse();
    let mut situations = analysis.advice.situations.iter();
    let many = situations
        .find(|s| s.baseline == "epoll" && s.measured == ["500"])
        .unwrap();
    assert_eq!(many.avoid[0].cost.value, "thread");
    let open = many.open.as_ref().unwrap();
    assert_eq!(open.metric, rate);
    assert!(
        open.withheld.contains(&CaveatKind("clients-limited")),
        "{open:?}"
    );
}

#[test]
fn clients_are_no_limit_with_a_server_that_is_never_idle() {
    // What the server used and waited for in its window of 50 ms, its CPUs, and how the clients may
    // have limited it.
    let affected = |[server_ms, waited_ms, cpus]: [u64; 3], how: u64| {
        let mut world = run();
        world.each(|sample| {
            put(&mut sample.sender.readings, Counter::GeneratorLimited, how);
            let readings = &mut sample.receiver.as_mut().unwrap().readings;
            for (counter, n) in [
                (Counter::CpuNs, server_ms * 1_000_000),
                (Counter::RunQueueNs, waited_ms * 1_000_000),
                (Counter::CpusAllowed, cpus),
            ] {
                put(readings, counter, n);
            }
        });
        !found(&world, "clients-limited").is_empty()
    };
    assert!(!affected([49, 0, 1], 1));
    assert!(!affected([40, 9, 1], 1), "others had its CPU");
    assert!(affected([49, 0, 2], 1));
    assert!(affected([40, 0, 1], 1));
    assert!(affected([49, 0, 1], 2), "what is late is late all the same");
}

#[test]
fn connections_that_a_full_queue_dropped_are_the_kernels_and_not_the_servers() {
    let world = |drops: u64| {
        let mut world = run();
        let is_thread = |cell: &Cell| server(cell) == "thread";
        world.change(is_thread, |sample| {
            put(&mut sample.machine, Counter::TcpListenDrops, drops);
        });
        world
    };
    let caveat = fires(&world(3), "listen-queue", 2, "connections dropped");
    assert!(caveat.cells.iter().all(|id| id.contains("server=thread")));
    let analysis = world(3).analyse();
    let is_rate = |f: &&Finding| f.metric == Metric::both(Measure::MessagesPerS);
    let rate = analysis
        .findings
        .iter()
        .filter(is_rate)
        .find(|f| f.value == "thread");
    assert_eq!(rate.unwrap().verdict, Verdict::NotDecided);
    silent(&world(0), "listen-queue");
}

#[test]
fn a_connection_that_was_tried_again_is_the_kernels_wait_and_not_the_servers() {
    let world = |again: u64, drops: u64| {
        let mut world = run();
        world.change(
            |cell| server(cell) == "thread",
            |sample| {
                put(&mut sample.machine, Counter::TcpSynRetransmits, again);
                put(&mut sample.machine, Counter::TcpListenDrops, drops);
            },
        );
        world
    };
    let caveat = fires(
        &world(3, 0),
        "connected-again",
        2,
        "SYN segments sent again",
    );
    assert!(caveat.cells.iter().all(|id| id.contains("server=thread")));
    silent(&world(0, 0), "connected-again");
    // A full queue is the reason, and has a caveat of its own.
    silent(&world(3, 3), "connected-again");
}
