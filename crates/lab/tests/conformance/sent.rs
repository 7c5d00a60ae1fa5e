//! Every mover that sends a file, over every transport, from every state of the page cache, in
//! sizes below and above what one call and one window take in, with every byte checked.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytecost_engine::{MOVERS, Mover, Route};
use bytecost_lab::file_survey;
use bytecost_lab::files::Files;
use bytecost_lab::passes::Passes;
use bytecost_lab::program::Program;
use bytecost_lab::trial::Settings;
use bytecost_spec::survey::FileSurvey;
use bytecost_spec::{Axis, Cache, Cell, Counter, Failure, Pattern, Sample, Survey, Transport};
use libtest_mimic::{Failed, Trial};
use rustix::process::Pid;

use super::endpoints::{children, endpoints, marked};
use super::files::{files, has_open, sample_of, trial_of};
use super::{SOON, cell, ensure, lab, read, sample, trial, trial_in};

/// Messages of one kind, and from where they are sent.
struct Class {
    values: [(Axis, &'static str); 5],
    caches: &'static [Cache],
}

const fn class(
    [pattern, size, ring, block, threads]: [&'static str; 5],
    caches: &'static [Cache],
) -> Class {
    Class {
        values: [
            (Axis::Pattern, pattern),
            (Axis::Size, size),
            (Axis::Ring, ring),
            (Axis::Block, block),
            (Axis::Threads, threads),
        ],
        caches,
    }
}

const CLASSES: [Class; 5] = [
    // Messages that begin anywhere within a page, round a file of a few of them.
    class(
        ["stream", "4000", "64KiB", "4KiB", "2"],
        &[Cache::Memory, Cache::Cold],
    ),
    class(["ask", "70001", "message", "4KiB", "1"], &[Cache::Warm]),
    // More than a pipe, a buffer and a chain of requests hold.
    class(
        ["stream", "3000001", "message", "64KiB", "1"],
        &[Cache::Memory],
    ),
    // Long: a window is a number of them.
    class(
        ["ask", "9000001", "message", "64KiB", "2"],
        &[Cache::Warm, Cache::Cold],
    ),
    class(
        ["stream", "5MiB", "10MiB", "1MiB", "1"],
        &[Cache::Memory, Cache::Cold],
    ),
];

pub fn trials(survey: &Survey) -> Vec<Trial> {
    let found = file_survey::survey(&mut files()).expect("the crate's directory can be written to");
    let mut trials = Vec::new();
    for mover in MOVERS.iter().filter(|m| m.route == Route::FileToSocket) {
        for transport in Transport::WITHIN.iter().filter(|t| t.has_receiver()) {
            // Starting a program takes a second; over one transport it is asked for everything.
            let all = !mover.is_helped() || *transport == Transport::Loopback;
            let classes = if all { CLASSES.len() } else { 1 };
            for Class { values, caches } in &CLASSES[..classes] {
                for cache in *caches {
                    let mut cell = cell(&[
                        (Axis::Mover, mover.name),
                        (Axis::Transport, transport.name()),
                        (Axis::Cache, cache.name()),
                    ]);
                    for (axis, value) in values {
                        cell.set(*axis, value).unwrap();
                    }
                    let refused = refused(survey, &found, &cell);
                    let name = cell.id().replace('/', " ");
                    trials.push(Trial::test(name, move || match refused {
                        None => all_arrives(&cell),
                        Some(why) => fails(&cell, &why),
                    }));
                }
            }
        }
    }
    for mover in MOVERS.iter().filter(|m| m.route == Route::FileToSocket) {
        let works = survey
            .mover_refused(mover.name, Transport::Loopback)
            .is_none();
        if works {
            trials.push(Trial::test(
                format!(
                    "a file that is truncated while {} sends it is told",
                    mover.name
                ),
                || truncated(mover),
            ));
        }
    }
    trials.push(Trial::test(
        "a file of the user's is sent and stays as it was",
        of_the_user,
    ));
    trials.push(Trial::test(
        "a receiver that dies in mid-file fails the trial alone",
        lost_receiver,
    ));
    trials
}

fn refused(survey: &Survey, found: &FileSurvey, cell: &Cell) -> Option<String> {
    let on_disk = || {
        let row = found
            .movers
            .iter()
            .find(|m| m.name == cell.mover && m.cache == cell.cache);
        row.and_then(|m| m.refused.clone())
    };
    survey
        .mover_refused(&cell.mover, cell.transport)
        .or_else(|| (cell.cache != Cache::Memory).then(on_disk).flatten())
}

fn all_arrives(cell: &Cell) -> Result<(), Failed> {
    let sample = sample(cell)?;
    let truth = sample.truth.ok_or("nothing was checked")?;
    let receiver = sample.receiver.ok_or("no receiver")?;
    ensure(
        truth.sent_bytes == truth.received_bytes && truth.compared_bytes == truth.received_bytes,
        || format!("every byte arrives and is compared: {truth:?}"),
    )?;
    ensure(truth.checked == "content", || truth.checked.clone())?;
    let pass = cell.ring_slots() * cell.size_bytes * u64::from(cell.threads);
    ensure(truth.sent_bytes >= 3 * pass, || {
        format!("three times through the file: {truth:?}")
    })?;
    ensure(
        sample.latency_ns_histogram.is_some() == (cell.pattern == Pattern::Ask),
        || "latency belongs to ask".into(),
    )?;
    let aside = read(&sample.sender.readings, Counter::AsideNs);
    let is_helped = Mover::named(&cell.mover).is_some_and(|m| m.is_helped());
    ensure(
        is_helped || aside.is_ok() == (cell.cache == Cache::Cold),
        || format!("dropping the cache is no part of a message: {aside:?}"),
    )?;
    let Some(passes) = Passes::of(cell) else {
        return Ok(());
    };
    // What one side measures is what the other one does, message for message.
    for side in [&sample.sender, &receiver] {
        let messages = read(&side.readings, Counter::Messages)?;
        let bytes = read(&side.readings, Counter::Bytes)?;
        // What is taken last of a stream may belong to the next message.
        let whole = bytes == messages * cell.size_bytes && messages % passes.messages == 0;
        ensure(
            messages > 0 && (whole || cell.pattern == Pattern::Stream),
            || format!("whole passes: {messages} messages, {bytes} bytes"),
        )?;
        ensure(side.flows.iter().all(|f| f.elapsed_ns > 0), || {
            format!("{:?}", side.flows)
        })?;
    }
    let [sent, came] = [&sample.sender, &receiver].map(|s| read(&s.readings, Counter::Bytes));
    let (sent, came) = (sent?, came?);
    ensure(sent == came || cell.pattern == Pattern::Stream, || {
        format!("{sent} sent in the window, {came} arrived")
    })
}

/// What the survey refuses must fail when it is tried all the same, with a reason.
fn fails(cell: &Cell, why: &str) -> Result<(), Failed> {
    match trial(cell) {
        Err(failure) => ensure(!failure.reason.is_empty(), || "no reason".into()),
        Ok(_) => Err(format!("the survey refuses what works: {why}").into()),
    }
}

/// A file of the user's, and where it lies.
fn mine(bytes: usize) -> Result<(tempfile::TempDir, PathBuf), Failed> {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let path = dir.path().join("mine");
    std::fs::write(&path, vec![7; bytes])?;
    Ok((dir, path))
}

fn sending(mover: &str, size: &str, cache: &str) -> Cell {
    cell(&[
        (Axis::Mover, mover),
        (Axis::Pattern, "ask"),
        (Axis::Cache, cache),
        (Axis::Size, size),
        (Axis::Ring, "message"),
    ])
}

fn of_the_user() -> Result<(), Failed> {
    let (dir, path) = mine(6_000_001)?;
    let before = std::fs::metadata(&path)?.modified()?;
    let files = || Files::new(dir.path().to_owned(), Some(path.clone()));
    for mover in ["read-write", "sendfile", "mmap-send"] {
        for cache in ["warm", "cold"] {
            let truth = sample_of(&sending(mover, "6000001", cache), files())?
                .truth
                .ok_or("no truth")?;
            ensure(
                truth.checked == "count" && truth.sent_bytes == truth.received_bytes,
                || format!("{truth:?}"),
            )?;
        }
    }
    for (size, cache, word) in [
        ("6000002", "warm", "too short"),
        ("6000001", "memory", "not a memory file"),
    ] {
        match trial_of(&sending("sendfile", size, cache), files()) {
            Err(f) => ensure(f.reason.contains(word), || f.reason.clone())?,
            Ok(_) => return Err(format!("{size} {cache} went through").into()),
        }
    }
    ensure(std::fs::read(&path)? == vec![7; 6_000_001], || {
        "it was changed".into()
    })?;
    ensure(std::fs::metadata(&path)?.modified()? == before, || {
        "it was touched".into()
    })
}

/// Makes the file shorter while an endpoint sends it: the trial must say so, and end.
fn truncated(mover: &Mover) -> Result<(), Failed> {
    let record = disturbed(&sending(mover.name, "16MiB", "warm"), 16 << 20, cut)?;
    match record {
        Err(f) => ensure(
            // The cut may come before the file was brought in.
            f.reason.contains("truncated") || f.reason.contains("too short"),
            || f.reason.clone(),
        ),
        Ok(_) => Err("what is not there was sent".into()),
    }
}

/// Ends the receiver while the other endpoint sends a file.
fn lost_receiver() -> Result<(), Failed> {
    let cell = sending("read-write", "16MiB", "warm");
    let record = disturbed(&cell, 16 << 20, |_, others| {
        let kill = |pid| rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        others.first().is_some_and(|pid| kill(*pid).is_ok())
    })?;
    match record {
        Err(f) => ensure(
            ["signal 9", "gone", "reset"]
                .iter()
                .any(|w| f.reason.contains(w)),
            || f.reason.clone(),
        ),
        Ok(_) => Err("a trial without its receiver gave a sample".into()),
    }
}

/// Makes a file shorter than anything is that is asked of it.
pub fn cut(path: &Path, _others: &[Pid]) -> bool {
    let file = std::fs::OpenOptions::new().write(true).open(path);
    file.and_then(|f| f.set_len(5000)).is_ok()
}

/// A trial of some seconds on a file of the user's of so many bytes, and what `then` does to it or
/// to the endpoints that do not have it open, as soon as one has.
pub fn disturbed(
    cell: &Cell,
    bytes: usize,
    then: impl FnOnce(&Path, &[Pid]) -> bool + Send + 'static,
) -> Result<Result<Sample, Failure>, Failed> {
    let (dir, path) = mine(bytes)?;
    let (_link, marked) = marked()?;
    let disturber = std::thread::spawn({
        let (marked, path) = (marked.clone(), path.clone());
        move || {
            let until = Instant::now() + SOON;
            while Instant::now() < until {
                // A Java machine takes it over from the endpoint that starts it.
                let has_it = |pid: &Pid| {
                    let pid = pid.to_string();
                    let mut started = children(&pid).into_iter();
                    has_open(&pid, &path) || started.any(|c| has_open(&c.to_string(), &path))
                };
                let (with, others): (Vec<Pid>, Vec<Pid>) =
                    endpoints(&marked).into_iter().partition(has_it);
                if !with.is_empty() {
                    return then(&path, &others);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            false
        }
    });
    let long = Settings {
        program: Program::at(&marked)?,
        window: SOON,
        ..super::settings()
    };
    let files = Files::new(dir.path().to_owned(), Some(path));
    let record = trial_in(&mut lab(long, files), cell);
    let done = disturber.join().unwrap_or(false);
    ensure(done, || match &record {
        Err(f) => format!("nothing was disturbed: {}", f.reason),
        Ok(_) => "nothing was disturbed, and the trial went through".into(),
    })?;
    Ok(record)
}
