//! Known truths for the count of copies: over wire nobody copies a mover's bytes but their sender,
//! where its row states that, by each means.
//!
//! It has a main of its own, since the same program plays the endpoints.

use std::process::ExitCode;

use bytecost_spec::evidence::CopyMeans;
use bytecost_spec::{Axis, Cache, Cell};
use libtest_mimic::Arguments;

mod harness;
#[path = "copied/known.rs"]
mod known;

/// Movers over TCP, and the wires and sizes that they are tried with.
const OVER_TCP: [&str; 5] = [
    "send",
    "send-zerocopy",
    "uring-send-zc",
    "sendfile",
    "vmsplice",
];
const TCP: &[&str] = &[
    "transport=wire size=4KiB",
    "transport=wire",
    "transport=wire device=veth",
    "transport=wire device=veth segment=4KiB",
];
/// And over UDP: one packet, and one that a card would cut into many.
const OVER_UDP: [&str; 5] = [
    "send",
    "sendmsg",
    "uring-send",
    "send-zerocopy",
    "uring-send-zc",
];
const UDP: &[&str] = &[
    "transport=wire-udp size=1000",
    "transport=wire-udp size=32000",
];

fn main() -> ExitCode {
    if let Some(code) = harness::endpoint() {
        return code;
    }
    let trials = [CopyMeans::Functions, CopyMeans::Tracepoints].map(|means| {
        let name = format!("what is sent over wire, by {}", means.title());
        harness::case(name, move || over_wire(means))
    });
    let mut arguments = Arguments::from_args();
    // What one test counts, no other needs a CPU for.
    arguments.test_threads.get_or_insert(1);
    libtest_mimic::run(&arguments, trials.into()).exit_code()
}

fn over_wire(means: CopyMeans) {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: namespaces of one's own are root's");
    }
    let all = [(OVER_TCP, TCP), (OVER_UDP, UDP)];
    let cells = all.into_iter().flat_map(|(movers, wires)| {
        wires
            .iter()
            .flat_map(move |wire| movers.map(|mover| cell(mover, wire)))
    });
    known::walk(means, cells);
}

fn cell(mover: &str, wire: &str) -> Cell {
    let mut cell = known::cell(mover, Cache::Memory);
    for word in wire.split_whitespace() {
        let (axis, value) = word.split_once('=').unwrap();
        cell.set(Axis::named(axis).unwrap(), value).unwrap();
    }
    cell
}
