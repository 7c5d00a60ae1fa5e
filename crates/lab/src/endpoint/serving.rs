//! The load generator of a cell with a server; `served` has the server.

use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytecost_meter::ProcessTreeSnapshot;
use bytecost_spec::sample::FlowReading;
use bytecost_spec::service::Fairness;
use bytecost_spec::{Counter, Reading, Readings};
use bytecost_sys::process;

use super::side::encode;
use crate::descriptors;
use crate::flow_key::FlowKey;
use crate::listen_queue::ListenQueue;
use crate::load::{Limit, Load, LoadError, LoadOutcome, LoadSpan, Stage};
use crate::protocol::{
    self, ConnectionSetup, ContentCheck, Done, FromEndpoint, Schedule, Task, unexpected_order,
};
use crate::server_setup::{self, ServedService};

pub(super) mod served;

/// Time for each connection that is opened, in ns, so that no server's queue overflows, after which a
/// connection would wait a second. Confirmed connections need none.
const RAMP_NS: u64 = 20_000;

/// Time added to the warm-up for each connection, where no round is timed: all have a response then.
const ROUND: Duration = Duration::from_micros(20);
/// Binds the process, and all that it starts, to its side's CPUs, if it has any.
fn hold(task: &Task) -> io::Result<()> {
    let mut cpus = task.here.pins.concat();
    cpus.sort_unstable();
    cpus.dedup();
    match cpus.as_slice() {
        [] => Ok(()),
        cpus => process::set_affinity(cpus),
    }
}

fn load(task: &Task, address: SocketAddr, schedule: Schedule) -> io::Result<Load> {
    let serving = &task.cell.serving;
    let warmup = Duration::from_nanos(schedule.window_from_ns - schedule.begin_ns);
    let window = Duration::from_nanos(schedule.window_to_ns - schedule.window_from_ns);
    let timeout = Duration::from_millis(task.timeout_ms);
    let mut load = Load {
        seed: task.keys.first().map_or(0, FlowKey::seed),
        span: LoadSpan::Time { warmup, window },
        ..server_setup::load(&task.cell, address, timeout)?
    };
    if task.check == ContentCheck::Full {
        // So that a response of each connection is compared, however short the window is.
        load.confirmed_from = 1;
    }
    if !load.takes_round() {
        load.span = LoadSpan::Time {
            warmup: warmup + ROUND * serving.connections,
            window,
        };
    }
    let ramped = if load.confirms() {
        u64::from(serving.idle)
    } else {
        serving.all_connections()
    };
    load.ramp = Duration::from_nanos(RAMP_NS * ramped);
    Ok(load)
}

pub(super) fn ask(task: &Task, control: &mut UnixStream) -> io::Result<Done> {
    let cell = &task.cell;
    let ConnectionSetup::Connect(to) = &task.connection else {
        return Err(unexpected_order());
    };
    let address = to.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
    hold(task)?;
    let tree = task.here.meters.process_tree(cell);
    descriptors::make_room(cell.serving.all_connections() + u64::from(cell.threads))?;
    let queue = ListenQueue::open();
    protocol::write(control, &FromEndpoint::Ready)?;
    let schedule = protocol::read_schedule(control)?;
    let load = load(task, address, schedule)?;
    let edges: Mutex<Vec<ProcessTreeSnapshot>> = Mutex::new(Vec::with_capacity(2));
    let failed = Mutex::new(None);
    let on_stage = |stage| {
        let is_edge = !matches!(stage, Stage::Connected(_));
        if let (true, Ok(mut edges)) = (is_edge, edges.lock()) {
            edges.push(tree.read_own());
        }
        let word = match stage {
            Stage::Connected(window_ns) => FromEndpoint::Connected(window_ns),
            Stage::WindowOpens => return,
            Stage::WindowCloses => FromEndpoint::Closed,
        };
        if let (Err(e), Ok(mut failed)) = (protocol::write(&mut &*control, &word), failed.lock()) {
            *failed = Some(e);
        }
    };
    let outcome = load.run(&AtomicBool::new(false), &on_stage)?;
    if let Ok(Some(e)) = failed.into_inner() {
        return Err(e);
    }
    let Ok([start, end]) =
        <[ProcessTreeSnapshot; 2]>::try_from(edges.into_inner().unwrap_or_default())
    else {
        return Err(io::Error::other("the clients' window did not open"));
    };
    let service = ServedService::find(cell)?.service;
    let size = service.sizes.map(|_| cell.size_bytes);
    let mut readings = tree.difference(&start, &end, true);
    task.here.meters.take_cpu(&mut readings);
    readings.extend(queue.readings());
    done(readings, &outcome, size)
}

fn done(readings: Readings, outcome: &LoadOutcome, size: Option<u64>) -> io::Result<Done> {
    let mut done = Done::default();
    done.side.readings = readings;
    let answers = outcome.answers_in_window;
    let bytes = size.map(|size| size.saturating_mul(answers));
    let errors = &outcome.errors;
    let Fairness {
        least,
        median,
        most,
    } = outcome.fairness();
    let generator = &outcome.generator;
    let busy_ns = generator.busy_share * outcome.window_ns as f64;
    let limited = match outcome.generator_limit() {
        None => 0,
        Some(Limit::Busy(_)) => 1,
        Some(Limit::Late(_)) => 2,
    };
    let counted = [
        (Counter::Messages, answers),
        (Counter::Unanswered, outcome.unanswered),
        (Counter::ErrorsRefused, errors.number(LoadError::Refused)),
        (Counter::ErrorsReset, errors.number(LoadError::Reset)),
        (Counter::ErrorsClosed, errors.number(LoadError::Closed)),
        (Counter::ErrorsTimeout, errors.number(LoadError::Timeout)),
        (Counter::ErrorsWrong, errors.number(LoadError::Wrong)),
        (Counter::ErrorsLocal, errors.number(LoadError::Local)),
        (Counter::AnswersLeast, least),
        (Counter::AnswersMedian, median),
        (Counter::AnswersMost, most),
        (Counter::GeneratorBusyNs, busy_ns as u64),
        (
            Counter::GeneratorLateNsP99,
            generator.late_ns.value_at_quantile(0.99),
        ),
        (Counter::GeneratorLimited, limited),
    ];
    let measured = counted.map(|(counter, n)| (counter, Reading::Measured(n)));
    done.side.readings.extend(measured);
    let unknown = "responses differ in length, and their bytes are not counted";
    let of_bytes = bytes.map_or_else(|| Reading::absent(unknown), Reading::Measured);
    done.side.readings.insert(Counter::Bytes, of_bytes);
    done.side.flows.push(FlowReading {
        bytes: bytes.unwrap_or(0),
        messages: answers,
        elapsed_ns: outcome.window_ns,
    });
    done.total_bytes.push(bytes.unwrap_or(0));
    done.compared_bytes = bytes.unwrap_or(0);
    done.latency_ns_histogram = Some(encode(&outcome.latency_ns)?);
    done.traffic = outcome.made;
    Ok(done)
}
