//! The background load of a trial: threads that are busy until the order to stop.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use bytecost_engine::work;
use bytecost_spec::{Class, Held, LoadKind};
use rustix::event::PollFlags;

use crate::deadline::await_event;
use crate::limits;
use crate::protocol::{self, BackgroundTask, Done, FromEndpoint, ToEndpoint};
use crate::thread_binding::ThreadBinding;

/// Keeps CPUs busy until the order to stop, the end of the coordinator or of its time. Reports first the
/// CPUs that its threads are held to.
pub(super) fn run(task: &BackgroundTask, control: &mut UnixStream) -> io::Result<Done> {
    let stop = AtomicBool::new(false);
    let pins: Vec<Vec<u32>> = task.cpus.iter().map(|cpu| vec![*cpu]).collect();
    thread::scope(|scope| {
        let (ready, held_threads) = mpsc::channel();
        let mut threads = Vec::new();
        for number in 0..pins.len().max(1) {
            let (pins, stop, ready) = (&pins, &stop, ready.clone());
            let work = move || busy(task, pins, number as u32, stop, &ready);
            let started = limits::start(scope, work);
            threads.push(started.inspect_err(|_| stop.store(true, Ordering::Relaxed))?);
        }
        drop(ready);
        let mut held: Vec<Held> = held_threads.iter().take(threads.len()).collect();
        held.sort_by(|a, b| a.cpus.cmp(&b.cpus));
        let stopped = if held.len() == threads.len() {
            protocol::write(control, &FromEndpoint::Busy(held)).and_then(|()| wait(task, control))
        } else {
            // One has failed.
            Ok(())
        };
        stop.store(true, Ordering::Relaxed);
        for thread in threads {
            let panicked = |_| Err(io::Error::other("a thread panicked"));
            thread.join().unwrap_or_else(panicked)?;
        }
        stopped.map(|()| Done::default())
    })
}

fn busy(
    task: &BackgroundTask,
    pins: &[Vec<u32>],
    number: u32,
    stop: &AtomicBool,
    ready: &mpsc::Sender<Held>,
) -> io::Result<()> {
    let class = match task.noise {
        LoadKind::Awake => Class::Idle,
        _ => Class::default(),
    };
    let binding = ThreadBinding::bind(pins, number, task.mem_node)?.with_class(class)?;
    let bytes = usize::try_from(task.memory_bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut work = work::of_noise(task.noise, bytes)?.ok_or(io::ErrorKind::InvalidInput)?;
    work.unit()?;
    let _ = ready.send(binding.current()?);
    while !stop.load(Ordering::Relaxed) {
        work.unit()?;
    }
    Ok(())
}

fn wait(task: &BackgroundTask, control: &mut UnixStream) -> io::Result<()> {
    match await_event(&*control, PollFlags::IN, task.until_ns, None) {
        Err(e) if e.kind() == io::ErrorKind::TimedOut => return Ok(()),
        awaited => awaited?,
    }
    protocol::read_order(control, &ToEndpoint::Stop)
}
