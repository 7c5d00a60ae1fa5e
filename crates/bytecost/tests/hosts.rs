//! `bytecost report` of several runs, by the recorded ones: one table over hosts.

use std::fs;
use std::path::Path;

use crate::common::Place;
use serde_json::{Value, json};

/// Puts a recorded run into the directory of a host, started and on a machine as given.
fn put(place: &Place, host: &str, study: &str, started: &str, machine: &str) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/goldens")
        .join(study);
    let to = place
        .path()
        .join("runs")
        .join(host)
        .join(format!("{started}-{study}"));
    fs::create_dir_all(&to).unwrap();
    for file in ["ended.json", "samples.jsonl"] {
        fs::copy(from.join(file), to.join(file)).unwrap();
    }
    let text = fs::read_to_string(from.join("manifest.json")).unwrap();
    let mut manifest: Value = serde_json::from_str(&text).unwrap();
    manifest["started"] = json!(format!("{started}T00:00:00Z"));
    manifest["host"]["identity"]["machine_id_hash"] = json!(machine);
    manifest["host"]["kernel"] = json!(format!("6.1.{machine}"));
    fs::write(to.join("manifest.json"), manifest.to_string()).unwrap();
}

fn text(place: &Place, name: &str) -> String {
    fs::read_to_string(place.path().join(name)).unwrap()
}

fn table(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn names(table: &Value) -> Vec<String> {
    let hosts = table["hosts"].as_array().unwrap().iter();
    hosts
        .map(|h| h["host"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn runs_of_several_hosts_are_one_table_in_every_medium() {
    let place = Place::new();
    for (host, machine) in [("db7", "7"), ("db8", "8"), ("web", "1")] {
        put(&place, host, "send-copies", "2026-01-02", machine);
    }
    let shown = place
        .call("report runs/db7 runs/db8 runs/web --out table")
        .succeeded();
    crate::common::says(
        &shown,
        &["`send-copies` on 3 hosts", "db7", "6.1.8", "--all"],
    );
    for file in ["hosts.html", "hosts.md", "hosts.csv"] {
        crate::common::says(
            &text(&place, &format!("table/{file}")),
            &["db7", "db8", "web"],
        );
    }
    let shown = table(
        &place
            .call("report runs/db7 runs/db8 runs/web --json")
            .succeeded(),
    );
    assert_eq!(table(&text(&place, "table/hosts.json")), shown);
    assert_eq!(names(&shown), ["db7", "db8", "web"]);
    for finding in shown["findings"].as_array().unwrap() {
        assert_eq!(finding["hosts"].as_array().unwrap().len(), 3, "{finding}");
    }
    // The numbers are those of each run's own report.
    let own = table(
        &place
            .call("report runs/db7/2026-01-02-send-copies --json")
            .succeeded(),
    );
    let (first, of_table) = (&own["findings"][0], &shown["findings"][0]);
    for number in ["ratio", "low", "high", "blocks", "verdict"] {
        assert_eq!(first[number], of_table["hosts"][0][number]);
    }
}

#[test]
fn the_newest_run_of_a_host_stands_and_what_is_left_out_is_reported() {
    let place = Place::new();
    put(&place, "db7", "send-copies", "2026-01-02", "7");
    put(&place, "db7", "send-copies", "2026-01-09", "7");
    put(&place, "db8", "send-copies", "2026-01-02", "8");
    let end = place.call("report runs/db7 runs/db8 --json");
    crate::common::says(
        &end.stderr,
        &["note: ", "2026-01-02-send-copies", "is newer"],
    );
    let shown = table(&end.succeeded());
    assert_eq!(names(&shown), ["db7", "db8"]);
    assert_eq!(shown["hosts"][0]["started"], "2026-01-09T00:00:00Z");
    // A run that cannot be read does not hide the others.
    let broken = place.path().join("runs/db9/2026-01-02-send-copies");
    fs::create_dir_all(&broken).unwrap();
    fs::write(broken.join("manifest.json"), "{").unwrap();
    fs::create_dir_all(place.path().join("runs/down")).unwrap();
    let end = place.call("report runs/db7 runs/db8 runs/db9 runs/down --json");
    assert_eq!(end.status, Some(1), "{}", end.stderr);
    crate::common::says(
        &end.stderr,
        &[
            "runs/db9/2026-01-02-send-copies is not shown",
            "runs/down is not shown",
        ],
    );
    assert_eq!(names(&table(&end.stdout)), ["db7", "db8"]);
}

#[test]
fn runs_of_one_directory_are_of_different_hosts_where_their_machines_are() {
    let place = Place::new();
    put(&place, "all", "send-copies", "2026-01-02", "7");
    put(&place, "all", "send-copies", "2026-01-03", "8");
    let shown = table(&place.call("report runs/all --json").succeeded());
    let hosts = shown["hosts"].as_array().unwrap();
    assert_eq!(hosts.len(), 2);
}

#[test]
fn what_makes_no_table_is_said_in_one_line() {
    let place = Place::new();
    put(&place, "db7", "send-copies", "2026-01-02", "7");
    put(&place, "db8", "file-copy", "2026-01-02", "8");
    let check = |words: &str, says: &[&str]| place.call(words).refused(says);
    check(
        "report runs/db7 runs/db8",
        &["several studies, file-copy, send-copies", "runs/*/*-"],
    );
    check("report runs/db7 runs/db7 --figures svg", &["for one run"]);
    check(
        "report runs/none runs/neither",
        &["no run to show", "runs/none", "runs/neither"],
    );
    check(
        "report runs/db7/2026-01-02-send-copies --out there",
        &["--figures svg"],
    );
}

#[test]
fn a_run_between_two_hosts_is_named_by_both() {
    let place = Place::new();
    for host in ["db7", "db8"] {
        put(&place, host, "send-copies", "2026-01-02", "7");
        let run = place
            .path()
            .join(format!("runs/{host}/2026-01-02-send-copies"));
        // Its samples are of no run between two hosts.
        fs::remove_file(run.join("ended.json")).unwrap();
        fs::write(run.join("samples.jsonl"), "").unwrap();
        let manifest = fs::read_to_string(run.join("manifest.json")).unwrap();
        let mut manifest = table(&manifest);
        manifest["peer"] = json!({
            "command": ["ssh", "-T", "--", "ann@web"], "address": "10.0.0.9", "build": "b0",
            "side": if host == "db7" { "receiver" } else { "sender" },
            "host": manifest["host"], "survey": manifest["survey"], "cards": [],
            "round_trip_us": 210, "path_mtu": 1500,
        });
        fs::write(run.join("manifest.json"), manifest.to_string()).unwrap();
    }
    let end = place.call("report runs/db7 runs/db8 --json").measured();
    assert_eq!(names(&table(&end.stdout)), ["db7 → web", "db8 ← web"]);
}
