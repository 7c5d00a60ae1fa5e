//! The figures of bars: where the CPU time goes, and how often each byte is copied.

use crate::fixture;

use bytecost_analysis::{
    Analysis, CellCopies, CellCounts, CellTime, EventRate, KindTime, LegCopies, RoleCounter,
    RoleCounters, TimePer,
};
use bytecost_report::{Style, html, pictures, png, terminal};
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

/// An analysis whose first cells were watched.
fn watched(cells: usize) -> Analysis {
    let mut a = fixture::analysis();
    a.cpu_time = a
        .cells
        .iter()
        .take(cells)
        .map(|c| CellTime {
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
        })
        .collect();
    a
}

#[test]
fn each_watched_cell_is_a_bar_of_its_kinds() {
    let page = html(&watched(4));
    assert!(page.contains("id=\"cpu-time\"") && page.contains("href=\"#cpu-time\""));
    assert_eq!(page.matches("<g class=\"bar\">").count(), 4);
    let tells = "data copy: 100 ns for each KiB, 83.3\u{a0}%; sender 60.0 (48.0 to 72.0), receiver 40.0 (32.0 to 48.0)";
    let at = page.find("data copy: ").unwrap();
    // In the drawing, and in the table for who cannot see it.
    assert_eq!(page.matches(tells).count(), 8, "{}", &page[at..at + 120]);
    assert!(page.contains("page pinning and completion"));
    assert!(
        !page.contains("scheduling and wake-ups"),
        "the legend has what appears"
    );
    assert!(page.contains("At most 3.1\u{a0}%"));
}

#[test]
fn a_servers_time_is_a_figure_of_its_own_without_its_clients() {
    let mut a = watched(3);
    for time in &mut a.cpu_time[..2] {
        time.per = TimePer::Request;
    }
    let page = html(&a);
    assert!(page.contains("id=\"server-time\"") && page.contains("id=\"cpu-time\""));
    let tells = "data copy: 40.0 ns for each request, 100\u{a0}%; clients 60.0 (48.0 to 72.0), server 40.0 (32.0 to 48.0)";
    assert_eq!(page.matches(tells).count(), 4);
    let named = |p: &bytecost_report::Picture| p.name == "server-time-by-kind";
    assert!(pictures(&a).iter().any(named));
}

#[test]
fn without_watched_cells_there_is_no_figure() {
    assert!(!html(&watched(0)).contains("cpu-time"));
    let names = |a: &Analysis| {
        pictures(a)
            .iter()
            .filter(|p| p.name == "cpu-time-by-kind")
            .count()
    };
    assert_eq!((names(&watched(0)), names(&watched(3))), (0, 1));
    // Times of a cell that the result does not have are left out.
    let mut foreign = watched(1);
    foreign.cpu_time[0].cell = "another".to_owned();
    assert!(!html(&foreign).contains("id=\"cpu-time\""));
}

#[test]
fn the_picture_stands_by_itself() {
    let all = pictures(&watched(5));
    let picture = all.iter().find(|p| p.name == "cpu-time-by-kind").unwrap();
    assert!(picture.svg.starts_with("<svg") && !picture.svg.contains("var("));
    assert!(png(picture).is_ok());
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
    let cells = a.cells.iter().zip(legs);
    a.copies = cells
        .map(|(c, legs)| CellCopies {
            cell: c.id.clone(),
            legs: legs.clone(),
            gaps: Vec::new(),
        })
        .collect();
    a
}

#[test]
fn each_counted_cell_is_a_bar_of_the_places_where_it_is_copied() {
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
    let page = html(&counted(&[sent(1.0, 0.0), sent(0.0, 1.0), unknown, never]));
    assert!(page.contains("id=\"copies\"") && page.contains("href=\"#copies\""));
    assert!(!page.contains("id=\"cpu-time\""));
    assert_eq!(page.matches("<g class=\"bar\">").count(), 4);
    for total in [">2.00<", ">1.00+<", ">0.00<"] {
        assert!(page.contains(total), "{total}");
    }
    assert!(page.contains("on delivery: 1.000 copies of each byte, by tracepoints"));
    assert!(page.contains("Known by: tracepoints."));
    assert!(
        !page.contains("into the page cache"),
        "the legend has what appears"
    );
}

#[test]
fn what_flags_alone_tell_is_no_figure_of_copies() {
    let mut a = counted(&[vec![leg(CopyPlace::Delivery, Some(1.0))]]);
    a.copies[0].legs[0].means = Some(CopyMeans::CompletionFlags);
    assert!(!html(&a).contains("id=\"copies\""));
    let counted = counted(&[vec![leg(CopyPlace::Delivery, Some(1.0))]]);
    let all = pictures(&counted);
    let picture = all.iter().find(|p| p.name == "copies-per-byte").unwrap();
    assert!(png(picture).is_ok());
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
    let page = html(&a);
    assert!(page.contains("What a byte and a message take") && page.contains("id=\"counted\""));
    assert!(page.contains("<td>2.00</td><td>1.00</td><td>1.00</td><td>8.00</td>"));
    assert!(page.contains("Not counted, TLB flushes: self-test failed."));
    assert!(
        !page.contains("wake-ups</th>"),
        "columns are what was counted"
    );
    let style = Style::plain(100);
    let text = terminal(&a, style);
    assert!(text.contains("copies a") && text.contains("8.00"), "{text}");
    assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
    assert!(!html(&fixture::analysis()).contains("id=\"counted\""));
    // Of a server its own calls alone, and no copies where none were counted.
    a.copies.clear();
    a.counts[0].events = [(Side::Client, 8.0), (Side::Server, 3.0)]
        .map(|(side, n)| EventRate {
            side,
            ..rate(CountedEvent::SystemCalls, Some(n))
        })
        .to_vec();
    let page = html(&a);
    assert!(page.contains("<td>3.00</td>") && page.contains("Of servers: what their own"));
    assert!(!page.contains("copies a byte</th>"));
}

#[test]
fn what_each_role_uses_is_a_table_with_reasons() {
    let mut a = fixture::analysis();
    assert!(!html(&a).contains("id=\"roles\""));
    let counter = |name: &str, per_request: Option<f64>| RoleCounter {
        name: name.to_owned(),
        per_request,
        absent: per_request.is_none().then(|| "no such event".to_owned()),
    };
    a.roles = [Side::Server, Side::Client]
        .map(|role| RoleCounters {
            cell: a.cells[0].id.clone(),
            role,
            window_ms: 100.0,
            requests: 5000.0,
            counters: vec![
                counter("context_switches", Some(1.25)),
                counter("bus_cycles", None),
                counter("cache_misses", None),
            ],
        })
        .to_vec();
    let style = Style::plain(100);
    for text in [html(&a), terminal(&a, style)] {
        assert!(text.contains("What each role uses for a request"));
        assert!(text.contains(", server") && text.contains(", clients"));
        assert!(text.contains("1.25") && text.contains("100"));
        assert!(text.contains("No bus cycles, cache misses: no such event."));
    }
}
