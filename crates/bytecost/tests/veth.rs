//! Runs over veth: their namespaces are gone when they end, however they end.

use crate::common::networks::ended_by;
use crate::common::{Place, is_root};
use bytecost_spec::{Axis, Counter};
use rustix::process::Signal;

const PAIR: &str = "--transport veth";

// Invariant 9.
#[test]
fn a_killed_run_leaves_no_namespace_and_no_link() {
    if !is_root() {
        return;
    }
    let place = ended_by(Signal::KILL, PAIR, 2, |_| true);
    let words = place.resume("--blocks 6 --budget 60s --quiet");
    place.call(words).measured();
    ended_by(Signal::INT, PAIR, 2, |_| true);
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
    // In real time the receiver gets its CPU before the timer, however busy the machine is. That needs
    // a permission, which even root may lack.
    let end = place.call(format!("{words} --class fifo"));
    if end.stderr.contains("nothing of this study works") {
        place.call(words).measured()
    } else {
        end.measured()
    };
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
    let [fewer, sent] = with;
    assert!(sent > 0 && 10 * fewer < sent, "{fewer} of {sent}");
}
