//! Known truths for the count of copies: how often each mover's bytes are copied on loopback, and
//! that over wire nobody copies them but their sender.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use bytecost_engine::{Mover, Offer, Receiver, Setup};
use bytecost_evidence::{Copies, Parties};
use bytecost_lab::transports::link::LinkChoice;
use bytecost_lab::transports::wire::responder::{Rules, WireResponder};
use bytecost_lab::transports::wire::{FAR_END, Wire, udp};
use bytecost_lab::transports::{self, set_patience};
use bytecost_spec::cell::Device;
use bytecost_spec::evidence::{CopyMeans, CopyPlace};
use bytecost_spec::{Cell, Transport};

const PATIENCE: Duration = Duration::from_secs(60);
const MESSAGES: usize = 256;
/// Copies that a byte may seem to have had too many or too few: on a busy machine TCP sends a
/// segment again here and there, which is copied again.
const NEAR: f64 = 0.05;
/// The most trials of which one has to count everything.
const TRIALS: u32 = 5;

/// By the sender, on delivery and for the reader.
const PLACES: [CopyPlace; 3] = [
    CopyPlace::IntoKernel,
    CopyPlace::Delivery,
    CopyPlace::ToReader,
];

/// What counts, where this process may; else the reason is printed.
fn counting() -> Option<Copies> {
    match Copies::open(Path::new("/")) {
        Ok(copies) => Some(copies),
        Err(e) => {
            assert!(!rustix::process::geteuid().is_root(), "{e}");
            eprintln!("skipped: {e}");
            None
        }
    }
}

/// Functions that take pages over are counted by process, which all tests here share.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(|e| e.into_inner())
}

/// Counts what goes to a port of a network; both sides are threads of this process.
fn begin(copies: &mut Copies, port: u16, network: Option<u64>) {
    let me = std::process::id();
    let parties = Parties {
        port: Some(port),
        network,
        sender: me,
        receiver: Some(me),
    };
    copies.begin(parties).unwrap();
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
        fields: 8,
        slots: 16,
        ..Setup::new(size, PATIENCE)
    };
    let mut mover = Mover::named(mover).unwrap().open(setup).unwrap();
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

fn over_loopback(copies: &mut Copies, mover: &'static str, receiver: &str, size: usize) {
    let cell = cell(Transport::Loopback);
    let listener = transports::listen(&cell, None).unwrap();
    let address: SocketAddr = listener.address().parse().unwrap();
    begin(copies, address.port(), None);
    let sender = transports::connect(&cell, &listener.address()).unwrap();
    let taker = listener.accept(PATIENCE).unwrap();
    set_patience(&taker, PATIENCE).unwrap();
    let sending = thread::spawn(move || send(mover, sender, size));
    let mut taker = (Receiver::named(receiver).unwrap().open)(taker, 256 << 10).unwrap();
    while taker.take().unwrap() > 0 {}
    sending.join().unwrap();
}

fn over_wire(
    copies: &mut Copies,
    wire: &Wire,
    transport: Transport,
    mover: &'static str,
    size: usize,
) {
    let [far, map] = wire
        .descriptors()
        .map(|fd| fd.try_clone_to_owned().unwrap());
    let rules = Rules {
        device: wire.link().device,
        mtu_bytes: wire.link().mtu_bytes,
        acknowledge_bytes: 128 << 10,
        flows_most: 1,
    };
    let mut far = WireResponder::new(far, map, rules).unwrap();
    let network = rustix::fs::fstat(wire.network()).unwrap().st_ino;
    begin(copies, FAR_END.port(), Some(network));
    let sent = AtomicBool::new(false);
    thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let sending = wire.network().within(|| {
                let socket = transports::connect(&cell(transport), &FAR_END.to_string()).unwrap();
                let own = socket.try_clone().unwrap();
                send(mover, socket, size);
                if transport == Transport::WireUdp {
                    udp::close(&own).unwrap();
                }
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
}

/// How often a mover's row states that a byte is copied at a place.
fn stated(mover: &str, leg: CopyPlace) -> f64 {
    let copies = Mover::named(mover).unwrap().states.copies;
    f64::from(u8::from(copies.contains(&leg)))
}

/// Whether nothing is absent. The kernel leaves out a program that would interrupt itself, and what
/// it counts is absent then; a run too has several trials for that.
fn counts_all(copies: &Copies) -> bool {
    let counted = copies.copied();
    let mut of_places = counted.iter().filter(|c| PLACES.contains(&c.leg));
    of_places.all(|c| c.bytes.measured().is_some())
}

/// Copies for each byte by the sender, on delivery and for the reader.
#[track_caller]
fn check(copies: &Copies, what: &str, size: usize, expected: [f64; 3]) {
    let counted = copies.copied();
    let per_byte = |leg: CopyPlace| {
        let found = counted.iter().find(|c| c.leg == leg).unwrap();
        let bytes = found.bytes.measured();
        bytes.unwrap_or_else(|| panic!("{what}: {found:?}")) as f64 / (MESSAGES * size) as f64
    };
    let found = PLACES.map(per_byte);
    let near = |(found, expected): (&f64, &f64)| (found - expected).abs() < NEAR;
    assert!(
        found.iter().zip(&expected).all(near),
        "{what}: copied {found:?} times, not {expected:?}: {counted:?}"
    );
}

#[test]
fn on_loopback_each_way_copies_as_often_as_is_known() {
    let _alone = alone();
    let Some(mut copies) = counting() else {
        return;
    };
    for (mover, receiver) in [
        ("send", "recv"),
        ("sendmsg", "recvmsg"),
        ("send-fields", "recv"),
        ("uring-send", "recv"),
        ("send-zerocopy", "recv"),
        ("uring-send-zc", "recv"),
        ("sendfile", "recv"),
        ("splice", "recv"),
        ("vmsplice", "recv"),
        ("send", "recv-discard"),
    ] {
        let size = 65_536;
        over_loopback(&mut copies, mover, receiver, size);
        let mut expected = PLACES.map(|leg| stated(mover, leg));
        if receiver == "recv-discard" {
            expected[2] = 0.0;
        }
        check(&copies, &format!("{mover} to {receiver}"), size, expected);
    }
}

/// A device, and each means that counts what goes into the kernel, by itself.
fn wire_and_means(link: LinkChoice) -> Option<(Wire, Vec<Copies>)> {
    let wire = match Wire::new(link) {
        Ok(wire) => wire,
        Err(e) => {
            assert!(!rustix::process::geteuid().is_root(), "{e}");
            return None;
        }
    };
    let strongest = counting()?;
    let weaker = match strongest.choice().means(CopyPlace::IntoKernel) {
        Some(CopyMeans::Functions) => Copies::by(Path::new("/"), &[CopyMeans::Tracepoints]).ok(),
        _ => None,
    };
    Some((
        wire,
        [Some(strongest), weaker].into_iter().flatten().collect(),
    ))
}

fn nothing_is_copied_but_by_the_sender(
    transport: Transport,
    link: LinkChoice,
    sizes: &[usize],
    movers: &[&'static str],
) {
    let _alone = alone();
    let Some((wire, all)) = wire_and_means(link) else {
        return;
    };
    for mut copies in all {
        let means = copies.choice().means(CopyPlace::IntoKernel).unwrap();
        for mover in movers {
            let sender = stated(mover, CopyPlace::IntoKernel);
            for &size in sizes {
                for _ in 0..TRIALS {
                    over_wire(&mut copies, &wire, transport, mover, size);
                    if counts_all(&copies) {
                        break;
                    }
                }
                let name = transport.name();
                let what = format!(
                    "{mover} of {size} B over {name}, {link:?}, by {}",
                    means.title()
                );
                check(&copies, &what, size, [sender, 0.0, 0.0]);
                println!("{what}: {sender:.0} copies per byte");
            }
        }
    }
}

#[test]
fn over_wire_nothing_is_copied_but_by_the_sender() {
    let [tun, veth] = [Device::Tun, Device::Veth].map(|device| LinkChoice {
        device,
        ..LinkChoice::default()
    });
    let small = LinkChoice {
        segment_bytes: Some(4096),
        ..veth
    };
    let movers = [
        "send",
        "send-zerocopy",
        "uring-send-zc",
        "sendfile",
        "vmsplice",
    ];
    // Small sends by io_uring are flagged as copied on Linux 6.18, and are not.
    for (link, sizes) in [
        (tun, &[4096, 65_536][..]),
        (veth, &[65_536]),
        (small, &[65_536]),
    ] {
        nothing_is_copied_but_by_the_sender(Transport::Wire, link, sizes, &movers);
    }
}

#[test]
fn over_wire_no_datagram_is_copied_but_by_the_sender() {
    // One packet, and one that a card would cut into many.
    nothing_is_copied_but_by_the_sender(
        Transport::WireUdp,
        LinkChoice::default(),
        &[1000, 32_000],
        &[
            "send",
            "sendmsg",
            "uring-send",
            "send-zerocopy",
            "uring-send-zc",
        ],
    );
}
