//! `pool`: a fixed number of threads that share one epoll set.
//!
//! Each worker waits in the same epoll_wait and serves whoever is ready. A connection is armed
//! for one event at a time (EPOLLONESHOT), so that no two workers ever have the same one, and is
//! armed again when its worker has done with it: one system call more a request than `epoll`,
//! for the use of more than one CPU. An answer that takes long holds up its worker only.

use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, scope};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::SocketFlags;

use super::accepted::Accepted;
use super::address_limit::{AddressLimit, AddressSlot};
use super::connection::{Connection, Wants};
use super::conversation::Worker;
use super::event_loop::ACCEPTED_AT_ONCE;
use super::ticker::Ticker;
use crate::servers::{Limits, ONE_THREAD, Server, ServerFacts, ServerSetup, ServerTally};

pub const SERVER: Server = Server {
    facts: ServerFacts {
        name: "pool",
        summary: "a fixed number of threads, each of which serves whichever connection is ready",
        takes_workers: true,
        ..ONE_THREAD
    },
    serve,
};

/// Turns of one connection before its worker looks who else is ready.
const TURNS: u32 = 8;
/// Events that stand for no slot.
const LISTENER: u64 = u64::MAX;
const END: u64 = u64::MAX - 1;
/// The events for which a connection and the listener are armed.
const ONCE: EventFlags = EventFlags::IN.union(EventFlags::ONESHOT);

struct Pool {
    epoll: OwnedFd,
    listener: OwnedFd,
    addresses: AddressLimit,
    /// Readable when the workers are to end, which is when `ending` is shut down: a write could fail.
    ended: UnixStream,
    ending: UnixStream,
    slots: Vec<Mutex<Option<Connection<Arc<OwnedFd>>>>>,
    free: Mutex<Vec<usize>>,
    open: AtomicUsize,
    /// True if the listener is armed; the thread that sets it arms the listener.
    listens: AtomicBool,
    stopping: AtomicBool,
    limits: Limits,
}

fn serve(setup: ServerSetup) -> io::Result<ServerTally> {
    let new_worker = Worker::opener(&setup);
    let workers = setup.workers.max(1);
    let ticker = Ticker::new(setup.limits.tick())?;
    let pool = Pool::new(setup.listener, setup.limits)?;
    let mut tally = ServerTally::default();
    scope(|scope| {
        let mut threads = Vec::with_capacity(workers);
        let mut failed = Ok(());
        for _ in 0..workers {
            let work = || pool.work(new_worker());
            match Builder::new().spawn_scoped(scope, work) {
                Ok(thread) => threads.push(thread),
                Err(e) => failed = Err(e),
            }
        }
        let kept = failed.and_then(|()| pool.keep(&setup.stop, &ticker, &mut tally));
        // Nothing must leave the scope before the workers do, or it would wait for ever.
        let _ = pool.ending.shutdown(Shutdown::Both);
        for thread in threads {
            tally.add(thread.join().map_err(|_| io::ErrorKind::Other)??);
        }
        kept
    })?;
    Ok(tally)
}

impl Pool {
    fn new(listener: OwnedFd, limits: Limits) -> io::Result<Pool> {
        rustix::io::ioctl_fionbio(&listener, true)?;
        let (ended, ending) = UnixStream::pair()?;
        let pool = Pool {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            listener,
            addresses: AddressLimit::new(&limits),
            ended,
            ending,
            slots: (0..limits.connections).map(|_| Mutex::default()).collect(),
            free: Mutex::new((0..limits.connections).rev().collect()),
            open: AtomicUsize::new(0),
            listens: AtomicBool::new(true),
            stopping: AtomicBool::new(false),
            limits,
        };
        let listener_data = EventData::new_u64(LISTENER);
        epoll::add(&pool.epoll, &pool.listener, listener_data, ONCE)?;
        // By level, and never read: it wakes each of them.
        let end_data = EventData::new_u64(END);
        epoll::add(&pool.epoll, &pool.ended, end_data, EventFlags::IN)?;
        Ok(pool)
    }

    fn work(&self, mut worker: Worker) -> io::Result<ServerTally> {
        // One event at a time: a second one would wait behind the first although another worker
        // has nothing to do.
        let mut events: Vec<Event> = Vec::with_capacity(1);
        loop {
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
            for event in &events {
                match event.data.u64() {
                    END => return Ok(worker.tally),
                    LISTENER => self.accept(&mut worker)?,
                    slot => self.serve(slot as usize, &mut worker)?,
                }
            }
        }
    }

    /// The listener is armed again if there is room for more.
    fn accept(&self, worker: &mut Worker) -> io::Result<()> {
        self.listens.store(false, Ordering::Relaxed);
        for _ in 0..ACCEPTED_AT_ONCE {
            if self.stopping.load(Ordering::Relaxed) {
                return Ok(());
            }
            let Some(slot) = locked(&self.free).pop() else {
                worker.tally.put_off += 1;
                return Ok(());
            };
            match Accepted::take(&self.listener, SocketFlags::NONBLOCK) {
                Accepted::Socket(socket) => match self.addresses.admit(&socket) {
                    Some(place) => self.register(slot, socket, place, worker),
                    None => {
                        locked(&self.free).push(slot);
                        worker.tally.crowded += 1;
                    }
                },
                none => {
                    locked(&self.free).push(slot);
                    match none {
                        Accepted::NoRoom => {
                            worker.tally.put_off += 1;
                            return Ok(());
                        }
                        Accepted::Closed => return Ok(()),
                        _ => break,
                    }
                }
            }
        }
        self.listen_again()
    }

    fn register(&self, slot: usize, socket: OwnedFd, of: AddressSlot, worker: &mut Worker) {
        worker.tally.connections += 1;
        self.open.fetch_add(1, Ordering::Relaxed);
        // The place is locked until the connection is in it: another worker may have the event at
        // once.
        let mut place = locked(&self.slots[slot]);
        let connection = place.insert(Connection::new(Arc::new(socket), of));
        let data = EventData::new_u64(slot as u64);
        let is_in = epoll::add(&self.epoll, &connection.socket, data, ONCE).is_ok();
        if self.stopping.load(Ordering::SeqCst) {
            connection.end_input(); // whoever stops may have passed this place already
        }
        if !is_in {
            worker.tally.broken += 1;
            *place = None;
            drop(place);
            self.free_slot(slot);
        }
    }

    fn listen_again(&self) -> io::Result<()> {
        if !self.stopping.load(Ordering::Relaxed) && !self.listens.swap(true, Ordering::Relaxed) {
            let data = EventData::new_u64(LISTENER);
            epoll::modify(&self.epoll, &self.listener, data, ONCE)?;
        }
        Ok(())
    }

    fn serve(&self, slot: usize, worker: &mut Worker) -> io::Result<()> {
        let mut place = locked(&self.slots[slot]);
        let Some(connection) = place.as_mut() else {
            return Ok(());
        };
        let mut wants = Wants::More;
        for _ in 0..TURNS {
            wants = connection.step(worker);
            if !matches!(wants, Wants::More | Wants::Turn) {
                break;
            }
        }
        if wants == Wants::Close {
            *place = None;
            drop(place);
            self.free_slot(slot);
            return self.listen_again();
        }
        let waits_for = if wants.is_to_write() {
            EventFlags::OUT | EventFlags::ONESHOT
        } else {
            ONCE
        };
        // The place is given up first: from then on another worker may have the next event.
        let socket = Arc::clone(&connection.socket);
        drop(place);
        let data = EventData::new_u64(slot as u64);
        Ok(epoll::modify(&self.epoll, &socket, data, waits_for)?)
    }

    fn free_slot(&self, slot: usize) {
        locked(&self.free).push(slot);
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// The work of the first thread: it closes late connections, and ends all of them when the server stops.
    fn keep(&self, stop: &OwnedFd, ticker: &Ticker, tally: &mut ServerTally) -> io::Result<()> {
        while !ready(stop, ticker)? {
            if ticker.ticked() {
                self.listen_again()?;
                self.close_late(tally);
            }
        }
        self.stopping.store(true, Ordering::SeqCst);
        // The queue of those who wait to be let in is given up; the descriptor goes later.
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        for slot in &self.slots {
            if let Some(connection) = locked(slot).as_ref() {
                connection.end_input();
            }
        }
        // Looks a few times whether all have gone, until the grace is over.
        const POLLS: u32 = 100;
        for _ in 0..POLLS {
            if self.open.load(Ordering::Relaxed) == 0 {
                break;
            }
            std::thread::sleep(self.limits.grace / POLLS);
        }
        Ok(())
    }

    fn close_late(&self, tally: &mut ServerTally) {
        for slot in &self.slots {
            // One that is taken has a worker, who is not late.
            let Ok(mut place) = slot.try_lock() else {
                continue;
            };
            if let Some(connection) = place.as_mut() {
                let (ticks, awaits_client) = (connection.tick(), connection.awaits_client());
                // Its worker-to-be reads the end, and closes it; it may be late itself.
                let is_expired = connection.is_expired();
                let is_late = is_expired || self.limits.is_late(ticks, awaits_client);
                if is_late && connection.cut_off() {
                    tally.count_late(is_expired, awaits_client);
                }
            }
        }
    }
}

/// Returns true for the stop signal, and false for a tick.
fn ready(stop: &OwnedFd, ticker: &Ticker) -> io::Result<bool> {
    let mut waiting = [
        PollFd::new(stop, PollFlags::IN),
        PollFd::new(ticker, PollFlags::IN),
    ];
    match poll(&mut waiting, None) {
        Ok(_) => Ok(!waiting[0].revents().is_empty()),
        Err(Errno::INTR) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// A worker that panicked leaves its own connection half served, and nothing else.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
