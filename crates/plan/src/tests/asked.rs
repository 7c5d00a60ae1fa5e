//! Axes that someone named: used, refused, or told where they are not.

use bytecost_spec::{Axis, Study};

use super::{plan, study, survey};
use crate::{check_asked, named};

fn asked(axes: &[(Axis, &str)]) -> Study {
    let mut one = study(&[]);
    let values = |text: &str| text.split(' ').map(str::to_owned).collect();
    let axes: Vec<(Axis, Vec<String>)> = axes.iter().map(|(a, v)| (*a, values(v))).collect();
    one.ask(&axes).unwrap();
    one
}

#[test]
fn what_applies_to_no_cell_is_refused_with_what_it_is_for() {
    let check = |axes: &[(Axis, &str)], why: Option<&str>| {
        let study = asked(axes);
        let refused = check_asked(&study, &study.asked, &survey()).err();
        assert_eq!(refused.map(|e| e.0).as_deref(), why);
    };
    let over = |transport| (Axis::Transport, transport);
    check(
        &[over("loopback"), (Axis::Mtu, "9000")],
        Some(
            "mtu 9000 applies to no cell of study `copies`: it is for links that are made for the run: --transport veth, wire or wire-udp; choose such cells, or leave mtu out",
        ),
    );
    check(&[over("loopback"), (Axis::Mtu, "auto")], None);
    check(&[over("loopback veth"), (Axis::Mtu, "9000")], None);
    check(
        &[over("unix"), (Axis::Nodelay, "both")],
        Some(
            "nodelay off, on applies to no cell of study `copies`: it is for movers that send over TCP; choose such cells, or leave nodelay out",
        ),
    );
    check(
        &[(Axis::Mover, "send"), (Axis::Reaping, "never")],
        Some(
            "reaping never applies to no cell of study `copies`: it is for movers with zero-copy completions; choose such cells, or leave reaping out",
        ),
    );
}

#[test]
fn what_a_file_names_is_held_to_the_same() {
    let file = study(&[("threads = [1, 2, 4]\n\n[[tier]]", "depth = [4]\n\n[[tier]]")]);
    let refused = check_asked(&file, &named(&file), &survey()).unwrap_err();
    assert!(
        refused.0.starts_with("depth 4 applies to no cell"),
        "{refused}"
    );
    let fine = study(&[]);
    assert_eq!(check_asked(&fine, &named(&fine), &survey()), Ok(()));
}

#[test]
fn what_applies_to_some_cells_is_told_with_those() {
    let notes = |axes: &[(Axis, &str)]| plan(&asked(axes)).notes;
    let some = notes(&[
        (Axis::Mover, "send uring-send-zc"),
        (Axis::Transport, "loopback"),
        (Axis::Size, "4KiB"),
        (Axis::Reaping, "full never"),
    ]);
    assert_eq!(
        some,
        [
            "reaping is for movers with zero-copy completions: it is used with `uring-send-zc`, and not with `send`"
        ]
    );
    let all = notes(&[
        (Axis::Transport, "loopback"),
        (Axis::Size, "4KiB"),
        (Axis::Nodelay, "both"),
    ]);
    assert_eq!(all, [""; 0]);
}

#[test]
fn what_is_asked_for_is_compared() {
    let check = |axes: &[(Axis, &str)], expected: &[(Axis, &str)]| {
        let study = asked(axes);
        let found = study.compare.iter().map(|c| (c.axis, c.baseline.as_str()));
        assert_eq!(found.collect::<Vec<_>>(), expected);
    };
    let movers = (Axis::Mover, "send");
    // The study goes along sizes and threads, and compares movers there.
    check(&[(Axis::Size, "4KiB 64KiB")], &[movers]);
    check(
        &[(Axis::Nodelay, "both")],
        &[movers, (Axis::Nodelay, "off")],
    );
    check(
        &[movers, (Axis::Nodelay, "both"), (Axis::Cork, "both")],
        &[movers, (Axis::Nodelay, "off"), (Axis::Cork, "off")],
    );
    check(
        &[movers, (Axis::Threads, "4 2")],
        &[movers, (Axis::Threads, "4")],
    );
    check(
        &[
            movers,
            (Axis::Transport, "veth"),
            (Axis::Mtu, "1500 auto 9000"),
        ],
        &[movers, (Axis::Mtu, "1500")],
    );
    check(&[movers, (Axis::Threads, "2")], &[movers]);
}
