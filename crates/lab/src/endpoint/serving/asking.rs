//! The side that asks.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use bytecost_meter::ProcessTreeSnapshot;
use bytecost_spec::sample::FlowReading;
use bytecost_spec::{Counter, Reading, Readings};

use super::{hold, load, rows};
use crate::descriptors;
use crate::endpoint::side::encode;
use crate::load::{Limit, LoadError, LoadOutcome, Stage};
use crate::protocol::{self, Done, FromEndpoint, Task, ToEndpoint, out_of_turn};

pub(in crate::endpoint) fn run(task: &Task, control: &mut UnixStream) -> io::Result<Done> {
    let cell = &task.cell;
    let address = task.meets.address().and_then(|a| a.parse().ok());
    let address = address.ok_or(io::ErrorKind::InvalidInput)?;
    hold(task)?;
    let tree = task.meters.process_tree(cell);
    descriptors::make_room(cell.serving.all_connections() + u64::from(cell.threads))?;
    protocol::write(control, &FromEndpoint::Ready)?;
    let ToEndpoint::Go(schedule) = protocol::read(control)? else {
        return Err(out_of_turn());
    };
    let load = load(task, address, schedule)?;
    let edges: Mutex<Vec<ProcessTreeSnapshot>> = Mutex::new(Vec::with_capacity(2));
    let failed = Mutex::new(None);
    let told = |stage| {
        let mut to = &*control;
        let said = match stage {
            Stage::Connected {
                opens_ns,
                closes_ns,
            } => protocol::write(
                &mut to,
                &FromEndpoint::Connected {
                    opens_ns,
                    closes_ns,
                },
            ),
            Stage::WindowOpens | Stage::WindowCloses => {
                if let Ok(mut edges) = edges.lock() {
                    edges.push(tree.read_own());
                }
                match stage {
                    Stage::WindowCloses => protocol::write(&mut to, &FromEndpoint::Closed),
                    _ => Ok(()),
                }
            }
        };
        if let (Err(e), Ok(mut failed)) = (said, failed.lock()) {
            *failed = Some(e);
        }
    };
    let outcome = load.run(&AtomicBool::new(false), &told)?;
    if let Ok(Some(e)) = failed.into_inner() {
        return Err(e);
    }
    let edges = edges.into_inner().unwrap_or_default();
    let [start, end] = edges.as_slice() else {
        return Err(io::Error::other("the clients' window did not open"));
    };
    let (_, service, _) = rows(cell)?;
    let size = service.sizes.map(|_| cell.size_bytes);
    let mut readings = tree.difference(start, end, true);
    task.meters.take_cpu(&mut readings);
    done(readings, &outcome, size)
}

/// What the clients tell; `size` is that of an answer, where all have the same.
fn done(readings: Readings, outcome: &LoadOutcome, size: Option<u64>) -> io::Result<Done> {
    let mut done = Done::default();
    done.side.readings = readings;
    let answers = outcome.answers_in_window;
    let bytes = size.map(|size| size.saturating_mul(answers));
    let mut put = |counter, n| {
        done.side.readings.insert(counter, Reading::Measured(n));
    };
    put(Counter::Messages, answers);
    put(Counter::Unanswered, outcome.unanswered);
    let errors = &outcome.errors;
    put(Counter::ErrorsRefused, errors.of(LoadError::Refused));
    put(Counter::ErrorsReset, errors.of(LoadError::Reset));
    put(Counter::ErrorsClosed, errors.of(LoadError::Closed));
    put(Counter::ErrorsTimeout, errors.of(LoadError::Timeout));
    put(Counter::ErrorsWrong, errors.of(LoadError::Wrong));
    put(Counter::ErrorsLocal, errors.of(LoadError::Local));
    let fairness = outcome.fairness();
    put(Counter::AnswersLeast, fairness.min);
    put(Counter::AnswersMedian, fairness.median);
    put(Counter::AnswersMost, fairness.max);
    let generator = &outcome.generator;
    let busy_ns = generator.busy_share * outcome.window_ns as f64;
    put(Counter::GeneratorBusyNs, busy_ns as u64);
    let late_ns = generator.late_ns.value_at_quantile(0.99);
    put(Counter::GeneratorLateNsP99, late_ns);
    let limited = match outcome.generator_limit() {
        None => 0,
        Some(Limit::Busy(_)) => 1,
        Some(Limit::Late(_)) => 2,
    };
    put(Counter::GeneratorLimited, limited);
    let of_bytes = match bytes {
        Some(bytes) => Reading::Measured(bytes),
        None => Reading::absent("responses differ in length, and their bytes are not counted"),
    };
    done.side.readings.insert(Counter::Bytes, of_bytes);
    done.side.flows.push(FlowReading {
        bytes: bytes.unwrap_or(0),
        messages: answers,
        elapsed_ns: outcome.window_ns,
    });
    done.total_bytes.push(bytes.unwrap_or(0));
    done.compared_bytes = bytes.unwrap_or(0);
    done.latency_ns_histogram = Some(encode(&outcome.latency_ns)?);
    Ok(done)
}
