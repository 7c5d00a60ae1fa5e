//! Axes that an option or a file names: used, refused, or noted where they do not apply.

use bytecost_spec::{Axis, Study};

use super::{axes, plan, refuses, study, survey};
use crate::{check_asked, named};

fn asked(text: &str) -> Study {
    let mut one = study(&[]);
    let owned =
        |(axis, values): (Axis, Vec<&str>)| (axis, values.into_iter().map(str::to_owned).collect());
    let axes: Vec<(Axis, Vec<String>)> = axes(text).map(owned).collect();
    one.ask(&axes).unwrap();
    one
}

#[test]
fn an_axis_that_applies_to_no_cell_is_refused_with_the_cells_that_it_is_for() {
    let table = "transport loopback; mtu 9000 | = mtu 9000 applies to no cell of study `copies`: it is for links that are made for the run: --transport veth or wire; choose such cells, or leave mtu out
        transport loopback; mtu auto |
        transport loopback veth; mtu 9000 |
        transport unix; nodelay both | = nodelay off, on applies to no cell of study `copies`: it is for movers that send over TCP; choose such cells, or leave nodelay out
        mover send; reaping never | = reaping never applies to no cell of study `copies`: it is for movers with zero-copy completions; choose such cells, or leave reaping out";
    refuses(table, |axes| {
        let study = asked(axes);
        let refused = check_asked(&study, &study.asked, &survey());
        refused.err().map(|e| e.0)
    });
}

#[test]
fn an_axis_of_a_study_file_is_checked_like_an_option() {
    let file = study(&[("threads = [1, 2, 4]\n\n[[tier]]", "depth = [4]\n\n[[tier]]")]);
    let refused = check_asked(&file, &named(&file), &survey()).unwrap_err();
    let why = "depth 4 applies to no cell";
    assert!(refused.0.starts_with(why), "{refused}");
    let fine = study(&[]);
    assert_eq!(check_asked(&fine, &named(&fine), &survey()), Ok(()));
}

#[test]
fn an_axis_that_applies_to_some_cells_has_a_note_about_them() {
    let some = "reaping is for movers with zero-copy completions: it is used with `uring-send-zc`, and not with `send`";
    for (axes, notes) in [
        (
            "mover send uring-send-zc; transport loopback; size 4KiB; reaping full never",
            &[some][..],
        ),
        ("transport loopback; size 4KiB; nodelay both", &[]),
    ] {
        assert_eq!(plan(&asked(axes)).notes, notes);
    }
}

#[test]
fn an_axis_of_an_option_is_compared() {
    let movers = (Axis::Mover, "send");
    for (axes, others) in [
        // The study varies sizes and threads, and compares movers in these cells.
        ("size 4KiB 64KiB", &[][..]),
        ("nodelay both", &[(Axis::Nodelay, "off")]),
        (
            "mover send; nodelay both; cork both",
            &[(Axis::Nodelay, "off"), (Axis::Cork, "off")],
        ),
        ("mover send; threads 4 2", &[(Axis::Threads, "4")]),
        (
            "mover send; transport veth; mtu 1500 auto 9000",
            &[(Axis::Mtu, "1500")],
        ),
        ("mover send; threads 2", &[]),
    ] {
        let study = asked(axes);
        let found = (study.compare.iter())
            .map(|c| (c.axis, c.baseline.to_string()))
            .collect::<Vec<_>>();
        let expected = ([movers].iter().chain(others))
            .map(|(axis, value)| (*axis, (*value).to_owned()))
            .collect::<Vec<_>>();
        assert_eq!(found, expected);
    }
}
