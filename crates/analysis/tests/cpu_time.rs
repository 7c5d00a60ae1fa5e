//! CPU time by kind of work, from CPU samples.

use bytecost_analysis::CellTime;
use bytecost_spec::evidence::{CpuSamples, Kind, Means, Party, TimeByKind, TrialEvidence};

use crate::world::{STUDY, True, World};

pub const EVERY_NS: u64 = 200_000;

pub fn looks(party: Party, kind: Kind, function: &str, count: u64, moved: u64) -> CpuSamples {
    CpuSamples {
        party,
        kind,
        function: function.to_owned(),
        count,
        moved,
    }
}

/// The kinds that so many CPU samples found within a window of 400 ms.
pub fn time_by_kind(looks: Vec<CpuSamples>) -> Option<TimeByKind> {
    Some(TimeByKind {
        every_ns: EVERY_NS,
        elapsed_ns: 400_000_000,
        looks,
        idle: 10,
        lost: 0,
    })
}

/// Evidence of a cell that sent 1 MiB in each of `messages` messages.
fn evidence(world: &World, mover: &str, found: Vec<CpuSamples>) -> TrialEvidence {
    TrialEvidence {
        sent_bytes: 200 << 20,
        sent_messages: 200,
        time: time_by_kind(found),
        ..world.evidence_of(world.place(mover, 1 << 20))
    }
}

/// A run in which sendfile costs a third of send, and copies nothing on the sending side.
fn watched() -> World {
    let mut world = World::new(STUDY).run(5, 12, 0.02, |cell| {
        True::costs(if cell.mover == "sendfile" { 0.1 } else { 0.3 })
    });
    world.ask(&[Means::Time]);
    let copy = |party, count| looks(party, Kind::DataCopy, "rep_movs_alternative", count, 0);
    let skb = |count| looks(Party::Sender, Kind::Skb, "__alloc_skb", count, count / 2);
    let of_send = vec![
        copy(Party::Sender, 1000),
        copy(Party::Receiver, 900),
        skb(300),
    ];
    let of_sendfile = vec![
        copy(Party::Receiver, 910),
        skb(310),
        looks(Party::Sender, Kind::Files, "filemap_splice_read", 80, 0),
        looks(Party::Sender, Kind::Unattributed, "zzz", 13, 0),
        looks(Party::Rest, Kind::User, "", 500, 0),
    ];
    world.evidence = vec![
        evidence(&world, "send", of_send),
        evidence(&world, "sendfile", of_sendfile),
    ];
    world
}

#[test]
fn looks_become_nanoseconds_for_each_kib() {
    let world = watched();
    let analysis = world.analyse();
    let of = |mover: &str| -> &CellTime {
        let id = world.id(mover, 1 << 20);
        analysis.cpu_time.iter().find(|c| c.cell == id).unwrap()
    };
    let per_look = EVERY_NS as f64 * 1024.0 / (200_u64 << 20) as f64;
    let send = of("send");
    assert_eq!(send.looks, 2200);
    assert!((send.of_kind(Kind::DataCopy) - 1900.0 * per_look).abs() < 1e-9);
    assert!((send.total() - 2200.0 * per_look).abs() < 1e-9);
    let sender = &send.kinds[0];
    let copying = (sender.party, sender.kind, sender.looks);
    assert_eq!(copying, (Party::Sender, Kind::DataCopy, 1000));
    assert!(sender.low < sender.ns_per_unit && sender.ns_per_unit < sender.high);
    assert!((send.moved - 150.0 / 2200.0).abs() < 1e-9);
    let sendfile = of("sendfile");
    assert!((sendfile.unattributed - 13.0 / 1313.0).abs() < 1e-9);
    assert!((sendfile.rest - 500.0 / 1813.0).abs() < 1e-9);
    assert_eq!(sendfile.functions[0].function, "rep_movs_alternative");
    // The rest of the machine is split by kind too, and is in no sum.
    let last = sendfile.kinds.last().unwrap();
    let found = (last.party, last.kind, last.looks);
    assert_eq!(found, (Party::Rest, Kind::User, 500));
    assert!((sendfile.total() - 1313.0 * per_look).abs() < 1e-9);
}

#[test]
fn what_was_counted_in_another_trial_is_no_evidence_of_time() {
    let mut world = watched();
    let mut counted = world.evidence.clone();
    for evidence in &mut counted {
        evidence.time = None;
    }
    world.evidence.splice(0..0, counted);
    assert_eq!(world.analyse().cpu_time.len(), 2);
}

#[test]
fn evidence_of_foreign_cells_and_of_nothing_is_left_out() {
    let mut foreign = watched();
    foreign.evidence[0].trial.cell = 4000;
    foreign.evidence[1].sent_bytes = 0;
    assert!(foreign.analyse().cpu_time.is_empty());
    let mut world = watched();
    world.evidence[0].cell = "another".to_owned();
    world.evidence[1].time = None;
    assert!(world.analyse().cpu_time.is_empty());
}
