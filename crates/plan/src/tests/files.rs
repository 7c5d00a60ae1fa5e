//! Movers of files: cells without another end that are measured and compared like others.

use bytecost_spec::survey::{FileSupport, FileSurvey, InFlight, MoverFacts, Route};
use bytecost_spec::{Cache, Cell, Study, Survey};

use super::{chosen, host, mover, one, refused, refuses};
use crate::Plan;

/// Two ways to read, in two sizes, depths and states of the page cache.
fn study() -> Study {
    let mut study =
        one("mover pread uring-read; size 4KiB 64KiB; depth 1 8; cache warm direct; ring 256MiB");
    study.compare[0].baseline = "pread".to_owned();
    study.budget_ms = 60_000;
    study
}

fn survey() -> Survey {
    let movers = [
        mover("pread", Route::FileToMemory),
        MoverFacts {
            in_flight: InFlight::SeveralByThreads,
            ..mover("uring-read", Route::FileToMemory)
        },
        mover("pwrite", Route::MemoryToFile),
        mover("read-null", Route::FileToNull),
        mover("copy_file_range", Route::FileToFile),
    ];
    let all = |cache: &Cache| {
        let cache = *cache;
        let works = move |m: &MoverFacts| FileSupport {
            name: m.name.clone(),
            cache,
            refused: (cache == Cache::Cold).then(|| "it is never cold".into()),
        };
        movers.iter().map(works)
    };
    Survey {
        files: Some(FileSurvey {
            dir: "/there".into(),
            file_system: "ext4".into(),
            free_bytes: 1 << 30,
            direct_bytes: Some(512),
            movers: Cache::ALL.iter().flat_map(all).collect(),
            ..FileSurvey::default()
        }),
        mover_facts: [&[mover("null", Route::Nowhere)][..], &movers].concat(),
        receiver_facts: super::survey().receiver_facts,
        ..Survey::default()
    }
}

/// The survey with other facts of files.
fn with(change: fn(&mut FileSurvey)) -> Survey {
    let mut survey = survey();
    change(survey.files.as_mut().unwrap());
    survey
}

fn plan(study: &Study) -> Plan {
    Plan::new(study, &host(), &survey(), 1).unwrap()
}

#[test]
fn who_reads_one_after_the_other_has_no_depth_and_null_says_what_the_loop_costs() {
    let all = plan(&study());
    let of = |mover: &str| all.cells.iter().filter(|c| c.mover == mover).count();
    assert_eq!((of("null"), of("pread"), of("uring-read")), (1, 4, 8));
    let null = &all.cells[0];
    assert_eq!((null.mover.as_str(), null.cache), ("null", Cache::Memory));
    let usual = Cell::default().ring;
    assert_eq!(null.ring, usual, "the floor needs no file's memory");
    let large = plan(&chosen(study(), "mover read-null; size 128MiB"));
    assert_eq!(large.cells[0].mover, "null");
    assert!(large.cells[0].size_bytes <= 1 << 20, "nor its length");
    let is_deep = |c: &Cell| c.mover == "pread" && c.depth != 1;
    assert!(!all.cells.iter().any(is_deep));
}

#[test]
fn nothing_is_said_of_congestion_where_there_are_files_only() {
    let mut host = host();
    host.congestion_available = vec!["reno".into()];
    let plan = Plan::new(&study(), &host, &survey(), 1).unwrap();
    assert_eq!(plan.notes, [""; 0]);
    let study = super::study(&[]);
    let plan = Plan::new(&study, &host, &super::survey(), 1).unwrap();
    assert!(plan.notes[0].contains("congestion control"));
}

#[test]
fn what_means_nothing_to_a_file_makes_no_cells_of_its_own() {
    let axes = "depth 1; cache warm; transport loopback unix; receiver recv recv-discard; fields 1 8; nodelay on off";
    let plan = plan(&chosen(study(), axes));
    assert_eq!(plan.cells.len(), 5, "{:?}", plan.cells);
}

#[test]
fn a_block_makes_cells_only_of_movers_that_go_by_blocks_and_within_a_request() {
    let axes = "depth 1; cache warm; mover pread read-null copy_file_range; size 4KiB 64KiB 1MiB; block 4KiB 64KiB 1MiB";
    let plan = plan(&chosen(study(), axes));
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

#[test]
fn what_a_file_cannot_give_is_refused_with_its_remedy() {
    let small = with(|f| f.free_bytes = 10 << 20);
    let tight = with(|f| f.free_bytes = 300 << 20);
    let mine = with(|f| f.user_file_bytes = Some(1_000_000));
    let mine_without_room = with(|f| {
        f.user_file_bytes = Some(1_000_000);
        f.free_bytes = 100 << 10;
    });
    let odd = with(|f| f.direct_bytes = Some(4096));
    let none = Survey {
        files: None,
        ..survey()
    };
    for (survey, table) in [
        (
            &survey(),
            "|
            cache direct |
            cache cold | with cache cold: it is never cold
            cache direct; size 5000 | choose a --size that is a multiple of 512
            size 5000 |
            ring 4000 | no request of 4 KiB fits
            ring 8KiB; threads 3 | fewer --threads
            cache memory; ring 4GiB; threads 2 | the file and its requests need
            mover uring-read; size 1MiB; depth 64 | RLIMIT_MEMLOCK: `uring-read` locks 64 MiB
            mover copy_file_range; cache direct; block 1000 | choose a --block that is a multiple of 512
            mover copy_file_range; cache direct; block 5000 |
            cache direct; block 1000 |
            mover copy_file_range; cache memory; ring 3GiB | the file and its requests need",
        ),
        (&none, "| files were not tried"),
        (&odd, "cache direct; size 512 | multiples of 4096 bytes"),
        (
            &small,
            "| which has 10 MiB: choose another directory with --dir
            cache memory |",
        ),
        (
            &tight,
            "|
            mover read-null |
            mover copy_file_range | two files of 256 MiB are needed in /there",
        ),
        (
            &mine,
            "| choose a --ring of at most 1000000
            ring 512KiB |
            mover copy_file_range; ring 512KiB |",
        ),
        (
            &mine_without_room,
            "mover copy_file_range; ring 512KiB | a file of 512 KiB is needed in /there",
        ),
    ] {
        let usual = "mover pread; size 4KiB; depth 1; cache warm; ring 256MiB";
        refuses(table, |axes| {
            refused(&format!("{usual}; {axes}"), &host(), survey)
        });
    }
}
