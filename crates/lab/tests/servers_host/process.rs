//! A server in a process of its own.

use std::fmt::Display;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use bytecost_engine::servers::{self, Limits, ServerTally};
use bytecost_engine::services::ServiceSetup;
use bytecost_engine::{Server, Service};
use bytecost_lab::load::Load;
use bytecost_sys::children;
use rustix::process::{Pid, Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
pub struct Start {
    server: String,
    service: String,
    pub size: usize,
    pub connections: usize,
    pub timeout_ms: u64,
    pub idle_ms: Option<u64>,
    pub response_ms: Option<u64>,
    pub lifetime_ms: Option<u64>,
    pub each_address: Option<usize>,
    pub send_buffer: Option<usize>,
    /// The longest time for responses that are under way at the end.
    pub grace_ms: u64,
    pub descriptors: Option<u64>,
    pub port: u16,
}

impl Start {
    pub fn new(server: &Server, service: &str, size: usize) -> Start {
        Start {
            server: server.name.to_owned(),
            service: service.to_owned(),
            size,
            connections: Limits::default().connections,
            timeout_ms: 60_000,
            idle_ms: None,
            response_ms: None,
            lifetime_ms: None,
            each_address: None,
            send_buffer: None,
            grace_ms: 5000,
            descriptors: None,
            port: 0,
        }
    }
}

/// A server that runs. It is killed when this is dropped.
pub struct Running {
    child: Child,
    /// Closing it is the stop signal.
    stdin: Option<ChildStdin>,
    stdout: BufReader<std::process::ChildStdout>,
    pub address: SocketAddr,
}

impl Running {
    /// Starts one and waits until it listens; else what it says.
    pub fn try_start(start: &Start) -> Result<Running, String> {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["serve", &serde_json::to_string(start).unwrap()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        match line.trim().parse() {
            Ok(port) => Ok(Running {
                child,
                stdin,
                stdout,
                address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            }),
            Err(_) => {
                let status = child.wait().unwrap();
                assert!(!status.success());
                Err(line.trim().to_owned())
            }
        }
    }

    pub fn start(start: &Start) -> Running {
        Running::try_start(start).unwrap()
    }

    /// A load of one request, which waits for it for long.
    pub fn load(&self, service: &str, size: usize) -> Load {
        let service = Service::named(service).unwrap();
        let mut load = Load::once(self.address, service, ServiceSetup::new(size));
        load.timeout = Duration::from_secs(60);
        load
    }

    /// When nobody is there: it has been asked once, and closed the client's connection.
    pub fn descriptors_alone(&self) -> usize {
        let mut client = TcpStream::connect(self.address).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.read_to_end(&mut Vec::new()).unwrap(), 0);
        self.descriptors()
    }

    pub fn descriptors(&self) -> usize {
        let dir = format!("/proc/{}/fd", self.child.id());
        std::fs::read_dir(dir).unwrap().count()
    }

    /// The most memory that the server has had at one time, in KiB.
    pub fn most_memory_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
        let number = line.and_then(|l| l.split_whitespace().next());
        number.unwrap().parse().unwrap()
    }

    /// Bytes that the kernel keeps for each connection until its client receives them, proc(5).
    pub fn kept_by_kernel(&self) -> Vec<usize> {
        let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let own = format!("0100007F:{:04X}", self.address.port());
        let lines = sockets
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>());
        let established = lines.filter(|words| words[1] == own && words[3] == "01");
        let bytes = established.map(|words| words[4].split_once(':').unwrap().0);
        bytes
            .map(|hex| usize::from_str_radix(hex, 16).unwrap())
            .collect()
    }

    pub fn has_descriptors(&self, expected: usize) {
        let has_so_many = || self.descriptors() == expected;
        let why = || format!("{} descriptors, not {expected}", self.descriptors());
        eventually(has_so_many, why);
    }

    /// Waits until all threads of the server sleep: it does nothing more for those who are there.
    pub fn falls_asleep(&self) {
        let sleeps = |task: std::fs::DirEntry| {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            // The state stands behind the name, which may have any characters.
            stat.rsplit_once(") ")
                .is_none_or(|(_, state)| state.starts_with('S'))
        };
        let tasks = || std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        eventually(
            || tasks().all(|task| sleeps(task.unwrap())),
            || "it is always busy",
        );
    }

    /// Waits until the server has no children, living or not waited for.
    pub fn has_no_children(&self) {
        let why = || format!("children are left: {:?}", self.children());
        eventually(|| self.children().is_empty(), why);
    }

    /// The children of the server; none where the kernel does not list them (CONFIG_PROC_CHILDREN).
    pub fn children(&self) -> Vec<Pid> {
        let numbers = children::started_by("/".as_ref(), self.child.id()).unwrap_or_default();
        let pids = numbers.into_iter().map(|n| Pid::from_raw(n as i32));
        pids.collect::<Option<_>>().unwrap()
    }

    pub fn tell_to_stop(&mut self) {
        self.stdin = None;
    }

    /// Tells it to stop, and gives what it has done.
    pub fn stop(mut self) -> ServerTally {
        self.tell_to_stop();
        let mut text = String::new();
        self.stdout.read_to_string(&mut text).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {text}");
        let bytes = text.split_whitespace().map(|n| n.parse().unwrap());
        ServerTally::from_bytes(bytes.collect::<Vec<u8>>().try_into().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something holds. The bound is long, since only a fault reaches it.
pub fn eventually<T: Display>(mut holds: impl FnMut() -> bool, what: impl Fn() -> T) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "{}", what());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The server's side: says its port, serves until its input ends, and says what it has done.
pub fn serve(words: &[String]) -> ExitCode {
    match try_serve(words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            println!("{e}");
            ExitCode::FAILURE
        }
    }
}

fn try_serve(words: &[String]) -> std::io::Result<()> {
    let start: Start = serde_json::from_str(&words[0])?;
    if start.descriptors.is_some() {
        let limit = Rlimit {
            current: start.descriptors,
            maximum: start.descriptors,
        };
        setrlimit(Resource::Nofile, limit)?;
    }
    let timeout = Duration::from_millis(start.timeout_ms);
    let (listener, address) = servers::listen((Ipv4Addr::LOCALHOST, start.port).into(), timeout)?;
    println!("{}", address.port());
    std::io::stdout().flush()?;
    let setup = servers::ServerSetup {
        listener,
        stop: std::io::stdin().as_fd().try_clone_to_owned()?,
        service: Service::named(&start.service).unwrap(),
        serving: ServiceSetup::new(start.size),
        workers: 3,
        limits: Limits {
            connections: start.connections,
            patience: timeout,
            idle: start.idle_ms.map(Duration::from_millis),
            response: start.response_ms.map(Duration::from_millis),
            lifetime: start.lifetime_ms.map(Duration::from_millis),
            each_address: start.each_address,
            send_buffer: start.send_buffer,
            grace: Duration::from_millis(start.grace_ms),
            ..Limits::default()
        },
    };
    let tally = (Server::named(&start.server).unwrap().serve)(setup)?;
    println!("{}", tally.to_bytes().map(|n| n.to_string()).join(" "));
    Ok(())
}
