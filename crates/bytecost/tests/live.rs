//! Live sessions: `bytecost live send` and `bytecost live receive` as a newcomer starts them.

use std::net::TcpListener;

use crate::common::{Ended, PATIENCE, Place, says, unread, until};
use crate::live_common::{Server, bytes_of, last, objects, summaries};
use rustix::process::Signal;
use serde_json::Value;

/// What both ends must say of any session that went well.
fn agree(client: &Value, server: &Value, flows: usize) {
    for (end, side) in [(client, "receiver"), (server, "sender")] {
        assert_eq!(end["kind"], "summary");
        assert_eq!(end["side"], side);
        assert_eq!(end["failed"], Value::Null);
        assert_eq!(end["own"]["flow_bytes"].as_array().unwrap().len(), flows);
    }
    for key in ["bytes", "messages", "flow_bytes"] {
        assert_eq!(client["own"][key], server["own"][key], "{key}");
        assert_eq!(client["peer"][key], server["own"][key], "{key}");
        assert_eq!(server["peer"][key], client["own"][key], "{key}");
    }
    assert!(bytes_of(&client["own"]) > 0);
    assert!(client["own"]["compared_bytes"].as_u64().unwrap() > 0);
    for part in [&client["own"], &client["peer"]] {
        assert!(part["cpu_s_per_gb"].as_f64().unwrap() > 0.0, "{part}");
    }
}

/// A session as both ends told it. Where the machine stands still for a moment, an end does not
/// wait for the other's last bytes or words: then it is held again.
fn whole(session: impl Fn() -> (Ended, Ended)) -> (Ended, Ended) {
    let is_whole = |(client, server): &(Ended, Ended)| {
        let ends = [last(&client.stdout), summaries(&server.stdout).remove(0)];
        let is_cut = |part: &Value| part["cut"] == true;
        ends.iter()
            .all(|end| !end["peer"].is_null() && !is_cut(&end["own"]) && !is_cut(&end["peer"]))
    };
    let mut told = session();
    for _ in 0..4 {
        if !is_whole(&told) {
            told = session();
        }
    }
    told
}

/// A session until the client has told so many seconds; the summary of each end, and the
/// client's lines.
fn session(serve: &str, drive: &str, seconds: usize, flows: usize) -> (Value, Value, Vec<Value>) {
    let (end, told) = whole(|| {
        let mut server = Server::start(&format!("--json {serve}"));
        let mut client = server.driven(drive);
        client.until_told("seconds", |out, _| objects(out).len() >= seconds);
        let end = client.ended_by(Signal::INT);
        server.until_sessions_over(1);
        (end, server.end())
    });
    assert_eq!(end.status, Some(0), "{}{}", end.stdout, end.stderr);
    let told = summaries(&told.stdout).remove(0);
    let mut lines = objects(&end.stdout);
    let client = lines.pop().unwrap();
    agree(&client, &told, flows);
    (client, told, lines)
}

#[test]
fn a_stream_of_several_flows_is_told_each_second_and_in_the_end_by_both() {
    let (client, server, lines) = session("--mover sendmsg --size 4096 --threads 4", "", 2, 4);
    assert!(lines.len() >= 2);
    for (i, line) in lines.iter().enumerate() {
        assert_eq!(line["kind"], "second");
        assert!(line["second"].as_u64().unwrap() > i as u64);
    }
    let sum: u64 = lines.iter().map(bytes_of).sum();
    assert!(sum <= bytes_of(&client["own"]), "seconds never overlap");
    let fairness = client["own"]["fairness"].as_f64().unwrap();
    assert!((0.25..=1.0).contains(&fairness), "{fairness}");
    assert_eq!(
        server["own"]["messages"].as_u64().unwrap() * 4096,
        bytes_of(&server["own"])
    );
    assert_eq!(server["ended"], "there");
    assert_eq!(client["ended"], "here");
}

#[test]
fn questions_and_answers_are_counted_and_their_times_told() {
    let (client, server, lines) =
        session("--size 64 --threads 2", "--pattern request-response", 2, 2);
    let sender = &server["own"];
    assert_eq!(client["peer"]["latency_us_p50"], sender["latency_us_p50"]);
    let at = |key: &str| sender[key].as_f64().unwrap();
    assert!(at("latency_us_p50") > 0.0);
    assert!(at("latency_us_p50") <= at("latency_us_p99"));
    assert!(at("latency_us_p99") <= at("latency_us_max"));
    let told = lines.iter().find(|l| !l["peer"].is_null());
    if let Some(line) = told {
        assert!(line["peer"]["latency_us_p99"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn zero_copy_tells_what_was_copied_after_all() {
    let (client, server, _) = session("--mover send-zerocopy --size 64KiB", "", 1, 1);
    let share = server["own"]["copied_share"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&share), "{share}");
    assert_eq!(
        client["peer"]["copied_share"],
        server["own"]["copied_share"]
    );
    let completions = &server["own"]["readings"]["completions"];
    assert_eq!(*completions, server["own"]["messages"], "all came back");
}

#[test]
fn both_ends_speak_in_words() {
    let server = Server::start("--mover send-zerocopy --size 16KiB --threads 2");
    let end = server.drive("--pattern request-response --duration 1300ms");
    assert_eq!(end.status, Some(0), "{}", end.stderr);
    says(
        &end.flat(),
        &[
            "session 1 from 127.0.0.1:",
            "p99 µs",
            "session 1 ended here",
            "that were sent arrived",
            "bytecost run --pattern request-response --mover send-zerocopy --size 16KiB --threads 2",
        ],
    );
    assert_eq!(end.stderr, "");
    says(
        &server.end().flat(),
        &[
            "session 1 to 127.0.0.1:",
            "session 1 ended by the other side",
            "served 1 session, ",
        ],
    );
}

#[test]
fn quiet_is_the_summary_alone() {
    let server = Server::start("--quiet --size 4KiB");
    let end = server.drive("--quiet --json --duration 1200ms");
    assert_eq!(objects(&end.stdout).len(), 1, "{}", end.stdout);
    let end = server.drive("--quiet --duration 1200ms");
    assert!(end.stdout.starts_with("session 2 ended"), "{}", end.stdout);
    let said = server.end().stdout;
    assert!(said.starts_with("session 1 ended"), "{said}");
}

#[test]
fn ctrl_c_at_the_client_ends_its_session_and_not_the_server() {
    for signal in [Signal::INT, Signal::TERM] {
        let mut server = Server::start("--json --threads 2 --size 4KiB");
        let client = server.driven("");
        let end = client.ended_by(signal);
        assert_eq!(end.status, Some(0), "{}", end.stderr);
        assert_eq!(last(&end.stdout)["ended"], "here");
        server.until_sessions_over(1);
        assert_eq!(last(&server.running.out())["ended"], "there");
        server.serves();
        assert_eq!(last(&server.end().stdout)["failed"], 0);
    }
}

#[test]
fn ctrl_c_at_the_server_ends_both() {
    for pattern in ["stream", "request-response"] {
        let (end, told) = whole(|| {
            let server = Server::start("--json --threads 2 --size 4KiB");
            let port = server.port;
            let client = server.driven(&format!("--pattern {pattern}"));
            let told = server.end();
            until("the port is free again", PATIENCE, || {
                TcpListener::bind(("127.0.0.1", port)).is_ok()
            });
            (client.end(), told)
        });
        assert_eq!(end.status, Some(0), "{}{}", end.stdout, end.stderr);
        let (client, server) = (last(&end.stdout), summaries(&told.stdout).remove(0));
        assert_eq!(client["ended"], "there");
        assert_eq!(server["ended"], "here");
        agree(&client, &server, 2);
        assert_eq!(last(&told.stdout)["kind"], "served");
    }
}

#[test]
fn an_idle_server_ends_as_well() {
    let end = Server::start("").end();
    assert_eq!(end.stdout, "served 0 sessions, 0 bytes\n");
}

#[test]
fn a_reader_that_has_seen_enough_ends_the_session() {
    let server = Server::start("--size 4KiB");
    let words = format!("live receive 127.0.0.1:{}", server.port);
    unread(&mut Place::new().bytecost(words));
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
        --port 65536 => 65536
        --listen here => here
        --listen 192.0.2.1 --insecure => 192.0.2.1 | --listen
        --listen 0.0.0.0 => 0.0.0.0 | --key-file | --insecure
        --key-file none => none does not exist | bytecost key
        --max-duration 0s => --max-duration `0s`
        --max-rate 1 => --max-rate `1` | 1024
        --allow nobody => `nobody` is no IP address
        --insecure --key-file k => --insecure | --key-file
        --ring 4GiB --threads 256 => --ring",
    );
    place.refuses(
        "live receive",
        "nowhere => `nowhere` | IP address
        127.0.0.1:1 --port 2 => --port
        --port 0 => 0
        --size 64 => --size | bytecost live send
        --mover send => --mover | bytecost live send
        --receiver warp => `warp` | choose from
        --threads 0 => threads `0`
        --threads 1,2 => --threads | one value
        --duration 0 => duration | out of bounds
        --duration -1s => -1s
        --duration soon => soon",
    );
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = held.local_addr().unwrap().port();
    let row = format!("--port {port} => port {port} is in use | --port");
    place.refuses("live send", &row);
}
