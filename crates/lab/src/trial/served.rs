//! A trial of a cell with a server: one process serves, one sends requests, and the clients' window,
//! which opens when everyone is connected, is that of both.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytecost_spec::sample::Truth;
use bytecost_spec::{Cell, Counter, Readings};
use bytecost_sys::clock;

use super::context::{TrialContext, side};
use crate::endpoint_process::{Endpoint, GRACE_NS, TIMEOUT, unexpected, wait_until};
use crate::listen_queue;
use crate::observers::TrialObservers;
use crate::protocol::{
    Done, FromEndpoint, ObservedTrial, Role, Schedule, Task, ToEndpoint, Traffic,
};
use crate::server_setup::early_reading_time;
use crate::trial_error::TrialError;
use crate::trial_output::TrialOutput;
use crate::window::{LEAD_NS, TrialControl, TrialResults};

/// The longest time until everyone has one response, in ns, and the time added for each connection.
const CONNECT_NS: u64 = 60_000_000_000;
const CONNECT_EACH_NS: u64 = 5_000_000;
/// The shortest time from the last connection to the window, so that both sides have the schedule by then.
const NOTICE: Duration = Duration::from_millis(10);
/// The indices of the server and of the clients among the ends.
const SERVER: usize = 0;
const CLIENT: usize = 1;

/// Makes one trial of a cell with a server, whose task this is, and clients that are held to these CPUs.
pub(super) fn attempt(
    mut context: TrialContext<'_>,
    task: Task,
    client_pins: Vec<Vec<u32>>,
    (observed, mut observers): (ObservedTrial, TrialObservers<'_>),
    is_watched: bool,
) -> Result<TrialOutput, TrialError> {
    let client_task = side(&task, Role::Client, client_pins);
    let server_task = Task {
        role: Role::Server,
        ..task
    };
    let (mut endpoints, processes) = context.ready(vec![server_task, client_task], 0)?;
    let observed = ObservedTrial {
        processes,
        ..observed
    };
    observers.prepare(observed, context.stop)?;
    let results = conduct(&mut context, &mut endpoints, observers, is_watched)?;
    let nothing = |_| TrialError::failed("protocol error: a side brought back nothing");
    let [server, client]: [Done; 2] = results.sides.try_into().map_err(nothing)?;
    check_traffic(server.traffic, client.traffic)?;
    let is_server_there = (context.link).is_some_and(|link| link.sides.is_there(Role::Server));
    let machine = results.hosts.here.machine.clone();
    let output = join(server, client, machine, is_server_there);
    context.end(output, results.hosts, endpoints)
}

/// Has the clients begin, and gives the server and the observers their window, which opens when everyone
/// is connected.
fn conduct(
    context: &mut TrialContext<'_>,
    endpoints: &mut [Endpoint],
    observers: TrialObservers<'_>,
    is_watched: bool,
) -> Result<TrialResults, TrialError> {
    let (cell, stop) = (context.cell, context.stop);
    let way_us = context.link.map_or(0, |link| link.host().round_trip_us);
    let notice = NOTICE + 2 * Duration::from_micros(way_us);
    let begin_ns = clock::monotonic_ns() + LEAD_NS;
    let warmup = context.settings.warmup.max(notice) + early_reading_time(cell);
    let window_from_ns = begin_ns + warmup.as_nanos() as u64;
    endpoints[CLIENT].order(&ToEndpoint::Go(Schedule {
        begin_ns,
        window_from_ns,
        window_to_ns: window_from_ns + context.window.as_nanos() as u64,
        steady_by_ns: None,
    }))?;
    let schedule = wait_for_connections(cell, endpoints, begin_ns, stop)?;
    endpoints[SERVER].order(&ToEndpoint::Go(schedule))?;
    let timeout_ns = TIMEOUT.as_nanos() as u64;
    let mut control = TrialControl::new(endpoints, observers, is_watched, stop, timeout_ns);
    control.conduct(&schedule)?;
    control.stop_observers()?;
    // In an open loop the last answers may take as long as the clients wait for them.
    control.wait_for_done(CLIENT, schedule.window_to_ns + timeout_ns + GRACE_NS)?;
    control.endpoints[SERVER].order(&ToEndpoint::Stop)?;
    context.start_standby();
    control.results()
}

/// Checks that the server has served its load alone: no more requests and connections than the load made,
/// of which some may have been lost or under way at the end.
fn check_traffic(served: Traffic, made: Traffic) -> Result<(), TrialError> {
    if served.connections <= made.connections && served.requests <= made.requests {
        return Ok(());
    }
    Err(TrialError::failed(format!(
        "the server accepted {} connections and {} requests, and the load generator made {} and {}: stop the other program that connects to this server, `ss -tnp` lists it",
        served.connections, served.requests, made.connections, made.requests
    )))
}

/// Waits until everyone is connected, and returns the schedule of the window.
fn wait_for_connections(
    cell: &Cell,
    endpoints: &mut [Endpoint],
    begin_ns: u64,
    stop: &AtomicBool,
) -> Result<Schedule, TrialError> {
    let all = cell.serving.all_connections();
    let timeout_ns = CONNECT_NS + CONNECT_EACH_NS * all;
    match wait_until(endpoints, begin_ns + timeout_ns, stop)? {
        Some((CLIENT, FromEndpoint::Connected(by))) if by.start <= by.end => Ok(Schedule {
            begin_ns,
            window_from_ns: by.start,
            window_to_ns: by.end,
            steady_by_ns: None,
        }),
        Some((_, other)) => Err(unexpected("endpoint", &other)),
        None => Err(TrialError::failed(format!(
            "{all} connections were not all open and served within {} s: choose fewer --connections, or stop other programs",
            timeout_ns / 1_000_000_000
        ))),
    }
}

/// The results as those of two sides: the clients are the sending one, the server the receiving one. Its
/// responses are counted by the clients, which have checked them.
fn join(
    mut server: Done,
    mut client: Done,
    mut machine: Readings,
    is_server_there: bool,
) -> TrialOutput {
    // Counters of each side's network are of its host's machine.
    let mut peer_machine = Readings::new();
    for (is_there, side) in [(is_server_there, &mut server), (false, &mut client)] {
        let of_host = if is_there {
            &mut peer_machine
        } else {
            &mut machine
        };
        for counter in listen_queue::COUNTERS {
            of_host.extend(side.side.readings.remove_entry(&counter));
        }
    }
    for counter in [Counter::Messages, Counter::Bytes] {
        if let Some(reading) = client.side.readings.get(&counter) {
            server.side.readings.insert(counter, reading.clone());
        }
    }
    server.side.flows.clone_from(&client.side.flows);
    let bytes: u64 = client.total_bytes.iter().sum();
    TrialOutput {
        truth: Some(Truth {
            sent_bytes: bytes,
            received_bytes: bytes,
            compared_bytes: client.compared_bytes,
            checked: "content".to_owned(),
        }),
        sender: client,
        receiver: Some(server),
        machine,
        peer_machine,
        ..TrialOutput::default()
    }
}
