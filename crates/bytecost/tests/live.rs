//! `bytecost live send` and `bytecost live receive` as a newcomer starts them.

use std::net::TcpListener;

use crate::common::{Ended, PATIENCE, Place, Started, says, unread, until};
use crate::live_common::{Server, bytes_of, last, objects, totals};
use rustix::process::Signal;
use serde_json::Value;

/// The output of both sides of a session that went well and that neither of them cut off.
fn agree(sender: &Value, receiver: &Value, flows: usize) {
    for (end, side) in [(receiver, "receiver"), (sender, "sender")] {
        assert_eq!(end["kind"], "totals");
        assert_eq!(end["side"], side);
        assert_eq!(end["reason"], Value::Null);
        assert_eq!(end["flow_bytes"].as_array().unwrap().len(), flows);
        assert!(end["cpu_s_per_gb"].as_f64().unwrap() > 0.0, "{end}");
    }
    assert!(bytes_of(sender) > 0);
    assert_eq!(sender["flow_bytes"], receiver["flow_bytes"]);
}

/// A session of both ends. Where the machine stands still for a moment, an end does not wait for the
/// other's last bytes: then it is held again.
fn whole(session: impl Fn() -> (Value, Value)) -> (Value, Value) {
    let mut ends = session();
    for _ in 0..4 {
        if ends.0["cut"] == true || ends.1["cut"] == true {
            ends = session();
        }
    }
    ends
}

/// Totals of the side that listens and of the one that connects, in a session that the connecting
/// one ends with Ctrl-C after so many seconds; and the lines of that one.
fn session(listening: impl Fn() -> Server, side: &str, words: &str, seconds: usize) -> [String; 2] {
    let server = std::cell::RefCell::new(None);
    let (here, there) = whole(|| {
        let mut listener = listening();
        let mut other = listener.joined(side, words);
        other.until_output("seconds", |out, _| objects(out).len() >= seconds);
        let end = other.ended_by(Signal::INT).succeeded();
        listener.until_sessions_over(1);
        let listened = listener.end().stdout;
        let ends = (totals(&listened).remove(0), last(&end));
        *server.borrow_mut() = Some([listened, end]);
        ends
    });
    assert_eq!(
        (&here["ended"], &there["ended"]),
        (&"there".into(), &"here".into())
    );
    server.into_inner().unwrap()
}

#[test]
fn a_stream_of_several_flows_goes_either_way_round_and_both_count_the_same() {
    let sends = "--mover sendmsg --size 4096 --threads 4";
    let check = |sender: &str, receiver: &str| {
        let lines = objects(receiver);
        let (seconds, received) = (&lines[..lines.len() - 1], last(receiver));
        let sent = totals(sender).remove(0);
        agree(&sent, totals(receiver).last().unwrap_or(&received), 4);
        assert_eq!(sent["messages"].as_u64().unwrap() * 4096, bytes_of(&sent));
        let fairness = sent["fairness"].as_f64().unwrap();
        assert!((0.25..=1.0).contains(&fairness), "{fairness}");
        for (i, line) in seconds.iter().filter(|l| l["kind"] == "second").enumerate() {
            assert!(line["second"].as_u64().unwrap() > i as u64);
            assert_eq!(line["messages"], Value::Null, "it does not know their size");
        }
    };
    let [sender, receiver] = session(
        || Server::sender(&format!("--json {sends}")),
        "receive",
        "",
        2,
    );
    check(&sender, &receiver);
    let [received, sent] = session(|| Server::receiver("--json"), "send", sends, 2);
    check(&sent, &received);
}

#[test]
fn responses_are_counted_and_their_times_are_the_senders() {
    let asking = "--json --size 64 --threads 2 --pattern request-response";
    let [sender, receiver] = session(|| Server::sender(asking), "receive", "--size 64", 2);
    let (sender, receiver) = (totals(&sender).remove(0), last(&receiver));
    agree(&sender, &receiver, 2);
    assert_eq!(sender["messages"], receiver["messages"]);
    let at = |key: &str| sender[key].as_f64().unwrap();
    assert!(at("latency_us_p50") > 0.0);
    assert!(at("latency_us_p50") <= at("latency_us_p99"));
    assert!(at("latency_us_p99") <= at("latency_us_max"));
    assert_eq!(receiver["latency_us_p50"], Value::Null);
}

#[test]
fn zero_copy_shows_what_was_copied_after_all() {
    let sends = "--json --mover send-zerocopy --size 64KiB";
    let [sender, _] = session(|| Server::sender(sends), "receive", "", 1);
    let sender = totals(&sender).remove(0);
    let share = sender["copied_share"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&share), "{share}");
    let completions = &sender["readings"]["completions"];
    assert_eq!(*completions, sender["messages"], "all came back");
}

#[test]
fn both_sides_speak_in_words() {
    let server =
        Server::sender("--mover send-zerocopy --size 16KiB --threads 2 --pattern request-response");
    let end = server.received("--duration 1300ms --size 16KiB");
    assert_eq!(end.status, Some(0), "{}", end.stderr);
    says(
        &end.flat(),
        &[
            "session 1 from 127.0.0.1:",
            "messages of 16 KiB, 2 flows, each with a response",
            "session 1 ended here",
            "bytecost run --pattern request-response --receiver recv --size 16KiB --threads 2",
        ],
    );
    assert_eq!(end.stderr, "");
    says(
        &server.end().flat(),
        &[
            "session 1 to 127.0.0.1:",
            "p99 µs",
            "session 1 ended by the other side",
            "bytecost run --pattern request-response --mover send-zerocopy --size 16KiB --threads 2",
            "1 session, ",
        ],
    );
}

#[test]
fn quiet_is_the_totals_alone() {
    let server = Server::sender("--quiet --size 4KiB");
    let as_json = server.received("--quiet --json --duration 1200ms");
    assert_eq!(objects(&as_json.stdout).len(), 1, "{}", as_json.stdout);
    let end = server.received("--quiet --duration 1200ms");
    assert!(end.stdout.starts_with("session 1 ended"), "{}", end.stdout);
    let listened = server.end().stdout;
    assert!(listened.starts_with("session 1 ended"), "{listened}");
    says(&listened, &["session 2 ended", "2 sessions, "]);
}

#[test]
fn ctrl_c_at_the_side_that_connects_ends_its_session_and_not_the_other_program() {
    for signal in [Signal::INT, Signal::TERM] {
        let mut server = Server::sender("--json --threads 2 --size 4KiB");
        let end = server.receiving("").ended_by(signal);
        assert_eq!(end.status, Some(0), "{}", end.stderr);
        assert_eq!(last(&end.stdout)["ended"], "here");
        server.until_sessions_over(1);
        assert_eq!(last(&server.running.out())["ended"], "there");
        server.serves();
        assert_eq!(last(&server.end().stdout)["failed"], 0);
    }
}

#[test]
fn ctrl_c_at_the_side_that_listens_ends_both() {
    let check = |listening: fn() -> Server, side: &str, words: &str| {
        let (listened, other) = whole(|| {
            let server = listening();
            let port = server.port;
            let other = server.joined(side, words);
            let listened = server.end().stdout;
            until("the port is free again", PATIENCE, || {
                TcpListener::bind(("127.0.0.1", port)).is_ok()
            });
            let end: Ended = other.end();
            assert_eq!(last(&listened)["kind"], "served");
            (totals(&listened).remove(0), last(&end.succeeded()))
        });
        assert_eq!(
            (&listened["ended"], &other["ended"]),
            (&"here".into(), &"there".into())
        );
        let (sender, receiver) = match side {
            "send" => (other, listened),
            _ => (listened, other),
        };
        agree(&sender, &receiver, 2);
    };
    check(
        || Server::sender("--json --threads 2 --size 4KiB"),
        "receive",
        "",
    );
    check(
        || Server::receiver("--json"),
        "send",
        "--threads 2 --size 4KiB",
    );
    check(
        || Server::sender("--json --threads 2 --size 4KiB --pattern request-response"),
        "receive",
        "--size 4KiB",
    );
}

#[test]
fn the_other_side_may_be_started_later() {
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = held.local_addr().unwrap();
    drop(held);
    let mut early = Started::alone(&format!("live send --json --size 4KiB --connect {at}"));
    early.until_output("a note", |_, err| err.contains("nothing listens"));
    let mut late = Started::alone(&format!("live receive --json --listen {at}"));
    late.until_output("a second", |out, _| !objects(out).is_empty());
    let end = early.ended_by(Signal::INT).succeeded();
    assert!(bytes_of(&last(&end)) > 0);
    late.ended_by(Signal::INT).succeeded();
}

#[test]
fn names_and_ipv6_work_on_both_sides() {
    for listen in ["[::1]:0", "localhost:0"] {
        let listening = format!("live receive --json --listen {listen}");
        let server = Server::of(Started::alone(&listening));
        let host = listen.trim_end_matches(":0");
        let words = format!(
            "live send --size 4KiB --json --duration 1200ms --connect {host}:{}",
            server.port
        );
        let end = Place::new().call(&words).succeeded();
        assert!(bytes_of(&last(&end)) > 0, "{words}");
        server.end();
    }
}

#[test]
fn a_program_without_a_session_ends_as_well() {
    let end = Server::sender("").end();
    assert_eq!(end.stdout, "0 sessions, 0 bytes\n");
}

#[test]
fn a_reader_that_has_seen_enough_ends_the_session() {
    let server = Server::sender("--size 4KiB");
    unread(&mut Place::new().bytecost(server.join("receive", "")));
    server.serves();
}

#[test]
fn what_cannot_be_is_refused_in_one_line() {
    let place = Place::new();
    place.refuses(
        "live send",
        "zap => 'zap'
        --size 0 => size `0` | out of bounds
        --size 64,128 => --size | one value | bytecost run
        --size 64 --size 128 => --size | one value
        --threads 257 => threads `257` | 1 to 256
        --mover warp => `warp` | choose from | sendmsg
        --mover null => `null` | sends nothing | sendmsg
        --receiver warp => `warp` | choose from
        --mover sendmsg --size 100 => 100 | 8 fields | --fields
        --congestion tachyon => tachyon
        --transport unix => --transport unix | bytecost run
        --transport veth => --transport veth | bytecost run
        --depth 4 => --depth 4
        --placement 9999:0 => 9999
        --listen 127.0.0.1:65536 => `127.0.0.1:65536` | no address
        --listen 192.0.2.1 --allow 192.0.2.0/24 => 192.0.2.1 | --listen
        --listen 0.0.0.0 => 0.0.0.0 | --allow
        --listen [::]:0 => :: | --allow
        --listen 127.0.0.1 --connect 127.0.0.1 => --listen | --connect
        --connect 127.0.0.1:0 => --connect | not 0
        --connect 127.0.0.1 --allow 127.0.0.1 => --connect | --allow
        --max-duration 0s => --max-duration `0s`
        --duration 0s => --duration `0s`
        --duration -1s => -1s
        --max-rate 1 => --max-rate `1` | 65536
        --allow nobody => `nobody` is no IP address
        --ring 4GiB --threads 256 => --ring",
    );
    place.refuses(
        "live receive",
        "nowhere => 'nowhere'
        --listen 0.0.0.0 => 0.0.0.0 | --allow
        --pattern stream => --pattern | bytecost live send
        --mover send => --mover | bytecost live send
        --threads 2 => --threads | bytecost live send
        --receiver warp => `warp` | choose from
        --size 0 => size `0`
        --size 1,2 => --size | one value
        --duration soon => soon",
    );
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = held.local_addr().unwrap().port();
    let row = format!("--listen 127.0.0.1:{port} => port {port} is in use | --listen");
    place.refuses("live send", &row);
    place.refuses("live receive", &row);
}
