//! The far end of `wire` in a trial: a responder through its window, and what it counted.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use bytecost_meter::{Meter, ThreadMeter};
use bytecost_spec::sample::FlowReading;
use bytecost_spec::{Cell, Counter, Reading, Readings};
use bytecost_sys::clock;

use super::gate_control::{GateControl, Signal};
use crate::edges::Edge;
use crate::flow_key::KEY_BYTES;
use crate::limits;
use crate::phase::{Gate, Phase, SharedGate};
use crate::protocol::{self, Done, FromEndpoint, Task, unexpected_order};
use crate::thread_binding::ThreadBinding;
use crate::transports::link::LinkChoice;
use crate::transports::wire::FAR_END;
use crate::transports::wire::responder::{ResponderTally, Rules, WireResponder};
use crate::transports::wire::shared_counters::FlowReceived;

/// Responds to a trial's sender through its window. Its counts are those of a side, though it receives
/// nothing.
pub(super) fn run(task: &Task, control: &mut UnixStream) -> io::Result<Done> {
    let [far, map] = protocol::receive_descriptors(&*control)?;
    let rules = Rules {
        link: LinkChoice::new(&task.cell),
        acknowledge_bytes: task.cell.ack_bytes,
        flows_most: task.cell.threads as usize,
    };
    let far = WireResponder::new(far, map, rules)?;
    let listening = FromEndpoint::Listening {
        address: FAR_END.to_string(),
        process: None,
    };
    protocol::write(control, &listening)?;
    let gate = SharedGate::default();
    thread::scope(|scope| {
        let (signals, received) = mpsc::channel();
        let gate = &gate;
        let responding = limits::start(scope, move || {
            let done = respond(task, far, gate, &signals);
            let _ = signals.send(Signal::Ended);
            done
        })?;
        let phases = GateControl {
            task,
            control,
            gate,
            signals: received,
            growth: None,
        };
        let mut done = phases.run(vec![responding])?.flows;
        done.pop().ok_or_else(unexpected_order)
    })
}

/// The counters of the far end at an edge of the window.
struct Seen {
    tally: ResponderTally,
    flows: Vec<FlowReceived>,
    at_ns: u64,
}

impl Seen {
    fn read(far: &WireResponder) -> Seen {
        Seen {
            tally: far.tally(),
            flows: far.seen().collect(),
            at_ns: clock::monotonic_ns(),
        }
    }
}

fn respond(
    task: &Task,
    mut far: WireResponder,
    gate: &SharedGate,
    signals: &mpsc::Sender<Signal>,
) -> io::Result<Done> {
    let binding = ThreadBinding::bind(&task.here.pins, 0, None)?;
    let flows = task.cell.threads as usize;
    let timeout_ns = Duration::from_millis(task.timeout_ms).as_nanos() as u64;
    poll_until(&mut far, timeout_ns, "connected", |far| {
        far.seen().filter(|s| s.bytes >= KEY_BYTES as u64).count() == flows
    })?;
    let _ = signals.send(Signal::Ready);
    let mut meter = ThreadMeter::open_without_perf();
    poll_through(&mut far, gate, Phase::Window)?;
    let from = Edge::opens(&mut meter, || Seen::read(&far));
    poll_through(&mut far, gate, Phase::Cooldown)?;
    let to = Edge::closes(&mut meter, || Seen::read(&far));
    let _ = signals.send(Signal::Closed);
    poll_until(&mut far, timeout_ns, "closed", |far| far.ended() == flows)?;
    if far.seen().any(|s| s.reset) {
        let why = "a flow's sender gave up";
        return Err(io::Error::new(io::ErrorKind::ConnectionReset, why));
    }
    let mut readings = meter.difference(&from.snapshot, &to.snapshot);
    let (from, to) = (from.tally, to.tally);
    readings.extend(counted(&from.tally, &to.tally));
    let cpu = readings.get(&Counter::CpuNs).cloned();
    readings.extend(cpu.map(|cpu| (Counter::ResponderCpuNs, cpu)));
    let mut done = Done::default();
    done.side.readings = readings;
    done.side.flows = moved(&task.cell, &from, &to);
    done.side.held.extend(binding.held()?);
    let payload = far.seen().map(|s| s.bytes - KEY_BYTES as u64);
    done.total_bytes = payload.collect();
    Ok(done)
}

fn poll_through(far: &mut WireResponder, gate: &SharedGate, until: Phase) -> io::Result<()> {
    while gate.phase() < until {
        far.poll()?;
    }
    Ok(())
}

/// Serves the far end until a condition holds, or nothing has come for as long as timeout lasts.
fn poll_until(
    far: &mut WireResponder,
    timeout_ns: u64,
    what: &str,
    is_so: impl Fn(&WireResponder) -> bool,
) -> io::Result<()> {
    let began_ns = clock::monotonic_ns();
    while !is_so(far) {
        far.poll()?;
        let quiet_ns = clock::monotonic_ns().saturating_sub(far.busy_ns().max(began_ns));
        if quiet_ns > timeout_ns {
            let (came, ended) = (far.opened(), far.ended());
            let why = format!("not all flows {what} in time: {came} came, {ended} ended");
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
    }
    Ok(())
}

fn counted(from: &ResponderTally, to: &ResponderTally) -> Readings {
    let added =
        |get: fn(&ResponderTally) -> u64| Reading::Measured(get(to).saturating_sub(get(from)));
    [
        (Counter::WirePackets, added(|t| t.packets)),
        (Counter::WireAcknowledgements, added(|t| t.acknowledgements)),
        (Counter::WireGaps, added(|t| t.gaps)),
        (Counter::WireRepeats, added(|t| t.repeats)),
        (Counter::ResponderWritingNs, added(|t| t.writing_ns)),
    ]
    .into()
}

fn moved(cell: &Cell, from: &Seen, to: &Seen) -> Vec<FlowReading> {
    let elapsed_ns = to.at_ns.saturating_sub(from.at_ns);
    let flows = from.flows.iter().zip(&to.flows);
    let increases = flows.map(|(before, after)| after.bytes.saturating_sub(before.bytes));
    let reading = |bytes| FlowReading {
        bytes,
        messages: bytes / cell.size_bytes.max(1),
        elapsed_ns,
    };
    increases.map(reading).collect()
}
