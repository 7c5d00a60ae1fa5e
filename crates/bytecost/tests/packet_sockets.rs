//! Who takes a run's packets meanwhile is found and named.

use std::cell::RefCell;
use std::fs;
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;

use crate::common::networks::{apart, within};
use crate::common::{PATIENCE, Place, is_root, records};
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, socket_with};
use rustix::process::Signal;
use serde_json::Value;

/// Every protocol, as packet(7) wants it: ETH_P_ALL in the order of the network.
fn every_protocol() -> Option<Protocol> {
    NonZeroU32::new(u32::from(3_u16.to_be())).map(Protocol::from_raw)
}

/// A packet socket in the network of a process, made by a thread that goes there for it; none
/// where the process is gone by then.
fn listening(pid: u32) -> Option<OwnedFd> {
    within(pid, || {
        let (family, raw) = (AddressFamily::PACKET, SocketType::RAW);
        socket_with(family, raw, SocketFlags::CLOEXEC, every_protocol()).unwrap()
    })
}

#[test]
fn a_packet_socket_opened_in_mid_run_on_the_wires_device_is_found_and_named() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    // More trials than it takes to find one of them under way, and others after it.
    let words = "run --transport wire,wire-udp --mover send,send-zerocopy --size 32KiB --blocks 1000 --precision 0.1% --window 80ms --warmup 5ms --budget 200s --quiet";
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
    run.until("trials that tell of it", || {
        let text = fs::read_to_string(&log).unwrap();
        // Trials of a block that has not ended count for nothing.
        let ended = text.rfind("{\"block\"").map_or("", |at| &text[..at]);
        let tells = |cell: &str| {
            let is_one = |l: &str| l.contains(cell) && l.contains("\"holder\"");
            ended.lines().any(is_one)
        };
        tells("\"cell\":\"wire/") && tells("\"cell\":\"wire-udp/")
    });
    run.send(Signal::INT);
    assert_eq!(run.end(PATIENCE).status, Some(130));
    let all = records(&place.run());
    let taken = |record: &Value| record["sample"]["packet_sockets"].clone();
    assert!(taken(&all[0]).is_null(), "{}", all[0]);
    let told_over = |transport: &str| {
        let holder = |r: &Value| {
            let id = r["sample"]["cell"].as_str()?;
            let told = taken(r)[0]["holder"].as_str()?.to_owned();
            id.starts_with(transport).then_some(told)
        };
        all.iter()
            .find_map(holder)
            .expect("a trial that tells of it")
    };
    let pid = format!("(pid {})", std::process::id());
    let [holder, over_udp] = ["wire/", "wire-udp/"].map(told_over);
    assert!(holder.ends_with(&pid) && over_udp == holder, "{over_udp}");
    let findings = place.json("findings.json");
    let mut caveats = findings["caveats"].as_array().unwrap().iter();
    let caveat = caveats.find(|d| d["kind"] == "packet-socket");
    let evidence = caveat.unwrap()["evidence"].as_str().unwrap();
    assert!(evidence.contains(&holder), "{evidence}");
}
