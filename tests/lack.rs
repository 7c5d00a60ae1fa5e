//! Needs of a test that this machine lacks. Test programs take this file in by its path.
#![allow(dead_code)] // each uses a part of it

use std::env;
use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::panic::Location;

/// The kind of what is not here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// A program that can be installed.
    Tool,
    /// A permission of the user or of the container.
    Right,
    /// Hardware, or a part of the kernel.
    Machine,
}

/// Reports that a test, or a part of it, does not run. Where `CI` is `true` a tool or a right must not
/// be missing. The file that `BYTECOST_SKIPPED` names gets the line, as output of a test that passes
/// is not shown: `tests/all.sh` prints it in the end.
#[track_caller]
pub fn skipped(lack: Lack, what: impl Display) {
    let missing = match lack {
        Lack::Tool => "tool",
        Lack::Right => "right",
        Lack::Machine => "hardware or kernel",
    };
    let (what, place) = (what.to_string(), Location::caller().file());
    let words: Vec<&str> = what.split_whitespace().collect();
    let line = format!(
        "skipped for lack of {missing}: {} ({place})",
        words.join(" ")
    );
    eprintln!("{line}");
    if let Some(list) = env::var_os("BYTECOST_SKIPPED") {
        let mut list = File::options()
            .append(true)
            .create(true)
            .open(list)
            .unwrap();
        list.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
    let is_ci = env::var_os("CI").is_some_and(|ci| ci == "true");
    assert!(
        !is_ci || lack == Lack::Machine,
        "{line}: where CI is true, no tool and no right may be missing"
    );
}

/// Returns true if a program can be started; if not, that is reported.
#[track_caller]
pub fn has(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_there = env::split_paths(&path).any(|dir| dir.join(program).is_file());
    if !is_there {
        skipped(Lack::Tool, format_args!("{program} is not installed"));
    }
    is_there
}
