//! Identity of a run: machine, kernel, boot and build, held to by `--resume`; and owner of its files.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::common::{PATIENCE, Place, below, edit, ended, endpoints_of, is_root, says, until};
use bytecost_spec::Record;
use bytecost_spec::manifest::FORMAT;

fn last_block(place: &Place) -> u32 {
    let records = place.records();
    let blocks = records.iter().filter_map(|r| Some(r.trial()?.block));
    blocks.max().unwrap()
}

#[test]
fn another_kernel_boot_machine_or_build_is_refused_by_name() {
    let place = Place::with_two_cells();
    // Transports that the study does not use are not tried.
    let tried = &place.json("manifest.json")["survey"]["movers"];
    let mut rows = tried.as_array().unwrap().iter();
    assert!(rows.all(|row| row["transport"] != "veth"), "{tried:?}");
    let path = place.run().join("manifest.json");
    let whole = fs::read(&path).unwrap();
    let log = place.read("samples.jsonl");
    for (pointer, what) in [
        ("/host/kernel", "kernel was other, is "),
        ("/host/identity/boot_id", "boot was other, is "),
        ("/host/identity/machine_id_hash", "machine was other, is "),
        ("/build_id", "build of bytecost was other, is "),
    ] {
        let known = place.json("manifest.json").pointer(pointer).is_some();
        if !known {
            assert!(pointer.ends_with("machine_id_hash"), "{pointer}");
            continue;
        }
        edit(&place.run(), |m| {
            *m.pointer_mut(pointer).unwrap() = "other".into()
        });
        let end = place.call(place.resume("--blocks 8"));
        end.refused(&[what, "--anyway"]);
        fs::write(&path, &whole).unwrap();
    }
    assert_eq!(place.read("samples.jsonl"), log);
    place.refuses("run --anyway", "=> --resume");
    // Nothing differs any more, so that it continues as one leg.
    let words = place.resume("--blocks 7 --precision 0.01% --quiet");
    let end = place.call(words).measured();
    assert_eq!(end.stderr.matches("note:").count(), 0, "{}", end.stderr);
    assert_eq!(place.json("manifest.json").get("legs"), None);
    assert_eq!(last_block(&place), place.blocks_not_counted() + 6);
}

#[test]
fn a_run_without_a_record_of_its_boot_and_build_is_resumed_with_a_note() {
    let place = Place::with_two_cells();
    edit(&place.run(), |m| {
        m.as_object_mut().unwrap().remove("build_id");
        m["host"].as_object_mut().unwrap().remove("identity");
    });
    let words = place.resume("--blocks 7 --precision 0.01%");
    let end = place.call(words).measured();
    says(&end.stderr, &["has no record of its boot and its build"]);
    assert_eq!(last_block(&place), place.blocks_not_counted() + 6);
}

// Invariant 6.
#[test]
fn a_second_leg_has_blocks_of_its_own_and_reports_say_so() {
    let place = Place::with_two_cells();
    let run = place.run();
    let log = run.join("samples.jsonl");
    // The last block is cut after its first trial, as when the machine was switched off. A block may
    // be there several times.
    let text = fs::read_to_string(&log).unwrap();
    let begins = |line: &str| line.contains("\"trial\":{\"block\":5,");
    let lines = 1 + text.lines().position(begins).unwrap();
    let cut: String = text.lines().take(lines).map(|l| format!("{l}\n")).collect();
    fs::write(&log, &cut).unwrap();
    fs::remove_file(run.join("ended.json")).unwrap();
    edit(&place.run(), |m| {
        m["host"]["identity"]["boot_id"] = "before".into()
    });
    let begun = last_block(&place) + 1;
    let end = place.call(place.resume("--anyway --blocks 6 --quiet"));
    if begun == 6 {
        end.refused(&["--blocks"]);
    }
    let more = format!("--anyway --blocks {} --precision 0.01% --quiet", begun + 2);
    place.call(place.resume(&more)).measured();
    let manifest = place.json("manifest.json");
    let leg = &manifest["legs"][0];
    assert_eq!(
        (&manifest["format"], &leg["first_block"]),
        (&FORMAT.into(), &begun.into())
    );
    assert_eq!(leg["differences"][0]["what"], "boot");
    assert_eq!(leg["differences"][0]["was"], "before");
    let after = fs::read_to_string(&log).unwrap();
    let added = after
        .strip_prefix(&cut)
        .expect("samples are never rewritten");
    assert!(added.lines().count() >= 4);
    let records = place.records();
    let (_, new) = records.split_at(cut.lines().count());
    for record in new {
        let block = match record {
            Record::Block(block) => block.block,
            of_trial => of_trial.trial().unwrap().block,
        };
        assert!(block >= begun, "{record:?}");
    }
    let caveats = place.findings().caveats;
    let caveat = caveats.iter().find(|d| d.kind == "several-legs").unwrap();
    let says = format!("leg 2 from block {begun}: boot was before, is ");
    assert!(caveat.evidence.starts_with(&says), "{caveat:?}");
    // As the second leg it is the same, and continues without another one.
    let longer = format!("--blocks {} --precision 0.01% --quiet", begun + 3);
    place.call(place.resume(&longer)).measured();
    let counted_from = place.blocks_not_counted();
    assert_eq!(last_block(&place), counted_from + begun + 2);
}

#[test]
fn a_log_that_lost_trials_is_reported() {
    let place = Place::recorded(&["smt"]);
    fs::remove_file(place.run().join("samples.jsonl")).unwrap();
    let lost = "damaged: samples.jsonl is missing";
    says(&place.call("runs").flat(), &[lost]);
    let report = place.call("report");
    assert_eq!(report.status, Some(1), "{}", report.stderr);
    says(&report.flat(), &["samples.jsonl is missing"]);
}

#[test]
fn an_endpoint_goes_by_the_name_of_the_program() {
    let place = Place::new();
    let words = "run --mover send --size 4KiB --window 2s --warmup 2ms --budget 60s --quiet";
    let mut run = place.start(&mut place.bytecost(words));
    let pid = run.pid();
    run.until_both_sides(&place, 0);
    let line = format!("bytecost endpoint {pid}");
    until("their names", PATIENCE, || {
        let has_name = |endpoint: &u32| {
            let read =
                |name| fs::read_to_string(format!("/proc/{endpoint}/{name}")).unwrap_or_default();
            read("comm").trim() == "bytecost" && read("cmdline").replace('\0', " ").contains(&line)
        };
        endpoints_of(pid).iter().filter(|pid| has_name(pid)).count() == 2
    });
    run.interrupted();
}

// Invariant 9.
#[test]
fn files_written_under_sudo_belong_to_its_caller_and_root_writes_nowhere_else() {
    if !is_root() {
        return;
    }
    const CALLER: u32 = 12_345;
    let place = Place::new();
    let runs = place.runs().join("new/runs");
    let called = |args: &str, caller: Option<u32>| {
        let mut bytecost = place.bytecost(args);
        bytecost.arg("--runs-dir").arg(&runs);
        // The tests' own would then be that user's too.
        bytecost.env("XDG_CACHE_HOME", place.path().join("caches"));
        for name in ["SUDO_UID", "SUDO_GID"] {
            match caller {
                Some(id) => bytecost.env(name, id.to_string()),
                None => bytecost.env_remove(name),
            };
        }
        ended(&mut bytecost)
    };
    let run = "run pa02-a --mover send-fields,sendmsg --size 2KiB --threads 1 --blocks 6 --window 20ms --warmup 2ms --budget 60s --quiet";
    called(run, Some(CALLER)).measured();
    let id = fs::read_dir(&runs).unwrap().next().unwrap().unwrap();
    let export = format!(
        "export {} --layout pa02-a --out {}",
        id.path().display(),
        runs.join("out.csv").display()
    );
    called(&export, Some(CALLER)).succeeded();
    for path in below(runs.parent().unwrap()) {
        let owner = fs::symlink_metadata(&path).unwrap();
        assert_eq!((owner.uid(), owner.gid()), (CALLER, CALLER), "{path:?}");
    }
    called(run, None).refused(&["belongs to user 12345"]);
}
