//! Known truths for the count of copies: over wire nobody copies a mover's bytes but their sender.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytecost_engine::{Mover, Offer, Setup};
use bytecost_evidence::{Copies, Parties};
use bytecost_lab::transports::link::LinkChoice;
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

fn over_wire(
    copies: &mut Copies,
    wire: &Wire,
    transport: Transport,
    mover: &'static str,
    size: usize,
) {
    let mut far = wire.responder(128 << 10, 1).unwrap();
    let me = std::process::id();
    let parties = Parties {
        port: Some(FAR_END.port()),
        network: Some(rustix::fs::fstat(wire.network()).unwrap().st_ino),
        sender: me,
        receiver: Some(me),
    };
    copies.begin(parties).unwrap();
    let sending = wire.answered(&mut far, || {
        let socket = transports::connect(&cell(transport), &FAR_END.to_string()).unwrap();
        let own = socket.try_clone().unwrap();
        send(mover, socket, size);
        if transport == Transport::WireUdp {
            udp::close(&own).unwrap();
        }
    });
    sending.unwrap();
    while far.ended() < 1 {
        far.look().unwrap();
    }
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
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((wire, all)) = wire_and_means(link) else {
        return;
    };
    for mut copies in all {
        let means = copies.choice().means(CopyPlace::IntoKernel).unwrap();
        for mover in movers {
            let stated = Mover::named(mover).unwrap().states.copies;
            let is_copied = stated.contains(&CopyPlace::IntoKernel);
            let sender = f64::from(u8::from(is_copied));
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
