//! Files that are sent to a socket: what their cells cost, and what cannot be.

use bytecost_spec::survey::{FileSupport, FileSurvey, MoverFacts, Release, Route};
use bytecost_spec::{Axis, Cache, Support, Survey};

use super::{host, is_refused, rows};
use crate::Plan;

/// Two movers that send a file, one that sends memory, and a disk of 1 GiB.
fn of_sockets(user_file_bytes: Option<u64>) -> Survey {
    let mut all = super::survey();
    for facts in &mut all.mover_facts {
        facts.route = match facts.name.as_str() {
            "null" => Route::Nowhere,
            "sendfile" => Route::FileToSocket,
            _ => Route::MemoryToSocket,
        };
    }
    let sendfile = all.mover("sendfile").cloned().unwrap();
    all.mover_facts.push(MoverFacts {
        name: "read-write".into(),
        release: Release::AtReturn,
        ..sendfile
    });
    let rows = all.movers.clone().into_iter();
    all.movers.extend(
        rows.filter(|row| row.name == "sendfile")
            .map(|row| Support {
                name: "read-write".into(),
                ..row
            }),
    );
    let works = |name: &str, cache| FileSupport {
        name: name.into(),
        cache,
        refused: (name == "sendfile" && cache == Cache::Cold)
            .then(|| "it stays in the page cache".into()),
    };
    all.files = Some(FileSurvey {
        dir: "/there".into(),
        free_bytes: 1 << 30,
        user_file: user_file_bytes.map(|_| "/mine".into()),
        user_file_bytes,
        movers: ["sendfile", "read-write"]
            .into_iter()
            .flat_map(|name| [Cache::Warm, Cache::Cold].map(|cache| works(name, cache)))
            .collect(),
        ..FileSurvey::default()
    });
    all
}

fn plan_of(axes: &[(Axis, &[&str])], survey: &Survey) -> Plan {
    let mut study = super::study(&[]);
    let fixed: [(Axis, &[&str]); 2] = [(Axis::Transport, &["loopback"]), (Axis::Threads, &["1"])];
    for (axis, values) in fixed.iter().chain(axes) {
        study.set_axis(*axis, values).unwrap();
    }
    Plan::new(&study, &host(), survey, 1).unwrap()
}

#[test]
fn memory_has_no_page_cache_and_what_goes_past_memory_has_no_block_of_its_own() {
    let axes: [(Axis, &[&str]); 5] = [
        (Axis::Mover, &["read-write", "sendfile", "send"]),
        (Axis::Size, &["4KiB"]),
        (Axis::Cache, &["memory", "warm"]),
        (Axis::Depth, &["1", "8"]),
        (Axis::Block, &["4KiB", "1MiB"]),
    ];
    let plan = plan_of(&axes, &of_sockets(None));
    assert_eq!(plan.refusals, []);
    let of = |mover: &str| {
        let cells = plan.cells.iter().filter(|c| c.mover == mover);
        let named = cells.map(|c| (c.cache, c.block_bytes, c.depth));
        named.collect::<Vec<_>>()
    };
    assert_eq!(of("send"), [(Cache::Memory, 64 << 10, 1)]);
    let usual = 64 << 10;
    assert_eq!(
        of("sendfile"),
        [(Cache::Memory, usual, 1), (Cache::Warm, usual, 1)]
    );
    assert_eq!(of("read-write").len(), 4);
    assert_eq!(of("null"), [(Cache::Memory, 64 << 10, 1)]);
}

#[test]
fn what_a_file_that_is_sent_cannot_be_is_refused_with_its_remedy() {
    let (own, mine) = (of_sockets(None), of_sockets(Some(5000)));
    for (survey, table) in [
        (
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
            &mine,
            "mover sendfile; cache memory; size 4KiB | not a memory file
            mover sendfile; cache warm; size 5000 |
            mover sendfile; cache warm; size 5001 | the file has 5000 bytes, and 5001 are needed",
        ),
    ] {
        for (axes, reason) in rows(table) {
            let ring = [(Axis::Ring, "message")];
            let all: Vec<(Axis, &[&str])> = (axes.iter().chain(&ring))
                .map(|(axis, value)| (*axis, std::slice::from_ref(value)))
                .collect();
            let first = plan_of(&all, survey).refusals.into_iter().next();
            is_refused(&axes, first.map(|r| r.why), reason);
        }
    }
    let little = bytecost_spec::Host {
        memory_bytes: 1 << 30,
        ..host()
    };
    let mut study = super::study(&[]);
    for (axis, value) in [
        (Axis::Mover, "sendfile"),
        (Axis::Size, "700MiB"),
        (Axis::Ring, "message"),
    ] {
        study.set_axis(axis, &[value]).unwrap();
    }
    let plan = Plan::new(&study, &little, &own, 1).unwrap();
    let why = &plan.refusals[0].why;
    assert!(why.contains("the file needs 700 MiB"), "{why}");
}

#[test]
fn a_long_message_costs_what_it_takes_and_the_first_part_is_thinned_by_that() {
    let sizes: &[&str] = &["63MiB", "200MiB", "350MiB", "1GiB"];
    let plan = |budget_ms: u64| {
        let mut study = super::study(&[]);
        study.budget_ms = budget_ms;
        let fixed: [(Axis, &[&str]); 6] = [
            (Axis::Transport, &["loopback"]),
            (Axis::Threads, &["1"]),
            (Axis::Mover, &["read-write", "sendfile"]),
            (Axis::Cache, &["warm"]),
            (Axis::Ring, &["message"]),
            (Axis::Size, sizes),
        ];
        for (axis, values) in fixed {
            study.set_axis(axis, values).unwrap();
        }
        let mut host = host();
        host.memory_bytes = 16 << 30;
        Plan::new(&study, &host, &of_sockets(None), 1).unwrap()
    };
    let all = plan(60_000);
    assert_eq!(all.cells.len(), 1 + 2 * sizes.len());
    let null = &all.cells[0];
    assert_eq!((null.mover.as_str(), null.size_bytes), ("null", 64 << 10));
    // Both movers at 1 GiB, twice each, at 1.5 GB/s.
    assert!(all.blocks_ms(1) > 2 * 2 * 1_073_741_824 / 1_500_000);
    let few = plan(20_000);
    assert!(few.cells.len() < all.cells.len(), "{:?}", few.notes);
    assert!(few.blocks_ms(6) <= 20_000);
    assert!(!few.left_out.is_empty() || !few.notes.is_empty());
}
