//! Known truths for the count of copies: over wire nobody copies a mover's bytes but their sender,
//! where its row states that, by each means.
//!
//! It has a main of its own, since the same program plays the endpoints.

use std::process::ExitCode;

use bytecost_spec::evidence::CopyMeans;
use bytecost_spec::{Axis, Cache};
use libtest_mimic::Arguments;

mod harness;
#[path = "copied/known.rs"]
mod known;

/// Movers, with the wires and the sizes that they are tried with: of UDP one packet, and one that a
/// card would cut into many.
const TRIED: &[(&[&str], &[&[(Axis, &str)]])] = &[
    (
        &[
            "send",
            "send-zerocopy",
            "uring-send-zc",
            "sendfile",
            "vmsplice",
        ],
        &[
            &[(Axis::Transport, "wire"), (Axis::Size, "4KiB")],
            &[(Axis::Transport, "wire")],
            &[(Axis::Transport, "wire"), (Axis::Device, "veth")],
            &[
                (Axis::Transport, "wire"),
                (Axis::Device, "veth"),
                (Axis::Segment, "4KiB"),
            ],
        ],
    ),
    (
        &[
            "send",
            "sendmsg",
            "uring-send",
            "send-zerocopy",
            "uring-send-zc",
        ],
        &[
            &[(Axis::Transport, "wire-udp"), (Axis::Size, "1000")],
            &[(Axis::Transport, "wire-udp"), (Axis::Size, "32000")],
        ],
    ),
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
    let cells = TRIED.iter().flat_map(|(movers, wires)| {
        let each = wires
            .iter()
            .flat_map(|wire| movers.iter().map(move |mover| (wire, mover)));
        each.map(|(wire, mover)| {
            let mut cell = known::cell(mover, Cache::Memory);
            wire.iter()
                .for_each(|(axis, value)| cell.set(*axis, value).unwrap());
            cell
        })
    });
    known::walk(means, cells);
}
