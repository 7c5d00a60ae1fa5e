//! Limits and circumstances of the program's start: named before they are met, and when they are.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::common::{BYTECOST, Lack, Place, ended, has, is_root, says, skipped};
use crate::live_common::Server;
use bytecost_analysis::CaveatEffect;
use bytecost_spec::{Axis, CircumstanceKind, Host};

const SHORT: &str = "run --mover send,sendfile --size 4KiB --blocks 6 --warmup 2ms --window 10ms --budget 20s --seed 7 --quiet";
/// Users that nobody else is, so that limits of a user are the test's own.
const USERS: [u32; 3] = [61_801, 61_802, 61_803];

/// The command with these words as another user, who may write to the place; none without root.
fn as_user(place: &Place, user: u32, limit: &str, words: &str) -> Option<Command> {
    if !is_root() || !has("setpriv") || !has("prlimit") {
        return None;
    }
    rustix::fs::chmod(place.path(), 0o777.into()).unwrap();
    let id = user.to_string();
    let start = [
        "--reuid",
        &id,
        "--regid",
        &id,
        "--clear-groups",
        "--inh-caps=-all",
    ];
    let limited = ["prlimit", limit, BYTECOST];
    let program = limited.into_iter().chain(words.split(' '));
    let mut command = place.other("setpriv", start.into_iter().chain(program));
    command.env("XDG_CACHE_HOME", place.path().join("caches"));
    let mut tried = Command::new("setpriv");
    tried
        .args(start)
        .arg(BYTECOST)
        .arg("--version")
        .stdout(Stdio::null());
    let is_reached = tried.status().is_ok_and(|status| status.success());
    if !is_reached {
        skipped(Lack::Right, "another user cannot start the program");
    }
    is_reached.then_some(command)
}

#[test]
fn where_no_thread_can_be_started_the_table_of_ways_is_shown_all_the_same() {
    let place = Place::new();
    let Some(mut list) = as_user(&place, USERS[0], "--nproc=3:3", "list") else {
        return;
    };
    let end = ended(&mut list);
    assert!(!end.stderr.contains("panicked"), "{}", end.stderr);
    says(&end.succeeded(), &["send-zerocopy", "Receivers"]);
}

#[test]
fn a_limit_of_threads_is_read_before_it_is_met() {
    let place = Place::new();
    let Some(mut run) = as_user(&place, USERS[1], "--nproc=5:5", SHORT) else {
        return;
    };
    ended(&mut run).refused(&[
        "threads and processes",
        "RLIMIT_NPROC (ulimit -u)",
        "of 5 are left",
    ]);
    let doctor = as_user(&place, USERS[1], "--nproc=5:5", "doctor");
    let report = ended(&mut doctor.unwrap());
    says(
        &report.flat(),
        &["threads and processes", "of 5 left (RLIMIT_NPROC"],
    );
}

#[test]
fn a_limit_of_the_process_is_read_before_it_is_met() {
    if !has("prlimit") {
        return;
    }
    let place = Place::new();
    for (limit, name) in [
        (
            "--stack=65536:65536",
            "RLIMIT_STACK (`ulimit -s`) is 64 KiB",
        ),
        ("--as=104857600", "RLIMIT_AS (`ulimit -v`) is 100 MiB"),
        ("--data=20971520", "RLIMIT_DATA (`ulimit -d`) is 20 MiB"),
    ] {
        let mut list = place.other("prlimit", [limit, BYTECOST, "list"]);
        ended(&mut list).refused(&[name, "raise it"]);
    }
}

#[test]
fn without_a_permission_the_congestion_control_is_one_that_does_not_pace() {
    let allowed = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
    let allowed = fs::read_to_string(allowed).unwrap_or_default();
    let all: Vec<&str> = allowed.split_whitespace().collect();
    if all.contains(&"cubic") || !all.contains(&"reno") {
        return skipped(Lack::Machine, "a congestion control that needs root");
    }
    let place = Place::new();
    let Some(mut run) = as_user(&place, USERS[2], "--core=0", SHORT) else {
        return;
    };
    let end = ended(&mut run).measured();
    says(&end.flat(), &["congestion control reno"]);
    let cells = place.samples().into_iter().map(|(cell, _)| cell);
    let mut sent = cells.filter(|cell| cell.mover != "null");
    assert!(sent.all(|cell| cell.value(Axis::Congestion) == "reno"));
    assert!(place.findings().caveats.iter().all(|c| c.kind != "pacing"));
    // A congestion control that is named is used, or refused.
    let named = format!("{SHORT} --congestion cubic");
    let mut named = as_user(&place, USERS[2], "--core=0", &named).unwrap();
    ended(&mut named).refused(&["congestion control `cubic` is not available", "reno"]);
}

#[test]
fn a_traced_run_has_no_verdict_and_says_who_traces() {
    if !has("strace") {
        return;
    }
    let place = Place::new();
    // Stopped at the call that ends a process alone: a stop at every call takes many times as long.
    let options = ["-f", "--seccomp-bpf", "-e", "trace=exit_group"];
    let traced = options.into_iter().chain(["-o", "/dev/null", BYTECOST]);
    let mut run = place.other("strace", traced.chain(SHORT.split(' ')));
    let end = ended(&mut run);
    if end.stderr.contains("ptrace") {
        return skipped(Lack::Right, &end.stderr);
    }
    says(&end.flat(), &["traced by strace"]);
    let found = place.findings();
    let caveat = found.caveats.iter().find(|c| c.kind == "tracer");
    assert_eq!(caveat.unwrap().effect, CaveatEffect::WithholdsAll);
    let withheld = |f: &bytecost_analysis::Finding| f.withheld.is_some();
    assert!(!found.findings.is_empty() && found.findings.iter().all(withheld));
}

#[test]
fn a_nice_value_and_a_scheduler_class_are_named() {
    if !has("nice") || !has("chrt") {
        return;
    }
    let place = Place::new();
    let words = ["-n", "7", "chrt", "--batch", "0", BYTECOST];
    let mut run = place.other("nice", words.into_iter().chain(SHORT.split(' ')));
    let end = ended(&mut run).measured();
    says(&end.flat(), &["nice 7, SCHED_BATCH"]);
    let host: Host = place.findings().host.clone();
    let kinds = [CircumstanceKind::Nice, CircumstanceKind::SchedulerClass];
    assert!(
        kinds
            .iter()
            .all(|kind| host.obstacles.iter().any(|o| o.kind == *kind))
    );
}

/// A control group of version 1 with a limit of memory.
struct MemoryGroup(PathBuf);

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn memory_is_what_the_control_group_leaves() {
    let name = format!("bytecost-test-{}", std::process::id());
    let (dir, limit) = [("memory", "memory.limit_in_bytes"), ("", "memory.max")]
        .map(|(of, limit)| (PathBuf::from("/sys/fs/cgroup").join(of).join(&name), limit))
        .into_iter()
        .find(|(dir, limit)| fs::create_dir(dir).is_ok() && dir.join(limit).exists())
        .unwrap_or_default();
    let group = MemoryGroup(dir);
    if !is_root() || fs::write(group.0.join(limit), (96 << 20).to_string()).is_err() {
        return skipped(Lack::Right, "a control group with a limit of memory");
    }
    let place = Place::new();
    let procs = group.0.join("cgroup.procs");
    let script = format!("echo $$ > {} && exec \"$0\" \"$@\"", procs.display());
    let report = ended(&mut place.other("sh", ["-c", &script, BYTECOST, "doctor"])).flat();
    says(&report, &["of 96 MiB", limit]);
    // A cell that exceeds the limit is refused with the name of the limit.
    let large = format!("{SHORT} --ring 64MiB");
    let words = ["-c", &script, BYTECOST]
        .into_iter()
        .chain(large.split(' '));
    ended(&mut place.other("sh", words)).refused(&["half of the 96 MiB", limit]);
}

#[test]
fn who_may_not_set_the_usual_congestion_control_sends_live_with_another() {
    let place = Place::new();
    let words = "live send --listen 127.0.0.1:0 --size 4KiB";
    let Some(mut send) = as_user(&place, USERS[0], "--core=0", words) else {
        return;
    };
    let server = Server::of(place.start(&mut send));
    let receive = server.join("receive", "--duration 300ms");
    ended(&mut as_user(&Place::new(), USERS[1], "--core=0", &receive).unwrap()).succeeded();
    // Root's cubic is the sender's alone.
    drop(server);
    let of_root = Server::sender("--size 4KiB");
    let from_root = of_root.join("receive", "--duration 300ms");
    ended(&mut as_user(&Place::new(), USERS[1], "--core=0", &from_root).unwrap()).succeeded();
}
