//! Runs over wire: nothing is copied there, and nothing is left of it when they end, however they
//! end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::common::networks::{ended_by, process};
use crate::common::{Place, is_root, says};
use bytecost_spec::evidence::{CountedEvent, Party};
use bytecost_spec::{Counter, Transport};
use rustix::process::Signal;

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
    for (cell, sample) in place.samples() {
        if cell.mover != "send-zerocopy" {
            continue;
        }
        let read = |counter| sample.sender.readings[&counter].measured().unwrap();
        let back = read(Counter::Completions);
        let copied = read(Counter::CompletionsCopied);
        if cell.transport == Transport::Wire {
            assert_eq!(copied, 0, "{}: of {back}", sample.cell);
            assert!(sample.receiver.is_none());
            assert_eq!(sample.machine[&Counter::WireGaps].measured(), Some(0));
            // The responder's own, at the other end of a pair, takes nothing that is sent.
            assert_eq!(sample.packet_sockets, [], "{}", sample.cell);
        } else {
            assert_eq!(copied, back, "{}", sample.cell);
        }
        if back > 0 {
            cells.insert(sample.cell);
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
    let found = place.findings();
    let cells = found.cells.iter().filter(|c| c.cell.mover != "null");
    assert_eq!(cells.clone().count(), 4);
    for cell in cells {
        let id = &cell.id;
        let copies = found.copies.iter().find(|c| c.cell == *id).unwrap();
        let copied = f64::from(u8::from(cell.cell.mover != "send-zerocopy"));
        // The only place where one could be copied.
        assert_eq!(copies.legs.len(), 1, "{copies:?}");
        let times = copies.legs[0].per_byte.unwrap();
        assert!((times - copied).abs() < 0.1, "{id}: {times}");
        let counts = found.counts.iter().find(|c| c.cell == *id).unwrap();
        let rate = |event| counts.per_message(event).unwrap();
        assert!(rate(CountedEvent::Segments) > 0.9, "{counts:?}");
        // The responder writes them, and nobody answers UDP.
        let answers = rate(CountedEvent::Acknowledgements) > 0.0;
        assert_eq!(answers, cell.cell.transport == Transport::Wire);
        let time = found.cpu_time.iter().find(|t| t.cell == *id).unwrap();
        let looks_at = |party| time.kinds.iter().any(|k| k.party == party);
        // The responder, which is never idle, is no receiver.
        assert!(looks_at(Party::Sender) && !looks_at(Party::Receiver));
    }
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
    for (cell, sample) in place.samples() {
        if cell.mover == "send" {
            let bytes = sample.sender.readings[&Counter::Bytes].measured();
            let packets = sample.machine[&Counter::WirePackets].measured();
            let sum = sums.entry(sample.cell).or_default();
            *sum = [sum[0] + bytes.unwrap(), sum[1] + packets.unwrap()];
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
