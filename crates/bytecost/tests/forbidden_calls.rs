//! System calls that a host forbids or has no room for, simulated by a filter of system calls
//! (seccomp(2)) that answers in the kernel's place: their movers are refused with the reason, and
//! the others are measured.

mod common;

use std::fs;
use std::process::{Command, Output};

use common::{Place, stderr, went_through};

/// Numbers of system calls: prctl, seccomp, io_setup.
#[cfg(target_arch = "x86_64")]
const CALLS: [u32; 3] = [157, 317, 206];
#[cfg(target_arch = "aarch64")]
const CALLS: [u32; 3] = [167, 277, 0];
/// The same on every architecture.
const IO_URING_SETUP: u32 = 425;
const EPERM: u32 = 1;
const EAGAIN: u32 = 11;

/// Loads a filter of four instructions: the call's number, is it that one, then its error, else
/// allow it.
const FILTER: &str = r#"
my ($prctl, $seccomp, $call, $errno, @command) = @ARGV;
my $filter = pack("SCCL" x 4, 0x20, 0, 0, 0, 0x15, 0, 1, $call,
    0x06, 0, 0, 0x50000 | $errno, 0x06, 0, 0, 0x7fff0000);
my $program = pack("Sx6P", 4, $filter);
syscall($prctl + 0, 38, 1, 0, 0, 0) == 0 or die "no filter: $!";
syscall($seccomp + 0, 1, 0, $program) == 0 or die "no filter: $!";
exec @command;
"#;

/// Calls bytecost where one system call always answers an error; none where that cannot be
/// simulated.
fn without(place: &Place, call: u32, errno: u32, words: &[&str]) -> Option<Output> {
    let output = Command::new("perl")
        .args(["-e", FILTER])
        .args([CALLS[0], CALLS[1], call, errno].map(|n| n.to_string()))
        .arg(env!("CARGO_BIN_EXE_bytecost"))
        .args(words)
        .current_dir(place.path())
        .output();
    let Ok(output) = output else {
        eprintln!("there is no perl(1) here");
        return None;
    };
    if stderr(&output).contains("no filter") {
        eprintln!("no filters here: {}", stderr(&output));
        return None;
    }
    Some(output)
}

/// Runs `pread` beside another mover, whose calls answer an error.
#[track_caller]
fn check(mover: &str, call: u32, errno: u32, says: &[&str]) {
    let place = Place::new();
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let movers = format!("pread,{mover}");
    let words = [
        "run",
        "file-read",
        "--ring",
        "1MiB",
        "--size",
        "4KiB",
        "--depth",
        "4",
        "--cache",
        "warm",
        "--access",
        "random",
        "--mover",
        &movers,
        "--budget",
        "4s",
        "--blocks",
        "6",
        "--window",
        "20ms",
        "--warmup",
        "2ms",
        "--quiet",
        "--dir",
        dir.path().to_str().unwrap(),
    ];
    let Some(output) = without(&place, call, errno, &words) else {
        return;
    };
    went_through(&output);
    let text = fs::read_to_string(place.run_dir().join("findings.json")).unwrap();
    let findings: serde_json::Value = serde_json::from_str(&text).unwrap();
    let refused = findings["refusals"].as_array().unwrap().iter();
    let of_mover: Vec<&str> = refused
        .filter(|r| r["what"].as_str().unwrap().contains(&format!("/{mover}/")))
        .map(|r| r["why"].as_str().unwrap())
        .collect();
    assert_eq!(of_mover.len(), 1, "{findings:#}");
    for word in says {
        assert!(of_mover[0].contains(word), "no `{word}` in {of_mover:?}");
    }
    let cells = findings["cells"].as_array().unwrap().iter();
    let measured: Vec<&str> = cells
        .filter(|c| c["trials"].as_u64() > Some(0))
        .map(|c| c["cell"]["mover"].as_str().unwrap())
        .collect();
    assert_eq!(measured, ["null", "pread"]);
}

#[test]
fn io_uring_that_is_disabled_refuses_its_movers_alone() {
    // As kernel.io_uring_disabled = 2 answers.
    for mover in ["uring-read", "uring-read-fixed", "uring-sqpoll"] {
        check(
            mover,
            IO_URING_SETUP,
            EPERM,
            &["not permitted", "kernel.io_uring_disabled"],
        );
    }
}

#[test]
fn asynchronous_requests_beyond_their_limit_refuse_libaio_alone() {
    // As io_setup(2) answers where fs.aio-nr has reached fs.aio-max-nr.
    check("libaio", CALLS[2], EAGAIN, &["fs.aio-max-nr", "--depth"]);
}

#[test]
fn where_io_uring_is_forbidden_clients_ask_by_epoll() {
    let place = Place::new();
    let words = "run server-models --server epoll,uring --service echo --connections 2 --connect kept --idle 0 --placement free --blocks 6 --warmup 2ms --window 20ms --budget 4s --quiet";
    let words: Vec<&str> = words.split(' ').collect();
    let Some(output) = without(&place, IO_URING_SETUP, EPERM, &words) else {
        return;
    };
    went_through(&output);
    let read = |name: &str| -> serde_json::Value {
        let text = fs::read_to_string(place.run_dir().join(name)).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let told = &read("manifest.json")["survey"]["serving"]["generator"];
    let told = told.as_str().unwrap();
    assert!(
        told.starts_with("epoll: no ring (Operation not permitted"),
        "{told}"
    );
    let findings = read("findings.json");
    let measured: Vec<&str> = findings["cells"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|c| c["trials"].as_u64() > Some(0))
        .map(|c| c["cell"]["serving"]["server"].as_str().unwrap())
        .collect();
    assert_eq!(measured, ["epoll"]);
}
