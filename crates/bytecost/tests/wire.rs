//! Runs over wire: what is counted there, and that nothing is left of it however they end.

use std::fs;

use crate::common::networks::{ended_by, process};
use crate::common::{Place, is_root};
use bytecost_spec::evidence::{CountedEvent, Party};
use rustix::process::Signal;

const TUN: &str = "--transport wire";
const VETH: &str = "--transport wire --device veth";

/// Returns true if any process has a descriptor of a tun device or of a BPF map open that was opened by
/// the run: that of a device is known by its name, as /proc shows it.
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
fn a_killed_or_interrupted_run_leaves_no_device_no_network_and_no_process() {
    if is_root() {
        ended_by(Signal::KILL, TUN, 1, have_device);
        ended_by(Signal::KILL, VETH, 1, |_| true);
        ended_by(Signal::INT, TUN, 1, have_device);
    }
}

#[test]
fn evidence_over_wire_is_the_senders_alone() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let words = "run --transport wire --mover send,send-zerocopy --size 4KiB --evidence copies,counts,time --blocks 6 --window 20ms --warmup 30ms --budget 60s --quiet";
    place.call(words).measured();
    let found = place.findings();
    let cells = found.cells.iter().filter(|c| c.cell.mover != "null");
    assert_eq!(cells.clone().count(), 2);
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
        // The responder writes them.
        assert!(rate(CountedEvent::Acknowledgements) > 0.0, "{counts:?}");
        let time = found.cpu_time.iter().find(|t| t.cell == *id).unwrap();
        let looks_at = |party| time.kinds.iter().any(|k| k.party == party);
        // The responder, which is never idle, is no receiver.
        assert!(looks_at(Party::Sender) && !looks_at(Party::Receiver));
    }
}
