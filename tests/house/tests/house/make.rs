//! `make` where nothing can be installed: what needs a missing tool is left out and reported, and
//! fails where CI is true.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tree;

/// The programs that are there; of all others only the package manager, which has no network.
const THERE: &[&str] = &[
    "bash", "make", "id", "tee", "head", "mktemp", "rm", "grep", "true",
];

fn program(name: &str) -> PathBuf {
    let dirs = ["/usr/bin", "/bin"].map(Path::new);
    let mut found = dirs.iter().map(|dir| dir.join(name));
    found.find(|path| path.exists()).expect("a usual program")
}

#[test]
fn what_cannot_be_installed_is_left_out_and_reported() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("offline");
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    for name in THERE {
        symlink(program(name), dir.join(name)).unwrap();
    }
    symlink(program("false"), dir.join("apt-get")).unwrap();
    for (target, what) in [
        ("chromium", None),
        ("tools", None),
        ("page", Some("the report page")),
        ("same-bpf", Some("BPF objects")),
    ] {
        for is_ci in [false, true] {
            let mut make = Command::new(program("make"));
            make.args(["--no-print-directory", target])
                .current_dir(tree::root())
                .env_clear()
                .env("PATH", &dir)
                .env("CI", is_ci.to_string());
            let output = make.output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            let errors = String::from_utf8_lossy(&output.stderr);
            let fails = is_ci && what.is_some();
            assert_eq!(output.status.success(), !fails, "{target}: {said}{errors}");
            let line = what.map(|what| format!("left out: {what}"));
            assert!(line.is_none_or(|line| said.contains(&line)), "{said}");
        }
    }
}
