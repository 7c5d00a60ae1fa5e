//! Every test runs.

use crate::tree;

#[test]
fn every_file_of_tests_is_in_its_program() {
    let files = tree::files(&[".rs"]);
    let mut broken = Vec::new();
    for program in files.iter().filter(|f| f.path.ends_with("/tests/all.rs")) {
        let folder = program.path.trim_end_matches("all.rs");
        // A program of its own is named there.
        let path = tree::root().join(folder).join("../Cargo.toml");
        let manifest = std::fs::read_to_string(path).unwrap();
        let names = files
            .iter()
            .filter_map(|file| file.path.strip_prefix(folder)?.strip_suffix(".rs"))
            .filter(|name| *name != "all" && !name.contains('/'));
        for name in names {
            let is_named = manifest.contains(&format!("[[test]]\nname = \"{name}\"\n"));
            if !is_named && !program.text.contains(&format!("mod {name};\n")) {
                broken.push(format!("{folder}{name}.rs: write `mod {name};` in all.rs"));
            }
        }
    }
    tree::none(&broken, "tests that nothing runs:");
}

#[test]
fn no_test_is_ignored() {
    let mut broken = Vec::new();
    for file in tree::files(&[".rs"]) {
        for (line, text) in (1..).zip(file.text.lines()) {
            if text.trim_start().starts_with("#[ignore") {
                broken.push(format!("{}:{line}", file.path));
            }
        }
    }
    tree::none(&broken, "ignored tests: a test runs, or it is not there:");
}
