//! Invented machines for the unit tests.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::Roots;

/// A directory with these files, by their paths below it.
pub(crate) fn machine(files: &[(&str, &str)]) -> (TempDir, Roots) {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in files {
        put(dir.path(), path, text);
    }
    let roots = Roots::under(dir.path());
    (dir, roots)
}

/// Writes a file of such a machine.
pub(crate) fn put(machine: &Path, path: &str, text: &str) {
    let path = machine.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}
