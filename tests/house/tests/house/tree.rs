//! The files of the workspace.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders that are made, not written.
const MADE: &[&str] = &["target", "node_modules", "bytecost-runs"];

/// The root of the workspace.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("two levels down").to_owned()
}

/// A file and its text.
pub struct File {
    /// From the root, with `/` between.
    pub path: String,
    pub text: String,
}

/// All files whose names end so, in the order of their paths. Hidden folders and folders that
/// are made are left out.
pub fn files(endings: &[&str]) -> Vec<File> {
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                if !name.starts_with('.') && !is_made(&entry.path()) {
                    folders.push(entry.path());
                }
            } else if kind.is_file() && endings.iter().any(|e| name.ends_with(e)) {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "no file ends in {endings:?}");
    found
        .into_iter()
        .map(|path| File {
            text: fs::read_to_string(&path).unwrap(),
            path: path
                .strip_prefix(&root)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned(),
        })
        .collect()
}

/// Returns true if a folder is made by a tool; Cargo marks its own wherever it is.
pub fn is_made(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|n| n.to_str()).unwrap_or("");
    MADE.contains(&name) || folder.join("CACHEDIR.TAG").exists()
}

/// Fails with all that was found, a line each.
#[track_caller]
pub fn none(found: &[String], rule: &str) {
    assert!(found.is_empty(), "{rule}\n  {}\n", found.join("\n  "));
}
