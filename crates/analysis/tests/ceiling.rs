//! The ceiling of a machine: taken from the run that measured it, used by other runs.

use bytecost_analysis::ceiling::ceiling;
use bytecost_analysis::{Analysis, Input, analyse};
use bytecost_analysis::{Ceiling, CeilingKind};
use bytecost_spec::Cell;
use bytecost_spec::manifest::RoundNoise;
use bytecost_spec::survey::{FileSurvey, Route};

use crate::world::{self, Found, True, World, question, round_noise, says};

const CEILING: &str = world::study!(
    "ceiling",
    r#"
[axes]
mover = ["null", "memcpy", "pread", "libaio", "uring-read"]
size = ["64KiB"]
depth = [1]
cache = ["memory"]
ring = ["1MiB", "16MiB"]

[[tier]]
title = "copies"
[tier.axes]
mover = ["null", "memcpy", "pread"]
ring = ["1MiB", "16MiB"]

[[tier]]
title = "disk"
[tier.axes]
mover = ["libaio", "uring-read"]
cache = ["direct"]
depth = [16]
ring = ["16MiB"]
"#
);

/// A world whose movers are of files, by their names.
fn of_files(study: &str, routes: &[(&str, Route)], truth: impl Fn(&Cell) -> True) -> World {
    let mut world = World::of_rows(study, routes);
    world.manifest.survey.files = Some(FileSurvey {
        dir: "/there".to_owned(),
        device: Some(7),
        ..FileSurvey::default()
    });
    world.run(7, 12, 0.01, truth).alone()
}

fn measured() -> Ceiling {
    let rows = [
        ("null", Route::Nowhere),
        ("memcpy", Route::MemoryToMemory),
        ("pread", Route::FileToMemory),
        ("libaio", Route::FileToMemory),
        ("uring-read", Route::FileToMemory),
    ];
    let mut world = of_files(CEILING, &rows, |cell| {
        True::costs(match cell.mover.as_str() {
            "memcpy" => 0.5,
            "pread" => 1.0,
            "libaio" => 8.0,
            _ => 10.0,
        })
    });
    let disturbed = &mut world.blocks[2];
    disturbed.others_ns = disturbed.elapsed_ns;
    ceiling(&world.manifest, &world.analyse()).unwrap()
}

const STUDY: &str = world::study!(
    "files",
    r#"
[axes]
mover = ["null", "pread", "read-null"]
size = ["4KiB", "64KiB"]
ring = ["16MiB"]
cache = ["warm"]

[[compare]]
axis = "mover"
baseline = "pread"
metrics = ["throughput_gbit_per_s"]

[[figure]]
title = "Throughput"
x = "size"
y = "throughput_gbit_per_s"
series = "mover"
"#
);

fn analysed(study: &str, ceiling: Option<&Ceiling>) -> Analysis {
    analysed_with(study, ceiling, RoundNoise::ASSUMED)
}

fn analysed_with(study: &str, ceiling: Option<&Ceiling>, rounds: RoundNoise) -> Analysis {
    let rows = [
        ("null", Route::Nowhere),
        ("pread", Route::FileToMemory),
        ("read-null", Route::FileToNull),
    ];
    let mut world = of_files(study, &rows, |cell| {
        True::costs(if cell.size_bytes == 4096 { 4.0 } else { 2.0 })
    });
    world.manifest.rounds = rounds;
    analyse(Input {
        ceiling,
        ..world.input()
    })
}

#[test]
fn a_run_of_the_study_gives_rates_by_kind_and_the_better_of_two_ways() {
    let ceiling = measured();
    let rates = ceiling.rates.iter();
    let kinds: Vec<_> = rates.map(|r| (r.kind, r.working_set_bytes >> 20)).collect();
    assert_eq!(
        kinds,
        [
            (CeilingKind::UserCopy, 1),
            (CeilingKind::UserCopy, 16),
            (CeilingKind::KernelRead, 1),
            (CeilingKind::KernelRead, 16),
            (CeilingKind::DiskSequential, 16),
        ]
    );
    assert_eq!(ceiling.rates[4].mover, "libaio");
    assert_eq!(ceiling.run, "quiet-otter");
    assert_eq!(ceiling.device, Some(7));
    for rate in &ceiling.rates {
        let e = rate.gbit_per_s;
        assert!(e.low.unwrap() < e.value && e.value < e.high.unwrap());
    }
}

#[test]
fn a_share_holds_what_the_rounds_of_both_runs_differ_by() {
    let ceiling = measured();
    let half_width = |deviation| {
        let analysis = analysed_with(STUDY, Some(&ceiling), round_noise(deviation));
        let share = analysis.of_mover("pread").ceiling.as_ref().unwrap();
        (share.high.unwrap() / share.low.unwrap()).ln() / 2.0
    };
    let by_rounds = 1.96 * 0.05 * 2.0_f64.sqrt();
    let (alone, both) = (half_width(0.0), half_width(0.05));
    assert!(
        (both / alone.hypot(by_rounds) - 1.0).abs() < 0.01,
        "{alone} {both}"
    );
}

#[test]
fn a_run_that_measured_nothing_gives_none() {
    let mut world = World::new(CEILING);
    assert_eq!(ceiling(&world.manifest, &world.analyse()), None);
    world.samples.clear();
    assert_eq!(ceiling(&world.manifest, &world.analyse()), None);
}

#[test]
fn a_ceiling_that_was_measured_with_something_else_is_reported_to_be_too_low() {
    let of_it = |analysis: &Analysis| {
        let asked = bytecost_report::explanations(analysis).into_iter();
        let evidence = asked.flat_map(|e| e.evidence);
        let of_it = |s: &String| s.to_lowercase().contains("something else ran while");
        evidence.filter(of_it).count()
    };
    let busy = measured();
    assert_eq!(busy.disturbed.as_ref().unwrap().cpus, [1.0, 1.0]);
    assert_eq!(of_it(&analysed(STUDY, Some(&busy))), 1);
    let quiet = Ceiling {
        disturbed: None,
        ..busy
    };
    assert_eq!(of_it(&analysed(STUDY, Some(&quiet))), 0);
}

#[test]
fn without_a_ceiling_nothing_is_claimed() {
    let of_disk = Ceiling {
        rates: measured().rates[4..].to_vec(),
        ..measured()
    };
    let elsewhere = Ceiling {
        device: Some(8),
        ..measured()
    };
    let cold = STUDY.replace("\"warm\"", "\"cold\"");
    for (study, ceiling) in [
        (STUDY, None),
        // One of the disk alone says nothing of the page cache.
        (STUDY, Some(&of_disk)),
        // Another disk's says nothing of this one.
        (&cold, Some(&elsewhere)),
    ] {
        let analysis = analysed(study, ceiling);
        assert!(analysis.cells.iter().all(|c| c.ceiling.is_none()));
        assert!(analysis.figures.iter().all(|f| f.ceiling.is_none()));
        assert_eq!(question(&analysis, "ceiling-share"), None);
    }
    let text = serde_json::to_string(&analysed(STUDY, None)).unwrap();
    assert!(!text.contains("ceiling"), "older readers see nothing new");
}

#[test]
fn the_disk_is_reported_where_files_come_from_it() {
    let cold = STUDY.replace("\"warm\"", "\"cold\"");
    let slow = analysed(&cold, Some(&measured()));
    let shares = slow.cells.iter().filter_map(|c| c.ceiling.as_ref());
    let above = shares.filter(|s| s.share.is_none() && s.ceiling.kind.is_of_disk());
    assert_eq!(above.count(), 4);
    let mut quick = measured();
    quick.rates[4].gbit_per_s.value = 16.0;
    let analysis = analysed(&cold, Some(&quick));
    let share = analysis.of_mover("pread").ceiling.as_ref().unwrap();
    assert_eq!(share.ceiling.kind, CeilingKind::DiskSequential);
    says(
        analysis.answer("ceiling-share"),
        ["of what this disk gives"],
    );
}
