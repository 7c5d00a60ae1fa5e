//! A run that is interrupted, killed, or begun twice: what was finished is kept, nothing is left
//! behind, and `--resume` goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use crate::common::{Place, assert_only_known_files, endpoints_of, says, until};
use bytecost_spec::Record;
use bytecost_spec::sample::Selection;
use rustix::process::Signal;
use serde_json::Value;

const LONG: &str = "run --mover null,send --size 4KiB --budget 60s --precision 0.1% --window 50ms --warmup 5ms --quiet";

/// Trials by block, cell and attempt, none of which may be there twice; and the cells by number.
fn trials(records: &[Record]) -> (BTreeSet<[u32; 3]>, BTreeMap<u32, &str>) {
    let (mut keys, mut cells) = (BTreeSet::new(), BTreeMap::new());
    for record in records {
        let (trial, id) = match record {
            Record::Sample(sample) => (sample.trial, sample.cell.as_str()),
            Record::Failure(failure) => (failure.trial, failure.cell.as_str()),
            _ => continue,
        };
        let key = [trial.block, trial.cell, trial.attempt];
        assert!(keys.insert(key), "{key:?} is there twice");
        let before = cells.insert(trial.cell, id);
        assert!(
            before.is_none_or(|b| b == id),
            "cell {} changed",
            trial.cell
        );
    }
    (keys, cells)
}

fn interrupted_by(signal: Signal) -> Place {
    let place = Place::new();
    let mut run = place.start(&mut place.bytecost(LONG));
    run.until("a few trials", || place.lines() >= 3);
    let report = place.call("report").flat();
    says(&report, &["This run ended early: it is still running"]);
    let coordinator = run.pid();
    let end = run.ended_by(signal);
    assert_eq!(end.status, Some(130), "{}", end.stderr);
    let dir = place.run();
    assert_eq!(endpoints_of(coordinator), [0u32; 0]);
    assert!(place.records().len() >= 3);
    for output in ["report.html", "report.md", "findings.json", "samples.csv"] {
        assert!(dir.join(output).is_file(), "{output}");
    }
    assert_only_known_files(&dir);
    says(&place.call("runs").stdout, &["interrupted"]);
    place
}

// Invariant 9.
#[test]
fn ctrl_c_keeps_what_is_finished_and_the_run_can_be_gone_on_with() {
    let place = interrupted_by(Signal::INT);
    let before = place.read("samples.jsonl");
    let words = place.resume("--blocks 8 --budget 60s --quiet");
    place.call(words).measured();
    let after = place.read("samples.jsonl");
    assert!(after.len() > before.len() && after.starts_with(&before));
    let all = place.records();
    let (_, first) = trials(&all[..before.matches('\n').count()]);
    let (keys, cells) = trials(&all);
    assert!(first.iter().all(|(k, v)| cells.get(k) == Some(v)));
    // Fewer than the plan had.
    assert!(keys.iter().all(|[block, ..]| *block < 8), "{keys:?}");
    says(&place.call("runs").stdout, &["complete"]);
    assert_only_known_files(&place.run());
}

#[test]
fn a_termination_keeps_what_is_finished() {
    interrupted_by(Signal::TERM);
}

// Invariant 9.
#[test]
fn a_killed_run_takes_its_endpoints_along_and_can_be_gone_on_with() {
    let place = Place::new();
    let words = LONG.replace("50ms", "5s") + " --background spin --placement same-cpu";
    let mut run = place.start(&mut place.bytecost(words));
    let coordinator = run.pid();
    run.until("two sides and a background load", || {
        place.lines() >= 1 && endpoints_of(coordinator).len() == 3
    });
    assert_eq!(run.ended_by(Signal::KILL).status, None);
    // The load's time would be over in half a minute.
    until("the end of all three", Duration::from_secs(25), || {
        endpoints_of(coordinator).is_empty()
    });
    let text = place.read("samples.jsonl");
    let whole = text.rfind('\n').unwrap() + 1;
    for line in text[..whole].lines() {
        serde_json::from_str::<Value>(line).unwrap();
    }
    says(&place.call("runs").stdout, &["killed"]);
    let report = place.call("report").flat();
    says(&report, &["This run ended early: it was killed"]);
    let had = place.lines();
    let mut run = place.start(&mut place.bytecost(place.resume("--quiet")));
    run.until("another trial", || place.lines() > had);
    run.interrupted();
    let after = place.read("samples.jsonl");
    assert!(after.starts_with(&text[..whole]));
    trials(&place.records());
}

#[test]
fn a_cell_that_was_being_repeated_goes_on_with_its_next_attempt() {
    let place = Place::new();
    let words = "run --mover null,send --size 4KiB --blocks 6 --window 20ms --warmup 2ms --budget 60s --quiet";
    place.call(words).measured();
    let mut samples = place.samples().into_iter().map(|(_, sample)| sample);
    let mut first = samples.find(|s| s.trial.attempt == 0).unwrap();
    first.repeated_because = Some("others were busy".to_owned());
    let line = serde_json::to_string(&Record::Sample(first.clone())).unwrap();
    fs::write(place.run().join("samples.jsonl"), line + "\n").unwrap();
    place.call(place.resume("--budget 60s --quiet")).measured();
    let all = place.records();
    let (keys, _) = trials(&all);
    let next = [first.trial.block, first.trial.cell, 1];
    assert!(keys.contains(&next), "{keys:?}");
}

// Invariant 6.
#[test]
fn a_block_of_some_cells_measures_them_and_no_others_however_often_it_is_cut_short() {
    let place = Place::new();
    let words = "run --mover null,send,sendfile --size 4KiB --blocks 6 --window 20ms --warmup 2ms --budget 60s --quiet";
    place.call(words).measured();
    let more = place.resume("--blocks 11 --precision 0.01% --budget 600s --quiet");
    let had = place.lines();
    let mut run = place.start(&mut place.bytecost(&more));
    run.until("a block of some cells", || place.lines() >= had + 3);
    run.ended_by(Signal::KILL);
    place.call(&more).measured();
    let all = place.records();
    let (keys, _) = trials(&all);
    let mut selected: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for record in &all {
        if let Record::Selection(Selection { block, cells }) = record {
            let before = selected.insert(*block, cells.iter().copied().collect());
            assert!(before.is_none(), "block {block}");
        }
    }
    // The loop's own cost is in no comparison.
    assert!(selected.keys().copied().eq(6..11), "{selected:?}");
    for (block, cells) in selected {
        assert!(!cells.contains(&0) && !cells.is_empty(), "{cells:?}");
        let of_block = keys.iter().filter(|key| key[0] == block && key[2] == 0);
        let measured: BTreeSet<u32> = of_block.map(|key| key[1]).collect();
        assert_eq!(measured, cells, "block {block}");
    }
}
