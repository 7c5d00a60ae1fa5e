//! `unsafe` is in `crates/sys` alone, and says each time why it is sound.

use crate::source::{is_word, tokens, walk};
use crate::tree::{self, File};

const HOME: &str = "crates/sys/";

// Invariant 1.
#[test]
fn unsafe_code_is_in_sys_alone() {
    let mut broken = Vec::new();
    for File { path, text } in tree::files(&[".rs"]) {
        if path.starts_with(HOME) {
            continue;
        }
        walk(tokens(&path, &text), &mut |place| {
            if is_word(place.token, "unsafe") || is_word(place.token, "unsafe_code") {
                broken.push(format!("{path}:{}", place.line));
            }
        });
    }
    tree::none(&broken, "unsafe code outside of crates/sys:");
}

// Invariant 1.
#[test]
fn every_unsafe_block_says_why_it_is_sound() {
    let mut broken = Vec::new();
    let mut seen = 0;
    for File { path, text } in tree::files(&[".rs"]) {
        if path.starts_with(HOME) {
            for line in unsafe_lines(&path, &text) {
                seen += 1;
                if !has_reason(&text, line) {
                    broken.push(format!("{path}:{line}: write `// SAFETY:` above it"));
                }
            }
        }
    }
    tree::none(&broken, "unsafe code without its reason:");
    assert!(seen > 0, "sys has unsafe code; was it looked at?");
}

fn unsafe_lines(path: &str, text: &str) -> Vec<usize> {
    let mut lines = Vec::new();
    walk(tokens(path, text), &mut |place| {
        if is_word(place.token, "unsafe") {
            lines.push(place.line);
        }
    });
    lines
}

/// Returns true if the comment directly above the statement that this line belongs to has a reason.
fn has_reason(text: &str, line: usize) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut at = line - 1;
    while at > 0 && lines[at - 1].ends_with(['=', '(', ',']) && !lines[at - 1].starts_with("//") {
        at -= 1; // the statement began on an earlier line
    }
    let comment = lines[..at]
        .iter()
        .rev()
        .take_while(|l| l.starts_with("//") || l.starts_with("#["));
    comment
        .into_iter()
        .any(|l| l.starts_with("// SAFETY: ") || l.starts_with("/// # Safety"))
}

#[test]
fn a_reason_stands_directly_above() {
    for (text, has) in [
        ("// SAFETY: it is.\nunsafe {}", true),
        (
            "// SAFETY: it is,\n// truly.\nlet x =\n    unsafe {};",
            true,
        ),
        ("// SAFETY: it is.\nlet y = 1;\nlet x = unsafe {};", false),
        ("// safe enough\nunsafe {}", false),
        ("// SAFETY: it is.\n\nunsafe {}", false),
        ("unsafe {} // SAFETY: too late", false),
    ] {
        let line = unsafe_lines("here", text)[0];
        assert_eq!(has_reason(text, line), has, "{text}");
    }
}
