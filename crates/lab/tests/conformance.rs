//! The conformance test: every mover to every receiver over every transport, in both patterns,
//! by real endpoint processes, with every byte checked and every buffer written anew.
//!
//! It has a main of its own, since the same program plays the endpoints.

use std::collections::HashSet;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytecost_engine::{MOVERS, Mover, RECEIVERS, Receiver};
use bytecost_lab::files::Files;
use bytecost_lab::protocol::ContentCheck;
use bytecost_lab::survey::{Helpers, helped, survey};
use bytecost_lab::trial::Settings;
use bytecost_lab::{Lab, TrialOutcome};
use bytecost_meter::MachineMeter;
use bytecost_spec::cell::Ring;
use bytecost_spec::{
    Axis, Cell, Counter, Failure, Host, Pattern, Reading, Sample, Transport, TrialKey,
};
use harness::case;
use libtest_mimic::{Arguments, Trial};

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
    let mut survey = survey(&Host::default(), Transport::WITHIN);
    let helpers = Helpers::ready();
    survey.movers.extend(helped(&helpers, Transport::WITHIN));
    let mut trials = Vec::new();
    for cell in cells().into_iter().chain(conducts()) {
        let refused = survey
            .mover_refused(&cell.mover, cell.transport)
            .or_else(|| survey.receiver_refused(&cell.receiver, cell.transport));
        trials.push(tried(name(&cell), cell, refused, all_arrives));
    }
    let helpers = Arc::new(helpers);
    trials.extend(files::trials(&helpers));
    trials.extend(sent::trials(&survey));
    trials.extend(served::trials());
    trials.extend(meters::trials());
    trials.extend(wire::trials(&survey));
    trials.push(case("all that must work here works", move || {
        needed::over_transports(&survey, &helpers)
    }));
    let alone: [(&str, fn()); 6] = [
        ("null moves nothing and has no peer", null),
        ("memcpy counts what it copies", memcpy),
        (
            // Invariant 9.
            "a lost endpoint fails the trial alone",
            endpoints::lost_endpoint,
        ),
        (
            // Invariant 9.
            "each trial has endpoints of its own, and those that none has used are gone",
            endpoints::of_one_trial_each,
        ),
        (
            "a program that is no endpoint is told",
            endpoints::no_endpoint,
        ),
        (
            "an endpoint of another build is refused",
            endpoints::another_build,
        ),
    ];
    trials.extend(alone.map(|(name, run)| case(name, run)));
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

/// The table, with a size that goes round the ring often, and one that no call moves at once.
fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    // Over wire nobody receives, so it has cells of its own.
    for transport in Transport::WITHIN.iter().filter(|t| t.has_receiver()) {
        for mover in MOVERS.iter().filter(|m| m.has_peer()) {
            // Starting a program takes a second, and to it the receiver makes no difference; it takes
            // long for the thousand messages that go round the ring three times.
            let (receivers, asked) = match mover.is_helped() {
                true => (1, "4000"),
                false => (RECEIVERS.len(), "256"),
            };
            for receiver in &RECEIVERS[..receivers] {
                let (transport, mover, receiver) = (transport.name(), mover.name, receiver.name);
                cells.extend(
                    [
                        "pattern=stream size=4000 threads=1",
                        "pattern=stream size=1000008 threads=2",
                        &format!("pattern=ask size={asked} threads=1"),
                    ]
                    .map(|values| {
                        cell(&format!(
                            "transport={transport} mover={mover} receiver={receiver} {values} ring={TABLE_RING}"
                        ))
                    }),
                );
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
        "answer=field read-size=field",
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
            all.extend(["stream", "ask"].map(|pattern| {
                let name = mover.name;
                cell(&format!(
                    "mover={name} pattern={pattern} size=8000 ring=64KiB {values}"
                ))
            }));
        }
    }
    all
}

/// The cell with these values of axes: `mover=send size=4KiB`.
fn cell(values: &str) -> Cell {
    let mut cell = Cell::default();
    for word in values.split_whitespace() {
        let (axis, value) = word.split_once('=').unwrap();
        cell.set(Axis::named(axis).unwrap(), value).unwrap();
    }
    cell
}

fn settings() -> Settings {
    harness::settings(ContentCheck::Full)
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

fn sample(cell: &Cell) -> Sample {
    given(trial(cell))
}

/// The sample that a trial gave.
fn given(ended: Result<Sample, Failure>) -> Sample {
    ended.unwrap_or_else(|failure| panic!("{}", failure.reason))
}

/// Holds a trial to a failure whose reason has one of these.
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
    assert!(
        truth.received_bytes > 0 && truth.sent_bytes == truth.received_bytes,
        "{truth:?}"
    );
    let compared = if sees { truth.received_bytes } else { 0 };
    assert!(
        truth.compared_bytes == compared,
        "every byte that is seen is compared: {truth:?}"
    );
    assert!(
        truth.sent_bytes.is_multiple_of(cell.size_bytes),
        "whole messages: {truth:?}"
    );
    let receiver = sample.receiver.expect("no receiver");
    for side in [&sample.sender, &receiver] {
        assert!(
            side.flows.len() == cell.threads as usize,
            "{:?}",
            side.flows
        );
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
    assert!(
        segments.measured().is_some() == cell.transport.is_tcp(),
        "TCP alone is counted: {segments:?}"
    );
    let mover = Mover::named(&cell.mover).unwrap();
    assert!(
        truth.sent_bytes >= 3 * cell.ring_slots() * cell.size_bytes,
        "three times round the ring: {truth:?}"
    );
    if mover.release == bytecost_spec::survey::Release::AtCompletion && cell.transport.is_tcp() {
        let back = read(&sample.sender.readings, Counter::Completions);
        let copied = read(&sample.sender.readings, Counter::CompletionsCopied);
        assert!(
            back == copied,
            "a local socket gets copies of every buffer, which the kernel says: {copied} of {back}"
        );
    }
    assert!(
        sample.latency_ns_histogram.is_some() == (cell.pattern == Pattern::Ask),
        "latency belongs to ask"
    );
}

/// A case of a cell that works, or that the survey refuses: then it must fail when it is tried all
/// the same, with a reason.
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

/// Namespaces of one's own are root's.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn memcpy() {
    let sample = sample(&cell("mover=memcpy size=64KiB ring=1MiB"));
    let readings = &sample.sender.readings;
    let (bytes, messages) = (
        read(readings, Counter::Bytes),
        read(readings, Counter::Messages),
    );
    assert!(
        bytes == messages * 65_536,
        "{bytes} bytes in {messages} messages"
    );
    let truth = sample.truth.expect("it moves something");
    assert!(truth.sent_bytes >= bytes, "{truth:?}");
    assert!(truth.sent_bytes >= 3 << 20, "thrice round the ring");
    assert!(read(readings, Counter::Calls) == 0, "it makes no call");
}

fn null() {
    let sample = sample(&cell("mover=null"));
    assert!(
        sample.receiver.is_none() && sample.truth.is_none(),
        "{sample:?}"
    );
    assert!(
        read(&sample.sender.readings, Counter::Calls) == 0,
        "null makes no call"
    );
}
