//! Figures as files: where they go, and what is said where there are none.

mod common;

use std::fs;
use std::path::PathBuf;

use common::{Place, TINY, refused, stderr, stdout, went_through};

/// A finished tiny run of two sizes, so that there is something to draw.
fn with_figures() -> Place {
    let place = Place::new();
    let words: Vec<&str> = TINY
        .iter()
        .map(|word| match *word {
            "4KiB" => "4KiB,16KiB",
            "3s" => "30s",
            word => word,
        })
        .collect();
    let output = place.call(&words);
    went_through(&output);
    place
}

#[test]
fn every_figure_is_written_and_its_path_printed() {
    let place = with_figures();
    let own = place.run_dir().join("figures");
    let check = |words: &[&str], dir: PathBuf, ending: &str, begins: &[u8]| {
        let output = place.call(words);
        went_through(&output);
        let told = stdout(&output);
        let paths: Vec<PathBuf> = told.lines().map(|l| place.path().join(l)).collect();
        assert!(!paths.is_empty());
        for path in &paths {
            assert_eq!(
                path.canonicalize().unwrap().parent(),
                Some(dir.canonicalize().unwrap().as_path())
            );
            assert_eq!(path.extension().unwrap(), ending);
            assert!(fs::read(path).unwrap().starts_with(begins), "{path:?}");
        }
        assert_eq!(fs::read_dir(&dir).unwrap().count(), paths.len());
    };
    check(&["report", "--figures", "svg"], own, "svg", b"<svg");
    let elsewhere = place.path().join("paper").join("figures");
    check(
        &["report", "--figures", "png", "--out", "paper/figures"],
        elsewhere,
        "png",
        b"\x89PNG\r\n\x1a\n",
    );
}

#[test]
fn a_run_without_figures_says_so() {
    let place = Place::with_run();
    refused(
        &place.call(&["report", "--figures", "svg"]),
        &["no figures"],
    );
    let output = place.call(&["report", "--out", "here"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--figures"), "{}", stderr(&output));
}
