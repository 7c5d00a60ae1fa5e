//! One name, one meaning.

use std::collections::BTreeMap;

use proc_macro2::TokenTree;

use crate::source::{is_word, tokens, walk};
use crate::tree::{self, File};

/// Names that several crates give to what is one thing seen from each of them, and why.
const SHARED: &[(&str, &str)] = &[];

#[test]
fn every_file_of_tests_is_in_its_program() {
    let files = tree::files(&[".rs"]);
    let mut broken = Vec::new();
    for program in files.iter().filter(|f| f.path.ends_with("/tests/all.rs")) {
        let folder = program.path.trim_end_matches("all.rs");
        // A program of its own is named there.
        let crate_file = tree::root().join(folder).join("../Cargo.toml");
        let crate_file = std::fs::read_to_string(crate_file).unwrap();
        let beside = files.iter().filter_map(|f| f.path.strip_prefix(folder));
        let names = beside.filter_map(|name| name.strip_suffix(".rs"));
        for name in names.filter(|name| *name != "all" && !name.contains('/')) {
            let is_named = crate_file.contains(&format!("[[test]]\nname = \"{name}\"\n"));
            if !is_named && !program.text.contains(&format!("mod {name};\n")) {
                broken.push(format!("{folder}{name}.rs: write `mod {name};` in all.rs"));
            }
        }
    }
    tree::none(&broken, "tests that nothing runs:");
}

#[test]
fn no_two_types_that_others_see_have_one_name() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for File { path, text } in tree::files(&[".rs"]) {
        if path.starts_with("crates/") && path.contains("/src/") {
            for (name, line) in seen(&path, &text) {
                places
                    .entry(name)
                    .or_default()
                    .push(format!("{path}:{line}"));
            }
        }
    }
    let mut broken: Vec<String> = SHARED
        .iter()
        .filter(|(name, _)| places.get(*name).is_none_or(|at| at.len() < 2))
        .map(|(name, _)| format!("{name} is the name of one type: take it off the list"))
        .collect();
    let excused = |name: &str| SHARED.iter().any(|(shared, _)| *shared == name);
    let several = places
        .iter()
        .filter(|(name, at)| at.len() > 1 && !excused(name));
    broken.extend(several.map(|(name, at)| format!("{name}: {}", at.join(", "))));
    tree::none(&broken, "types of one name:");
}

/// The types of a file that other files see, with their lines.
fn seen(path: &str, text: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    walk(tokens(path, text), &mut |place| {
        if !is_word(place.token, "pub") {
            return;
        }
        let after = match place.after.first() {
            Some(TokenTree::Group(_)) => &place.after[1..],
            _ => place.after,
        };
        let kinds = ["struct", "enum", "trait", "type", "union"];
        if let [kind, TokenTree::Ident(name), ..] = after
            && kinds.iter().any(|word| is_word(kind, word))
        {
            found.push((name.to_string(), place.line));
        }
    });
    found
}

#[test]
fn types_are_known_by_their_words() {
    let text =
        "pub struct A; pub(crate) enum B { C } struct D; pub fn e() {} mod m { pub type F = A; }";
    let names: Vec<String> = seen("here.rs", text)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, ["A", "B", "F"]);
}
