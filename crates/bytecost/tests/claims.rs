//! What others published: read as runs, written in their layouts, and judged.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::common::{Place, says};

fn published(layout: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("../../published/{layout}.csv"))
        .display()
        .to_string()
}

#[test]
fn a_published_table_is_a_run_that_can_be_shown_and_written_again() {
    for (layout, other) in [("pa02-a", "pa02-b"), ("pa02-b", "pa02-a")] {
        let place = Place::new();
        let call = |words: &str| place.call(words).succeeded();
        let import = format!("import {} --layout {layout}", published(layout));
        says(&call(&import), &["48 cells"]);
        let id = place.id();
        let export = format!("export {id} --layout {layout}");
        let written = call(&export);
        let original = fs::read_to_string(published(layout)).unwrap();
        assert_eq!(written, original.replace("\r\n", "\n"));
        let [again, before, link] =
            ["again.csv", "before.csv", "link"].map(|name| place.path().join(name));
        fs::write(&before, "old").unwrap();
        fs::hard_link(&before, &again).unwrap();
        call(&format!("{export} --out again.csv"));
        assert_eq!(fs::read_to_string(again).unwrap(), written);
        assert_eq!(fs::read(before).unwrap(), b"old", "not whole or not at all");
        symlink("/dev/stdout", link).unwrap();
        assert_eq!(call(&format!("{export} --out link")), written);
        place.refuses(
            &export,
            "--out nowhere/a.csv => nowhere\n--out . => . | cannot write",
        );
        says(&call("runs"), &[layout, "complete"]);
        call("report");
        assert_eq!(place.findings().cells.len(), 48);
        // Nothing was measured: published tables are compared with themselves alone.
        says(&call("audit"), &["No cells with", "`bytecost run pa02-a`"]);
        let words = format!("export {id} --layout {other}");
        place.refuses(&words, "=> imported in layout");
    }
}

#[test]
fn published_numbers_stand_beside_those_of_a_run() {
    let place = Place::recorded(&["file-read"]);
    place.call("report --beside os-features").measured();
    says(
        &place.read("report.md"),
        &[
            "of the 8 cells that os-features published have a counterpart",
            "seconds of a whole program",
        ],
    );
    place.refuses(
        "",
        "report --beside pa02-a => no cell that pa02-a published
        report --beside file-read => --beside takes one that
        export file-read --layout pa02-a => no cell that layout pa02-a",
    );
}

#[test]
fn bad_tables_are_one_line_and_leave_nothing() {
    let place = Place::new();
    fs::write(place.path().join("empty.csv"), []).unwrap();
    fs::write(place.path().join("bad.csv"), [0xff, 0xfe, 0]).unwrap();
    place.refuses(
        "import",
        "none.csv --layout pa02-a => none.csv
        empty.csv --layout pa02-a => empty.csv: line 1
        bad.csv --layout pa02-a => bad.csv | UTF-8
        /dev/zero --layout pa02-a => /dev/zero: this is no regular file, but a device
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
source = "post"
claim = "send is one call a message at least"
settled_by = "counting"

[[claim.test]]
kind = "level"
metric = "sender_calls_per_message"
where = { mover = ["send"] }
expect = "above 0.5"
"#;

#[test]
fn claims_are_judged_with_a_ruling_each() {
    let place = Place::recorded(&["send-copies"]);
    let call = |words: &str| place.call(words).succeeded();
    fs::write(place.path().join("claims.toml"), CLAIMS).unwrap();
    fs::write(place.path().join("blog.csv"), "send,sendfile\n10,15\n").unwrap();
    says(
        &call("audit --claims claims.toml"),
        &[
            "2 claims: 1 confirmed; 1 refuted.",
            "own-table",
            "1.50 (15.0 / 10.0)",
            "✓ calls (post): confirmed",
        ],
    );
    let judged = place.call("audit --claims claims.toml --source blog --json");
    let judged = judged.json();
    let claims = judged["claims"].as_array().unwrap();
    assert_eq!((claims.len(), &claims[0]["ruling"]), (1, &"refuted".into()));
    let text = call("audit");
    call(&format!("import {} --layout pa02-a", published("pa02-a")));
    // The newest run that measured is judged, not the table that was read after it.
    assert_eq!(call("audit"), text);
}

#[test]
fn calculations_on_tables_take_no_run_and_tables_may_lie_in_a_directory_below() {
    let place = Place::new();
    let below = place.path().join("data/2024");
    fs::create_dir_all(&below).unwrap();
    fs::write(below.join("blog.csv"), "send,sendfile\n10,25\n").unwrap();
    let claims = CLAIMS.replace("\"blog\"\ncol", "\"data/2024/blog\"\ncol");
    fs::write(place.path().join("c.toml"), claims).unwrap();
    let judged = place.call("audit --claims c.toml").succeeded();
    says(
        &judged,
        &[
            "✓ own-table (blog): confirmed",
            "is above 2: 2.50",
            "No cells with mover send were measured",
        ],
    );
    let judged = place.call("audit --claims c.toml --json").json();
    assert!(judged["claims"][0]["run"].is_null());
    place.refuses(
        "audit --claims c.toml",
        "--source post => no runs | bytecost run",
    );
    // No name and no link leads out of the directory.
    let outside = place.path().join("claims");
    fs::create_dir(&outside).unwrap();
    symlink(place.path().join("data"), outside.join("link")).unwrap();
    for name in ["../data/2024/blog", "link/2024/blog"] {
        let claims = CLAIMS.replace("\"blog\"\ncol", &format!("\"{name}\"\ncol"));
        fs::write(outside.join("c.toml"), claims).unwrap();
        place.refuses(
            "audit --claims claims/c.toml",
            &format!("=> there is no table `{name}`"),
        );
    }
}

#[test]
fn a_mistyped_name_of_a_claim_is_refused_with_the_one_that_is_near() {
    let place = Place::new();
    fs::write(
        place.path().join("blog.csv"),
        "mode,send,sendfile\nfast,10,25\n",
    )
    .unwrap();
    for (right, wrong, says) in [
        (
            "[\"send\"]",
            "[\"sned\"]",
            "mover `sned` | did you mean `send`?",
        ),
        (
            "column = \"sendfile\"",
            "column = \"sendfil\"",
            "`sendfil` | did you mean `sendfile`?",
        ),
        (
            "\"send\" }",
            "\"send\", rows = { mode = \"fats\" } }",
            "`fats` | did you mean `fast`?",
        ),
        (
            "table = \"blog\"",
            "table = \"blgo\"",
            "no table `blgo` | put blgo.csv",
        ),
        (
            "kind = \"level\"\nmetric = \"sender_calls_per_message\"",
            "kind = \"stall\"\ncaveat = \"nagle-stal\"",
            "caveat `nagle-stal` | did you mean `nagle-stall`?",
        ),
    ] {
        let claims = CLAIMS
            .replace(right, wrong)
            .replace("\nexpect = \"above 0.5\"", "");
        assert!(claims.contains(wrong), "{wrong}");
        let claims = match wrong.contains("stall") {
            true => claims,
            false => CLAIMS.replace(right, wrong),
        };
        fs::write(place.path().join("c.toml"), claims).unwrap();
        place.refuses(
            "audit --claims c.toml",
            &format!("=> c.toml: line | {says}"),
        );
    }
}

#[test]
fn bad_claims_are_told_with_line_and_column() {
    let place = Place::new();
    let check = |text: &str, says: &str| {
        fs::write(place.path().join("c.toml"), text).unwrap();
        place.refuses("audit --claims c.toml", &format!("=> {says}"));
    };
    check("[[claim", "c.toml: line 1, column");
    fs::write(place.path().join("blog.csv"), "send,sendfile\n10\n").unwrap();
    check(CLAIMS, "blog.csv: line 2 | 1 values");
    place.refuses(
        "audit",
        "--claims none.toml => none.toml
        --claims /dev/zero => /dev/zero: this is no regular file, but a device
        --source nobody => `nobody` | pa02-a, pa02-b",
    );
}
