//! What a plan promises, by examples.

use bytecost_spec::manifest::Bisection;
use bytecost_spec::survey::{MoverFacts, ReceiverFacts, Release, Route, Support, Survey};
use bytecost_spec::{Axis, Cell, Host, Manifest, Nodelay, Study, Transport};

use crate::Plan;
use crate::candidates::{Norm, candidates};

mod asked;
mod files;
mod groups;
mod isolation;
mod links;
mod peers;
mod pings;
mod pins;
mod power;
mod properties;
mod refusals;
mod sent;
mod served;
mod twins;

impl Plan {
    /// What so many blocks are taken to last, in ms.
    fn blocks_ms(&self, blocks: u32) -> u64 {
        self.cells.len() as u64 * self.trial_ms * u64::from(blocks)
    }
}

pub(crate) const STUDY: &str = r#"
name = "copies"
title = "Copies"
question = "Which?"
prediction = "The first."
smallest-effect = "5%"
precision = "3%"
budget = "30s"
warmup = "18ms"
window = "100ms"
blocks-least = 6
blocks-most = 40

[axes]
transport = ["loopback", "unix"]
mover = ["send", "sendfile", "uring-send-zc"]
size = ["256", "4KiB", "64KiB", "1MiB"]
threads = [1, 2, 4]

[[tier]]
title = "sizes"
[tier.axes]
mover = ["send", "sendfile", "uring-send-zc"]
size = ["256", "4KiB", "64KiB", "1MiB"]

[[tier]]
title = "threads"
[tier.axes]
mover = ["send", "sendfile", "uring-send-zc"]
size = ["64KiB"]
threads = [1, 2, 4]

[[compare]]
axis = "mover"
baseline = "send"
metrics = ["cpu_s_per_gb"]
"#;

pub(crate) fn study(changes: &[(&str, &str)]) -> Study {
    let mut text = STUDY.to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "`{from}` is not in the study");
        text = text.replace(from, to);
    }
    Study::parse(&text).unwrap()
}

pub(crate) fn host() -> Host {
    Host {
        cpus_allowed: vec![0, 1],
        memory_bytes: 8 << 30,
        congestion_default: Some("cubic".into()),
        congestion_available: vec!["cubic".into(), "reno".into()],
        memlock_limit_bytes: Some(8 << 20),
        nofile_limit: 1024,
        ..Host::default()
    }
}

pub(crate) fn survey() -> Survey {
    let mover = |name: &str, has_peer, locks_rings| MoverFacts {
        name: name.into(),
        release: match name {
            "sendfile" => Release::Never,
            "uring-send-zc" => Release::AtCompletion,
            _ => Release::AtReturn,
        },
        route: if has_peer {
            Route::MemoryToSocket
        } else {
            Route::Nowhere
        },
        locks_rings,
        descriptors_per_flow: 2,
        ..MoverFacts::default()
    };
    let receivers = ["recv", "recv-discard"];
    let supports = |names: &[&str]| -> Vec<Support> {
        let each = |t: Transport| {
            names.iter().map(move |n| Support {
                name: (*n).to_owned(),
                transport: t,
                refused: (t == Transport::Unix && n.ends_with("-zc"))
                    .then(|| "Unix sockets have no zero-copy".to_owned()),
            })
        };
        Transport::WITHIN.iter().flat_map(|t| each(*t)).collect()
    };
    Survey {
        mover_facts: vec![
            mover("null", false, 0),
            mover("send", true, 0),
            mover("sendfile", true, 0),
            mover("uring-send-zc", true, 1),
        ],
        receiver_facts: receivers
            .iter()
            .map(|name| ReceiverFacts {
                name: (*name).to_owned(),
                summary: String::new(),
                sees_content: true,
            })
            .collect(),
        movers: supports(&["send", "sendfile", "uring-send-zc"]),
        receivers: supports(&receivers),
        ..Survey::default()
    }
}

pub(crate) fn plan(study: &Study) -> Plan {
    Plan::new(study, &host(), &survey(), 7).unwrap()
}

/// The manifest of a run of the study on this machine.
pub(crate) fn manifest(study: Study) -> Manifest {
    Manifest {
        id: "x".into(),
        seed: 7,
        host: host(),
        survey: survey(),
        ..Manifest::new(study)
    }
}

/// Axes with their values, and what is expected of them.
type Row<'t> = (Vec<(Axis, &'t str)>, &'t str);

/// Rows of text, one a line: `axis value; axis value | part of the reason`. Nothing stands behind
/// the bar where nothing is refused.
fn rows(table: &str) -> impl Iterator<Item = Row<'_>> {
    let axis = |text: &'_ str| {
        let (name, _) = text.split_once(' ').expect("a value");
        Axis::named(name).unwrap_or_else(|| panic!("no axis `{name}`"))
    };
    let value = |text| str::split_once(text, ' ').map_or("", |(_, value)| value);
    table.lines().map(move |line| {
        let (axes, expected) = line.split_once('|').expect("a bar");
        let axes = axes.split(';').map(str::trim).filter(|a| !a.is_empty());
        let axes = axes.map(|text| (axis(text), value(text)));
        (axes.collect(), expected.trim())
    })
}

/// The study with other values of axes: `axis value value; axis value`.
fn chosen(mut study: Study, axes: &str) -> Study {
    for part in axes.split(';') {
        let (name, values) = part.trim().split_once(' ').expect("values");
        let values: Vec<&str> = values.split(' ').collect();
        study
            .set_axis(Axis::named(name).expect(name), &values)
            .unwrap();
    }
    study
}

/// Holds that something is refused for this reason, or not at all where there is none.
#[track_caller]
fn is_refused(axes: &[(Axis, &str)], why: Option<String>, reason: &str) {
    let why = why.unwrap_or_default();
    assert_eq!(why.is_empty(), reason.is_empty(), "{axes:?}: {why}");
    assert!(why.contains(reason), "{axes:?}: {why}");
}

fn movers(cells: &[Cell]) -> Vec<&str> {
    cells.iter().map(|c| c.mover.as_str()).collect()
}

#[test]
fn the_loop_floor_comes_first_and_whole_tiers_follow() {
    // A trial takes 18 + 100 + 14 ms, and a stream of TCP warms up for 18 ms more, so 30 s pay for
    // 30 cells with 6 blocks each. One of a manifest of old takes 18 + 100 + 25 ms.
    assert_eq!(plan(&study(&[])).trial_ms, 143);
    let plan = plan(&Study {
        grouped: true,
        ..study(&[])
    });
    assert_eq!(plan.trial_ms, 149, "the loop floor takes 132");
    assert_eq!(plan.cells[0].mover, "null");
    assert_eq!(
        plan.cells[0].id_without(&[Axis::Mover]),
        plan.cells[1].id_without(&[Axis::Mover])
    );
    // Twelve of the first tier, six more of the second without one that is refused.
    assert_eq!(plan.cells.len(), 1 + 12 + 6 - 1);
    assert_eq!(plan.blocks_ms(6), 18 * 149 * 6);
}

#[test]
fn what_the_budget_leaves_out_is_told_in_words() {
    let plan = plan(&study(&[]));
    let [rest] = plan.left_out.as_slice() else {
        panic!("{:?}", plan.left_out);
    };
    assert!(
        rest.what.starts_with("the remaining grid: transport unix"),
        "{}",
        rest.what
    );
    assert!(
        rest.why
            .starts_with("the budget of 30s pays for 18 cells with 6 blocks each: `--budget "),
        "{}",
        rest.why
    );
    let at = rest.why.split('`').nth(1).unwrap();
    let budget = at.strip_prefix("--budget ").unwrap();
    let enough = study(&[("budget = \"30s\"", &format!("budget = \"{budget}\""))]);
    assert_eq!(self::plan(&enough).left_out, []);
    assert_eq!(self::plan(&enough).cells.len(), 18 + rest.cells);
}

#[test]
fn a_budget_too_short_for_the_first_tier_keeps_both_ends_of_the_sizes() {
    // 10 s pay for 10 cells: the floor and three sizes of three movers.
    let plan = plan(&study(&[
        ("budget = \"30s\"", "budget = \"10s\""),
        (
            "\"uring-send-zc\"]\nsize = [\"256\"",
            "\"sendfile\"]\nsize = [\"256\"",
        ),
    ]));
    let sizes: Vec<u64> = plan.cells.iter().map(|c| c.size_bytes).collect();
    assert_eq!(
        movers(&plan.cells[1..]),
        [
            "send", "send", "send", "send", "sendfile", "sendfile", "sendfile", "sendfile"
        ]
    );
    assert_eq!(sizes[1..5], [256, 4096, 65_536, 1 << 20]);

    let plan = self::plan(&study(&[("budget = \"30s\"", "budget = \"10s\"")]));
    let mut sizes: Vec<u64> = plan.cells[1..].iter().map(|c| c.size_bytes).collect();
    sizes.dedup();
    assert_eq!(sizes[..3], [256, 65_536, 1 << 20]);
    assert_eq!(plan.cells.len(), 10);
    assert!(plan.notes[0].contains("too short for the first part"));
    assert_eq!(plan.left_out[0].what, "sizes: size 4KiB");
    assert_eq!(plan.left_out[0].cells, 3);
    let plan = self::plan(&study(&[
        ("budget = \"30s\"", "budget = \"1s\""),
        (
            "[\"256\", \"4KiB\", \"64KiB\", \"1MiB\"]",
            "[\"1MiB\", \"64KiB\", \"256\"]",
        ),
    ]));
    assert_eq!(
        plan.left_out[0].what,
        "sizes: mover uring-send-zc; size 256, 1MiB"
    );
}

#[test]
fn even_the_shortest_budget_compares_two() {
    let plan = plan(&study(&[("budget = \"30s\"", "budget = \"1s\"")]));
    assert_eq!(movers(&plan.cells), ["null", "send", "sendfile"]);
    assert!(plan.cells.iter().all(|c| c.size_bytes == 65_536));
    assert!(
        plan.notes[0].contains("longer than the budget"),
        "{:?}",
        plan.notes
    );
}

#[test]
fn what_a_cell_is_compared_with_comes_along() {
    let plan = plan(&study(&[(
        "title = \"threads\"\n[tier.axes]\nmover = [\"send\", \"sendfile\", \"uring-send-zc\"]",
        "title = \"threads\"\n[tier.axes]\nmover = [\"sendfile\"]",
    )]));
    let threads: Vec<(&str, u32)> = plan.cells[13..]
        .iter()
        .map(|c| (c.mover.as_str(), c.threads))
        .collect();
    assert_eq!(
        threads,
        [("sendfile", 2), ("sendfile", 4), ("send", 2), ("send", 4)]
    );
}

#[test]
fn values_that_mean_nothing_make_no_second_cell() {
    let axes = "transport unix; mover null send; receiver recv recv-discard; size 4KiB; threads 1; congestion cubic reno; nodelay on off";
    let both = chosen(study(&[]), axes);
    assert_eq!(both.cells().len(), 16);
    let plan = plan(&both);
    assert_eq!(movers(&plan.cells), ["null", "send", "send"]);
    assert!(
        plan.cells
            .iter()
            .all(|c| (c.mover == "null" || c.congestion == "default") && c.nodelay == Nodelay::Auto)
    );
}

#[test]
fn the_mtu_that_veth_has_anyway_makes_no_second_cell() {
    let check = |transport: &str, mtu: &[&str], expected: &[Option<u32>]| {
        let mut study = study(&[]);
        for (axis, values) in [
            (Axis::Transport, &[transport][..]),
            (Axis::Mover, &["send"]),
            (Axis::Receiver, &["recv"]),
            (Axis::Size, &["4KiB"]),
            (Axis::Threads, &["1"]),
            (Axis::Mtu, mtu),
        ] {
            study.set_axis(axis, values).unwrap();
        }
        let (host, survey) = (host(), survey());
        let norm = Norm::new(&study, &host, &survey, None);
        let found: Vec<Option<u32>> = candidates(&study, &norm)
            .iter()
            .map(|c| c.cell.mtu_bytes)
            .collect();
        assert_eq!(found, expected, "{transport} {mtu:?}");
    };
    check("veth", &["auto", "1500"], &[None]);
    check("veth", &["1500", "9000"], &[None, Some(9000)]);
    check("wire", &["1500", "9000"], &[None, Some(9000)]);
    check("loopback", &["auto", "9000"], &[None]);
}

#[test]
fn where_nobody_receives_how_it_is_received_makes_no_second_cell() {
    let axes = "transport loopback wire; mover send; receiver recv recvmsg; read-size 256KiB message; quickack on; size 4KiB; threads 1; ack-bytes 128KiB 1MiB";
    let study = chosen(study(&[]), axes);
    let (host, survey) = (host(), survey());
    let norm = Norm::new(&study, &host, &survey, None);
    let ids: Vec<String> = candidates(&study, &norm)
        .iter()
        .map(|c| c.cell.id())
        .collect();
    let over = |transport| ids.iter().filter(|id| id.starts_with(transport)).count();
    assert_eq!((over("loopback"), over("wire")), (4, 2), "{ids:?}");
    assert!(ids.iter().any(|id| id.ends_with("/free/ack-bytes=1MiB")));
}

#[test]
fn a_mover_without_completions_stays_comparable_and_is_measured_once() {
    let zc = "uring-send-zc";
    for (reaping, movers_and_reaping) in [
        (
            &["one-look"][..],
            &[("null", "full"), ("send", "full"), (zc, "one-look")][..],
        ),
        (
            &["never", "full"],
            &[
                ("null", "full"),
                ("send", "full"),
                (zc, "never"),
                (zc, "full"),
            ],
        ),
    ] {
        let mut study = study(&[]);
        let reaping: Vec<String> = reaping.iter().map(|r| (*r).to_owned()).collect();
        study.set_axis(Axis::Size, &["4KiB"]).unwrap();
        study.set_axis(Axis::Mover, &["send", zc]).unwrap();
        study.set_axis(Axis::Reaping, &reaping).unwrap();
        let mut survey = survey();
        for mover in &mut survey.mover_facts {
            mover.leaves_completions = mover.name == zc;
        }
        let plan = Plan::new(&study, &host(), &survey, 7).unwrap();
        let got: Vec<_> = plan
            .cells
            .iter()
            .map(|c| (c.mover.as_str(), c.reaping.name()))
            .collect();
        assert_eq!(got, movers_and_reaping);
    }
}

#[test]
fn a_published_design_is_told_as_such() {
    let theirs =
        "\n[[as-published]]\ntitle = \"theirs\"\naxes = { mover = [\"send\", \"sendfile\"] }\n";
    let mut study = Study::parse(&format!("{STUDY}{theirs}")).unwrap();
    assert_eq!(plan(&study).notes, [""; 0]);
    study.choose_as_published().unwrap();
    let plan = plan(&study);
    assert_eq!(movers(&plan.cells), ["null", "send", "sendfile"]);
    let [note] = plan.notes.as_slice() else {
        panic!("{:?}", plan.notes);
    };
    assert!(
        note.starts_with("the traffic is exactly as published"),
        "{note}"
    );
}

#[test]
fn a_study_of_null_alone_has_no_floor_but_itself() {
    let mut only = study(&[]);
    only.set_axis(Axis::Mover, &["null"]).unwrap();
    only.set_axis(Axis::Transport, &["loopback"]).unwrap();
    only.set_axis(Axis::Threads, &["1"]).unwrap();
    let plan = plan(&only);
    assert_eq!(movers(&plan.cells), ["null"; 4]);
}

#[test]
fn names_and_fields_are_checked() {
    let error = Plan::new(
        &study(&[("\"sendfile\", \"uring", "\"teleport\", \"uring")]),
        &host(),
        &survey(),
        1,
    );
    assert!(
        error
            .unwrap_err()
            .0
            .contains("mover `teleport` is not known")
    );
}

// Invariant 7.
#[test]
fn a_plan_is_rebuilt_from_its_manifest() {
    let manifest = manifest(study(&[]));
    let text = serde_json::to_string(&manifest).unwrap();
    let read: Manifest = serde_json::from_str(&text).unwrap();
    assert_eq!(Plan::from_manifest(&read).unwrap(), plan(&study(&[])));
}

// Invariant 7.
#[test]
fn cells_of_a_bisection_have_blocks_of_their_own_and_earlier_ones_stay_as_they_are() {
    let (study, survey) = (study(&[]), survey());
    let before = plan(&study);
    let known = before.cells.len();
    let between = |size_bytes| Cell {
        size_bytes,
        ..before.cells[1].clone()
    };
    let bisection = Bisection {
        first_block: 9,
        blocks: 3,
        cells: vec![between(8192), between(32768)],
    };
    let after = before.clone().bisected(&bisection, &survey).unwrap();
    assert_eq!(after.block(8), before.block(8));
    let mut alone = after.block(9);
    alone.sort_unstable();
    assert_eq!(alone, [known, known + 1]);
    assert!(after.is_bisecting(11) && !after.is_bisecting(12));
    assert_eq!(after.block(12).len(), known + 2);
    let unknown = Bisection {
        cells: vec![Cell {
            mover: "teleport".into(),
            ..Cell::default()
        }],
        ..bisection.clone()
    };
    let error = before.clone().bisected(&unknown, &survey).unwrap_err();
    assert!(error.0.contains("teleport"), "{error:?}");
    let many = Bisection {
        cells: vec![between(8192); 65],
        ..bisection
    };
    assert!(before.bisected(&many, &survey).is_err());
}

// Invariant 7.
#[test]
fn the_order_of_blocks_never_changes() {
    // Runs of older versions are resumed by these orders. Computed by a second implementation
    // of what `order::shuffled` says of itself.
    for (cells, seed, block, order) in [
        (8, 1, 0, &[2, 4, 1, 7, 3, 5, 0, 6][..]),
        (8, 1, 1, &[3, 1, 7, 4, 6, 5, 2, 0]),
        (8, 2, 0, &[3, 5, 2, 7, 6, 4, 0, 1]),
        (
            12,
            u64::MAX,
            u32::MAX,
            &[4, 0, 1, 9, 7, 8, 5, 10, 6, 11, 3, 2],
        ),
        (1, 2, 0, &[0]),
        (0, 2, 0, &[]),
    ] {
        assert_eq!(crate::order::shuffled(cells, seed, block), order);
    }
}
