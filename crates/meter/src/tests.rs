//! Helpers for the tests of several meters.

use std::fs;
use std::path::Path;

use bytecost_sys::clock;
use tempfile::TempDir;

pub(crate) fn tree(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, content) in files {
        put(root.path(), path, content);
    }
    root
}

pub(crate) fn put(root: &Path, path: &str, content: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Works until the calling thread has used so much more CPU time.
pub(crate) fn spin(cpu_ns: u64) {
    let end = clock::thread_cpu_ns() + cpu_ns;
    while clock::thread_cpu_ns() < end {}
}
