//! The figures of bars: where the CPU time goes, and how often each byte is copied.

use std::collections::BTreeSet;

use crate::fixture::{self, section};

use bytecost_analysis::{
    Analysis, CellCopies, CellCounts, CellTime, EventRate, KindTime, LegCopies, NoValue,
    RoleCounter, RoleCounters, TimePer,
};
use bytecost_report::{html, pictures};
use bytecost_spec::Side;
use bytecost_spec::evidence::{CopyMeans, CopyPlace, CountedEvent, Kind, Party};

fn kind(party: Party, kind: Kind, ns_per_unit: f64) -> KindTime {
    KindTime {
        party,
        kind,
        looks: 100,
        ns_per_unit,
        low: ns_per_unit * 0.8,
        high: ns_per_unit * 1.2,
    }
}

pub fn watched(cells: usize) -> Analysis {
    let mut a = fixture::analysis();
    let times = a.cells.iter().take(cells).map(|c| CellTime {
        cell: c.id.clone(),
        per: TimePer::Kib,
        looks: 300,
        kinds: vec![
            kind(Party::Sender, Kind::DataCopy, 60.0),
            kind(Party::Sender, Kind::Pinning, 20.0),
            kind(Party::Receiver, Kind::DataCopy, 40.0),
        ],
        functions: Vec::new(),
        unattributed: 0.031,
        moved: 0.2,
        rest: 0.1,
        lost: 0.0,
    });
    a.cpu_time = times.collect();
    a
}

fn names(a: &Analysis) -> BTreeSet<String> {
    pictures(a).into_iter().map(|p| p.name).collect()
}

#[test]
fn each_watched_cell_is_a_bar_of_its_kinds() {
    let mut a = watched(3);
    a.cpu_time[2].per = TimePer::Request;
    let page = html(&a);
    insta::assert_snapshot!("cpu_time", section(&page, "cpu-time"));
    insta::assert_snapshot!("server_time", section(&page, "server-time"));
    assert!(names(&a).contains("server-time-by-kind"));
}

#[test]
fn without_watched_cells_there_is_no_figure() {
    assert!(!html(&watched(0)).contains("cpu-time"));
    assert!(names(&watched(3)).contains("cpu-time-by-kind"));
    // Times of a cell that the result does not have are left out.
    let mut foreign = watched(1);
    foreign.cpu_time[0].cell = "another".to_owned();
    assert!(!html(&foreign).contains("id=\"cpu-time\""));
    assert_eq!(names(&foreign), names(&watched(0)));
}

fn leg(leg: CopyPlace, per_byte: Option<f64>) -> LegCopies {
    LegCopies {
        leg,
        means: per_byte.map(|_| CopyMeans::Tracepoints),
        per_byte,
        absent: per_byte.is_none().then(|| "not counted".to_owned()),
    }
}

/// An analysis whose first cells were counted, each with these copies.
fn counted(legs: &[Vec<LegCopies>]) -> Analysis {
    let mut a = fixture::analysis();
    let copies = a.cells.iter().zip(legs).map(|(c, legs)| CellCopies {
        cell: c.id.clone(),
        legs: legs.clone(),
        gaps: Vec::new(),
    });
    a.copies = copies.collect();
    a
}

#[test]
fn the_copies_of_a_counted_cell_stand_by_place() {
    let sent = |into, delivery| {
        vec![
            leg(CopyPlace::IntoKernel, Some(into)),
            leg(CopyPlace::Delivery, Some(delivery)),
            leg(CopyPlace::ToReader, Some(1.0)),
        ]
    };
    let unknown = vec![
        leg(CopyPlace::FromFile, None),
        leg(CopyPlace::IntoKernel, Some(1.0)),
    ];
    let never = vec![leg(CopyPlace::IntoKernel, Some(0.0))];
    let a = counted(&[sent(1.0, 0.0), sent(0.0, 1.0), unknown, never]);
    insta::assert_snapshot!("copies", section(&html(&a), "counted"));
}

#[test]
fn what_flags_alone_show_is_no_count_of_copies() {
    let mut a = counted(&[vec![leg(CopyPlace::Delivery, Some(1.0))]]);
    a.copies[0].legs[0].means = Some(CopyMeans::CompletionFlags);
    assert!(!html(&a).contains("id=\"counted\""));
}

#[test]
fn what_a_byte_and_a_message_take_is_a_table_of_all_that_was_counted() {
    let mut a = counted(&[vec![
        leg(CopyPlace::IntoKernel, Some(1.0)),
        leg(CopyPlace::ToReader, Some(1.0)),
    ]]);
    let rate = |event, per_message: Option<f64>| EventRate {
        event,
        side: Side::Sender,
        per_message,
        absent: per_message.is_none().then(|| "self-test failed".to_owned()),
    };
    a.counts = vec![CellCounts {
        cell: a.cells[0].id.clone(),
        events: vec![
            rate(CountedEvent::SystemCalls, Some(8.0)),
            rate(CountedEvent::TlbFlushes, None),
        ],
    }];
    insta::assert_snapshot!("counted", section(&html(&a), "counted"));
    assert!(!html(&fixture::analysis()).contains("id=\"counted\""));
    // Of a server its own calls alone, and no copies where none were counted.
    a.copies.clear();
    a.counts[0].events = [(Side::Client, 8.0), (Side::Server, 3.0)]
        .map(|(side, n)| EventRate {
            side,
            ..rate(CountedEvent::SystemCalls, Some(n))
        })
        .to_vec();
    insta::assert_snapshot!("counted_server", section(&html(&a), "counted"));
}

#[test]
fn what_each_role_uses_is_a_table_with_reasons() {
    let mut a = fixture::analysis();
    assert!(!html(&a).contains("id=\"roles\""));
    let counter = |name: &str, per_request: Option<f64>| RoleCounter {
        name: name.to_owned(),
        per_request,
        absent: per_request
            .is_none()
            .then(|| NoValue::Recorded("no such event".to_owned())),
    };
    let counters = [
        counter("context_switches", Some(1.25)),
        counter("bus_cycles", None),
        counter("cache_misses", None),
    ];
    let roles = [Side::Server, Side::Client].map(|role| RoleCounters {
        cell: a.cells[0].id.clone(),
        role,
        window_ms: 100.0,
        requests: 5000.0,
        counters: counters.to_vec(),
    });
    a.roles = roles.into();
    insta::assert_snapshot!("roles", section(&html(&a), "roles"));
}
