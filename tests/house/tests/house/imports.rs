//! Imports between crates: the table of ARCHITECTURE.md, compared with `cargo metadata`.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use crate::tree;

/// A crate and the crates of this workspace that it may depend on, for tests and builds too.
const TABLE: &[(&str, &[&str])] = &[
    ("spec", &[]),
    ("sys", &[]),
    ("stats", &[]),
    ("host", &["spec", "sys"]),
    ("engine", &["spec", "sys", "host"]),
    ("meter", &["spec", "sys"]),
    ("plan", &["spec", "stats", "host"]),
    ("evidence", &["spec", "sys"]),
    (
        "lab",
        &["spec", "sys", "host", "plan", "engine", "evidence", "meter"],
    ),
    ("store", &["spec"]),
    ("analysis", &["spec", "stats"]),
    ("report", &["spec", "analysis"]),
    ("bytecost", ALL),
    ("benches", ALL),
    (
        "fuzz",
        &["spec", "plan", "lab", "store", "analysis", "report"],
    ),
    ("house", &[]),
    ("kernels", &[]),
];

const ALL: &[&str] = &[
    "spec", "sys", "stats", "host", "engine", "meter", "evidence", "plan", "lab", "store",
    "analysis", "report",
];

/// Crates that the tests of a crate import beside that: those of the analysis read its explanations in words,
/// as users do.
const TESTS: &[(&str, &str)] = &[("analysis", "report")];

/// Crates from elsewhere that a crate must not have outside its tests: what would let it do
/// what its place in the house forbids.
const NEVER: &[(&[&str], &[&str])] = &[
    (PURE, SYSTEM),
    (PURE, CLOCKS),
    (&["engine"], CLOCKS),
    (
        &["sys", "engine", "meter", "evidence", "lab"],
        &["anyhow", "clap", "comfy-table", "indicatif"],
    ),
];

/// Crates that give the same output for the same input.
pub const PURE: &[&str] = &["spec", "stats", "plan", "analysis", "report"];
const SYSTEM: &[&str] = &[
    "libc",
    "rustix",
    "io-uring",
    "tempfile",
    "signal-hook",
    "getrandom",
    "rand",
];
const CLOCKS: &[&str] = &["time", "chrono", "jiff", "quanta"];

/// The packages of the workspace, as Cargo sees them.
pub fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(tree::root())
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// The short name of a crate of ours: `bytecost-spec` is `spec`.
pub fn short(name: &str) -> &str {
    name.strip_prefix("bytecost-").unwrap_or(name)
}

/// Dependencies of a package that `keep` wants, by name.
fn dependencies(package: &Value, keep: impl Fn(&Value) -> bool) -> BTreeSet<String> {
    let list = package["dependencies"].as_array().unwrap();
    list.iter()
        .filter(|d| keep(d))
        .map(|d| d["name"].as_str().unwrap().to_owned())
        .collect()
}

fn is_ours(dependency: &Value) -> bool {
    dependency["path"].is_string()
}

// Invariant 2.
#[test]
fn every_crate_imports_only_what_the_table_allows() {
    let mut broken = Vec::new();
    let packages = packages();
    for package in &packages {
        let name = short(package["name"].as_str().unwrap());
        let Some((_, may)) = TABLE.iter().find(|(row, _)| *row == name) else {
            broken.push(format!("{name} has no row in the table"));
            continue;
        };
        let is_of_tests = |d: &Value| {
            let import = short(d["name"].as_str().unwrap());
            d["kind"] == "dev" && TESTS.contains(&(name, import))
        };
        for import in dependencies(package, |d| is_ours(d) && !is_of_tests(d)) {
            // A crate has itself with another feature for its tests.
            if short(&import) != name && !may.contains(&short(&import)) {
                broken.push(format!("{name} imports {}", short(&import)));
            }
        }
    }
    for (row, _) in TABLE {
        if !packages
            .iter()
            .any(|p| short(p["name"].as_str().unwrap()) == *row)
        {
            broken.push(format!("{row} has a row in the table and is no crate"));
        }
    }
    tree::none(&broken, "imports that the table does not allow:");
}

#[test]
fn no_crate_brings_what_its_place_forbids() {
    let mut broken = Vec::new();
    for package in packages() {
        let name = short(package["name"].as_str().unwrap());
        let brings = dependencies(&package, |d| d["kind"] != "dev");
        for (crates, never) in NEVER {
            for found in never
                .iter()
                .filter(|n| crates.contains(&name) && brings.contains(**n))
            {
                broken.push(format!("{name} brings {found}"));
            }
        }
    }
    tree::none(&broken, "crates from elsewhere that have no place here:");
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let mut broken = Vec::new();
    for package in packages() {
        let path = package["manifest_path"].as_str().unwrap();
        let manifest: toml::Table = std::fs::read_to_string(path).unwrap().parse().unwrap();
        let inherits = manifest.get("lints").and_then(|l| l.get("workspace"));
        if inherits.and_then(toml::Value::as_bool) != Some(true) {
            broken.push(format!("{path}: write [lints] workspace = true"));
        }
    }
    tree::none(&broken, "crates with lints of their own:");
}

/// The table in ARCHITECTURE.md says the same as the one above.
#[test]
fn the_table_of_the_architecture_is_this_table() {
    let page = std::fs::read_to_string(tree::root().join("ARCHITECTURE.md")).unwrap();
    let rows = crate::documents::table(&page, "crate");
    let mut broken = Vec::new();
    for (name, may) in TABLE.iter().filter(|(name, _)| ALL.contains(name)) {
        let Some(row) = rows.iter().find(|row| row[0] == *name) else {
            broken.push(format!("{name} has no row"));
            continue;
        };
        let said: Vec<&str> = row[2].split(", ").filter(|w| *w != "–").collect();
        if said != *may {
            broken.push(format!("{name}: the page says {said:?}, the test {may:?}"));
        }
    }
    tree::none(
        &broken,
        "ARCHITECTURE.md and tests/house/tests/house/imports.rs differ:",
    );
}
