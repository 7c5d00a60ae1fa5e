//! Reports of live servers, and of loads on them.

use std::time::Duration;

use bytecost_report::{Style, service};
use bytecost_spec::Arrivals;
use bytecost_spec::service::{
    Asked, Asking, Fairness, GeneratorCost, Latencies, Pace, Process, Response, ServerTally,
};

const STYLE: Style = Style::plain(100);

fn asked() -> Asked {
    let think = Duration::ZERO;
    Asked {
        asking: Asking {
            address: "127.0.0.1:8080".to_owned(),
            service: "echo".to_owned(),
            size_bytes: Some(64),
            connections: 4,
            idle: 1000,
            kept: true,
            depth: 1,
            threads: 2,
            pace: Pace::Closed { think },
            arrivals: Arrivals::Fixed,
        },
        elapsed_s: 2.0,
        answers: 123_456,
        answers_per_s: 61_728.0,
        unanswered: 0,
        latency: Some(Latencies {
            count: 123_456,
            us_p50: 30.125,
            us_p90: 41.0,
            us_p99: 80.0,
            us_p999: 912.0,
            us_max: 12_345.0,
        }),
        errors: vec![("refused", 0), ("closed", 0), ("timeout", 0)],
        opened: 1004,
        fairness: Fairness {
            least: 30_100,
            median: 30_864,
            most: 31_000,
        },
        generator: GeneratorCost {
            busy_share: 0.34,
            cpu_s: 0.7,
            late_us_p99: None,
            limit: None,
            way: "io_uring",
            no_ring: None,
        },
        interrupted: false,
        server_gone_s: None,
    }
}

#[test]
fn a_load_is_told_in_rows() {
    insta::assert_snapshot!("service_load", service::asked(&asked(), STYLE));
}

#[test]
fn the_verdict_is_what_the_figures_bear() {
    let check = |change: &dyn Fn(&mut Asked), words: &str| {
        let mut load = asked();
        change(&mut load);
        let text = service::asked(&load, Style::plain(400));
        let verdict = text.lines().find(|l| l.starts_with("  verdict")).unwrap();
        assert!(verdict.contains(words), "`{words}`: {verdict}");
    };
    check(&|_| (), "the load generator was not busy");
    let limit = |l: &mut Asked| l.generator.limit = Some("it was busy".to_owned());
    let reason = "none, the load generator was the limit: it was busy";
    let wrong = |l: &mut Asked| l.errors[1].1 = 3;
    let both = |l: &mut Asked| {
        limit(l);
        wrong(l);
    };
    let starved = |l: &mut Asked| {
        wrong(l);
        l.fairness.least = 0;
    };
    let think = Duration::from_millis(100);
    let think = |l: &mut Asked| l.asking.pace = Pace::Closed { think };
    check(&limit, reason);
    check(&both, reason);
    check(&wrong, "did not serve all");
    check(&|l| l.unanswered = 1, "did not serve all");
    check(&starved, "--new-connections");
    check(&|l| l.answers = 999, "none, 999 responses are too few");
    check(&think, "pauses set the rate");
    for arrivals in [Arrivals::Fixed, Arrivals::Poisson] {
        let open = |l: &mut Asked, per_s| {
            (l.asking.pace, l.asking.arrivals) = (Pace::Open { per_s }, arrivals);
        };
        check(&|l| open(l, 62_000.0), "kept up with the rate");
        check(&|l| open(l, 123_456.0), "did not keep up: 50\u{a0}%");
    }
}

#[test]
fn an_answer_of_top_is_a_table_that_no_name_can_break() {
    let process = |name: &str, pid| Process {
        name: name.to_owned(),
        pid,
        user_s: 12.34,
        kernel_s: 1.2,
    };
    let answer = Response::Busiest(vec![process("cc1 (x) y", 99), process("a\x1b[2J\nb", 1)]);
    let text = service::answer(&asked().asking, &answer, STYLE);
    insta::assert_snapshot!("service_top", text);
}

#[test]
fn programs_get_one_object_a_line() {
    let answer = Response::Content { bytes: 64 };
    let mut load = asked();
    load.generator.limit = Some("it was busy".to_owned());
    load.latency = None;
    let texts = [
        service::answer_json(&load.asking, &answer),
        service::asked_json(&load),
        service::tally_json("epoll", "top", &ServerTally::default()),
    ];
    let objects = texts.map(|text| {
        assert_eq!(text.matches('\n').count(), 1);
        let object: serde_json::Value = serde_json::from_str(&text).unwrap();
        serde_json::to_string_pretty(&object).unwrap()
    });
    insta::assert_snapshot!("service_json", objects.join("\n"));
}

#[test]
fn a_tally_names_what_went_wrong_and_nothing_else() {
    let mut tally = ServerTally {
        connections: 5,
        requests: 1234,
        ..ServerTally::default()
    };
    let summary = |seen: &ServerTally| service::tally("epoll", "top", seen);
    let text = "`epoll` served 1,234 requests of `top` on 5 connections";
    assert_eq!(summary(&tally), format!("{text}\n"));
    (tally.idle, tally.slow, tally.crowded) = (5, 4, 3);
    (tally.broken, tally.put_off) = (2, 1);
    let more = "connections closed as idle: 5; connections closed for receiving too slowly: 4; connections closed for too many of one address: 3; connections broken: 2; times a connection had to wait for room: 1";
    assert_eq!(summary(&tally), format!("{text}; {more}\n"));
}
