//! The loop of every kernel: epoll(7) lists the connections that are ready, and each is then written
//! to and read from by calls of its own.

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

const EVENTS: usize = 512;
const READ_BYTES: usize = 64 << 10;

#[derive(Default)]
struct Line {
    socket: Option<OwnedFd>,
    /// Number of sockets it has had, so that an event of an earlier one is recognised.
    generation: u32,
    connects: bool,
    /// Bytes of the request that are sent, where it is not all of it.
    sent: Option<usize>,
}

pub(in crate::load) struct EpollLoop {
    load: Load,
    epoll: OwnedFd,
    lines: Vec<Line>,
    source: Source,
    request: Vec<u8>,
    buffer: Box<[u8]>,
    events: Vec<Event>,
    /// Number of events that were handled.
    handled: usize,
    /// The connection that is read from next, before further events.
    to_receive: Option<(u32, u32)>,
}

impl EpollLoop {
    /// For all clients of a load.
    pub(in crate::load) fn new(load: &Load) -> io::Result<EpollLoop> {
        let all = (load.connections + load.idle) as usize;
        Ok(EpollLoop {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            lines: (0..all).map(|_| Line::default()).collect(),
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
        let line = &self.lines[i as usize];
        let name = event_name(i, line.generation);
        let modify = |socket| epoll::modify(&self.epoll, socket, name, flags);
        line.socket
            .as_ref()
            .map_or(Ok(()), modify)
            .map_err(|_| LoadError::Local)
    }

    /// The result of connecting, now that the socket can be written to.
    fn connected(&mut self, i: u32) -> Result<(), LoadError> {
        let line = &mut self.lines[i as usize];
        line.connects = false;
        let socket = line.socket.as_ref().ok_or(LoadError::Closed)?;
        match sockopt::socket_error(socket) {
            Ok(Ok(())) => self.watch(i, EventFlags::IN),
            Ok(Err(e)) | Err(e) => Err(LoadError::from(e)),
        }
    }

    /// Reads once; nothing where nothing was there.
    fn receive(&mut self, i: u32) -> Option<LoopEvent<usize>> {
        let socket = self.lines[i as usize].socket.as_ref()?;
        let received = match rustix::net::recv(socket, &mut self.buffer[..], RecvFlags::empty()) {
            Ok((0, _)) => Err(LoadError::Closed),
            Ok((length, _)) => Ok(length),
            Err(Errno::AGAIN | Errno::INTR) => return None,
            Err(e) => Err(LoadError::from(e)),
        };
        Some(LoopEvent::Received(i, received))
    }

    /// The client's event that epoll's stands for; none of a connection that is closed.
    fn event(&mut self, name: u64, flags: EventFlags) -> Option<LoopEvent<usize>> {
        let (i, generation) = (name as u32, (name >> 32) as u32);
        let line = &self.lines[i as usize];
        if line.socket.is_none() || line.generation != generation {
            return None; // of a connection that is gone
        }
        if line.connects {
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
            let from = self.source.last;
            let socket = (self.source.socket(&self.load, SocketFlags::NONBLOCK))
                .map_err(|_| LoadError::Local)?;
            match rustix::net::connect(&socket, &self.load.address) {
                Ok(()) => break (socket, true),
                Err(Errno::INPROGRESS | Errno::INTR) => break (socket, false),
                Err(e) if self.source.may_retry(e, from) => {}
                Err(e) => return Err(LoadError::from(e)),
            }
        };
        let line = &mut self.lines[i as usize];
        let flags = if connected {
            EventFlags::IN
        } else {
            EventFlags::OUT
        };
        epoll::add(&self.epoll, &socket, event_name(i, line.generation), flags)
            .map_err(|_| LoadError::Local)?;
        line.socket = Some(socket);
        line.connects = !connected;
        Ok(connected)
    }

    fn close(&mut self, i: u32) {
        let line = &mut self.lines[i as usize];
        line.generation = line.generation.wrapping_add(1);
        line.socket = None;
        line.connects = false;
        line.sent = None;
    }

    fn send(&mut self, i: u32, compose: impl FnOnce(&mut Vec<u8>)) -> Result<bool, LoadError> {
        let line = &mut self.lines[i as usize];
        let socket = line.socket.as_ref().ok_or(LoadError::Closed)?;
        self.request.clear();
        compose(&mut self.request);
        let before = line.sent.take();
        let mut sent = before.unwrap_or(0);
        while sent < self.request.len() {
            match rustix::net::send(socket, &self.request[sent..], SendFlags::NOSIGNAL) {
                Ok(n) => sent += n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    line.sent = Some(sent);
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
            && self.lines[i as usize].generation == generation
            && let Some(received) = self.receive(i)
        {
            return Some(received);
        }
        loop {
            let event = self.events.get(self.handled)?;
            let (name, flags) = (event.data.u64(), event.flags);
            self.handled += 1;
            if let Some(event) = self.event(name, flags) {
                return Some(event);
            }
        }
    }

    fn bytes(&self, piece: &usize) -> &[u8] {
        &self.buffer[..*piece]
    }

    fn release(&mut self, _: usize) {}

    /// Nothing to do: epoll reports again what was not read.
    fn receive_more(&mut self, _: u32) {}

    /// Now: what was done for others before has taken its time.
    fn now_ns(&self) -> u64 {
        monotonic_ns()
    }
}

fn event_name(i: u32, generation: u32) -> EventData {
    EventData::new_u64(u64::from(generation) << 32 | u64::from(i))
}
