//! The side that listens: one session after the other until it is stopped.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytecost_engine::servers::Addresses;
use bytecost_spec::live::{Served, SessionEnd};
use bytecost_spec::units;
use bytecost_sys::clock;

use super::accept_queue::{AcceptQueue, Arrival};
use super::greeting::Greeting;
use super::session::Running;
use super::{LiveEvent, LiveSetup, POLL_INTERVAL};
use crate::deadline::after;
use crate::endpoint::explain;
use crate::transports;

/// Listens at the first of these addresses where that succeeds, for connections from `allow` or, where that is empty, from everywhere. An error of a session ends that session alone.
///
/// # Errors
/// The answer of bind(2) and listen(2) for the last address, such as `AddrInUse`.
pub fn listen(
    setup: &LiveSetup,
    addresses: &[SocketAddr],
    allow: &[Addresses],
    stop: &AtomicBool,
    events: &mut dyn FnMut(LiveEvent),
) -> io::Result<Served> {
    let mut listening = Err(io::ErrorKind::AddrNotAvailable.into());
    for address in addresses {
        listening = listening.or_else(|_: io::Error| transports::listen_at(&setup.cell, *address));
    }
    let listener = listening?;
    events(LiveEvent::Listening(
        listener.address().parse().map_err(io::Error::other)?,
    ));
    let mut program = ListeningProgram {
        setup,
        stop,
        queue: AcceptQueue::new(listener, allow),
        events,
        served: Served::default(),
    };
    while !stop.load(Ordering::Relaxed) {
        program.queue.accept_within(POLL_INTERVAL, program.events);
        if let Some(first) = program.queue.first() {
            let from = first.from;
            if let Err(why) = program.session(first) {
                let why = format!("{from}: {why}");
                program.queue.turned_away(why, program.events);
            }
            program.queue.expect(None);
        }
    }
    Ok(Served {
        turned_away: program.queue.number_turned_away(),
        ..program.served
    })
}

/// The side that listens, and what it has served so far.
struct ListeningProgram<'a> {
    setup: &'a LiveSetup,
    stop: &'a AtomicBool,
    queue: AcceptQueue,
    events: &'a mut dyn FnMut(LiveEvent),
    served: Served,
}

impl ListeningProgram<'_> {
    /// Runs one session, from the greeting of its first flow to its totals. An error is one from before the
    /// session started.
    fn session(&mut self, first: Arrival) -> Result<(), String> {
        let own = self.setup.greeting();
        let from = first.from;
        let agreed = self.setup.agreed(own, first.greeting);
        // Answered even if the greetings do not agree, so that the other side can report why.
        let setup = send_greeting(&first, own).and(agreed)?;
        let flows = self.wait_for_flows(&setup, first)?;
        let number = self.served.sessions + 1;
        let queue = &mut self.queue;
        let events = &mut *self.events;
        let running = Running::start(setup, number, from.to_string(), flows, self.stop, || {
            queue.accept_within(Duration::ZERO, events);
        })
        .map_err(|e| e.to_string())?;
        self.served.sessions = number;
        let totals = running.run(self.events, |on_event| {
            self.queue.accept_within(Duration::ZERO, on_event)
        });
        self.served.failed += u64::from(matches!(totals.end, SessionEnd::Failed(_)));
        let moved = totals.activity.side.flows.iter().map(|flow| flow.bytes);
        self.served.bytes += moved.sum::<u64>();
        (self.events)(LiveEvent::Ended(Box::new(totals)));
        Ok(())
    }

    /// Waits until all flows of a session are connected, one after the other, each within `start_timeout` of
    /// the one before.
    fn wait_for_flows(
        &mut self,
        setup: &LiveSetup,
        first: Arrival,
    ) -> Result<Vec<OwnedFd>, String> {
        let own = setup.greeting();
        let all = setup.cell.threads as usize;
        let kind = first.greeting.kind;
        self.queue.expect(Some(first.from.ip()));
        let mut flows = vec![first.socket];
        let mut until_ns = after(setup.start_timeout);
        while flows.len() < all {
            self.queue
                .accept_within(Duration::from_millis(2), self.events);
            if let Some(next) = self.queue.next() {
                let greeting = next.greeting;
                if greeting.kind != kind || usize::from(greeting.flow) != flows.len() {
                    return Err(format!("flow {} came out of order", greeting.flow));
                }
                send_greeting(
                    &next,
                    Greeting {
                        flow: greeting.flow,
                        ..own
                    },
                )?;
                flows.push(next.socket);
                until_ns = after(setup.start_timeout);
            } else if self.stop.load(Ordering::Relaxed) {
                return Err("this side was stopped".to_owned());
            } else if flows.iter().any(super::has_ended) {
                return Err(format!("it went away after flow {} of {all}", flows.len()));
            } else if clock::monotonic_ns() >= until_ns {
                let timeout = units::duration(setup.start_timeout);
                let missing = flows.len() + 1;
                return Err(format!(
                    "flow {missing} of {all} is missing: it did not connect within {timeout}"
                ));
            }
        }
        Ok(flows)
    }
}

/// Writes this end's greeting of eight bytes, so few that the call does not block.
fn send_greeting(arrival: &Arrival, own: Greeting) -> Result<(), String> {
    arrival.answer(own).map_err(|e| explain(&e))
}
