//! How long a file and a function may be.

use crate::source::functions;
use crate::tree::{self, File};

/// Most lines of a file that is read in one sitting. The aim is 400.
const MOST_LINES: usize = 450;
/// Most lines of a function that fits a screen. The aim is 70.
const MOST_FUNCTION_LINES: usize = 90;

/// Kinds of files that people write.
const WRITTEN: &[&str] = &[
    ".rs", ".md", ".html", ".css", ".js", ".mjs", ".sh", "Makefile",
];

/// Files that may be longer, and why.
const LONG_FILES: &[(&str, &str)] = &[];

/// Functions that may be longer, and why.
const LONG_FUNCTIONS: &[(&str, &str, &str)] = &[];

#[test]
fn every_file_can_be_read_in_one_sitting() {
    let mut broken = Vec::new();
    let files = tree::files(WRITTEN);
    for File { path, text } in &files {
        let lines = text.lines().count();
        let excused = LONG_FILES.iter().any(|(file, _)| file == path);
        if lines > MOST_LINES && !excused {
            broken.push(format!(
                "{path} has {lines} lines: move a noun of it to a file of its own"
            ));
        }
    }
    for (path, _) in LONG_FILES {
        let file = files.iter().find(|f| f.path == *path);
        if file.is_none_or(|f| f.text.lines().count() <= MOST_LINES) {
            broken.push(format!(
                "{path} is no longer too long: take it off the list"
            ));
        }
    }
    tree::none(&broken, &format!("files of more than {MOST_LINES} lines:"));
}

#[test]
fn every_function_fits_a_screen() {
    let mut broken = Vec::new();
    let mut long = Vec::new();
    for File { path, text } in tree::files(&[".rs"]) {
        for f in functions(&path, &text) {
            if f.lines <= MOST_FUNCTION_LINES {
                continue;
            }
            let excused = LONG_FUNCTIONS
                .iter()
                .find(|(file, name, _)| *file == path && *name == f.name);
            match excused {
                Some(row) => long.push(row),
                None => broken.push(format!(
                    "{path}:{} {} has {} lines",
                    f.line, f.name, f.lines
                )),
            }
        }
    }
    for row in LONG_FUNCTIONS.iter().filter(|row| !long.contains(row)) {
        broken.push(format!(
            "{}: {} is no longer too long: take it off the list",
            row.0, row.1
        ));
    }
    tree::none(
        &broken,
        &format!("functions of more than {MOST_FUNCTION_LINES} lines:"),
    );
}
