//! Runs over wire: nothing is copied there, and nothing is left of it when they end, however they
//! end.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::common::networks::{apart, ended_by, process, within};
use crate::common::{PATIENCE, Place, is_root, records, says};
use rustix::process::Signal;
use serde_json::Value;

const TUN: &str = "--transport wire";
const VETH: &str = "--transport wire --device veth";
/// Blocks at the least, each as short as can be.
const TINY: &str = "--blocks 6 --window 20ms --warmup 2ms --budget 60s --quiet";

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

/// Of a trial that is as it must be: the run and the end that answers have the device.
fn have_device(pids: &[u32]) -> bool {
    pids.iter().filter(|pid| has_device(**pid)).count() == 2
}

// Invariant 9.
#[test]
fn a_killed_run_leaves_no_device_no_network_and_no_process() {
    if is_root() {
        ended_by(Signal::KILL, TUN, 1, have_device);
        ended_by(Signal::KILL, VETH, 1, |_| true);
    }
}

// Invariant 9.
#[test]
fn an_interrupted_run_leaves_no_device_no_network_and_no_process() {
    if is_root() {
        ended_by(Signal::INT, TUN, 1, have_device);
    }
}

#[test]
fn zero_copy_sends_are_copied_on_loopback_and_not_over_wire() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let words = "run --transport loopback,wire --device tun,veth --mover send,send-zerocopy --size 64KiB --threads 2 --blocks 6 --window 100ms --warmup 20ms --budget 60s --quiet";
    place.call(words).measured();
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
            // The responder's own, at the other end of a pair, takes nothing that is sent.
            assert_eq!(sample["packet_sockets"], Value::Null, "{id}");
        } else {
            assert_eq!(copied, back, "{id}");
        }
        if back > 0 {
            cells.insert(id.to_owned());
        }
    }
    assert_eq!(cells.len(), 3, "{cells:?}");
    let device = "The device of those with device=veth was one end of a veth pair";
    says(
        &place.call("report --all").flat(),
        &["the sender's cost alone", device],
    );
    says(&place.read("findings.json"), &["nobody receives over wire"]);
}

#[test]
fn evidence_over_wire_is_the_senders_alone_and_of_datagrams_too() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let words = format!(
        "run --transport wire,wire-udp --mover send,send-zerocopy --size 4KiB --evidence copies,counts,time {TINY}"
    );
    place.call(words).measured();
    let findings = place.json("findings.json");
    let row = |of: &str, id: &str| -> Value {
        let rows = findings[of].as_array().unwrap();
        let found = rows.iter().find(|r| r["cell"] == id);
        found.unwrap_or_else(|| panic!("{of} of {id}")).clone()
    };
    let cells = findings["cells"].as_array().unwrap();
    let ids = cells.iter().map(|c| c["id"].as_str().unwrap());
    let ids: Vec<&str> = ids.filter(|id| !id.contains("/null/")).collect();
    assert_eq!(ids.len(), 4, "{ids:?}");
    for id in ids {
        let copies = row("copies", id);
        let copied = f64::from(u8::from(!id.contains("/send-zerocopy/")));
        // The only place where one could be copied.
        assert_eq!(copies["legs"].as_array().unwrap().len(), 1, "{copies}");
        let found = copies["legs"][0]["per_byte"].as_f64().unwrap();
        assert!((found - copied).abs() < 0.1, "{id}: {found}");
        let counts = row("counts", id);
        let rate = |event: &str| {
            let mut events = counts["events"].as_array().unwrap().iter();
            let found = events.find(|e| e["event"] == event).unwrap();
            found["per_message"].as_f64().unwrap()
        };
        assert!(rate("segments") > 0.9, "{counts}");
        // The responder writes them, and nobody answers UDP.
        assert_eq!(rate("acknowledgements") > 0.0, id.starts_with("wire/"));
        let time = row("cpu_time", id);
        let kinds = time["kinds"].as_array().unwrap();
        assert!(kinds.iter().any(|k| k["party"] == "sender"), "{time}");
        // The responder, which is never idle, is no receiver.
        assert!(kinds.iter().all(|k| k["party"] != "receiver"), "{time}");
    }
}

/// Lets the network that a process is in note few zero-copy sends of a socket; false where no
/// network has a bound of its own (before Linux 6.8), and none where the process is gone.
fn bound_notes(pid: u32, bytes: u32) -> Option<bool> {
    let bound = move || fs::write("/proc/sys/net/core/optmem_max", bytes.to_string());
    within(pid, move || bound().is_ok())
}

#[test]
fn a_kernel_without_room_for_more_zero_copy_sends_is_told() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let words = "run --transport wire --mover send,send-zerocopy --size 4KiB --blocks 6 --precision 0.1% --window 50ms --warmup 2ms --budget 60s --quiet";
    let mut run = place.start(&mut place.bytecost(words));
    let coordinator = run.pid();
    let bound = Cell::new(None);
    run.until("a trial of two ends", || {
        if let (true, Some(end)) = (place.lines() >= 1, apart(coordinator)) {
            // Room for one.
            bound.set(bound_notes(end, 1000));
        }
        bound.get().is_some()
    });
    run.end(PATIENCE).measured();
    if bound.get() != Some(true) {
        return eprintln!("skipped: this kernel has one bound for all networks");
    }
    let findings = place.json("findings.json");
    let mut caveats = findings["caveats"].as_array().unwrap().iter();
    let caveat = caveats.find(|d| d["kind"] == "zero-copy-no-room");
    let caveat = caveat.unwrap_or_else(|| panic!("{}", findings["caveats"]));
    assert!(
        caveat["evidence"].as_str().unwrap().starts_with("ENOBUFS "),
        "{caveat}"
    );
    let cells = caveat["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 1, "{caveat}");
    assert!(cells[0].as_str().unwrap().contains("/send-zerocopy/"));
}

/// What is counted of the packets bears out how large they may be, in a run of its own.
#[test]
fn packets_keep_to_the_segment_that_is_asked_for() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let words = "run --transport wire --segment 4KiB,auto --mover send --size 64KiB --blocks 6 --window 50ms --warmup 10ms --budget 60s --quiet";
    place.call(words).measured();
    let mut sums: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    for record in records(&place.run()) {
        let sample = &record["sample"];
        let id = sample["cell"].as_str().unwrap_or_default();
        if id.contains("/send/") {
            let bytes = sample["sender"]["readings"]["bytes"].as_u64().unwrap();
            let packets = sample["machine"]["wire_packets"].as_u64().unwrap();
            let sum = sums.entry(id.to_owned()).or_default();
            *sum = [sum[0] + bytes, sum[1] + packets];
        }
    }
    // The two are compared, so that the baseline has a twin.
    assert_eq!(sums.len(), 3, "{sums:?}");
    for (id, [bytes, packets]) in sums {
        let is_bound = id.contains("/segment=4KiB");
        // The two ends do not open their windows at the same moment.
        assert_eq!(
            bytes / packets.max(1) < 2 * 4096,
            is_bound,
            "{id}: {bytes} / {packets}"
        );
    }
}

#[test]
fn what_cannot_be_had_of_a_wire_is_refused_in_a_line() {
    if !is_root() {
        return;
    }
    Place::new().refuses(
        &format!("run --mover send --size 4KiB {TINY}"),
        "--transport wire --pattern request-response => --pattern stream
        --transport wire --segment 128KiB => or --device veth
        --transport wire --segment 1499 => at least 1500
        --transport wire-udp --segment 16KiB => leave segment out
        --transport loopback --segment 16KiB => leave segment out
        --transport wire --segment 1MiB => from 576 bytes to 524280
        --transport wire --device tap => choose from tun, veth",
    );
}
