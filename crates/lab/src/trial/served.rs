//! A trial of a cell with a server: one process serves, one sends requests, and the clients' window,
//! which opens when everyone is connected, is that of both.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytecost_engine::Server;
use bytecost_meter::{NetworkMeter, NetworkSnapshot, early_reading_ns};
use bytecost_spec::sample::Truth;
use bytecost_spec::{Cell, CircumstanceKind, Counter, Reading, Readings};
use bytecost_sys::clock;
use bytecost_sys::sched::Promptness;

use super::sides::{Sides, one_ready};
use crate::endpoint_process::{Endpoint, GRACE_NS, TIMEOUT, all_ended, unexpected, wait_until};
use crate::host_window::HostWindow;
use crate::instruments::CoreToCore;
use crate::networks::{self, NetworkPath};
use crate::obstacles;
use crate::protocol::{
    Done, FromEndpoint, LocalSettings, Role, Schedule, Task, ToEndpoint, Traffic,
};
use crate::server_setup::max_looked_at;
use crate::testbed::{Peer, Testbed};
use crate::trial_error::TrialError;
use crate::trial_output::TrialOutput;
use crate::trial_processes::TrialProcesses;
use crate::watch::Watch;
use crate::window::{LEAD_NS, TrialControl};

/// The longest time until everyone has one response, in ns, and the time added for each connection.
const CONNECT_NS: u64 = 60_000_000_000;
const CONNECT_EACH_NS: u64 = 5_000_000;
/// The time between checks if a queue has overflowed, in ns, and the longest time until everyone is
/// connected if it has: a connection is tried again after 1 s.
const LOOK_NS: u64 = 100_000_000;
const OVERFLOWED_NS: u64 = 2_500_000_000;
/// The shortest time from the last connection to the window, so that both sides have the schedule by then.
const NOTICE: Duration = Duration::from_millis(10);
/// The time before the window at which all processes are listed, in ns, to which the look at the
/// server's adds: a few hundred take 2 ms.
const LIST_NS: u64 = 3_000_000;
/// The indices of the server and of the clients among the ends.
const SERVER: usize = 0;
const CLIENT: usize = 1;

/// Makes one trial of a cell with a server.
pub(super) fn attempt(
    bed: &mut Testbed,
    cell: &Cell,
    window: Duration,
    mut watch: Option<&mut Watch>,
    stop: &AtomicBool,
) -> Result<TrialOutput, TrialError> {
    let (pins, task) = bed.prepare(cell, None, true, stop)?;
    let link = Peer::link(bed.peer.as_ref(), cell);
    let mut sides = Sides {
        settings: &bed.settings,
        standby: &mut bed.standby,
        between: NetworkPath::Nothing,
        link,
        window,
    };
    let way_us = link.map_or(0, |link| link.host().round_trip_us);
    let notice = NOTICE + 2 * Duration::from_micros(way_us);
    let mut ends = Vec::with_capacity(2);
    let server = Task {
        role: Role::Server,
        ..task.clone()
    };
    let (address, process) = sides.listening(&mut ends, server, stop)?;
    one_ready(&mut ends, 0, stop)?;
    ends.push(sides.start(Role::Client)?);
    ends[CLIENT].order(&ToEndpoint::Prepare(Box::new(Task {
        role: Role::Client,
        connection: sides.connects(Role::Client, &address)?,
        here: LocalSettings {
            pins: pins.receiver,
            ..task.here
        },
        ..task
    })))?;
    one_ready(&mut ends, 0, stop)?;
    if let Some(watch) = &mut watch {
        watch.serving_begins(ends[CLIENT].local_pid().unwrap_or(0), process)?;
    }
    let processes = Endpoint::processes(&ends);
    let served = ServedWindow {
        cell,
        processes: &processes,
        length: window,
        notice,
    };
    let (machine, [server, client]) = served.conduct(bed, &mut ends, watch, stop)?;
    check_traffic(server.traffic, client.traffic)?;
    let between = Some(NetworkPath::Nothing);
    let link = Peer::link(bed.peer.as_ref(), cell);
    let peer = Endpoint::take_peer_readings(&ends);
    let on_cards = link.map_or_else(Vec::new, |link| link.circumstances(peer.obstacles));
    let output = TrialOutput {
        peer_machine: peer.machine,
        obstacles: obstacles::of_trial(cell, between, on_cards, &processes),
        ..join(cell, server, client, machine)
    };
    all_ended(ends, stop)?;
    Ok(output)
}

/// A trial's window, which opens when everyone is connected.
struct ServedWindow<'t> {
    cell: &'t Cell,
    processes: &'t TrialProcesses,
    length: Duration,
    /// The shortest time from the last connection to the window.
    notice: Duration,
}

impl ServedWindow<'_> {
    /// Has the clients begin, gives the server their window, and returns the readings of the machine
    /// and of both sides.
    fn conduct(
        &self,
        bed: &mut Testbed,
        ends: &mut [Endpoint],
        watch: Option<&mut Watch>,
        stop: &AtomicBool,
    ) -> Result<(Readings, [Done; 2]), TrialError> {
        let core_to_core = CoreToCore::before(bed.core_to_core.as_ref());
        let queue = ListenQueue::open(self.cell, self.processes);
        let begin_ns = clock::monotonic_ns() + LEAD_NS;
        let warmup = bed.settings.warmup.max(self.notice) + look_time(self.cell);
        let window_from_ns = begin_ns + warmup.as_nanos() as u64;
        ends[CLIENT].order(&ToEndpoint::Go(Schedule {
            begin_ns,
            window_from_ns,
            window_to_ns: window_from_ns + self.length.as_nanos() as u64,
            steady_by_ns: None,
        }))?;
        let schedule = wait_for_connections(self.cell, ends, begin_ns, &queue, stop)?;
        ends[SERVER].order(&ToEndpoint::Go(schedule))?;
        let timeout_ns = TIMEOUT.as_nanos() as u64;
        let mut control = TrialControl::new(ends, watch, stop, timeout_ns);
        let _prompt = Promptness::take(true);
        if let Some(watch) = &mut control.watch {
            watch.schedule(&schedule)?;
        }
        // By then a server has started a process for each connection, if it does.
        let look_ns = LIST_NS + look_time(self.cell).as_nanos() as u64;
        control.wait_until_ns(schedule.window_from_ns.saturating_sub(look_ns))?;
        let mut host = HostWindow::new(self.cell, None);
        host.prepare(&mut bed.instruments, self.processes);
        host.schedule(schedule.window_from_ns..schedule.window_to_ns);
        let mut machine = control.conduct(&mut host, &mut bed.instruments)?;
        machine.extend(core_to_core.after());
        // In an open loop the last answers may take as long as the clients wait for them.
        control.wait_for_done(CLIENT, schedule.window_to_ns + timeout_ns + GRACE_NS)?;
        control.ends[SERVER].order(&ToEndpoint::Stop)?;
        bed.standby.start(&bed.settings.program);
        machine.extend(queue.readings());
        let nothing = |_| TrialError::Failed("protocol error: a side brought back nothing".into());
        let both: [Done; 2] = control.results()?.try_into().map_err(nothing)?;
        Ok((machine, both))
    }
}

/// The queue of new connections of a trial's network, since its clients began to connect.
struct ListenQueue {
    network: NetworkMeter,
    before: NetworkSnapshot,
}

impl ListenQueue {
    fn open(cell: &Cell, processes: &TrialProcesses) -> ListenQueue {
        let network = networks::meter(cell, processes);
        let before = network.read();
        ListenQueue { network, before }
    }

    /// Connections that it had no room for, and attempts at connecting that were repeated.
    fn readings(&self) -> Readings {
        let mut readings = self.network.difference(&self.before, &self.network.read());
        readings.retain(|counter, _| {
            matches!(
                counter,
                Counter::TcpListenDrops | Counter::TcpSynRetransmits
            )
        });
        readings
    }
}

/// Checks that the server has served its load alone: no more requests and connections than the load made,
/// of which some may have been lost or under way at the end.
fn check_traffic(served: Traffic, made: Traffic) -> Result<(), TrialError> {
    if served.connections <= made.connections && served.requests <= made.requests {
        return Ok(());
    }
    Err(TrialError::Failed(format!(
        "the server accepted {} connections and {} requests, and the load generator made {} and {}: stop the other program that connects to this server, `ss -tnp` lists it",
        served.connections, served.requests, made.connections, made.requests
    )))
}

/// Waits until everyone is connected, and returns the schedule of the window.
fn wait_for_connections(
    cell: &Cell,
    ends: &mut [Endpoint],
    begin_ns: u64,
    queue: &ListenQueue,
    stop: &AtomicBool,
) -> Result<Schedule, TrialError> {
    let all = cell.serving.all_connections();
    let timeout_ns = CONNECT_NS + CONNECT_EACH_NS * all;
    let answer = loop {
        let now_ns = clock::monotonic_ns();
        let answer = wait_until(ends, now_ns + LOOK_NS, stop)?;
        if answer.is_some() || now_ns >= begin_ns + timeout_ns {
            break answer;
        }
        let drops = (queue.readings().get(&Counter::TcpListenDrops))
            .and_then(Reading::measured)
            .unwrap_or(0);
        if drops > 0 && now_ns >= begin_ns + OVERFLOWED_NS {
            let remedy = CircumstanceKind::ListenQueue.row().remedy;
            return Err(TrialError::Failed(format!(
                "the kernel's queue of new connections (net.core.somaxconn) overflowed, dropped {drops} connections, and has them tried again after 1 s or more: {remedy}"
            )));
        }
    };
    match answer {
        Some((CLIENT, FromEndpoint::Connected(by))) if by.start <= by.end => Ok(Schedule {
            begin_ns,
            window_from_ns: by.start,
            window_to_ns: by.end,
            steady_by_ns: None,
        }),
        Some((_, other)) => Err(unexpected("endpoint", &other)),
        None => Err(TrialError::Failed(format!(
            "{all} connections were not all open and served within {} s: choose fewer --connections, or stop other programs",
            timeout_ns / 1_000_000_000
        ))),
    }
}

/// The time that the look at the server's process tree takes before its window opens.
fn look_time(cell: &Cell) -> Duration {
    let server = cell.serving.server.as_deref().and_then(Server::named);
    let looked_at = server.map_or(0, |server| max_looked_at(server, cell));
    Duration::from_nanos(early_reading_ns(looked_at))
}

/// The results as those of two sides: the clients are the sending one, the server the receiving one. Its
/// responses are counted by the clients, which have checked them.
fn join(cell: &Cell, mut server: Done, client: Done, machine: Readings) -> TrialOutput {
    let of_clients = &client.side.readings;
    for counter in [Counter::Messages, Counter::Bytes] {
        if let Some(reading) = of_clients.get(&counter) {
            server.side.readings.insert(counter, reading.clone());
        }
    }
    server.side.flows.clone_from(&client.side.flows);
    let bytes: u64 = client.total_bytes.iter().sum();
    let truth = cell.serving.server.as_ref().map(|_| Truth {
        sent_bytes: bytes,
        received_bytes: bytes,
        compared_bytes: client.compared_bytes,
        checked: "content".to_owned(),
    });
    TrialOutput {
        sender: client,
        receiver: Some(server),
        machine,
        truth,
        ..TrialOutput::default()
    }
}
