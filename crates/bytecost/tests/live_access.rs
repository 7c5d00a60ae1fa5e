//! Addresses that may connect to a program that is live, and limits of a session: each by a real connection.

use crate::common::{Started, says};
use crate::live_common::{Server, bytes_of, last, totals};
use rustix::process::Signal;

// Invariant 10.
#[test]
fn who_listens_beyond_loopback_names_who_may_connect() {
    for command in ["send", "receive", "server top"] {
        // Of a server the port is another option.
        let (address, port) = match command {
            "server top" => ("0.0.0.0", "--port 0"),
            _ => ("0.0.0.0:0", ""),
        };
        let words = format!("live {command} --listen {address} {port}");
        let place = crate::common::Place::new();
        place.call(&words).refused(&["--allow", "other machines"]);
        let mut running = Started::alone(&format!("{words} --allow 192.0.2.0/24"));
        running.until_output("a port", |_, err| err.contains("listening at 0.0.0.0:"));
        running.ended_by(Signal::INT).succeeded();
    }
}

#[test]
fn addresses_that_are_not_allowed_are_not_heard() {
    let server = Server::sender("--json --size 4KiB --allow 127.0.0.2,192.0.2.0/24");
    let end = server.received("--duration 1s");
    assert_eq!(end.status, Some(1), "{}", end.stdout);
    says(&end.stderr, &["closed the connection", "--allow"]);
    let stopped = server.end();
    says(&stopped.stderr, &["--allow does not name its address"]);
    let counts = last(&stopped.stdout);
    assert_eq!(
        (&counts["sessions"], &counts["turned_away"]),
        (&0.into(), &1.into())
    );
    Server::sender("--json --size 4KiB --allow 192.0.2.7 --allow 127.0.0.0/8").serves();
}

#[test]
fn a_server_closes_connections_of_others() {
    let server = Server::of_service("echo --allow 192.0.2.0/24");
    let end = server.ask("echo --patience 1s");
    assert_ne!(end.status, Some(0), "{}", end.stdout);
    let allowing = Server::of_service("echo --allow 127.0.0.0/8");
    allowing.asked("echo");
}

#[test]
fn a_session_ends_when_its_time_is_over_and_says_why() {
    let mut server = Server::sender("--json --size 4KiB --max-duration 3s");
    let end = server.received("--json").succeeded();
    assert_eq!(last(&end)["ended"], "there");
    server.until_sessions_over(1);
    let ended = totals(&server.end().stdout).remove(0);
    assert_eq!(ended["ended"], "limit", "{ended}");
    says(
        ended["reason"].as_str().unwrap(),
        &["--max-duration 3s is over"],
    );
    assert!(bytes_of(&ended) > 0);
    let unbounded = Server::sender("--size 4KiB");
    let words = unbounded.received("--max-duration 300ms").succeeded();
    says(&words, &["ended by a limit: --max-duration 300ms is over"]);
}

#[test]
fn a_session_is_no_faster_than_either_side_grants() {
    let limit = "--max-rate 1MiB --max-duration 10s";
    for (sender, receiver) in [(limit, ""), ("", limit)] {
        let server = Server::sender(&format!("--json --size 4KiB --threads 2 {sender}"));
        let client = server.receiving(receiver);
        let ended = last(&client.ended_by(Signal::INT).succeeded());
        let elapsed_s = ended["elapsed_s"].as_f64().unwrap();
        // TCP sends its first segments unpaced and a receiver empties its buffers at the end;
        // without a bound there are a thousand times as many.
        let most = (elapsed_s + 2.0) * f64::from(2 << 20) + f64::from(64 << 20);
        let bytes = bytes_of(&ended) as f64;
        assert!(bytes > 0.0 && bytes < most, "{bytes} in {elapsed_s} s");
    }
}

#[test]
fn a_server_sends_no_faster_than_it_may_and_ends_connections_in_time() {
    let options = "fixed --size 1MiB --connections 1 --max-rate 1MiB --max-duration 2s";
    let server = Server::of_service(options);
    let end = server.ask("fixed --size 1MiB --duration 6s --json --patience 10s");
    let responses = last(&end.stdout)["answers"].as_u64().unwrap();
    // Without a bound there are thousands. TCP sends its first segments unpaced.
    assert!((1..60).contains(&responses), "{responses}");
}
