//! Runs over veth: their namespaces are gone when they end, however they end.

use crate::common::networks::ended_by;
use crate::common::{Place, is_root, records};
use rustix::process::Signal;
use serde_json::Value;

const PAIR: &str = "--transport veth";
/// Blocks at the least, each as short as can be.
const TINY: &str = "--size 4KiB --blocks 6 --window 20ms --warmup 2ms --budget 60s --quiet";

// Invariant 9.
#[test]
fn a_killed_run_leaves_no_namespace_and_no_link() {
    if !is_root() {
        return;
    }
    let place = ended_by(Signal::KILL, PAIR, 2, |_| true);
    let words = format!(
        "run --resume {} --blocks 6 --budget 60s --quiet",
        place.id()
    );
    place.call(words).measured();
}

// Invariant 9.
#[test]
fn an_interrupted_run_leaves_no_namespace_and_no_link() {
    if is_root() {
        ended_by(Signal::INT, PAIR, 2, |_| true);
    }
}

#[test]
fn a_trial_over_veth_has_counters_of_its_own() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let words = format!("run --transport loopback,unix,veth --mover send {TINY}");
    place.call(words).measured();
    let all = records(&place.run());
    for transport in ["loopback", "unix", "veth"] {
        let of = |r: &&Value| {
            let cell = r["sample"]["cell"].as_str().unwrap_or_default();
            cell.starts_with(transport) && !cell.contains("/null/")
        };
        let sample = all.iter().find(of).unwrap();
        let segments = &sample["sample"]["machine"]["tcp_out_segs"];
        if transport == "unix" {
            let why = segments["absent"].as_str().unwrap();
            assert!(why.contains("TCP"), "{why}");
        } else {
            assert!(segments.as_u64().unwrap() > 0, "{transport}: {segments}");
        }
    }
}

/// Small writes without TCP_NODELAY wait for an acknowledgement, which waits for its timer: one
/// of these for each message, and nobody else's in a namespace of the trial's own.
#[test]
fn the_stall_of_small_writes_shows_in_its_delayed_acknowledgements() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let words = "run --transport veth --pattern request-response --mover send-fields --size 256 --fields 8 --nodelay on,off --blocks 6 --window 150ms --warmup 50ms --budget 60s --quiet";
    place.call(words).measured();
    let (mut with, mut without) = ([0, 0], [0, 0]);
    for record in records(&place.run()) {
        let sample = &record["sample"];
        let id = sample["cell"].as_str().unwrap_or_default();
        if id.is_empty() || id.contains("/null/") {
            continue;
        }
        let of = if id.contains("/off/") {
            &mut without
        } else {
            &mut with
        };
        of[0] += sample["machine"]["tcp_delayed_acks"].as_u64().unwrap();
        of[1] += sample["sender"]["readings"]["messages"].as_u64().unwrap();
    }
    let [acks, messages] = without;
    assert!(messages > 0 && 2 * acks >= messages, "{acks} of {messages}");
    let [acks, messages] = with;
    assert!(messages > 0 && 10 * acks < messages, "{acks} of {messages}");
}

#[test]
fn a_study_without_veth_does_not_try_it() {
    let place = Place::new();
    let words = format!("run --mover send {TINY}");
    place.call(words).measured();
    let manifest = place.json("manifest.json");
    for table in ["movers", "receivers"] {
        let rows = manifest["survey"][table].as_array().unwrap();
        assert!(rows.iter().any(|row| row["transport"] == "unix"));
        assert!(rows.iter().all(|row| row["transport"] != "veth"));
    }
}
