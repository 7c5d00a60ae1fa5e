//! Waits for other processes and threads, each of which has a bound.

use crate::pure::{names, written};
use crate::tree::{self, File};

/// Calls that wait for a process or thread however long it takes, and pipes from a child.
const WAITS: &[&str] = &[
    ".join()",
    ".output()",
    ".status()",
    ".wait()",
    ".wait_with_output()",
    "Child::wait",
    "ChildStderr",
    "ChildStdout",
    "Command::output",
    "Command::status",
    "JoinHandle::join",
    "Stdio::piped",
    "TcpStream::connect",
    "UnixStream::connect",
    "wait4",
    "waitid",
    "waitpid",
];

/// Files that name some of these, and what bounds each wait there.
const BOUNDED: &[(&str, &str)] = &[
    (
        "crates/engine/src/ping.rs",
        "the partner's line is closed first, and each of its waits has a patience",
    ),
    (
        "crates/engine/src/ping/line.rs",
        "a wait of its own, with a patience",
    ),
    (
        "crates/engine/src/servers/fork.rs",
        "WNOHANG; and a wait of its own, which the stop signal ends",
    ),
    (
        "crates/engine/src/servers/open_connections.rs",
        "the thread ends with the stop signal, and within the grace of the server",
    ),
    (
        "crates/engine/src/servers/pool.rs",
        "the threads were told to end, and their connections are shut down",
    ),
    (
        "crates/evidence/src/cpu_accounts.rs",
        "the thread makes one system call for each CPU",
    ),
    (
        "crates/lab/src/cpu_clock.rs",
        "the thread's socket has a timeout, and its tries are counted",
    ),
    (
        "crates/lab/src/endpoint/gate_control.rs",
        "in an endpoint, which its coordinator kills in time",
    ),
    (
        "crates/lab/src/endpoint/background.rs",
        "in an endpoint, which its coordinator kills in time",
    ),
    (
        "crates/lab/src/endpoint_process.rs",
        "errors are read without blocking, when the endpoint has ended",
    ),
    (
        "crates/lab/src/live/flow_threads.rs",
        "the connections of the flows are shut down first",
    ),
    (
        "crates/lab/src/live/flows.rs",
        "a wait of its own, which the end of the session ends",
    ),
    (
        "crates/lab/src/limits.rs",
        "what is tried in a survey has a timeout for each wait",
    ),
    (
        "crates/lab/src/load/threads.rs",
        "each turn of a thread of the load looks at the stop flag",
    ),
    (
        "crates/lab/src/peer/data_path.rs",
        "the thread ends with the wait for the reply, and its checks with their time",
    ),
    (
        "crates/lab/src/peer/joined_command.rs",
        "pipes have threads that end with the child",
    ),
    (
        "crates/lab/src/side_by_side.rs",
        "what is tried in a survey has a timeout for each wait",
    ),
    (
        "crates/lab/src/unit_costs.rs",
        "the threads count what they do, and their sockets are local",
    ),
    (
        "crates/sys/src/child_end.rs",
        "WNOHANG: this is the bounded wait for a child",
    ),
    (
        "crates/sys/src/network.rs",
        "the thread does the work of its caller, who has the bound",
    ),
    (
        "crates/sys/src/held_command.rs",
        "the command may execute by then, and the thread waits for that alone",
    ),
];

/// The waits that a file names outside of its tests.
fn waits(path: &str, text: &str) -> Vec<&'static str> {
    let written = written(path, text);
    let is_named = |what: &&&str| names(&written, what);
    WAITS.iter().filter(is_named).copied().collect()
}

// Invariant 8.
#[test]
fn every_wait_for_a_process_or_thread_has_a_bound() {
    let mut broken = Vec::new();
    let mut seen = Vec::new();
    for File { path, text } in tree::files(&[".rs"]) {
        let is_product = path.starts_with("crates/") && path.contains("/src/");
        if !is_product || path.contains("/tests") {
            continue;
        }
        let found = waits(&path, &text);
        let is_bounded = BOUNDED.iter().any(|(file, _)| *file == path);
        if is_bounded && found.is_empty() {
            broken.push(format!("{path} waits no more: leave it out"));
        } else if !is_bounded {
            broken.extend(found.iter().map(|what| format!("{path} names {what}")));
        }
        seen.push(path);
    }
    let gone = BOUNDED
        .iter()
        .filter(|(file, _)| !seen.iter().any(|s| s == file));
    broken.extend(gone.map(|(file, _)| format!("{file} is not there")));
    tree::none(
        &broken,
        "use bytecost_sys::child_end, or bound the wait and say in BOUNDED by what:",
    );
}

#[test]
fn a_wait_is_found_however_it_is_written() {
    for (text, found) in [
        ("fn f() { child.wait() }", &[".wait()"][..]),
        ("fn f() { thread\n.join ( ) .unwrap() }", &[".join()"]),
        ("fn f() { path.join(name); words.join(\", \") }", &[]),
        ("use rustix::process::{Pid, waitpid};", &["waitpid"]),
        (
            "fn f() { all.map(JoinHandle::join) }",
            &["JoinHandle::join"],
        ),
        ("fn f() { c.status().unwrap().code() }", &[".status()"]),
        ("#[cfg(test)] mod tests { fn f() { child.wait() } }", &[]),
    ] {
        assert_eq!(waits("here", text), found, "{text}");
    }
}
