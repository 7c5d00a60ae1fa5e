//! What others published: read as runs, written in their layouts, and judged.

use std::fs;
use std::path::Path;

use crate::common::{Place, says};
use serde_json::Value;

const LAYOUTS: [&str; 2] = ["pa02-a", "pa02-b"];

fn published(layout: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("../../published/{layout}.csv"))
        .display()
        .to_string()
}

#[test]
fn a_published_table_is_a_run_that_can_be_shown_and_written_again() {
    for (layout, other) in [LAYOUTS, [LAYOUTS[1], LAYOUTS[0]]].map(|l| (l[0], l[1])) {
        let place = Place::new();
        let call = |words: &str| place.call(words).succeeded();
        let import = format!("import {} --layout {layout}", published(layout));
        says(&call(&import), &["48 cells"]);
        let id = place.id();
        let export = format!("export {id} --layout {layout}");
        let written = call(&export);
        let original = fs::read_to_string(published(layout)).unwrap();
        assert_eq!(written, original.replace("\r\n", "\n"));
        call(&format!("{export} --out again.csv"));
        let again = fs::read_to_string(place.path().join("again.csv")).unwrap();
        assert_eq!(again, written);
        says(&call("runs"), &[layout, "complete"]);
        call("report");
        let findings = place.json("findings.json");
        assert_eq!(findings["cells"].as_array().unwrap().len(), 48);
        let estimate = &findings["cells"][0]["estimates"]["throughput_gbit_per_s"];
        assert_eq!(
            (&estimate["trials"], &estimate["low"]),
            (&0.into(), &Value::Null)
        );
        assert!(place.run().join("report.html").is_file());
        // Nothing was measured, so that nothing can be held against it.
        place.refuses("audit", "=> no runs | bytecost run");
        let words = format!("export {id} --layout {other}");
        place.refuses(&words, "=> imported in layout");
    }
}

#[test]
fn runs_of_programs_are_read_and_written_again_in_their_own_columns() {
    let place = Place::new();
    let call = |words: String| place.call(words + " --layout os-features").succeeded();
    let export = |id: &str, out: &str| {
        call(format!("export {id} --out {out}"));
        fs::read_to_string(place.path().join(out)).unwrap()
    };
    let import = |file: &str| {
        let told = call(format!("import {file}"));
        says(&told, &["8 cells"]);
        told.split(':').next().unwrap().to_owned()
    };
    let first = import(&published("os-features"));
    let written = export(&first, "own.csv");
    assert!(written.starts_with("Run,Mode,Time_s\n1,sync_io,2.819\n"));
    assert_eq!(written.lines().count(), 25);
    let again = import("own.csv");
    assert_ne!(first, again);
    assert_eq!(export(&again, "again.csv"), written);
    let shown = place.call(format!("report {again}")).succeeded();
    says(&shown, &["sendfile-null", "16.1"]);
    fs::write(place.path().join("bad.csv"), "Run,Mode,Time_s\n1,sync,2\n").unwrap();
    place.refuses(
        "import bad.csv --layout os-features",
        "=> bad.csv | line 2: Mode: `sync` is not known",
    );
}

#[test]
fn bad_tables_are_one_line_and_leave_nothing() {
    let place = Place::new();
    let header = fs::read_to_string(published("pa02-a")).unwrap();
    let header = header.lines().next().unwrap();
    let check = |text: &[u8], says: &str| {
        fs::write(place.path().join("bad.csv"), text).unwrap();
        place.refuses(
            "import bad.csv --layout pa02-a",
            &format!("=> bad.csv | {says}"),
        );
    };
    check(b"", "line 1");
    for (row, says) in [
        ("A1,256,1,NaN,1,,,,", "line 2: throughput_gbps: `NaN`"),
        ("A1,256,1,1", "line 2: 4 values"),
        ("A1,256,999999,1,1,,,,", "line 2: threads"),
    ] {
        check(format!("{header}\n{row}\n").as_bytes(), says);
    }
    check(&[0xff, 0xfe, 0], "UTF-8");
    place.refuses(
        "import",
        "none.csv --layout pa02-a => none.csv
        bad.csv --layout pa03 => layout `pa03` | pa02-a, pa02-b, os-features",
    );
    assert!(!place.runs().exists());
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
    let call = |words: &str| place.call(words).succeeded();
    fs::write(place.path().join("claims.toml"), CLAIMS).unwrap();
    fs::write(place.path().join("blog.csv"), "send,sendfile\n10,15\n").unwrap();
    says(
        &call("audit --claims claims.toml"),
        &[
            "3 claims: 1 confirmed; 1 refuted; 1 undecided.",
            "own-table",
            "1.50 (15.0 / 10.0)",
            "✓ calls (blog): confirmed",
            "? elsewhere (post)",
        ],
    );
    let judged = call("audit --claims claims.toml --source blog --json");
    let judged: Value = serde_json::from_str(&judged).unwrap();
    let claims = judged["claims"].as_array().unwrap().iter();
    let rulings: Vec<&str> = claims.map(|c| c["ruling"].as_str().unwrap()).collect();
    assert_eq!(rulings, ["refuted", "confirmed"]);
    // The built-in claims against a run that hardly speaks to them: what their own files
    // contradict is told all the same.
    let text = call("audit");
    says(
        &text,
        &[
            "✗ b-headline-equals-data (pa02-b): refuted by its own table",
            "✗ s-pinned-never-migrates (servers): refuted by its own table",
            "✗ f-sixty-five-percent",
            "? o-smt-doubles",
            "Undecided, as these runs have no figures for them",
        ],
    );
    let id = place.id();
    place.refuses(
        "",
        &format!(
            "report {id} --beside {id} => --beside takes one that
            export {id} --layout pa02-a => no cell that layout pa02-a"
        ),
    );
    call(&format!("import {} --layout pa02-a", published("pa02-a")));
    // The newest run that measured is judged, not the table that was read after it.
    assert_eq!(call("audit"), text);
}

#[test]
fn bad_claims_are_told_with_line_and_column() {
    let place = Place::new();
    let check = |text: &str, says: &str| {
        fs::write(place.path().join("c.toml"), text).unwrap();
        place.refuses("audit --claims c.toml", &format!("=> {says}"));
    };
    check("[[claim", "c.toml: line 1, column");
    let kind = CLAIMS.replace("arithmetic\"\ntable", "vibes\"\ntable");
    check(&kind, "line 9, column 8 | kind `vibes`");
    let expectation = CLAIMS.replace("above 2", "lots");
    check(
        &expectation,
        "line 13, column 10 | `lots` is no expectation",
    );
    fs::write(place.path().join("blog.csv"), "send,sendfile\n10\n").unwrap();
    check(CLAIMS, "blog.csv: line 2 | 1 values");
    place.refuses(
        "audit",
        "--claims none.toml => none.toml
        --source nobody => `nobody` | pa02-a, pa02-b",
    );
}
