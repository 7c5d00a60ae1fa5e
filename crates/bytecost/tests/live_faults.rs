//! What a server by hand meets on an open port, and what a client meets behind an address.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use crate::common::{Ended, PATIENCE, Place, Started, nobody, says, until};
use crate::live_common::{Server, last, objects, rest, summaries, until_let_go};
use bytecost_lab::greeters::FlowKey;
use bytecost_lab::hand::greeting::{MAX_FRAME_BYTES, SessionWord, VERSION, opening};
use bytecost_lab::protocol;
use bytecost_spec::hand::SessionPart;
use bytecost_spec::{Axis, Cell};
use rustix::net::{AddressFamily, SocketType};
use rustix::process::Signal;
use serde_json::Value;

fn digits(text: &str) -> [u8; 16] {
    u128::from_str_radix(text, 16).unwrap().to_be_bytes()
}

fn framed(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_le_bytes(), body].concat()
}

fn turned_away(end: &Ended) -> u64 {
    last(&end.stdout)["turned_away"].as_u64().unwrap()
}

#[test]
fn garbage_is_turned_away_and_the_server_goes_on() {
    let hello = opening(VERSION, false);
    let with = |body: &[u8]| [&hello[..], body].concat();
    let greeting = r#"{"hello":{"version":2,"wishes":[]}}"#;
    let mut cases: Vec<Vec<u8>> = vec![
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        vec![0; 4096],
        vec![0xff; 64],
        vec![0; 16],
        opening(VERSION + 1, false).to_vec(),
        opening(VERSION, true).to_vec(),
        with(&u32::MAX.to_le_bytes()),
        with(&(MAX_FRAME_BYTES as u32 + 1).to_le_bytes()),
    ];
    for body in [
        "not json",
        "{}",
        r#""stop""#,
        &greeting.replace("[]", r#"[],"more":1"#),
        &greeting.replace(":2", ":7"),
        &greeting.replace("[]", r#"[["size","4GiB"]]"#),
        &greeting.replace("[]", r#"[["threads","0"]]"#),
    ] {
        cases.push(with(&framed(body.as_bytes())));
    }
    let server = Server::start("--json --size 4KiB");
    server.serves();
    let before = server.running.held();
    for case in &cases {
        let mut stream = server.connected();
        // The server may have closed before all of it was written.
        let _ = stream.write_all(case);
        let answer = rest(&mut stream);
        assert!(answer.len() < MAX_FRAME_BYTES, "{case:?}");
    }
    drop(server.connected());
    server.serves();
    until_let_go(&server.running, before);
    let end = server.end();
    assert_eq!(turned_away(&end), cases.len() as u64 + 1, "{}", end.stderr);
    for line in end.stderr.lines() {
        assert!(line.starts_with("note: "), "{line}");
    }
    assert_eq!(last(&end.stdout)["failed"], 0);
}

// Invariant 8.
#[test]
fn silence_keeps_nobody_from_being_served_and_ends() {
    let server = Server::start("--json --size 4KiB");
    server.serves();
    let before = server.running.held();
    let mut silent = server.connected();
    let mut half = server.connected();
    half.write_all(&opening(VERSION, false)).unwrap();
    half.write_all(&[9, 0]).unwrap();
    server.serves();
    assert_eq!(rest(&mut silent), b"", "closed for its silence");
    assert_eq!(rest(&mut half), b"");
    until_let_go(&server.running, before);
    let end = server.end();
    assert_eq!(turned_away(&end), 2);
    says(&end.stderr, &["did not say who it is"]);
}

// Invariant 8.
#[test]
fn a_crowd_is_bounded_and_other_addresses_are_heard() {
    let server = Server::start("--json --size 4KiB");
    server.serves();
    let before = server.running.held();
    let crowd: Vec<TcpStream> = (0..200).map(|_| server.connected()).collect();
    let is_told = |mut stream: &TcpStream| {
        let soon = Some(Duration::from_millis(1));
        stream.set_read_timeout(soon).unwrap();
        let Ok(SessionWord::Refused { reason }) = protocol::read(&mut stream) else {
            return false;
        };
        says(&reason, &["too many connections at once from your address"]);
        true
    };
    until("one is told that they are too many", PATIENCE, || {
        crowd.iter().any(is_told)
    });
    let (threads, _) = server.running.held();
    assert!(threads <= before.0 + 4, "{threads} threads");
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    let local = |ip: [u8; 4], port| SocketAddr::from((ip, port));
    rustix::net::bind(&socket, &local([127, 0, 0, 2], 0)).unwrap();
    rustix::net::connect(&socket, &local([127, 0, 0, 1], server.port)).unwrap();
    let mut other = TcpStream::from(socket);
    other.set_read_timeout(Some(PATIENCE)).unwrap();
    other.write_all(&opening(VERSION + 1, false)).unwrap();
    match protocol::read::<SessionWord>(&mut other).unwrap() {
        SessionWord::Refused { reason } => says(&reason, &["same bytecost"]),
        other => panic!("{other:?}"),
    }
    drop((crowd, other));
    until_let_go(&server.running, before);
    server.serves();
    assert_eq!(turned_away(&server.end()), 201);
}

#[test]
fn a_client_without_flows_is_given_up() {
    let server = Server::start("--json --threads 2");
    let mut stream = server.connected();
    stream.write_all(&opening(VERSION, false)).unwrap();
    let hello = SessionWord::Hello {
        version: VERSION,
        wishes: Vec::new(),
    };
    protocol::write(&mut stream, &hello).unwrap();
    let word = protocol::read::<SessionWord>(&mut stream).unwrap();
    let SessionWord::Welcome { keys, .. } = word else {
        panic!("{word:?}");
    };
    // One flow of two, and one that is there already.
    let mut flow = server.connected();
    let said = keys[0].to_string();
    flow.write_all(&digits(&said)).unwrap();
    let mut twice = server.connected();
    twice.write_all(&digits(&said)).unwrap();
    assert_eq!(rest(&mut twice), b"", "its key is used up");
    match protocol::read::<SessionWord>(&mut stream).unwrap() {
        SessionWord::Refused { reason } => assert!(reason.contains("not all flows"), "{reason}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(rest(&mut flow), b"");
    server.serves();
}

#[test]
fn a_second_client_is_told_that_the_server_is_busy() {
    let server = Server::start("--json --size 4KiB");
    let first = server.driven("");
    let second = server.drive("--duration 1s");
    second.refused(&["busy with another session"]);
    first.ended_by(Signal::INT).succeeded();
    server.serves();
    assert_eq!(last(&server.end().stdout)["failed"], 0);
}

#[test]
fn a_client_that_is_killed_in_mid_stream_ends_its_session_alone() {
    for words in [
        "--mover send",
        "--mover send-zerocopy",
        "--pattern request-response",
    ] {
        let mut server = Server::start(&format!("--json --threads 3 --size 16KiB {words}"));
        server.serves();
        let before = server.running.held();
        let client = server.driven("");
        client.ended_by(Signal::KILL);
        server.until_sessions_over(2);
        let told = summaries(&server.running.out()).pop().unwrap();
        assert_eq!(told["ended"], "failed", "{words}");
        let why = told["failed"].as_str().unwrap();
        assert!(why.contains("client went away"), "{words}: {why}");
        assert!(told["own"]["bytes"].as_u64().unwrap() > 0, "{words}");
        until_let_go(&server.running, before);
        server.serves();
        let end = server.end();
        assert_eq!(last(&end.stdout)["sessions"], 3);
        assert_eq!(last(&end.stdout)["failed"], 1);
    }
}

#[test]
fn a_server_that_is_killed_is_told_by_its_client() {
    for pattern in ["stream", "request-response"] {
        let server = Server::start("--threads 2 --size 16KiB");
        let client = server.driven(&format!("--pattern {pattern}"));
        server.running.send(Signal::KILL);
        let end = client.end();
        assert_eq!(end.status, Some(1), "{}", end.stdout);
        let told = last(&end.stdout);
        let why = told["failed"].as_str().unwrap();
        assert!(why.contains("server went away"), "{why}");
        assert_eq!(told["peer"], Value::Null);
    }
}

#[test]
fn an_end_that_stands_still_does_not_keep_the_other() {
    let mut server = Server::start("--json --threads 2 --size 16KiB");
    let client = server.driven("");
    client.send(Signal::STOP);
    server
        .running
        .until_told("flows in a call without end", |out, _| {
            let lines = objects(out);
            lines.last().is_some_and(|l| l["flows_silent"] == 2)
        });
    let told = summaries(&server.end().stdout).remove(0);
    assert_eq!(told["own"]["cut"], true);
    client.ended_by(Signal::CONT);

    let server = Server::start("--json --threads 2 --size 16KiB");
    let client = server.driven("--pattern request-response");
    server.running.send(Signal::STOP);
    let end = client.ended_by(Signal::INT);
    assert_eq!(end.status, Some(0), "{}", end.stdout);
    assert_eq!(last(&end.stdout)["own"]["cut"], true);
    server.running.send(Signal::CONT);
    server.serves();
}

/// A server of the test's own, which takes one client and does with it what it is told to.
fn against(act: impl FnOnce(TcpStream, &TcpListener) + Send + 'static) -> Ended {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || act(listener.accept().unwrap().0, &listener));
    let words = format!("live receive 127.0.0.1:{port} --duration 2s --json");
    let end = Place::new().call(words);
    server.join().unwrap();
    end
}

/// Takes the greeting and answers it with this cell.
fn welcome(control: &mut TcpStream, cell: &str) {
    control.read_exact(&mut [0; 16]).unwrap();
    protocol::read::<SessionWord>(control).unwrap();
    let word = SessionWord::Welcome {
        version: VERSION,
        session: 1,
        keys: vec![FlowKey::default()],
        cell: cell.to_owned(),
    };
    protocol::write(control, &word).unwrap();
}

fn cell(values: &[(Axis, &str)]) -> String {
    let mut cell = Cell::default();
    for (axis, value) in values {
        cell.set(*axis, value).unwrap();
    }
    cell.id()
}

#[test]
fn what_is_no_server_is_told_in_one_line() {
    let check = |status: i32, says: &str, act: fn(&mut TcpStream)| {
        let end = against(move |mut stream, _| {
            act(&mut stream);
            rest(&mut stream);
        });
        assert_eq!(end.status, Some(status), "{}", end.stderr);
        assert_eq!(end.stderr.lines().count(), 1, "{}", end.stderr);
        assert!(end.stderr.contains(says), "`{says}`: {}", end.stderr);
        assert_eq!(end.stdout, "");
    };
    check(1, "the connection was closed", |s| {
        s.shutdown(Shutdown::Both).unwrap();
    });
    check(1, "is not `bytecost live send` of this version", |s| {
        s.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    check(1, "is not `bytecost live send` of this version", |s| {
        s.write_all(&u32::MAX.to_le_bytes()).unwrap();
    });
    check(2, "the same version", |s| welcome(s, "no/such/cell"));
    check(2, "buffers of 16 GiB", |s| {
        let cell = cell(&[(Axis::Threads, "256"), (Axis::ReadSize, "64MiB")]);
        welcome(s, &cell);
    });
    check(2, "no\\u{1b}[2J", |s| {
        let reason = "no\u{1b}[2J".to_owned();
        protocol::write(s, &SessionWord::Refused { reason }).unwrap();
    });
}

#[test]
fn nobody_there_is_told_with_what_to_do() {
    let (_held, port) = nobody();
    let end = Place::new().call(format!("live receive --port {port}"));
    assert_eq!(end.status, Some(1));
    says(&end.stderr, &["start `bytecost live send`"]);
}

/// A server whose only flow has this content, and which then says that so many bytes were sent.
fn check_content(content: &'static [u8], sent_bytes: u64, expected: &str) {
    let end = against(move |mut control, listener| {
        welcome(&mut control, &cell(&[(Axis::Size, "4KiB")]));
        let (mut flow, _) = listener.accept().unwrap();
        flow.read_exact(&mut [0; 16]).unwrap();
        protocol::write(&mut control, &SessionWord::Go).unwrap();
        let _ = flow.write_all(content);
        drop(flow);
        let mut part = SessionPart::default();
        part.whole.side.flows = vec![bytecost_spec::sample::FlowReading {
            bytes: sent_bytes,
            messages: sent_bytes / 4096,
            elapsed_ns: 1,
        }];
        let _ = protocol::write(&mut control, &SessionWord::Done(Box::new(part)));
        rest(&mut control);
    });
    assert_eq!(end.status, Some(1), "{}", end.stdout);
    says(last(&end.stdout)["failed"].as_str().unwrap(), &[expected]);
}

#[test]
fn content_that_is_wrong_or_missing_fails_the_session() {
    check_content(&[0; 4096], 4096, "not what was sent: byte 0");
    check_content(&[], 8192, "8192 bytes were sent, 0 arrived");
}

#[test]
fn ctrl_c_ends_also_a_client_that_waits_for_an_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let client = Started::alone(&format!("live receive 127.0.0.1:{port}"));
    let (stream, _) = listener.accept().unwrap();
    let end = client.ended_by(Signal::INT);
    assert_eq!((end.status, end.stderr.as_str()), (Some(0), ""));
    drop(stream);
}
