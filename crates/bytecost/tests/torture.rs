//! Runs to which the worst happens at random moments: signals, limits, a full disk, calls that fail.
//! None hangs or leaves anything behind, each says in one line what failed, its log is a prefix of whole
//! lines, and `--resume` completes it.
//!
//! `TORTURE` is the number of rounds. Each is drawn from `TORTURE_SEED` and its number, and plays in a
//! process of its own, which looks for nothing but its own descendants: as root in a network and mounts
//! of its own. Every fourth round that needs no root is a user's.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use aya::programs::loaded_programs;
use bytecost_spec::Record;
use common::{
    BYTECOST, Ended, Lack, Place, Started, assert_only_known_files, below, count, has, kill,
    skipped, until,
};
use libtest_mimic::{Arguments, Failed, Trial};
use rustix::process::{Signal, geteuid, getpid, set_child_subreaper};

/// The rounds of a run of all tests, with the same seed every time; a search has another one.
const ROUNDS: u64 = 50;
const AT_A_TIME: usize = 4;
/// Within which a run ends after what happened to it, on a machine that is busy with others.
const PATIENCE: Duration = Duration::from_secs(60);
/// Within which all that a run started ends after it.
const REST: Duration = Duration::from_secs(10);
/// The latest moment of a signal, in ms.
const SPAN_MS: u64 = 2000;
const LOOK: Duration = Duration::from_millis(10);
/// Set in the process of a round: seed and number.
const ROUND: &str = "BYTECOST_TEST_ROUND";
const NOBODY: u32 = 65534;
const SHORT: &str =
    "--quiet --no-history --seed 7 --budget 2s --blocks 6 --window 10ms --warmup 2ms";

/// A kind of run, its words, and whether it needs root.
struct Kind(&'static str, &'static str, bool);

#[rustfmt::skip] // a table
const KINDS: &[Kind] = &[
    Kind("loopback", "--mover send,sendfile --size 4KiB", false),
    Kind("unix", "--mover send,vmsplice --transport unix --size 4KiB", false),
    Kind("veth", "--mover send --transport veth --size 4KiB", true),
    Kind("wire", "--mover send --transport wire --size 4KiB", true),
    Kind("server", "server-models --placement free --server fork,epoll --service echo --size 64 --connections 2 --connect kept --idle 0", false),
    Kind("file", "file-read --mover pread,uring-read --ring 1MiB --size 4KiB --access random --cache warm", false),
    Kind("background", "--mover send --size 4KiB --background spin --placement same-cpu", false),
    Kind("group", "--mover work-integer --cgroup max=50%", true),
    Kind("java", "--mover java-stream --size 64KiB --block 4KiB --ring message", false),
    Kind("peer", "--mover send --size 4KiB", false),
    Kind("copies", "--mover send --size 4KiB --evidence copies,counts", true),
    Kind("looks", "--mover send --size 4KiB --evidence time,footprint", true),
];

/// The process that gets the signal.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Target {
    Coordinator,
    /// One of an endpoint, a server, a Java machine, an agent, a background load.
    Other,
}
use Target::{Coordinator, Other};

#[derive(Debug)]
enum Fault {
    Send(Signal, Target),
    /// SIGSTOP, and SIGCONT some time later.
    Pause(Target),
    /// A limit by prlimit(1), from and to.
    Limit(&'static str, u64, u64),
    /// A file system for the runs with so many KiB, from and to.
    Space(u64, u64),
    /// The k-th of these calls fails in every thread; small numbers are the most frequent.
    Call(&'static str, &'static str),
}
use Fault::{Call, Limit, Pause, Send, Space};

const FAULTS: &[Fault] = &[
    Send(Signal::KILL, Coordinator),
    Send(Signal::KILL, Other),
    Send(Signal::TERM, Coordinator),
    Send(Signal::TERM, Other),
    Send(Signal::INT, Coordinator),
    Send(Signal::STOP, Other),
    Pause(Coordinator),
    Pause(Other),
    Limit("nofile", 4, 80),
    Limit("fsize", 0, 200_000),
    Limit("as", 100 << 20, 4 << 30),
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
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % most
    }
}

fn main() -> ExitCode {
    if let Ok(round) = env::var(ROUND) {
        let (seed, number) = round.split_once(' ').unwrap();
        Round::new(seed.parse().unwrap(), number.parse().unwrap()).play();
        return ExitCode::SUCCESS;
    }
    let from_env = |name: &str| env::var(name).ok().map(|n| n.parse::<u64>().expect(name));
    let rounds = from_env("TORTURE");
    let by_clock = || SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let seed = from_env("TORTURE_SEED").unwrap_or_else(|| rounds.map_or(1, |_| by_clock()));
    println!("TORTURE_SEED={seed}");
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_A_TIME);
    let trial = |number| Trial::test(Round::new(seed, number).name(), move || apart(seed, number));
    let trials = (0..rounds.unwrap_or(ROUNDS)).map(trial).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Plays a round in a process of its own.
fn apart(seed: u64, number: u64) -> Result<(), Failed> {
    let unshared = "unshare --net --mount --propagation private sh -c";
    let (program, script) = if geteuid().is_root() {
        (unshared, "ip link set lo up && exec \"$0\"")
    } else {
        ("env --", "")
    };
    let mut words = program.split(' ').chain([script]);
    let mut command = Command::new(words.next().unwrap());
    command.args(words.filter(|word| !word.is_empty()));
    let round = command.arg(env::current_exe().unwrap());
    let output = round.env(ROUND, format!("{seed} {number}")).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let failed = || format!("TORTURE_SEED={seed}: {said}").into();
    output.status.success().then_some(()).ok_or_else(failed)
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
        // A step that has no divisor in common with their number, so that all pairs come.
        let pair = ((seed % pairs + number) * 101 % pairs) as usize;
        let (kind, fault) = (&KINDS[pair % KINDS.len()], &FAULTS[pair / KINDS.len()]);
        let mut random = Random(seed.wrapping_mul(0x1_0000).wrapping_add(number));
        let may_be_user = geteuid().is_root() && !kind.2 && !matches!(fault, Space(..));
        let is_user = may_be_user && random.below(4) == 0;
        Round {
            number,
            kind,
            fault,
            random,
            user: is_user.then_some(NOBODY),
        }
    }

    fn name(&self) -> String {
        let user = self.user.map_or("", |_| ", as a user");
        format!("{}: {}, {:?}{user}", self.number, self.kind.0, self.fault)
    }

    fn play(mut self) {
        let needs_root = self.kind.2 || matches!(self.fault, Space(..));
        if needs_root && !geteuid().is_root() {
            return skipped(Lack::Right, "it needs root");
        }
        let is_traced = matches!(self.fault, Call(..));
        if is_traced && !has("strace") || self.kind.0 == "java" && !has("java") {
            return;
        }
        set_child_subreaper(Some(getpid())).unwrap();
        let _swept = Sweep;
        let place = Place::new();
        let made = [place.path().join("tmp"), place.runs()];
        made.iter().for_each(|dir| fs::create_dir(dir).unwrap());
        if let Space(from, to) = *self.fault {
            let kib = from + self.random.below(to - from);
            mount(&place, &format!("size={kib}k"));
        }
        if self.user.is_some() {
            fs::set_permissions(place.path(), PermissionsExt::from_mode(0o755)).unwrap();
            let all = made.iter().map(PathBuf::as_path).chain([place.path()]);
            all.for_each(|dir| chown(dir, self.user, self.user).unwrap());
        }
        let before = self.refusing();
        let words = format!("{before} {BYTECOST} run {} {SHORT}", self.kind.1);
        let mut run = place.start(&mut self.command(&place, &words));
        let coordinator = coordinator(&mut run);
        eprintln!("{}: {before}", self.name());
        let programs = self.disturb(&mut run, coordinator);
        let ended = run.end_within(PATIENCE);
        eprintln!("status {:?}: {}", ended.status, ended.stderr);
        nothing_left(&place);
        until("the end of BPF programs", REST, || {
            let is_held = |id| programs.contains(&id);
            programs.is_empty() || !loaded_programs().flatten().any(|p| is_held(p.id()))
        });
        // Errors of the loader, strace or prlimit are not those of the run.
        if !["loading shared libraries", "strace:", "prlimit:"]
            .iter()
            .any(|who| ended.stderr.contains(who))
        {
            self.is_clear(&ended, !place.all_runs().is_empty());
            self.continued(&place, coordinator);
        }
    }

    /// The words before the command that have something fail.
    fn refusing(&mut self) -> String {
        let random = &mut self.random;
        match *self.fault {
            Limit(name, from, to) => {
                format!("prlimit --{name}={}", from + random.below(to - from))
            }
            Call(calls, error) => {
                let most = 1 << random.below(9);
                let when = 1 + random.below(most);
                let inject =
                    format!("-e trace={calls} -e inject={calls}:error={error}:when={when}");
                format!("strace -f -qq -o /dev/null --seccomp-bpf {inject}")
            }
            _ => String::new(),
        }
    }

    /// A command of these words, by the user of the round.
    fn command(&self, place: &Place, words: &str) -> Command {
        let user = self.user.map_or(String::new(), |user| {
            format!("setpriv --reuid {user} --regid {user} --clear-groups --inh-caps=-all")
        });
        let option = format!("--peer env --peer-program {BYTECOST}");
        let peer = if self.kind.0 == "peer" { &*option } else { "" };
        let all = [&user, words, peer].map(str::split_whitespace);
        let mut args = all.into_iter().flatten();
        let mut command = place.other(args.next().unwrap(), args);
        command.env("TMPDIR", place.path().join("tmp"));
        command
    }

    /// Sends the signal of the round, and gives the BPF programs that were held until then.
    fn disturb(&mut self, run: &mut Started, coordinator: u32) -> BTreeSet<u32> {
        let (signal, target) = match *self.fault {
            Send(signal, target) => (signal, target),
            Pause(target) => (Signal::STOP, target),
            _ => return BTreeSet::new(),
        };
        let began = Instant::now();
        let moment = Duration::from_millis(self.random.below(SPAN_MS));
        let mut roles: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        while run.is_running() && (began.elapsed() < moment || roles.is_empty()) {
            thread::sleep(LOOK);
            roles.clear();
            // A child that is no other program yet holds its parent in vfork and exec, and a stopped
            // one does so until it continues. The wait is the kernel's own, and clone(2) has no bound for
            // it. A thread that starts children would have one, but they end with the thread that
            // started them (PR_SET_PDEATHSIG). So such a child is left out.
            let is_meant = |pid: &u32| match target {
                Coordinator => *pid == coordinator,
                Other => *pid != coordinator && role(*pid) != "run",
            };
            for pid in descendants().into_iter().filter(is_meant) {
                roles.entry(role(pid)).or_default().push(pid);
            }
        }
        let held = descendants().into_iter().flat_map(programs).collect();
        if roles.is_empty() {
            return held; // it ended before
        }
        let (role, pids) = roles
            .iter()
            .nth(self.random.below(roles.len() as u64) as usize)
            .unwrap();
        let pid = pids[self.random.below(pids.len() as u64) as usize];
        eprintln!(
            "{signal:?} to {role} {pid} of {coordinator} after {:?}",
            began.elapsed()
        );
        let _ = kill(pid, signal);
        if matches!(self.fault, Pause(_)) {
            thread::sleep(Duration::from_millis(self.random.below(1500)));
            eprintln!("continued after {:?}", began.elapsed());
            let _ = kill(pid, Signal::CONT);
        }
        held
    }

    fn is_killed(&self) -> bool {
        matches!(self.fault, Send(Signal::KILL, Coordinator))
    }

    /// Asserts that the end is one that a user understands.
    fn is_clear(&self, ended: &Ended, has_run: bool) {
        assert!(!ended.stderr.contains("panicked"), "a panic");
        let errors = ended.stderr.matches("error: ").count();
        let is_ended = matches!(self.fault, Send(Signal::INT | Signal::TERM, Coordinator));
        // Every thread's write fails, those of an error's line too.
        let is_mute = matches!(self.fault, Call(calls, _) if calls.starts_with("write"));
        let is_fine = match ended.status {
            // Before a run can be ended in order there is none.
            None => self.is_killed() || is_ended && !has_run && ended.stderr.is_empty(),
            Some(0) => errors == 0,
            Some(1) => errors < 2,
            Some(2) => errors == 1 || is_mute && errors == 0,
            Some(130) => is_ended,
            Some(_) => false,
        };
        assert!(is_fine, "an end that says nothing");
    }

    /// Asserts that the run, where one was begun, is whole as far as it goes, and completes it.
    fn continued(&self, place: &Place, coordinator: u32) {
        let runs = place.all_runs();
        let Some(run) = runs.first() else { return };
        assert!(run.join("manifest.json").exists(), "no manifest");
        let log = place.read("samples.jsonl");
        let whole = &log[..log.rfind('\n').map_or(0, |end| end + 1)];
        assert!(whole == log || self.is_killed(), "a partial line");
        if matches!(self.fault, Space(..)) {
            mount(place, "remount,size=64m");
        }
        let is_complete = || place.call("runs").stdout.contains("complete");
        if !is_complete() {
            let words = format!("{BYTECOST} {}", place.resume("--quiet --no-history"));
            let resumed = place.start(&mut self.command(place, &words));
            let end = resumed.end_within(PATIENCE);
            assert!(
                matches!(end.status, Some(0 | 1)),
                "--resume: {}",
                end.stderr
            );
            assert!(is_complete(), "{}", place.call("runs").stdout);
        }
        assert!(
            place.read("samples.jsonl").starts_with(whole),
            "the log was changed"
        );
        let mut trials = BTreeSet::new();
        let keys = place
            .records()
            .into_iter()
            .filter_map(|record| match record {
                Record::Sample(sample) => Some((sample.trial, false)),
                Record::Failure(failure) => Some((failure.trial, failure.for_evidence)),
                _ => None,
            });
        keys.for_each(|key| assert!(trials.insert(key), "{key:?} is there twice"));
        assert_only_known_files(run);
        nothing_left(place);
        let mark = format!("-{coordinator}-");
        let is_own = |path: &&PathBuf| path.parent().unwrap().to_string_lossy().contains(&mark);
        assert_eq!(below(Path::new("/sys/fs/cgroup")).iter().find(is_own), None);
    }
}

/// Mounts a file system over the runs, or changes the one that is there.
fn mount(place: &Place, options: &str) {
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", options, "none"]);
    assert!(mount.arg(place.runs()).status().unwrap().success());
}

/// The run among the processes that were started with it, once it is there.
fn coordinator(run: &mut Started) -> u32 {
    let mut found = None;
    while found.is_none() && run.is_running() {
        thread::sleep(LOOK);
        found = descendants().into_iter().find(|pid| role(*pid) == "run");
    }
    found.unwrap_or(run.pid())
}

/// The part that a process plays: `run`, `endpoint`, `agent`, or its program.
fn role(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line).into_owned();
    let mut words = line.split('\0');
    let program = words.next().unwrap_or_default();
    let is_ours = program.ends_with("bytecost") || program.starts_with("/proc/");
    words
        .next()
        .filter(|_| is_ours)
        .unwrap_or(program)
        .to_owned()
}

/// All living processes that this one has started, and those that they have started.
fn descendants() -> Vec<u32> {
    let (mut all, mut at) = (vec![std::process::id()], 0);
    while let Some(pid) = all.get(at) {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter();
        let children: String = (tasks.flatten().flatten())
            .map_while(|task| fs::read_to_string(task.path().join("children")).ok())
            .collect();
        all.extend(
            children
                .split_whitespace()
                .map(|child| child.parse::<u32>().unwrap()),
        );
        at += 1;
    }
    let is_alive = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").map_or("", |(_, state)| state);
        !state.is_empty() && !state.starts_with(['Z', 'X'])
    };
    all.into_iter().skip(1).filter(is_alive).collect()
}

/// Ends all descendants when a round is over, however it ends.
struct Sweep;

impl Drop for Sweep {
    fn drop(&mut self) {
        descendants()
            .into_iter()
            .for_each(|pid| drop(kill(pid, Signal::KILL)));
    }
}

/// BPF programs that a process holds.
fn programs(pid: u32) -> Vec<u32> {
    let infos = fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter();
    let entries = infos.flatten().flatten();
    let texts = entries.filter_map(|info| fs::read_to_string(info.path()).ok());
    let id = |line: &str| line.strip_prefix("prog_id:")?.trim().parse().ok();
    texts.filter_map(|text| text.lines().find_map(id)).collect()
}

/// Asserts that nothing of the run is there: no process, link, port, name of a socket, temporary file.
fn nothing_left(place: &Place) {
    let began = Instant::now();
    let mut left = descendants();
    while !left.is_empty() && began.elapsed() < REST {
        thread::sleep(LOOK);
        left = descendants();
    }
    let roles: Vec<String> = left.iter().map(|pid| role(*pid)).collect();
    assert!(roles.is_empty(), "processes are left: {roles:?}");
    assert_eq!(count(&place.path().join("tmp")), 0, "temporary files");
    if !geteuid().is_root() {
        return; // the network is everybody's
    }
    let read =
        |name: &str| fs::read_to_string(format!("/proc/self/net/{name}")).unwrap_or_default();
    let table = read("dev");
    let devices: Vec<&str> = table.lines().filter(|line| line.contains(':')).collect();
    assert_eq!(devices.len(), 1, "links are left: {devices:?}");
    let sockets = read("tcp") + &read("tcp6") + &read("udp");
    let is_open = |line: &&str| matches!(line.split_whitespace().nth(3), Some("0A" | "07"));
    assert_eq!(sockets.lines().find(is_open), None);
    assert!(!read("unix").contains("@bytecost"), "{}", read("unix"));
}
