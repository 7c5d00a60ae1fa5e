//! Runs to which the worst happens at random moments: signals, limits, a full disk, calls that fail.
//! None hangs or leaves anything behind, each says in one line what failed, its log is a prefix of whole
//! lines, and `--resume` completes it.
//!
//! `TORTURE` is the number of rounds. Each is drawn from `TORTURE_SEED` and its number, and plays in a
//! process of its own, which looks for nothing but its own descendants: as root in a network and mounts
//! of its own, every fourth round as a user.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use bytecost_spec::Record;
use common::{
    BYTECOST, Ended, Lack, Place, Started, assert_only_known_files, below, has, kill, skipped,
};
use libtest_mimic::{Arguments, Failed, Trial};
use rustix::process::{Signal, geteuid, getpid, set_child_subreaper};

/// The rounds of a run of all tests.
const ROUNDS: u64 = 50;
const AT_A_TIME: usize = 4;
/// Within which a run ends after what happened to it.
const PATIENCE: Duration = Duration::from_secs(30);
/// Within which all that it started ends after it.
const REST: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(2);
/// Set in the process of a round: seed and number.
const ROUND: &str = "BYTECOST_TEST_ROUND";
const NOBODY: u32 = 65534;
const SHORT: &str =
    "--quiet --no-history --seed 7 --budget 2s --blocks 6 --window 10ms --warmup 2ms";

/// A kind of run.
struct Kind {
    name: &'static str,
    words: &'static str,
    needs_root: bool,
}

const fn kind(name: &'static str, words: &'static str) -> Kind {
    Kind {
        name,
        words,
        needs_root: false,
    }
}

const fn of_root(name: &'static str, words: &'static str) -> Kind {
    Kind {
        needs_root: true,
        ..kind(name, words)
    }
}

const KINDS: &[Kind] = &[
    kind("loopback", "--mover null,send,sendfile --size 4KiB"),
    kind("unix", "--mover send,vmsplice --transport unix --size 4KiB"),
    of_root("veth", "--mover send,sendfile --transport veth --size 4KiB"),
    of_root("wire", "--mover send --transport wire --size 4KiB"),
    kind(
        "server",
        "server-models --placement free --server fork,epoll --service echo --size 64 --connections 2 --connect kept --idle 0",
    ),
    kind(
        "file",
        "file-read --mover pread,uring-read --ring 1MiB --size 4KiB --access random --cache warm",
    ),
    kind(
        "background",
        "--mover send --size 4KiB --background spin --placement same-cpu",
    ),
    of_root("group", "--mover work-integer --cgroup max=50%"),
    kind(
        "java",
        "--mover java-stream --size 64KiB --block 4KiB --ring message",
    ),
    kind("peer", "--mover send --size 4KiB"),
    of_root(
        "evidence",
        "--mover send,sendfile --size 4KiB --evidence time,copies,counts,footprint",
    ),
];

/// Whom a signal is for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Target {
    Coordinator,
    /// One of an endpoint, a server, a Java machine, an agent, a background load.
    Other,
}
use Target::{Coordinator, Other};

/// What happens.
enum Fault {
    Signal(Target, Signal),
    /// SIGSTOP, and SIGCONT some time later.
    Pause(Target),
    /// A limit by prlimit(1), from and to.
    Limit(&'static str, u64, u64),
    /// A file system of the runs with so many KiB, from and to.
    Space(u64, u64),
    /// The k-th of these calls fails in every thread; k grows with the rounds.
    Call(&'static str, &'static str),
}
use Fault::{Call, Limit, Pause, Space};

const FAULTS: &[Fault] = &[
    Fault::Signal(Coordinator, Signal::KILL),
    Fault::Signal(Other, Signal::KILL),
    Fault::Signal(Coordinator, Signal::TERM),
    Fault::Signal(Other, Signal::TERM),
    Fault::Signal(Coordinator, Signal::INT),
    Fault::Signal(Other, Signal::STOP),
    Pause(Coordinator),
    Pause(Other),
    Limit("nofile", 3, 80),
    Limit("fsize", 0, 200_000),
    Limit("as", 50 << 20, 600 << 20),
    Space(8, 400),
    Call("write,pwrite64,writev", "ENOSPC"),
    Call("fsync,fdatasync", "EIO"),
    Call("rename,renameat,renameat2,linkat", "ENOSPC"),
    Call("openat,socket", "EMFILE"),
    Call("clone,clone3,fork,vfork", "EAGAIN"),
    Call("execve", "ENOMEM"),
    Call("connect", "ECONNREFUSED"),
];

/// Random numbers, splitmix64.
struct Random(u64);

impl Random {
    /// One below `most`.
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % most
    }

    fn millis(&mut self, most: u64) -> Duration {
        Duration::from_millis(self.below(most))
    }
}

fn main() -> ExitCode {
    if let Ok(round) = env::var(ROUND) {
        let (seed, number) = round.split_once(' ').unwrap();
        Round::new(seed.parse().unwrap(), number.parse().unwrap()).play();
        return ExitCode::SUCCESS;
    }
    let number = |name: &str| env::var(name).ok().map(|n| n.parse::<u64>().expect(name));
    let rounds = number("TORTURE");
    // The suite is the same every time, a search is not.
    let by_clock = || SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let seed = number("TORTURE_SEED").unwrap_or_else(|| rounds.map_or(1, |_| by_clock()));
    println!("TORTURE_SEED={seed}");
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_A_TIME);
    let trials = (0..rounds.unwrap_or(ROUNDS)).map(|number| {
        let name = Round::new(seed, number).name();
        Trial::test(name, move || apart(seed, number))
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// Plays a round in a process of its own.
fn apart(seed: u64, number: u64) -> Result<(), Failed> {
    let program = env::current_exe().unwrap();
    let mut command = Command::new("unshare");
    match geteuid().is_root() {
        true => command
            .args(["--net", "--mount", "--propagation", "private"])
            .arg(program),
        false => {
            command = Command::new(program);
            &mut command
        }
    };
    let output = command
        .env(ROUND, format!("{seed} {number}"))
        .output()
        .unwrap();
    // What was skipped stands in the list.
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "TORTURE_SEED={seed}: {}",
        String::from_utf8_lossy(&output.stderr)
    )
    .into())
}

struct Round {
    number: u64,
    kind: &'static Kind,
    fault: &'static Fault,
    random: Random,
    user: Option<u32>,
}

impl Round {
    fn new(seed: u64, number: u64) -> Round {
        let pairs = (KINDS.len() * FAULTS.len()) as u64;
        // A step that has no divisor in common with it, so that all pairs come.
        let pair = ((seed % pairs + number) * 101 % pairs) as usize;
        let (kind, fault) = (&KINDS[pair % KINDS.len()], &FAULTS[pair / KINDS.len()]);
        let mut random = Random(seed.wrapping_mul(0x1_0000).wrapping_add(number));
        let may_be_user = geteuid().is_root() && !kind.needs_root;
        let is_user = may_be_user && !matches!(fault, Space(..)) && random.below(4) == 0;
        Round {
            number,
            kind,
            fault,
            random,
            user: is_user.then_some(NOBODY),
        }
    }

    fn name(&self) -> String {
        let fault = match self.fault {
            Fault::Signal(target, signal) => format!("{signal:?} to {target:?}"),
            Pause(target) => format!("a pause of {target:?}"),
            Limit(name, ..) => format!("limit of {name}"),
            Space(..) => "a small disk".to_owned(),
            Call(calls, error) => format!("{error} of {calls}"),
        };
        let user = self.user.map_or("", |_| ", as a user");
        format!("{}: {}, {fault}{user}", self.number, self.kind.name)
    }

    fn play(mut self) {
        let is_root = geteuid().is_root();
        if self.kind.needs_root && !is_root || matches!(self.fault, Space(..)) && !is_root {
            return skipped(Lack::Right, "it needs root");
        }
        let is_missing = |program: &str| !has(program);
        if self.kind.name == "java" && is_missing("java")
            || matches!(self.fault, Call(..)) && is_missing("strace")
        {
            return;
        }
        set_child_subreaper(Some(getpid())).unwrap();
        if is_root {
            assert!(
                Command::new("ip")
                    .args(["link", "set", "lo", "up"])
                    .status()
                    .unwrap()
                    .success()
            );
        }
        let place = Place::new();
        fs::create_dir(place.path().join("tmp")).unwrap();
        fs::create_dir(place.runs()).unwrap();
        if let Space(from, to) = *self.fault {
            let kib = from + self.random.below(to - from);
            mount(&place, &format!("size={kib}k"));
        }
        if self.user.is_some() {
            fs::set_permissions(place.path(), PermissionsExt::from_mode(0o755)).unwrap();
            let own = |path: &PathBuf| chown(path, self.user, self.user).unwrap();
            let made = [place.path().into(), place.path().join("tmp"), place.runs()];
            made.iter().for_each(own);
        }
        let words = format!("run {} {SHORT}", self.kind.words);
        let (before, mut happened) = self.refusing();
        let mut run = place.start(&mut self.command(&place, &before, &words));
        let coordinator = coordinator(&mut run);
        let programs = self.disturb(&mut run, coordinator, &mut happened);
        eprintln!("{}, {happened}", self.name());
        let ended = run.end_within(PATIENCE);
        let told = format!(
            "{}, {happened}: {:?}\n{}",
            self.name(),
            ended.status,
            ended.stderr
        );
        nothing_left(&place, &told);
        gone(&programs, &told);
        let outside = [
            "strace:",
            "error while loading shared libraries",
            "prlimit:",
        ];
        if outside.iter().any(|program| ended.stderr.contains(program)) {
            return;
        }
        self.is_clear(&ended, &told);
        self.continued(&place, coordinator, &told);
    }

    fn is_killed(&self) -> bool {
        matches!(self.fault, Fault::Signal(Coordinator, Signal::KILL))
    }

    /// The words before the command that have something fail, and what that is.
    fn refusing(&mut self) -> (Vec<String>, String) {
        let random = &mut self.random;
        let words = match *self.fault {
            Limit(name, from, to) => {
                format!("prlimit --{name}={}", from + random.below(to - from))
            }
            Call(calls, error) => {
                let most = 1 << random.below(9);
                let when = 1 + random.below(most);
                format!(
                    "strace -f -qq -o /dev/null --seccomp-bpf -e trace={calls} -e inject={calls}:error={error}:when={when}"
                )
            }
            _ => String::new(),
        };
        (words.split_whitespace().map(str::to_owned).collect(), words)
    }

    /// The command with these words before it and behind it.
    fn command(&self, place: &Place, before: &[String], words: &str) -> Command {
        let user = self.user.map_or(String::new(), |user| {
            format!("setpriv --reuid {user} --regid {user} --clear-groups --inh-caps=-all")
        });
        let peer = match self.kind.name {
            "peer" => format!("--peer env --peer-program {BYTECOST}"),
            _ => String::new(),
        };
        let before = user
            .split_whitespace()
            .chain(before.iter().map(String::as_str));
        let words = words.split_whitespace().chain(peer.split_whitespace());
        let mut all = before.chain([BYTECOST]).chain(words);
        let program = all.next().unwrap();
        let mut command = place.other(program, all);
        command
            .env_remove("BYTECOST_EVIDENCE")
            .env("TMPDIR", place.path().join("tmp"));
        command
    }

    /// Sends the signal of the round, and gives the BPF programs that were held by then.
    fn disturb(
        &mut self,
        run: &mut Started,
        coordinator: u32,
        happened: &mut String,
    ) -> BTreeSet<u32> {
        let (target, signal) = match *self.fault {
            Fault::Signal(target, signal) => (target, signal),
            Pause(target) => (target, Signal::STOP),
            _ => return BTreeSet::new(),
        };
        let began = Instant::now();
        let moment = self.random.millis(2500);
        while began.elapsed() < moment && run.is_running() {
            thread::sleep(LOOK);
        }
        let mut roles: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        while roles.is_empty() && run.is_running() {
            for pid in descendants()
                .into_iter()
                .filter(|pid| (*pid == coordinator) == (target == Coordinator))
            {
                roles.entry(role(pid)).or_default().push(pid);
            }
        }
        let programs = descendants().into_iter().flat_map(programs).collect();
        let Some((role, pids)) = roles
            .iter()
            .nth(self.random.below(roles.len().max(1) as u64) as usize)
        else {
            *happened = "it had ended".to_owned();
            return programs;
        };
        let pid = pids[self.random.below(pids.len() as u64) as usize];
        *happened = format!(
            "{signal:?} to {role} {pid} of {coordinator} after {:?}",
            began.elapsed()
        );
        let _ = kill(pid, signal);
        if let Pause(_) = self.fault {
            let pause = self.random.millis(1500);
            thread::sleep(pause);
            *happened += &format!(", continued after {pause:?}");
            let _ = kill(pid, Signal::CONT);
        }
        programs
    }

    /// Asserts that the end is one that a user understands.
    fn is_clear(&self, ended: &Ended, told: &str) {
        assert!(!ended.stderr.contains("panicked"), "{told}");
        let errors = ended
            .stderr
            .lines()
            .filter(|line| line.starts_with("error: "))
            .count();
        let is_ended = matches!(
            self.fault,
            Fault::Signal(Coordinator, Signal::INT | Signal::TERM)
        );
        let is_fine = match ended.status {
            None => self.is_killed(),
            Some(0) => errors == 0,
            Some(1) => errors < 2,
            Some(2) => errors == 1,
            Some(130) => is_ended,
            Some(_) => false,
        };
        assert!(is_fine, "not a clear end: {told}");
    }

    /// Asserts that the run, where one was begun, is whole as far as it goes, and completes it.
    fn continued(&self, place: &Place, coordinator: u32, told: &str) {
        let runs = place.all_runs();
        let Some(run) = runs.first() else { return };
        assert!(
            run.join("manifest.json").exists(),
            "a directory without a manifest: {told}"
        );
        let log = fs::read_to_string(run.join("samples.jsonl")).unwrap();
        let whole = &log[..log.rfind('\n').map_or(0, |end| end + 1)];
        assert!(
            whole.len() == log.len() || self.is_killed(),
            "a partial line: {told}"
        );
        if matches!(self.fault, Space(..)) {
            mount(place, "remount,size=64m");
        }
        let is_complete = || place.call("runs").stdout.contains("complete");
        if !is_complete() {
            let words = format!("run --resume {} --quiet --no-history", place.id());
            let end = place
                .start(&mut self.command(place, &[], &words))
                .end_within(PATIENCE);
            assert!(
                matches!(end.status, Some(0 | 1)),
                "--resume: {:?} {}\n{told}",
                end.status,
                end.stderr
            );
            assert!(is_complete(), "{} after {told}", place.call("runs").stdout);
        }
        assert!(
            place.read("samples.jsonl").starts_with(whole),
            "the log was changed: {told}"
        );
        let mut trials = BTreeSet::new();
        let keys = place
            .records()
            .into_iter()
            .filter_map(|record| match record {
                Record::Sample(sample) => Some(sample.trial),
                Record::Failure(failure) => Some(failure.trial),
                _ => None,
            });
        keys.for_each(|t| {
            assert!(
                trials.insert([t.block, t.cell, t.attempt]),
                "{t:?} twice: {told}"
            )
        });
        assert_only_known_files(run);
        nothing_left(place, told);
        let mark = format!("-{coordinator}-");
        let is_own = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().contains(&mark);
        let mut groups = below(Path::new("/sys/fs/cgroup")).into_iter();
        assert_eq!(
            groups.find(|path| path.is_dir() && is_own(path)),
            None,
            "{told}"
        );
    }
}

/// Mounts a file system over the runs, or changes the one that is there.
fn mount(place: &Place, options: &str) {
    let mut mount = Command::new("mount");
    mount
        .args(["-t", "tmpfs", "-o", options, "none"])
        .arg(place.runs());
    assert!(mount.status().unwrap().success());
}

/// The run among the processes that were started with it, once it is there.
fn coordinator(run: &mut Started) -> u32 {
    let mut found = run.pid();
    while run.is_running() {
        if let Some(pid) = descendants().into_iter().find(|pid| role(*pid) == "run") {
            found = pid;
            break;
        }
    }
    found
}

fn words(pid: u32) -> Vec<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = line.split(|byte| *byte == 0);
    words
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

/// The part that a process plays: `run`, `endpoint`, `agent`, or its program.
fn role(pid: u32) -> String {
    let words = words(pid);
    let is_ours = words[0].ends_with("bytecost") || words[0].starts_with("/proc/");
    words[usize::from(is_ours && words.len() > 1)].clone()
}

/// All living processes that this one has started, and those that they have started.
fn descendants() -> Vec<u32> {
    let (mut all, mut at) = (vec![std::process::id()], 0);
    while let Some(pid) = all.get(at) {
        let tasks = fs::read_dir(format!("/proc/{pid}/task"))
            .into_iter()
            .flatten()
            .flatten();
        let children =
            tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
        let children: String = children.collect();
        all.extend(
            children
                .split_whitespace()
                .map(|pid| pid.parse::<u32>().unwrap()),
        );
        at += 1;
    }
    let is_dead = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ")
            .is_none_or(|(_, state)| state.starts_with(['Z', 'X']))
    };
    all.into_iter()
        .skip(1)
        .filter(|pid| !is_dead(pid))
        .collect()
}

/// BPF programs that a process holds.
fn programs(pid: u32) -> Vec<u32> {
    let infos = fs::read_dir(format!("/proc/{pid}/fdinfo"))
        .into_iter()
        .flatten()
        .flatten();
    let texts = infos.filter_map(|info| fs::read_to_string(info.path()).ok());
    let id = |text: String| {
        text.lines()
            .find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok())
    };
    texts.filter_map(id).collect()
}

fn gone(programs: &BTreeSet<u32>, told: &str) {
    let is_loaded = || {
        aya::programs::loaded_programs()
            .flatten()
            .any(|p| programs.contains(&p.id()))
    };
    let began = Instant::now();
    while !programs.is_empty() && is_loaded() {
        assert!(began.elapsed() < REST, "BPF programs are left: {told}");
        thread::sleep(LOOK);
    }
}

/// Asserts that nothing of the run is there: no process, link, port, name of a socket, temporary file.
fn nothing_left(place: &Place, told: &str) {
    let began = Instant::now();
    let mut left = descendants();
    while !left.is_empty() && began.elapsed() < REST {
        thread::sleep(LOOK);
        left = descendants();
    }
    let lines: Vec<Vec<String>> = left.iter().map(|pid| words(*pid)).collect();
    left.iter().for_each(|pid| drop(kill(*pid, Signal::KILL)));
    assert!(left.is_empty(), "{lines:?} are left: {told}");
    assert_eq!(
        common::count(&place.path().join("tmp")),
        0,
        "temporary files are left: {told}"
    );
    if !geteuid().is_root() {
        return; // in the network of everybody
    }
    let read =
        |name: &str| fs::read_to_string(Path::new("/proc/self/net").join(name)).unwrap_or_default();
    let devices = read("dev");
    assert_eq!(
        devices
            .lines()
            .filter(|l| l.contains(':') && !l.contains(" lo:"))
            .count(),
        0,
        "{devices}{told}"
    );
    let sockets = read("tcp") + &read("tcp6") + &read("udp");
    let is_open = |line: &&str| matches!(line.split_whitespace().nth(3), Some("0A" | "07"));
    assert_eq!(sockets.lines().find(is_open), None, "{told}");
    assert!(
        !read("unix").contains("@bytecost"),
        "{}{told}",
        read("unix")
    );
}
