//! The end of a server: requests that have arrived are answered, and no process is left behind.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytecost_engine::Server;
use bytecost_lab::load::{LoadError, LoadSpan, Stage};
use rustix::process::{Signal, kill_process};

use crate::faults::{
    Fault, LARGE, LONG_MS, answer, asks_and_does_not_read, client, clients, half_a_request,
    is_closed, start,
};
use crate::process::{Running, Start, eventually};

pub const STOPS: &[Fault] = &[
    ("what has arrived is answered", stopped_with_a_request),
    ("a stop under load ends it cleanly", stopped_under_load),
    ("a stop ends who is silent or deaf", stopped_with_faults),
    ("a signal to a child is no end in mid-answer", signalled),
    // Invariant 9.
    ("a killed server leaves nobody behind", killed),
];

fn stopped_with_a_request(server: &'static Server) {
    let mut running = Running::start(&start(server, 100, LONG_MS));
    let number = if server.in_turn { 1 } else { 10 };
    let mut clients = clients(&running, number, 100);
    for client in &mut clients {
        client.write_all(b"get\nget\nget\n").unwrap();
    }
    running.tell_to_stop();
    for client in &mut clients {
        for _ in 0..3 {
            answer(client, 100);
        }
        assert_eq!(client.read_to_end(&mut Vec::new()).unwrap(), 0);
    }
    assert_eq!(running.stop().requests, 4 * number);
}

fn stopped_under_load(server: &'static Server) {
    let running = Running::start(&Start::new(server, "echo", 64));
    let mut load = running.load("echo", 64);
    load.connections = if server.in_turn { 1 } else { 20 };
    load.span = LoadSpan::Time {
        warmup: Duration::from_millis(20),
        window: Duration::from_millis(LONG_MS),
    };
    let (stop, opened) = (AtomicBool::new(false), AtomicBool::new(false));
    let on_stage = |stage| {
        if stage == Stage::WindowOpens {
            opened.store(true, Ordering::Relaxed);
        }
    };
    let (outcome, tally) = std::thread::scope(|scope| {
        let asking = scope.spawn(|| load.run(&stop, &on_stage).unwrap());
        let begins = || opened.load(Ordering::Relaxed);
        eventually(begins, || "the load does not begin");
        let tally = running.stop();
        stop.store(true, Ordering::Relaxed);
        (asking.join().unwrap(), tally)
    });
    let faults = [LoadError::Wrong, LoadError::Timeout].map(|kind| outcome.errors.number(kind));
    assert_eq!(faults, [0, 0]);
    assert!(tally.requests >= outcome.answers);
    assert_eq!(tally.timed_out, 0);
}

fn stopped_with_faults(server: &'static Server) {
    for does in [
        half_a_request,
        |_: &mut TcpStream| (),
        asks_and_does_not_read,
    ] {
        let mut start = start(server, LARGE, LONG_MS);
        start.grace_ms = 500; // all of it is waited for who does not read
        let mut running = Running::start(&start);
        let number = if server.in_turn { 1 } else { 3 };
        let mut clients = clients(&running, number, LARGE);
        clients.iter_mut().for_each(does);
        running.tell_to_stop();
        let tally = running.stop();
        assert_eq!(tally.connections, number);
        clients.iter_mut().for_each(is_closed);
    }
}

/// As Ctrl-C in a terminal does, which reaches children as well as their parent.
fn signalled(server: &'static Server) {
    let running = Running::start(&start(server, LARGE, LONG_MS));
    for signal in [Signal::INT, Signal::TERM] {
        let mut client = client(&running);
        client.write_all(b"get\nget\nget\n").unwrap();
        client.read_exact(&mut [0; 1000]).unwrap(); // it is in
        let children = running.children();
        assert!(children.is_empty() || server.needs_lone_thread);
        for child in &children {
            kill_process(*child, signal).unwrap();
        }
        let mut rest = vec![0; 3 * LARGE - 1000];
        client.read_exact(&mut rest).unwrap();
        if !children.is_empty() {
            assert_eq!(client.read_to_end(&mut Vec::new()).unwrap(), 0);
        }
        drop(client);
        running.has_no_children();
    }
    assert_eq!(running.stop().requests, 6);
}

fn killed(server: &'static Server) {
    let running = Running::start(&start(server, 100, LONG_MS));
    let number = if server.in_turn { 1 } else { 5 };
    let mut clients = clients(&running, number, 100);
    drop(running);
    clients.iter_mut().for_each(is_closed);
}
