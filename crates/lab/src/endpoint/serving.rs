//! The two sides of a cell with a server: one process that serves, and here the one that asks.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytecost_engine::services::ServiceSetup;
use bytecost_engine::{Server, Service};
use bytecost_meter::ProcessTreeSnapshot;
use bytecost_spec::sample::FlowReading;
use bytecost_spec::{Cell, Counter, Reading, Readings};
use bytecost_sys::process;

use super::side::encode;
use crate::descriptors;
use crate::flow_setup::unknown;
use crate::greeters::FlowKey;
use crate::load::{GREETED_FROM, Limit, Load, LoadError, LoadOutcome, LoadSpan, Pace, Stage};
use crate::protocol::{self, Done, FromEndpoint, Meets, Schedule, Task, out_of_turn};

pub(super) mod served;

/// Time in ns for each connection that is opened, so that no server's queue overflows and has one
/// wait a second to try again. Those that are greeted need none.
const RAMP_NS: u64 = 20_000;

/// The shortest queue that a kernel gives a server of ours by itself (before Linux 5.4). One greeted
/// at a time would have `poll` go through all connections each time.
const USUAL_QUEUE: u32 = 128;
const SOMAXCONN: &str = "/proc/sys/net/core/somaxconn";
/// Beside the warm-up for each connection, where no round is timed: all have then been answered.
const ROUND: Duration = Duration::from_micros(20);
/// Rounds that a window of many connections has time for. The first takes longest: all ask at once.
const ROUNDS_LEAST: u32 = 1;

fn rows(cell: &Cell) -> io::Result<(&'static Server, &'static Service, ServiceSetup)> {
    let load = &cell.serving;
    let name = load.server.as_deref().unwrap_or_default();
    let server = Server::named(name).ok_or_else(|| unknown("server", name))?;
    let service = Service::named(&load.service).ok_or_else(|| unknown("service", &load.service))?;
    let size = usize::try_from(cell.size_bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
    Ok((server, service, ServiceSetup::of(size)))
}

/// The length of a server's queue of new connections, which net.core.somaxconn bounds.
fn listen_queue() -> u32 {
    let limit = fs::read_to_string(SOMAXCONN).ok();
    let limit = limit.and_then(|text| text.trim().parse().ok());
    limit.unwrap_or(USUAL_QUEUE).min(USUAL_QUEUE)
}

fn congestion(cell: &Cell) -> Option<&str> {
    Some(cell.congestion.as_str()).filter(|name| *name != "default")
}

/// Holds the process, and all that it starts, to its side's CPUs, if it has any.
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
    let cell = &task.cell;
    let (server, service, asking) = rows(cell)?;
    let asked = &cell.serving;
    let once = Load::once(address, service, asking);
    let queue = listen_queue();
    let warmup = Duration::from_nanos(schedule.window_from_ns - schedule.begin_ns);
    let window = Duration::from_nanos(schedule.window_to_ns - schedule.window_from_ns);
    let mut load = Load {
        connections: asked.connections,
        idle: asked.idle,
        pace: match asked.rate_per_s {
            None => Pace::Closed {
                think: Duration::from_nanos(asked.think_ns),
            },
            Some(rate) => Pace::Open { per_s: rate as f64 },
        },
        arrivals: asked.arrivals,
        seed: task.keys.first().map_or(0, FlowKey::seed),
        kept: asked.connect == bytecost_spec::Connect::Kept,
        depth: cell.depth,
        span: LoadSpan::Time { warmup, window },
        patience: Duration::from_millis(task.patience_ms),
        threads: cell.threads,
        congestion: congestion(cell).map(str::to_owned),
        // Its thread or process is started before the window opens.
        greeted_from: match server.task_per_connection {
            true => 1,
            false if queue < USUAL_QUEUE => queue.max(1),
            false => GREETED_FROM,
        },
        greeted_at_once: (queue / 2).max(1),
        rounds_least: ROUNDS_LEAST,
        ..once
    };
    if !load.takes_round() {
        load.span = LoadSpan::Time {
            warmup: warmup + ROUND * asked.connections,
            window,
        };
    }
    let ramped = match load.greets() {
        true => u64::from(asked.idle),
        false => asked.all_connections(),
    };
    load.ramp = Duration::from_nanos(RAMP_NS * ramped);
    Ok(load)
}

pub(super) fn ask(task: &Task, control: &mut UnixStream) -> io::Result<Done> {
    let cell = &task.cell;
    let Meets::Connects(to) = &task.meets else {
        return Err(out_of_turn());
    };
    let address = to.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
    hold(task)?;
    let tree = task.here.meters.process_tree(cell);
    descriptors::make_room(cell.serving.all_connections() + u64::from(cell.threads))?;
    protocol::write(control, &FromEndpoint::Ready)?;
    let schedule = protocol::scheduled(control)?;
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
    let edges = edges.into_inner().unwrap_or_default();
    let [start, end] = edges.as_slice() else {
        return Err(io::Error::other("the clients' window did not open"));
    };
    let (_, service, _) = rows(cell)?;
    let size = service.sizes.map(|_| cell.size_bytes);
    let mut readings = tree.difference(start, end, true);
    task.here.meters.take_cpu(&mut readings);
    done(readings, &outcome, size)
}

fn done(readings: Readings, outcome: &LoadOutcome, size: Option<u64>) -> io::Result<Done> {
    let mut done = Done::default();
    done.side.readings = readings;
    let answers = outcome.answers_in_window;
    let bytes = size.map(|size| size.saturating_mul(answers));
    let errors = &outcome.errors;
    let [least, median, most] = outcome.fairness();
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
        (Counter::ErrorsRefused, errors.of(LoadError::Refused)),
        (Counter::ErrorsReset, errors.of(LoadError::Reset)),
        (Counter::ErrorsClosed, errors.of(LoadError::Closed)),
        (Counter::ErrorsTimeout, errors.of(LoadError::Timeout)),
        (Counter::ErrorsWrong, errors.of(LoadError::Wrong)),
        (Counter::ErrorsLocal, errors.of(LoadError::Local)),
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
    let counted = counted.map(|(counter, n)| (counter, Reading::Measured(n)));
    done.side.readings.extend(counted);
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
