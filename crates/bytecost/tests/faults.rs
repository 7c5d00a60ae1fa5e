//! Effects of the surroundings on a run: limits, a full disk, a port in use, a closed pipe, an
//! endpoint that is killed. Each is reported in a line, and finished trials are stored.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{
    BYTECOST, Place, assert_only_known_files, ended, endpoints_of, has, is_root, kill, says, unread,
};
use bytecost_spec::sample::Repeat;
use bytecost_spec::{Failure, Record};
use itertools::Itertools as _;
use rustix::process::{Signal, geteuid};

/// Blocks at the least, each as short as can be.
const TINY: &str = "--size 4KiB --blocks 6 --window 20ms --warmup 2ms --budget 60s --quiet";
const NOBODY: u32 = 65534;

/// The report in words, without the escapes of Markdown.
fn report(place: &Place) -> String {
    place.read("report.md").replace('\\', "")
}

#[test]
fn an_endpoint_that_is_killed_fails_its_trial_alone() {
    let place = Place::new();
    let words = "run --mover null,send --size 4KiB --blocks 6 --window 200ms --warmup 5ms --budget 60s --quiet";
    let mut run = place.start(&mut place.bytecost(words));
    let coordinator = run.pid();
    let failed = || place.lines() > 0 && place.read("samples.jsonl").contains("\"failure\"");
    // One that was about to end anyway fails nothing, so another one is tried.
    while !failed() {
        let records = place.lines();
        run.until_both_sides(&place, records);
        if let Some(victim) = endpoints_of(coordinator).first() {
            let _ = kill(*victim, Signal::KILL);
        }
        run.until("its record", || place.lines() > records);
    }
    let end = run.end();
    assert_eq!(end.status, Some(1), "{}", end.stderr);
    let is_named = |record: &Record| {
        let Record::Failure(Failure { reason: r, .. }) = record else {
            return false;
        };
        (r.contains("sender") || r.contains("receiver"))
            && (r.contains("SIGKILL") || r.contains("is gone"))
            && end.stderr.contains(r)
    };
    assert!(place.records().iter().any(is_named), "{}", end.stderr);
    assert!(!place.samples().is_empty(), "the rest was measured");
    let report = report(&place);
    assert!(report.contains("failed"), "{report}");
}

#[test]
fn too_few_open_files_refuse_the_cells_that_need_more() {
    let place = Place::new();
    let words = format!("run --mover null,send --threads 1,64 {TINY}");
    ended(&mut place.limited("-n 100", &words)).measured();
    let report = report(&place);
    says(&report, &["RLIMIT_NOFILE", "ulimit -n"]);
    assert!(!place.samples().is_empty());
}

/// The command without rights, with a locked-memory limit in KiB; none where that cannot be.
fn unprivileged(place: &Place, locked_kib: u32, words: &str) -> Option<Command> {
    let limit = format!("-l {locked_kib}");
    if !geteuid().is_root() {
        return Some(place.limited(&limit, words));
    }
    if !has("setpriv") {
        return None;
    }
    fs::set_permissions(place.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let copy = place.path().join("bytecost");
    // By a process of its own: what any process still has open for writing, as one does that
    // another test is just starting, is not executed.
    let mut install = Command::new("install");
    let copied = install.arg("-m755").arg(BYTECOST).arg(&copy).status();
    assert!(copied.unwrap().success());
    fs::create_dir(place.runs()).unwrap();
    chown(place.runs(), Some(NOBODY), Some(NOBODY)).unwrap();
    let script = format!("ulimit {limit}; exec \"$0\" \"$@\"");
    let ids = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let mut command = place.other("setpriv", ids);
    command.args(["sh", "-c", &script]).arg(copy);
    command.args(words.split_whitespace());
    Some(command)
}

#[test]
fn too_little_locked_memory_refuses_the_mover_that_locks() {
    let place = Place::new();
    let words = format!("run --mover send,uring-send-zc {TINY}");
    let Some(mut command) = unprivileged(&place, 16, &words) else {
        return;
    };
    ended(&mut command).measured();
    let report = report(&place);
    let refused: Vec<&str> = report
        .lines()
        .filter(|l| l.contains("uring-send-zc") && l.contains("ulimit -l"))
        .collect();
    assert!(!refused.is_empty(), "{report}");
    assert!(refused[0].contains("RLIMIT_MEMLOCK"), "{refused:?}");
    assert!(!place.samples().is_empty());
}

/// Local addresses of the listening TCP sockets of a user, as the kernel writes them.
fn listening(user: u32) -> Vec<String> {
    let mut addresses = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        for row in fs::read_to_string(table).unwrap_or_default().lines() {
            let columns: Vec<&str> = row.split_whitespace().collect();
            let is_his = columns.get(7).is_some_and(|u| *u == user.to_string());
            if is_his && columns[3] == "0A" {
                addresses.push(columns[1].to_owned());
            }
        }
    }
    addresses
}

// Invariant 10.
#[test]
fn the_defaults_need_no_root_and_listen_on_the_loopback_alone() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let words = "run --mover null,send --size 4KiB --blocks 200 --precision 0.1% --window 20ms --warmup 2ms --budget 60s --quiet";
    let Some(mut command) = unprivileged(&place, 8192, words) else {
        return;
    };
    let mut run = place.start(&mut command);
    run.until("a trial", || place.lines() > 0);
    // The survey is over by now, so what listens belongs to an endpoint.
    let mut seen = 0;
    let began = Instant::now();
    while seen < 3 && began.elapsed() < Duration::from_secs(50) {
        for address in listening(NOBODY) {
            assert!(address.starts_with("0100007F:"), "listens on {address}");
            seen += 1;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    assert!(seen > 0, "no listener was seen");
    let end = run.ended_by(Signal::INT);
    assert!(matches!(end.status, Some(0 | 1)), "{}", end.stderr);
}

// Invariant 5.
#[test]
fn without_root_veth_and_wire_are_refused_with_what_to_do() {
    for transport in ["veth", "wire"] {
        let place = Place::new();
        let words = format!("run --transport {transport} --mover send {TINY}");
        let Some(mut command) = unprivileged(&place, 8192, &words) else {
            return;
        };
        let over = format!("over {transport}");
        ended(&mut command).refused(&[&over, "sudo bytecost"]);
        assert!(place.all_runs().is_empty());
    }
}

#[test]
fn without_rights_evidence_is_refused_with_what_to_do_and_the_rest_is_measured() {
    let place = Place::new();
    let words = format!("run --mover send,sendfile --evidence time,copies,counts {TINY}")
        .replace(" --quiet", "");
    let Some(mut command) = unprivileged(&place, 8192, &words) else {
        return;
    };
    let end = ended(&mut command).measured();
    let report = report(&place);
    for (means, remedy) in [
        ("time", "CAP_PERFMON"),
        ("copies", "CAP_BPF"),
        ("counts", "CAP_BPF"),
    ] {
        let start = format!("note: no evidence of {means}: ");
        let mut lines = end.stderr.lines().filter(|l| l.starts_with(&start));
        let line = lines.next().unwrap_or_else(|| panic!("{}", end.stderr));
        assert!(line.contains("root") && line.contains(remedy), "{line}");
        // The report has the same in place of an answer, of the two that count once.
        let why = &line[start.len()..];
        let is_reported = report.contains(why) || means == "counts";
        assert!(is_reported, "{line}: {report}");
    }
    assert!(!place.samples().is_empty());
    let is_evidence = |record: &Record| matches!(record, Record::Evidence(_));
    assert!(!place.records().iter().any(is_evidence));
}

#[test]
fn a_full_disk_ends_the_run_and_keeps_what_is_finished() {
    let place = Place::new();
    let words = "run --mover null,send --size 4KiB --blocks 200 --precision 0.1% --window 5ms --warmup 1ms --budget 120s --quiet";
    // 96 KiB: room for the manifest and for some trials.
    let run = place.start(&mut place.limited("-f 192", words));
    let coordinator = run.pid();
    let end = run.end();
    let errors: Vec<&str> = end
        .stderr
        .lines()
        .filter(|l| l.starts_with("error:"))
        .collect();
    assert_eq!(end.status, Some(2), "{}", end.stderr);
    assert_eq!(errors.len(), 1, "{}", end.stderr);
    says(errors[0], &["limit on file sizes", "--resume"]);
    assert!(endpoints_of(coordinator).is_empty());
    assert!(!place.records().is_empty());
    assert_only_known_files(&place.run());
    place.call("report").measured();
}

#[test]
fn a_disk_without_room_for_a_run_and_a_port_in_use_leave_none() {
    let place = Place::new();
    let words = format!("run --mover null,send {TINY}");
    let full = ended(&mut place.limited("-f 8", &words));
    full.refused(&["limit on file sizes"]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let in_use = place.call(format!("{words} --port {port}"));
    in_use.refused(&["--port", &port]);
    assert!(place.all_runs().is_empty(), "{:?}", place.all_runs());
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let place = Place::recorded(&["smt"]);
    for words in ["list", "doctor", "report", "runs", "--help", "man"] {
        unread(&mut place.bytecost(words));
    }
}

#[test]
fn a_run_whose_notes_nobody_reads_measures_all_the_same() {
    let place = Place::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = place.bytecost(format!("run --mover null,send {TINY}"));
    command.stderr(writer).stdout(Stdio::null());
    assert!(command.status().unwrap().code().is_some());
    assert!(!place.samples().is_empty());
    assert!(place.json("ended.json")["early"].is_null());
}

#[test]
fn a_block_with_busy_processes_is_measured_again_as_often_as_is_allowed() {
    let disturbed = Place::new();
    let _busy = disturbed.start(Command::new("sh").args(["-c", "while :; do :; done"]));
    for allowed in [0, 1] {
        let place = Place::new();
        let words = format!("run --mover null,send {TINY} --repeats {allowed}");
        place.call(words).measured();
        let records = place.records();
        let repeated = records.iter().filter_map(|record| match record {
            Record::Block(block) => match block.repeated_because {
                Some(Repeat::OtherProcesses { .. }) => Some(block.block),
                _ => None,
            },
            _ => None,
        });
        let most_repeated = repeated.counts().into_values().max().unwrap_or(0);
        assert!(most_repeated <= allowed, "{most_repeated} of {allowed}");
        assert_eq!(most_repeated > 0, allowed > 0);
    }
    Place::new().refuses("run", "--repeats 11 => 11 is not in 0..=10");
}
