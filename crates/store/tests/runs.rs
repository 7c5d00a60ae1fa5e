//! What a run directory promises to its callers.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use bytecost_spec::manifest::{Bisection, FORMAT, Leg};
use bytecost_spec::{Cell, Failure, Host, Record};
use bytecost_store::{Ending, Root, RunProgress, State, StoreError};
use common::{failure, manifest};

fn root() -> (tempfile::TempDir, Root) {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::at(dir.path().join("runs"));
    (dir, root)
}

/// The end of a run, before its time for this reason.
fn ending(early: Option<&str>) -> Ending {
    Ending {
        ended: "2026-11-21T14:16:03Z".into(),
        early: early.map(str::to_owned),
        records: None,
    }
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
fn a_run_comes_back_as_it_was_written() {
    let (_dir, root) = root();
    let mut run = root.create(&manifest("one")).unwrap();
    run.append(&failure(0)).unwrap();
    run.append(&failure(1)).unwrap();
    run.sync().unwrap();
    let read = root.open("one").unwrap();
    assert_eq!(read.manifest(), &manifest("one"));
    assert_eq!(read.records().unwrap().records, [failure(0), failure(1)]);
    let path = run.dir().to_str().unwrap().to_owned();
    assert_eq!(
        Root::at("/nowhere").open(&path).unwrap().manifest().id,
        "one"
    );
}

#[test]
fn a_cell_of_an_older_run_has_the_name_that_it_would_have_today() {
    let (_dir, root) = root();
    let mut run = root.create(&manifest("one")).unwrap();
    let Record::Failure(failure) = failure(0) else {
        unreachable!()
    };
    // A Unix socket has neither a congestion control nor TCP_NODELAY.
    let was = "unix/stream/send/recv/64KiB/8/1/cubic/auto/256KiB/4MiB/on/free";
    run.append(&Record::Failure(Failure {
        cell: was.to_owned(),
        ..failure
    }))
    .unwrap();
    run.sync().unwrap();
    let mut read = root.open("one").unwrap().records().unwrap().records;
    let is = "unix/stream/send/recv/64KiB/8/1/default/auto/256KiB/4MiB/auto/free";
    assert_eq!(read[0].cell_mut().map(|id| &id[..]), Some(is));
}

#[test]
fn a_name_is_used_once_and_twins_are_numbered() {
    let (_dir, root) = root();
    let _first = root.create(&manifest("one")).unwrap();
    assert!(matches!(
        root.create(&manifest("one")),
        Err(StoreError::Exists(_))
    ));
    let ids: Vec<String> = (0..3)
        .map(|_| {
            let run = root.create_fresh(manifest("")).unwrap();
            let read = root.open(&run.manifest().id).unwrap();
            assert_eq!(read.manifest().id, run.manifest().id);
            run.manifest().id.clone()
        })
        .collect();
    assert_eq!(
        ids,
        [
            "20261121-141503-send-copies",
            "20261121-141503-send-copies-2",
            "20261121-141503-send-copies-3"
        ]
    );
}

#[test]
fn names_that_leave_the_root_are_refused() {
    let (dir, root) = root();
    for bad in ["../evil", "/tmp/evil", "", ".", "..", "a/b"] {
        assert!(
            matches!(root.create(&manifest(bad)), Err(StoreError::BadId(_))),
            "{bad}"
        );
    }
    assert_eq!(names(dir.path()), Vec::<String>::new());
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
fn a_run_that_was_cut_short_goes_on_at_the_start_of_a_line() {
    let (_dir, root) = root();
    let mut run = root.create(&manifest("one")).unwrap();
    run.append(&failure(0)).unwrap();
    run.append(&failure(1)).unwrap();
    let log = run.dir().join("samples.jsonl");
    drop(run);
    let text = fs::read(&log).unwrap();
    fs::write(&log, &text[..text.len() - 5]).unwrap();
    let mut run = root.open("one").unwrap();
    let loaded = run.records().unwrap();
    assert_eq!(loaded.records, [failure(0)]);
    let truncated = loaded.truncated.unwrap();
    assert_eq!(truncated.line, 2);
    assert_eq!(truncated.start + truncated.bytes, text.len() as u64 - 5);
    run.append(&failure(2)).unwrap();
    let loaded = run.records().unwrap();
    assert_eq!(loaded.records, [failure(0), failure(2)]);
    assert_eq!(loaded.truncated, None);
}

#[test]
fn the_list_tells_how_each_run_stands() {
    let (_dir, root) = root();
    assert!(root.runs().unwrap().is_empty());
    let mut complete = root.create(&manifest("a-complete")).unwrap();
    complete.append(&failure(0)).unwrap();
    complete.end(&ending(None)).unwrap();
    drop(complete);
    let mut early = root.create(&manifest("b-early")).unwrap();
    early.end(&ending(Some("Ctrl-C"))).unwrap();
    drop(early);
    drop(root.create(&manifest("c-killed")).unwrap());
    let _running = root.create(&manifest("d-running")).unwrap();
    fs::create_dir(root.path().join("e-empty")).unwrap();
    fs::write(root.path().join("a-file"), "").unwrap();
    let mut resumed = root.open("b-early").unwrap();

    let states = |root: &Root| -> Vec<(String, Result<RunProgress, String>)> {
        root.runs()
            .unwrap()
            .into_iter()
            .map(|r| (r.id, r.facts.map_err(|e| e.to_string())))
            .collect()
    };
    let state = |list: &[(String, Result<RunProgress, String>)], at: usize| {
        list[at].1.as_ref().unwrap().state.clone()
    };
    let list = states(&root);
    assert_eq!(list.len(), 5);
    let first = list[0].1.as_ref().unwrap();
    assert_eq!((first.records, first.study.as_str()), (1, "send-copies"));
    assert_eq!(first.started, "2026-11-21T14:15:03.25Z");
    assert_eq!(state(&list, 0), State::Complete);
    assert_eq!(state(&list, 1), State::EndedEarly("Ctrl-C".into()));
    assert_eq!(state(&list, 2), State::Killed);
    assert_eq!(state(&list, 3), State::Running);
    assert!(list[4].1.as_ref().unwrap_err().contains("no manifest.json"));

    resumed.resume().unwrap();
    assert_eq!(resumed.ending().unwrap(), None);
    assert_eq!(state(&states(&root), 1), State::Running);
}

#[test]
fn a_run_that_goes_on_after_its_end_notes_the_look_and_a_killed_one_does_not() {
    let (_dir, root) = root();
    let mut run = root.create(&manifest("one")).unwrap();
    run.append(&failure(0)).unwrap();
    drop(run);
    let mut killed = root.open("one").unwrap();
    killed.resume().unwrap();
    assert!(killed.manifest().looks.is_empty());
    killed.end(&ending(None)).unwrap();
    drop(killed);
    root.open("one").unwrap().resume().unwrap();
    assert_eq!(root.open("one").unwrap().manifest().looks, [1]);
}

#[test]
fn a_folder_of_a_run_is_made_once_and_is_no_link() {
    let (dir, root) = root();
    let run = root.create(&manifest("one")).unwrap();
    for text in ["a", "b"] {
        run.folder("figures")
            .unwrap()
            .write("f.svg", text.as_bytes())
            .unwrap();
    }
    assert_eq!(fs::read(run.dir().join("figures/f.svg")).unwrap(), b"b");
    std::os::unix::fs::symlink(dir.path(), run.dir().join("elsewhere")).unwrap();
    assert!(run.folder("elsewhere").is_err());
}

#[test]
fn the_list_is_in_the_order_of_making() {
    let (_dir, root) = root();
    for _ in 0..11 {
        drop(root.create_fresh(manifest("")).unwrap());
    }
    let ids: Vec<String> = root.runs().unwrap().into_iter().map(|r| r.id).collect();
    assert!(ids[1].ends_with("-2") && ids[9].ends_with("-10") && ids[10].ends_with("-11"));
}

#[test]
fn what_cannot_be_opened_says_why_and_what_to_do() {
    let (_dir, root) = root();
    let check = |what: &str, parts: &[&str]| {
        let error = root.open(what).unwrap_err().to_string();
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
                "written by a newer bytecost (format 7, this one reads up to",
                "update bytecost",
            ][..],
        ),
        (
            "{\"format\": 9, \"what\": \"the future holds\"}".to_owned(),
            &["format 9"],
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
fn outputs_stand_beside_the_samples_and_never_replace_them() {
    let (_dir, root) = root();
    let run = root.create(&manifest("one")).unwrap();
    run.write_output("report.md", b"# one").unwrap();
    let path = run.write_output("report.md", b"# two").unwrap();
    assert_eq!(fs::read(path).unwrap(), b"# two");
    for bad in [
        "manifest.json",
        "samples.jsonl",
        "ended.json",
        "../x",
        "a/b",
        "",
        ".",
        "..",
        ".hidden",
    ] {
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

/// Runs itself again under a limit on file sizes, which takes part of a write and then refuses,
/// as a disk does that becomes full.
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
        let error = run.write_output("report.html", &[b'x'; 1 << 20]);
        assert!(matches!(error, Err(StoreError::Full { .. })));
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
    assert_eq!((loaded.records.len(), loaded.truncated), (written, None));
    assert_eq!(
        names(run.dir()),
        ["manifest.json", "samples.jsonl", "written"]
    );
    run.append(&failure(0)).unwrap();
    assert_eq!(run.records().unwrap().records.len(), written + 1);
}

#[test]
fn legs_and_bisections_are_noted_and_no_sample_changes() {
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
    let bisection = Bisection {
        first_block: 1,
        blocks: 2,
        cells: vec![Cell::default()],
    };
    run.begin_leg(leg.clone()).unwrap();
    run.bisect(bisection.clone()).unwrap();
    run.append(&failure(1)).unwrap();
    assert!(fs::read(&log).unwrap().starts_with(&before));
    drop(run);
    let run = root.open("one").unwrap();
    let manifest = run.manifest();
    // A version that does not know of legs reads format 1 at most, and says so.
    assert_eq!((manifest.format, &manifest.legs), (FORMAT, &vec![leg]));
    assert_eq!(manifest.bisection, Some(bisection));
    assert_eq!((manifest.leg_of(0), manifest.leg_of(1)), (0, 1));
    assert_eq!(manifest.measurer().build, Some("ab"));
}

// Invariant 6.
#[test]
fn records_that_are_lost_are_told() {
    let (_dir, root) = root();
    let mut run = root.create(&manifest("one")).unwrap();
    for block in 0..3 {
        run.append(&failure(block)).unwrap();
    }
    assert_eq!(run.damage().unwrap(), None, "it goes on");
    run.end(&ending(None)).unwrap();
    assert_eq!(run.ending().unwrap().unwrap().records, Some(3));
    assert_eq!(run.damage().unwrap(), None);
    let log = run.dir().join("samples.jsonl");
    drop(run);
    let text = fs::read_to_string(&log).unwrap();
    let first = text.find('\n').unwrap() + 1;
    let state = || root.runs().unwrap().remove(0).facts.unwrap().state;
    assert_eq!(state(), State::Complete);
    fs::write(&log, &text[..first + 5]).unwrap();
    let lost = "2 of its 3 records are missing from samples.jsonl";
    assert_eq!(state(), State::Damaged(lost.into()));
    fs::remove_file(&log).unwrap();
    assert_eq!(state(), State::Damaged("samples.jsonl is missing".into()));
    // What an older version ended says nothing of their number.
    fs::write(&log, "").unwrap();
    let ended = log.with_file_name("ended.json");
    fs::write(ended, r#"{"ended":"2026-11-21T14:16:03Z","early":null}"#).unwrap();
    assert_eq!(state(), State::Complete);
    // One that is resumed is mended by measuring again.
    let mut run = root.open("one").unwrap();
    run.resume().unwrap();
    assert_eq!(run.damage().unwrap(), None);
}
