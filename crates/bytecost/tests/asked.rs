//! Axes that are named by option or in a study file: used, refused, or told where they are not.

mod common;

use std::fs;

use common::{Place, refused, stderr, stdout, went_through};

fn findings(place: &Place) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(place.run_dir().join("findings.json")).unwrap();
    let all: serde_json::Value = serde_json::from_str(&text).unwrap();
    all["findings"].as_array().unwrap().clone()
}

#[test]
fn a_file_in_the_page_cache_is_compared_with_memory() {
    let place = Place::new();
    let words = "run --mover send,sendfile --cache warm --size 64KiB --transport loopback --threads 1 --budget 4s --window 5ms --warmup 2ms --evidence none";
    let run = place.call(&words.split(' ').collect::<Vec<_>>());
    went_through(&run);
    let note = "cache is for movers of files: it is used with `sendfile`, and not with `send`";
    assert!(stderr(&run).contains(note), "{}", stderr(&run));
    let pairs = findings(&place);
    let pair = pairs.first().unwrap_or_else(|| panic!("{}", stdout(&run)));
    assert_eq!(
        (&pair["value"], &pair["baseline_value"]),
        (&"sendfile".into(), &"send".into())
    );
}

#[test]
fn what_is_asked_for_is_compared() {
    let place = Place::new();
    let words = "run --mover send --nodelay both --pattern request-response --size 4KiB --transport loopback --threads 1 --budget 3s --window 5ms --warmup 2ms --evidence none";
    went_through(&place.call(&words.split(' ').collect::<Vec<_>>()));
    let pairs = findings(&place);
    assert!(
        !pairs.is_empty() && pairs.iter().all(|f| f["axis"] == "nodelay"),
        "{pairs:?}"
    );
}

#[test]
fn what_applies_to_no_cell_is_refused() {
    let place = Place::new();
    for (words, says) in [
        ("--mtu 9000", "--mtu 9000 applies to no cell"),
        ("--device veth", "--transport wire"),
        ("--mover send --depth 16", "several requests in flight"),
        ("--mover send --block 4KiB", "block by block"),
        ("--mover pread --nodelay both --cache warm", "over TCP"),
        ("--transport unix --cork on", "over TCP"),
        ("--mover send --huge-pages both", "such as work-random"),
        ("--transport wire --receiver recvmsg", "not over wire"),
        (
            "--server epoll --size 64 --rate 100 --think 1ms",
            "leave --rate out",
        ),
        ("--mover send --connections 4", "--server"),
        ("--server epoll --size 64 --class idle", "all but servers"),
    ] {
        let mut all = vec!["run", "--transport", "loopback"];
        if words.contains("--transport") {
            all.truncate(1);
        }
        all.extend(words.split(' '));
        refused(&place.call(&all), &[says]);
    }
    let file = place.path().join("mine.toml");
    let text = include_str!("../../../studies/smt.toml");
    assert!(text.contains("[axes]") || text.contains("[tier.axes]"));
    let text = text.replacen("[tier.axes]", "[tier.axes]\nmtu = [\"9000\"]", 1);
    fs::write(&file, text).unwrap();
    refused(
        &place.call(&["run", "mine.toml"]),
        &["mine.toml: mtu 9000 applies to no cell"],
    );
}
