//! What `list` keeps for the next command, and what a run shows while it measures.

mod common;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use common::{Place, TINY, refused, stderr, stdout};

/// The words that a kept survey is known by.
const MARK: &str = "what was kept";

/// A place with a directory of caches of its own, in which a survey is kept.
struct Home {
    place: Place,
    caches: PathBuf,
}

impl Home {
    fn new() -> Home {
        let place = Place::new();
        let caches = place.path().join("caches");
        Home { place, caches }
    }

    fn list(&self, words: &[&str], path: Option<&str>) -> String {
        let words = [&["list"], words].concat();
        let mut variables = vec![("XDG_CACHE_HOME", self.caches.to_str())];
        variables.extend(path.map(|path| ("PATH", Some(path))));
        let output = self.place.call_with(&words, &variables);
        assert_eq!(stderr(&output), "");
        assert_eq!(output.status.code(), Some(0));
        stdout(&output)
    }

    fn file(&self) -> PathBuf {
        self.caches.join("bytecost/works.json")
    }

    /// Writes the mark into what is kept.
    fn mark(&self) {
        let kept = fs::read_to_string(self.file()).unwrap();
        let marked = kept.replacen("moves nothing:", &format!("{MARK}:"), 1);
        assert_ne!(kept, marked);
        fs::write(self.file(), marked).unwrap();
    }
}

#[test]
fn a_list_is_the_same_from_what_was_kept_as_from_what_is_tried() {
    let home = Home::new();
    let tried = home.list(&[], None);
    assert!(home.file().is_file());
    assert_eq!(home.list(&[], None), tried);
    home.mark();
    assert!(home.list(&[], None).contains(MARK));
    assert!(!home.list(&["--fresh"], None).contains(MARK));
    assert!(
        !home.list(&[], None).contains(MARK),
        "what is fresh is kept"
    );
}

#[test]
fn what_was_kept_under_other_circumstances_or_is_broken_is_tried_again() {
    let home = Home::new();
    home.list(&[], None);
    home.mark();
    let elsewhere = home.list(&[], Some("/nowhere"));
    assert!(!elsewhere.contains(MARK) && elsewhere.contains("there is no java"));
    let whole = fs::read_to_string(home.file()).unwrap();
    for broken in ["", &whole[..whole.len() / 2], "{}"] {
        fs::write(home.file(), broken).unwrap();
        assert_eq!(home.list(&[], Some("/nowhere")), elsewhere);
        home.mark();
    }
}

#[test]
fn a_list_needs_no_place_to_keep_anything() {
    let place = Place::new();
    for caches in ["/proc/nowhere", "relative", ""] {
        let output = place.call_with(
            &["list"],
            &[("XDG_CACHE_HOME", Some(caches)), ("HOME", None)],
        );
        assert_eq!(
            (output.status.code(), stderr(&output)),
            (Some(0), String::new())
        );
        assert!(stdout(&output).starts_with("Movers"));
    }
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn a_run_says_first_what_it_measures_and_then_how_precise_it_is() {
    let place = Place::new();
    let shown = stderr(&place.call(&TINY[..TINY.len() - 1]));
    let mut lines = shown.lines();
    let first = lines.next().unwrap();
    for word in [
        "send-copies: From what message size",
        "cells, about 8 blocks",
        "3s",
    ] {
        assert!(first.contains(word), "{shown}");
    }
    let so_far: Vec<&str> = lines
        .filter(|l| l.starts_with("so far, without a verdict:"))
        .collect();
    assert!(
        (1..=2).contains(&so_far.len()),
        "at blocks 4 and 8: {shown}"
    );
    for word in ["relative to send: sendfile ", "× ±"] {
        assert!(so_far[0].contains(word), "{shown}");
    }
    assert!(!shown.contains('\u{1b}'), "{shown}");
}

#[test]
fn on_a_terminal_the_estimates_stand_below_the_bar() {
    let place = Place::new();
    let words = TINY[..TINY.len() - 1].join(" ");
    let called = format!("{} {words} >/dev/null", env!("CARGO_BIN_EXE_bytecost"));
    // script(1) gives it a terminal; it is in util-linux (Debian: bsdutils).
    let output = Command::new("script")
        .args(["-qec", &called, "/dev/null"])
        .current_dir(place.path())
        .env("TERM", "xterm")
        .env("XDG_CACHE_HOME", common::caches())
        .env("BYTECOST_EVIDENCE", "none")
        .output()
        .unwrap_or_else(|why| panic!("script(1) is needed, of util-linux or bsdutils: {why}"));
    let shown = stdout(&output);
    for word in [
        "send-copies: From",
        "so far, without a verdict:",
        "  sendfile  ",
        "×  ±",
        "block 8",
    ] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
}

#[test]
fn a_quick_run_says_what_it_decides_and_is_of_one_study() {
    let place = Place::new();
    let words = [
        "--quick",
        "--size",
        "4KiB",
        "--mover",
        "null,send,sendfile",
        "--blocks",
        "6",
    ];
    let short = ["--window", "20ms", "--warmup", "1ms"];
    let output = place.call(&[&words[..], &short[..]].concat());
    let shown = stderr(&output);
    assert!(
        shown.contains("--quick decides large differences"),
        "{shown}"
    );
    assert!(shown.contains("`bytecost run send-copies`"), "{shown}");
    let manifest = fs::read_to_string(place.run_dir().join("manifest.json")).unwrap();
    assert!(
        manifest.contains("(quick:") && manifest.contains("\"budget_ms\": 15000"),
        "{manifest}"
    );
    let other = place.call(&["run", "file-read", "--quick"]);
    refused(&other, &["--quick", "send-copies", "--budget"]);
}

#[test]
fn a_file_that_is_not_there_is_refused_in_one_line() {
    let place = Place::new();
    let output = place.call(&["run", "file-read", "--file", "/nonexistent"]);
    refused(&output, &["/nonexistent", "--file"]);
    assert!(!stderr(&output).contains("--dir"));
}

#[test]
fn no_color_holds_on_a_terminal() {
    let place = Place::new();
    let escapes = |no_color: &str| {
        let called = format!("{} --help; {0} runs", env!("CARGO_BIN_EXE_bytecost"));
        let output = Command::new("script")
            .args(["-qec", &called, "/dev/null"])
            .current_dir(place.path())
            .env("TERM", "xterm")
            .env("NO_COLOR", no_color)
            .output()
            .unwrap_or_else(|why| panic!("script(1) is needed, of util-linux or bsdutils: {why}"));
        stdout(&output).matches('\u{1b}').count()
    };
    assert!(escapes("") > 0);
    assert_eq!(escapes("1"), 0);
}
