//! Atomic writes, locks, links and owners: what a `Folder` changes, and what it refuses to root.

use super::*;

use std::fs;
use std::os::unix::fs::symlink;

fn open(dir: &tempfile::TempDir) -> Folder {
    Folder::open(dir.path()).unwrap()
}

#[test]
fn a_failed_write_leaves_the_old_file_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("taken")).unwrap();
    fs::write(dir.path().join("taken/file"), "old").unwrap();
    assert!(open(&dir).write("taken", b"new").is_err());
    assert_eq!(fs::read(dir.path().join("taken/file")).unwrap(), b"old");
    assert_eq!(open(&dir).names().unwrap(), ["taken"]);
}

// Invariant 9.
#[test]
fn temporary_files_of_ended_processes_are_removed_and_those_of_living_ones_stay() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(".report.md.1.0.tmp"), "half").unwrap();
    fs::write(dir.path().join(".of-another.tmp"), "not ours").unwrap();
    let (_living, other) = open(&dir).temporary("other").unwrap();
    open(&dir).write("report.md", b"whole").unwrap();
    let left = [".of-another.tmp", &*other, "report.md"];
    assert_eq!(open(&dir).names().unwrap(), left);
}

#[test]
fn no_link_is_followed_and_its_target_does_not_change() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let target = other.path().join("precious");
    fs::write(&target, "whole").unwrap();
    symlink(&target, dir.path().join("samples.jsonl")).unwrap();
    let refused = open(&dir).log("samples.jsonl");
    assert!(matches!(refused, Err(StoreError::NoFile(_))), "{refused:?}");
    assert!(open(&dir).read("samples.jsonl", 100).is_err());
    open(&dir).write("samples.jsonl", b"own").unwrap();
    assert_eq!(fs::read(&target).unwrap(), b"whole");
    symlink(other.path(), dir.path().join("figures")).unwrap();
    assert!(open(&dir).folder("figures").is_err());
    assert!(open(&dir).make_folder("figures").is_err());
}

#[test]
fn root_appends_to_no_file_that_has_another_name_or_owner() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("precious"), "whole").unwrap();
    fs::hard_link(dir.path().join("precious"), dir.path().join("log")).unwrap();
    let is_refused = open(&dir).log("log").is_err();
    assert_eq!(is_refused, rustix::process::geteuid().is_root());
    let file = open(&dir).log("new").unwrap();
    let mut stat = fstat(&file).unwrap();
    let root = Uid::from_raw(0);
    stat.st_uid = rustix::process::geteuid().as_raw();
    assert!(may_append(&stat, root));
    stat.st_uid = 4321;
    assert!(!may_append(&stat, root));
    assert!(may_append(&stat, Uid::from_raw(1000)));
    assert!(open(&dir).log("new").is_ok(), "again");
}

#[test]
fn a_file_that_is_written_in_place_is_checked_when_it_is_open() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = |name: &str| dir.path().join(name);
    let text = |name: &str| fs::read(path(name)).unwrap();
    // Returns two flags: the name is one to write through, and the write succeeded.
    let write = |name: &str| {
        let name = OsStr::new(name);
        (
            open(&dir).leads_through(name),
            open(&dir).write_through(name, b"new").is_ok(),
        )
    };
    fs::write(path("precious"), "whole").unwrap();
    assert_eq!(write("absent"), (false, true));
    symlink(path("precious"), path("own link")).unwrap();
    assert_eq!(write("own link"), (true, true));
    assert_eq!(text("precious"), b"new", "and nothing of the longer text");
    symlink("/dev/null", path("device")).unwrap();
    assert_eq!(write("device"), (true, true));
    // A hard link and a symbolic link that replaced a pipe after it was checked: root writes to neither.
    let is_root = rustix::process::geteuid().is_root();
    let target = other.path().join("target");
    fs::write(&target, "whole").unwrap();
    fs::hard_link(&target, path("name of another")).unwrap();
    assert_eq!(write("name of another"), (false, !is_root));
    symlink(&target, path("link of another")).unwrap();
    if is_root {
        std::os::unix::fs::lchown(path("link of another"), Some(4321), None).unwrap();
        assert_eq!(write("link of another"), (false, false));
        assert_eq!(fs::read(&target).unwrap(), b"whole");
    }
}

#[test]
fn anything_but_a_regular_file_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    rustix::fs::mknodat(CWD, pipe, FileType::Fifo, Mode::from(0o600), 0).unwrap();
    let refused = open(&dir).read("pipe", 10);
    assert!(matches!(refused, Err(StoreError::NoFile(_))), "{refused:?}");
}

#[test]
fn root_trusts_its_own_directories_and_those_of_its_caller() {
    let [root, caller, other] = [0, 1000, 1001].map(Uid::from_raw);
    let stat = |owner: Uid, mode: u32| {
        let dir = tempfile::tempdir().unwrap();
        let mut stat = rustix::fs::stat(dir.path()).unwrap();
        (stat.st_uid, stat.st_mode) = (owner.as_raw(), mode);
        stat
    };
    let trusts = |owner, mode| is_trusted(&stat(owner, mode), root, Some(caller));
    assert!(trusts(root, 0o755) && trusts(caller, 0o775) && trusts(root, 0o1777));
    assert!(!trusts(other, 0o755) && !trusts(root, 0o777));
    assert!(!is_trusted(&stat(caller, 0o755), root, None));
    assert!(is_trusted(&stat(other, 0o777), caller, None), "no root");
}
