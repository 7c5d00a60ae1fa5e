//! Every mover where nothing is delivered: all is counted, nothing copied.

use bytecost_engine::{MOVERS, Mover};
use bytecost_spec::cell::Reaping;
use bytecost_spec::survey::{Release, Route};
use bytecost_spec::{Axis, Cell, Counter, Survey};
use libtest_mimic::Trial;

use super::{cell, read, sample, tried};

/// From this size on a packet has one buffer, so that the flag of io_uring is right too.
const LARGE: &str = "1000008";

pub fn trials(survey: &Survey) -> Vec<Trial> {
    cells()
        .into_iter()
        .map(|cell| {
            let refused = survey.mover_refused(&cell.mover, cell.transport);
            let name = format!("over {}", cell.id().replace('/', " "));
            tried(name, cell, refused, all_is_counted)
        })
        .collect()
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    // Movers that are another program are refused over wire.
    for mover in MOVERS.iter().filter(|m| m.has_peer() && !m.is_helped()) {
        for (size, threads, ack) in [
            ("4000", "1", "128KiB"),
            (LARGE, "1", "1MiB"),
            (LARGE, "3", "16KiB"),
        ] {
            cells.push(cell(&format!(
                "transport=wire mover={} size={size} threads={threads} ack-bytes={ack} ring=256KiB",
                mover.name
            )));
        }
    }
    cells.push(cell("transport=wire mtu=9000 size=32000"));
    // The other device, which is where most could be different.
    for mover in ["send", "send-zerocopy", "uring-send-zc", "sendfile"] {
        let moved = format!("mover={mover} size={LARGE} threads=3 ring=256KiB");
        cells.push(cell(&format!(
            "transport=wire device=veth segment=16KiB {moved}"
        )));
    }
    cells
}

fn all_is_counted(cell: &Cell) {
    let sample = sample(cell);
    let truth = sample.truth.expect("nothing was checked");
    assert!(truth.received_bytes > 0, "{truth:?}");
    assert_eq!(truth.sent_bytes, truth.received_bytes);
    let seen = (truth.compared_bytes, truth.checked.as_str());
    assert_eq!(seen, (0, "count"), "nobody sees it");
    assert!(sample.receiver.is_none(), "nobody receives");
    assert_eq!(sample.sender.flows.len(), cell.threads as usize);
    let machine = |counter| read(&sample.machine, counter);
    // A busy machine may let nothing move within the window, so these may be zero.
    machine(Counter::WirePackets);
    machine(Counter::WireAcknowledgements);
    machine(Counter::TcpOutSegs);
    // Nothing is lost, so whatever is sent again is sent for lack of timeout.
    assert_eq!(machine(Counter::WireGaps), 0, "out of order");
    machine(Counter::ResponderCpuNs);
    machine(Counter::ResponderWritingNs);
    let mover = Mover::named(&cell.mover).expect("a mover of the table");
    let completes = mover.release == Release::AtCompletion && cell.reaping == Reaping::Full;
    let is_certain = mover.route == Route::MemoryToSocket
        && (cell.mover == "send-zerocopy" || cell.value(Axis::Size) == LARGE);
    if completes && is_certain {
        read(&sample.sender.readings, Counter::Completions);
        let copied = read(&sample.sender.readings, Counter::CompletionsCopied);
        assert_eq!(copied, 0, "nobody copies");
    }
}
