//! The loop for every kernel: epoll(7) reports the connections that are ready, each of which is then
//! read or written by a system call.

use std::io;
use std::os::fd::OwnedFd;

use bytecost_engine::services::MOST_REQUEST_BYTES;
use bytecost_sys::clock::monotonic_ns;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, sockopt};

use super::{ClientLoop, LoopEvent, Source, WaitTimes};
use crate::load::{Load, LoadError};

/// Events of one epoll_wait at most.
const EVENTS: usize = 512;
const READ_BYTES: usize = 64 << 10;

/// The connection of a client, or none.
#[derive(Default)]
struct Connection {
    socket: Option<OwnedFd>,
    /// Number of former sockets, by which late events of those are recognised.
    generation: u32,
    /// True until the connection is established.
    connects: bool,
    /// Sent bytes of a request of which a part is not sent yet.
    sent: Option<usize>,
}

pub(in crate::load) struct EpollLoop {
    load: Load,
    epoll: OwnedFd,
    connections: Vec<Connection>,
    source: Source,
    request: Vec<u8>,
    buffer: Box<[u8]>,
    events: Vec<Event>,
    /// Number of events that were handled.
    handled: usize,
    /// The client and the generation of the connection that is read from next, before further events.
    to_receive: Option<(u32, u32)>,
}

impl EpollLoop {
    /// The loop for all clients of a load.
    pub(in crate::load) fn new(load: &Load) -> io::Result<EpollLoop> {
        let clients = (load.connections + load.idle) as usize;
        Ok(EpollLoop {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            connections: (0..clients).map(|_| Connection::default()).collect(),
            source: Source::new(load),
            request: Vec::with_capacity(2 * MOST_REQUEST_BYTES),
            buffer: vec![0; READ_BYTES].into(),
            events: Vec::with_capacity(EVENTS),
            handled: 0,
            to_receive: None,
            load: load.clone(),
        })
    }

    fn watch(&mut self, i: u32, flags: EventFlags) -> Result<(), LoadError> {
        let connection = &self.connections[i as usize];
        let data = event_data(i, connection.generation);
        let modify = |socket| epoll::modify(&self.epoll, socket, data, flags);
        let modified = connection.socket.as_ref().map_or(Ok(()), modify);
        modified.map_err(|_| LoadError::Local)
    }

    /// The result of connecting, when the socket has become writable.
    fn connected(&mut self, i: u32) -> Result<(), LoadError> {
        let connection = &mut self.connections[i as usize];
        connection.connects = false;
        let socket = connection.socket.as_ref().ok_or(LoadError::Closed)?;
        match sockopt::socket_error(socket) {
            Ok(Ok(())) => self.watch(i, EventFlags::IN),
            Ok(Err(e)) | Err(e) => Err(LoadError::from(e)),
        }
    }

    /// Reads once; none if no bytes have arrived.
    fn receive(&mut self, i: u32) -> Option<LoopEvent<usize>> {
        let socket = self.connections[i as usize].socket.as_ref()?;
        let received = match rustix::net::recv(socket, &mut self.buffer[..], RecvFlags::empty()) {
            Ok((0, _)) => Err(LoadError::Closed),
            Ok((length, _)) => Ok(length),
            Err(Errno::AGAIN | Errno::INTR) => return None,
            Err(e) => Err(LoadError::from(e)),
        };
        Some(LoopEvent::Received(i, received))
    }

    /// The event of a client, by an event of epoll; none for a connection that is closed.
    fn event(&mut self, data: u64, flags: EventFlags) -> Option<LoopEvent<usize>> {
        let (i, generation) = (data as u32, (data >> 32) as u32);
        let connection = &self.connections[i as usize];
        if connection.socket.is_none() || connection.generation != generation {
            return None; // of a former connection
        }
        if connection.connects {
            return Some(LoopEvent::Connected(i, self.connected(i)));
        }
        let is_readable = flags.intersects(EventFlags::IN | EventFlags::ERR | EventFlags::HUP);
        if flags.contains(EventFlags::OUT) {
            self.to_receive = is_readable.then_some((i, generation));
            return Some(LoopEvent::Room(i));
        }
        is_readable.then(|| self.receive(i)).flatten()
    }
}

impl ClientLoop for EpollLoop {
    type Piece = usize;

    fn connect(&mut self, i: u32) -> Result<bool, LoadError> {
        self.close(i);
        let (socket, connected) = loop {
            let source_byte = self.source.last_byte;
            let socket = (self.source.socket(&self.load, SocketFlags::NONBLOCK))
                .map_err(|_| LoadError::Local)?;
            match rustix::net::connect(&socket, &self.load.address) {
                Ok(()) => break (socket, true),
                Err(Errno::INPROGRESS | Errno::INTR) => break (socket, false),
                Err(e) if self.source.advance(e, source_byte) => {}
                Err(e) => return Err(LoadError::from(e)),
            }
        };
        let connection = &mut self.connections[i as usize];
        let flags = if connected {
            EventFlags::IN
        } else {
            EventFlags::OUT
        };
        let data = event_data(i, connection.generation);
        epoll::add(&self.epoll, &socket, data, flags).map_err(|_| LoadError::Local)?;
        connection.socket = Some(socket);
        connection.connects = !connected;
        Ok(connected)
    }

    fn close(&mut self, i: u32) {
        let connection = &mut self.connections[i as usize];
        connection.generation = connection.generation.wrapping_add(1);
        connection.socket = None;
        connection.connects = false;
        connection.sent = None;
    }

    fn send(&mut self, i: u32, compose: impl FnOnce(&mut Vec<u8>)) -> Result<bool, LoadError> {
        let connection = &mut self.connections[i as usize];
        let socket = connection.socket.as_ref().ok_or(LoadError::Closed)?;
        self.request.clear();
        compose(&mut self.request);
        let before = connection.sent.take();
        let mut sent = before.unwrap_or(0);
        while sent < self.request.len() {
            match rustix::net::send(socket, &self.request[sent..], SendFlags::NOSIGNAL) {
                Ok(n) => sent += n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    connection.sent = Some(sent);
                    if before.is_none() {
                        self.watch(i, EventFlags::IN | EventFlags::OUT)?;
                    }
                    return Ok(false);
                }
                Err(e) => return Err(LoadError::from(e)),
            }
        }
        if before.is_some() {
            self.watch(i, EventFlags::IN)?;
        }
        Ok(true)
    }

    fn wait(&mut self, most_ns: u64) -> io::Result<WaitTimes> {
        self.events.clear();
        self.handled = 0;
        let timeout = Timespec {
            tv_sec: (most_ns / 1_000_000_000) as _,
            tv_nsec: (most_ns % 1_000_000_000) as _,
        };
        let from_ns = monotonic_ns();
        let room = spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, room, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        let to_ns = monotonic_ns();
        Ok(WaitTimes { from_ns, to_ns })
    }

    fn next_event(&mut self) -> Option<LoopEvent<usize>> {
        if let Some((i, generation)) = self.to_receive.take()
            && self.connections[i as usize].generation == generation
            && let Some(received) = self.receive(i)
        {
            return Some(received);
        }
        loop {
            let ready = self.events.get(self.handled)?;
            let (data, flags) = (ready.data.u64(), ready.flags);
            self.handled += 1;
            if let Some(event) = self.event(data, flags) {
                return Some(event);
            }
        }
    }

    fn bytes(&self, piece: &usize) -> &[u8] {
        &self.buffer[..*piece]
    }

    fn release(&mut self, _: usize) {}

    /// Does nothing: epoll reports unread bytes again.
    fn receive_more(&mut self, _: u32) {}

    /// The present time, since the events before were handled after the wait.
    fn now_ns(&self) -> u64 {
        monotonic_ns()
    }
}

fn event_data(i: u32, generation: u32) -> EventData {
    EventData::new_u64(u64::from(generation) << 32 | u64::from(i))
}
