//! Movers of files: cells without another end that are measured and compared like others.

use bytecost_spec::survey::{FileSupport, FileSurvey, InFlight, MoverFacts, Route};
use bytecost_spec::{Axis, Cache, Cell, Study, Survey};

use super::{chosen, host, is_refused, rows};
use crate::Plan;

const STUDY: &str = r#"
name = "files"
title = "Files"
question = "Which?"
prediction = "The first."
smallest-effect = "5%"
precision = "3%"
budget = "60s"
warmup = "25ms"
window = "100ms"
blocks-least = 6
blocks-most = 40

[axes]
mover = ["pread", "uring-read"]
size = ["4KiB", "64KiB"]
depth = [1, 8]
cache = ["warm", "direct"]
ring = ["256MiB"]

[[compare]]
axis = "mover"
baseline = "pread"
metrics = ["cpu_s_per_gb"]
"#;

fn study(changes: &[(Axis, &str)]) -> Study {
    let mut study = Study::parse(STUDY).unwrap();
    for (axis, value) in changes {
        study.set_axis(*axis, &[*value]).unwrap();
    }
    study
}

fn survey() -> Survey {
    let mover = |name: &str, route, in_flight, locks_rings| MoverFacts {
        name: name.into(),
        route,
        in_flight,
        locks_rings,
        descriptors_per_flow: 1,
        ..MoverFacts::default()
    };
    let works = |name: &str, cache: Cache| FileSupport {
        name: name.into(),
        cache,
        refused: (cache == Cache::Cold).then(|| "it is never cold".into()),
    };
    let names = [
        "pread",
        "uring-read",
        "pwrite",
        "read-null",
        "copy_file_range",
    ];
    let all = |name| Cache::ALL.iter().map(move |cache| works(name, *cache));
    Survey {
        mover_facts: vec![
            mover("null", Route::Nowhere, InFlight::One, 0),
            mover("pread", Route::FileToMemory, InFlight::One, 0),
            mover(
                "uring-read",
                Route::FileToMemory,
                InFlight::SeveralByThreads,
                1,
            ),
            mover("pwrite", Route::MemoryToFile, InFlight::One, 0),
            mover("read-null", Route::FileToNull, InFlight::One, 0),
            mover("copy_file_range", Route::FileToFile, InFlight::One, 0),
        ],
        receiver_facts: super::survey().receiver_facts,
        files: Some(FileSurvey {
            dir: "/there".into(),
            file_system: "ext4".into(),
            free_bytes: 1 << 30,
            direct_bytes: Some(512),
            movers: names.into_iter().flat_map(all).collect(),
            ..FileSurvey::default()
        }),
        ..Survey::default()
    }
}

fn refused(changes: &[(Axis, &str)], survey: &Survey) -> Option<String> {
    let mut all = vec![
        (Axis::Mover, "pread"),
        (Axis::Size, "4KiB"),
        (Axis::Depth, "1"),
        (Axis::Cache, "warm"),
    ];
    all.extend(changes);
    let plan = Plan::new(&study(&all), &host(), survey, 1).unwrap();
    assert_eq!(plan.cells.is_empty(), !plan.refusals.is_empty());
    plan.refusals.into_iter().next().map(|r| r.why)
}

#[test]
fn who_reads_one_after_the_other_has_no_depth_and_null_says_what_the_loop_costs() {
    let plan = Plan::new(&study(&[]), &host(), &survey(), 1).unwrap();
    let of = |mover: &str| plan.cells.iter().filter(|c| c.mover == mover).count();
    assert_eq!((of("null"), of("pread"), of("uring-read")), (1, 4, 8));
    let null = &plan.cells[0];
    assert_eq!((null.mover.as_str(), null.cache), ("null", Cache::Memory));
    assert_eq!(
        null.ring,
        Cell::default().ring,
        "the floor needs no file's memory"
    );
    let large = study(&[(Axis::Mover, "read-null"), (Axis::Size, "128MiB")]);
    let plan = Plan::new(&large, &host(), &survey(), 1).unwrap();
    assert_eq!(plan.cells[0].mover, "null");
    assert!(plan.cells[0].size_bytes <= 1 << 20, "nor its length");
    assert!(
        plan.cells
            .iter()
            .all(|c| c.mover != "pread" || c.depth == 1)
    );
}

#[test]
fn nothing_is_said_of_congestion_where_there_are_files_only() {
    let mut host = host();
    host.congestion_available = vec!["reno".into()];
    let plan = Plan::new(&study(&[]), &host, &survey(), 1).unwrap();
    assert_eq!(plan.notes, [""; 0]);
    let study = super::study(&[]);
    let plan = Plan::new(&study, &host, &super::survey(), 1).unwrap();
    assert!(plan.notes[0].contains("congestion control"));
}

#[test]
fn what_means_nothing_to_a_file_makes_no_cells_of_its_own() {
    let axes = "transport loopback unix; receiver recv recv-discard; fields 1 8; nodelay on off";
    let study = chosen(study(&[(Axis::Depth, "1"), (Axis::Cache, "warm")]), axes);
    let plan = Plan::new(&study, &host(), &survey(), 1).unwrap();
    assert_eq!(plan.cells.len(), 5, "{:?}", plan.cells);
}

#[test]
fn a_block_makes_cells_only_of_movers_that_go_by_blocks_and_within_a_request() {
    let axes = "mover pread read-null copy_file_range; size 4KiB 64KiB 1MiB; block 4KiB 64KiB 1MiB";
    let study = chosen(study(&[(Axis::Depth, "1"), (Axis::Cache, "warm")]), axes);
    let plan = Plan::new(&study, &host(), &survey(), 1).unwrap();
    let of = |mover: &str, size: u64| {
        let cells = plan.cells.iter();
        let of = cells.filter(|c| c.mover == mover && c.size_bytes == size);
        of.map(|c| c.block_bytes >> 10).collect::<Vec<u64>>()
    };
    for mover in ["read-null", "copy_file_range"] {
        assert_eq!(of(mover, 4 << 10), [64], "more than a request is a request");
        assert_eq!(of(mover, 64 << 10), [4, 64]);
        assert_eq!(of(mover, 1 << 20), [4, 64, 1024]);
    }
    for size in [4 << 10, 64 << 10, 1 << 20] {
        assert_eq!(of("pread", size), [64]);
    }
}

fn set(survey: &mut Survey, change: fn(&mut FileSurvey)) {
    change(survey.files.as_mut().unwrap());
}

#[test]
fn a_copy_needs_room_for_two_files_and_whole_blocks_past_the_page_cache() {
    let [all, mut tight, mut mine, mut mine_without_room] = [(); 4].map(|()| survey());
    set(&mut tight, |f| f.free_bytes = 300 << 20);
    set(&mut mine, |f| f.user_file_bytes = Some(1_000_000));
    set(&mut mine_without_room, |f| {
        f.user_file_bytes = Some(1_000_000);
        f.free_bytes = 100 << 10;
    });
    for (survey, table) in [
        (&tight, "|
            mover read-null |
            mover copy_file_range | two files of 256 MiB are needed in /there"),
        (&mine, "mover copy_file_range; ring 512KiB |"),
        (&mine_without_room, "mover copy_file_range; ring 512KiB | a file of 512 KiB is needed in /there"),
        (&all, "mover copy_file_range; cache direct; block 1000 | choose a --block that is a multiple of 512
            mover copy_file_range; cache direct; block 5000 |
            cache direct; block 1000 |
            mover copy_file_range; cache memory; ring 3GiB | the file and its requests need"),
    ] {
        for (axes, reason) in rows(table) {
            is_refused(&axes, refused(&axes, survey), reason);
        }
    }
}

#[test]
fn what_a_file_cannot_give_is_refused_with_its_remedy() {
    let all = survey();
    let mut small = survey();
    let mut mine = survey();
    let mut odd = survey();
    set(&mut small, |f| f.free_bytes = 10 << 20);
    set(&mut mine, |f| f.user_file_bytes = Some(1_000_000));
    set(&mut odd, |f| f.direct_bytes = Some(4096));
    let none = Survey {
        files: None,
        ..survey()
    };
    for (survey, table) in [
        (
            &all,
            "|
            cache direct |
            cache cold | with cache cold: it is never cold
            cache direct; size 5000 | choose a --size that is a multiple of 512
            size 5000 |
            ring 4000 | no request of 4 KiB fits
            ring 8KiB; threads 3 | fewer --threads
            cache memory; ring 4GiB; threads 2 | the file and its requests need
            mover uring-read; size 1MiB; depth 64 | RLIMIT_MEMLOCK: `uring-read` locks 64 MiB",
        ),
        (&none, "| files were not tried"),
        (&odd, "cache direct; size 512 | multiples of 4096 bytes"),
        (
            &small,
            "| which has 10 MiB: choose another directory with --dir
            cache memory |",
        ),
        (
            &mine,
            "| choose a --ring of at most 1000000
            ring 512KiB |",
        ),
    ] {
        for (axes, reason) in rows(table) {
            is_refused(&axes, refused(&axes, survey), reason);
        }
    }
}
