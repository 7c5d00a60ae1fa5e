//! The heat maps of what the distance between two CPUs costs, with their tables.

use crate::fixture::{self, section};

use crate::pictures::is_name_of_file;
use bytecost_analysis::{Gap, Point};
use bytecost_report::{html, pictures};
use fixture::distances::paired;

#[test]
fn each_way_has_a_map_with_a_field_for_each_two_cpus_the_stronger_the_longer_it_took() {
    let mut a = paired();
    for map in &mut a.matrices {
        map.cpus = vec![0, 1, 32, 64];
        map.pairs
            .retain(|p| map.cpus.contains(&p.from) && map.cpus.contains(&p.to));
    }
    insta::assert_snapshot!("distances", section(&html(&a), "distances"));
    assert!(!html(&fixture::planted()).contains("distances"));
}

#[test]
fn many_cpus_are_drawn_without_numbers_and_too_many_in_part() {
    let mut a = paired();
    let matrix = &mut a.matrices[1];
    let pair = matrix.pairs[1].clone();
    matrix.cpus = (0..80).collect();
    matrix.pairs = (0..80)
        .map(|cpu| bytecost_analysis::PairPoint {
            from: 0,
            to: cpu,
            ..pair.clone()
        })
        .collect();
    let page = html(&a);
    let map = page.split("id=\"distance-ping-futex\"").nth(1).unwrap();
    assert!(map.contains("the first 64 of 80 CPUs are drawn"));
    // Of one time alone all fields have one colour.
    assert!(!map.contains("NaN"), "{map}");
    // A row and a column of the map, what was not asked is left open.
    assert_eq!(map.matches("<g class=\"field").count(), 127);
    assert_eq!(map.matches("not part of the study").count(), 79 * 79);
}

#[test]
fn names_and_reasons_cannot_break_out() {
    let mut a = paired();
    let map = &mut a.matrices[0];
    map.mover = "../<script>alert(1)</script>:é".repeat(9);
    map.pairs[2].point = Point::Gap(Gap::Refused("<img src=x>\x1b".to_owned()));
    let all = pictures(&a);
    let svgs = all.iter().map(|p| p.svg.clone());
    for text in svgs.chain([html(&a)]) {
        assert!(!text.contains("<script>alert") && !text.contains("<img"));
    }
    assert!(all.iter().all(|p| is_name_of_file(&p.name)));
}
