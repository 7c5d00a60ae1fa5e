//! What a host refuses, with its reason and its remedy.

use bytecost_spec::{Axis, Cell, Host, Survey};

use super::{host, study, survey};
use crate::Plan;

/// One cell, on this host; gives back why it is refused.
pub(super) fn refused(changes: &[(Axis, &str)], host: &Host, survey: &Survey) -> Option<String> {
    let mut one = study(&[]);
    for axis in [Axis::Transport, Axis::Mover, Axis::Size, Axis::Threads] {
        let default = Cell::default().value(axis);
        one.set_axis(axis, &[default]).unwrap();
    }
    for (axis, value) in changes {
        one.set_axis(*axis, &[(*value).to_owned()]).unwrap();
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
    let zc = (Axis::Mover, "uring-send-zc");
    for (changes, needle) in [
        (&[(Axis::Transport, "loopback")][..], ""),
        (&[zc], ""),
        (
            &[zc, (Axis::Transport, "unix")],
            "mover `uring-send-zc` over unix: Unix sockets have no zero-copy",
        ),
        (&[(Axis::Payload, "refilled")], ""),
        (
            &[(Axis::Payload, "refilled"), (Axis::Mover, "sendfile")],
            "payload `refilled` with mover `sendfile`: nothing reports when its pages were read",
        ),
        (&[(Axis::Pattern, "ask"), (Axis::Size, "32")], ""),
        (
            &[(Axis::Pattern, "ask"), (Axis::Answer, "1MiB")],
            "responses of 1 MiB to messages of 64 KiB: a response is never longer than its message",
        ),
        (&[(Axis::Reaping, "never")], ""),
        (
            &[zc, (Axis::Reaping, "one-look")],
            "reaping `one-look` with mover `uring-send-zc`: its completions and results share one ring",
        ),
        (
            &[(Axis::Congestion, "bbr")],
            "congestion control `bbr` is not available on this machine (cubic, reno are)",
        ),
        (&[(Axis::Congestion, "bbr"), (Axis::Transport, "unix")], ""),
        (
            &[zc, (Axis::Threads, "4")],
            "locks 16 MiB of payload, the limit is 8 MiB: raise it with `ulimit -l 16384`",
        ),
        (
            &[zc, (Axis::Size, "3MiB")],
            "RLIMIT_MEMLOCK: `uring-send-zc` locks 12 MiB",
        ),
        (&[(Axis::Threads, "256")], ""),
        (
            &[(Axis::Threads, "256"), (Axis::Ring, "12MiB")],
            "memory: both sides need 6 GiB for payload, more than half of this machine's 8.0 GiB",
        ),
        (
            &[(Axis::Placement, "0:2")],
            "CPU 2 is not among those that this process may use (0-1)",
        ),
        (&[(Axis::Placement, "0:1")], ""),
        (&[(Axis::Transport, "wire")], ""),
        (
            &[(Axis::Transport, "wire"), (Axis::Pattern, "ask")],
            "pattern `request-response` over wire: there is no receiver to respond: choose --pattern stream",
        ),
        (&[(Axis::Transport, "wire-udp"), (Axis::Size, "65507")], ""),
        (
            &[(Axis::Transport, "wire-udp"), (Axis::Size, "64KiB")],
            "messages of 64 KiB over wire-udp: UDP takes 65507 bytes at most: choose a smaller --size",
        ),
        (
            &[
                (Axis::Transport, "wire-udp"),
                (Axis::Size, "60KiB"),
                (Axis::Mtu, "900"),
            ],
            "cut into 71 datagrams, and kernels before Linux 6.9 allow 64",
        ),
        (
            &[
                (Axis::Transport, "wire-udp"),
                (Axis::Size, "4KiB"),
                (Axis::Pattern, "ask"),
            ],
            "pattern `request-response` over wire-udp",
        ),
    ] {
        match refused(changes, &host(), &survey()) {
            Some(why) => assert!(
                !needle.is_empty() && why.contains(needle),
                "{changes:?}: {why}"
            ),
            None => assert_eq!(needle, "", "{changes:?}"),
        }
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
    let check = |transport, mover, size, fields, needle: &str| {
        let changes = [
            (Axis::Transport, transport),
            (Axis::Mover, mover),
            (Axis::Size, size),
            (Axis::Fields, fields),
        ];
        let why = refused(&changes, &host(), &gathers).unwrap_or_default();
        assert_eq!(why.is_empty(), needle.is_empty(), "{changes:?}: {why}");
        assert!(why.contains(needle), "{why}");
    };
    let told = "with 8 fields of 7500 bytes: they may lie in 23 pieces of pages, and a packet holds at most 17: choose --fields 1";
    check("wire-udp", "uring-send-zc", "60000", "8", told);
    check("wire-udp", "uring-send-zc", "65507", "1", "");
    check("wire-udp", "uring-send-zc", "24KiB", "8", "");
    check("wire-udp", "send", "60000", "8", "");
    check("wire", "uring-send-zc", "60000", "8", "");
}
