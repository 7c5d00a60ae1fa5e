//! `bytecost report` of several runs, by the recorded ones: one table over hosts.

use std::fs;
use std::path::PathBuf;

use crate::common::{Place, copy_recorded, edit, says};
use serde_json::{Value, json};

fn run(place: &Place, host: &str, name: &str) -> PathBuf {
    place.path().join("runs").join(host).join(name)
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Puts a recorded run into the directory of a host, started and on a machine as given.
fn put(place: &Place, host: &str, study: &str, started: &str, machine: &str) {
    let to = run(place, host, &format!("{started}-{study}"));
    copy_recorded(study, &to);
    edit(&to, |manifest| {
        manifest["started"] = json!(format!("{started}T00:00:00Z"));
        manifest["host"]["identity"]["machine_id_hash"] = json!(machine);
        manifest["host"]["kernel"] = json!(format!("6.1.{machine}"));
    });
}

fn names(table: &Value) -> Vec<&str> {
    let hosts = table["hosts"].as_array().unwrap().iter();
    hosts.map(|h| h["host"].as_str().unwrap()).collect()
}

#[test]
fn runs_of_several_hosts_are_one_table_in_every_medium() {
    let place = Place::new();
    for (host, machine) in [("db7", "7"), ("db8", "8"), ("web", "1")] {
        put(&place, host, "send-copies", "2026-01-02", machine);
    }
    let all = "report runs/db7 runs/db8 runs/web";
    says(
        &place.call(format!("{all} --out table")).succeeded(),
        &["`send-copies` on 3 hosts", "db7", "6.1.8", "--all"],
    );
    let file = |name| fs::read_to_string(place.path().join("table").join(name)).unwrap();
    for name in ["hosts.html", "hosts.md", "hosts.csv"] {
        says(&file(name), &["db7", "db8", "web"]);
    }
    let shown = place.call(format!("{all} --json")).json();
    assert_eq!(read(&file("hosts.json")), shown);
    assert_eq!(names(&shown), ["db7", "db8", "web"]);
    // The numbers are those of each run's own report.
    let report = place.call("report runs/db7/2026-01-02-send-copies --json");
    let first = &report.json()["findings"][0];
    let of_table = &shown["findings"][0];
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
    says(
        &end.stderr,
        &["note: ", "2026-01-02-send-copies", "is newer"],
    );
    let shown = end.json();
    assert_eq!(names(&shown), ["db7", "db8"]);
    assert_eq!(shown["hosts"][0]["started"], "2026-01-09T00:00:00Z");
    // A run that cannot be read does not hide the others.
    let broken = run(&place, "db9", "2026-01-02-send-copies");
    fs::create_dir_all(&broken).unwrap();
    fs::write(broken.join("manifest.json"), "{").unwrap();
    fs::create_dir_all(place.path().join("runs/down")).unwrap();
    let partial = place.call("report runs/db7 runs/db8 runs/db9 runs/down --json");
    assert_eq!(partial.status, Some(1), "{}", partial.stderr);
    let left_out = "runs/db9/2026-01-02-send-copies is not shown";
    says(&partial.stderr, &[left_out, "runs/down is not shown"]);
    assert_eq!(names(&read(&partial.stdout)), ["db7", "db8"]);
}

#[test]
fn runs_of_one_directory_are_of_different_hosts_where_their_machines_are() {
    let place = Place::new();
    put(&place, "all", "send-copies", "2026-01-02", "7");
    put(&place, "all", "send-copies", "2026-01-03", "8");
    let shown = place.call("report runs/all --json").json();
    assert_eq!(names(&shown).len(), 2);
}

#[test]
fn what_makes_no_table_is_said_in_one_line() {
    let place = Place::new();
    put(&place, "db7", "send-copies", "2026-01-02", "7");
    put(&place, "db8", "file-copy", "2026-01-02", "8");
    place.refuses(
        "report",
        "runs/db7 runs/db8 => several studies, file-copy, send-copies | runs/*/*-
        runs/db7 runs/db7 --figures svg => for one run
        runs/none runs/neither => no run to show | runs/none | runs/neither",
    );
}

#[test]
fn a_run_between_two_hosts_is_named_by_both() {
    let place = Place::new();
    for (host, side) in [("db7", "receiver"), ("db8", "sender")] {
        put(&place, host, "send-copies", "2026-01-02", "7");
        let run = run(&place, host, "2026-01-02-send-copies");
        // Its samples are of no run between two hosts.
        fs::remove_file(run.join("ended.json")).unwrap();
        fs::write(run.join("samples.jsonl"), "").unwrap();
        edit(&run, |manifest| {
            manifest["peer"] = json!({
                "name": "web", "program": "ssh", "command_digest": "", "address": "10.0.0.9", "build": "b0",
                "side": side, "host": manifest["host"], "survey": manifest["survey"], "cards": [],
                "round_trip_us": 210, "path_mtu": 1500,
            });
        });
    }
    let end = place.call("report runs/db7 runs/db8 --json").measured();
    assert_eq!(names(&read(&end.stdout)), ["db7 → web", "db8 ← web"]);
}
