//! Axes that are named by option or in a study file: used, refused, or told where they are not.

use std::fs;

use crate::common::{Place, says};

const SHORT: &str = "run --transport loopback --threads 1 --window 5ms --warmup 2ms";

#[test]
fn a_file_in_the_page_cache_is_compared_with_memory() {
    let place = Place::new();
    let words = "--mover send,sendfile --cache warm --size 64KiB --budget 4s";
    let run = place.call(format!("{SHORT} {words}")).measured();
    let note = "cache is for movers of files: it is used with `sendfile`, and not with `send`";
    says(&run.stderr, &[note]);
    let pair = &place.json("findings.json")["findings"][0];
    assert_eq!(
        (&pair["value"], &pair["baseline_value"]),
        (&"sendfile".into(), &"send".into()),
        "{}",
        run.stdout
    );
}

#[test]
fn what_is_asked_for_is_compared() {
    let place = Place::new();
    let words = "--mover send --nodelay both --pattern request-response --size 4KiB --budget 3s";
    place.call(format!("{SHORT} {words}")).measured();
    let found = &place.json("findings.json")["findings"];
    let pairs = found.as_array().unwrap();
    assert!(
        !pairs.is_empty() && pairs.iter().all(|f| f["axis"] == "nodelay"),
        "{pairs:?}"
    );
}

#[test]
fn what_applies_to_no_cell_is_refused() {
    let place = Place::new();
    place.refuses(
        "run --transport loopback",
        "--mtu 9000 => --mtu 9000 applies to no cell
        --device veth => --transport wire
        --mover send --depth 16 => several requests in flight
        --mover send --block 4KiB => block by block
        --mover pread --nodelay both --cache warm => over TCP
        --mover send --huge-pages both => such as work-random
        --server epoll --size 64 --rate 100 --think 1ms => leave --rate out
        --mover send --connections 4 => --server
        --server epoll --size 64 --class idle => all but servers",
    );
    place.refuses(
        "run",
        "--transport unix --cork on => over TCP
        --transport wire --receiver recvmsg => not over wire",
    );
    let text = include_str!("../../../studies/smt.toml");
    let wrong = text.replacen("[tier.axes]", "[tier.axes]\nmtu = [\"9000\"]", 1);
    assert_ne!(text, wrong);
    fs::write(place.path().join("mine.toml"), wrong).unwrap();
    place.refuses("run mine.toml", "=> mine.toml: mtu 9000 applies to no cell");
}
