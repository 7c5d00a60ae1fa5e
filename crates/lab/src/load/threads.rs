//! The threads of a load, each with a share of it.

use std::io;
use std::sync::atomic::AtomicBool;

use super::client_loop::epoll::EpollLoop;
use super::client_loop::uring::UringLoop;
use super::driver::Driver;
use super::start_gate::StartGate;
use super::{Load, LoadInterface, LoadOutcome, Stage};

impl Load {
    /// Generates the load, and calls `on_stage` at each stage. Once `stop` is set, its time is over.
    ///
    /// # Errors
    /// [`Load::check`]'s, and what the kernel refuses to the generator; the server's are in the
    /// outcome.
    pub fn run(
        &self,
        stop: &AtomicBool,
        on_stage: &(dyn Fn(Stage) + Sync),
    ) -> io::Result<LoadOutcome> {
        self.check()
            .map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        let (silent, start) = (|_| (), StartGate::new(self.threads));
        std::thread::scope(|scope| {
            let mut others = Vec::new();
            for nth in 1..self.threads {
                let (share, start) = (self.share(nth), &start);
                let work = move || {
                    let outcome = share.drive(nth, start, stop, &silent);
                    outcome.inspect_err(|_| start.give_up())
                };
                others.push(std::thread::Builder::new().spawn_scoped(scope, work)?);
            }
            let mut outcome = self.share(0).drive(0, &start, stop, on_stage);
            outcome = outcome.inspect_err(|_| start.give_up());
            for other in others {
                let joined = other.join().map_err(|_| io::ErrorKind::Other)?;
                outcome = outcome.and_then(|mut all| {
                    all.add(&joined?)?;
                    Ok(all)
                });
            }
            outcome
        })
    }

    fn drive(
        &self,
        nth: u32,
        start: &StartGate,
        stop: &AtomicBool,
        on_stage: &dyn Fn(Stage),
    ) -> io::Result<LoadOutcome> {
        let refused = match self.way {
            LoadInterface::Epoll => None,
            way => match (UringLoop::new(self), way) {
                (Ok(ring), _) => {
                    return Driver::new(self, ring, nth, start).run(stop, on_stage);
                }
                (Err(e), LoadInterface::Best) => Some(e.to_string()),
                (Err(e), _) => {
                    let why = format!(
                        "no ring for the load ({e}): it needs Linux 6.1, and leave to use io_uring \
                         (kernel.io_uring_disabled, seccomp)"
                    );
                    return Err(io::Error::new(e.kind(), why));
                }
            },
        };
        let mut outcome =
            Driver::new(self, EpollLoop::new(self)?, nth, start).run(stop, on_stage)?;
        outcome.generator.way = LoadInterface::Epoll;
        outcome.generator.no_ring = refused;
        Ok(outcome)
    }
}
