//! The one query: a ratio of two cells is taken in one module.

use crate::pure::{names, written};
use crate::tree;

/// The module that takes ratios of cells, over their paired blocks.
const RATIOS: &str = "crates/analysis/src/contrast.rs";

/// The statistics of paired blocks.
const PAIRED: &[&str] = &["tail_ratio", "tail_with_rounds", "mean_of_rounds"];

/// Files with the logarithm of another quotient, and of what.
const OTHERS: &[(&str, &str)] = &[
    (
        "crates/analysis/src/causes.rs",
        "two means of evidence for one difference",
    ),
    (
        "crates/analysis/src/ceiling.rs",
        "the end of an interval over its value",
    ),
    (
        "crates/analysis/src/cells.rs",
        "the end of an interval over its value",
    ),
    (
        "crates/report/src/comparisons.rs",
        "a ratio over the quotient of two estimates",
    ),
    ("crates/report/src/heat.rs", "a value on a scale of colours"),
    ("crates/report/src/scale.rs", "a value on an axis"),
];

/// The number of logarithms of quotients in brackets.
fn logs_of_quotients(words: &[String]) -> usize {
    let is_log = |at: &usize| words[*at..].starts_with(&[")", ".", "ln"].map(str::to_owned));
    let is_quotient = |end: &usize| {
        let mut depth = 0;
        let mut inner = words[..=*end].iter().rev().take_while(|word| {
            depth += i32::from(*word == ")") - i32::from(*word == "(");
            depth > 0
        });
        inner.any(|word| word == "/")
    };
    (0..words.len()).filter(is_log).filter(is_quotient).count()
}

#[test]
fn one_module_takes_ratios_of_cells() {
    let files = tree::files(&[".rs"]).into_iter();
    let judging = ["analysis", "plan", "report"].map(|name| format!("crates/{name}/src/"));
    let judged = files.filter(|f| judging.iter().any(|start| f.path.starts_with(start)));
    let mut broken = Vec::new();
    for file in judged.filter(|f| f.path != RATIOS && !f.path.ends_with("tests.rs")) {
        let words = written(&file.path, &file.text);
        if PAIRED.iter().any(|name| names(&words, name)) {
            broken.push(format!("{} makes statistics of paired blocks", file.path));
        }
        let is_known = OTHERS.iter().any(|(path, _)| *path == file.path);
        if !is_known && logs_of_quotients(&words) > 0 {
            broken.push(format!("{} takes the logarithm of a quotient", file.path));
        }
    }
    tree::none(
        &broken,
        &format!("ratios of cells are taken in {RATIOS} alone:"),
    );
}

#[test]
fn a_logarithm_of_a_quotient_is_seen() {
    let count = |text: &str| logs_of_quotients(&written("a.rs", text));
    assert_eq!(count("fn f() { (above / below(cell)).ln() }"), 1);
    assert_eq!(count("fn f() { g(above).ln() / 2.0 + (a - b).ln() }"), 0);
}
