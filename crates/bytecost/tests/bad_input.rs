//! Bad input: one line that says what is wrong, where, and what to do; status 2; nothing left.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use crate::common::{Place, count, ended};

const SOUND: &str = include_str!("../../../studies/send-copies.toml");

/// Refused where nothing is, and where nothing is left.
#[track_caller]
fn check(table: &str) {
    let place = Place::new();
    place.refuses("", table);
    assert_eq!(count(place.path()), 0, "something was left behind");
}

#[test]
fn what_is_not_in_the_tables_is_told_with_what_is() {
    check(
        "run --mover teleport => mover `teleport` | send-zerocopy | sendfile
        run --receiver catch => receiver `catch` | recv, recvmsg, recv-discard
        run --transport pigeon => transport `pigeon` | loopback, unix
        run --pattern shout => pattern `shout` | stream, request-response
        run everything => study `everything` | send-copies | .toml
        --mover teleport => mover `teleport`
        fly => study `fly` is not known | choose from
        runn => did you mean `bytecost run`?
        run file-raed => did you mean `file-read`?
        run --sise 4KiB => '--sise' | '--size' | (see `bytecost run --help`)
        run --transport loopback --evidence copies,none => `none`
        run --transport loopback --placement 0:8000 => nothing of this study works on this machine: there is no CPU 8000
        run --transport loopback --background spin@smt-sibling => choose a --placement that pins
        run --mover work-integer --class other:nice=20 => from -20 to 19
        run --mover work-integer --cgroup max => max=50% (of one CPU)
        run --mover ping-cache-line --placement same-cpu => they spin | choose two CPUs
        run server-models --server epol => server `epol` is not known: did you mean `epoll`?
        run server-models --server apache => server `apache` is not known: choose from none, single
        run server-models --server select --connections 2000 => FD_SETSIZE
        run --altitude 3 => --altitude
        endpoint => for bytecost itself | bytecost run",
    );
}

#[test]
fn sizes_counts_times_and_shares_have_bounds() {
    check(
        "run --size 0 => size `0` is out of bounds | 4GiB
        run --size -4096 => `-4096` is not a size
        run --size big => `big` is not a size | 64KiB
        run --mover send,sendmsg --size 1001 => size 1001 does not divide into 8 fields | `sendmsg` | --fields
        run --fields 0 => fields `0` | 1 to 1024
        run --threads 257 => threads `257` | 1 to 256
        run --socket-buffer 2GiB => socket-buffer `2GiB`
        run --placement left => placement `left` | SENDER:RECEIVER
        run --precision 200% => 200% | percentage
        run --budget soon => soon | 60s
        run --budget -3s => -3s
        run --window 999999h => window is out of bounds | 60s
        run --budget 2000h => budget is out of bounds
        run --port 0 => --port
        run --blocks 3 => --blocks",
    );
    for what in ["window", "warmup", "budget"] {
        for none in ["0", "0s", "100us"] {
            check(&format!(
                "run --{what} {none} => {what} is out of bounds: from 1ms"
            ));
        }
    }
}

#[test]
fn resume_takes_no_cells_and_as_published_needs_a_design() {
    check(
        "run --resume x --size 4KiB => --resume continues the cells of the run
        run --resume x --as-published => --resume continues the cells of the run
        run --resume x --evidence time => --resume continues
        run --resume nothing-there => nothing-there
        --as-published => study `send-copies` has no published design: leave --as-published out
        run send-copies --as-published => study `send-copies` has no published design: leave --as-published out",
    );
}

#[test]
fn a_study_file_is_told_with_line_and_column() {
    let place = Place::new();
    for (from, to, says) in [
        (
            "budget =",
            "bugdet =",
            "my.toml: line  | column 1 | unknown field `bugdet`",
        ),
        ("\"vmsplice\"", "\"warp\"", "mover `warp` is not known"),
    ] {
        assert!(SOUND.contains(from), "{from}");
        fs::write(place.path().join("my.toml"), SOUND.replacen(from, to, 1)).unwrap();
        place.refuses("run my.toml", &format!("=> {says}"));
        assert_eq!(count(place.path()), 1);
    }
}

#[test]
fn a_study_file_that_cannot_be_read_is_told_by_name() {
    let place = Place::new();
    fs::create_dir(place.path().join("dir.toml")).unwrap();
    fs::write(place.path().join("bytes.toml"), [0xff, 0xfe, 0x00]).unwrap();
    fs::write(place.path().join("long.toml"), vec![b'#'; 2 << 20]).unwrap();
    place.refuses(
        "run",
        "missing.toml => missing.toml | No such file
        dir.toml => dir.toml
        bytes.toml => bytes.toml
        /dev/zero => /dev/zero: this is no regular file, but a device
        long.toml => long.toml | too long",
    );
}

#[test]
fn a_run_directory_that_is_none_is_told_with_what_is_wrong() {
    let place = Place::new();
    fs::create_dir_all(place.path().join("empty")).unwrap();
    place.refuses(
        "report",
        "=> no runs in bytecost-runs | bytecost run
        nothing => nothing
        ../../etc => ../../etc
        empty --runs-dir . => empty",
    );
}

#[test]
fn a_spoilt_run_directory_is_told_and_a_cut_log_is_read() {
    let place = Place::recorded(&["send-copies"]);
    let dir = place.run();
    let (manifest, log) = (dir.join("manifest.json"), dir.join("samples.jsonl"));
    let whole = fs::read_to_string(&manifest).unwrap();
    let samples = fs::read_to_string(&log).unwrap();

    // A cut at any place keeps what is whole.
    for cut in [0, samples.len() / 3, samples.len() - 1] {
        fs::write(&log, &samples[..cut]).unwrap();
        place.call("report").measured();
        let after = fs::read_to_string(&log).unwrap();
        assert_eq!(after, samples[..cut], "a report changes no samples");
    }
    let foreign = samples.replace("/4KiB/", "/8KiB/");
    for (file, text, says) in [
        (
            "samples.jsonl",
            &*foreign,
            "not of the cells of its manifest",
        ),
        ("manifest.json", &whole[..whole.len() / 2], "manifest.json"),
    ] {
        fs::write(dir.join(file), text).unwrap();
        place.call("report").refused(&[says]);
        fs::write(&log, &samples).unwrap();
    }
    fs::write(&manifest, &whole).unwrap();
    place.call("report").measured();
}

#[test]
fn words_that_are_no_text_are_refused() {
    let place = Place::new();
    for word in [
        &b"\xff\xfe"[..],
        b"a\nb",
        b"a\nb.toml",
        b"\x1b[2J/",
        b"--\x1b[2J",
    ] {
        let mut command = place.bytecost("run");
        let end = ended(command.arg(OsStr::from_bytes(word)));
        assert_eq!(
            (end.status, end.stderr.trim_end().lines().count()),
            (Some(2), 1)
        );
        assert!(!end.stderr.contains('\u{1b}'), "{}", end.stderr);
    }
}

#[test]
fn what_applies_to_no_cell_is_refused() {
    let place = Place::new();
    place.refuses(
        "run --transport loopback",
        "--mtu 9000 => --mtu 9000 applies to no cell
        --server epoll --size 64 --rate 100 --think 1ms => leave --rate out
        --mover send --connections 4 => --server
        --server epoll --size 64 --class idle => all but servers",
    );
    let text = include_str!("../../../studies/smt.toml");
    let wrong = text.replacen("[tier.axes]", "[tier.axes]\nmtu = [\"9000\"]", 1);
    assert_ne!(text, wrong);
    fs::write(place.path().join("mine.toml"), wrong).unwrap();
    place.refuses("run mine.toml", "=> mine.toml: mtu 9000 applies to no cell");
}

#[test]
fn a_mover_that_an_axis_is_not_for_is_measured_with_a_note() {
    let words = "run --transport loopback --threads 1 --window 5ms --warmup 2ms --blocks 6 --mover send,sendfile --cache warm --size 64KiB --budget 20s";
    let end = Place::new().call(words).measured();
    let note = "cache is for movers of files: it is used with `sendfile`, and not with `send`";
    assert!(end.stderr.contains(note), "{}", end.stderr);
}
