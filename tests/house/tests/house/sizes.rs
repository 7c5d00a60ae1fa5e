//! How long a function may be. A file holds one noun, however long; `make size` names the long ones.

use crate::source::functions;
use crate::tree::{self, File};

/// Most lines of a function that fits a screen. The aim is 70.
const MOST_FUNCTION_LINES: usize = 90;

/// Functions that may be longer, and why.
const LONG_FUNCTIONS: &[(&str, &str, &str)] = &[];

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
