//! The observer of a host: it reads the machine and the networks around the windows of trials, by the
//! orders of a coordinator, and stays from one trial to the next.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use bytecost_meter::CoreToCoreMeter;
use bytecost_spec::Readings;
use bytecost_sys::clock;
use bytecost_sys::sched::Promptness;
use rustix::event::{PollFd, PollFlags};

use crate::deadline::poll;
use crate::evidence_meters::{EvidenceMeters, EvidenceWindow};
use crate::host_window::{ClosedWindow, UpcomingWindow, machine_edge_ns};
use crate::instruments::{CoreToCore, CpuTimes, Instruments};
use crate::obstacles::PathDevices;
use crate::passes::Passes;
use crate::path_meters::PacketTaps;
use crate::protocol::{
    self, Done, FromEndpoint, HostAnswer, HostQuestion, HostReadings, ObservedTrial, ObserverStage,
    ObserverTask, ToEndpoint, unexpected_order,
};
use crate::server_setup::early_reading_time;
use crate::unit_costs;

/// The time before the window of a server at which all processes are listed, to which the look at the
/// server's adds: a few hundred take 2 ms.
const LISTING: Duration = Duration::from_millis(3);
/// The time from one look at the samples of the CPUs to the next, in ns.
const SAMPLES_TAKEN_NS: u64 = 20_000_000;
/// Orders of one trial that may come before the edges of its window are read: to close, and to stop.
const MAX_EARLY: usize = 2;

/// Observes trial after trial until the connection ends. `program` is the process that has started the
/// others of bytecost on this host.
pub(super) fn run(task: &ObserverTask, program: u32, control: &mut UnixStream) -> io::Result<Done> {
    let mut instruments = Instruments::open(program, &task.cpus);
    let before = instruments.cpu_times();
    let mut observer = Observer {
        program,
        cpus: &task.cpus,
        instruments,
        evidence: EvidenceMeters::default(),
        core_to_core: None,
        before,
    };
    let mut orders = Orders {
        control,
        early: VecDeque::new(),
        trial: 0,
    };
    loop {
        match orders.next()? {
            ToEndpoint::Trial(trial) => {
                orders.trial = trial.number;
                match observer.observe(&trial, &mut orders) {
                    Ok(()) | Err(Unfinished::Abandoned) => {}
                    Err(Unfinished::Failed(e)) => return Err(e),
                }
            }
            ToEndpoint::Ask(question) => {
                let answer = observer.answer(&question);
                protocol::write(orders.control, &FromEndpoint::Answer(answer))?;
            }
            // Of a trial that has failed.
            ToEndpoint::Go(_) | ToEndpoint::Open | ToEndpoint::Close | ToEndpoint::Stop => {}
            ToEndpoint::Prepare(_) | ToEndpoint::Background(_) | ToEndpoint::Observe(_) => {
                return Err(unexpected_order());
            }
        }
    }
}

/// The meters of a host, which are kept from trial to trial.
struct Observer<'t> {
    program: u32,
    cpus: &'t [u32],
    instruments: Instruments,
    evidence: EvidenceMeters,
    core_to_core: Option<CoreToCoreMeter>,
    /// CPU times when the use of others was last asked for.
    before: CpuTimes,
}

impl Observer<'_> {
    fn answer(&mut self, question: &HostQuestion) -> HostAnswer {
        match question {
            HostQuestion::OthersUse => {
                let now = self.instruments.cpu_times();
                let used = self.instruments.others_use(&self.before, &now);
                self.before = now;
                HostAnswer::OthersUse(used)
            }
            HostQuestion::EvidenceRefusal(wanted) => {
                let opened = self.evidence.open(wanted, self.cpus);
                HostAnswer::EvidenceRefusal(opened.err().map(|e| e.to_string()))
            }
            HostQuestion::UnitCosts(clock) => {
                HostAnswer::UnitCosts(unit_costs::measure(self.program, *clock))
            }
            HostQuestion::DoOthersRun => {
                HostAnswer::DoOthersRun(unit_costs::do_others_run(self.program))
            }
        }
    }

    /// Observes one trial from its preparation to its end.
    fn observe(
        &mut self,
        trial: &ObservedTrial,
        orders: &mut Orders<'_>,
    ) -> Result<(), Unfinished> {
        if trial.cpu_pair != self.core_to_core.as_ref().map(|meter| meter.cpus) {
            self.core_to_core = trial.cpu_pair.and_then(CoreToCoreMeter::between);
        }
        self.evidence.open(&trial.evidence, self.cpus)?;
        let packet_taps = PacketTaps::open(&trial.cell, &trial.processes);
        let devices = PathDevices::open(trial);
        let core_to_core = CoreToCore::before(self.core_to_core.as_ref());
        let mut evidence = self.evidence.prepare(trial, self.program)?;
        let instruments = &mut self.instruments;
        let mut machine = if trial.cell.is_served() {
            by_load(trial, instruments, &mut evidence, orders)?
        } else if Passes::new(&trial.cell).is_some() {
            let upcoming = UpcomingWindow::prepare(instruments, trial);
            by_passes(upcoming, &mut evidence, orders)?
        } else {
            let upcoming = UpcomingWindow::prepare(instruments, trial);
            orders.answer(ObserverStage::Ready)?;
            let window_ns = orders.window_ns()?;
            evidence.schedule(&window_ns)?;
            by_clock(trial, upcoming, window_ns, &mut evidence, orders)?
        };
        orders.answer(ObserverStage::Closed)?;
        orders.expect(&ToEndpoint::Stop)?;
        machine.extend(core_to_core.after());
        if trial.reports_quotas {
            machine.extend(self.instruments.quotas.since_last());
        }
        Ok(orders.answer(ObserverStage::Over(Box::new(HostReadings {
            machine,
            obstacles: devices.obstacles(trial, self.program),
            packet_sockets: packet_taps.all(),
            evidence: evidence.evidence(),
        })))?)
    }
}

/// Observes the window of a server, whose processes are listed just before it: by then it has started one
/// for each connection, if it does.
fn by_load(
    trial: &ObservedTrial,
    instruments: &mut Instruments,
    evidence: &mut EvidenceWindow<'_>,
    orders: &mut Orders<'_>,
) -> Result<Readings, Unfinished> {
    orders.answer(ObserverStage::Ready)?;
    let window_ns = orders.window_ns()?;
    let _prompt = Promptness::take(true);
    evidence.schedule(&window_ns)?;
    let listing = LISTING + early_reading_time(&trial.cell);
    let listed_ns = (window_ns.start).saturating_sub(listing.as_nanos() as u64);
    orders.wait_until(listed_ns)?;
    let upcoming = UpcomingWindow::prepare(instruments, trial);
    by_clock(trial, upcoming, window_ns, evidence, orders)
}

/// Observes a window from one time to another.
fn by_clock(
    trial: &ObservedTrial,
    upcoming: UpcomingWindow<'_>,
    window_ns: Range<u64>,
    evidence: &mut EvidenceWindow<'_>,
    orders: &mut Orders<'_>,
) -> Result<Readings, Unfinished> {
    orders.wait_until(window_ns.start)?;
    let opening = upcoming.read_network();
    orders.wait_until(machine_edge_ns(&trial.cell, window_ns.start))?;
    let open = opening.read_machine();
    evidence.open()?;
    orders.sample_until(machine_edge_ns(&trial.cell, window_ns.end), evidence)?;
    let mut closed = open.close();
    evidence.close()?;
    let machine = closed.machine_readings();
    orders.expect(&ToEndpoint::Close)?;
    Ok(with_network(machine, &closed))
}

/// Observes a window that opens and closes by orders.
fn by_passes(
    upcoming: UpcomingWindow<'_>,
    evidence: &mut EvidenceWindow<'_>,
    orders: &mut Orders<'_>,
) -> Result<Readings, Unfinished> {
    orders.answer(ObserverStage::Ready)?;
    orders.wait_for_open()?;
    let open = upcoming.read_network().read_machine();
    evidence.open()?;
    orders.answer(ObserverStage::Open)?;
    orders.sample_until_close(evidence)?;
    let mut closed = open.close();
    evidence.close()?;
    let machine = closed.machine_readings();
    Ok(with_network(machine, &closed))
}

fn with_network(mut machine: Readings, closed: &ClosedWindow<'_>) -> Readings {
    machine.extend(closed.network_readings());
    machine
}

/// The reason why the observation of a trial ends before the trial.
enum Unfinished {
    /// Another order came: the trial has failed.
    Abandoned,
    Failed(io::Error),
}

impl From<io::Error> for Unfinished {
    fn from(error: io::Error) -> Unfinished {
        Unfinished::Failed(error)
    }
}

/// The orders of the coordinator, and the connection that they come by.
struct Orders<'c> {
    control: &'c mut UnixStream,
    /// Orders that came before their time.
    early: VecDeque<ToEndpoint>,
    /// The number of the trial that is observed.
    trial: u64,
}

impl Orders<'_> {
    fn next(&mut self) -> io::Result<ToEndpoint> {
        match self.early.pop_front() {
            Some(order) => Ok(order),
            None => protocol::read(self.control),
        }
    }

    fn answer(&mut self, stage: ObserverStage) -> io::Result<()> {
        let trial = self.trial;
        protocol::write(self.control, &FromEndpoint::Observed { trial, stage })
    }

    fn abandon(&mut self, order: ToEndpoint) -> Unfinished {
        self.early = [order].into();
        Unfinished::Abandoned
    }

    fn expect(&mut self, expected: &ToEndpoint) -> Result<(), Unfinished> {
        let order = self.next()?;
        if order == *expected {
            Ok(())
        } else {
            Err(self.abandon(order))
        }
    }

    /// Waits for the times of the window, in ns of CLOCK_MONOTONIC.
    fn window_ns(&mut self) -> Result<Range<u64>, Unfinished> {
        match self.next()? {
            ToEndpoint::Go(schedule) => Ok(schedule.window_from_ns..schedule.window_to_ns),
            other => Err(self.abandon(other)),
        }
    }

    /// Waits for the order to open the window. The times of a window of passes are those of its warm-up.
    fn wait_for_open(&mut self) -> Result<(), Unfinished> {
        match self.next()? {
            ToEndpoint::Open => Ok(()),
            ToEndpoint::Go(_) => self.expect(&ToEndpoint::Open),
            other => Err(self.abandon(other)),
        }
    }

    /// Waits until a time, in ns of CLOCK_MONOTONIC. The sides may close their windows before the machine
    /// is read; any other order ends the trial.
    fn wait_until(&mut self, at_ns: u64) -> Result<(), Unfinished> {
        while let Some(order) = self.next_by(at_ns)? {
            let is_of_window = matches!(order, ToEndpoint::Close | ToEndpoint::Stop);
            if !is_of_window || self.early.len() >= MAX_EARLY {
                return Err(self.abandon(order));
            }
            self.early.push_back(order);
        }
        Ok(())
    }

    /// The next order that comes before a time, if one does.
    fn next_by(&mut self, until_ns: u64) -> io::Result<Option<ToEndpoint>> {
        loop {
            let left_ns = until_ns.saturating_sub(clock::monotonic_ns());
            if left_ns == 0 {
                return Ok(None);
            }
            let control = PollFd::new(&*self.control, PollFlags::IN);
            if poll(&mut [control], left_ns)? > 0 {
                return protocol::read(self.control).map(Some);
            }
        }
    }

    /// As [`Orders::wait_until`] within a window, while the CPUs may be sampled.
    fn sample_until(
        &mut self,
        at_ns: u64,
        evidence: &mut EvidenceWindow<'_>,
    ) -> Result<(), Unfinished> {
        while evidence.is_sampled() && clock::monotonic_ns() + SAMPLES_TAKEN_NS < at_ns {
            self.wait_until(clock::monotonic_ns() + SAMPLES_TAKEN_NS)?;
            evidence.take();
        }
        self.wait_until(at_ns)
    }

    /// Waits for the order to close the window, while the CPUs may be sampled.
    fn sample_until_close(&mut self, evidence: &mut EvidenceWindow<'_>) -> Result<(), Unfinished> {
        while evidence.is_sampled() && self.early.is_empty() {
            let order = self.next_by(clock::monotonic_ns() + SAMPLES_TAKEN_NS)?;
            evidence.take();
            self.early.extend(order);
        }
        self.expect(&ToEndpoint::Close)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    use bytecost_spec::evidence::CopyMeans;
    use bytecost_spec::{Axis, Cell, Counter, Reading};

    use crate::protocol::{Role, Schedule, WantedEvidence};
    use crate::trial_processes::{SideProcess, TrialProcesses};

    /// Gives orders to an observer, whose side this process plays, and checks its answers.
    fn conversation(lines: &[(ToEndpoint, Option<(u64, ObserverStage)>)]) -> Readings {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        let own = std::process::id();
        let observer =
            thread::spawn(move || run(&ObserverTask::default(), own, &mut theirs).unwrap_err());
        let mut last = Readings::new();
        for (order, expected) in lines {
            protocol::write(&mut ours, order).unwrap();
            let Some((number, expected)) = expected else {
                continue;
            };
            let FromEndpoint::Observed { trial, stage } = protocol::read(&mut ours).unwrap() else {
                panic!("it answers otherwise");
            };
            assert_eq!(trial, *number);
            match (stage, expected) {
                (ObserverStage::Over(readings), ObserverStage::Over(_)) => last = readings.machine,
                (stage, expected) => assert_eq!(stage, *expected),
            }
        }
        drop(ours);
        assert_eq!(
            observer.join().unwrap().kind(),
            io::ErrorKind::UnexpectedEof
        );
        last
    }

    fn trial(number: u64, values: &[(Axis, &str)]) -> ToEndpoint {
        let of_peer = Cell::default().with(&[(Axis::Transport, "peer")]).unwrap();
        let cell = of_peer.with(values).unwrap();
        ToEndpoint::Trial(Box::new(ObservedTrial {
            number,
            cell,
            processes: TrialProcesses {
                sides: vec![SideProcess {
                    role: Role::Receiver,
                    pid: std::process::id(),
                }],
                ..TrialProcesses::default()
            },
            ..ObservedTrial::default()
        }))
    }

    fn window(from_ns: u64, to_ns: u64) -> ToEndpoint {
        ToEndpoint::Go(Schedule::of_window(from_ns..to_ns))
    }

    fn are_read(readings: &Readings) {
        for counter in [Counter::MachineElapsedNs, Counter::TcpOutSegs] {
            let reading = readings.get(&counter).and_then(Reading::measured);
            assert!(reading.is_some(), "{counter:?}: {readings:?}");
        }
    }

    fn over() -> Option<(u64, ObserverStage)> {
        Some((1, ObserverStage::Over(Box::default())))
    }

    #[test]
    fn the_machine_is_read_behind_both_edges_alike_or_at_once_where_connections_end() {
        let mut cell = Cell::default();
        let [from_ns, to_ns] = [10_000_000, 30_000_000].map(|ns| machine_edge_ns(&cell, ns));
        assert_eq!(to_ns - from_ns, 20_000_000);
        assert!(from_ns > 10_000_000);
        cell.set(Axis::Server, "thread").unwrap();
        assert_eq!(machine_edge_ns(&cell, 7), 7);
    }

    #[test]
    fn a_window_by_the_clock_is_read_and_may_be_closed_before_the_machine_is() {
        let now_ns = clock::monotonic_ns();
        for values in [&[][..], &[(Axis::Server, "thread")]] {
            let readings = conversation(&[
                (trial(1, values), Some((1, ObserverStage::Ready))),
                (window(now_ns, now_ns + 50_000_000), None),
                (ToEndpoint::Close, Some((1, ObserverStage::Closed))),
                (ToEndpoint::Stop, over()),
            ]);
            are_read(&readings);
        }
    }

    #[test]
    fn a_window_of_passes_opens_and_closes_by_orders() {
        let long = [(Axis::Size, "64MiB"), (Axis::Ring, "message")];
        let readings = conversation(&[
            (trial(1, &long), Some((1, ObserverStage::Ready))),
            // The times of the warm-up.
            (window(0, u64::MAX), None),
            (ToEndpoint::Open, Some((1, ObserverStage::Open))),
            (ToEndpoint::Close, Some((1, ObserverStage::Closed))),
            (ToEndpoint::Stop, over()),
        ]);
        are_read(&readings);
    }

    #[test]
    fn questions_have_their_answers_also_behind_a_trial_that_failed() {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        let own = std::process::id();
        let observer = thread::spawn(move || run(&ObserverTask::default(), own, &mut theirs));
        protocol::write(&mut ours, &trial(1, &[])).unwrap();
        let FromEndpoint::Observed { trial: 1, .. } = protocol::read(&mut ours).unwrap() else {
            panic!("it is not ready");
        };
        let nothing = WantedEvidence::default();
        let elsewhere = WantedEvidence {
            root: "/nowhere".into(),
            copies: vec![CopyMeans::Functions],
            ..WantedEvidence::default()
        };
        let mut ask = |question: HostQuestion| {
            protocol::write(&mut ours, &ToEndpoint::Ask(question)).unwrap();
            match protocol::read(&mut ours).unwrap() {
                FromEndpoint::Answer(answer) => answer,
                other => panic!("{other:?}"),
            }
        };
        let open = ask(HostQuestion::EvidenceRefusal(nothing));
        assert_eq!(open, HostAnswer::EvidenceRefusal(None));
        let refused = ask(HostQuestion::EvidenceRefusal(elsewhere));
        assert!(matches!(refused, HostAnswer::EvidenceRefusal(Some(_))));
        let used = ask(HostQuestion::OthersUse);
        assert!(matches!(used, HostAnswer::OthersUse(_)));
        drop(ours);
        observer.join().unwrap().unwrap_err();
    }

    #[test]
    fn a_trial_that_fails_is_forgotten_for_the_next() {
        let later_ns = clock::monotonic_ns() + 3_600_000_000_000;
        let readings = conversation(&[
            (trial(7, &[]), Some((7, ObserverStage::Ready))),
            (window(later_ns, later_ns + 1), None),
            (ToEndpoint::Close, None),
            (trial(8, &[]), Some((8, ObserverStage::Ready))),
            (trial(1, &[]), Some((1, ObserverStage::Ready))),
            (window(0, 1), None),
            (ToEndpoint::Close, Some((1, ObserverStage::Closed))),
            (ToEndpoint::Stop, over()),
        ]);
        are_read(&readings);
    }
}
