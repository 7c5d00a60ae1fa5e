//! Both ends of a live session, and a live server with its load, as processes.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;

use rustix::process::Signal;
use serde_json::Value;

use crate::common::{Ended, PATIENCE, Place, Started, until};

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

/// A server or the sending side of sessions, on a port of its own.
pub struct Server {
    pub running: Started,
    pub port: u16,
}

impl Server {
    /// A command once it listens.
    pub fn of(mut running: Started) -> Server {
        running.until_output("a port", |_, err| err.contains("end with Ctrl-C"));
        let said = running.err();
        let (_, rest) = said.split_once("listening at ").unwrap();
        let address = rest.split(';').next().unwrap();
        let (_, port) = address.rsplit_once(':').unwrap();
        Server {
            running,
            port: port.parse().unwrap(),
        }
    }

    /// A sender that listens.
    pub fn sender(words: &str) -> Server {
        let words = format!("live send --listen 127.0.0.1:0 {words}");
        Server::of(Started::alone(&words))
    }

    /// A receiver that listens.
    pub fn receiver(words: &str) -> Server {
        let words = format!("live receive --listen 127.0.0.1:0 {words}");
        Server::of(Started::alone(&words))
    }

    /// The command line of the other side: `send` or `receive`.
    pub fn join(&self, side: &str, words: &str) -> String {
        format!("live {side} --connect 127.0.0.1:{} {words}", self.port)
    }

    /// `words` begin with the service.
    pub fn of_service(words: &str) -> Server {
        let words = patient(&format!("live server {words} --port 0 --json"));
        Server::of(Started::alone(&words))
    }

    /// A receiver of this sender, to its end.
    pub fn received(&self, words: &str) -> Ended {
        Place::new().call(self.join("receive", words))
    }

    /// The other side, with JSON, until something ends it, once it has reported bytes.
    pub fn joined(&self, side: &str, words: &str) -> Started {
        let words = self.join(side, &format!("--json {words}"));
        let mut other = Started::alone(&words);
        let is_some = |second: &Value| second["bytes"].as_u64() > Some(0);
        other.until_output("bytes", |out, _| objects(out).iter().any(is_some));
        other
    }

    /// A receiver of this sender.
    pub fn receiving(&self, words: &str) -> Started {
        self.joined("receive", words)
    }

    pub fn connected(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// Served as ever: a short session, the bytes of which are all there.
    pub fn serves(&self) {
        let end = self.receiving("").ended_by(Signal::INT).succeeded();
        assert!(bytes_of(&last(&end)) > 0);
    }

    /// Ctrl-C, which is its proper end.
    pub fn end(self) -> Ended {
        let end = self.running.ended_by(Signal::INT);
        assert_eq!(end.status, Some(0), "{}", end.stderr);
        end
    }

    pub fn until_sessions_over(&mut self, number: usize) {
        let are_over = |out: &str, _: &str| totals(out).len() >= number;
        self.running.until_output("the end of a session", are_over);
    }

    /// `words` begin with the service.
    fn load(&self, words: &str) -> String {
        patient(&format!("live load 127.0.0.1:{} {words}", self.port))
    }

    pub fn ask(&self, words: &str) -> Ended {
        Place::new().call(self.load(words))
    }

    /// A load to its end, all of which was served: what it found.
    pub fn asked(&self, words: &str) -> Value {
        last(&self.ask(&format!("{words} --json")).succeeded())
    }

    /// A load that runs until something ends it, after its first response.
    pub fn loaded(&self, words: &str) -> Started {
        let mut load = Started::alone(&self.load(&format!("{words} --json")));
        load.until_output("an answer", |out, _| !objects(out).is_empty());
        load
    }

    /// A signal, which is its proper end: its tally.
    pub fn tally(self, signal: Signal) -> Value {
        last(&self.running.ended_by(signal).succeeded())
    }
}

/// A message of `echo` that is a line as well.
pub const MESSAGE: &str = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n";

/// With more patience than a busy machine needs, where that is not what is tested.
pub fn patient(words: &str) -> String {
    if words.contains("--patience") {
        words.to_owned()
    } else {
        format!("{words} --patience 100s")
    }
}

/// Sends a line as `nc` does, and gives the line that comes back.
pub fn line(client: &mut TcpStream, text: &str) -> String {
    client.write_all(text.as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(client).read_line(&mut line).unwrap();
    line
}

/// Where each thread of a process, and each of its children, may run.
pub fn places(pid: u32) -> Vec<String> {
    let mut places = Vec::new();
    // One that ends meanwhile is nowhere.
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    for task in tasks.into_iter().flatten().flatten() {
        let read = |name| fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let status = read("status");
        let mut lines = status.lines();
        let list = lines.find_map(|l| l.strip_prefix("Cpus_allowed_list:"));
        places.extend(list.map(|list| list.trim().to_owned()));
        for child in read("children").split_whitespace() {
            places.extend(self::places(child.parse().unwrap()));
        }
    }
    places
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

/// The totals of sessions.
pub fn totals(text: &str) -> Vec<Value> {
    let mut all = objects(text);
    all.retain(|o| o["kind"] == "totals");
    all
}

pub fn bytes_of(part: &Value) -> u64 {
    part["bytes"].as_u64().unwrap_or_else(|| panic!("{part}"))
}

/// Polls until a process holds no more than it did.
pub fn until_let_go(running: &Started, before: (usize, usize)) {
    until("threads and files are let go", PATIENCE, || {
        let now = running.held();
        now.0 <= before.0 && now.1 <= before.1
    });
}
