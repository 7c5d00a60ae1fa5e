//! The far end of `wire` in a trial: a responder through its window, and what it counted.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use bytecost_meter::{Meter, ThreadMeter};
use bytecost_spec::sample::FlowReading;
use bytecost_spec::{Cell, Counter, Reading, Readings, SideReadings};
use bytecost_sys::clock;

use super::course::follow;
use super::turn::Signal;
use crate::edges::Edge;
use crate::greeters::KEY_BYTES;
use crate::phase::{Gate, Phase, SharedGate};
use crate::protocol::{self, Done, FromEndpoint, Task};
use crate::thread_binding::ThreadBinding;
use crate::transports::wire::FAR_END;
use crate::transports::wire::responder::{ResponderTally, Rules, WireResponder};
use crate::transports::wire::shared_counters::FlowReceived;

/// The life of a responder. Its counts come as those of a side, though it is none: nothing is
/// received.
pub(super) fn run(task: &Task, control: &mut UnixStream) -> io::Result<Done> {
    let [far, map] = protocol::taken_over(&*control)?;
    let rules = Rules {
        device: task.cell.device,
        mtu_bytes: task.cell.link_mtu_bytes(),
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
        let (tell, told) = mpsc::channel();
        let gate = &gate;
        let responding = scope.spawn(move || {
            let done = respond(task, far, gate, &tell);
            let _ = tell.send(Signal::Ended);
            done
        });
        let threads = [responding];
        let followed = follow(control, gate, &threads, &told, task, None, &mut 0);
        gate.set(Phase::Stop);
        let [responding] = threads;
        let done = responding
            .join()
            .map_err(|_| io::Error::other("the responder panicked"))?;
        followed?;
        done
    })
}

struct Seen {
    tally: ResponderTally,
    flows: Vec<FlowReceived>,
    at_ns: u64,
}

impl Seen {
    fn of(far: &WireResponder) -> Seen {
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
    tell: &mpsc::Sender<Signal>,
) -> io::Result<Done> {
    let hold = ThreadBinding::take(&task.pins, 0, None)?;
    let flows = task.cell.threads as usize;
    let patience_ns = Duration::from_millis(task.patience_ms).as_nanos() as u64;
    look_until(&mut far, patience_ns, "connected", |far| {
        far.seen().filter(|s| s.bytes >= KEY_BYTES as u64).count() == flows
    })?;
    let _ = tell.send(Signal::Ready);
    let mut meter = ThreadMeter::open_without_perf();
    look_through(&mut far, gate, Phase::Window)?;
    let from = Edge::opens(&mut meter, || Seen::of(&far));
    look_through(&mut far, gate, Phase::Cooldown)?;
    let to = Edge::closes(&mut meter, || Seen::of(&far));
    let _ = tell.send(Signal::Closed);
    look_until(&mut far, patience_ns, "closed", |far| far.ended() == flows)?;
    if far.seen().any(|s| s.reset) {
        return Err(io::Error::new(
            io::ErrorKind::ConnectionReset,
            "a flow's sender gave up",
        ));
    }
    let mut readings = meter.difference(&from.snapshot, &to.snapshot);
    let (from, to) = (from.tally, to.tally);
    readings.extend(counted(&from.tally, &to.tally));
    if let Some(cpu) = readings.get(&Counter::CpuNs).cloned() {
        readings.insert(Counter::ResponderCpuNs, cpu);
    }
    Ok(Done {
        side: SideReadings {
            readings,
            flows: moved(&task.cell, &from, &to),
            held: hold.held()?.into_iter().collect(),
            sub_windows: None,
        },
        total_bytes: far.seen().map(|s| s.bytes - KEY_BYTES as u64).collect(),
        compared_bytes: 0,
        latency_ns_histogram: None,
        footprint: None,
        strangers: 0,
    })
}

fn look_through(far: &mut WireResponder, gate: &SharedGate, until: Phase) -> io::Result<()> {
    while gate.phase() < until {
        far.look()?;
    }
    Ok(())
}

/// Looks until it is so; no longer than patience lasts after anything last came.
fn look_until(
    far: &mut WireResponder,
    patience_ns: u64,
    what: &str,
    is_so: impl Fn(&WireResponder) -> bool,
) -> io::Result<()> {
    let began_ns = clock::monotonic_ns();
    while !is_so(far) {
        far.look()?;
        let quiet_ns = clock::monotonic_ns().saturating_sub(far.busy_ns().max(began_ns));
        if quiet_ns > patience_ns {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!(
                    "not all flows {what} in time: {} came, {} ended",
                    far.opened(),
                    far.ended()
                ),
            ));
        }
    }
    Ok(())
}

fn counted(from: &ResponderTally, to: &ResponderTally) -> Readings {
    let grown = [
        (Counter::WirePackets, from.packets, to.packets),
        (
            Counter::WireAcknowledgements,
            from.acknowledgements,
            to.acknowledgements,
        ),
        (Counter::WireGaps, from.gaps, to.gaps),
        (Counter::WireRepeats, from.repeats, to.repeats),
        (Counter::ResponderWritingNs, from.writing_ns, to.writing_ns),
    ];
    let reading = |(counter, from, to): (Counter, u64, u64)| {
        (counter, Reading::Measured(to.saturating_sub(from)))
    };
    grown.into_iter().map(reading).collect()
}

fn moved(cell: &Cell, from: &Seen, to: &Seen) -> Vec<FlowReading> {
    let elapsed_ns = to.at_ns.saturating_sub(from.at_ns);
    let flows = from.flows.iter().zip(&to.flows);
    flows
        .map(|(from, to)| {
            let bytes = to.bytes.saturating_sub(from.bytes);
            FlowReading {
                bytes,
                messages: bytes / cell.size_bytes.max(1),
                elapsed_ns,
            }
        })
        .collect()
}
