//! The heat maps of what the distance between two CPUs costs, with their tables.

use crate::fixture;

use bytecost_analysis::Point;
use bytecost_report::{html, pictures};
use fixture::distances::paired;

#[test]
fn each_way_has_a_map_with_a_field_for_each_two_cpus() {
    let page = html(&paired());
    assert!(page.contains("id=\"distances\"") && page.contains("href=\"#distances\""));
    let maps = page.split("<figure class=\"card heat\"").skip(1);
    let maps: Vec<&str> = maps.map(|m| m.split("</figure>").next().unwrap()).collect();
    assert_eq!(maps.len(), 2);
    for map in &maps {
        // Each pair stands on both sides of the diagonal.
        assert_eq!(map.matches("<g class=\"field").count(), 64);
        assert_eq!(map.matches("<th scope=\"row\">").count(), 8);
        assert!(map.contains("a pair was measured one way round"));
        assert!(
            !map.contains("neighbour"),
            "what is at its default is not told"
        );
    }
    // Spinning on one CPU has no number, and one reason for all of them.
    assert_eq!(maps[0].matches("<g class=\"field none\">").count(), 8);
    assert_eq!(maps[0].matches("No number for 0:0, 1:1, 2:2").count(), 1);
    assert!(maps[0].contains("CPUs 0 and 64, same core: 5"));
    // Tens of thousands of ns are told as µs.
    assert!(maps[1].contains("in µs, less is better") && maps[0].contains("in ns"));
    assert!(maps[1].contains("The <code>times</code> are made up."));
    assert!(!html(&fixture::planted()).contains("distances"));
}

#[test]
fn a_field_is_painted_the_stronger_the_longer_it_took() {
    let page = html(&paired());
    let map = page.split("id=\"distance-ping-futex\"").nth(1).unwrap();
    let opacity = |tells: &str| -> f64 {
        let field = map.split(tells).nth(1).unwrap();
        let value = field.split("fill-opacity=\"").nth(1).unwrap();
        value.split('"').next().unwrap().parse().unwrap()
    };
    let places = [
        "CPU 0 with itself",
        "CPUs 0 and 64,",
        "CPUs 0 and 1,",
        "CPUs 0 and 32,",
    ];
    let painted = places.map(opacity);
    assert!(
        painted.is_sorted() && painted[0] < painted[3],
        "{painted:?}"
    );
}

#[test]
fn many_cpus_are_drawn_without_numbers_and_too_many_in_part() {
    let mut a = paired();
    let map = &mut a.matrices[1];
    let pair = map.pairs[1].clone();
    map.cpus = (0..80).collect();
    map.pairs = (0..80)
        .map(|cpu| bytecost_analysis::PairPoint {
            from: 0,
            to: cpu,
            ..pair.clone()
        })
        .collect();
    let page = html(&a);
    let map = page.split("id=\"distance-ping-futex\"").nth(1).unwrap();
    assert!(map.contains("the first 64 of 80 CPUs are drawn"));
    // A row and a column of the map, what was not asked is left open.
    assert_eq!(map.matches("<g class=\"field").count(), 127);
    assert_eq!(map.matches("not part of the study").count(), 79 * 79);
}

#[test]
fn names_and_reasons_cannot_break_out() {
    let mut a = paired();
    let map = &mut a.matrices[0];
    map.mover = "<script>alert(1)</script>".to_owned();
    map.pairs[1].shared = "\"><img src=x>".to_owned();
    map.pairs[2].point = Point::Gap("<img src=x>\x1b".to_owned());
    map.words.push("<script>".to_owned());
    let all = pictures(&a);
    let svgs = all.iter().map(|p| p.svg.clone());
    for text in svgs.chain([html(&a)]) {
        assert!(!text.contains("<script>alert") && !text.contains("<img"));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    assert!(all.iter().all(|p| p.name.chars().all(plain)));
}
