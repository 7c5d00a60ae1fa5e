//! `os-features`: its plan on machines of several kinds, and a study with pairs from beginning to
//! end, as a user calls it.

mod common;

use std::collections::BTreeSet;
use std::fs;

use bytecost_host::{Probes, Roots};
use bytecost_lab::file_survey;
use bytecost_lab::files::Files;
use bytecost_lab::survey::survey;
use bytecost_plan::Plan;
use bytecost_report::layout::{RUNS, TableLayout as _};
use bytecost_spec::{Axis, Host, Study, Transport};
use common::{Place, says};

const STUDY: &str = include_str!("../../../studies/os-features.toml");

/// A study of work with pairs, of which the second needs siblings of a core, and small.
const SMALL: &str = r#"
name = "pairs"
title = "Pairs"
question = "How many times as fast?"
prediction = "As fast."
smallest-effect = "5%"
precision = "3%"
budget = "20s"
warmup = "2ms"
window = "20ms"
blocks-least = 6
blocks-most = 6
foreign-cpus = 99.0
as-published-blocks = 3

[[tier]]
title = "all"
[tier.axes]
mover = ["work-integer"]
size = ["4KiB"]
placement = ["free", "same-cpu"]

[[as-published]]
title = "three runs"
[as-published.axes]
mover = ["work-integer"]
size = ["4KiB"]
placement = ["free", "same-cpu", "cross-node"]

[[compare]]
axis = "placement"
baseline = "free"
metrics = ["messages_per_s"]

[[pair]]
title = "Pinned against free"
metric = "messages_per_s"
axis = "placement"
values = ["same-cpu"]
against = "free"
published = 1.005

[[pair]]
title = "Two nodes against free"
metric = "messages_per_s"
axis = "placement"
values = ["cross-node"]
against = "free"
"#;

/// This machine.
fn host() -> Host {
    let probes = Probes {
        hardware_counters: Ok(()),
        io_uring: Ok(()),
        clock_resolution_ns: 1,
        timer_overshoot_ns: 0,
        cpu_clock: Default::default(),
        obstacles: Vec::new(),
        unseen: Vec::new(),
    };
    bytecost_host::read(&Roots::real(), &probes)
}

/// The plan of the study on a machine where everything works.
fn plan(as_published: bool, host: &Host) -> Plan {
    let mut study = Study::parse(STUDY).unwrap();
    if as_published {
        study.choose_as_published().unwrap();
    }
    let mut survey = survey(&Host::default(), Transport::WITHIN);
    for row in survey.movers.iter_mut().chain(&mut survey.receivers) {
        row.refused = None;
    }
    survey.congestion_controls = vec!["cubic".to_owned()];
    let mut files = Files::new(std::env::temp_dir(), None);
    let mut found = file_survey::survey(&mut files).unwrap();
    for row in &mut found.movers {
        row.refused = None;
    }
    survey.files = Some(found);
    Plan::new(&study, host, &survey, 7).unwrap()
}

/// Values of an axis among the cells of a plan.
fn values(plan: &Plan, axis: Axis) -> BTreeSet<String> {
    plan.cells.iter().map(|c| c.value(axis)).collect()
}

#[test]
fn the_budget_pays_for_all_four_features_in_under_three_minutes() {
    let study = Study::parse(STUDY).unwrap();
    assert!(study.budget_ms < 180_000);
    let host = host();
    for as_published in [false, true] {
        let plan = plan(as_published, &host);
        assert_eq!(plan.left_out, []);
        assert_eq!(plan.cells[0].mover, "null");
        let movers = values(&plan, Axis::Mover);
        for feature in [
            "pread",
            "posix-aio",
            "work-integer",
            "sendfile-null",
            "read-null",
        ] {
            assert!(movers.contains(feature), "{feature} in {movers:?}");
        }
        // What this machine does not have is refused, and the mark of time-slicing beside it.
        let near = values(&plan, Axis::Placement);
        let refused = plan
            .refusals
            .iter()
            .filter(|r| r.what.contains("/smt-sibling"));
        assert!(near.contains("smt-sibling") || refused.count() > 0);
        assert!(near.contains("same-cpu") && near.contains("free"));
        let blocks = if as_published { 3 } else { 8 };
        assert_eq!(plan.blocks_least, blocks);
        // Without a sample of any the layout says which modes it looks for.
        let none = RUNS[0].csv(&plan.cells, &[], false).unwrap_err();
        assert!(none.contains("sync_io, async_aio"), "{none}");
    }
}

#[test]
fn pairs_are_in_every_output_and_modes_can_be_written() {
    let place = Place::new();
    fs::write(place.path().join("pairs.toml"), SMALL).unwrap();
    place.call("run pairs.toml --seed 7 --quiet").measured();
    let rows = |id: &str| {
        let words = format!("export {id} --layout os-features");
        place.call(words).succeeded()
    };
    let said = place.call("report --all").stdout;
    says(&said, &["Pinned against free"]);
    // What the study's own design does not ask for is no pair of it.
    assert!(!said.contains("Two nodes"), "{said}");
    let id = place.id();
    assert!(place.run().join("speed-ups.svg").is_file());
    says(&place.read("report.html"), &["id=\"speed-ups\""]);
    assert_eq!(
        place.json("findings.json")["speed_ups"][0]["published"],
        1.005
    );
    let table = rows(&id);
    says(&table, &["no_affinity", "pinned_affinity"]);
    place.refuses(
        &format!("export {id} --layout pa02-a"),
        "=> no cell that layout pa02-a has a row for",
    );
    fs::write(place.path().join("own.csv"), &table).unwrap();
    let told = place
        .call("import own.csv --layout os-features")
        .succeeded();
    assert_eq!(rows(told.split(':').next().unwrap()), table);
}

#[test]
fn as_published_keeps_to_its_own_repetitions() {
    let place = Place::new();
    fs::write(place.path().join("pairs.toml"), SMALL).unwrap();
    let words = "run pairs.toml --as-published --seed 7 --quiet";
    place.call(words).measured();
    says(
        &place.call("report --all").stdout,
        &["Two nodes against free"],
    );
    let records = place.records();
    let trials = records.iter().filter_map(bytecost_spec::Record::trial);
    let blocks: BTreeSet<u32> = trials.map(|t| t.block).collect();
    assert_eq!(blocks, BTreeSet::from([0, 1, 2]));
}
