//! Known truths for the count of copies, by each means: over wire nobody copies a mover's bytes but
//! their sender, where its row states that. The same program plays the endpoints.

use std::process::ExitCode;

use bytecost_spec::evidence::CopyMeans;

mod harness;
#[path = "copied/known.rs"]
mod known;

use harness::lack::{Lack, skipped};

/// Each is tried with each of these wires and sizes.
const MOVERS: &[&str] = &[
    "send",
    "sendmsg",
    "uring-send",
    "send-zerocopy",
    "uring-send-zc",
    "sendfile",
    "vmsplice",
];
const WIRES: &[&str] = &[
    "transport=wire size=4KiB",
    "transport=wire",
    "transport=wire device=veth",
    "transport=wire device=veth segment=4KiB",
];

fn main() -> ExitCode {
    if let Some(code) = harness::endpoint() {
        return code;
    }
    let trials = [CopyMeans::Functions, CopyMeans::Tracepoints].map(|means| {
        let name = format!("what is sent over wire, by {}", means.title());
        harness::case(name, move || over_wire(means))
    });
    // One test at a time: work of another one would be counted.
    harness::run(trials.into(), 1)
}

fn over_wire(means: CopyMeans) {
    if !rustix::process::geteuid().is_root() {
        return skipped(Lack::Right, "namespaces need root");
    }
    let of_movers = |&wire| MOVERS.iter().map(move |m| known::cell(m, wire));
    known::walk(means, WIRES.iter().flat_map(of_movers));
}
