//! Processes that take a run's packets meanwhile are found and named.

use std::cell::RefCell;
use std::fs;
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;

use crate::common::networks::{apart, within};
use crate::common::{Place, is_root};
use bytecost_spec::sample::GROWING_BLOCKS;
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, socket_with};

/// A packet socket made in the network of a process; none where the process is gone by then.
fn listening(pid: u32) -> Option<OwnedFd> {
    within(pid, || {
        let (family, raw) = (AddressFamily::PACKET, SocketType::RAW);
        // Every protocol, as packet(7) wants it: ETH_P_ALL in the order of the network.
        let every = NonZeroU32::new(u32::from(3_u16.to_be())).map(Protocol::from_raw);
        socket_with(family, raw, SocketFlags::CLOEXEC, every).unwrap()
    })
}

#[test]
fn a_packet_socket_opened_in_mid_run_on_the_wires_device_is_found_and_named() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    // More trials than it takes to find one of them under way, and others after it.
    let words = "run --transport wire --mover send,send-zerocopy --size 32KiB --blocks 1000 --precision 0.1% --window 80ms --warmup 5ms --budget 200s --quiet";
    let mut run = place.start(&mut place.bytecost(words));
    let coordinator = run.pid();
    let socket = RefCell::new(None);
    run.until("a trial of two ends", || {
        if let (true, Some(end)) = (place.lines() >= 2, apart(coordinator)) {
            socket.replace(listening(end));
        }
        socket.borrow().is_some()
    });
    let log = place.run().join("samples.jsonl");
    run.until("trials that report it", || {
        let text = fs::read_to_string(&log).unwrap();
        // Trials of a block that has not ended count for nothing, nor do those of the first blocks
        // where windows become longer.
        let ended = text.rfind("{\"block\"").map_or("", |at| &text[..at]);
        let mut holders = (ended.lines()).filter(|line| line.contains("\"holder\""));
        holders.nth(2 * GROWING_BLOCKS as usize).is_some()
    });
    run.interrupted();
    let samples = place.samples();
    let (_, first) = &samples[0];
    assert_eq!(first.packet_sockets, []);
    let pid = format!("(pid {})", std::process::id());
    let holder = samples
        .iter()
        .find_map(|(_, s)| s.packet_sockets.first()?.holder.clone())
        .expect("a trial that reports it");
    assert!(holder.ends_with(&pid), "{holder}");
    let mut caveats = place.findings().caveats.into_iter();
    let caveat = caveats.find(|c| c.kind == "packet-socket").unwrap();
    assert!(caveat.evidence.contains(&holder), "{caveat:?}");
}
