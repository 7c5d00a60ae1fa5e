//! Every mover to every receiver over every transport, in both patterns, by real endpoint
//! processes, with every byte checked and every buffer written anew. The same program plays the
//! endpoints.

use std::collections::HashSet;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytecost_engine::{MOVERS, Mover, RECEIVERS, Receiver};
use bytecost_lab::Lab;
use bytecost_lab::file_survey;
use bytecost_lab::helpers::Helpers;
use bytecost_lab::program::Program;
use bytecost_lab::protocol::ContentCheck;
use bytecost_lab::settings::Settings;
use bytecost_lab::short_trials::Surveyor;
use bytecost_lab::survey::{helped, survey};
use bytecost_spec::cell::Ring;
use bytecost_spec::{Axis, Cell, Counter, Failure, Host, Pattern, Reading, Sample, Transport};
use harness::{case, cell, lab, trial_in};
use libtest_mimic::Trial;

#[path = "conformance/endpoints.rs"]
mod endpoints;
#[path = "conformance/files.rs"]
mod files;
mod harness;
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
    if let Some(code) = harness::endpoint() {
        return code;
    }
    let (program, stop) = (Program::own().unwrap(), AtomicBool::new(false));
    let surveyor = Surveyor::new(&program, &stop);
    let mut survey = survey(&surveyor, &Host::default(), Transport::WITHIN);
    let helpers = Helpers::ready();
    survey
        .movers
        .extend(helped(&surveyor, &helpers, Transport::WITHIN));
    let mut trials = Vec::new();
    for cell in cells().into_iter().chain(conducts()) {
        let refused = survey
            .mover_refused(&cell.mover, cell.transport)
            .or_else(|| survey.receiver_refused(&cell.receiver, cell.transport));
        trials.push(tried(name(&cell), cell, refused, all_arrives));
    }
    let helpers = Arc::new(helpers);
    let found = file_survey::survey(&surveyor, &mut files::files())
        .expect("the crate's directory can be written to");
    trials.extend(sent::trials(&survey, &found));
    trials.extend(files::trials(found, &helpers));
    trials.extend(served::trials());
    trials.extend(meters::trials());
    trials.extend(wire::trials(&survey));
    trials.push(case("all that must work here works", move || {
        needed::over_transports(&survey, &helpers)
    }));
    trials.extend([
        case("null moves nothing and has no peer", null),
        case("memcpy counts what it copies", memcpy),
    ]);
    trials.extend(endpoints::trials());
    harness::run_many(trials)
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
        TABLE_RING => shown.map(|a| cell.value(a).to_string()).join("/"),
        _ => cell.id().replace('/', " "),
    }
}

/// The table, with a size that goes round the ring often, and one that no call moves at once.
fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    // Over wire nobody receives, so it has cells of its own.
    for transport in Transport::WITHIN.iter().filter(|t| t.has_receiver()) {
        for mover in MOVERS.iter().filter(|m| m.has_peer()) {
            // Starting a program takes a second, and to it the receiver makes no difference; it takes
            // long for the thousand messages that go round the ring three times.
            let (receivers, asked) = if mover.is_helped() {
                (1, "4000")
            } else {
                (RECEIVERS.len(), "256")
            };
            for receiver in &RECEIVERS[..receivers] {
                let (transport, mover, receiver) = (transport.name(), mover.name, receiver.name);
                for values in [
                    "pattern=stream size=4000 threads=1",
                    "pattern=stream size=1000008 threads=2",
                    &format!("pattern=request-response size={asked} threads=1"),
                ] {
                    let ends = format!("mover={mover} receiver={receiver} ring={TABLE_RING}");
                    cells.push(cell(&format!("transport={transport} {ends} {values}")));
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
    let mut all = Vec::new();
    for values in [
        "payload=refilled ring=message",
        "payload=refilled threads=2",
        "reaping=one-look ring=message",
        "reaping=never ring=message",
        "reaping=never payload=refilled",
        "cork=on",
        "quickack=on read-size=field",
        "response=field read-size=field",
        "receiver=recv-waitall read-size=message",
        "receiver=recv-waitall read-size=field",
        "receiver=recv-waitall read-size=3000",
    ] {
        let of_cell = |axis, is: bool| is || !values.contains(axis);
        let is_possible = |mover: &&Mover| {
            mover.has_peer()
                && (!mover.is_helped() || values == "cork=on")
                && of_cell("payload", mover.can_refill())
                && of_cell("reaping", mover.leaves_completions)
        };
        for mover in MOVERS.iter().filter(is_possible) {
            all.extend(["stream", "request-response"].map(|pattern| {
                let name = mover.name;
                cell(&format!(
                    "mover={name} pattern={pattern} size=8000 ring=64KiB {values}"
                ))
            }));
        }
    }
    all
}

fn settings() -> Settings {
    harness::settings(ContentCheck::Full)
}

/// Labs of the usual settings that are not in use: what one has made for a cell (a network, a file,
/// the program of Java) it has for the next, as in a run.
static LABS: Mutex<Vec<Lab>> = Mutex::new(Vec::new());

fn trial(cell: &Cell) -> Result<Sample, Failure> {
    let labs = || LABS.lock().unwrap_or_else(PoisonError::into_inner);
    let free = labs().pop();
    let mut lab = free.unwrap_or_else(|| lab(settings(), files::files()));
    let ended = trial_in(&mut lab, cell);
    labs().push(lab);
    ended
}

fn sample(cell: &Cell) -> Sample {
    given(trial(cell))
}

fn given(ended: Result<Sample, Failure>) -> Sample {
    ended.unwrap_or_else(|failure| panic!("{}", failure.reason))
}

fn fails(ended: Result<Sample, Failure>, words: &[&str]) {
    match ended {
        Err(f) => assert!(words.iter().any(|w| f.reason.contains(w)), "{}", f.reason),
        Ok(_) => panic!("a sample, and not a failure with one of {words:?}"),
    }
}

fn read(readings: &bytecost_spec::Readings, counter: Counter) -> u64 {
    let reading = readings.get(&counter);
    let measured = reading.and_then(Reading::measured);
    measured.unwrap_or_else(|| panic!("{} was not read: {reading:?}", counter.name()))
}

fn all_arrives(cell: &Cell) {
    let sample = sample(cell);
    let truth = sample.truth.expect("nothing was checked");
    let sees = Receiver::named(&cell.receiver).unwrap().sees_content;
    assert!(truth.received_bytes > 0, "{truth:?}");
    assert_eq!(truth.sent_bytes, truth.received_bytes);
    let compared = if sees { truth.received_bytes } else { 0 };
    assert_eq!(truth.compared_bytes, compared, "every byte that is seen");
    let is_whole = truth.sent_bytes.is_multiple_of(cell.size_bytes);
    assert!(is_whole, "whole messages: {truth:?}");
    let receiver = sample.receiver.expect("no receiver");
    for side in [&sample.sender, &receiver] {
        assert_eq!(side.flows.len(), cell.threads as usize);
        for counter in [
            Counter::ElapsedNs,
            Counter::CpuNs,
            Counter::UserNs,
            Counter::Messages,
            Counter::Bytes,
        ] {
            read(&side.readings, counter);
        }
    }
    let segments = &sample.machine[&Counter::TcpOutSegs];
    let is_counted = segments.measured().is_some();
    assert_eq!(is_counted, cell.transport.is_tcp(), "{segments:?}");
    let mover = Mover::named(&cell.mover).unwrap();
    let ring = 3 * cell.ring_slots() * cell.size_bytes;
    assert!(truth.sent_bytes >= ring, "three times round it: {truth:?}");
    if mover.release == bytecost_spec::survey::Release::AtCompletion && cell.transport.is_tcp() {
        // A local socket gets copies of every buffer, which the kernel says.
        let back = read(&sample.sender.readings, Counter::Completions);
        let copied = read(&sample.sender.readings, Counter::CompletionsCopied);
        assert_eq!(back, copied);
    }
    let is_timed = sample.latency_ns_histogram.is_some();
    assert_eq!(is_timed, cell.pattern == Pattern::RequestResponse);
}

/// A case of a cell that works, or that the survey refuses: then it must fail with a reason.
fn tried(name: String, cell: Cell, refused: Option<String>, works: fn(&Cell)) -> Trial {
    case(name, move || {
        let Some(why) = refused else {
            return works(&cell);
        };
        assert!(!why.is_empty(), "a refusal has a reason");
        match trial(&cell) {
            Err(failure) => assert!(!failure.reason.is_empty(), "a failure has a reason"),
            Ok(_) => panic!("the survey refuses what works: {why}"),
        }
    })
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn memcpy() {
    let sample = sample(&cell("mover=memcpy size=64KiB ring=1MiB"));
    let readings = &sample.sender.readings;
    let bytes = read(readings, Counter::Bytes);
    assert_eq!(bytes, read(readings, Counter::Messages) * 65_536);
    let truth = sample.truth.expect("it moves something");
    assert!(truth.sent_bytes >= bytes, "{truth:?}");
    assert!(truth.sent_bytes >= 3 << 20, "thrice round the ring");
    assert_eq!(read(readings, Counter::Calls), 0);
}

fn null() {
    let sample = sample(&cell("mover=null"));
    let moves_nothing = sample.receiver.is_none() && sample.truth.is_none();
    assert!(moves_nothing, "{sample:?}");
    assert_eq!(read(&sample.sender.readings, Counter::Calls), 0);
}
