use super::*;
use std::io::Read;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::OnceLock;

use crate::file::{TestFile, content};
use crate::lack::{Lack, skipped};

/// Long enough for a machine that does much else.
const LONG: Duration = Duration::from_secs(60);

fn unix() -> (OwnedFd, OwnedFd) {
    let (a, b) = UnixStream::pair().unwrap();
    (a.into(), b.into())
}

fn file(len: u64) -> TestFile {
    let mut file = TestFile::in_memory().unwrap();
    file.grow(len).unwrap();
    file
}

fn opened(file: &TestFile) -> OwnedFd {
    crate::file::open(&file.path(), crate::file::Opening::default()).unwrap()
}

fn start(socket: OwnedFd, file: OwnedFd, way: Way, block: usize) -> Start {
    Start {
        socket,
        file,
        way,
        block,
        compiled: compiled(),
        start_patience: LONG,
        patience: LONG,
    }
}

/// The machine that is here; none where the tests of it must be skipped.
fn java() -> Option<PathBuf> {
    let found = find();
    if let Err(e) = &found {
        skipped(Lack::Tool, e);
    }
    found.ok()
}

fn compiled() -> Option<PathBuf> {
    static COMPILED: OnceLock<Option<Compiled>> = OnceLock::new();
    let made = || Some(Compiled::new(&find().ok()?, LONG).unwrap());
    COMPILED.get_or_init(made).as_ref().map(Compiled::path)
}

#[test]
fn the_program_runs_from_its_source_as_well_and_not_from_what_is_gone() {
    let Some(java) = java() else { return };
    let (socket, peer) = unix();
    let mut begun = start(socket, opened(&file(5000)), Way::Stream, 4096);
    begun.compiled = None;
    let (mut jvm, _) = Jvm::start(&java, begun).unwrap();
    jvm.send(100, 4900).unwrap();
    let mut bytes = [0; 4900];
    File::from(peer).read_exact(&mut bytes).unwrap();
    assert_eq!(content().mismatch(100, &bytes), None);

    let (idle, _peer) = unix();
    let mut gone = start(idle, opened(&file(1)), Way::Stream, 1);
    gone.compiled = Some(PathBuf::from("/nowhere/FileSender.jar"));
    let error = Jvm::start(&java, gone).unwrap_err().to_string();
    assert!(error.starts_with("java ended with status 1"), "{error}");
}

#[test]
fn a_receiver_that_stalls_is_waited_for_as_long_as_patience_lasts() {
    let Some(java) = java() else { return };
    let file = file(64 << 20);
    for way in [Way::Stream, Way::TransferTo] {
        let (socket, peer) = unix();
        let mut start = start(socket, opened(&file), way, 4096);
        start.patience = Duration::from_millis(300);
        let (mut jvm, _) = Jvm::start(&java, start).unwrap();
        let pid = jvm.pid();
        let error = jvm.send(0, 64 << 20).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
        drop(jvm);
        let left = bytecost_sys::clock::process_cpu_ns_of(pid);
        assert!(left.is_err(), "nothing is left running");
        drop(peer);
    }
}

/// A script in the place of Java, which says `out`; then its output are answers, and `$C` is where its
/// commands come from, whatever numbers their pipes have.
fn fake(script: &str, patience: Duration, expected: &str) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("java");
    let text = format!(
        "#!/bin/sh\necho out; for w; do C=$A; A=$w; done\nC=/proc/self/fd/$C; exec >/proc/self/fd/$A\n{script}\n"
    );
    // Written by a process of its own: what any process still has open for writing, as one does
    // that another test is just starting, is not executed.
    let written = Command::new("sh")
        .args(["-c", "printf %s \"$1\" > \"$0\" && chmod 755 \"$0\""])
        .args([path.as_os_str(), text.as_ref()])
        .status();
    assert!(written.unwrap().success());
    let (socket, peer) = unix();
    let begun = Start {
        start_patience: patience,
        patience,
        ..start(socket, opened(&file(4096)), Way::Stream, 4096)
    };
    let error = match Jvm::start(&path, begun) {
        Ok((mut jvm, _)) => jvm.send(0, 4096).unwrap_err(),
        Err(e) => e,
    }
    .to_string();
    assert!(error.contains(expected), "{script}: {error}");
    assert!(!error.contains('\n'), "{error}");
    // The socket was theirs, and so it is closed when the last of them has ended.
    let mut peer = UnixStream::from(peer);
    peer.set_read_timeout(Some(LONG)).unwrap();
    assert_eq!(peer.read_to_end(&mut Vec::new()).unwrap(), 0, "{script}");
    let _ = peer.shutdown(Shutdown::Both);
}

// Invariant 9.
#[test]
fn a_java_that_does_not_do_its_work_is_told_and_nothing_is_left_running() {
    let check = |table: &str, before: &str, patience| {
        for row in table.lines() {
            let (script, expected) = row.trim().split_once(" => ").unwrap();
            fake(&format!("{before}{script}"), patience, expected);
        }
    };
    check(
        r#"exit 3 => java ended with status 3 (out)
        echo of memory >&2; exit 1 => java ended with status 1 (of memory)
        kill -9 $$ => java was ended by signal 9
        echo Module jdk.compiler not found >&2; exit 1 => this java cannot run a source file: install a JDK
        echo Unrecognized option: --source >&2; exit 1 => install a JDK of version 11
        echo garbage; sleep 600 => /java: "garbage"
        echo 'ready '; sleep 600 => unexpected response
        echo 'ready 17;rm'; sleep 600 => unexpected response
        printf '\377\n'; sleep 600 => not text
        printf '%999d\n' 1; sleep 600 => a line of more than 256 bytes
        printf 'ready 1\nready 1\n'; sleep 600 => more than one line
        echo failed; sleep 600 => unexpected response"#,
        "",
        LONG,
    );
    check(
        "sleep 600 => java did not respond within 0.2 s
        printf ready; while printf ' '; do sleep 0.05; done => java did not respond within 0.2 s
        echo ready 1; sleep 600 => java did not respond within 0.2 s",
        "",
        Duration::from_millis(200),
    );
    check(
        r#"exit 4 => java ended with status 4
        echo sent 4095 9; sleep 600 => unexpected response from java: "sent 4095 9"
        echo sent 4096; sleep 600 => unexpected response
        echo sent +4096 1; sleep 600 => unexpected response
        echo sent 4096 1 1; sleep 600 => unexpected response
        echo sent 4096 99999999999999999999; sleep 600 => unexpected response
        echo failed java.io.IOException: disk on fire; sleep 600 => java: disk on fire
        cat /dev/zero; sleep 600 => a line of more than 256 bytes"#,
        "echo ready 1; read line < $C; ",
        LONG,
    );
}

#[test]
fn a_java_that_cannot_be_started_is_an_error() {
    let (socket, _peer) = unix();
    let begun = start(socket, opened(&file(1)), Way::Stream, 1);
    let started = Jvm::start(Path::new("/nowhere/java"), begun);
    let error = started.unwrap_err().to_string();
    assert!(
        error.starts_with("/nowhere/java cannot be started"),
        "{error}"
    );
}
