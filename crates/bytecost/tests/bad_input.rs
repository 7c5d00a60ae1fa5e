//! Bad input: one line that says what is wrong, where, and what to do; status 2; nothing left.

mod common;

use std::fs;
use std::os::unix::ffi::OsStrExt;

use bytecost_spec::manifest::FORMAT;
use common::{Place, refused, stderr, stdout, went_through};

fn check(words: &[&str], says: &[&str]) {
    let place = Place::new();
    refused(&place.call(words), says);
    assert_eq!(
        fs::read_dir(place.path()).unwrap().count(),
        0,
        "something was left behind"
    );
}

#[test]
fn what_is_not_in_the_tables_is_told_with_what_is() {
    check(
        &["run", "--mover", "teleport"],
        &["mover `teleport`", "send-zerocopy", "sendfile"],
    );
    check(
        &["run", "--receiver", "catch"],
        &["receiver `catch`", "recv, recvmsg, recv-discard"],
    );
    check(
        &["run", "--transport", "pigeon"],
        &["transport `pigeon`", "loopback, unix"],
    );
    check(
        &["run", "--pattern", "shout"],
        &["pattern `shout`", "stream, request-response"],
    );
    check(
        &["run", "everything"],
        &["study `everything`", "send-copies", ".toml"],
    );
    check(&["--mover", "teleport"], &["mover `teleport`"]);
    check(&["fly"], &["study `fly` is not known", "choose from"]);
    check(&["runn"], &["did you mean `bytecost run`?"]);
    check(&["run", "file-raed"], &["did you mean `file-read`?"]);
    check(
        &["run", "--sise", "4KiB"],
        &["'--sise'", "'--size'", "(see `bytecost run --help`)"],
    );
    check(
        &[
            "run",
            "--transport",
            "loopback",
            "--evidence",
            "copies,none",
        ],
        &["`none`"],
    );
    let nothing = ["run", "--transport", "loopback", "--placement", "0:8000"];
    check(
        &nothing,
        &["nothing of this study works on this machine: there is no CPU 8000"],
    );
    check(&["run", "--altitude", "3"], &["--altitude"]);
}

#[test]
fn sizes_and_counts_have_bounds() {
    check(
        &["run", "--size", "0"],
        &["size `0` is out of bounds", "4GiB"],
    );
    check(&["run", "--size", "-4096"], &["`-4096` is not a size"]);
    check(
        &["run", "--size", "5GiB"],
        &["size `5GiB` is out of bounds"],
    );
    check(&["run", "--size", "big"], &["`big` is not a size", "64KiB"]);
    check(&["run", "--fields", "0"], &["fields `0`", "1 to 1024"]);
    check(&["run", "--threads", "0"], &["threads `0`", "1 to 256"]);
    check(&["run", "--threads", "257"], &["threads `257`", "1 to 256"]);
    check(
        &["run", "--socket-buffer", "2GiB"],
        &["socket-buffer `2GiB`"],
    );
    check(
        &["run", "--placement", "left"],
        &["placement `left`", "SENDER:RECEIVER"],
    );
}

#[test]
fn times_and_shares_have_bounds() {
    check(&["run", "--precision", "200%"], &["200%", "percentage"]);
    check(&["run", "--budget", "soon"], &["soon", "60s"]);
    check(&["run", "--budget", "-3s"], &["-3s"]);
    check(
        &["run", "--window", "999999h"],
        &["window is out of bounds", "60s"],
    );
    check(&["run", "--budget", "2000h"], &["budget is out of bounds"]);
    for (option, what) in [
        ("--window", "window"),
        ("--warmup", "warmup"),
        ("--budget", "budget"),
    ] {
        let says = format!("{what} is out of bounds: from 1ms");
        for none in ["0", "0s", "100us"] {
            check(&["run", option, none], &[&says]);
        }
    }
    check(&["run", "--port", "0"], &["--port"]);
    check(&["run", "--blocks", "3"], &["--blocks"]);
}

#[test]
fn a_socket_buffer_that_the_kernel_does_not_give_is_refused_before_any_trial() {
    let bound = |name| fs::read_to_string(format!("/proc/sys/net/core/{name}")).unwrap();
    let bounds = ["wmem_max", "rmem_max"].map(|name| bound(name).trim().parse::<u64>().unwrap());
    if 2 * bounds[0].min(bounds[1]) >= 1 << 30 {
        eprintln!("skipped: this machine gives the largest buffer that can be asked for");
        return;
    }
    check(
        &["run", "--socket-buffer", "1GiB", "--transport", "loopback"],
        &[
            "socket buffers of 1 GiB",
            "net.core.",
            "a smaller --socket-buffer",
        ],
    );
}

#[test]
fn a_message_must_divide_where_that_matters() {
    check(
        &["run", "--mover", "send,sendmsg", "--size", "1001"],
        &[
            "size 1001 does not divide into 8 fields",
            "`sendmsg`",
            "--fields",
        ],
    );
    let place = Place::new();
    let words = [
        "run", "--mover", "send", "--size", "1001", "--budget", "1s", "--window", "20ms",
        "--warmup", "1ms", "--quiet",
    ];
    let output = place.call(&words);
    went_through(&output);
    assert!(stdout(&output).contains("send"));
}

#[test]
fn resume_takes_no_cells() {
    check(
        &["run", "--resume", "x", "--size", "4KiB"],
        &["--resume continues the cells of the run"],
    );
    check(
        &["run", "--resume", "x", "--as-published"],
        &["--resume continues the cells of the run"],
    );
    check(&["run", "--resume", "nothing-there"], &["nothing-there"]);
}

#[test]
fn a_study_without_a_published_design_says_so() {
    for words in [
        &["--as-published"][..],
        &["run", "send-copies", "--as-published"],
    ] {
        check(
            words,
            &["study `send-copies` has no published design: leave --as-published out"],
        );
    }
}

/// A study that is sound but for what is replaced.
fn study(from: &str, to: &str, says: &[&str]) {
    let sound = include_str!("../../../studies/send-copies.toml");
    assert!(sound.contains(from), "{from}");
    let place = Place::new();
    fs::write(place.path().join("my.toml"), sound.replacen(from, to, 1)).unwrap();
    let mut all = vec!["my.toml: line "];
    all.extend(says);
    refused(&place.call(&["run", "my.toml"]), &all);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
}

#[test]
fn a_study_file_is_told_with_line_and_column() {
    study(
        "budget =",
        "bugdet =",
        &["column 1", "unknown field `bugdet`"],
    );
    study(
        "blocks-least = 16",
        "blocks-least = \"eight\"",
        &["column 16", "invalid type"],
    );
    study(
        "threads = [1, 2, 4, 8]",
        "threads = []",
        &["axis `threads` has no values"],
    );
    study("fields = [8]", "fields = [8", &["line "]);
    study(
        "baseline = \"send\"",
        "baseline = \"teleport\"",
        &["no value of axis `mover`"],
    );
}

#[test]
fn names_of_a_study_file_are_held_against_the_tables() {
    let place = Place::new();
    let sound = include_str!("../../../studies/send-copies.toml");
    fs::write(
        place.path().join("my.toml"),
        sound.replacen("\"vmsplice\"", "\"warp\"", 1),
    )
    .unwrap();
    refused(
        &place.call(&["run", "my.toml"]),
        &["mover `warp` is not known"],
    );
}

#[test]
fn a_study_file_that_cannot_be_read_is_told_by_name() {
    let place = Place::new();
    refused(
        &place.call(&["run", "missing.toml"]),
        &["missing.toml", "No such file"],
    );
    fs::create_dir(place.path().join("dir.toml")).unwrap();
    refused(&place.call(&["run", "dir.toml"]), &["dir.toml"]);
    fs::write(place.path().join("bytes.toml"), [0xff, 0xfe, 0x00]).unwrap();
    refused(&place.call(&["run", "bytes.toml"]), &["bytes.toml"]);
    fs::write(place.path().join("long.toml"), vec![b'#'; 2 << 20]).unwrap();
    refused(
        &place.call(&["run", "long.toml"]),
        &["long.toml", "too long"],
    );
}

#[test]
fn a_run_directory_that_is_none_is_told_with_what_is_wrong() {
    let place = Place::new();
    refused(
        &place.call(&["report"]),
        &["no runs in bytecost-runs", "bytecost run"],
    );
    refused(&place.call(&["report", "nothing"]), &["nothing"]);
    refused(&place.call(&["report", "../../etc"]), &["../../etc"]);
    fs::create_dir_all(place.path().join("bytecost-runs/empty")).unwrap();
    refused(&place.call(&["report", "empty"]), &["empty"]);
}

#[test]
fn a_spoilt_run_directory_is_told_and_a_cut_log_is_read() {
    let place = Place::with_run();
    let dir = place.run_dir();
    let (manifest, log) = (dir.join("manifest.json"), dir.join("samples.jsonl"));
    let whole = fs::read(&manifest).unwrap();
    let samples = fs::read(&log).unwrap();

    // A cut at any place keeps what is whole.
    for cut in [0, samples.len() / 3, samples.len() - 1] {
        fs::write(&log, &samples[..cut]).unwrap();
        let output = place.call(&["report"]);
        assert!(
            matches!(output.status.code(), Some(0 | 1)),
            "{cut}: {}",
            stderr(&output)
        );
        assert_eq!(
            fs::read(&log).unwrap(),
            &samples[..cut],
            "a report changes no samples"
        );
    }
    let first_line = samples.iter().position(|b| *b == b'\n').unwrap();
    let mut broken = samples.clone();
    broken[first_line + 1] = b'!';
    fs::write(&log, &broken).unwrap();
    refused(&place.call(&["report"]), &["samples.jsonl", "line 2"]);

    let foreign = String::from_utf8(samples.clone())
        .unwrap()
        .replace("/4KiB/", "/8KiB/");
    fs::write(&log, foreign).unwrap();
    refused(
        &place.call(&["report"]),
        &["not of the cells that its manifest gives"],
    );
    fs::write(&log, &samples).unwrap();

    fs::write(&manifest, &whole[..whole.len() / 2]).unwrap();
    refused(&place.call(&["report"]), &["manifest.json"]);
    let newer = String::from_utf8(whole.clone()).unwrap().replacen(
        &format!("\"format\": {FORMAT}"),
        "\"format\": 999",
        1,
    );
    fs::write(&manifest, newer).unwrap();
    refused(&place.call(&["report"]), &["newer", "999"]);
    fs::remove_file(&manifest).unwrap();
    refused(&place.call(&["report"]), &["manifest"]);

    fs::write(&manifest, &whole).unwrap();
    assert!(matches!(place.call(&["report"]).status.code(), Some(0 | 1)));
}

#[test]
fn the_hidden_word_is_not_for_people() {
    refused(
        &Place::new().call(&["endpoint"]),
        &["for bytecost itself", "bytecost run"],
    );
}

#[test]
fn words_that_are_no_text_are_refused() {
    let place = Place::new();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_bytecost"))
        .arg("run")
        .arg(std::ffi::OsStr::from_bytes(b"\xff\xfe"))
        .current_dir(place.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        stderr(&output).trim_end().lines().count(),
        1,
        "{}",
        stderr(&output)
    );
}
