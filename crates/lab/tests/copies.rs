//! Known truths for the count of copies, by each means: over wire nobody copies a mover's bytes but
//! their sender, where its row states that. The same program plays the endpoints.

use std::process::ExitCode;

use bytecost_spec::evidence::CopyMeans;

mod harness;
#[path = "copied/known.rs"]
mod known;

use harness::lack::{Lack, skipped};

/// Movers over TCP, and the wires and sizes that they are tried with.
const OVER_TCP: &str = "send send-zerocopy uring-send-zc sendfile vmsplice";
const TCP: &[&str] = &[
    "transport=wire size=4KiB",
    "transport=wire",
    "transport=wire device=veth",
    "transport=wire device=veth segment=4KiB",
];
/// And over UDP: one packet, and one that a card would cut into many.
const OVER_UDP: &str = "send sendmsg uring-send send-zerocopy uring-send-zc";
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
    // What one test counts, no other needs a CPU for.
    harness::run(trials.into(), 1)
}

fn over_wire(means: CopyMeans) {
    if !rustix::process::geteuid().is_root() {
        return skipped(Lack::Right, "namespaces need root");
    }
    let of = |movers: &'static str, wire| movers.split(' ').map(move |m| known::cell(m, wire));
    let over_tcp = TCP.iter().flat_map(|wire| of(OVER_TCP, wire));
    let over_udp = UDP.iter().flat_map(|wire| of(OVER_UDP, wire));
    known::walk(means, over_tcp.chain(over_udp));
}
