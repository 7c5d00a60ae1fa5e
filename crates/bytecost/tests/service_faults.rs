//! Faults that a server by hand meets on an open port and at a limit, and requests that it refuses.

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::common::{Ended, Place, ended, nobody, says};
use crate::live_common::{Server, last, patient, rest};
use bytecost_engine::SERVERS;
use rustix::process::Signal;

#[test]
fn what_is_bad_is_refused_in_one_line() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let place = Place::new();
    place.refuses(
        "live server",
        &format!(
            "top --port {port} => port {port} is in use | choose another
            zap => 'zap'
            ecko => 'ecko' | 'echo'
            top --mover send => --mover
            top --model warp => `warp` | choose from single | uring
            top --size 64 => --size | top
            echo --size 0 => size `0` | 1 to 65536
            echo --size 1MiB => size `1048576` | 1 to 65536
            echo --workers 2 => `epoll` | --workers | pool
            top --model select --connections 1001 => FD_SETSIZE | poll or epoll
            top --patience 0 => patience `0s` | 1ms
            top --idle-timeout 9h => idle-timeout | 3600s
            top --listen 192.0.2.7 => 192.0.2.7 can be reached | --allow
            top --listen 192.0.2.7 --allow nobody => `nobody` is no IP address
            top --listen 192.0.2.7 --allow 192.0.2.0/24 => 192.0.2.7 is no address"
        ),
    );
    for command in ["live server top --port 0", "live load 127.0.0.1:1"] {
        place.refuses(
            command,
            "--cpu 60000 => CPU 60000 does not exist | choose from 0
            --cpu 0-60000 => does not exist
            --cpu x => --cpu `x` | 0-3,8
            --cpu 1-0 => runs backwards
            --cpu , => --cpu `,`",
        );
    }
    place.refuses(
        "live",
        "send --mover send top => 'top'
        load nowhere => `nowhere` is no IP address
        load 127.0.0.1 zap => `zap` | top, echo, fixed
        load --size 64 => --size | top
        load --connections 0 => 0 connections
        load --threads 2 => 2 threads | 1 connection
        load --depth 2 --think 1s => depth 2
        load --rate 0 => rate 0
        load --rate 5 --think 1s => --rate | --think
        load --duration 0s => duration `0s`
        load --ramp 48h => ramp | 86400s
        load --requests 1 --duration 1s => --requests | --duration",
    );
}

#[test]
fn nobody_and_somebody_else_are_told_with_what_to_do() {
    let (_held, port) = nobody();
    let check = |end: Ended, expected: &str| {
        assert_eq!((end.status, end.stderr.lines().count()), (Some(1), 1));
        says(&end.stderr, &[expected]);
    };
    let refused = Place::new().call(format!("live load 127.0.0.1:{port} echo"));
    let remedy = format!("start `bytecost live server echo --port {port}`");
    check(refused, &remedy);
    let served = Server::of_service("echo --size 100");
    for ask in ["echo --size 101", "fixed --size 4"] {
        let end = served.ask(&format!("{ask} --patience 300ms"));
        check(end, "response from 127.0.0.1");
    }
    check(
        Server::of_service("fixed --size 100").ask("top"),
        "same service",
    );
}

#[test]
fn a_signal_under_load_ends_every_model_with_its_tally() {
    for model in SERVERS {
        let served = Server::of_service(&format!("echo --model {}", model.name));
        let connections = if model.in_turn { 1 } else { 8 };
        let load = served.loaded(&format!("echo --connections {connections} --duration 100s"));
        assert_eq!(served.running.out(), "");
        let tally = served.tally(Signal::TERM);
        assert!(tally["requests"].as_u64().unwrap() > 0, "{}", model.name);
        // The load ends by itself, long before its time, and says when the server went.
        let end = load.end();
        assert_eq!(end.status, Some(1), "{}", model.name);
        let totals = last(&end.stdout);
        assert!(totals["server_gone_s"].is_number(), "{totals}");
        assert!(totals["elapsed_s"].as_f64().unwrap() < 99.0, "{totals}");
        assert_eq!(totals["errors"]["wrong"], 0, "{totals}");
        assert_eq!(totals["errors"]["timeout"], 0, "{totals}");
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    for model in SERVERS {
        let served = Server::of_service(&format!("fixed --size 1MiB --model {}", model.name));
        let mut client = served.connected();
        client.write_all(b"get\nget\nget\nget\n").unwrap();
        client.read_exact(&mut [0]).unwrap(); // the answers wait for somebody to read them
        // Both signals are pending when it continues: the end does not depend on who is faster.
        served.running.send(Signal::STOP);
        served.running.send(Signal::INT);
        served.running.send(Signal::TERM);
        let end = served.running.ended_by(Signal::CONT);
        assert_eq!(end.status, Some(130), "{}", model.name);
        assert_eq!(end.stdout, "", "{}", model.name);
        rest(&mut client); // no child is left
    }
}

#[test]
fn what_a_client_does_wrong_is_in_the_tally() {
    let served = Server::of_service("top --patience 10s --idle-timeout 10s --per-address 2");
    let mut half = served.connected();
    half.write_all(b"to").unwrap();
    let mut silent = served.connected();
    rest(&mut served.connected());
    rest(&mut half);
    rest(&mut silent);
    served.asked("top");
    let tally = served.tally(Signal::INT);
    for (bound, closed) in [("timed_out", 1), ("idle", 1), ("slow", 0), ("crowded", 1)] {
        assert_eq!(tally[bound], closed, "{tally}");
    }
    assert_eq!(tally["requests"], 2, "{tally}");
}

#[test]
fn responses_of_all_connections_fit_into_memory() {
    let words = "live server fixed --size 1MiB --port 0 --connections 1000000";
    ended(&mut Place::new().bytecost(words)).refused(&["available memory: choose at most"]);
}

#[test]
fn the_limit_of_descriptors_is_raised_as_far_as_is_allowed_and_told_beyond() {
    let check = |words: &str| {
        let end = ended(&mut Place::new().limited("-n 200", words));
        end.refused(&["ulimit -Hn", "200 are allowed"]);
    };
    check("live server echo --port 0 --connections 1000");
    check("live load 127.0.0.1:1 --connections 1000");
    check("live load 127.0.0.1:1 --idle 1000");
    // Soft below hard: raised.
    let place = Place::new();
    let words = patient("live server echo --port 0 --connections 300 --json");
    let served = Server::of(place.start(&mut place.limited("-Sn 100", &words)));
    let load = served.asked("echo --connections 200 --requests 2");
    assert_eq!(load["answers"], 400);
    served.tally(Signal::INT);
}
