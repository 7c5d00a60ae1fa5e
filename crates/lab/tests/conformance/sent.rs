//! Every mover that sends a file, over every transport, from every state of the page cache.

use std::path::{Path, PathBuf};

use bytecost_engine::{MOVERS, Mover, Route};
use bytecost_lab::files::Files;
use bytecost_lab::passes::Passes;
use bytecost_spec::survey::FileSurvey;
use bytecost_spec::{Cache, Cell, Counter, Failure, Pattern, Reading, Sample, Survey, Transport};
use libtest_mimic::Trial;
use rustix::process::Pid;

use super::endpoints::{self, children, is_ended};
use super::files::{has_open, refused_on, sample_of, trial_of};
use super::{case, cell, fails, read, sample, tried};

/// Messages of one kind, and from where they are sent.
const CLASSES: [&str; 8] = [
    // Messages that begin anywhere within a page, round a file of a few of them.
    "cache=memory pattern=stream size=4000 ring=64KiB block=4KiB threads=2",
    "cache=cold pattern=stream size=4000 ring=64KiB block=4KiB threads=2",
    "cache=warm pattern=request-response size=70001 ring=message block=4KiB threads=1",
    // More than a pipe, a buffer and a chain of requests hold.
    "cache=memory pattern=stream size=3000001 ring=message block=64KiB threads=1",
    // Long: a window is a number of them.
    "cache=warm pattern=request-response size=9000001 ring=message block=64KiB threads=2",
    "cache=cold pattern=request-response size=9000001 ring=message block=64KiB threads=2",
    "cache=memory pattern=stream size=5MiB ring=10MiB block=1MiB threads=1",
    "cache=cold pattern=stream size=5MiB ring=10MiB block=1MiB threads=1",
];

pub fn trials(survey: &Survey, found: &FileSurvey) -> Vec<Trial> {
    let mut trials = Vec::new();
    for mover in MOVERS.iter().filter(|m| m.route == Route::FileToSocket) {
        for transport in Transport::WITHIN.iter().filter(|t| t.has_receiver()) {
            // Starting a program takes a second; over one transport it is asked for everything.
            let all = !mover.is_helped() || *transport == Transport::Loopback;
            let classes = if all { CLASSES.len() } else { 2 };
            for values in &CLASSES[..classes] {
                let way = format!("mover={} transport={}", mover.name, transport.name());
                let cell = cell(&format!("{way} {values}"));
                let refused = refused(survey, found, &cell);
                let name = cell.id().replace('/', " ");
                trials.push(tried(name, cell, refused, all_arrives));
            }
        }
    }
    for mover in MOVERS.iter().filter(|m| m.route == Route::FileToSocket) {
        let refused = survey.mover_refused(mover.name, Transport::Loopback);
        if refused.is_none() {
            let name = format!("a file that is truncated while {} sends it", mover.name);
            trials.push(case(name, || truncated(mover)));
        }
    }
    trials.extend([
        case("a file of the user's that is sent", of_the_user),
        case("a receiver that dies in mid-file", lost_receiver),
    ]);
    trials
}

fn refused(survey: &Survey, found: &FileSurvey, cell: &Cell) -> Option<String> {
    let on_disk = || refused_on(found, &cell.mover, cell.cache);
    survey
        .mover_refused(&cell.mover, cell.transport)
        .or_else(|| (cell.cache != Cache::Memory).then(on_disk).flatten())
}

fn all_arrives(cell: &Cell) {
    let sample = sample(cell);
    let truth = sample.truth.expect("nothing was checked");
    let receiver = sample.receiver.expect("no receiver");
    assert_eq!(truth.received_bytes, truth.sent_bytes);
    assert_eq!(truth.compared_bytes, truth.sent_bytes);
    assert_eq!(truth.checked, "content");
    let pass = cell.ring_slots() * cell.size_bytes * u64::from(cell.threads);
    assert!(truth.sent_bytes >= 3 * pass, "three passes: {truth:?}");
    let is_timed = sample.latency_ns_histogram.is_some();
    assert_eq!(is_timed, cell.pattern == Pattern::RequestResponse);
    let aside = sample.sender.readings.get(&Counter::AsideNs);
    let has_aside = aside.and_then(Reading::measured).is_some();
    let is_helped = Mover::named(&cell.mover).is_some_and(|m| m.is_helped());
    // Dropping the cache is no part of a message.
    let is_aside = is_helped || has_aside == (cell.cache == Cache::Cold);
    assert!(is_aside, "{aside:?}");
    let Some(passes) = Passes::new(cell) else {
        return;
    };
    // Both sides count the same messages and bytes.
    for side in [&sample.sender, &receiver] {
        let messages = read(&side.readings, Counter::Messages);
        let bytes = read(&side.readings, Counter::Bytes);
        // The last received bytes of a stream may belong to the next message.
        let whole = bytes == messages * cell.size_bytes && messages.is_multiple_of(passes.messages);
        let is_right = messages > 0 && (whole || cell.pattern == Pattern::Stream);
        assert!(is_right, "{messages} messages, {bytes} bytes");
        let are_flows_timed = side.flows.iter().all(|f| f.elapsed_ns > 0);
        assert!(are_flows_timed, "{:?}", side.flows);
    }
    if cell.pattern != Pattern::Stream {
        let [sent, came] = [&sample.sender, &receiver].map(|s| read(&s.readings, Counter::Bytes));
        assert_eq!(sent, came, "in the window");
    }
}

fn mine(bytes: usize) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("mine");
    std::fs::write(&path, vec![7; bytes]).unwrap();
    (dir, path)
}

fn sending(mover: &str, size: &str, cache: &str) -> Cell {
    cell(&format!(
        "mover={mover} pattern=request-response cache={cache} size={size} ring=message"
    ))
}

fn of_the_user() {
    let (dir, path) = mine(6_000_001);
    let before = std::fs::metadata(&path).unwrap().modified().unwrap();
    let files = || Files::new(dir.path().to_owned(), Some(path.clone()));
    for mover in ["read-write", "sendfile", "mmap-send"] {
        for cache in ["warm", "cold"] {
            let sample = sample_of(&sending(mover, "6000001", cache), files());
            let truth = sample.truth.expect("no truth");
            assert_eq!(truth.checked, "count");
            assert_eq!(truth.sent_bytes, truth.received_bytes);
        }
    }
    for (size, cache, word) in [
        ("6000002", "warm", "too short"),
        ("6000001", "memory", "not a memory file"),
    ] {
        let ended = trial_of(&sending("sendfile", size, cache), files());
        fails(ended, &[word]);
    }
    let content = std::fs::read(&path).unwrap();
    assert!(content == vec![7; 6_000_001], "it was changed");
    let after = std::fs::metadata(&path).unwrap().modified().unwrap();
    assert!(after == before, "it was touched");
}

/// Makes the file shorter while an endpoint sends it: the trial must say so, and end.
fn truncated(mover: &Mover) {
    let record = disturbed(&sending(mover.name, "16MiB", "warm"), 16 << 20, cut);
    // The cut may come before the file was brought in.
    fails(record, &["truncated", "too short"]);
}

/// Ends the receiver while the other endpoint sends a file.
fn lost_receiver() {
    let cell = sending("read-write", "16MiB", "warm");
    let record = disturbed(&cell, 16 << 20, |_, others| is_ended(others));
    fails(record, &["SIGKILL", "gone", "reset"]);
}

/// Makes a file shorter than anything is that is asked of it.
pub fn cut(path: &Path, _others: &[Pid]) -> bool {
    let file = std::fs::OpenOptions::new().write(true).open(path);
    file.and_then(|f| f.set_len(5000)).is_ok()
}

/// A trial on a user's file of so many bytes; once one endpoint has it open, `then` strikes.
pub fn disturbed(
    cell: &Cell,
    bytes: usize,
    then: fn(&Path, &[Pid]) -> bool,
) -> Result<Sample, Failure> {
    let (dir, path) = mine(bytes);
    let files = Files::new(dir.path().to_owned(), Some(path.clone()));
    endpoints::disturbed(cell, files, move |all| {
        // A Java machine takes it over from the endpoint that starts it.
        let has_it = |pid: &Pid| {
            let number = pid.to_string();
            let mut started = children(&number).into_iter();
            has_open(&number, &path) || started.any(|c| has_open(&c.to_string(), &path))
        };
        let (with, others): (Vec<Pid>, Vec<Pid>) = all.into_iter().partition(has_it);
        !with.is_empty() && then(&path, &others)
    })
}
