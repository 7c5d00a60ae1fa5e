//! `bytecost profile` on programs of which it is known what they do. As root.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{BYTECOST, END, Ended, Lack, PATIENCE, Place, has, says, skipped};

fn pattern_program() -> PathBuf {
    Path::new(BYTECOST).with_file_name("examples/pattern_program")
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skipped(Lack::Right, "calls are counted by root alone");
    }
    is_root
}

impl Place {
    #[track_caller]
    fn profile(&self, command: &[&str]) -> Value {
        let ended = self.profiled(&["--json"], command);
        assert_eq!(ended.status, Some(0), "{}", ended.stderr);
        let json = ended.stderr.find("{\n").expect("JSON on standard error");
        serde_json::from_str(&ended.stderr[json..]).unwrap()
    }

    fn profiled(&self, options: &[&str], command: &[&str]) -> Ended {
        let mut profile = self.bytecost("profile");
        profile.args(options).arg("--").args(command);
        profile.env("PATTERN_DIR", self.path());
        profile.output().unwrap().into()
    }
}

fn patterns(profile: &Value) -> BTreeSet<&str> {
    let advice = profile["advice"].as_array().unwrap();
    advice
        .iter()
        .map(|a| a["pattern"].as_str().unwrap())
        .collect()
}

/// Calls and bytes of all ways of these names.
fn sums(profile: &Value, calls: &[&str]) -> (u64, u64) {
    let ways = profile["profile"]["ways"].as_array().unwrap().iter();
    let named = ways.filter(|way| calls.contains(&way["call"].as_str().unwrap()));
    named.fold((0, 0), |(count, bytes), way| {
        (
            count + way["calls"].as_u64().unwrap(),
            bytes + way["bytes"].as_u64().unwrap(),
        )
    })
}

#[test]
fn each_pattern_is_found_in_its_program_and_not_in_one_near_to_it() {
    if !is_root() {
        return;
    }
    let expected: &[(&str, &[&str])] = &[
        ("file-to-socket-by-copies", &["file-to-socket-by-copies"]),
        ("file-to-socket-by-sendfile", &[]),
        ("file-to-socket-changed", &[]),
        ("file-to-file-by-copies", &["file-to-file-by-copies"]),
        ("file-to-file-in-kernel", &[]),
        (
            "socket-to-socket-by-copies",
            &["socket-to-socket-by-copies"],
        ),
        ("socket-to-socket-by-splice", &[]),
        ("small-writes-in-a-row", &["small-writes-in-a-row"]),
        ("small-writes-gathered", &[]),
        ("small-writes-answered", &[]),
        ("write-write-read-stall", &["write-write-read-stall"]),
        ("write-write-read-nodelay", &[]),
        ("large-writes-answered-late", &[]),
        ("zero-copy-copied", &["zero-copy-copied"]),
        (
            "zero-copy-one-at-a-time",
            &["zero-copy-copied", "zero-copy-one-at-a-time"],
        ),
        ("zero-copy-of-little", &["zero-copy-of-little"]),
        ("zero-copy-not", &[]),
        ("splice-refused", &["splice-refused"]),
        ("one-event-a-wake-up", &["one-event-a-wake-up"]),
        ("many-events-a-wake-up", &[]),
        ("small-sequential-reads", &["small-sequential-reads"]),
        ("small-random-reads", &[]),
        ("large-sequential-reads", &[]),
    ];
    let place = Place::new();
    let program = pattern_program();
    for (name, names) in expected {
        let profile = place.profile(&[program.to_str().unwrap(), name]);
        let patterns_of: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(patterns(&profile), patterns_of, "{name}: {profile:#}");
    }
}

#[test]
fn kinds_of_work_are_sampled_in_children_as_well() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let counts = "(i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done); true";
    let profile = place.profile(&["sh", "-c", counts]);
    let profile = &profile["profile"];
    if let Some(why) = profile["work_absent"].as_str() {
        return skipped(Lack::Right, why);
    }
    let work = profile["work"].as_array().unwrap();
    assert_eq!(work[0]["kind"], "user", "{profile:#}");
    let samples: u64 = work.iter().map(|of| of["samples"].as_u64().unwrap()).sum();
    // One a millisecond; the host may take a CPU away.
    let cpu_ms = profile["cpu_ns"].as_u64().unwrap() / 1_000_000;
    assert!(
        samples > cpu_ms / 4 && samples < 2 * cpu_ms + 20,
        "{profile:#}"
    );
}

/// The results of the calls of these names that strace(1) sees of a command and its children.
fn traced(place: &Place, calls: &str, command: &[&str]) -> Vec<i64> {
    let trace = place.path().join("trace");
    let traced = Command::new("strace")
        .args(["-f", "-qq", "-e", &format!("trace={calls}"), "-o"])
        .arg(&trace)
        .args(command)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(traced.unwrap().success(), "{command:?}");
    let text = fs::read_to_string(&trace).unwrap();
    // A call that others come between is in two lines, of which the second has its result.
    let results = text
        .lines()
        .filter(|line| !line.ends_with("<unfinished ...>"));
    results
        .filter_map(|line| line.rsplit_once(" = ")?.1.split(' ').next()?.parse().ok())
        .collect()
}

/// A program of Debian's, of which it is known by which call it moves a file.
struct RealProgram<'c> {
    command: &'c [&'c str],
    /// The call that moves the file, of those which are compared with strace.
    mover: &'static str,
    others: &'static [&'static str],
    /// The kind of descriptor that it moves it to; none for a read.
    to: Option<&'static str>,
    call_bytes: usize,
}

const REAL_FILE_BYTES: usize = 3 << 20;
const PYTHON_SENDFILE: &str = "import socket, sys, threading
listener = socket.create_server(('127.0.0.1', 0))
def take():
    to = listener.accept()[0]
    while to.recv(1 << 20, socket.MSG_WAITALL): pass
thread = threading.Thread(target=take); thread.start()
with socket.create_connection(listener.getsockname()) as one: one.sendfile(open(sys.argv[1], 'rb'))
thread.join()";

impl RealProgram<'_> {
    /// Profiles and traces it, if it is installed.
    fn compare(&self, place: &Place) {
        let command = self.command;
        if !has(command[0]) {
            return;
        }
        let compared = [&[self.mover], self.others].concat();
        let traced = traced(place, &compared.join(","), command);
        let profile = place.profile(command);
        let (calls, bytes) = sums(&profile, &compared);
        let traced_bytes: i64 = traced.iter().filter(|result| **result > 0).sum();
        assert_eq!(bytes as i64, traced_bytes, "{command:?}");
        // How a pipe is cut into reads depends on when its other end writes.
        if command[0] != "sh" {
            assert_eq!(calls as usize, traced.len(), "{command:?}");
        }
        let mut ways = profile["profile"]["ways"].as_array().unwrap().iter();
        let moves = |way: &&Value| {
            way["call"] == self.mover
                && way["bytes"].as_u64() >= Some(REAL_FILE_BYTES as u64)
                && self.to.is_none_or(|kind| way["to"]["kind"] == kind)
        };
        let way = ways
            .find(moves)
            .unwrap_or_else(|| panic!("{command:?}: {profile:#}"));
        // The power of two of most calls' lengths.
        let lengths = way["lengths"].as_array().unwrap().iter().enumerate();
        let most = lengths.max_by_key(|(_, made)| made.as_u64());
        assert_eq!(
            most.unwrap().0,
            self.call_bytes.ilog2() as usize,
            "{command:?}"
        );
    }
}

#[test]
fn ways_calls_and_bytes_of_real_programs_are_those_that_strace_sees() {
    if !is_root() || !has("strace") {
        return;
    }
    let place = Place::new();
    let [source, target] = ["big", "copy"].map(|name| place.path().join(name));
    fs::write(&source, vec![7; REAL_FILE_BYTES]).unwrap();
    let [big, copy] = [&source, &target].map(|path| path.to_str().unwrap());
    let program = |command, mover, others, to, call_bytes| RealProgram {
        command,
        mover,
        others,
        to,
        call_bytes,
    };
    let [input, pipe] = [format!("if={big}"), format!("cat {big} | wc -c")];
    let dd = ["dd", &input, "of=/dev/null", "bs=4k", "status=none"];
    let cp = ["cp", "--reflink=never", big, copy];
    let tar = ["tar", "--create", "--file", copy, "--absolute-names", big];
    let python = ["python3", "-c", PYTHON_SENDFILE, big];
    for real in [
        program(&["cat", big], "read", &["write"], None, 128 << 10),
        program(
            &["sh", "-c", &pipe],
            "write",
            &["read"],
            Some("pipe"),
            128 << 10,
        ),
        program(&dd, "write", &["read"], Some("device"), 4 << 10),
        program(
            &cp,
            "write",
            &["read", "copy_file_range"],
            Some("file"),
            128 << 10,
        ),
        program(&tar, "write", &["read"], Some("file"), 10 << 10),
        program(&python, "sendfile", &[], Some("tcp"), REAL_FILE_BYTES),
    ] {
        real.compare(&place);
    }
}

#[test]
fn a_descriptor_that_is_closed_and_used_again_is_looked_up_again() {
    if !is_root() {
        return;
    }
    let script = "for i in 1 2 3; do exec 3</dev/zero; head -c 1000 <&3 >/dev/null; exec 3<&-; exec 3</proc/self/stat; read -r line <&3; exec 3<&-; done";
    let profile = Place::new().profile(&["sh", "-c", script]);
    let ways = profile["profile"]["ways"].as_array().unwrap();
    let of = |on: &str| {
        ways.iter().any(|way| {
            way["call"] == "read" && way["from"]["on"] == on && way["bytes"].as_u64() > Some(0)
        })
    };
    assert!(of("1:5") && of("proc"), "{profile:#}");
}

#[test]
fn children_that_come_and_go_and_programs_that_execute_others_are_followed() {
    if !is_root() {
        return;
    }
    let script = "i=0; while [ $i -lt 10000 ]; do (echo x) >/dev/null; i=$((i+1)); done; exec head -c 5000 /dev/zero";
    let profile = Place::new().profile(&["sh", "-c", script]);
    assert_eq!(profile["profile"]["processes"], 10_001, "{profile:#}");
    let (calls, bytes) = sums(&profile, &["write"]);
    assert!(calls >= 10_001 && bytes == 10_000 * 2 + 5000, "{profile:#}");
    assert_eq!(profile["profile"]["lost_calls"], 0);
}

#[test]
fn a_program_in_other_namespaces_is_counted_as_any() {
    if !is_root() || !has("unshare") {
        return;
    }
    let profile = Place::new().profile(&[
        "unshare",
        "--pid",
        "--mount",
        "--net",
        "--uts",
        "--ipc",
        "--fork",
        "--mount-proc",
        "sh",
        "-c",
        "head -c 70000 /dev/zero | cat >/dev/null",
    ]);
    let (_, bytes) = sums(&profile, &["write"]);
    // head writes them to the pipe, and cat to the device.
    assert_eq!(bytes, 140_000, "{profile:#}");
}

#[test]
fn a_traced_program_is_counted_with_its_tracer() {
    if !is_root() || !has("strace") {
        return;
    }
    let command = [
        "strace",
        "-f",
        "-o",
        "/dev/null",
        "head",
        "-c",
        "70000",
        "/dev/zero",
    ];
    let profile = Place::new().profile(&command);
    let ways = profile["profile"]["ways"].as_array().unwrap().iter();
    let zero = ways.filter(|way| way["call"] == "read" && way["from"]["on"] == "1:5");
    let bytes: u64 = zero.map(|way| way["bytes"].as_u64().unwrap()).sum();
    assert!(bytes >= 70_000, "{profile:#}");
    // A call of a traced program returns once, however often its tracer stops it.
    assert_eq!(profile["profile"]["lost_calls"], 0);
}

/// A program that makes a thousand calls by the interrupt of 32-bit Linux, and then waits.
const OF_32_BITS: &str = r#"
static int call(int number) {
	int result;
	__asm__ volatile("int $0x80" : "=a"(result) : "a"(number) : "memory");
	return result;
}
void _start(void) {
	for (int at = 0; at < 1000; at++)
		call(20); /* getpid */
	for (;;)
		call(29); /* pause */
}
"#;

#[test]
fn a_32_bit_program_is_named_and_its_calls_are_not_taken_for_others() {
    if !is_root() || !has("gcc") {
        return;
    }
    let place = Place::new();
    let (source, program) = (place.path().join("short.c"), place.path().join("short"));
    fs::write(&source, OF_32_BITS).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-m32", "-nostdlib", "-static", "-fno-pie", "-no-pie", "-o"]);
    let compiled = gcc.arg(&program).arg(&source).output().unwrap();
    let runs = || Command::new(&program).spawn();
    let Some(mut target) = compiled.status.success().then(runs).and_then(Result::ok) else {
        skipped(Lack::Machine, "no 32-bit programs here");
        return;
    };
    let refused: Ended = place
        .bytecost(format!("profile --pid {}", target.id()))
        .output()
        .unwrap()
        .into();
    refused.refused(&["is a 32-bit program"]);
    target.kill().unwrap();
    target.wait().unwrap();
    let output = place
        .bytecost("profile --for 500ms --json --")
        .arg(&program)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let profile: Value = serde_json::from_str(&text[text.find("{\n").unwrap()..]).unwrap();
    assert!(
        profile["profile"]["compat_calls"].as_u64() >= Some(1000),
        "{profile:#}"
    );
    assert_eq!(sums(&profile, &["writev"]).0, 0, "{profile:#}");
}

#[test]
fn a_process_that_runs_is_profiled_until_its_time_is_over_and_goes_on() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let mut program = Command::new("sh")
        .args([
            "-c",
            "while :; do head -c 100000 /dev/zero >/dev/null; done",
        ])
        .spawn()
        .unwrap();
    let profiler = place.bytecost(format!("profile --pid {} --for 500ms --json", program.id()));
    let ended: Ended = { profiler }.output().unwrap().into();
    assert!(program.try_wait().unwrap().is_none(), "it goes on");
    program.kill().unwrap();
    program.wait().unwrap();
    let profile = ended.json();
    assert!(sums(&profile, &["write"]).1 > 100_000, "{profile:#}");
    assert!(profile["profile"]["processes"].as_u64() > Some(1));
}

#[test]
fn a_killed_profiler_leaves_no_program_and_its_target_goes_on() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let mut target = Command::new("sleep").arg("600").spawn().unwrap();
    let mut profile = place
        .bytecost(format!("profile --pid {}", target.id()))
        .spawn()
        .unwrap();
    let descriptors = format!("/proc/{}/fdinfo", profile.id());
    let held = || -> BTreeSet<u32> {
        let entries = fs::read_dir(&descriptors).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| fs::read_to_string(entry.path()).ok())
            .filter_map(|info| {
                let id = info
                    .lines()
                    .find_map(|line| line.strip_prefix("prog_id:"))?;
                id.trim().parse().ok()
            })
            .collect()
    };
    let loaded = || -> BTreeSet<u32> {
        let programs = aya::programs::loaded_programs();
        programs.map(|program| program.unwrap().id()).collect()
    };
    let waited_for = |is_so: &dyn Fn() -> bool| {
        let end = Instant::now() + PATIENCE;
        while !is_so() && Instant::now() < end {
            thread::sleep(Duration::from_millis(10));
        }
        is_so()
    };
    assert!(waited_for(&|| held().len() > 2));
    let programs = held();
    assert!(programs.is_subset(&loaded()));
    profile.kill().unwrap();
    profile.wait().unwrap();
    // The kernel frees programs after the end of their holder.
    assert!(waited_for(&|| programs.is_disjoint(&loaded())));
    // Nothing is pinned.
    assert!(!Path::new("/sys/fs/bpf/bytecost").exists());
    assert!(target.try_wait().unwrap().is_none());
    target.kill().unwrap();
    target.wait().unwrap();
}

#[test]
fn ctrl_c_ends_it_with_a_profile() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let mut profiler = place
        .bytecost("profile --json -- sh -c")
        .arg("echo up; exec cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(profiler.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let mut input = profiler.stdin.take().unwrap();
    input.write_all(b"hello\n").unwrap();
    line.clear();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "hello\n");
    let pid = rustix::process::Pid::from_child(&profiler);
    let asked = Instant::now();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let mut text = String::new();
    profiler
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(profiler.wait().unwrap().code(), Some(0), "{text}");
    assert!(asked.elapsed() < END);
    let profile: Value = serde_json::from_str(&text).unwrap();
    let mut ways = profile["profile"]["ways"].as_array().unwrap().iter();
    let has_read =
        ways.any(|way| way["call"] == "read" && way["from"]["kind"] == "pipe" && way["bytes"] == 6);
    assert!(has_read, "{profile:#}");
}

#[test]
fn a_kept_profile_is_shown_again() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let ended = place.profiled(&[], &["head", "-c", "5000000", "/dev/zero"]);
    says(
        &ended.stderr,
        &[
            "head -c 5000000 /dev/zero (1 process)",
            "read ← /dev/zero",
            "Full report",
        ],
    );
    let kept: Vec<_> = fs::read_dir(place.runs()).unwrap().flatten().collect();
    assert_eq!(kept.len(), 1);
    let name = kept[0].file_name().into_string().unwrap();
    let again: Ended = place
        .bytecost(format!("report {name}"))
        .output()
        .unwrap()
        .into();
    let shown = again.succeeded();
    assert!(
        ended.stderr.starts_with(&shown),
        "{shown}\n{}",
        ended.stderr
    );
    let page = fs::read_to_string(kept[0].path().join("report.html")).unwrap();
    says(&page, &["read ← /dev/zero", "Bytes a call"]);
    let runs: Ended = place.bytecost("runs").output().unwrap().into();
    says(
        &runs.succeeded(),
        &[&name, "profile of head -c 5000000", "complete"],
    );
}

#[test]
fn without_root_there_is_what_proc_reports_and_the_reason() {
    if !is_root() || !has("setpriv") {
        return;
    }
    let place = Place::new();
    let nobody = |command: &[&str]| -> Ended {
        let mut setpriv = Command::new("setpriv");
        setpriv.args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            BYTECOST,
            "profile",
        ]);
        setpriv
            .args(["--runs-dir", "/nonexistent/runs"])
            .args(command);
        setpriv.current_dir("/").output().unwrap().into()
    };
    let ended = nobody(&["--", "head", "-c", "3000000", "/dev/zero"]);
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
    says(
        &ended.stderr,
        &["run it with sudo", "all reads", "2.86 MiB", "is not kept"],
    );
    let mut target = Command::new("sleep").arg("600").spawn().unwrap();
    nobody(&["--pid", &target.id().to_string()]).refused(&["belongs to another user", "sudo"]);
    target.kill().unwrap();
    target.wait().unwrap();
    drop(place);
}

#[test]
fn bad_input_is_refused_in_one_line() {
    let place = Place::new();
    let refused = |words: &str, says: &[&str]| {
        let ended: Ended = place.bytecost(words).output().unwrap().into();
        ended.refused(says);
    };
    refused("profile", &["--pid", "COMMAND"]);
    refused("profile --pid 4194304", &["there is no process 4194304"]);
    refused("profile --pid 1 --for 1ms", &["--for", "at least 100ms"]);
    if rustix::process::geteuid().is_root() {
        refused(
            "profile -- /no/such/program",
            &["/no/such/program", "No such file"],
        );
    }
}
