//! Files that are sent to a socket: what their cells cost, and what cannot be.

use bytecost_spec::survey::{FileSupport, FileSurvey, MoverFacts, Release, Route};
use bytecost_spec::{Cache, Host, Study, Support, Survey};

use super::{host, mover, one, refused, refuses};
use crate::Plan;

/// Two movers that send a file, one that sends memory, and a disk of 1 GiB.
fn of_sockets(user_file_bytes: Option<u64>) -> Survey {
    let mut all = super::survey();
    all.mover_facts[2].route = Route::FileToSocket;
    all.mover_facts.push(MoverFacts {
        release: Release::AtReturn,
        ..mover("read-write", Route::FileToSocket)
    });
    for row in all.movers.clone() {
        all.movers.extend((row.name == "sendfile").then(|| Support {
            name: "read-write".into(),
            ..row
        }));
    }
    let works = |name: &str, cache| FileSupport {
        name: name.into(),
        cache,
        refused: (name == "sendfile" && cache == Cache::Cold)
            .then(|| "it stays in the page cache".into()),
    };
    let both = |name| [Cache::Warm, Cache::Cold].map(|cache| works(name, cache));
    all.files = Some(FileSurvey {
        dir: "/there".into(),
        free_bytes: 1 << 30,
        user_file: user_file_bytes.map(|_| "/mine".into()),
        user_file_bytes,
        movers: ["sendfile", "read-write"].map(both).concat(),
        ..FileSurvey::default()
    });
    all
}

#[test]
fn memory_has_no_page_cache_and_what_goes_past_memory_has_no_block_of_its_own() {
    let study = one(
        "mover read-write sendfile send; size 4KiB; cache memory warm; depth 1 8; block 4KiB 1MiB",
    );
    let plan = Plan::new(&study, &host(), &of_sockets(None), 1).unwrap();
    assert_eq!(plan.refusals, []);
    let of = |mover: &str| {
        let cells = plan.cells.iter().filter(|c| c.mover == mover);
        let named = cells.map(|c| (c.cache, c.block_bytes, c.depth));
        named.collect::<Vec<_>>()
    };
    let (memory, warm) = ((Cache::Memory, 64 << 10, 1), (Cache::Warm, 64 << 10, 1));
    assert_eq!(of("send"), [memory]);
    assert_eq!(of("sendfile"), [memory, warm]);
    assert_eq!(of("read-write").len(), 4);
    assert_eq!(of("null"), [memory]);
}

#[test]
fn what_a_file_that_is_sent_cannot_be_is_refused_with_its_remedy() {
    let (own, mine) = (of_sockets(None), of_sockets(Some(5000)));
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
fn a_long_message_costs_what_it_takes_and_the_first_part_is_thinned_by_that() {
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
        Plan::new(&study, &large, &of_sockets(None), 1).unwrap()
    };
    let all = plan(60_000);
    assert_eq!(all.cells.len(), 1 + 2 * 4);
    let null = &all.cells[0];
    assert_eq!((null.mover.as_str(), null.size_bytes), ("null", 64 << 10));
    // Both movers at 1 GiB, twice each, at 1.5 GB/s.
    assert!(all.blocks_ms(1) > 2 * 2 * 1_073_741_824 / 1_500_000);
    let few = plan(20_000);
    assert!(few.cells.len() < all.cells.len(), "{:?}", few.notes);
    assert!(few.blocks_ms(6) <= 20_000);
    assert!(!few.left_out.is_empty() || !few.notes.is_empty());
}
