//! Faults that a program that is live meets on an open port, and behind an address.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

use crate::common::{Ended, Place, Started, nobody, says};
use crate::live_common::{Server, last, objects, rest, totals, until_let_go};
use bytecost_lab::live::greeting::{GREETING_BYTES, Greeting, Kind, VERSION};
use rustix::process::Signal;

/// A receiver's first bytes.
const RECEIVER: Greeting = Greeting {
    kind: Kind::Receiver,
    flow: 0,
    last_flow: 0,
    sizes: 0,
};

fn turned_away(end: &Ended) -> u64 {
    last(&end.stdout)["turned_away"].as_u64().unwrap()
}

fn other_version() -> [u8; GREETING_BYTES] {
    let mut bytes = RECEIVER.to_bytes();
    bytes[2] = VERSION + 1;
    bytes
}

#[test]
fn strangers_are_turned_away_with_a_line_each_and_the_next_one_is_served() {
    let with = |greeting: Greeting| greeting.to_bytes().to_vec();
    let flow = Greeting {
        flow: 3,
        ..RECEIVER
    };
    let sender = Greeting {
        kind: Kind::Sender,
        ..RECEIVER
    };
    let sizes = Greeting {
        sizes: 7,
        ..RECEIVER
    };
    let cases: &[(Vec<u8>, &str)] = &[
        (
            b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
            "not `bytecost live`",
        ),
        (vec![0; 4096], "not `bytecost live`"),
        (vec![0xff; 8], "not `bytecost live`"),
        (other_version().to_vec(), "use the same bytecost on both"),
        (with(flow), "flow 3 belongs to no session"),
        (with(sender), "both sides send"),
        (with(sizes), "differ in --size"),
    ];
    let server = Server::sender("--json --size 4KiB");
    server.serves();
    let before = server.running.held();
    for (case, _) in cases {
        let mut stream = server.connected();
        // The other side may have closed before all of it was written.
        let _ = stream.write_all(case);
        assert!(rest(&mut stream).len() <= GREETING_BYTES, "{case:?}");
    }
    drop(server.connected());
    server.serves();
    until_let_go(&server.running, before);
    let end = server.end();
    assert_eq!(turned_away(&end), cases.len() as u64 + 1, "{}", end.stderr);
    for (_, line) in cases {
        says(&end.stderr, &[line]);
    }
    for line in end.stderr.lines() {
        assert!(line.starts_with("note: "), "{line}");
    }
    assert_eq!(last(&end.stdout)["failed"], 0);
}

// Invariant 8.
#[test]
fn silence_keeps_nobody_from_a_session_and_ends() {
    let server = Server::sender("--json --size 4KiB");
    server.serves();
    let before = server.running.held();
    let mut silent: Vec<TcpStream> = (0..3).map(|_| server.connected()).collect();
    silent[0].write_all(&RECEIVER.to_bytes()[..7]).unwrap();
    server.serves();
    for stream in &mut silent {
        assert_eq!(rest(stream), b"", "closed for its silence");
    }
    until_let_go(&server.running, before);
    let end = server.end();
    assert_eq!(turned_away(&end), 3);
    says(&end.stderr, &["it did not say what it is"]);
}

// Invariant 8.
#[test]
fn a_crowd_is_bounded_and_a_real_one_is_served() {
    let server = Server::sender("--json --size 4KiB");
    server.serves();
    let before = server.running.held();
    let crowd: Vec<TcpStream> = (0..200).map(|_| server.connected()).collect();
    server.serves();
    let (threads, files) = server.running.held();
    assert!(threads <= before.0 + 4, "{threads} threads");
    assert!(files <= before.1 + 64, "{files} files");
    drop(crowd);
    until_let_go(&server.running, before);
    let end = server.end();
    assert_eq!(turned_away(&end), 200);
    assert!(end.stderr.lines().count() <= 22, "{}", end.stderr);
}

#[test]
fn a_flow_that_is_missing_is_named_and_the_next_one_is_served() {
    let server = Server::receiver("--json");
    let mut first = server.connected();
    let sender = Greeting {
        kind: Kind::Sender,
        last_flow: 1,
        ..RECEIVER
    };
    first.write_all(&sender.to_bytes()).unwrap();
    let mut answer = [0; GREETING_BYTES];
    first.read_exact(&mut answer).unwrap();
    assert_eq!(answer, RECEIVER.to_bytes());
    assert_eq!(rest(&mut first), b"");
    server
        .joined("send", "--threads 2")
        .ended_by(Signal::INT)
        .succeeded();
    let end = server.end();
    says(
        &end.stderr,
        &["flow 2 of 2 is missing: it did not connect within 10s"],
    );
    assert_eq!(last(&end.stdout)["sessions"], 1);
}

#[test]
fn a_second_one_is_told_that_there_is_a_session() {
    let server = Server::sender("--json --size 4KiB");
    let first = server.receiving("");
    let second = server.received("--duration 1s");
    second.refused(&["busy with another session"]);
    first.ended_by(Signal::INT).succeeded();
    server.serves();
    assert_eq!(last(&server.end().stdout)["failed"], 0);
}

#[test]
fn a_receiver_that_is_killed_ends_its_session_alone() {
    for (sender, receiver) in [
        ("--mover send", ""),
        ("--mover send-zerocopy", ""),
        ("--pattern request-response", "--size 16KiB"),
    ] {
        let mut server = Server::sender(&format!("--json --threads 3 --size 16KiB {sender}"));
        server
            .received(&format!("--duration 100ms {receiver}"))
            .succeeded();
        server.until_sessions_over(1);
        let before = server.running.held();
        server.receiving(receiver).ended_by(Signal::KILL);
        server.until_sessions_over(2);
        let ended = totals(&server.running.out()).pop().unwrap();
        assert!(ended["bytes"].as_u64().unwrap() > 0, "{sender}");
        // Its kernel resets connections with unread bytes, and ends the others.
        let how = ended["ended"].as_str().unwrap();
        assert!(["failed", "there"].contains(&how), "{sender}: {how}");
        until_let_go(&server.running, before);
        server
            .received(&format!("--duration 100ms {receiver}"))
            .succeeded();
        assert_eq!(last(&server.end().stdout)["sessions"], 3);
    }
}

#[test]
fn a_sender_that_is_killed_ends_its_receivers_session_with_totals() {
    for (sender, receiver) in [("", ""), ("--pattern request-response", "--size 16KiB")] {
        let server = Server::sender(&format!("--threads 2 --size 16KiB {sender}"));
        let client = server.receiving(receiver);
        server.running.send(Signal::KILL);
        let end = client.end();
        assert!(matches!(end.status, Some(0 | 1)), "{}", end.stderr);
        assert!(last(&end.stdout)["bytes"].as_u64().unwrap() > 0);
    }
}

#[test]
fn an_end_that_stands_still_does_not_keep_the_other() {
    let mut server = Server::sender("--json --threads 2 --size 16KiB");
    let client = server.receiving("");
    client.send(Signal::STOP);
    server
        .running
        .until_output("flows in a call without end", |out, _| {
            let lines = objects(out);
            lines.last().is_some_and(|l| l["flows_silent"] == 2)
        });
    let ended = totals(&server.end().stdout).remove(0);
    assert_eq!(ended["cut"], true);
    client.ended_by(Signal::CONT);

    let serving = Server::sender("--json --threads 2 --size 16KiB --pattern request-response");
    let asking = serving.receiving("--size 16KiB");
    serving.running.send(Signal::STOP);
    let end = asking.ended_by(Signal::INT).succeeded();
    assert_eq!(last(&end)["cut"], true);
    serving.running.send(Signal::CONT);
    let again = serving.receiving("--size 16KiB");
    again.ended_by(Signal::INT).succeeded();
}

/// A receiver against a side of the test's own, which takes one connection and does with it what it
/// gets a signal to.
fn against(act: impl FnOnce(TcpStream) + Send + 'static) -> Ended {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let other = thread::spawn(move || act(listener.accept().unwrap().0));
    let words = format!("live receive --connect 127.0.0.1:{port} --duration 2s --json");
    let end = Place::new().call(words);
    other.join().unwrap();
    end
}

#[test]
fn what_is_no_sender_is_named_in_one_line() {
    let check = |status: i32, says: &str, act: fn(&mut TcpStream)| {
        let end = against(move |mut stream| {
            act(&mut stream);
            rest(&mut stream);
        });
        assert_eq!(end.status, Some(status), "{}", end.stderr);
        assert_eq!(end.stderr.lines().count(), 1, "{}", end.stderr);
        assert!(end.stderr.contains(says), "`{says}`: {}", end.stderr);
        assert_eq!(end.stdout, "");
    };
    check(1, "closed the connection", |s| {
        s.read_exact(&mut [0; GREETING_BYTES]).unwrap();
        s.shutdown(Shutdown::Both).unwrap();
    });
    check(2, "not `bytecost live`", |s| {
        s.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    check(2, "use the same bytecost on both", |s| {
        s.write_all(&other_version()).unwrap();
    });
    check(2, "both sides receive", |s| {
        s.write_all(&RECEIVER.to_bytes()).unwrap();
    });
    check(2, "give it the sender's --size", |s| {
        let asking = Greeting {
            kind: Kind::AskingSender,
            sizes: 7,
            ..RECEIVER
        };
        s.write_all(&asking.to_bytes()).unwrap();
    });
}

#[test]
fn nobody_there_is_named_after_10_s_with_what_to_do() {
    let (_held, port) = nobody();
    let end = Place::new().call(format!("live receive --connect 127.0.0.1:{port}"));
    assert_eq!(end.status, Some(1));
    says(
        &end.stderr,
        &["trying again for 10s", "start the other side there"],
    );
}

#[test]
fn ctrl_c_ends_also_who_waits_for_the_other_side() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let client = Started::alone(&format!("live receive --connect 127.0.0.1:{port}"));
    let (stream, _) = listener.accept().unwrap();
    let end = client.ended_by(Signal::INT);
    assert_eq!((end.status, end.stderr.as_str()), (Some(0), ""));
    drop(stream);
}
