//! Figures as files: where they go, and what is said where there are none.

use std::fs;
use std::path::PathBuf;

use crate::common::{Place, count};

#[test]
fn every_figure_is_written_and_its_path_printed() {
    let place = Place::recorded(&["send-copies"]);
    let own = place.run().join("figures");
    let check = |words: &str, dir: PathBuf| {
        let output = place.call(words).measured().stdout;
        let paths: Vec<PathBuf> = output.lines().map(|l| place.path().join(l)).collect();
        assert!(!paths.is_empty());
        for path in &paths {
            assert_eq!(
                path.canonicalize().unwrap().parent(),
                Some(dir.canonicalize().unwrap().as_path())
            );
            assert_eq!(path.extension().unwrap(), "svg");
            assert!(fs::read(path).unwrap().starts_with(b"<svg"), "{path:?}");
        }
        assert_eq!(count(&dir), paths.len());
    };
    for _ in ["made", "there already"] {
        check("report --figures svg", own.clone());
    }
    let elsewhere = place.path().join("paper").join("figures");
    check("report --figures svg --out paper/figures", elsewhere);
    place.call("report --out here").succeeded();
    assert!(place.path().join("here/report.html").exists());
}
