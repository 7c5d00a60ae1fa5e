//! What a host refuses, with its reason and its remedy.

use bytecost_spec::{Axis, Cell, Host, Survey};

use super::{host, is_refused, rows, study, survey};
use crate::Plan;

/// One cell, on this host; gives back why it is refused.
pub(super) fn refused(changes: &[(Axis, &str)], host: &Host, survey: &Survey) -> Option<String> {
    let mut one = study(&[]);
    for axis in [Axis::Transport, Axis::Mover, Axis::Size, Axis::Threads] {
        let default = Cell::default().value(axis);
        one.set_axis(axis, &[default]).unwrap();
    }
    for (axis, value) in changes {
        one.set_axis(*axis, &[*value]).unwrap();
    }
    let plan = Plan::new(&one, host, survey, 1).unwrap();
    assert_eq!(plan.cells.is_empty(), !plan.refusals.is_empty());
    assert!(plan.refusals.len() < 2);
    plan.refusals.into_iter().next().map(|r| {
        assert!(r.what.contains('/'), "a refusal names its cell: {}", r.what);
        r.why
    })
}

// Invariant 5.
#[test]
fn what_cannot_be_had_is_refused_with_its_remedy() {
    let table = "transport loopback |
        mover uring-send-zc |
        mover uring-send-zc; transport unix | mover `uring-send-zc` over unix: Unix sockets have no zero-copy
        payload refilled |
        payload refilled; mover sendfile | payload `refilled` with mover `sendfile`: nothing reports when its pages were read
        pattern ask; size 32 |
        pattern ask; response 1MiB | responses of 1 MiB to messages of 64 KiB: a response is never longer than its message
        reaping never |
        mover uring-send-zc; reaping one-look | reaping `one-look` with mover `uring-send-zc`: its completions and results share one ring
        congestion bbr | congestion control `bbr` is not available on this machine (cubic, reno are)
        congestion bbr; transport unix |
        mover uring-send-zc; threads 4 | locks 16 MiB of payload, the limit is 8 MiB: raise it with `ulimit -l 16384`
        mover uring-send-zc; size 3MiB | RLIMIT_MEMLOCK: `uring-send-zc` locks 12 MiB
        threads 256 |
        threads 256; ring 12MiB | memory: both sides need 6 GiB for payload, more than half of this machine's 8.0 GiB
        placement 0:2 | CPU 2 is not among those that this process may use (0-1)
        placement 0:1 |
        transport wire |
        transport wire; pattern ask | pattern `request-response` over wire: there is no receiver to respond: choose --pattern stream
        transport wire-udp; size 65507 |
        transport wire-udp; size 64KiB | messages of 64 KiB over wire-udp: UDP takes 65507 bytes at most: choose a smaller --size
        transport wire-udp; size 60KiB; mtu 900 | cut into 71 datagrams, and kernels before Linux 6.9 allow 64
        transport wire-udp; size 4KiB; pattern ask | pattern `request-response` over wire-udp";
    for (axes, reason) in rows(table) {
        is_refused(&axes, refused(&axes, &host(), &survey()), reason);
    }
}

#[test]
fn limits_are_the_hosts() {
    let small = Host {
        nofile_limit: 256,
        ..host()
    };
    assert_eq!(
        refused(&[(Axis::Threads, "128")], &small, &survey()).unwrap(),
        "RLIMIT_NOFILE: 128 flows of `send` need 320 open files, the limit is 256: raise it with `ulimit -n 320`, or choose fewer --threads"
    );
    let bounded = Host {
        wmem_max_bytes: Some(212_992),
        rmem_max_bytes: Some(425_984),
        ..host()
    };
    let buffer = |bytes| refused(&[(Axis::SocketBuffer, bytes)], &bounded, &survey());
    assert_eq!(buffer("416KiB"), None, "twice the bound is given");
    assert_eq!(
        buffer("1GiB").unwrap(),
        "socket buffers of 1 GiB: net.core.wmem_max is 212992 bytes, and the kernel gives twice that: choose a smaller --socket-buffer, or raise net.core.wmem_max and net.core.rmem_max"
    );
    let zc4 = &[(Axis::Mover, "uring-send-zc"), (Axis::Threads, "4")][..];
    for free in [
        Host {
            memlock_exempt: true,
            ..host()
        },
        Host {
            memlock_limit_bytes: None,
            ..host()
        },
    ] {
        assert_eq!(refused(zc4, &free, &survey()), None);
    }
    let listed = Host {
        congestion_available: vec!["cubic".into(), "bbr".into()],
        ..host()
    };
    let tried = Survey {
        congestion_controls: vec!["cubic".into()],
        ..survey()
    };
    let why = refused(&[(Axis::Congestion, "bbr")], &listed, &tried).unwrap();
    assert!(why.contains("tcp_allowed_congestion_control"), "{why}");
}

#[test]
fn the_default_congestion_control_gives_way_and_says_so() {
    let bbr = Host {
        congestion_default: Some("bbr".into()),
        congestion_available: vec!["reno".into(), "bbr".into()],
        ..host()
    };
    let plan = Plan::new(&study(&[]), &bbr, &survey(), 7).unwrap();
    let is_moved = |c: &&Cell| c.mover != "null";
    let mut moved = plan.cells.iter().filter(is_moved);
    assert!(moved.all(|c| c.congestion == "bbr"));
    assert!(plan.notes[0].contains("`cubic` is not available"));
    let mut asked = study(&[]);
    let both = ["cubic".to_owned(), "reno".to_owned()];
    asked.set_axis(Axis::Congestion, &both).unwrap();
    let plan = Plan::new(&asked, &bbr, &survey(), 7).unwrap();
    assert!(plan.cells.iter().all(|c| c.congestion != "bbr"));
    assert!(plan.refusals.iter().any(|r| r.why.contains("`cubic`")));
    assert_eq!(plan.notes, Vec::<String>::new());
}

#[test]
fn a_datagram_has_places_for_so_many_pieces_of_pages() {
    let mut gathers = survey();
    for mover in &mut gathers.mover_facts {
        mover.uses_fields = mover.name == "uring-send-zc";
    }
    let table = "transport wire-udp; mover uring-send-zc; size 60000; fields 8 | with 8 fields of 7500 bytes: they may lie in 23 pieces of pages, and a packet holds at most 17: choose --fields 1
        transport wire-udp; mover uring-send-zc; size 65507; fields 1 |
        transport wire-udp; mover uring-send-zc; size 24KiB; fields 8 |
        transport wire-udp; mover send; size 60000; fields 8 |
        transport wire; mover uring-send-zc; size 60000; fields 8 |";
    for (axes, reason) in rows(table) {
        is_refused(&axes, refused(&axes, &host(), &gathers), reason);
    }
}
