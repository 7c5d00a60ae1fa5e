//! Trials whose sides play on two hosts: the other is this program too, as the agent that a command
//! starts, in this network or, as root, in a network namespace. It also plays the endpoints.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bytecost_host::{Roots, boot_id};
use bytecost_lab::Lab;
use bytecost_lab::files::Files;
use bytecost_lab::peer::{PeerCommand, PeerLink, PeerOptions, agent};
use bytecost_lab::protocol::{self, ContentCheck};
use bytecost_lab::settings::Settings;
use bytecost_spec::host::Identity;
use bytecost_spec::{Cell, Counter, Host, PeerSide, Reading, Readings, Sample, Survey};
use serde_json::Value;
use tempfile::TempDir;

#[path = "two_hosts/faults.rs"]
mod faults;
mod harness;
#[path = "two_hosts/networks.rs"]
mod networks;

use harness::{case, trial_in};

const SIDES: [PeerSide; 2] = [PeerSide::Receiver, PeerSide::Sender];

static NO_STOP: AtomicBool = AtomicBool::new(false);

fn main() -> ExitCode {
    if let Some(ended) = harness::endpoint() {
        return ended;
    }
    let mut words = std::env::args_os().skip(1);
    match words.next().as_deref().and_then(|w| w.to_str()) {
        Some("agent") => agent(),
        Some("relay") => relay(words.collect()),
        _ => tests(),
    }
}

fn tests() -> ExitCode {
    let mut trials = Vec::new();
    for side in SIDES {
        for data_from_here in [false, true] {
            let way = move || Way {
                side,
                data_from_here,
                ..Way::default()
            };
            for (name, values) in CELLS {
                let name = format!("{side:?} there, data from here {data_from_here}: {name}");
                trials.push(case(name, move || all_arrives(&way(), values)));
            }
        }
        for (name, values) in SERVED {
            let name = format!("{side:?} there: {name}");
            trials.push(case(name, move || is_served(side, values)));
        }
    }
    trials.extend(faults::trials());
    trials.extend(networks::trials());
    harness::run_many(trials)
}

fn agent() -> ExitCode {
    let from = io::stdin().as_fd().try_clone_to_owned().unwrap();
    let to = io::stdout().as_fd().try_clone_to_owned().unwrap();
    let host = Host {
        cpus_allowed: vec![0],
        identity: Identity {
            boot_id: boot_id(&Roots::real()),
            ..Identity::default()
        },
        ..Host::default()
    };
    let ended = agent::run(from, to, &|| (host.clone(), Survey::default()));
    match ended.map_err(|e| writeln!(io::stderr(), "{e}")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Runs a command, and writes into a file (the first word) what goes there (`>`) and back (`<`).
fn relay(words: Vec<OsString>) -> ExitCode {
    let mut child = Command::new(&words[1])
        .args(&words[2..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let said = Arc::new(Mutex::new(File::create(&words[0]).unwrap()));
    let there = passed_on('>', io::stdin(), to, Arc::clone(&said));
    let back = passed_on('<', from, io::stdout(), said);
    let _ = (back.join(), child.wait());
    drop(there);
    ExitCode::SUCCESS
}

fn passed_on(
    way: char,
    mut from: impl io::Read + Send + 'static,
    mut to: impl Write + Send + 'static,
    said: Arc<Mutex<File>>,
) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        while let Ok(word) = protocol::read::<Value>(&mut from) {
            let named = name(&word);
            if named != "beat" {
                writeln!(said.lock().unwrap(), "{way} {named}").unwrap();
            }
            if protocol::write(&mut to, &word).is_err() || to.flush().is_err() {
                return;
            }
        }
    })
}

/// The name of a message; one that carries an order or an answer has its name.
fn name(word: &Value) -> String {
    let Value::Object(fields) = word else {
        return word.as_str().unwrap_or_default().to_owned();
    };
    let Some((name, inner)) = fields.iter().next() else {
        return String::new();
    };
    let carried = ["order", "answer"].iter().find_map(|of| inner.get(of));
    carried.map_or_else(|| name.clone(), self::name)
}

/// Streams and questions, as axes of the plain cell.
const CELLS: &[(&str, &str)] = &[
    ("send", ""),
    ("two flows of long messages", "size=1000008 threads=2"),
    ("zero-copy", "mover=send-zerocopy size=256KiB"),
    ("a file", "mover=sendfile"),
    ("a cold file", "mover=sendfile cache=cold"),
    ("questions", "pattern=request-response size=256"),
    ("passes", "size=64MiB ring=message"),
];

const SERVED: &[(&str, &str)] = &[
    ("a server that forks", "server=fork connections=4"),
    ("a server on epoll", "server=epoll connections=20 threads=2"),
    ("new connections", "server=epoll connections=4 connect=new"),
];

fn cell(values: &str) -> Cell {
    harness::cell(&format!("transport=peer size=16KiB ring=256KiB {values}"))
}

/// The last word of an observer's command line, after that of an endpoint.
const OBSERVER: &str = "observer";

struct Way {
    /// The words before the program.
    prefix: String,
    side: PeerSide,
    data_from_here: bool,
    address: Option<&'static str>,
    /// The program there: this one under a name of its own, by which its processes are known.
    program: Marked,
}

impl Default for Way {
    fn default() -> Way {
        Way {
            prefix: "env".to_owned(),
            side: PeerSide::Receiver,
            data_from_here: false,
            address: None,
            program: Marked::new(),
        }
    }
}

impl Way {
    fn options(&self) -> PeerOptions {
        PeerOptions {
            command: PeerCommand::parse(&self.prefix, self.program.path.to_str().unwrap()).unwrap(),
            address: self.address.map(|a| a.parse().unwrap()),
            data_from_here: self.data_from_here,
            copy_program: false,
            side: self.side,
        }
    }

    fn lab(&self, settings: Settings) -> Lab {
        lab(settings, &self.options())
    }
}

fn lab(settings: Settings, options: &PeerOptions) -> Lab {
    let link = PeerLink::open(options, &NO_STOP).unwrap();
    harness::lab(settings, Files::default()).with_peer(link)
}

struct Marked {
    _dir: TempDir,
    path: PathBuf,
}

impl Marked {
    fn new() -> Marked {
        let own = std::env::current_exe().unwrap();
        let dir = tempfile::tempdir_in(own.parent().unwrap()).unwrap();
        let path = dir.path().join("bytecost");
        std::fs::hard_link(&own, &path).unwrap();
        Marked { _dir: dir, path }
    }

    fn processes(&self) -> Vec<(u32, String)> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let pid = entry.file_name().to_str().and_then(|n| n.parse().ok());
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            if let Some(pid) = pid.filter(|_| line.starts_with(self.path.to_str().unwrap())) {
                found.push((pid, line));
            }
        }
        found
    }

    fn process(&self, word: &str) -> u32 {
        let (is_observer, mut found) = (word == OBSERVER, None);
        let word = format!(" {word}");
        in_time(&format!("there is no{word}"), || {
            let is_it = |line: &str| line.contains(&word) && line.contains(OBSERVER) == is_observer;
            let all = self.processes();
            found = all.into_iter().find(|(_, line)| is_it(line));
            found.is_some()
        });
        found.unwrap().0
    }
}

/// Checks that no process of the program is left.
impl Drop for Marked {
    fn drop(&mut self) {
        if !thread::panicking() {
            in_time("something is left behind", || self.processes().is_empty());
        }
    }
}

fn in_time(else_says: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + SOON;
    while !is_so() {
        assert!(Instant::now() < until, "{else_says}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Within which everything happens on a busy machine.
const SOON: Duration = Duration::from_secs(60);

fn settings() -> Settings {
    Settings {
        warmup: Duration::from_millis(5),
        window: Duration::from_millis(20),
        ..harness::settings(ContentCheck::Full)
    }
}

fn sample(lab: &mut Lab, cell: &Cell) -> Sample {
    trial_in(lab, cell).unwrap()
}

fn read(readings: &Readings, counter: Counter) -> Option<u64> {
    readings.get(&counter).and_then(Reading::measured)
}

/// Trials of a cell one after the other; all arrives, is compared, and both machines are read.
fn all_arrives(way: &Way, values: &str) {
    let mut lab = way.lab(settings());
    for _ in 0..2 {
        arrives(&mut lab, &cell(values));
    }
}

fn arrives(lab: &mut Lab, cell: &Cell) -> Sample {
    let sample = sample(lab, cell);
    let truth = sample.truth.as_ref().expect("nothing was checked");
    assert!(truth.sent_bytes > 0, "{truth:?}");
    assert_eq!(truth.received_bytes, truth.sent_bytes);
    assert_eq!(truth.compared_bytes, truth.sent_bytes);
    both_are_read(&sample, cell.threads as usize, false);
    sample
}

fn both_are_read(sample: &Sample, flows: usize, is_served: bool) {
    for side in [&sample.sender, sample.receiver.as_ref().unwrap()] {
        assert_eq!(side.flows.len(), flows, "{:?}", side.flows);
        // On a busy machine a server may have been read too late.
        let is_read = match side.readings.get(&Counter::CpuNs) {
            Some(Reading::Absent { absent }) => absent.contains("ms late in a window"),
            cpu => cpu.is_some(),
        };
        assert!(is_read, "{:?}", side.readings);
    }
    for machine in [&sample.machine, &sample.peer_machine] {
        assert!(read(machine, Counter::MachineElapsedNs).is_some());
        // The network is read by a side's process, which may have ended by then.
        let is_read = match machine.get(&Counter::TcpOutSegs) {
            Some(Reading::Absent { absent }) => is_served && absent.contains("cannot be read"),
            segments => segments.is_some(),
        };
        assert!(is_read, "{machine:?}");
    }
}

fn is_served(side: PeerSide, values: &str) {
    let way = Way {
        side,
        address: Some("127.0.0.1"),
        ..Way::default()
    };
    let mut lab = way.lab(settings());
    is_answered(&mut lab, values);
}

fn is_answered(lab: &mut Lab, values: &str) {
    let sample = sample(lab, &cell(&format!("{values} size=100")));
    both_are_read(&sample, 1, true);
    let read = |counter| read(&sample.sender.readings, counter);
    // How many there were in so short a window is a matter of the machine.
    assert!(read(Counter::Messages).is_some());
    assert_eq!(read(Counter::ErrorsRefused), Some(0));
    assert_eq!(read(Counter::ErrorsWrong), Some(0));
}

fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
    let _ = rustix::process::kill_process(pid, signal);
}

/// Sets a flag when it goes, after a panic too.
struct SetWhenGone<'a>(&'a AtomicBool);

impl Drop for SetWhenGone<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Calls a function while another one runs, which has a flag for its end.
fn meanwhile<T: Send, R>(
    beside: impl FnOnce(&AtomicBool) -> T + Send,
    work: impl FnOnce() -> R,
) -> (T, R) {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let beside = scope.spawn(|| beside(&over));
        let done = {
            let _set = SetWhenGone(&over);
            work()
        };
        (beside.join().unwrap(), done)
    })
}
