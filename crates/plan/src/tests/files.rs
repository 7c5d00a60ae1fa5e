//! Movers of files, without a peer and to a socket: the durations of their cells, and refusals.

use bytecost_spec::survey::{FileSupport, FileSurvey, MoverFacts};
use bytecost_spec::{Cache, Cell, Host, Study, Survey};

use super::{blocks_ms, chosen, host, of_all_kinds, one, plan_on, refused, refuses};

fn study() -> Study {
    let mut study =
        one("mover pread uring-read; size 4KiB 64KiB; depth 1 8; cache warm direct; ring 256MiB");
    study.compare[0].baseline = "pread".into();
    study.budget_ms = 60_000;
    study
}

/// A survey with movers of every kind, and a disk of 1 GiB that two of them cannot use cold.
fn survey() -> Survey {
    let all = of_all_kinds();
    let support = |m: &MoverFacts, cache: Cache| FileSupport {
        name: m.name.clone(),
        cache,
        refused: match (m.name.as_str(), cache) {
            ("pread", Cache::Cold) => Some("it is never cold".into()),
            ("sendfile", Cache::Cold) => Some("it stays in the page cache".into()),
            _ => None,
        },
    };
    let movers = (all.mover_facts.iter())
        .flat_map(|m| Cache::ALL.iter().map(move |cache| support(m, *cache)));
    Survey {
        files: Some(FileSurvey {
            dir: "/there".into(),
            file_system: "ext4".into(),
            free_bytes: 1 << 30,
            direct_bytes: Some(512),
            movers: movers.collect(),
            ..FileSurvey::default()
        }),
        ..all.clone()
    }
}

fn with(change: fn(&mut FileSurvey)) -> Survey {
    let mut survey = survey();
    change(survey.files.as_mut().unwrap());
    survey
}

#[test]
fn a_mover_of_one_request_has_no_depth_and_null_shows_the_cost_of_the_loop() {
    let plan = |study: &Study| plan_on(study, &host(), &survey());
    let all = plan(&study());
    let count = |mover: &str| all.cells.iter().filter(|c| c.mover == mover).count();
    assert_eq!(
        (count("null"), count("pread"), count("uring-read")),
        (1, 4, 8)
    );
    let null = &all.cells[0];
    assert_eq!((null.mover.as_str(), null.cache), ("null", Cache::Memory));
    let default = Cell::default().ring;
    assert_eq!(null.ring, default, "the floor needs no file's memory");
    let large = plan(&chosen(study(), "mover read-null; size 128MiB"));
    assert_eq!(large.cells[0].mover, "null");
    assert!(large.cells[0].size_bytes <= 1 << 20, "nor its length");
    let is_deep = |c: &Cell| c.mover == "pread" && c.depth != 1;
    assert!(!all.cells.iter().any(is_deep));
}

#[test]
fn a_plan_of_files_has_no_note_on_congestion_control() {
    let mut host = host();
    host.congestion_available = vec!["reno".into()];
    let of_files = plan_on(&study(), &host, &survey());
    assert_eq!(of_files.notes, [""; 0]);
    let study = super::study(&[]);
    let plan = plan_on(&study, &host, &super::survey());
    assert!(plan.notes[0].contains("congestion control"));
}

#[test]
fn a_file_that_is_not_possible_is_refused_with_its_remedy() {
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
            mover uring-read; cache memory; size 1GiB; ring message | RLIMIT_MEMLOCK: `uring-read` locks 1 GiB
            mover uring-read; cache memory; size 1025MiB; ring message | io_uring registers at most 1 GiB as one
            mover uring-read; cache memory; size 2147479552; ring message | io_uring registers at most 1 GiB as one
            mover uring-read; cache memory; size 2GiB; ring message | messages of 2 GiB: each is one request, which moves at most 2147479552 bytes
            cache memory; size 2GiB; ring message |
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
        let common = "mover pread; size 4KiB; depth 1; cache warm; ring 256MiB";
        refuses(table, |axes| {
            refused(&format!("{common}; {axes}"), &host(), survey)
        });
    }
}

#[test]
fn a_sent_file_that_is_not_possible_is_refused_with_its_remedy() {
    let own = survey();
    let mine = with(|f| {
        f.user_file = Some("/mine".into());
        f.user_file_bytes = Some(5000);
    });
    let little = Host {
        memory_bytes: 1 << 30,
        ..host()
    };
    for (host, survey, table) in [
        (
            &host(),
            &own,
            "mover sendfile; cache memory; size 1GiB |
            mover sendfile; cache warm; size 1GiB |
            mover sendfile; cache direct; size 4KiB | choose --cache memory, warm or cold
            mover sendfile; cache cold; size 4KiB | it stays in the page cache
            mover read-write; cache cold; size 4KiB |
            mover read-write; cache cold; size 2GiB | no space: a file of 2 GiB
            mover sendfile; cache memory; size 4GiB |",
        ),
        (
            &host(),
            &mine,
            "mover sendfile; cache memory; size 4KiB | not a memory file
            mover sendfile; cache warm; size 5000 |
            mover sendfile; cache warm; size 5001 | the file has 5000 bytes, and 5001 are needed",
        ),
        (
            &little,
            &own,
            "mover sendfile; size 700MiB | the file needs 700 MiB",
        ),
    ] {
        refuses(table, |axes| {
            refused(&format!("ring message; {axes}"), host, survey)
        });
    }
}

#[test]
fn long_messages_make_long_trials_and_the_first_tier_is_reduced_accordingly() {
    let plan = |budget_ms: u64| {
        let study = Study {
            budget_ms,
            ..one(
                "mover read-write sendfile; cache warm; ring message; size 63MiB 200MiB 350MiB 1GiB",
            )
        };
        let large = Host {
            memory_bytes: 16 << 30,
            ..host()
        };
        plan_on(&study, &large, &survey())
    };
    let all = plan(60_000);
    assert_eq!(all.cells.len(), 1 + 2 * 4);
    let null = &all.cells[0];
    assert_eq!((null.mover.as_str(), null.size_bytes), ("null", 64 << 10));
    // Both movers at 1 GiB, twice each, at 1.5 GB/s.
    assert!(blocks_ms(&all, 1) > 2 * 2 * 1_073_741_824 / 1_500_000);
    let few = plan(20_000);
    assert!(few.cells.len() < all.cells.len(), "{:?}", few.notes);
    assert!(blocks_ms(&few, 6) <= 20_000);
    assert!(!few.left_out.is_empty() || !few.notes.is_empty());
}
