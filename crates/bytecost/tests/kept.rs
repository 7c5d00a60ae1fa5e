//! The cache that `list` keeps for the next command, and the progress of a run while it measures.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

use crate::common::{BYTECOST, Place, TINY, ended, says};

/// A path without Java, which takes nearly as long to try as all else together.
const NO_JAVA: &str = "/nowhere";

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

    fn list(&self, words: &str, path: Option<&str>) -> String {
        let mut command = self.place.bytecost(format!("list {words}"));
        command.env("XDG_CACHE_HOME", &self.caches);
        let end = ended(command.envs(path.map(|path| ("PATH", path))));
        assert_eq!(end.stderr, "");
        end.succeeded()
    }

    fn file(&self) -> PathBuf {
        self.caches.join("bytecost/works.json")
    }

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
    let list = |words| home.list(words, Some(NO_JAVA));
    let tried = list("");
    assert!(home.file().is_file());
    assert_eq!(list(""), tried);
    home.mark();
    assert!(list("").contains(MARK));
    assert!(!list("--fresh").contains(MARK));
    assert!(!list("").contains(MARK), "what is fresh is kept");
}

#[test]
fn what_was_kept_under_other_circumstances_or_is_broken_is_tried_again() {
    let home = Home::new();
    home.list("", None);
    home.mark();
    let is_tried = |list: &str| !list.contains(MARK) && list.contains("there is no java");
    let elsewhere = home.list("", Some(NO_JAVA));
    assert!(is_tried(&elsewhere), "{elsewhere}");
    home.mark();
    let whole = fs::read_to_string(home.file()).unwrap();
    for broken in ["", &whole[..whole.len() - 1], "{}"] {
        fs::write(home.file(), broken).unwrap();
        let again = home.list("", Some(NO_JAVA));
        assert!(is_tried(&again), "{again}");
        assert_ne!(fs::read_to_string(home.file()).unwrap(), broken);
    }
}

#[test]
fn a_list_needs_no_place_to_keep_anything() {
    let place = Place::new();
    for caches in ["/proc/nowhere", "relative", ""] {
        let mut command = place.bytecost("list");
        command.env_remove("JAVA_HOME").env("PATH", NO_JAVA);
        let end = ended(command.env("XDG_CACHE_HOME", caches).env_remove("HOME"));
        assert_eq!(end.stderr, "");
        assert!(end.succeeded().starts_with("Movers"));
    }
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn a_run_says_first_what_it_measures_and_then_how_precise_it_is() {
    let shown = Place::new().call(TINY).stderr;
    let mut lines = shown.lines();
    let first = lines.next().unwrap();
    let study = "send-copies: From what message size";
    says(first, &[study, "cells, about 8 blocks", "3s"]);
    // Once more where a block is measured again, since others used the machine.
    let notes: Vec<&str> = lines
        .filter(|l| !l.contains(" is measured again: "))
        .collect();
    let with_estimates: HashSet<&str> = notes
        .windows(2)
        .filter(|pair| pair[1].starts_with("so far, without a verdict:"))
        .filter_map(|pair| pair[0].split_once(':').map(|(block, _)| block))
        .collect();
    let known = HashSet::from(["block 4", "block 8"]);
    assert!(with_estimates.contains("block 4"), "{shown}");
    assert!(with_estimates.is_subset(&known), "{shown}");
    says(&shown, &["relative to send: sendfile ", "× ±"]);
    assert!(!shown.contains('\u{1b}'), "{shown}");
}

/// The output of a shell's command to the terminal that script(1) gives it.
fn on_a_terminal(called: &str, no_color: &str) -> String {
    let place = Place::new();
    let mut script = place.other("script", ["-qec", called, "/dev/null"]);
    script.env("TERM", "xterm").env("NO_COLOR", no_color);
    let output = script.output();
    let why = "script(1) is needed, of util-linux (Debian: bsdutils)";
    String::from_utf8(output.expect(why).stdout).unwrap()
}

#[test]
fn on_a_terminal_the_estimates_stand_below_the_bar() {
    says(
        &on_a_terminal(&format!("{BYTECOST} {TINY} >/dev/null"), ""),
        &[
            "send-copies: From",
            "so far, without a verdict:",
            "  sendfile  ",
            "×  ±",
            "block 8",
        ],
    );
}

#[test]
fn a_quick_run_says_what_it_decides_and_is_of_one_study() {
    let place = Place::new();
    let words =
        "--quick --size 4KiB --mover null,send,sendfile --blocks 6 --window 20ms --warmup 1ms";
    let quick = "--quick decides large differences";
    let shown = place.call(words).stderr;
    says(&shown, &[quick, "`bytecost run send-copies`"]);
    says(
        &place.read("manifest.json"),
        &["(quick:", "\"budget_ms\": 15000"],
    );
    place.refuses(
        "run file-read --quick",
        "=> --quick | send-copies | --budget",
    );
}

#[test]
fn no_color_holds_on_a_terminal() {
    let called = format!("{BYTECOST} --help; {BYTECOST} runs");
    let escapes = |no_color| on_a_terminal(&called, no_color).matches('\u{1b}').count();
    assert!(escapes("") > 0);
    assert_eq!(escapes("1"), 0);
}
