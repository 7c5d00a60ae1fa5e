//! What others published: read as runs, written in their layouts, and judged.

mod common;

use std::fs;
use std::path::Path;

use common::{Place, refused, stderr, stdout};

const LAYOUTS: [&str; 2] = ["pa02-a", "pa02-b"];

fn published(layout: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("../../published/{layout}.csv"))
        .display()
        .to_string()
}

fn succeeds(place: &Place, words: &[&str]) -> String {
    let output = place.call(words);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{words:?}: {}",
        stderr(&output)
    );
    stdout(&output)
}

#[test]
fn a_published_table_is_a_run_that_can_be_shown_and_written_again() {
    for layout in LAYOUTS {
        let place = Place::new();
        let told = succeeds(&place, &["import", &published(layout), "--layout", layout]);
        assert!(told.contains("48 cells"), "{told}");
        let dir = place.run_dir();
        let id = dir.file_name().unwrap().to_str().unwrap();
        let written = succeeds(&place, &["export", id, "--layout", layout]);
        let original = fs::read_to_string(published(layout)).unwrap();
        assert_eq!(written, original.replace("\r\n", "\n"));
        succeeds(
            &place,
            &["export", id, "--layout", layout, "--out", "again.csv"],
        );
        assert_eq!(
            fs::read_to_string(place.path().join("again.csv")).unwrap(),
            written
        );
        let runs = succeeds(&place, &["runs"]);
        assert!(runs.contains(layout) && runs.contains("complete"), "{runs}");
        succeeds(&place, &["report"]);
        let text = fs::read_to_string(dir.join("findings.json")).unwrap();
        let findings: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(findings["cells"].as_array().unwrap().len(), 48);
        let estimate = &findings["cells"][0]["estimates"]["throughput_gbit_per_s"];
        assert_eq!(
            (&estimate["trials"], &estimate["low"]),
            (&0.into(), &serde_json::Value::Null)
        );
        assert!(dir.join("report.html").is_file());
        // Nothing was measured, so that nothing can be held against it.
        refused(&place.call(&["audit"]), &["no runs", "bytecost run"]);
        let other = LAYOUTS.into_iter().find(|l| *l != layout).unwrap();
        refused(
            &place.call(&["export", id, "--layout", other]),
            &["imported in layout"],
        );
    }
}

#[test]
fn runs_of_programs_are_read_and_written_again_in_their_own_columns() {
    let place = Place::new();
    let layout = "os-features";
    let export = |id: &str, out: &str| {
        succeeds(&place, &["export", id, "--layout", layout, "--out", out]);
        fs::read_to_string(place.path().join(out)).unwrap()
    };
    let import = |file: &str| {
        let told = succeeds(&place, &["import", file, "--layout", layout]);
        assert!(told.contains("8 cells"), "{told}");
        told.split(':').next().unwrap().to_owned()
    };
    let first = import(&published(layout));
    let written = export(&first, "own.csv");
    assert!(written.starts_with("Run,Mode,Time_s\n1,sync_io,2.819\n"));
    assert_eq!(written.lines().count(), 25);
    let again = import("own.csv");
    assert_ne!(first, again);
    assert_eq!(export(&again, "again.csv"), written);
    let shown = succeeds(&place, &["report", &again]);
    assert!(
        shown.contains("sendfile-null") && shown.contains("16.1"),
        "{shown}"
    );
    fs::write(place.path().join("bad.csv"), "Run,Mode,Time_s\n1,sync,2\n").unwrap();
    refused(
        &place.call(&["import", "bad.csv", "--layout", layout]),
        &["bad.csv", "line 2: Mode: `sync` is not known"],
    );
}

#[test]
fn bad_tables_are_one_line_and_leave_nothing() {
    let place = Place::new();
    let file = place.path().join("bad.csv");
    let header = fs::read_to_string(published("pa02-a")).unwrap();
    let header = header.lines().next().unwrap();
    for (text, says) in [
        (String::new(), "line 1"),
        (
            format!("{header}\nA1,256,1,NaN,1,,,,\n"),
            "line 2: throughput_gbps: `NaN`",
        ),
        (format!("{header}\nA1,256,1,1\n"), "line 2: 4 values"),
        (
            format!("{header}\nA1,256,999999,1,1,,,,\n"),
            "line 2: threads",
        ),
    ] {
        fs::write(&file, text).unwrap();
        refused(
            &place.call(&["import", "bad.csv", "--layout", "pa02-a"]),
            &["bad.csv", says],
        );
    }
    fs::write(&file, [0xff, 0xfe, 0]).unwrap();
    refused(
        &place.call(&["import", "bad.csv", "--layout", "pa02-a"]),
        &["bad.csv"],
    );
    refused(
        &place.call(&["import", "none.csv", "--layout", "pa02-a"]),
        &["none.csv"],
    );
    refused(
        &place.call(&["import", "bad.csv", "--layout", "pa03"]),
        &["layout `pa03`", "pa02-a, pa02-b, os-features"],
    );
    assert!(!place.path().join("bytecost-runs").exists());
}

const CLAIMS: &str = r#"
[[claim]]
id = "own-table"
source = "blog"
claim = "sendfile is twice as fast"
settled_by = "arithmetic"

[[claim.test]]
kind = "arithmetic"
table = "blog"
column = "sendfile"
other = { column = "send" }
expect = "above 2"

[[claim]]
id = "calls"
source = "blog"
claim = "send is one call a message at least"
settled_by = "counting"

[[claim.test]]
kind = "level"
metric = "sender_calls_per_message"
where = { mover = ["send"] }
expect = "above 0.5"

[[claim]]
id = "elsewhere"
source = "post"
claim = "servers differ"
settled_by = "another study"

[[claim.test]]
kind = "not-in-this-run"
study = "servers"
why = "clients and servers"
"#;

#[test]
fn claims_are_judged_with_a_ruling_each() {
    let place = Place::with_run();
    fs::write(place.path().join("claims.toml"), CLAIMS).unwrap();
    fs::write(place.path().join("blog.csv"), "send,sendfile\n10,15\n").unwrap();
    let text = succeeds(&place, &["audit", "--claims", "claims.toml"]);
    for says in [
        "3 claims: 1 confirmed; 1 refuted; 1 undecided.",
        "own-table",
        "1.50 (15.0 / 10.0)",
        "✓ calls (blog): confirmed",
        "? elsewhere (post)",
    ] {
        assert!(text.contains(says), "{says}\n{text}");
    }
    let words = [
        "audit",
        "--claims",
        "claims.toml",
        "--source",
        "blog",
        "--json",
    ];
    let value: serde_json::Value = serde_json::from_str(&succeeds(&place, &words)).unwrap();
    let rulings: Vec<&str> = value["claims"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["ruling"].as_str().unwrap())
        .collect();
    assert_eq!(rulings, ["refuted", "confirmed"]);
    // The built-in claims against a run that hardly speaks to them: what their own files
    // contradict is told all the same.
    let text = succeeds(&place, &["audit"]);
    for says in [
        "✗ b-headline-equals-data (pa02-b): refuted by its own table",
        "✗ s-pinned-never-migrates (servers): refuted by its own table",
        "✗ f-sixty-five-percent",
        "? o-smt-doubles",
        "Undecided, as these runs have no figures for them",
    ] {
        assert!(text.contains(says), "{says}\n{text}");
    }
    let dir = place.run_dir();
    let id = dir.file_name().unwrap().to_str().unwrap();
    refused(
        &place.call(&["report", id, "--beside", id]),
        &["--beside takes one that"],
    );
    refused(
        &place.call(&["export", id, "--layout", "pa02-a"]),
        &["no cell that layout pa02-a"],
    );
    succeeds(
        &place,
        &["import", &published("pa02-a"), "--layout", "pa02-a"],
    );
    // The newest run that measured is judged, not the table that was read after it.
    assert_eq!(succeeds(&place, &["audit"]), text);
}

#[test]
fn bad_claims_are_told_with_line_and_column() {
    let place = Place::new();
    let check = |text: &str, says: &[&str]| {
        fs::write(place.path().join("c.toml"), text).unwrap();
        refused(&place.call(&["audit", "--claims", "c.toml"]), says);
    };
    check("[[claim", &["c.toml: line 1, column"]);
    check(
        &CLAIMS.replace("arithmetic\"\ntable", "vibes\"\ntable"),
        &["line 9, column 8", "kind `vibes`"],
    );
    check(
        &CLAIMS.replace("above 2", "lots"),
        &["line 13, column 10", "`lots` is no expectation"],
    );
    fs::write(place.path().join("blog.csv"), "send,sendfile\n10\n").unwrap();
    check(CLAIMS, &["blog.csv: line 2", "1 values"]);
    refused(
        &place.call(&["audit", "--claims", "none.toml"]),
        &["none.toml"],
    );
    refused(
        &place.call(&["audit", "--source", "nobody"]),
        &["`nobody`", "pa02-a, pa02-b"],
    );
}
