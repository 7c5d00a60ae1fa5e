//! Runs over wire: nothing is copied there, and nothing is left of it when they end, however they
//! end.

mod fault_common;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fault_common::networks::{is_held, network, process};
use fault_common::{PATIENCE, Place, Started, ended, endpoints_of, records, until};
use rustix::process::{Signal, geteuid};
use serde_json::Value;

const LONG: &str = "run --transport wire --mover null,send --size 4KiB --budget 60s --precision 0.1% --window 1s --warmup 5ms --quiet";
/// Blocks at the least, each as short as can be.
const TINY: &str = "--blocks 6 --window 20ms --warmup 2ms --budget 60s --quiet";

fn is_root() -> bool {
    let is_root = geteuid().is_root();
    if !is_root {
        eprintln!("skipped: a wire needs root");
    }
    is_root
}

/// Whether any process has a descriptor of a tun device or of a BPF map open that was opened by
/// the run: that of a device is known by its name, as /proc tells it.
fn has_device(pid: u32) -> bool {
    let infos = fs::read_dir(process(pid).join("fdinfo"))
        .into_iter()
        .flatten();
    infos.flatten().any(|info| {
        let text = fs::read_to_string(info.path()).unwrap_or_default();
        text.lines().any(|l| l == "iff:\tbytecost0")
    })
}

/// A run with a trial under way, and the network that both its ends are in.
fn under_way(place: &Place) -> (Started, BTreeSet<PathBuf>) {
    let mut run = place.start(&mut place.bytecost(LONG));
    let coordinator = run.pid();
    let own = network(Path::new("/proc/self")).unwrap();
    let seen = RefCell::new(BTreeSet::new());
    run.until("a trial of two ends", || {
        let ends = endpoints_of(coordinator);
        let networks: BTreeSet<PathBuf> =
            ends.iter().filter_map(|e| network(&process(*e))).collect();
        let is_apart = ends.len() == 2 && networks.len() == 1 && !networks.contains(&own);
        seen.replace(networks);
        place.lines() >= 1 && is_apart && ends.iter().any(|e| has_device(*e))
    });
    let networks = seen.into_inner();
    assert!(is_held(&networks) && has_device(coordinator));
    (run, networks)
}

fn ended_by(signal: Signal) {
    let place = Place::new();
    let (run, networks) = under_way(&place);
    let coordinator = run.pid();
    run.send(signal);
    let status = run.end(PATIENCE).status;
    let expected = (signal != Signal::KILL).then_some(130);
    assert_eq!(status, expected);
    // The device, its program and the program's map are held by nothing else.
    until("the end of the network", Duration::from_secs(30), || {
        !is_held(&networks)
    });
    assert_eq!(endpoints_of(coordinator), [0_u32; 0]);
    let links = fs::read_to_string("/proc/net/dev").unwrap();
    assert!(!links.contains("bytecost"), "{links}");
}

#[test]
fn a_killed_run_leaves_no_device_no_network_and_no_process() {
    if is_root() {
        ended_by(Signal::KILL);
    }
}

#[test]
fn an_interrupted_run_leaves_no_device_no_network_and_no_process() {
    if is_root() {
        ended_by(Signal::INT);
    }
}

#[test]
fn zero_copy_sends_are_copied_on_loopback_and_not_over_wire() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let words = "run --transport loopback,wire --mover send,send-zerocopy --size 64KiB --threads 1,2 --blocks 6 --window 50ms --warmup 10ms --budget 60s --quiet";
    ended(&mut place.bytecost(words)).measured();
    let mut cells = BTreeSet::new();
    for record in records(&place.run()) {
        let sample = &record["sample"];
        let id = sample["cell"].as_str().unwrap_or_default();
        if !id.contains("/send-zerocopy/") {
            continue;
        }
        let read = |name: &str| sample["sender"]["readings"][name].as_u64().unwrap();
        let (back, copied) = (read("completions"), read("completions_copied"));
        if id.starts_with("wire/") {
            assert_eq!(copied, 0, "{id}: of {back}");
            assert_eq!(sample["receiver"], Value::Null);
            assert_eq!(sample["machine"]["wire_gaps"], 0);
        } else {
            assert_eq!(copied, back, "{id}");
        }
        if back > 0 {
            cells.insert(id.to_owned());
        }
    }
    assert_eq!(cells.len(), 4, "{cells:?}");
    let told = ended(&mut place.bytecost("report")).stdout;
    assert!(told.contains("the sender's cost alone"), "{told}");
    let findings = fs::read_to_string(place.run().join("findings.json")).unwrap();
    assert!(findings.contains("nobody receives over wire"), "{findings}");
}

#[test]
fn an_answer_cannot_be_waited_for() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let words = format!("run --transport wire --pattern ask --mover send --size 4KiB {TINY}");
    let end = ended(&mut place.bytecost(&words));
    let line = end.refused();
    assert!(line.contains("--pattern stream"), "{line}");
}
