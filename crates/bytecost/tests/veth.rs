//! Runs over veth: their namespaces are gone when they end, however they end.

use crate::common::networks::ended_by;
use crate::common::{Place, is_root, says};
use bytecost_spec::{Axis, Cell, Counter, Reading, Sample, Transport};
use rustix::process::Signal;

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
    let samples = place.samples();
    for transport in [Transport::Loopback, Transport::Unix, Transport::Veth] {
        let is_over =
            |(cell, _): &&(Cell, Sample)| cell.transport == transport && cell.mover == "send";
        let (_, sample) = samples.iter().find(is_over).unwrap();
        match &sample.machine[&Counter::TcpOutSegs] {
            Reading::Absent { absent } if transport == Transport::Unix => says(absent, &["TCP"]),
            segments => assert!(segments.measured() > Some(0), "{transport:?}: {segments:?}"),
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
    for (cell, sample) in place.samples() {
        if cell.mover == "null" {
            continue;
        }
        let is_off = cell.value(Axis::Nodelay) == "off";
        let of = if is_off { &mut without } else { &mut with };
        of[0] += sample.machine[&Counter::TcpDelayedAcks].measured().unwrap();
        of[1] += sample.sender.readings[&Counter::Messages]
            .measured()
            .unwrap();
    }
    let [acks, messages] = without;
    assert!(messages > 0 && 2 * acks >= messages, "{acks} of {messages}");
    let [acks, messages] = with;
    assert!(messages > 0 && 10 * acks < messages, "{acks} of {messages}");
}
