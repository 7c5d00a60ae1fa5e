//! Figures as files: what stands in them, and that other programs can read them.

use crate::fixture::{self, distances::paired};
use crate::overview::analysis as speed_ups;
use crate::stack::watched;

use bytecost_report::pictures;

/// Holds that each element of an SVG is closed where it must be.
fn check_elements(svg: &str) {
    let mut open = Vec::new();
    for tag in svg
        .split('<')
        .skip(1)
        .map(|piece| piece.split('>').next().unwrap())
    {
        let name = tag.split_whitespace().next().unwrap();
        match name.strip_prefix('/') {
            Some(closed) => assert_eq!(open.pop(), Some(closed), "{svg}"),
            None if tag.ends_with('/') => {}
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?} in {svg}");
}

/// The text of a picture, its lines joined.
fn text(svg: &str) -> String {
    let pieces = svg.split('<').filter_map(|piece| piece.split_once('>'));
    let words = pieces.flat_map(|(_, text)| text.split_whitespace());
    words.collect::<Vec<_>>().join(" ")
}

/// Returns true if a picture's file may have this name.
pub fn is_name_of_file(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    name.chars().all(plain) && (1..=100).contains(&name.len())
}

#[test]
fn a_picture_tells_what_its_reader_must_know() {
    for a in [fixture::planted(), paired(), speed_ups(), watched(3)] {
        let version = a.run.bytecost_version.split(' ').next().unwrap();
        for picture in pictures(&a) {
            // Words alone: lines are broken where they are full.
            for part in [&a.host.kernel, version, &a.study.name, &a.run.started[..10]] {
                assert!(picture.svg.contains(part), "{part} in {}", picture.name);
            }
            for outside in ["var(", "@media", "<script", "<image", "href"] {
                let is_there = picture.svg.contains(outside);
                assert!(!is_there, "{outside} in {}", picture.name);
            }
            check_elements(&picture.svg);
        }
    }
    let pictures = pictures(&fixture::planted());
    let check = |number: usize, part: &str| {
        let words = text(&pictures[number].svg);
        assert!(words.contains(part), "{part}: {words}");
    };
    check(0, "(pa02-a)");
    check(0, "hollow, dotted: published by pa02-a");
    check(0, "Throughput (Gbit/s)");
    check(0, "waits for a delayed acknowledgement");
    check(1, "not measured here: hardware counters");
}

#[test]
fn names_of_pictures_are_names_of_files_and_differ() {
    for a in [fixture::planted(), fixture::hostile()] {
        let mut names: Vec<String> = pictures(&a).into_iter().map(|p| p.name).collect();
        assert!(names.iter().all(|name| is_name_of_file(name)));
        let count = names.len();
        names.dedup();
        assert!(count > 0 && names.len() == count);
    }
}

#[test]
fn names_cannot_break_out_of_a_picture() {
    for picture in pictures(&fixture::hostile()) {
        for harm in ["<script", "<img", "\x1b"] {
            assert!(!picture.svg.contains(harm), "{harm} in {}", picture.name);
        }
    }
}
