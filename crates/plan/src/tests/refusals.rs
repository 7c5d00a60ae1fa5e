//! Refusals of a host, with reason and remedy.

use bytecost_spec::cell::Device;
use bytecost_spec::host::ResourceLimit;
use bytecost_spec::survey::{IsolationSupport, LinkSupport};
use bytecost_spec::{Axis, Cell, Host, Survey, Transport};

use super::{cell, chosen, host, of_all_kinds, plan_on, refused, refuses, study, survey};

// Invariant 5.
#[test]
fn an_unavailable_cell_is_refused_with_its_remedy() {
    let table = "transport loopback |
        mover uring-send-zc |
        mover uring-send-zc; transport unix | mover `uring-send-zc` over unix: Unix sockets have no zero-copy
        payload refilled |
        payload refilled; mover sendfile | payload `refilled` with mover `sendfile`: nothing reports when its pages were read
        pattern request-response; size 32 |
        pattern request-response; response 1MiB | responses of 1 MiB to messages of 64 KiB: a response is never longer than its message
        reaping never |
        mover uring-send-zc; reaping one-look | reaping `one-look` with mover `uring-send-zc`: its completions and results share one ring
        congestion bbr | congestion control `bbr` is not available to this process (cubic, reno are)
        congestion bbr; transport unix |
        mover uring-send-zc; threads 4 | locks 16 MiB of payload, the limit is 8 MiB: raise it with `ulimit -l 16384`
        mover uring-send-zc; size 3MiB | RLIMIT_MEMLOCK: `uring-send-zc` locks 12 MiB
        mover uring-send-zc; size 256MiB | RLIMIT_MEMLOCK: `uring-send-zc` locks 1 GiB
        mover uring-send-zc; size 257MiB | with a buffer of 1077936128 bytes: io_uring registers at most 1 GiB as one
        threads 256 |
        threads 256; ring 12MiB | memory: both sides need 6 GiB for payload, more than half of this machine's 8.0 GiB
        placement 0:2 | CPU 2 is not among those that this process may use (0-1)
        placement 0:1 |
        transport peer | none is known: name it with --peer
        transport wire |
        transport wire; pattern request-response | pattern `request-response` over wire: there is no receiver to respond: choose --pattern stream";
    refuses(table, |axes| refused(axes, &host(), &survey()));
}

fn limit(name: &str, limit: u64, used: u64) -> Option<ResourceLimit> {
    Some(ResourceLimit {
        name: name.to_owned(),
        limit,
        used,
    })
}

#[test]
fn limits_of_the_host_refuse_cells() {
    let with = |change: fn(&mut Host)| {
        let mut host = host();
        change(&mut host);
        host
    };
    for (host, table) in [
        (
            with(|h| h.nofile_limit = 256),
            "threads 128 | = RLIMIT_NOFILE: 128 flows of `send` need 320 open files, the limit is 256: raise it with `ulimit -n 320`, or choose fewer --threads",
        ),
        (
            with(|h| (h.wmem_max_bytes, h.rmem_max_bytes) = (Some(212_992), Some(425_984))),
            "socket-buffer 416KiB |
            socket-buffer 1GiB | = socket buffers of 1 GiB: net.core.wmem_max is 212992 bytes, and the kernel gives twice that: choose a smaller --socket-buffer, or raise net.core.wmem_max and net.core.rmem_max",
        ),
        (
            with(|h| h.threads_limit = limit("RLIMIT_NPROC (ulimit -u)", 9, 2)),
            "threads 1 |
            threads 2 | = 2 flows with 8 threads and processes: 7 of 9 are left (RLIMIT_NPROC (ulimit -u)): raise the limit, or choose fewer --threads",
        ),
        (
            with(|h| h.memory_limit = limit("memory.max of /sys/fs/cgroup/a", 96 << 20, 0)),
            "threads 4 |
            threads 8 | = memory: both sides need 64 MiB for payload, more than half of the 96 MiB of memory.max of /sys/fs/cgroup/a: choose a smaller --ring, or fewer --threads",
        ),
        (
            with(|h| h.address_space_limit_bytes = Some(100 << 20)),
            "threads 8 | more than half of the 100 MiB of RLIMIT_AS",
        ),
        (
            with(|h| h.memlock_exempt = true),
            "mover uring-send-zc; threads 4 |",
        ),
        (
            with(|h| h.memlock_limit_bytes = None),
            "mover uring-send-zc; threads 4 |",
        ),
        (
            with(|h| h.congestion_available.push("bbr".to_owned())),
            "congestion bbr | tcp_allowed_congestion_control",
        ),
    ] {
        let tried = Survey {
            congestion_controls: vec!["cubic".into()],
            ..survey()
        };
        refuses(table, |axes| refused(axes, &host, &tried));
    }
}

#[test]
fn an_unavailable_default_congestion_control_has_a_substitute_and_a_note() {
    let bbr = Host {
        congestion_default: Some("bbr".into()),
        congestion_available: vec!["reno".into(), "bbr".into()],
        ..host()
    };
    // The first control without pacing is preferred to the system's own, which has a note.
    let only_bbr = Survey {
        congestion_controls: vec!["bbr".into()],
        ..survey()
    };
    for (survey, expected, means) in [
        (survey(), "reno", "`reno`, which does not pace"),
        (only_bbr, "bbr", "`bbr`, the system's; if it paces"),
    ] {
        let plan = plan_on(&study(&[]), &bbr, &survey);
        let has_substitute = |c: &Cell| c.mover == "null" || c.congestion == expected;
        assert!(plan.cells.iter().all(has_substitute));
        let note = &plan.notes[0];
        assert!(note.contains("`cubic` is not available"), "{note}");
        assert!(note.contains(means), "{note}");
    }
    // A control of the command line has no substitute.
    let mut named = chosen(study(&[]), "congestion cubic");
    named.asked = vec![Axis::Congestion];
    let of_named = plan_on(&named, &bbr, &survey());
    assert!(of_named.refused.iter().any(|r| r.why.contains("`cubic`")));
    let asked = chosen(study(&[]), "congestion cubic reno");
    let plan = plan_on(&asked, &bbr, &survey());
    assert!(plan.cells.iter().all(|c| c.congestion != "bbr"));
    assert!(plan.refused.iter().any(|r| r.why.contains("`cubic`")));
    assert_eq!(plan.notes, [""; 0]);
}

/// A survey in which these devices of wires are refused for these reasons.
fn with_devices([tun, veth]: [Option<&str>; 2]) -> Survey {
    let link = |transport, device, most: u32, refused: Option<&str>| LinkSupport {
        transport,
        device,
        segment_bytes_most: Some(most),
        refused: refused.map(str::to_owned),
    };
    Survey {
        links: vec![
            link(Transport::Wire, Device::Tun, 65_536, tun),
            link(Transport::Wire, Device::Veth, 524_280, veth),
            link(Transport::Veth, Device::Tun, 524_280, None),
        ],
        ..survey()
    }
}

#[test]
fn an_unavailable_segment_or_device_is_refused() {
    let small = "segment of 1499 B with an MTU of 1500: one whole packet already has more: choose a --segment of at least 1500, or a smaller --mtu";
    let large = "segment of 128 KiB over wire: the kernel hands a tun device 65536 bytes at most in one packet: choose a smaller --segment, or --device veth";
    let segments = format!(
        "transport loopback; segment auto |
        transport wire; segment 16KiB; device tun |
        transport wire; segment 16KiB; device veth |
        transport wire; segment 1500; device tun |
        transport wire; segment 1500; device veth |
        transport wire; segment 64KiB; mtu 65535; device tun |
        transport wire; segment 64KiB; mtu 65535; device veth |
        transport wire; segment 1499; device tun | {small}
        transport wire; segment 1499; device veth | {small}
        transport veth; segment 8KiB; mtu 9000 | at least 9000
        transport veth; segment 128KiB |
        transport wire; segment 128KiB; device veth |
        transport wire; segment 128KiB; device tun | {large}"
    );
    for (survey, table) in [
        (with_devices([None; 2]), segments.as_str()),
        (
            with_devices([Some("there is none"), None]),
            "transport wire; device tun | = on a tun device: there is none: or choose --device veth
            transport wire; device veth |",
        ),
        (
            with_devices([Some("there is none"), Some("nor that")]),
            "transport wire; device tun | = on a tun device: there is none
            transport wire; device veth | = on one end of a veth pair: nor that",
        ),
        // The survey did not try.
        (survey(), "transport wire; device tun |"),
    ] {
        refuses(table, |axes| refused(axes, &host(), &survey));
    }
}

#[test]
fn unavailable_or_incompatible_isolation_is_refused_with_its_remedy() {
    let survey = Survey {
        isolation: [
            ("fifo", "none", Some("class fifo: it needs root")),
            ("idle", "none", None),
            ("deadline", "none", None),
            ("deadline", "cpuset", None),
            ("other", "cpuset", None),
            ("other", "cpuset=9", None),
            ("other", "max=50%", None),
        ]
        .map(|(class, cgroup, refused)| IsolationSupport {
            class: class.parse().unwrap(),
            cgroup: cgroup.parse().unwrap(),
            refused: refused.map(str::to_owned),
        })
        .to_vec(),
        ..of_all_kinds()
    };

    let table = "|
        class idle; placement 0:1 |
        class fifo | it needs root
        class rr | it was not tried
        class deadline |
        class deadline; placement 0:1 | --placement free
        class deadline; cgroup cpuset | another --cgroup
        cgroup cpuset |
        cgroup cpuset; placement 0:1 | --placement free
        cgroup cpuset=9 | CPU 9 is not among
        cgroup max=50%; placement 0:1 |";
    refuses(table, |axes| {
        let cell = cell(&format!("mover work-integer; {axes}"));
        let here = crate::SurveyedHost {
            host: &host(),
            survey: &survey,
        };
        crate::refused(&cell, here)
    });
}
