use super::device::NAME;
use super::responder::{Rules, WireResponder};
use super::*;
use crate::lack::{Lack, skipped};
use crate::transports::tcp;
use crate::transports::veth::SENDER;
use crate::transports::veth::tests::if_allowed;
use bytecost_engine::{Move, Mover, Offer, Setup};
use bytecost_spec::Cell;
use bytecost_spec::cell::{Device, LINK_MTU_BYTES, Nodelay};
use rustix::io::Errno;
use std::fs;
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::ops::Deref;
use std::thread;
use std::time::{Duration, Instant};

const ACKNOWLEDGE_BYTES: u64 = 128 << 10;
const TIMEOUT: Duration = Duration::from_secs(20);

/// A wire with the choice that it was made by.
struct ChosenWire {
    wire: Wire,
    link: LinkChoice,
}

impl Deref for ChosenWire {
    type Target = Wire;

    fn deref(&self) -> &Wire {
        &self.wire
    }
}

/// A wire of each kind; none, and the reason printed, without the rights for one.
fn wires(mtu_bytes: u32) -> impl Iterator<Item = ChosenWire> {
    let of = move |device: &Device| wire(*device, mtu_bytes, None);
    Device::ALL.iter().filter_map(of)
}

fn wire(device: Device, mtu_bytes: u32, segment_bytes: Option<u32>) -> Option<ChosenWire> {
    let link = LinkChoice {
        device,
        mtu_bytes,
        segment_bytes,
    };
    let wire = if_allowed(Wire::new(link))?;
    Some(ChosenWire { wire, link })
}

fn responder(wire: &ChosenWire, flows_most: usize) -> WireResponder {
    acknowledging(wire, ACKNOWLEDGE_BYTES, flows_most)
}

/// The responder at the far end, which acknowledges after so many bytes of a flow.
fn acknowledging(wire: &ChosenWire, acknowledge_bytes: u64, flows_most: usize) -> WireResponder {
    let [far, map] = wire
        .descriptors()
        .map(|fd| fd.try_clone_to_owned().unwrap());
    let rules = Rules {
        link: wire.link,
        acknowledge_bytes,
        flows_most,
    };
    WireResponder::new(far, map, rules).unwrap()
}

/// Does something in the wire's network while the responder polls, until so many flows have ended.
fn answered<T: Send>(
    wire: &Wire,
    far: &mut WireResponder,
    ends: usize,
    work: impl FnOnce() -> T + Send,
) -> T {
    let got = thread::scope(|scope| {
        let working = scope.spawn(|| wire.network.within(work).unwrap());
        while !working.is_finished() {
            far.poll().unwrap();
        }
        working.join().unwrap()
    });
    let began = Instant::now();
    while far.ended() < ends {
        far.poll().unwrap();
        assert!(began.elapsed() < TIMEOUT, "{:?}", far.tally());
    }
    got
}

#[test]
fn all_that_is_sent_is_counted_and_acknowledged() {
    let mtus = [LINK_MTU_BYTES, 576, 9000];
    for wire in mtus.into_iter().flat_map(wires) {
        let mut far = responder(&wire, 1);
        let sizes = [1_usize, 12, 4096, 1 << 20, 300_001];
        let stream = answered(&wire, &mut far, 1, || {
            let mut stream = TcpStream::connect(FAR_END).unwrap();
            for size in sizes {
                stream.write_all(&vec![7; size]).unwrap();
            }
            stream.shutdown(Shutdown::Write).unwrap();
            stream
        });
        let (link, tally) = (wire.link, far.tally());
        let sent = bytecost_sys::tcp::info(&stream).unwrap();
        let segment = sent.snd_mss_bytes;
        assert_eq!(segment, link.mtu_bytes - 40, "only the opening has options");
        let seen = far.seen().next().unwrap();
        assert_eq!(seen.bytes, sizes.iter().sum::<usize>() as u64, "{link:?}");
        assert!(seen.closed && !seen.reset, "{seen:?}");
        assert_eq!(tally.gaps, 0, "{link:?} {tally:?}");
        // On a busy machine TCP may send again for lack of timeout, and counts that itself.
        let again = u64::from(sent.retransmits);
        assert!(tally.repeats <= again, "{link:?} {tally:?} {again}");
        assert!(tally.acknowledgements >= 2, "{tally:?}");
    }
}

#[test]
fn packets_are_no_larger_than_they_may_be() {
    const BYTES: usize = 4 << 20;
    let packets = |device, segment_bytes, mtu_bytes| {
        let wire = wire(device, mtu_bytes, segment_bytes)?;
        let mut far = responder(&wire, 1);
        answered(&wire, &mut far, 1, || {
            let mut stream = TcpStream::connect(FAR_END).unwrap();
            stream.write_all(&vec![7; BYTES]).unwrap();
        });
        let seen = far.seen().next().unwrap();
        assert_eq!(seen.bytes, BYTES as u64);
        Some(seen.packets)
    };
    for device in Device::ALL.iter().copied() {
        for (segment, mtu) in [(1500, 1500), (3000, 1500), (16 << 10, 1500), (20_000, 9000)] {
            let Some(packets) = packets(device, Some(segment), mtu) else {
                return;
            };
            let whole = u64::from((segment - 40) / (mtu - 40) * (mtu - 40));
            let least = (BYTES as u64).div_ceil(whole);
            let message = format!("{device:?} {segment}: {packets} for {least}");
            // Those of the beginning, while TCP tries how much it may send, are smaller.
            assert!((least..2 * least).contains(&packets), "{message}");
        }
        let least = (BYTES / 65_536) as u64;
        for segment in [None, Some(65_536)] {
            let packets = packets(device, segment, 1500).unwrap();
            let message = format!("{device:?} {segment:?}: {packets}");
            assert!((least..4 * least).contains(&packets), "{message}");
        }
    }
    // More than a packet of IPv4 can say that it has.
    let large = packets(Device::Veth, Some(256 << 10), 1500).unwrap();
    assert!(large < (BYTES / 65_536) as u64, "{large}");
}

#[test]
fn a_bound_beyond_the_devices_own_is_refused() {
    let link = LinkChoice {
        segment_bytes: Some(128 << 10),
        ..LinkChoice::default()
    };
    let why = Wire::new(link).unwrap_err().to_string();
    if rustix::process::geteuid().is_root() {
        let message = "does not bound the packets of bytecost0 to 131072 bytes";
        assert!(why.contains(message), "{why}");
    }
}

/// Bounds the notes that zero-copy sends may have in a network; false, and printed why, before Linux
/// 6.8, where the bound is not the network's own.
fn bound_notes(network: &Network, optmem_max: &str) -> bool {
    let bound = || fs::write("/proc/sys/net/core/optmem_max", optmem_max);
    let bounded = network.within(bound).unwrap();
    bounded.map_err(|e| skipped(Lack::Machine, e)).is_ok()
}

/// Room for some four notes.
const FEW_NOTES_BYTES: &str = "4096";

/// A zero-copy sender with as many buffers in flight as there are messages.
fn zero_copy_sender() -> Box<dyn Move> {
    let cell = Cell {
        nodelay: Nodelay::On,
        congestion: "default".to_owned(),
        ..Cell::default()
    };
    let socket = tcp::connect(&cell, &FAR_END.to_string(), TIMEOUT).unwrap();
    let setup = Setup {
        socket: Some(socket),
        fields: 8,
        slots: 256,
        ..Setup::new(1000, TIMEOUT)
    };
    Mover::named("send-zerocopy").unwrap().open(setup).unwrap()
}

#[test]
fn sends_that_the_kernel_has_no_room_to_note_wait_for_completions_and_go_out() {
    const MESSAGES: u64 = 256;
    for wire in wires(LINK_MTU_BYTES) {
        if !bound_notes(&wire.network, FEW_NOTES_BYTES) {
            return;
        }
        // It acknowledges where nothing has come for a while: once the sender waits.
        let mut far = acknowledging(&wire, 1 << 30, 1);
        answered(&wire, &mut far, 1, || {
            let mut mover = zero_copy_sender();
            while mover.tally().messages < MESSAGES {
                if mover.offer().unwrap() == Offer::Full {
                    mover.reap(1).unwrap();
                }
            }
            mover.flush().unwrap();
            while mover.tally().held > mover.tally().released {
                mover.reap(1).unwrap();
            }
            let tally = mover.tally();
            assert_eq!((tally.messages, tally.released), (MESSAGES, MESSAGES));
            assert!(tally.enobufs > 0, "{tally:?}");
            // Where not even one may be outstanding, no completion can be waited for.
            fs::write("/proc/sys/net/core/optmem_max", "1").unwrap();
            let why = mover.offer().unwrap_err().to_string();
            for word in ["ENOBUFS", "optmem_max"] {
                assert!(why.contains(word), "{why}");
            }
        });
    }
}

#[test]
fn more_flows_than_are_waited_for_are_not_answered() {
    for wire in wires(LINK_MTU_BYTES) {
        let mut far = responder(&wire, 1);
        let refused = answered(&wire, &mut far, 1, || {
            let first = TcpStream::connect(FAR_END).unwrap();
            let second = TcpStream::connect_timeout(&FAR_END.into(), Duration::from_millis(100));
            drop(first);
            second.is_err()
        });
        assert!(refused);
        assert_eq!(far.opened(), 1);
    }
}

#[test]
fn what_is_left_of_earlier_flows_is_not_taken_for_new_ones() {
    for wire in wires(LINK_MTU_BYTES) {
        let wait = Duration::from_millis(50);
        let connect = || TcpStream::connect_timeout(&FAR_END.into(), wait).is_ok();
        let was_answered = wire.network.within(connect).unwrap();
        assert!(!was_answered, "nobody polls");
        let mut far = responder(&wire, 1);
        far.poll().unwrap();
        assert_eq!(far.opened(), 0);
    }
}

#[test]
fn nothing_else_is_let_through_and_nobody_else_is_there() {
    for wire in wires(LINK_MTU_BYTES) {
        let read = |path: &'static str| {
            let text = wire.network.within(|| fs::read_to_string(path).unwrap());
            text.unwrap()
        };
        let links = read("/proc/thread-self/net/dev");
        // Two lines of heads, and lo; a packet socket at the far end of a pair takes what comes in
        // there, and nothing of what is sent.
        let (lines, taken): (usize, &[&str]) = match wire.link.device {
            Device::Tun => (4, &[]),
            Device::Veth => (5, &["0800"]),
        };
        assert_eq!(links.lines().count(), lines, "{links}");
        let list = read("/proc/thread-self/net/packet");
        let sockets = list.lines().skip(1);
        let protocols = sockets.filter_map(|l| l.split_whitespace().nth(3));
        assert_eq!(protocols.collect::<Vec<&str>>(), taken, "{list}");
        let routes = read("/proc/thread-self/net/route");
        assert_eq!(routes.lines().count(), 2, "{routes}");
        let sent = wire.network.within(|| {
            let socket = std::net::UdpSocket::bind((SENDER, 0)).unwrap();
            socket.send_to(b"anything", FAR_END).unwrap()
        });
        assert_eq!(sent.unwrap(), 8);
        let mut packet = [0; 2048];
        let nothing = rustix::io::read(wire.descriptors()[0], &mut packet);
        assert_eq!(nothing, Err(Errno::AGAIN));
        let outside = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        assert!(!outside.contains(NAME), "{outside}");
    }
}

#[test]
fn an_error_says_what_to_do() {
    let check = |part: NetworkPart, error: io::Error, says: &str| {
        let error = refused(part, &error).to_string();
        assert!(error.contains(says), "{error}");
    };
    let refused = || io::Error::new(io::ErrorKind::PermissionDenied, "bpf");
    check(NetworkPart::Program, refused(), "sudo bytecost");
    check(NetworkPart::Namespaces, Errno::PERM.into(), "CAP_NET_ADMIN");
    check(NetworkPart::Tun, Errno::NOENT.into(), "modprobe tun");
    check(
        NetworkPart::Namespaces,
        Errno::INVAL.into(),
        "CONFIG_NET_NS",
    );
    check(
        NetworkPart::Program,
        Errno::INVAL.into(),
        "CONFIG_BPF_SYSCALL",
    );
}
