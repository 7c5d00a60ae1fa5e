//! Every invariant of ARCHITECTURE.md names a few tests that exist; each of its tests is marked, so
//! that a command finds the others.

use std::fs;

use proc_macro2::{Delimiter, TokenTree};

use crate::source::{group, is_word, tokens, walk};
use crate::{documents, tree};

/// How many invariants there are.
const COUNT: usize = 11;
/// The most tests that a row names.
const MOST: usize = 3;

#[test]
fn every_invariant_has_a_test_that_exists() {
    let page = fs::read_to_string(tree::root().join("ARCHITECTURE.md")).unwrap();
    let rows = documents::table(&page, "invariant");
    let marks = marks();
    let mut broken = Vec::new();
    for (number, row) in (1..).zip(&rows) {
        if !row[0].starts_with(&format!("{number}. ")) {
            broken.push(format!("`{}` is not number {number}", row[0]));
        }
        let tests: Vec<&str> = row[1].split("; ").filter(|t| !t.is_empty()).collect();
        if tests.is_empty() || tests.len() > MOST {
            broken.push(format!("invariant {number} names {} tests", tests.len()));
        }
        broken.extend(tests.iter().filter_map(|t| missing(t)));
        let marked = marks.iter().filter(|of| **of == number).count();
        if marked < tests.len() {
            broken.push(format!(
                "not every test of it has the mark `Invariant {number}.`"
            ));
        }
    }
    let known = 1..=rows.len();
    let strange = marks.iter().filter(|of| !known.contains(of));
    broken.extend(strange.map(|of| format!("a test is marked for invariant {of}")));
    if rows.len() != COUNT {
        broken.push(format!("there are {} invariants, not {COUNT}", rows.len()));
    }
    tree::none(&broken, "ARCHITECTURE.md, invariants:");
}

/// The numbers of all marks of tests, as `grep -rn "// Invariant"` finds them.
fn marks() -> Vec<usize> {
    let of = |line: &str| {
        let number = line.trim().strip_prefix("// Invariant ")?;
        number.strip_suffix('.')?.parse().ok()
    };
    let files = tree::files(&[".rs"]);
    let lines = files.iter().flat_map(|file| file.text.lines());
    lines.filter_map(of).collect()
}

/// What is wrong with `path: name of a test`.
fn missing(test: &str) -> Option<String> {
    let Some((path, name)) = test.split_once(": ") else {
        return Some(format!("`{test}` is not `path: test`"));
    };
    let Ok(text) = fs::read_to_string(tree::root().join(path)) else {
        return Some(format!("there is no {path}"));
    };
    (!has_test(path, &text, name)).then(|| format!("{path} has no test `{name}`"))
}

/// Whether a file has a test of that name: a function marked `#[test]`, or the name of a trial
/// or of a browser test as a string.
fn has_test(path: &str, text: &str, name: &str) -> bool {
    if !path.ends_with(".rs") {
        return [
            format!("'{name}'"),
            format!("\"{name}\""),
            format!("`{name}`"),
        ]
        .iter()
        .any(|quoted| text.contains(quoted));
    }
    let mut found = false;
    let mut marked = false; // a #[test] was passed since the last body
    walk(tokens(path, text), &mut |place| match place.token {
        TokenTree::Group(g) if g.delimiter() == Delimiter::Bracket => {
            marked |= g.stream().to_string() == "test";
        }
        TokenTree::Ident(ident) if ident == "fn" => {
            found |= marked && place.after.first().is_some_and(|t| is_word(t, name));
            marked = false;
        }
        TokenTree::Ident(ident) if ident == "target" => {
            let call = group(place.after.get(1), Delimiter::Parenthesis);
            let first = call.and_then(|g| g.stream().into_iter().next());
            found |= first.is_some_and(|t| is_word(&t, name));
        }
        TokenTree::Literal(literal) => found |= literal.to_string() == format!("\"{name}\""),
        _ => {}
    });
    found
}

#[test]
fn a_test_is_known_by_its_mark() {
    for (text, found) in [
        ("#[test] fn it_holds() {}", true),
        ("#[test]\n/// Why.\nfn it_holds() {}", true),
        ("fn it_holds() {}", false),
        ("#[test] fn other() { fn it_holds() {} }", false),
        ("// #[test] fn it_holds() {}", false),
        ("proptest! { #[test] fn it_holds(x in 0..3) {} }", true),
        ("target!(it_holds, 10, check);", true),
        ("fn main() { Trial::test(\"it_holds\", f) }", true),
    ] {
        assert_eq!(has_test("here.rs", text, "it_holds"), found, "{text}");
    }
    assert!(has_test(
        "page.mjs",
        "test('it_holds', () => {})",
        "it_holds"
    ));
    assert!(!has_test("page.mjs", "// it_holds", "it_holds"));
}
