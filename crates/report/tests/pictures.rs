//! Figures as files: what stands in them, and that they are drawn without any font of the machine.

mod fixture;

use bytecost_report::{pictures, png};

/// Width and height of a PNG, from its header.
fn size(png: &[u8]) -> (u32, u32) {
    assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

#[test]
fn a_picture_tells_what_its_reader_must_know() {
    let pictures = pictures(&fixture::with_latency());
    assert_eq!(pictures.len(), 5);
    for picture in &pictures {
        for part in [
            "Xeon",
            "Linux 6.18.5",
            "under kvm",
            "bytecost 0.1.0",
            "2026-11-21",
            "study send-copies",
            "is better",
        ] {
            assert!(picture.svg.contains(part), "{part} in {}", picture.name);
        }
        for outside in ["var(", "@media", "<script", "<image", "href"] {
            assert!(
                !picture.svg.contains(outside),
                "{outside} in {}",
                picture.name
            );
        }
    }
    let check = |number: usize, part: &str| assert!(pictures[number].svg.contains(part), "{part}");
    check(0, "send-fields (pa02-a)");
    check(0, "hollow, dotted: published by pa02-a");
    check(0, "Throughput (Gbit/s)");
    check(1, "cannot be had here, so this is CPU time");
    check(3, "waits for a delayed acknowledgement");
    check(4, "not measured here: hardware counters");
}

#[test]
fn names_of_pictures_are_names_of_files_and_differ() {
    for a in [
        fixture::with_latency(),
        fixture::hostile(),
        fixture::imported(),
    ] {
        let mut names: Vec<String> = pictures(&a).into_iter().map(|p| p.name).collect();
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        assert!(names.iter().all(|n| n.chars().all(plain) && n.len() <= 100));
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

#[test]
fn a_png_is_large_enough_for_print_and_has_its_text_in_it() {
    let all = pictures(&fixture::imported());
    let picture = &all[0];
    let drawn = png(picture).unwrap();
    let (width, height) = size(&drawn);
    assert!(width == 668 * 3 && height > 400 * 3, "{width} × {height}");
    assert!(
        drawn == png(picture).unwrap(),
        "the same picture gives the same bytes"
    );
    let mute = bytecost_report::Picture {
        svg: picture.svg.replace("Throughput", ""),
        ..picture.clone()
    };
    assert!(drawn != png(&mute).unwrap(), "text is drawn");
    let broken = bytecost_report::Picture {
        svg: "<p>".to_owned(),
        ..picture.clone()
    };
    assert!(png(&broken).is_err());
}
