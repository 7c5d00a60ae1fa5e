//! Both ends of a session by hand, as processes.
#![allow(dead_code)]

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bytecost_lab::hand::greeting::{SessionWord, VERSION, opening};
use bytecost_lab::protocol;
use rustix::process::Signal;
use serde_json::Value;

use crate::common::{Ended, PATIENCE, Place, Started, count};

/// Far more than the second within which an end by Ctrl-C is to come, for a busy machine.
pub const ENDING: Duration = Duration::from_secs(60);

/// A server that hears another version says what to do.
#[track_caller]
pub fn refuses_another_version(stream: &mut TcpStream) {
    stream.write_all(&opening(VERSION + 1, false)).unwrap();
    match protocol::read::<SessionWord>(stream).unwrap() {
        SessionWord::Refused { reason } => assert!(reason.contains("same bytecost"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

/// Whatever still comes, until the other end closes.
pub fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Ok(_) => {}
        Err(e) if e.kind() == ErrorKind::ConnectionReset => {}
        Err(e) => panic!("the connection stays open: {e}"),
    }
    all
}

/// A command that goes on, with its output so far.
pub struct Running {
    place: Place,
    started: Started,
}

impl Running {
    pub fn start(words: &str) -> Running {
        let place = Place::new();
        let command = &mut place.bytecost(words);
        Running::of(place, command)
    }

    /// A command of that place.
    pub fn of(place: Place, command: &mut Command) -> Running {
        let started = place.start(command);
        Running { place, started }
    }

    /// The command once it listens, and its port.
    pub fn listening(mut self) -> (Running, u16) {
        self.until("a port", |_, err| err.contains("end with Ctrl-C"));
        let said = self.err();
        let (_, rest) = said.split_once("listening at ").unwrap();
        let address = rest.split(';').next().unwrap();
        let (_, port) = address.rsplit_once(':').unwrap();
        let port = port.parse().unwrap();
        (self, port)
    }

    /// Ctrl-C, which is its proper end.
    pub fn interrupted(self) -> Ended {
        self.send(Signal::INT);
        self.end(ENDING)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.place.dir.path().join(name)
    }

    pub fn out(&self) -> String {
        fs::read_to_string(self.file("stdout")).unwrap()
    }

    pub fn err(&self) -> String {
        fs::read_to_string(self.file("stderr")).unwrap()
    }

    /// Waits until its output says so.
    pub fn until(&mut self, what: &str, so: impl Fn(&str, &str) -> bool) {
        let (out, err) = (self.file("stdout"), self.file("stderr"));
        let read = |path: &PathBuf| fs::read_to_string(path).unwrap();
        self.started.until(what, || so(&read(&out), &read(&err)));
    }

    pub fn pid(&self) -> u32 {
        self.started.pid()
    }

    pub fn send(&self, signal: Signal) {
        self.started.send(signal);
    }

    pub fn end(self, limit: Duration) -> Ended {
        self.started.end(limit)
    }

    /// Threads and open files of the process.
    pub fn held(&self) -> (usize, usize) {
        let held = |what| count(Path::new(&format!("/proc/{}/{what}", self.pid())));
        (held("task"), held("fd"))
    }
}

/// A server on a port of its own.
pub struct Server {
    pub running: Running,
    pub port: u16,
}

impl Server {
    pub fn start(words: &str) -> Server {
        let (running, port) = Running::start(&format!("live send --port 0 {words}")).listening();
        Server { running, port }
    }

    /// A client, to its end.
    pub fn drive(&self, words: &str) -> Ended {
        Place::new().call(format!("live receive 127.0.0.1:{} {words}", self.port))
    }

    /// A client that goes on until something ends it.
    pub fn driven(&self, words: &str) -> Running {
        Running::start(&format!(
            "live receive 127.0.0.1 --port {} {words}",
            self.port
        ))
    }

    /// A connection to it.
    pub fn connected(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Served as ever: a short session, the bytes of which are all there.
    pub fn serves(&self) {
        let told = self.drive("--duration 300ms --json").succeeded();
        assert!(bytes_of(&last(&told)["own"]) > 0);
    }

    /// Ctrl-C, which is its proper end.
    pub fn end(self) -> Ended {
        let end = self.running.interrupted();
        assert_eq!(end.status, Some(0), "{}", end.stderr);
        end
    }

    pub fn until_sessions_over(&mut self, number: usize) {
        let are_over = |out: &str, _: &str| summaries(out).len() >= number;
        self.running.until("the end of a session", are_over);
    }
}

/// The objects of an output, one a line; a line that is being written is left out.
pub fn objects(text: &str) -> Vec<Value> {
    let whole = text.rfind('\n').map_or(0, |at| at + 1);
    text[..whole]
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

pub fn last(text: &str) -> Value {
    objects(text).pop().expect("an object")
}

pub fn summaries(text: &str) -> Vec<Value> {
    let mut all = objects(text);
    all.retain(|o| o["kind"] == "summary");
    all
}

pub fn bytes_of(part: &Value) -> u64 {
    part["bytes"].as_u64().unwrap_or_else(|| panic!("{part}"))
}

/// Polls until a process holds no more than it did.
pub fn until_let_go(running: &Running, before: (usize, usize)) {
    crate::common::until("threads and files are let go", PATIENCE, || {
        let now = running.held();
        now.0 <= before.0 && now.1 <= before.1
    });
}
