//! The sending side: serves one session after the other until it is told to stop.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytecost_spec::hand::{Begun, Served, SessionEnd, Summary};
use bytecost_spec::{Axis, Cell, Side, units};
use bytecost_sys::{clock, tcp};
use rustix::net::sockopt;

use super::accept_queue::{AcceptQueue, WaitingClient};
use super::flow_threads::FlowThreads;
use super::greeting::{self, SessionWord};
use super::session::Session;
use super::wire::{after, is_readable};
use super::{CLIENT_AXES, LOOK, PATIENCE, PREPARATION, Serve, SessionEvent};
use crate::endpoint::explain;
use crate::greeters::FlowKey;
use crate::transports;

/// Serves until `stop`. What goes wrong with a session ends that session alone.
///
/// # Errors
/// `AddrInUse` for a port in use.
pub fn serve(
    what: &Serve,
    stop: &AtomicBool,
    events: &mut dyn FnMut(SessionEvent),
) -> io::Result<Served> {
    let listener = transports::listen_at(&what.cell, what.address)?;
    let address = listener.address().parse().map_err(io::Error::other)?;
    events(SessionEvent::Listening(address));
    let mut server = Server {
        what,
        stop,
        queue: AcceptQueue::new(listener, &what.access),
        events,
        served: Served::default(),
    };
    server.run();
    server.queue.close();
    Ok(Served {
        turned_away: server.queue.turned_away(),
        ..server.served
    })
}

struct Server<'a> {
    what: &'a Serve,
    stop: &'a AtomicBool,
    queue: AcceptQueue,
    events: &'a mut dyn FnMut(SessionEvent),
    served: Served,
}

impl Server<'_> {
    fn run(&mut self) {
        while !self.is_over() {
            self.queue.look(LOOK, self.events);
            if let Some(client) = self.queue.next() {
                match self.prepared(&client) {
                    Ok((cell, flow_threads)) => self.session(client, cell, flow_threads),
                    Err(why) => self.queue.turn_away(client, &why, self.events),
                }
                self.queue.give_up();
            }
        }
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn prepared(&mut self, client: &WaitingClient) -> Result<(Cell, FlowThreads), String> {
        let cell = wished(&self.what.cell, &client.wishes)?;
        let keys = FlowKey::several(cell.threads).map_err(told)?;
        self.queue.expect(client, &keys);
        let welcome = SessionWord::Welcome {
            version: greeting::VERSION,
            session: self.served.sessions + 1,
            keys,
            cell: cell.id(),
        };
        client.control.say(&welcome).map_err(told)?;
        let sockets = self.until(client, PATIENCE, |queue| queue.gathered())?;
        for socket in &sockets {
            transports::set_patience(socket, PATIENCE).map_err(told)?;
            sockopt::set_tcp_nodelay(socket, cell.sends_at_once()).map_err(|e| told(e.into()))?;
            if let Some(most) = self.what.access.max_bytes_per_s {
                let each = (most / u64::from(cell.threads)).max(1);
                tcp::set_most_rate(socket, each).map_err(told)?;
            }
        }
        let mut flow_threads = FlowThreads::start(Side::Sender, &cell, sockets).map_err(told)?;
        let begun = || (flow_threads.is_ready() || flow_threads.has_ended()).then_some(());
        self.until(client, PREPARATION, |_| begun())?;
        if flow_threads.has_ended() {
            let (_, failed) = flow_threads.end_by(clock::monotonic_ns());
            return Err(failed.map_or("a flow ended before it began".to_owned(), told));
        }
        Ok((cell, flow_threads))
    }

    /// Waits for something while the client is there.
    fn until<T>(
        &mut self,
        client: &WaitingClient,
        patience: Duration,
        mut so: impl FnMut(&mut AcceptQueue) -> Option<T>,
    ) -> Result<T, String> {
        let until_ns = after(patience);
        loop {
            self.queue.look(Duration::from_millis(2), self.events);
            if let Some(it) = so(&mut self.queue) {
                return Ok(it);
            }
            if self.is_over() {
                return Err("the server is ending".to_owned());
            }
            // It has nothing to say before its flows stand: it is gone, or talks nonsense.
            if is_readable(&client.control.socket, 0) {
                return Err("the client went away before its flows stood".to_owned());
            }
            if clock::monotonic_ns() >= until_ns {
                let patience = units::duration(patience);
                return Err(format!("not all flows stood within {patience}"));
            }
        }
    }

    fn session(&mut self, client: WaitingClient, cell: Cell, flow_threads: FlowThreads) {
        self.served.sessions += 1;
        let begun = Begun {
            session: self.served.sessions,
            own: Side::Sender,
            peer: client.from,
            completes: super::completes(&cell),
            cell,
        };
        (self.events)(SessionEvent::Began(Box::new(begun.clone())));
        let mut session = Session::new(begun, client.control, flow_threads, self.stop);
        session.most = self.what.access.max_duration.map(|most| {
            let limit = units::duration(most);
            let why = format!("the sender's --max-duration {limit} is over");
            (most, SessionEnd::Limit(why))
        });
        let gone = SessionEnd::Failed(session.gone().to_owned());
        let mut look = |events: &mut dyn FnMut(_)| self.queue.look(Duration::ZERO, events);
        let mut end = match session.control.say(&SessionWord::Go) {
            Ok(()) => session.watch(self.events, &mut look),
            Err(_) => gone.clone(),
        };
        session.flow_threads.stop();
        let (mut own, failed) = session.end_flows(&end);
        // What a flow met explains more than that it ended, unless its peer was gone.
        if let Some(failed) = failed.filter(|_| end != gone) {
            end = SessionEnd::Failed(failed);
        }
        match &end {
            SessionEnd::Failed(why) => own.failed = Some(why.clone()),
            SessionEnd::Limit(why) => own.limit = Some(why.clone()),
            SessionEnd::Here | SessionEnd::There => {}
        }
        let peer = session.last_words(&own, &end, self.events, look);
        if let Some(why) = peer.as_ref().and_then(|p| p.failed.as_ref())
            && own.failed.is_none()
        {
            end = SessionEnd::Failed(format!("the client says: {}", units::one_line(why)));
        }
        self.served.failed += u64::from(matches!(end, SessionEnd::Failed(_)));
        self.served.bytes += own.whole.side.flows.iter().map(|f| f.bytes).sum::<u64>();
        (self.events)(SessionEvent::Ended(Box::new(Summary {
            begun: session.begun,
            end,
            own,
            peer,
        })));
    }
}

/// The server's cell with what the client chooses for itself.
fn wished(cell: &Cell, wishes: &[(Axis, String)]) -> Result<Cell, String> {
    let mut wanted = cell.clone();
    for (axis, value) in wishes {
        if !CLIENT_AXES.contains(axis) {
            let name = axis.name();
            return Err(format!("--{name} is an option of the sending side"));
        }
        wanted.set(*axis, value).map_err(|e| e.to_string())?;
    }
    if wanted.threads > cell.threads {
        return Err(format!(
            "{} flows are too many: this sender has at most {}, its --threads",
            wanted.threads, cell.threads
        ));
    }
    Ok(wanted)
}

fn told(error: io::Error) -> String {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
            "the client went away before its flows stood".to_owned()
        }
        _ => explain(&error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_chooses_what_is_its_own_and_no_more() {
        let mut own = Cell::default();
        own.set(Axis::Threads, "4").unwrap();
        let check = |axis: Axis, value: &str, refused: Option<&str>| {
            let wished = wished(&own, &[(axis, value.to_owned())]);
            match (wished.map(|cell| cell.value(axis)), refused) {
                (Ok(found), None) => assert_eq!(found, value),
                (Err(why), Some(part)) => assert!(why.contains(part), "{why}"),
                other => panic!("{axis:?} {value}: {other:?}"),
            }
        };
        assert_eq!(wished(&own, &[]).as_ref(), Ok(&own));
        check(Axis::Threads, "3", None);
        check(Axis::Threads, "5", Some("at most 4"));
        check(Axis::Threads, "0", Some("out of bounds"));
        check(Axis::Pattern, "request-response", None);
        check(Axis::Receiver, "recvmsg", None);
        let not_its_own = "is an option of the sending side";
        check(Axis::Size, "1GiB", Some(&format!("--size {not_its_own}")));
        check(Axis::Ring, "4GiB", Some(&format!("--ring {not_its_own}")));
        check(Axis::ReadSize, "65MiB", Some("out of bounds"));
    }
}
