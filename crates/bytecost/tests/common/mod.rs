//! The command in a directory of its own, called, or watched from outside while it runs.
#![allow(dead_code)] // each uses a part of it

use std::env;
use std::fs::{self, DirEntry, File};
use std::io;
use std::iter;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use bytecost_report::Findings;
use bytecost_spec::sample::last_short_windows;
use bytecost_spec::{Cell, Record, Sample};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;
use tempfile::TempDir;

#[path = "../../../../tests/lack.rs"]
mod lack;
pub mod networks;

pub use lack::{Lack, has, skipped};

pub const BYTECOST: &str = env!("CARGO_BIN_EXE_bytecost");

/// Longer than anything here takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Within which a command must have ended that was asked to: 3 s, and some for a busy machine.
pub const END: Duration = Duration::from_secs(10);

/// A run that takes a second or two and needs two cells.
pub const TINY: &str = "run --mover null,send,sendfile --size 4KiB --budget 3s --blocks 8 --window 20ms --warmup 2ms --seed 7";

/// The files of a run; all others of a recorded one are expectations.
pub const RECORDED: [&str; 3] = ["ended.json", "manifest.json", "samples.jsonl"];

/// All files of a run without figures.
pub const FILES: [&str; 7] = [
    "ended.json",
    "findings.json",
    "manifest.json",
    "report.html",
    "report.md",
    "samples.csv",
    "samples.jsonl",
];

pub struct Place {
    dir: TempDir,
}

pub struct Ended {
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// Asserts that it was refused: status 2, one line with these parts, nothing on stdout.
    #[track_caller]
    pub fn refused(&self, says: &[&str]) {
        assert_eq!(self.status, Some(2), "{}", self.stderr);
        assert_eq!(self.stderr.lines().count(), 1, "{}", self.stderr);
        assert!(self.stderr.starts_with("error: "), "{}", self.stderr);
        self::says(&self.stderr, says);
        assert_eq!(self.stdout, "");
    }

    /// Asserts that it measured: trials may fail on a busy machine, which is status 1.
    #[track_caller]
    pub fn measured(self) -> Ended {
        assert!(matches!(self.status, Some(0 | 1)), "{}", self.stderr);
        self
    }

    #[track_caller]
    pub fn succeeded(self) -> String {
        assert_eq!(self.status, Some(0), "{}{}", self.stdout, self.stderr);
        self.stdout
    }

    #[track_caller]
    pub fn json(self) -> Value {
        serde_json::from_str(&self.succeeded()).unwrap()
    }

    /// Its output in one line, so that no sentence is broken.
    pub fn flat(&self) -> String {
        flat(&self.stdout)
    }
}

pub fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[track_caller]
pub fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no `{part}`: {text}");
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Ended {
        Ended {
            status: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Place {
    pub fn new() -> Place {
        Place {
            dir: TempDir::new().unwrap(),
        }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn runs(&self) -> PathBuf {
        self.path().join("bytecost-runs")
    }

    /// Where its commands keep the history of rounds.
    pub fn state(&self) -> PathBuf {
        self.path().join("state")
    }

    pub fn bytecost(&self, words: impl AsRef<str>) -> Command {
        self.other(BYTECOST, words.as_ref().split_whitespace())
    }

    /// The command called by a shell with a limit set: `limit` is what `ulimit` is given.
    pub fn limited(&self, limit: &str, words: &str) -> Command {
        let script = format!("ulimit {limit}; exec \"$0\" \"$@\"");
        let shell = ["-c", &script, BYTECOST].into_iter();
        self.other("sh", shell.chain(words.split_whitespace()))
    }

    /// Those tests that are about evidence ask for it. Tests run side by side, so that a block would
    /// always be measured again.
    pub fn other<'a>(&self, program: &str, words: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = Command::new(program);
        command
            .args(words)
            .current_dir(self.path())
            .env_remove("BYTECOST_RUNS")
            .env("BYTECOST_EVIDENCE", "none")
            .env("BYTECOST_REPEATS", "0")
            .env("XDG_CACHE_HOME", caches())
            .env("XDG_STATE_HOME", self.state())
            .stdin(Stdio::null());
        command
    }

    pub fn call(&self, words: impl AsRef<str>) -> Ended {
        ended(&mut self.bytecost(words))
    }

    /// Holds the command to a table of refusals, one a line: its words, ` => `, and the parts that
    /// the one line says, divided by ` | `. `prefix` stands before the words of each.
    #[track_caller]
    pub fn refuses(&self, prefix: &str, table: &str) {
        let rows = table.lines().map(str::trim).filter(|row| !row.is_empty());
        for row in rows {
            let (words, message) = row.split_once("=> ").unwrap_or_else(|| panic!("{row}"));
            let parts: Vec<&str> = message.split(" | ").collect();
            self.call(format!("{prefix} {words}")).refused(&parts);
        }
    }

    #[track_caller]
    pub fn run(&self) -> PathBuf {
        let runs = self.all_runs();
        assert_eq!(runs.len(), 1, "{runs:?}");
        runs[0].clone()
    }

    pub fn all_runs(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.runs()) else {
            return Vec::new();
        };
        entries.map(|e| e.unwrap().path()).collect()
    }

    pub fn id(&self) -> String {
        self.run().file_name().unwrap().to_str().unwrap().to_owned()
    }

    /// The command line that resumes its one run.
    pub fn resume(&self, more: &str) -> String {
        format!("run --resume {} {more}", self.id())
    }

    #[track_caller]
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.run().join(name)).unwrap()
    }

    #[track_caller]
    pub fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(name)).unwrap()
    }

    /// The log of the one run, record by record, each line of which must be whole.
    pub fn records(&self) -> Vec<Record> {
        let text = self.read("samples.jsonl");
        assert!(text.is_empty() || text.ends_with('\n'), "a partial line");
        let read = |line| serde_json::from_str(line).unwrap();
        text.lines().map(read).collect()
    }

    /// The first blocks, which do not count against a limit as windows became longer in them: none on a
    /// quiet machine.
    pub fn blocks_not_counted(&self) -> u32 {
        let blocks: Vec<_> = self
            .records()
            .into_iter()
            .filter_map(|record| match record {
                Record::Block(block) => Some(block),
                _ => None,
            })
            .collect();
        let last = last_short_windows(&blocks).into_values();
        last.map(|(block, _)| block + 1).max().unwrap_or(0)
    }

    pub fn samples(&self) -> Vec<(Cell, Sample)> {
        let all = self.records().into_iter();
        all.filter_map(|record| match record {
            Record::Sample(sample) => Some((Cell::from_id(&sample.cell).unwrap(), sample)),
            _ => None,
        })
        .collect()
    }

    /// Returns true once the survey is over, whose trials have endpoints too, and there is a run.
    pub fn has_run(&self) -> bool {
        !self.all_runs().is_empty()
    }

    /// Whole lines in the log of the one run, none where there is no run yet.
    pub fn lines(&self) -> usize {
        let read = |run: &PathBuf| fs::read_to_string(run.join("samples.jsonl")).ok();
        let log = self.all_runs().first().and_then(read);
        log.unwrap_or_default().matches('\n').count()
    }

    pub fn findings(&self) -> Findings<'static> {
        serde_json::from_value(self.json("findings.json")).unwrap()
    }

    /// A place with a run of [`TINY`].
    pub fn with_run() -> Place {
        static RUN: SharedRun = SharedRun::new(TINY);
        RUN.place()
    }

    /// A place with a run of as few cells and blocks as there can be.
    pub fn with_two_cells() -> Place {
        static RUN: SharedRun = SharedRun::new(
            "run --mover null,send --size 4KiB --blocks 6 --window 20ms --warmup 2ms --budget 60s",
        );
        RUN.place()
    }

    pub fn recorded(studies: &[&str]) -> Place {
        let place = Place::new();
        for study in studies {
            copy_recorded(study, &place.runs().join(study));
        }
        place
    }

    pub fn start(&self, command: &mut Command) -> Started {
        let file = |name| File::create(self.path().join(name)).unwrap();
        command.stdout(file("stdout")).stderr(file("stderr"));
        Started {
            child: command.spawn().unwrap(),
            dir: self.path().to_owned(),
            _place: None,
        }
    }
}

/// A run that is measured once, and of which each test has a copy that it may change.
struct SharedRun {
    /// The command line of the run, which is called quietly.
    words: &'static str,
    /// All that it leaves in its place, by the paths there: directories without content, and files.
    left: OnceLock<Vec<(PathBuf, Option<Vec<u8>>)>>,
}

impl SharedRun {
    const fn new(words: &'static str) -> SharedRun {
        SharedRun {
            words,
            left: OnceLock::new(),
        }
    }

    fn measured(&self) -> Vec<(PathBuf, Option<Vec<u8>>)> {
        let place = Place::new();
        let end = place.call(format!("{} --quiet", self.words)).measured();
        assert!(end.stderr.is_empty() || end.status == Some(1), "not quiet");
        below(place.path())
            .into_iter()
            .map(|path| {
                let content = path.is_file().then(|| fs::read(&path).unwrap());
                (path.strip_prefix(place.path()).unwrap().to_owned(), content)
            })
            .collect()
    }

    /// A place with a copy of the run, and of the history of rounds that it is in.
    fn place(&self) -> Place {
        let place = Place::new();
        // A directory stands before what is in it.
        for (path, content) in self.left.get_or_init(|| self.measured()) {
            let copy = place.path().join(path);
            match content {
                Some(content) => fs::write(copy, content).unwrap(),
                None => fs::create_dir_all(copy).unwrap(),
            }
        }
        place
    }
}

/// Where runs of all built-in studies are recorded, with what bytecost makes of them.
pub fn goldens() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens")
}

/// Changes the manifest of a run.
pub fn edit(run: &Path, change: impl FnOnce(&mut Value)) {
    let path = run.join("manifest.json");
    let mut manifest = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    change(&mut manifest);
    fs::write(path, manifest.to_string()).unwrap();
}

/// Copies a recorded run, without what was made of it.
pub fn copy_recorded(study: &str, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in RECORDED {
        fs::copy(goldens().join(study).join(file), to.join(file)).unwrap();
    }
}

/// Returns true if root runs the tests; if not, a test is reported as skipped.
#[track_caller]
pub fn is_root() -> bool {
    let is_root = geteuid().is_root();
    if !is_root {
        skipped(Lack::Right, "it needs root");
    }
    is_root
}

/// Where commands keep what they found, for all tests: not where the user has it.
pub fn caches() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("caches")
}

/// A directory in the target folder, which is on a disk more often than the temporary one.
pub fn directory_on_disk() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// All files and directories below a directory, itself included, as far as they can be read.
pub fn below(dir: &Path) -> Vec<PathBuf> {
    let mut all = vec![dir.to_owned()];
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            all.extend(below(&entry.path()))
        } else {
            all.push(entry.path())
        }
    }
    all
}

pub fn count(dir: &Path) -> usize {
    fs::read_dir(dir).unwrap().count()
}

/// Returns true if a thread of a process or of its endpoints is in a wait that no signal ends: in
/// state D of proc_pid_stat(5).
fn waits_for_disk(pid: u32) -> bool {
    let is_uninterruptible = |stat: &Path| {
        let stat = fs::read_to_string(stat).unwrap_or_default();
        stat.rsplit_once(") ")
            .is_some_and(|(_, state)| state.starts_with('D'))
    };
    let pids = iter::once(pid).chain(endpoints_of(pid));
    pids.filter_map(|process| fs::read_dir(format!("/proc/{process}/task")).ok())
        .flatten()
        .flatten()
        .any(|task| is_uninterruptible(&task.path().join("stat")))
}

/// A command that runs, and its output so far; dropping it ends it.
pub struct Started {
    child: Child,
    dir: PathBuf,
    /// Where it is at home, unless somebody else has that.
    _place: Option<Place>,
}

impl Started {
    pub fn alone(words: &str) -> Started {
        let place = Place::new();
        let mut started = place.start(&mut place.bytecost(words));
        started._place = Some(place);
        started
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn out(&self) -> String {
        fs::read_to_string(self.dir.join("stdout")).unwrap()
    }

    pub fn err(&self) -> String {
        fs::read_to_string(self.dir.join("stderr")).unwrap()
    }

    pub fn held(&self) -> (usize, usize) {
        let held = |what| count(Path::new(&format!("/proc/{}/{what}", self.pid())));
        (held("task"), held("fd"))
    }

    /// Waits until its output fulfils a condition, while the command runs.
    pub fn until_output(&mut self, what: &str, so: impl Fn(&str, &str) -> bool) {
        until(what, PATIENCE, || {
            if so(&self.out(), &self.err()) {
                return true;
            }
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("ended ({status}) before {what}: {}", self.err());
            }
            false
        });
    }

    pub fn until(&mut self, what: &str, so: impl Fn() -> bool) {
        self.until_output(what, |_, _| so());
    }

    pub fn send(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// Sends a signal and waits for the end: not for long where it asks for that. What is left out
    /// is time in which the kernel waits for the disk, since no signal ends that.
    #[track_caller]
    pub fn ended_by(mut self, signal: Signal) -> Ended {
        let pid = self.pid();
        self.send(signal);
        let mut looked = Instant::now();
        let mut took = Duration::ZERO;
        until("the end of the command", PATIENCE, || {
            let since = looked.elapsed();
            looked += since;
            if !waits_for_disk(pid) {
                took += since;
            }
            self.child.try_wait().unwrap().is_some()
        });
        assert!(signal == Signal::CONT || took < END, "{signal:?}: {took:?}");
        self.end()
    }

    #[track_caller]
    pub fn interrupted(self) -> Ended {
        let end = self.ended_by(Signal::INT);
        assert_eq!(end.status, Some(1), "{}", end.stderr);
        end
    }

    /// Waits until both sides of a trial are at work, which who was started ahead of it is not,
    /// and so many records.
    pub fn until_both_sides(&mut self, place: &Place, records: usize) {
        let coordinator = self.pid();
        // By its thread for the trial.
        let works =
            |pid: &u32| fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|t| t.count() > 1);
        self.until("a trial of two sides", || {
            let ends = endpoints_of(coordinator);
            let is_of_run = place.has_run() && place.lines() >= records;
            is_of_run && ends.len() == 2 && ends.iter().all(works)
        });
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub fn end(self) -> Ended {
        self.end_within(PATIENCE)
    }

    pub fn end_within(mut self, limit: Duration) -> Ended {
        let mut status: Option<ExitStatus> = None;
        until("the end of the command", limit, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        Ended {
            status: status.and_then(|s| s.code()),
            stdout: self.out(),
            stderr: self.err(),
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command to its end whose output nobody reads: that is no failure, and no word is said.
#[track_caller]
pub fn unread(command: &mut Command) {
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let child = command.stdout(writer).stderr(Stdio::piped()).spawn();
    let end = Ended::from(child.unwrap().wait_with_output().unwrap());
    assert_eq!((end.status, &*end.stderr), (Some(0), ""), "{command:?}");
}

pub fn ended(command: &mut Command) -> Ended {
    command.output().unwrap().into()
}

/// A port that is taken, and at which nobody listens: it is nobody else's while this is held.
pub fn nobody() -> (OwnedFd, u16) {
    let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
    let held = socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
    bind(&held, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = SocketAddrV4::try_from(getsockname(&held).unwrap()).unwrap();
    (held, address.port())
}

/// Calls the command where a file system of the test's own is mounted, in namespaces of its own;
/// none, and the reason printed, where that is not possible.
pub fn in_tmpfs(place: &Place, options: &str, there: &Path, words: &str) -> Option<Ended> {
    let path = there.display();
    let script = format!("mount -t tmpfs -o {options} none {path} && exec {BYTECOST} {words}");
    let mut unshare = place.other("unshare", ["--user", "--map-root-user", "--mount"]);
    let output = unshare
        .args(["sh", "-c", &script])
        .output()
        .inspect_err(|e| skipped(Lack::Tool, format_args!("unshare(1): {e}")));
    let end = Ended::from(output.ok()?);
    let is_refused = end.stderr.contains("unshare:") || end.stderr.contains("mount:");
    if is_refused {
        skipped(Lack::Right, &end.stderr);
    }
    (!is_refused).then_some(end)
}

/// Returns true if the rest of the test is to run in this process: it runs in a PID namespace of its own, in
/// which it is started, since each run on a machine removes what dead ones have left. Where there is no
/// such namespace, it runs here.
pub fn among_no_others(test: &str) -> bool {
    const INSIDE: &str = "BYTECOST_TEST_AMONG_NO_OTHERS";
    if env::var_os(INSIDE).is_some() {
        return true;
    }
    let unshared = |program: &Path, words: &[&str]| {
        let mut unshare = Command::new("unshare");
        unshare.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
        if !geteuid().is_root() {
            unshare.args(["--user", "--map-root-user"]);
        }
        unshare.arg("--").arg(program).args(words);
        unshare.env(INSIDE, "yes").output()
    };
    if !unshared(Path::new("true"), &[]).is_ok_and(|end| end.status.success()) {
        return true;
    }
    let program = env::current_exe().unwrap();
    let end = Ended::from(unshared(&program, &["--exact", test, "--nocapture"]).unwrap());
    eprintln!("{}", end.stderr);
    assert!(end.stdout.contains("1 passed"), "{}", end.stdout);
    false
}

pub fn kill(pid: u32, signal: Signal) -> io::Result<()> {
    let pid = Pid::from_raw(pid as i32).unwrap();
    Ok(kill_process(pid, signal)?)
}

/// The processes that play endpoints for a coordinator, which need not live any more.
pub fn endpoints_of(coordinator: u32) -> Vec<u32> {
    ending_with(&format!("\0endpoint\0{coordinator}\0"))
}

/// The processes that observe their host for a coordinator, which need not live any more.
pub fn observers_of(coordinator: u32) -> Vec<u32> {
    ending_with(&format!("\0endpoint\0{coordinator}\0observer\0"))
}

/// The processes whose command lines end so.
fn ending_with(tail: &str) -> Vec<u32> {
    let is_one = |entry: &DirEntry| {
        fs::read(entry.path().join("cmdline")).is_ok_and(|line| line.ends_with(tail.as_bytes()))
    };
    let all = fs::read_dir("/proc").unwrap().flatten().filter(is_one);
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

pub fn until(what: &str, limit: Duration, mut so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < limit, "not within {limit:?}: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Asserts that a run directory has nothing in it but what a run leaves, and no temporary file.
pub fn assert_only_known_files(run: &Path) {
    for entry in fs::read_dir(run).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let picture = name.ends_with(".svg") && !name.starts_with('.');
        assert!(picture || FILES.contains(&name.as_str()), "{name} is left");
    }
}
