//! The promises of a plan, by examples.

use bytecost_spec::sample::GROWING_BLOCKS;
use bytecost_spec::survey::{
    InFlight, MoverFacts, ReceiverFacts, Release, Route, ServerSurvey, Support, Survey,
};
use bytecost_spec::{Axis, Cell, Host, Plan, Study, Transport};

use crate::SurveyedHost;
use crate::candidates::{PlanContext, candidates};

mod asked;
mod cells;
mod files;
mod groups;
mod peers;
mod pings;
mod pins;
mod power;
mod properties;
mod refusals;
mod served;
mod twins;

fn blocks_ms(plan: &Plan, blocks: u32) -> u64 {
    plan.cells.len() as u64 * plan.trial_ms * u64::from(blocks)
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

fn mover(name: &str, route: Route) -> MoverFacts {
    MoverFacts {
        name: name.to_owned(),
        release: match name {
            "sendfile" => Release::Never,
            "uring-send-zc" => Release::AtCompletion,
            _ => Release::AtReturn,
        },
        route,
        in_flight: match name {
            "uring-read" => InFlight::SeveralByThreads,
            _ => InFlight::One,
        },
        locks_rings: u32::from(name.starts_with("uring")),
        descriptors_per_flow: 2,
        ..MoverFacts::default()
    }
}

pub(crate) fn survey() -> Survey {
    let receivers = ["recv", "recv-discard"];
    let senders = ["send", "sendfile", "uring-send-zc"];
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
    let receiver = |name: &str| ReceiverFacts {
        name: name.to_owned(),
        summary: String::new(),
        sees_content: true,
    };
    let mut mover_facts = vec![mover("null", Route::Nowhere)];
    mover_facts.extend(senders.map(|name| mover(name, Route::MemoryToSocket)));
    Survey {
        mover_facts,
        receiver_facts: receivers.map(receiver).to_vec(),
        movers: supports(&[&senders[..], &["read-write"]].concat()),
        receivers: supports(&receivers),
        ..Survey::default()
    }
}

/// A survey with a mover of each kind, and services.
fn of_all_kinds() -> Survey {
    let mut all = survey();
    for mover in &mut all.mover_facts {
        mover.leaves_completions = mover.name == "uring-send-zc";
    }
    all.mover_facts[2].route = Route::FileToSocket;
    let others = [
        ("read-write", Route::FileToSocket),
        ("pread", Route::FileToMemory),
        ("uring-read", Route::FileToMemory),
        ("read-null", Route::FileToNull),
        ("copy_file_range", Route::FileToFile),
        ("memcpy", Route::MemoryToMemory),
        ("work-integer", Route::Work),
        ("work-chase", Route::Work),
        ("ping-futex", Route::PingPong),
        ("ping-cache-line", Route::PingPongSpinning),
    ];
    (all.mover_facts).extend(others.map(|(name, route)| mover(name, route)));
    all.serving = Some(ServerSurvey {
        services: served::services(),
        ..ServerSurvey::default()
    });
    all
}

pub(crate) fn plan(study: &Study) -> Plan {
    plan_on(study, &host(), &survey())
}

fn plan_on(study: &Study, host: &Host, survey: &Survey) -> Plan {
    crate::plan(study, SurveyedHost { host, survey }, None, 7, None).unwrap()
}

/// Parses axes with values: `axis value value; axis value`.
fn axes(text: &str) -> impl Iterator<Item = (Axis, Vec<&str>)> {
    (text.split(';').map(str::trim))
        .filter(|part| !part.is_empty())
        .map(|part| {
            let mut words = part.split(' ');
            let name = words.next().unwrap_or_default();
            (Axis::named(name).expect(name), words.collect())
        })
}

fn chosen(mut study: Study, text: &str) -> Study {
    for (axis, values) in axes(text) {
        study.set_axis(axis, &values).unwrap();
    }
    study
}

fn one(text: &str) -> Study {
    let mut one = study(&[]);
    for axis in [Axis::Transport, Axis::Mover, Axis::Size, Axis::Threads] {
        let default = Cell::default().value(axis);
        one.set_axis(axis, &[default.to_string()]).unwrap();
    }
    chosen(one, text)
}

fn cell(text: &str) -> Cell {
    let mut cell = Cell::default();
    for (axis, values) in axes(text) {
        cell.set(axis, values[0]).unwrap();
    }
    cell
}

/// The reason why the only cell of a study with these axes is refused; none if it is planned.
fn refused(text: &str, host: &Host, survey: &Survey) -> Option<String> {
    let plan = plan_on(&one(text), host, survey);
    assert_eq!(plan.cells.is_empty(), !plan.refused.is_empty());
    assert!(plan.refused.len() < 2);
    plan.refused.into_iter().next().map(|r| r.why)
}

/// Checks rows of `axis value; axis value | reason`: a part of the reason, the whole of it after `= `, or
/// nothing if the cell is not refused.
#[track_caller]
fn refuses(table: &str, why: impl Fn(&str) -> Option<String>) {
    for row in table.lines() {
        let (axes, reason) = row.split_once('|').expect("a bar");
        let (why, reason) = (why(axes).unwrap_or_default(), reason.trim());
        assert_eq!(why.is_empty(), reason.is_empty(), "{axes}: {why}");
        match reason.strip_prefix("= ") {
            Some(whole) => assert_eq!(why, whole, "{axes}"),
            None => assert!(why.contains(reason), "{axes}: {why}"),
        }
    }
}

fn spread_out(study: &Study, survey: &Survey) -> Vec<Cell> {
    let host = host();
    let here = SurveyedHost {
        host: &host,
        survey,
    };
    let context = PlanContext::new(study, here, None);
    let candidates = candidates(study, &context).into_iter();
    candidates.map(|c| c.cell).collect()
}

fn movers(cells: &[Cell]) -> Vec<&str> {
    cells.iter().map(|c| c.mover.as_str()).collect()
}

#[test]
fn the_loop_floor_comes_first_and_whole_tiers_follow() {
    // A trial takes 18 + 100 + 14 ms, and a stream of TCP warms up for 18 ms more, so 30 s pay for
    // 30 cells with 6 blocks each.
    let plan = plan(&study(&[]));
    assert_eq!(plan.trial_ms, 149, "the loop floor takes 132");
    assert_eq!(plan.cells[0].mover, "null");
    assert_eq!(
        plan.cells[0].id_without(&[Axis::Mover]),
        plan.cells[1].id_without(&[Axis::Mover])
    );
    // Twelve of the first tier, six more of the second without one that is refused.
    assert_eq!(plan.cells.len(), 1 + 12 + 6 - 1);
    assert_eq!(blocks_ms(&plan, 6), 18 * 149 * 6);
}

#[test]
fn cells_that_the_budget_leaves_out_are_named_with_a_budget_that_includes_them() {
    let plan = plan(&study(&[]));
    let [rest] = plan.left_out.as_slice() else {
        panic!("{:?}", plan.left_out);
    };
    let what = "the remaining grid: transport unix";
    assert!(rest.what.starts_with(what), "{}", rest.what);
    let why = "the budget of 30s pays for 18 cells with 6 blocks each: `--budget ";
    let (budget, _) = rest.why.strip_prefix(why).unwrap().split_once('`').unwrap();
    let enough = study(&[("budget = \"30s\"", &format!("budget = \"{budget}\""))]);
    assert_eq!(self::plan(&enough).left_out, []);
    assert_eq!(self::plan(&enough).cells.len(), 18 + rest.cells);
}

fn paying(seconds: u64) -> Study {
    Study {
        budget_ms: 1000 * seconds,
        ..study(&[])
    }
}

#[test]
fn a_budget_too_short_for_the_first_tier_keeps_both_ends_of_the_sizes() {
    // 10 s pay for 10 cells: the floor and three sizes of three movers.
    let two_movers = (
        "\"uring-send-zc\"]\nsize = [\"256\"",
        "\"sendfile\"]\nsize = [\"256\"",
    );
    let of_two = plan(&study(&[
        ("budget = \"30s\"", "budget = \"10s\""),
        two_movers,
    ]));
    let all_sizes: Vec<u64> = of_two.cells.iter().map(|c| c.size_bytes).collect();
    let expected = [["send"; 4], ["sendfile"; 4]].concat();
    assert_eq!(movers(&of_two.cells[1..]), expected);
    assert_eq!(all_sizes[1..5], [256, 4096, 65_536, 1 << 20]);

    let plan = plan(&paying(10));
    let mut sizes: Vec<u64> = plan.cells[1..].iter().map(|c| c.size_bytes).collect();
    sizes.dedup();
    assert_eq!(sizes[..3], [256, 65_536, 1 << 20]);
    assert_eq!(plan.cells.len(), 10);
    assert!(plan.notes[0].contains("too short for the first part"));
    assert_eq!(plan.left_out[0].what, "sizes: size 4KiB");
    assert_eq!(plan.left_out[0].cells, 3);
    let mut falling = study(&[(
        "[\"256\", \"4KiB\", \"64KiB\", \"1MiB\"]",
        "[\"1MiB\", \"64KiB\", \"256\"]",
    )]);
    falling.budget_ms = 1000;
    let of_falling = self::plan(&falling);
    let what = "sizes: mover uring-send-zc; size 256, 1MiB";
    assert_eq!(of_falling.left_out[0].what, what);
}

#[test]
fn even_the_shortest_budget_compares_two() {
    let plan = plan(&paying(1));
    assert_eq!(movers(&plan.cells), ["null", "send", "sendfile"]);
    assert!(plan.cells.iter().all(|c| c.size_bytes == 65_536));
    let note = &plan.notes[0];
    assert!(note.contains("longer than the budget"), "{note}");
}

#[test]
fn the_baseline_of_a_chosen_cell_is_chosen() {
    let plan = plan(&study(&[(
        "title = \"threads\"\n[tier.axes]\nmover = [\"send\", \"sendfile\", \"uring-send-zc\"]",
        "title = \"threads\"\n[tier.axes]\nmover = [\"sendfile\"]",
    )]));
    let last = plan.cells[13..].iter();
    let threads: Vec<(&str, u32)> = last.map(|c| (c.mover.as_str(), c.threads)).collect();
    let expected = [("sendfile", 2), ("sendfile", 4), ("send", 2), ("send", 4)];
    assert_eq!(threads, expected);
}

#[test]
fn a_published_design_has_a_note() {
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
    let text = "the traffic is exactly as published";
    assert!(note.starts_with(text), "{note}");
}

#[test]
fn a_study_of_null_alone_has_no_floor_but_itself() {
    let plan = plan(&one("mover null; size 256 4KiB 64KiB 1MiB"));
    assert_eq!(movers(&plan.cells), ["null"; 4]);
}

#[test]
fn names_and_fields_are_checked() {
    let unknown = study(&[("\"sendfile\", \"uring", "\"teleport\", \"uring")]);
    let here = SurveyedHost {
        host: &host(),
        survey: &survey(),
    };
    let error = crate::plan(&unknown, here, None, 7, None).unwrap_err();
    assert!(error.0.contains("mover `teleport` is not known"), "{error}");
}

// Invariant 7.
#[test]
fn a_longer_budget_appends_orders_of_more_blocks() {
    let study = study(&[("blocks-most = 40", "blocks-most = 400")]);
    let mut plan = plan(&study);
    let before = plan.orders.clone();
    let block_ms = plan.cells.len() as u64 * (study.warmup_ms + study.window_ms);
    let paid = study.budget_ms / block_ms;
    assert_eq!(
        before.len() as u64,
        paid + u64::from(study.blocks_least + 1 + GROWING_BLOCKS)
    );
    crate::order_blocks(&mut plan, &study, 7, 0);
    assert_eq!(plan.orders, before);
    let longer = Study {
        budget_ms: 100 * study.budget_ms,
        ..study.clone()
    };
    crate::order_blocks(&mut plan, &longer, 7, 0);
    assert_eq!(plan.orders.len() as u32, 400 + GROWING_BLOCKS);
    assert_eq!(plan.orders[..before.len()], before);
    // Windows of a second leg grow in its own first blocks, up to which no block counts then.
    crate::order_blocks(&mut plan, &longer, 7, 30);
    assert_eq!(plan.orders.len() as u32, 400 + 30 + GROWING_BLOCKS);
    assert_eq!(plan.orders[..before.len()], before);
    assert!(plan.is_consistent());
}
