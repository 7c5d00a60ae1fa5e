//! The figure of where the CPU time goes.

mod fixture;

use bytecost_analysis::{Analysis, CellTime, KindTime};
use bytecost_report::{html, pictures, png};
use bytecost_spec::evidence::{Kind, Party};

fn kind(party: Party, kind: Kind, ns_per_kib: f64) -> KindTime {
    KindTime {
        party,
        kind,
        looks: 100,
        ns_per_kib,
        low: ns_per_kib * 0.8,
        high: ns_per_kib * 1.2,
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
    assert_eq!(page.matches(tells).count(), 4, "{}", &page[at..at + 120]);
    assert!(page.contains("page pinning and completion"));
    assert!(
        !page.contains("scheduling and wake-ups"),
        "the legend has what appears"
    );
    assert!(page.contains("At most 3.1\u{a0}%"));
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
