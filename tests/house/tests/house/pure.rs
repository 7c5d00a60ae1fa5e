//! Paths that the pure crates and the engine must not name.

use std::str::FromStr;

use proc_macro2::{TokenStream, TokenTree};

use crate::imports::PURE;
use crate::source::{brackets, tokens, without_tests};
use crate::tree::{self, File};

/// Paths into the world outside, which pure code has no use for.
const WORLD: &[&str] = &[
    "std::fs",
    "std::env",
    "std::net",
    "std::process",
    "std::thread",
    "std::os",
    "std::time::Instant",
    "std::time::SystemTime",
    "fs::read",
    "fs::write",
    "Instant::now",
    "SystemTime::now",
    "println!",
    "eprintln!",
    "print!",
    "eprint!",
    "File::open",
    "thread::spawn",
    "static mut",
    "thread_local!",
];

/// Collections whose order changes from run to run.
const UNORDERED: &[&str] = &["HashMap", "HashSet", "RandomState"];

/// Files where they are asked and never gone through, so that their order shows nowhere.
const ASKED_ONLY: &[&str] = &[
    "crates/analysis/src/comparison.rs",
    "crates/analysis/src/figures.rs",
    "crates/analysis/src/trials.rs",
    "crates/plan/src/budget.rs",
    "crates/plan/src/candidates.rs",
    "crates/spec/src/study.rs",
];

/// Files of the engine whose clock bounds what strangers may take of a live server, or how long a program
/// may take to say a line. No number of a trial is made from it.
const BOUNDING: &[&str] = &[
    "crates/engine/src/java.rs",
    "crates/engine/src/servers/connection.rs",
    "crates/engine/src/servers/conversation.rs",
    "crates/engine/src/services/top.rs",
];

/// Clocks and printing, which the engine leaves to others.
const MEASURING: &[&str] = &[
    "std::time::Instant",
    "std::time::SystemTime",
    "Instant::now",
    "SystemTime::now",
    "bytecost_sys::clock",
    "bytecost_sys::perf",
    "println!",
    "eprintln!",
    "print!",
    "eprint!",
];

/// Ways to move bytes, which meters leave to others.
const MOVING: &[&str] = &[
    "std::net",
    "rustix::net",
    "bytecost_sys::iovecs",
    "bytecost_sys::uring_socket",
    "bytecost_sys::errqueue",
    "bytecost_sys::pipe",
    "bytecost_sys::tcp",
    "net::send",
    "net::recv",
    "UnixStream",
    "TcpStream",
];

/// Files of a crate, without what only tests see.
fn sources(name: &str) -> Vec<File> {
    let folder = format!("crates/{name}/src/");
    let mut files = tree::files(&[".rs"]);
    files.retain(|f| f.path.starts_with(&folder) && !f.path.contains("/tests"));
    assert!(!files.is_empty(), "{folder} is empty");
    files
}

/// Returns true if these words name this path, as a whole or through a `use` with braces.
pub fn names(written: &[String], what: &str) -> bool {
    let sought = words(TokenStream::from_str(what).unwrap());
    written.windows(sought.len()).any(|w| w == sought) || imported(written, &sought)
}

/// The words of a file, without what only tests see.
pub fn written(path: &str, text: &str) -> Vec<String> {
    words(without_tests(tokens(path, text)))
}

/// `std::fs` is named by `use std::{fs, io}` too.
fn imported(written: &[String], sought: &[String]) -> bool {
    let Some(cut) = sought
        .iter()
        .rposition(|w| w == ":")
        .filter(|_| sought.len() > 1)
    else {
        return false;
    };
    let (head, last) = (&sought[..=cut], &sought[cut + 1..]);
    let starts = written.windows(head.len() + 1).enumerate();
    let mut groups = starts.filter(|(_, w)| w[..head.len()] == *head && w[head.len()] == "{");
    groups.any(|(at, _)| {
        let mut depth = 0;
        let inside = written[at + head.len()..].iter().take_while(|w| {
            depth += i32::from(*w == "{") - i32::from(*w == "}");
            depth > 0
        });
        inside.into_iter().any(|w| last.contains(w))
    })
}

fn words(stream: TokenStream) -> Vec<String> {
    let mut words = Vec::new();
    flatten(stream, &mut words);
    words
}

fn flatten(stream: TokenStream, words: &mut Vec<String>) {
    for token in stream {
        match token {
            TokenTree::Group(group) => {
                let (open, close) = brackets(&group);
                words.push(open.to_owned());
                flatten(group.stream(), words);
                words.push(close.to_owned());
            }
            TokenTree::Literal(_) => words.push("literal".to_owned()),
            other => words.push(other.to_string()),
        }
    }
}

fn offences(crates: &[&str], never: &[&str], excused: &[&str]) -> Vec<String> {
    let mut broken = Vec::new();
    for name in crates {
        for File { path, text } in sources(name) {
            let written = written(&path, &text);
            for what in never.iter().filter(|what| names(&written, what)) {
                if !excused.contains(&path.as_str()) {
                    broken.push(format!("{path} names {what}"));
                }
            }
        }
    }
    broken
}

// Invariant 3.
#[test]
fn pure_crates_do_not_see_the_world() {
    tree::none(
        &offences(PURE, WORLD, &[]),
        "spec, stats, plan, analysis and report are pure:",
    );
}

// Invariant 3.
#[test]
fn pure_crates_keep_nothing_in_an_order_that_changes() {
    let broken = offences(PURE, UNORDERED, ASKED_ONLY);
    tree::none(
        &broken,
        "use BTreeMap, or see that it is only asked and add it to ASKED_ONLY:",
    );
}

// Invariant 2.
#[test]
fn engines_never_measure() {
    tree::none(
        &offences(&["engine"], MEASURING, BOUNDING),
        "the engine does the work and no more:",
    );
}

// Invariant 2.
#[test]
fn meters_never_move_bytes() {
    tree::none(
        &offences(&["meter", "evidence"], MOVING, &[]),
        "meters read, and move nothing:",
    );
}

#[test]
fn a_path_is_found_however_it_is_imported() {
    for (text, what, found) in [
        ("use std::fs;", "std::fs", true),
        ("use std::{io, fs::File};", "std::fs", true),
        ("use std::{io, fmt};", "std::fs", false),
        (
            "use std::time::{Duration, Instant};",
            "std::time::Instant",
            true,
        ),
        ("use std::time::Duration;", "std::time::Instant", false),
        (
            "fn f() { let s = \"std::fs\"; } // std::fs",
            "std::fs",
            false,
        ),
        ("fn f() { println!(\"x\") }", "println!", true),
        ("#[cfg(test)] mod tests { use std::fs; }", "std::fs", false),
        ("fn f() { std::env::args() }", "std::env", true),
    ] {
        assert_eq!(names(&written("here", text), what), found, "{text}");
    }
}
