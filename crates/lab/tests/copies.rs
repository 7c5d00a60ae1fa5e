//! Known truths for the count of copies: how often each mover's bytes are copied on loopback, and
//! that over wire nobody copies them but their sender.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bytecost_engine::{Mover, Offer, Receiver, Setup};
use bytecost_evidence::copies::{Copies, Counted};
use bytecost_lab::transports::wire::responder::{Responder, Rules};
use bytecost_lab::transports::wire::{FAR_END, Wire};
use bytecost_lab::transports::{self, set_patience};
use bytecost_spec::cell::{LINK_MTU_BYTES, Reaping};
use bytecost_spec::{Cell, Transport};

const PATIENCE: Duration = Duration::from_secs(10);
const MESSAGES: usize = 256;
/// Copies that a byte may seem to have had too many or too few: on a busy machine TCP sends a
/// segment again here and there, which is copied again.
const NEAR: f64 = 0.02;

/// Whether this process may count; else the reason is printed.
fn may_count(copies: &io::Result<Copies>) -> bool {
    if let Err(e) = copies {
        assert!(!rustix::process::geteuid().is_root(), "{e}");
        eprintln!("skipped: {e}");
    }
    copies.is_ok()
}

fn cell(transport: Transport) -> Cell {
    Cell {
        transport,
        congestion: "default".to_owned(),
        ..Cell::default()
    }
}

/// Sends all messages and takes in all completions.
fn send(mover: &str, socket: OwnedFd, size: usize) {
    set_patience(&socket, PATIENCE).unwrap();
    let setup = Setup {
        socket: Some(socket),
        file: None,
        java: None,
        size,
        fields: 8,
        slots: 16,
        flow: 0,
        fresh: false,
        refill: false,
        reaping: Reaping::Full,
        huge_pages: bytecost_spec::HugePages::Auto,
        patience: PATIENCE,
    };
    let mut mover = (Mover::named(mover).unwrap().open)(setup).unwrap();
    for _ in 0..MESSAGES {
        while mover.offer().unwrap() == Offer::Full {
            mover.reap(1).unwrap();
        }
    }
    mover.flush().unwrap();
    while mover.tally().held > mover.tally().released {
        mover.reap(1).unwrap();
    }
}

fn over_loopback(mover: &'static str, receiver: &str, size: usize) -> Option<Counted> {
    let cell = cell(Transport::Loopback);
    let listener = transports::listen(&cell, None).unwrap();
    let address: SocketAddr = listener.address().parse().unwrap();
    let copies = Copies::to_port(address.port());
    if !may_count(&copies) {
        return None;
    }
    let sender = transports::connect(&cell, &listener.address()).unwrap();
    let taker = listener.accept(PATIENCE).unwrap();
    set_patience(&taker, PATIENCE).unwrap();
    let sending = thread::spawn(move || send(mover, sender, size));
    let mut taker = (Receiver::named(receiver).unwrap().open)(taker, 256 << 10).unwrap();
    while taker.take().unwrap() > 0 {}
    sending.join().unwrap();
    Some(copies.unwrap().counted())
}

fn over_wire(wire: &Wire, mover: &'static str, size: usize) -> Counted {
    let [tun, map] = wire
        .descriptors()
        .map(|fd| fd.try_clone_to_owned().unwrap());
    let rules = Rules {
        mtu_bytes: wire.mtu_bytes(),
        acknowledge_bytes: 128 << 10,
        flows_most: 1,
    };
    let mut far = Responder::new(tun, map, rules).unwrap();
    let copies = Copies::to_port(FAR_END.port()).unwrap();
    let sent = AtomicBool::new(false);
    thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let sending = wire.network().within(|| {
                let cell = cell(Transport::Wire);
                send(
                    mover,
                    transports::connect(&cell, &FAR_END.to_string()).unwrap(),
                    size,
                );
            });
            sent.store(true, Ordering::Relaxed);
            sending.unwrap();
        });
        while !sent.load(Ordering::Relaxed) {
            far.look().unwrap();
        }
        sending.join().unwrap();
    });
    while far.ended() < 1 {
        far.look().unwrap();
    }
    copies.counted()
}

#[track_caller]
fn check(what: &str, counted: &Counted, size: usize, expected: [f64; 3]) {
    let found = counted.per_byte((MESSAGES * size) as u64).unwrap();
    let found = [found.sender, found.delivery, found.reader];
    let near = |(found, expected): (&f64, &f64)| (found - expected).abs() < NEAR;
    assert!(
        found.iter().zip(&expected).all(near),
        "{what}: copied {found:?} times, not {expected:?}: {counted:?}"
    );
}

#[test]
fn on_loopback_each_way_copies_as_often_as_is_known() {
    for (mover, receiver, expected) in [
        ("send", "recv", [1.0, 0.0, 1.0]),
        ("sendmsg", "recvmsg", [1.0, 0.0, 1.0]),
        ("send-fields", "recv", [1.0, 0.0, 1.0]),
        ("uring-send", "recv", [1.0, 0.0, 1.0]),
        ("send-zerocopy", "recv", [0.0, 1.0, 1.0]),
        ("uring-send-zc", "recv", [0.0, 1.0, 1.0]),
        ("sendfile", "recv", [0.0, 0.0, 1.0]),
        ("splice", "recv", [0.0, 0.0, 1.0]),
        ("vmsplice", "recv", [0.0, 0.0, 1.0]),
        ("send", "recv-discard", [1.0, 0.0, 0.0]),
    ] {
        let size = 65_536;
        let Some(counted) = over_loopback(mover, receiver, size) else {
            return;
        };
        check(&format!("{mover} to {receiver}"), &counted, size, expected);
        let delivered = counted.delivered.bytes() as f64 / (MESSAGES * size) as f64;
        assert!((delivered - 1.0).abs() < NEAR, "{mover}: {counted:?}");
    }
}

#[test]
fn over_wire_nothing_is_copied_but_by_the_sender() {
    let Ok(wire) = Wire::new(LINK_MTU_BYTES) else {
        assert!(!rustix::process::geteuid().is_root());
        return;
    };
    for (mover, sender) in [
        ("send", 1.0),
        ("send-zerocopy", 0.0),
        ("uring-send-zc", 0.0),
        ("sendfile", 0.0),
        ("vmsplice", 0.0),
    ] {
        // Small sends by io_uring are flagged as copied on Linux 6.18, and are not.
        for size in [4096, 65_536] {
            let counted = over_wire(&wire, mover, size);
            let what = format!("{mover} of {size} B over wire");
            check(&what, &counted, size, [sender, 0.0, 0.0]);
        }
    }
}

#[test]
fn what_goes_elsewhere_is_not_counted() {
    let copies = Copies::to_port(9);
    if !may_count(&copies) {
        return;
    }
    over_loopback("send", "recv", 4096);
    assert_eq!(copies.unwrap().counted(), Counted::default());
}
