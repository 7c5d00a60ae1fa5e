//! The built-in claims about pinning and about two threads on one core, each held against runs
//! whose truth is known.

mod work_worlds;
mod world;

use bytecost_analysis::{Audited, Grounds, Ruling, audit};
use bytecost_spec::Table;
use bytecost_spec::claim::{self, Claim};
use work_worlds::{STUDY, truth, without_siblings, work};
use world::World;

const CLAIMS: &str = include_str!("../../../published/claims.toml");
const TABLE: &str = include_str!("../../../published/os-features.csv");

fn built_in(id: &str) -> Claim {
    let claims = claim::parse(CLAIMS).expect("claims");
    claims.into_iter().find(|c| c.id == id).expect(id)
}

fn judged(world: &World, id: &str) -> Audited {
    let grounds = Grounds {
        claims: &[built_in(id)],
        tables: &[Table::parse("os-features", TABLE).expect("a table")],
        studies: &["os-features"],
        ..Grounds::default()
    };
    audit(world.input(), &world.analyse(), &grounds).remove(0)
}

#[track_caller]
fn check(world: &World, id: &str, ruling: Ruling, says: &[&str]) -> Audited {
    let found = judged(world, id);
    assert_eq!(found.ruling, ruling, "{found:#?}");
    for word in says {
        assert!(found.because.contains(word), "no `{word}` in {found:#?}");
    }
    found
}

#[test]
fn whether_pinning_matters_and_for_want_of_moves() {
    let id = "o-pinning-hardly-matters";
    let alike = work(STUDY, 0, truth(1.3, 2.0, 1.0));
    let found = check(
        &alike,
        id,
        Ruling::Holds,
        &[
            "Message rate of placement same-cpu over placement free is about 1",
            "Migrations is below 10",
            "Beside it: Message rate",
            "with background load spin@all",
        ],
    );
    // Two kinds of work: pinned against free alone, moved free, and beside spinning threads.
    let measured = found.figures.iter().filter(|f| f.measured.is_some());
    assert_eq!(measured.count(), 6, "{found:#?}");
    assert!(!found.findings.is_empty());
    check(
        &work(STUDY, 3, truth(1.3, 2.0, 1.0)),
        id,
        Ruling::HoldsForAnotherReason,
        &["does move the free threads", "30"],
    );
    check(
        &work(STUDY, 0, truth(1.3, 2.0, 1.3)),
        id,
        Ruling::DoesNotHold,
        &["is not about 1", "1.3"],
    );
    let free_alone = STUDY.replace("[\"free\", \"same-cpu\"]", "[\"free\"]");
    check(
        &work(&free_alone, 0, truth(1.3, 2.0, 1.0)),
        id,
        Ruling::CannotBeSettled,
        &["This run has no cells with", "placement same-cpu and free"],
    );
}

#[test]
fn whether_a_shared_core_doubles_or_one_cpu_does() {
    let id = "o-smt-doubles";
    // Siblings that do a quarter more than turns, and cores that do twice as much as siblings.
    check(
        &work(STUDY, 0, truth(1.25, 2.5, 1.0)),
        id,
        Ruling::Holds,
        &["placement same-cache over placement smt-sibling is from 1.9 to 2.1"],
    );
    check(
        &work(STUDY, 0, truth(1.0, 2.0, 1.0)),
        id,
        Ruling::HoldsForAnotherReason,
        &["what doubles is time-slicing", "is not above 1"],
    );
    check(
        &work(STUDY, 0, truth(1.4, 2.0, 1.0)),
        id,
        Ruling::DoesNotHold,
        &["is not from 1.9 to 2.1", "1.4"],
    );
    let hidden = without_siblings(work(STUDY, 0, truth(1.4, 2.0, 1.0)));
    let found = check(
        &hidden,
        id,
        Ruling::CannotBeSettled,
        &[
            "no two CPUs are threads of one core",
            "Beside it: Message rate of placement same-cache over placement same-cpu is from 1.9 to 2.1",
        ],
    );
    let beside = (found.figures.iter())
        .filter(|f| f.what.contains("over placement same-cpu") && f.measured.is_some());
    assert_eq!(beside.count(), 2, "{found:#?}");
    // What stands beside decides nothing.
    let turns = without_siblings(work(STUDY, 0, truth(1.4, 1.2, 1.0)));
    check(
        &turns,
        id,
        Ruling::CannotBeSettled,
        &["is not from 1.9 to 2.1"],
    );
}
