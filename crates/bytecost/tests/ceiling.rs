//! The ceiling as a user meets it: measured once, shown in the reports of other runs of the same
//! machine (which the goldens hold), and never in those of another.

use std::fs;
use std::os::unix::fs::chown;

use crate::common::{Place, is_root};

#[test]
fn a_ceiling_of_another_machine_or_that_cannot_be_read_is_not_shown() {
    let place = Place::recorded(&["file-read", "ceiling"]);
    let check = |expected: bool| {
        place.call("report file-read").measured();
        let dir = place.runs().join("file-read");
        let read = |name| fs::read_to_string(dir.join(name)).unwrap();
        let is_shown = read("findings.json").contains("\"ceiling\": {");
        let hint = read("report.md").contains("`bytecost ceiling` measures once");
        assert_eq!((is_shown, hint), (expected, !expected));
    };
    check(true);
    let path = place.runs().join("ceiling/manifest.json");
    let manifest = fs::read_to_string(&path).unwrap();
    let other = manifest.replace("AMD EPYC", "of another machine");
    assert_ne!(other, manifest);
    for spoilt in [&other, "no manifest"] {
        fs::write(&path, spoilt).unwrap();
        check(false);
    }
    if is_root() {
        fs::write(&path, &manifest).unwrap();
        check(true);
        chown(path.parent().unwrap(), Some(1234), None).unwrap();
        check(false);
    }
}

#[test]
fn what_the_ceiling_cannot_do_is_told_in_a_line() {
    Place::recorded(&["file-read"]).refuses(
        "ceiling",
        "--dir /nowhere/at/all --quiet => /nowhere/at/all | --dir
        --size 4KiB => --size
        --resume file-read => file-read | bytecost run --resume
        --resume none-such --quiet => none-such",
    );
}
