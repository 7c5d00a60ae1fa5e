//! The mover of CONTRIBUTING.md works: it is put into a copy of the tree as the guide says, and
//! the conformance test moves every byte with it.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::tree;

/// The name of the example.
const NAME: &str = "write";

#[test]
fn the_mover_of_the_guide_moves_every_byte() {
    let guide = fs::read_to_string(tree::root().join("CONTRIBUTING.md")).unwrap();
    let example = block(&guide, &format!("//! `{NAME}`:"));
    let copy = tempfile::tempdir().unwrap();
    copy_tree(&tree::root(), copy.path());
    let engine = copy.path().join("crates/engine/src");
    fs::write(engine.join(format!("movers/{NAME}.rs")), example).unwrap();
    let table = fs::read_to_string(engine.join("movers.rs")).unwrap();
    let table = after(&table, "mod vmsplice;", &format!("mod {NAME};"));
    let table = after(&table, "    writev::MOVER,", &format!("    {NAME}::MOVER,"));
    fs::write(engine.join("movers.rs"), table).unwrap();

    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let output = Command::new(env!("CARGO"))
        .args([
            "test",
            "--offline",
            "--locked",
            "-p",
            "bytecost-lab",
            "--test",
            "conformance",
        ])
        .args(["--", &format!("/{NAME}/recv/")])
        .current_dir(copy.path())
        .env("CARGO_TARGET_DIR", target)
        .output()
        .expect("cargo runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{log}");
    // Two transports, and for each a stream of small messages, one of large ones, and answers.
    assert!(said.contains("6 passed; 0 failed"), "{said}\n{log}");
}

/// The block of code that starts with these words.
fn block<'a>(page: &'a str, start: &str) -> &'a str {
    let mut blocks = page.split("```rust\n").skip(1);
    let block = blocks
        .find(|b| b.starts_with(start))
        .expect("the guide's mover");
    block.split("```").next().unwrap()
}

fn after(text: &str, line: &str, new: &str) -> String {
    let found = format!("{line}\n");
    assert!(text.contains(&found), "movers.rs has no line `{line}`");
    text.replacen(&found, &format!("{found}{new}\n"), 1)
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), to.join(name)).unwrap();
        } else if !tree::is_made(&entry.path()) && !name.to_string_lossy().starts_with('.') {
            copy_tree(&entry.path(), &to.join(name));
        }
    }
}
