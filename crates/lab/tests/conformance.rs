//! The conformance test: every mover to every receiver over every transport, in both patterns,
//! by real endpoint processes, with every byte checked and every buffer written anew.
//!
//! It has a main of its own, since the same program plays the endpoints.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytecost_engine::{MOVERS, Mover, RECEIVERS, Receiver};
use bytecost_lab::files::Files;
use bytecost_lab::program::Program;
use bytecost_lab::protocol::ContentCheck;
use bytecost_lab::survey::{Helpers, helped, survey};
use bytecost_lab::trial::Settings;
use bytecost_lab::{Lab, TrialOutcome};
use bytecost_meter::MachineMeter;
use bytecost_spec::cell::Ring;
use bytecost_spec::{
    Axis, Cell, Counter, Failure, Host, Pattern, Reading, Sample, Transport, TrialKey,
};
use libtest_mimic::{Arguments, Failed, Trial};

#[path = "conformance/endpoints.rs"]
mod endpoints;
#[path = "conformance/files.rs"]
mod files;
mod machine;
#[path = "conformance/meters.rs"]
mod meters;
#[path = "conformance/needed.rs"]
mod needed;
#[path = "conformance/sent.rs"]
mod sent;
#[path = "conformance/served.rs"]
mod served;
#[path = "conformance/wire.rs"]
mod wire;

/// Within which a trial is disturbed that lasts as long, on a busy machine.
const SOON: Duration = Duration::from_secs(30);
/// The ring of the table's cells.
const TABLE_RING: Ring = Ring::Bytes(256 << 10);

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    if words.next().as_deref() == Some(OsStr::new("endpoint")) {
        return endpoint(words.next().as_deref());
    }
    let mut survey = survey(&Host::default(), Transport::WITHIN);
    let helpers = Helpers::ready();
    survey.movers.extend(helped(&helpers, Transport::WITHIN));
    let mut trials = Vec::new();
    for cell in cells().into_iter().chain(conducts()) {
        let refused = survey
            .mover_refused(&cell.mover, cell.transport)
            .or_else(|| survey.receiver_refused(&cell.receiver, cell.transport));
        let name = name(&cell);
        trials.push(Trial::test(name, move || match refused {
            None => all_arrives(&cell),
            Some(why) => is_refused(&cell, &why),
        }));
    }
    let helpers = Arc::new(helpers);
    trials.extend(files::trials(&helpers));
    trials.extend(sent::trials(&survey));
    trials.extend(served::trials());
    trials.extend(meters::trials());
    trials.extend(wire::trials(&survey));
    trials.push(Trial::test("all that must work here works", move || {
        needed::over_transports(&survey, &helpers)
    }));
    trials.push(Trial::test("null moves nothing and has no peer", null));
    trials.push(Trial::test("memcpy counts what it copies", memcpy));
    trials.push(Trial::test(
        // Invariant 9.
        "a lost endpoint fails the trial alone",
        endpoints::lost_endpoint,
    ));
    trials.push(Trial::test(
        // Invariant 9.
        "each trial has endpoints of its own, and those that none has used are gone",
        endpoints::of_one_trial_each,
    ));
    trials.push(Trial::test(
        "a program that is no endpoint is told",
        endpoints::no_endpoint,
    ));
    trials.push(Trial::test(
        "an endpoint of another build is refused",
        endpoints::another_build,
    ));
    let mut arguments = Arguments::from_args();
    // A trial waits for its processes, its clock and its disk as well as for a CPU.
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    arguments.test_threads.get_or_insert(cpus + 1);
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Short for the cells of the table, which differ in these axes; whole for all others.
fn name(cell: &Cell) -> String {
    let shown = [
        Axis::Transport,
        Axis::Pattern,
        Axis::Mover,
        Axis::Receiver,
        Axis::Size,
        Axis::Threads,
    ];
    match cell.ring {
        TABLE_RING => shown.map(|a| cell.value(a)).join("/"),
        _ => cell.id().replace('/', " "),
    }
}

fn endpoint(parent: Option<&OsStr>) -> ExitCode {
    let parent = parent.and_then(|p| p.to_str()?.parse().ok()).unwrap_or(0);
    let control = io::stdin().as_fd().try_clone_to_owned().unwrap();
    match bytecost_lab::endpoint::run(control, parent) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// The table, with a size that goes round the ring often, and one that no call moves at once.
fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    // Over wire nobody receives, so it has cells of its own.
    for transport in Transport::WITHIN.iter().filter(|t| t.has_receiver()) {
        for mover in MOVERS.iter().filter(|m| m.has_peer()) {
            // Starting a program takes a second, and to it the receiver makes no difference.
            let receivers = if mover.is_helped() {
                1
            } else {
                RECEIVERS.len()
            };
            for receiver in &RECEIVERS[..receivers] {
                for (pattern, size, threads) in [
                    ("stream", "4000", "1"),
                    ("stream", "1000008", "2"),
                    // A program takes long for the thousand that go round the ring three times.
                    ("ask", if mover.is_helped() { "4000" } else { "256" }, "1"),
                ] {
                    let values = [
                        (Axis::Transport, transport.name()),
                        (Axis::Mover, mover.name),
                        (Axis::Receiver, receiver.name),
                        (Axis::Pattern, pattern),
                        (Axis::Size, size),
                        (Axis::Threads, threads),
                        (Axis::Ring, &TABLE_RING.to_string()),
                    ];
                    cells.push(cell(&values));
                }
            }
        }
    }
    let unique: HashSet<String> = cells.iter().map(Cell::id).collect();
    assert_eq!(unique.len(), cells.len());
    cells
}

/// The ways in which a cell's two ends may go about their messages.
fn conducts() -> Vec<Cell> {
    let (field, message) = ("field", "message");
    let mut all = Vec::new();
    for values in [
        &[(Axis::Payload, "refilled"), (Axis::Ring, message)][..],
        &[(Axis::Payload, "refilled"), (Axis::Threads, "2")],
        &[(Axis::Reaping, "one-look"), (Axis::Ring, message)],
        &[(Axis::Reaping, "never"), (Axis::Ring, message)],
        &[(Axis::Reaping, "never"), (Axis::Payload, "refilled")],
        &[(Axis::Cork, "on")],
        &[(Axis::Quickack, "on"), (Axis::ReadSize, field)],
        &[(Axis::Answer, field), (Axis::ReadSize, field)],
        &[(Axis::Receiver, "recv-waitall"), (Axis::ReadSize, message)],
        &[(Axis::Receiver, "recv-waitall"), (Axis::ReadSize, field)],
        &[(Axis::Receiver, "recv-waitall"), (Axis::ReadSize, "3000")],
    ] {
        for mover in MOVERS {
            let of_cell = |axis, is: bool| is || values.iter().all(|(a, _)| *a != axis);
            let possible = mover.has_peer()
                && (!mover.is_helped() || values[0].0 == Axis::Cork)
                && of_cell(Axis::Payload, mover.can_refill())
                && of_cell(Axis::Reaping, mover.leaves_completions);
            for pattern in ["stream", "ask"].iter().filter(|_| possible) {
                let mut cell = cell(&[
                    (Axis::Mover, mover.name),
                    (Axis::Pattern, pattern),
                    (Axis::Size, "8000"),
                    (Axis::Ring, "64KiB"),
                ]);
                for (axis, value) in values {
                    cell.set(*axis, value).unwrap();
                }
                all.push(cell);
            }
        }
    }
    all
}

fn cell(values: &[(Axis, &str)]) -> Cell {
    let mut cell = Cell::default();
    for (axis, value) in values {
        cell.set(*axis, value).unwrap();
    }
    cell
}

fn settings() -> Settings {
    Settings {
        program: Program::own().unwrap(),
        warmup: Duration::from_millis(2),
        window: Duration::from_millis(10),
        check: ContentCheck::Full,
        port: None,
        foreign_cpus: f64::INFINITY,
        repeats_most: 0,
        repeats_for: Duration::ZERO,
        earlier: Duration::ZERO,
    }
}

/// A lab of its own, with these files.
fn lab(settings: Settings, files: Files) -> Lab {
    Lab::new(settings, MachineMeter::open(Path::new("/"))).with_files(files)
}

/// Labs of the usual settings that are not in use: what one has made for a cell (a network, a file,
/// the program of Java) it has for the next, as in a run.
static LABS: Mutex<Vec<Lab>> = Mutex::new(Vec::new());

/// A trial of the usual settings.
fn trial(cell: &Cell) -> Result<Sample, Failure> {
    let labs = || LABS.lock().unwrap_or_else(PoisonError::into_inner);
    let free = labs().pop();
    let mut lab = free.unwrap_or_else(|| lab(settings(), files::files()));
    let ended = trial_in(&mut lab, cell);
    labs().push(lab);
    ended
}

fn trial_in(lab: &mut Lab, cell: &Cell) -> Result<Sample, Failure> {
    let key = TrialKey {
        block: 0,
        cell: 0,
        attempt: 0,
    };
    match lab.trial(key, cell, &AtomicBool::new(false)) {
        TrialOutcome::Ended(record, _) => record.timed().expect("nobody watches"),
        TrialOutcome::Interrupted => panic!("nobody interrupts"),
    }
}

fn sample(cell: &Cell) -> Result<Sample, Failed> {
    match trial(cell) {
        Ok(sample) => Ok(sample),
        Err(failure) => Err(failure.reason.into()),
    }
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(what().into()) }
}

fn read(readings: &bytecost_spec::Readings, counter: Counter) -> Result<u64, Failed> {
    readings
        .get(&counter)
        .and_then(Reading::measured)
        .ok_or_else(|| {
            format!(
                "{} was not read: {:?}",
                counter.name(),
                readings.get(&counter)
            )
            .into()
        })
}

fn all_arrives(cell: &Cell) -> Result<(), Failed> {
    let sample = sample(cell)?;
    let truth = sample.truth.ok_or("nothing was checked")?;
    let sees = Receiver::named(&cell.receiver).unwrap().sees_content;
    ensure(
        truth.received_bytes > 0 && truth.sent_bytes == truth.received_bytes,
        || format!("{truth:?}"),
    )?;
    let compared = if sees { truth.received_bytes } else { 0 };
    ensure(truth.compared_bytes == compared, || {
        format!("every byte that is seen is compared: {truth:?}")
    })?;
    ensure(truth.sent_bytes % cell.size_bytes == 0, || {
        format!("whole messages: {truth:?}")
    })?;
    let receiver = sample.receiver.ok_or("no receiver")?;
    for side in [&sample.sender, &receiver] {
        ensure(side.flows.len() == cell.threads as usize, || {
            format!("{:?}", side.flows)
        })?;
        for counter in [
            Counter::ElapsedNs,
            Counter::CpuNs,
            Counter::UserNs,
            Counter::Messages,
            Counter::Bytes,
        ] {
            read(&side.readings, counter)?;
        }
    }
    let segments = read(&sample.machine, Counter::TcpOutSegs);
    ensure(segments.is_ok() == cell.transport.is_tcp(), || {
        format!("TCP alone is counted: {segments:?}")
    })?;
    let mover = Mover::named(&cell.mover).unwrap();
    ensure(
        truth.sent_bytes >= 3 * cell.ring_slots() * cell.size_bytes,
        || format!("three times round the ring: {truth:?}"),
    )?;
    if mover.release == bytecost_spec::survey::Release::AtCompletion && cell.transport.is_tcp() {
        let back = read(&sample.sender.readings, Counter::Completions)?;
        let copied = read(&sample.sender.readings, Counter::CompletionsCopied)?;
        ensure(back == copied, || {
            format!(
                "a local socket gets copies of every buffer, which the kernel says: {copied} of {back}"
            )
        })?;
    }
    ensure(
        sample.latency_ns_histogram.is_some() == (cell.pattern == Pattern::Ask),
        || "latency belongs to ask".into(),
    )
}

/// What the survey refuses must fail when it is tried all the same, with a reason.
fn is_refused(cell: &Cell, why: &str) -> Result<(), Failed> {
    ensure(!why.is_empty(), || "a refusal has a reason".into())?;
    match trial(cell) {
        Err(failure) => ensure(!failure.reason.is_empty(), || {
            "a failure has a reason".into()
        }),
        Ok(_) => Err("the survey refuses what works".into()),
    }
}

/// Namespaces of one's own are root's.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn memcpy() -> Result<(), Failed> {
    let sample = sample(&cell(&[
        (Axis::Mover, "memcpy"),
        (Axis::Size, "64KiB"),
        (Axis::Ring, "1MiB"),
    ]))?;
    let readings = &sample.sender.readings;
    let (bytes, messages) = (
        read(readings, Counter::Bytes)?,
        read(readings, Counter::Messages)?,
    );
    ensure(bytes == messages * 65_536, || {
        format!("{bytes} bytes in {messages} messages")
    })?;
    let truth = sample.truth.ok_or("it moves something")?;
    ensure(truth.sent_bytes >= bytes, || format!("{truth:?}"))?;
    ensure(truth.sent_bytes >= 3 << 20, || {
        "thrice round the ring".into()
    })?;
    ensure(read(readings, Counter::Calls)? == 0, || {
        "it makes no call".into()
    })
}

fn null() -> Result<(), Failed> {
    let sample = sample(&cell(&[(Axis::Mover, "null")]))?;
    ensure(sample.receiver.is_none() && sample.truth.is_none(), || {
        format!("{sample:?}")
    })?;
    ensure(read(&sample.sender.readings, Counter::Calls)? == 0, || {
        "null makes no call".into()
    })
}
