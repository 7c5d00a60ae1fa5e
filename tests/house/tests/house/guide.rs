//! The example of CONTRIBUTING.md works: it is put into a copy of the tree as the guide says, and the
//! conformance test moves every byte with that mover, by the calls that its row states.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::tree;

/// The name of the example.
const NAME: &str = "socketwrite";
/// The table that it is put into.
const TABLE: &str = "crates/engine/src/movers.rs";

#[test]
fn the_mover_of_the_guide_moves_every_byte_by_the_calls_that_its_row_states() {
    // Three transports, and for each a stream of small messages, one of large ones, and answers.
    passes("conformance", &[&format!("/{NAME}/recv/")], 9);
    passes("calls", &["--exact", NAME], 1);
}

/// So many cases of a test of the lab pass there.
fn passes(test: &str, cases: &[&str], count: usize) {
    // By itself the package would have its dependencies built with other features.
    let words = ["test", "--workspace", "--test", test, "--"];
    let said = cargo(&[&words, cases].concat());
    assert!(
        said.contains(&format!("{count} passed; 0 failed")),
        "{said}"
    );
}

/// The output of Cargo in the copy.
fn cargo(words: &[&str]) -> String {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let (command, words) = words.split_first().unwrap();
    let output = Command::new(env!("CARGO"))
        .args([command, "--offline", "--locked"])
        .args(words)
        .current_dir(copied())
        .env("CARGO_TARGET_DIR", target)
        .output()
        .expect("cargo runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{log}");
    said.into_owned()
}

/// A copy of the tree with the guide's mover.
fn copied() -> &'static Path {
    static COPY: OnceLock<PathBuf> = OnceLock::new();
    COPY.get_or_init(|| {
        let guide = read("CONTRIBUTING.md");
        // Always the same place, so that a second run compiles nothing but what changed.
        let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guide");
        let table = after(&read(TABLE), "mod vmsplice;", &format!("mod {NAME};"));
        let table = after(&table, "    send::WRITEV,", &format!("    {NAME}::MOVER,"));
        let file = format!("crates/engine/src/movers/{NAME}.rs");
        let changed = [
            (TABLE, table),
            (&file, block(&guide, &format!("//! `{NAME}`:")).to_owned()),
            ("Cargo.toml", version_of_guide("Cargo.toml")),
            ("Cargo.lock", version_of_guide("Cargo.lock")),
        ];
        mirror(&tree::root(), &copy, "", &changed);
        for (path, text) in &changed {
            write_if_new(&copy.join(path), text.as_bytes());
        }
        copy
    })
}

fn read(file: &str) -> String {
    fs::read_to_string(tree::root().join(file)).unwrap()
}

/// A file of the root with a version for our crates that no other build has. Cargo knows crates by
/// name, version and place in the workspace: with the same version it would take what
/// was built from the copy for what is to be built from the tree, which it shares its folder
/// with, and tests of the tree would run on the copy.
fn version_of_guide(file: &str) -> String {
    let text = read(file);
    let version = format!("version = \"{}\"", env!("CARGO_PKG_VERSION"));
    let own = format!("version = \"{}-guide\"", env!("CARGO_PKG_VERSION"));
    let mut ours = false; // whether the line before names a crate of ours, or all of them
    let mut lines = Vec::new();
    for line in text.lines() {
        lines.push(if ours && line == version { &own } else { line });
        ours = line.starts_with("name = \"bytecost") || line == "[workspace.package]";
    }
    assert!(lines.contains(&&own[..]), "{file} has no {version} of ours");
    lines.join("\n") + "\n"
}

/// The block of code that starts with these words.
fn block<'a>(page: &'a str, start: &str) -> &'a str {
    let mut blocks = page.split("```rust\n").skip(1);
    let block = blocks
        .find(|b| b.starts_with(start))
        .expect("an example of the guide");
    block.split("```").next().unwrap()
}

fn after(text: &str, line: &str, new: &str) -> String {
    let found = format!("{line}\n");
    assert!(text.contains(&found), "there is no line `{line}`");
    text.replacen(&found, &format!("{found}{new}\n"), 1)
}

/// Makes `to` what `from` is, but for the files of `except`. What is the same already stays
/// untouched, so that Cargo does not take it for changed.
fn mirror(from: &Path, to: &Path, prefix: &str, except: &[(&str, String)]) {
    fs::create_dir_all(to).unwrap();
    let mut here = Vec::new();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = format!("{prefix}{name}");
        if name.starts_with('.') || tree::is_made(&entry.path()) {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            mirror(&entry.path(), &to.join(&name), &format!("{path}/"), except);
        } else if !except.iter().any(|(file, _)| *file == path) {
            write_if_new(&to.join(&name), &fs::read(entry.path()).unwrap());
        }
        here.push(name);
    }
    for entry in fs::read_dir(to).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let kept = except
            .iter()
            .any(|(file, _)| *file == format!("{prefix}{name}"));
        if here.contains(&name) || kept {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            fs::remove_dir_all(entry.path()).unwrap();
        } else {
            fs::remove_file(entry.path()).unwrap();
        }
    }
}

fn write_if_new(path: &Path, bytes: &[u8]) {
    if fs::read(path).ok().as_deref() != Some(bytes) {
        fs::write(path, bytes).unwrap();
    }
}
