//! Every invariant of ARCHITECTURE.md has tests, which the comment above them names.

use std::fs;

use crate::{documents, tree};

/// The number of invariants: none goes by mistake.
const COUNT: usize = 11;
/// Beginnings of the line below a mark: a test, or a row of a table of tests.
const TESTS: &[&str] = &["#[test]", "target!(", "case(", "(\""];

#[test]
fn every_invariant_has_a_test_that_is_marked() {
    let page = fs::read_to_string(tree::root().join("ARCHITECTURE.md")).unwrap();
    let rows = documents::table(&page, "invariant");
    let mut broken = Vec::new();
    let mut marked = vec![0; rows.len()];
    for file in tree::files(&[".rs"]) {
        for (line, number, is_test) in marks(&file.text) {
            let place = format!("{}:{line}", file.path);
            if !is_test {
                broken.push(format!("{place}: no test is below the mark"));
            }
            match number.checked_sub(1).and_then(|row| marked.get_mut(row)) {
                Some(count) => *count += 1,
                None => broken.push(format!("{place}: there is no invariant {number}")),
            }
        }
    }
    for (number, (row, count)) in (1..).zip(rows.iter().zip(marked)) {
        if row[0] != number.to_string() {
            broken.push(format!("`{}` is not number {number}", row[0]));
        }
        if count == 0 {
            broken.push(format!("invariant {number} has no test"));
        }
    }
    if rows.len() != COUNT {
        broken.push(format!("there are {} invariants, not {COUNT}", rows.len()));
    }
    tree::none(&broken, "ARCHITECTURE.md, invariants:");
}

/// The marks `// Invariant N.` of a file: their lines, their numbers, and whether a test follows.
fn marks(text: &str) -> Vec<(usize, usize, bool)> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let number = line
            .strip_prefix("// Invariant ")
            .and_then(|rest| rest.strip_suffix('.')?.parse().ok());
        if let Some(number) = number {
            let below = lines.get(at + 1).copied().unwrap_or_default();
            let is_test = TESTS.iter().any(|start| below.starts_with(start));
            found.push((at + 1, number, is_test));
        }
    }
    found
}

#[test]
fn a_mark_belongs_to_the_test_below_it() {
    let text = "// Invariant 2.\n#[test]\nfn it() {}\n\n    // Invariant 11.\n    case(\"it\", it),\n\
        // Invariant 3.\nfn helper() {}\n// Invariant three.\n";
    assert_eq!(marks(text), [(1, 2, true), (5, 11, true), (7, 3, false)]);
}
