//! A server by hand, as a process, and whoever asks it.
#![allow(dead_code)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use rustix::process::Signal;
use serde_json::Value;

use crate::common::{Ended, PATIENCE, Place};
use crate::live_common::{ENDING, Running, last};

/// A server on a port of its own.
pub struct Served {
    pub running: Running,
    pub port: u16,
}

impl Served {
    /// `words` begin with the service.
    pub fn start(words: &str) -> Served {
        Served::of(Running::start(&patient(&format!(
            "live server {words} --port 0 --json"
        ))))
    }

    pub fn of(running: Running) -> Served {
        let (running, port) = running.listening();
        Served { running, port }
    }

    /// `words` begin with the service.
    pub fn ask(&self, words: &str) -> Ended {
        Place::new().call(patient(&format!(
            "live load 127.0.0.1:{} {words}",
            self.port
        )))
    }

    /// A load to its end, all of which was served: what it found.
    pub fn asked(&self, words: &str) -> Value {
        last(&self.ask(&format!("{words} --json")).succeeded())
    }

    /// A load that goes on until something ends it.
    pub fn loaded(&self, words: &str) -> Running {
        Running::start(&patient(&format!(
            "live load 127.0.0.1:{} {words} --json",
            self.port
        )))
    }

    /// A client of the test's own.
    pub fn client(&self) -> TcpStream {
        let client = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.set_nodelay(true).unwrap();
        client
    }

    /// A signal, which is its proper end: its tally.
    pub fn end(self, signal: Signal) -> Value {
        self.running.send(signal);
        last(&self.running.end(ENDING).succeeded())
    }
}

/// With more patience than a busy machine needs, where that is not what is tested.
pub fn patient(words: &str) -> String {
    match words.contains("--patience") {
        true => words.to_owned(),
        false => format!("{words} --patience 100s"),
    }
}

/// Sends a line as `nc` does, and gives the line that comes back.
pub fn line(client: &mut TcpStream, text: &str) -> String {
    client.write_all(text.as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(client).read_line(&mut line).unwrap();
    line
}

/// Whether the other end has closed, whatever it sent before.
pub fn is_closed(client: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    match client.read_to_end(&mut rest) {
        Ok(_) => true,
        Err(e) => e.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

/// Where each thread of a process, and each of its children, may run.
pub fn places(pid: u32) -> Vec<String> {
    let mut places = Vec::new();
    // One that ends meanwhile is nowhere.
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    for task in tasks.into_iter().flatten().flatten() {
        let task = task.path();
        let Ok(status) = fs::read_to_string(task.join("status")) else {
            continue;
        };
        let list = status
            .lines()
            .find_map(|l| l.strip_prefix("Cpus_allowed_list:"))
            .unwrap();
        places.push(list.trim().to_owned());
        let children = fs::read_to_string(task.join("children")).unwrap_or_default();
        for child in children.split_whitespace() {
            places.extend(self::places(child.parse().unwrap()));
        }
    }
    places
}
