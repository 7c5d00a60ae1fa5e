//! Published numbers and claims: next to those of a run, in the layouts of their sources, and judged.

use std::fs;
use std::os::unix::fs::symlink;

use crate::common::{Place, says};

#[test]
fn an_exported_file_is_written_whole_and_through_a_link() {
    let place = Place::recorded(&["pa02-a"]);
    let call = |words: &str| place.call(words).succeeded();
    let export = "export pa02-a --layout pa02-a";
    let written = call(export);
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
        export,
        "--out nowhere/a.csv => nowhere
        --out . => . | cannot write",
    );
}

#[test]
fn published_numbers_are_shown_next_to_those_of_a_run() {
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
        report --beside file-read => publication `file-read` | pa02-a, pa02-b, file-transfer, os-features
        export file-read --layout pa02-a => no cell that layout pa02-a
        export file-read --layout pa03 => layout `pa03` | pa02-a, pa02-b, os-features",
    );
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
    let end = place.call("audit --claims claims.toml --source blog --json");
    let judged = end.json();
    let claims = judged["claims"].as_array().unwrap();
    assert_eq!((claims.len(), &claims[0]["ruling"]), (1, &"refuted".into()));
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
    let as_json = place.call("audit --claims c.toml --json").json();
    assert!(as_json["claims"][0]["run"].is_null());
    place.refuses(
        "audit --claims c.toml",
        "--source post => no runs | bytecost run",
    );
    // No name and no link leads out of the directory.
    let outside = place.path().join("claims");
    fs::create_dir(&outside).unwrap();
    symlink(place.path().join("data"), outside.join("link")).unwrap();
    for name in ["../data/2024/blog", "link/2024/blog"] {
        let elsewhere = CLAIMS.replace("\"blog\"\ncol", &format!("\"{name}\"\ncol"));
        fs::write(outside.join("c.toml"), elsewhere).unwrap();
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
        let claims = if wrong.contains("stall") {
            claims
        } else {
            CLAIMS.replace(right, wrong)
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
