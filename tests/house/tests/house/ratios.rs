//! The one query: a ratio of two cells is taken in one module.

use crate::pure::{names, written};
use crate::tree;

/// The module that takes ratios of cells, over their paired blocks.
const RATIOS: &str = "crates/analysis/src/comparison.rs";

/// The statistics of paired blocks.
const PAIRED: &[&str] = &["tail_ratio", "tail_with_rounds", "mean_of_rounds"];

/// Files with another quotient than that of two cells, and of what.
const OTHERS: &[(&str, &str)] = &[
    (
        "crates/analysis/src/ceiling.rs",
        "a rate over that of another run, measured apart",
    ),
    (
        "crates/analysis/src/cells.rs",
        "the end of an interval over its value",
    ),
    (
        "crates/analysis/src/result/values.rs",
        "two groups of the trials of one cell",
    ),
    (
        "crates/report/src/comparisons.rs",
        "two estimates as a reader divides them, to name a ratio that contradicts them",
    ),
    (
        "crates/report/src/cpu_pairs.rs",
        "the times of the farthest and the nearest CPUs",
    ),
    ("crates/report/src/heat.rs", "a value on a scale of colours"),
    ("crates/report/src/scale.rs", "a value on an axis"),
];

/// The length of the operand that begins or ends at a place: names, numbers, dots and brackets.
fn operand(words: &[String], at: usize) -> usize {
    let mut depth = 0;
    let is_part = |word: &&String| {
        let opens = i32::from(*word == "(") - i32::from(*word == ")");
        let is_name = word.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        depth += opens;
        depth >= 0
            && (depth > 0 || opens != 0 || is_name || ["&", "*", ".", ":"].contains(&word.as_str()))
    };
    words[at..].iter().take_while(is_part).count()
}

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

/// The number of operators of that sign after words, before an operand that ends in the same words.
fn between(words: &[String], sign: &str, ends: &[&str]) -> usize {
    let ends: Vec<String> = ends.iter().map(|word| (*word).to_owned()).collect();
    let is_between = |at: &usize| {
        let right = &words[at + 1..][..operand(words, at + 1)];
        words[*at] == sign && words[..*at].ends_with(&ends) && right.ends_with(&ends)
    };
    (0..words.len()).filter(is_between).count()
}

/// The number of forms that a ratio of two estimates takes: the logarithm of a quotient, the difference of
/// two logarithms, the quotient of two values, and one over a ratio.
fn ratios(words: &[String]) -> usize {
    let turned = ["literal", "/", "ratio"].map(str::to_owned);
    logs_of_quotients(words)
        + between(words, "-", &[".", "ln", "(", ")"])
        + between(words, "/", &[".", "value"])
        + words.windows(3).filter(|three| *three == turned).count()
}

#[test]
fn one_module_takes_ratios_of_cells() {
    let files = tree::files(&[".rs"]).into_iter();
    let judging = ["analysis", "plan", "report"].map(|name| format!("crates/{name}/src/"));
    let judged = files.filter(|f| judging.iter().any(|start| f.path.starts_with(start)));
    let mut broken = Vec::new();
    let mut idle: Vec<&str> = OTHERS.iter().map(|(path, _)| *path).collect();
    for file in judged.filter(|f| f.path != RATIOS && !f.path.ends_with("tests.rs")) {
        let words = written(&file.path, &file.text);
        if PAIRED.iter().any(|name| names(&words, name)) {
            broken.push(format!("{} makes statistics of paired blocks", file.path));
        }
        if ratios(&words) == 0 {
            continue;
        }
        let is_known = idle.contains(&file.path.as_str());
        idle.retain(|path| *path != file.path);
        if !is_known {
            broken.push(format!("{} takes a ratio", file.path));
        }
    }
    broken.extend(
        idle.iter()
            .map(|path| format!("{path} takes no ratio: take it off")),
    );
    tree::none(
        &broken,
        &format!("ratios of cells are taken in {RATIOS} alone:"),
    );
}

#[test]
fn a_ratio_is_seen_in_each_of_its_forms() {
    let count = |text: &str| ratios(&written("a.rs", text));
    assert_eq!(count("fn f() { (above / below(cell)).ln() }"), 1);
    assert_eq!(count("fn f() { g(above).ln() / 2.0 + (a - b).ln() }"), 0);
    assert_eq!(count("fn f() { one.estimate.value / other(at).value }"), 1);
    assert_eq!(count("fn f() { one.value / other.trials as f64 }"), 0);
    assert_eq!(count("fn f() { one.value.ln() - other.value.ln() }"), 1);
    assert_eq!(count("fn f() { 1.0 / ratio }"), 1);
}
