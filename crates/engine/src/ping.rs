//! Two threads of one process that take turns: a number goes back and forth, one more each time,
//! by a way that is a [`PingEnd`] on either side.
//!
//! Each side knows the number that must come next, and both counts are compared in the end. A side
//! that goes away closes its end, which the other one notices. One that does not answer is waited
//! for until patience ends; pipes have no time limit: there the trial's deadline ends both.

use std::io;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use bytecost_spec::Held;
use bytecost_sys::{memory_policy, process};

use crate::pattern::WrongBytes;

mod futex;
mod line;
mod stream;

pub use futex::FutexEnd;
pub use line::LineEnd;
pub use stream::{pipes, tcp, unix};

/// Bytes of the number.
pub const NUMBER_BYTES: u64 = 8;

/// One side's end of a way to pass a number. Dropping it ends the other side's wait.
pub trait PingEnd: Send + 'static {
    /// Passes the number to the other side: `UnexpectedEof` where that is gone.
    fn give(&mut self, number: u64) -> io::Result<()>;

    /// Waits for the other side's next number: `UnexpectedEof` where that is gone, `TimedOut` where none came in
    /// time.
    fn take(&mut self) -> io::Result<u64>;

    /// System calls so far.
    fn calls(&self) -> u64;
}

/// The result of the partner: the turns that it counted, and its CPUs and memory.
struct PartnerResult {
    turns: io::Result<u64>,
    held: io::Result<Held>,
}

/// A game of two: the thread that has it asks, a partner that it starts answers.
pub struct Game<E: PingEnd> {
    end: Option<E>,
    partner: Option<JoinHandle<PartnerResult>>,
    /// The partner sleeps until this is dropped.
    start: Option<Sender<()>>,
    turns: u64,
    calls: u64,
    held: Option<Held>,
}

impl<E: PingEnd> Game<E> {
    /// Starts the thread that answers, on this thread's CPUs. It sleeps until the first turn.
    pub fn new((asks, answers): (E, E)) -> io::Result<Game<E>> {
        let (start, started) = mpsc::channel();
        let builder = thread::Builder::new().name("partner".to_owned());
        let partner = builder.spawn(move || {
            let _ = started.recv();
            let turns = answer(answers);
            PartnerResult {
                turns,
                held: held(),
            }
        })?;
        Ok(Game {
            end: Some(asks),
            partner: Some(partner),
            start: Some(start),
            turns: 0,
            calls: 0,
            held: None,
        })
    }

    /// Plays `turns` turns, each of which is a message and its response.
    #[inline]
    pub fn play(&mut self, turns: u32) -> io::Result<()> {
        if self.start.is_some() {
            self.begin();
        }
        for _ in 0..turns {
            if let Err(why) = self.turn() {
                return Err(self.failed(why));
            }
        }
        Ok(())
    }

    #[inline]
    fn turn(&mut self) -> io::Result<()> {
        let Some(end) = &mut self.end else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let asked = 2 * self.turns + 1;
        end.give(asked)?;
        let got = end.take()?;
        if got != asked + 1 {
            return Err(wrong(got, asked + 1));
        }
        self.turns += 1;
        Ok(())
    }

    /// Turns so far.
    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// System calls of the asking side so far.
    pub fn calls(&self) -> u64 {
        self.end.as_ref().map_or(self.calls, PingEnd::calls)
    }

    /// The CPUs and memory of the second thread, once the game is over.
    pub fn held(&self) -> Option<&Held> {
        self.held.as_ref()
    }

    /// Ends the game: both sides must have counted the same turns.
    pub fn finish(&mut self) -> io::Result<()> {
        let Some(result) = self.join_partner().transpose()? else {
            return Ok(());
        };
        let answered = result.turns?;
        self.held = Some(result.held?);
        if answered == self.turns {
            return Ok(());
        }
        let mine = self.turns;
        let why = format!("one side counted {mine} turns, the other {answered}");
        Err(io::Error::new(io::ErrorKind::InvalidData, why))
    }

    #[cold]
    fn begin(&mut self) {
        self.start = None;
    }

    /// Closes this side's end, upon which the partner stops, and waits for it; none if that was done before.
    fn join_partner(&mut self) -> Option<io::Result<PartnerResult>> {
        self.calls = self.calls();
        self.end = None;
        self.begin();
        let joined = self.partner.take()?.join();
        Some(joined.map_err(|_| io::Error::other("the second thread panicked")))
    }

    /// The error of the partner if the first one only found it gone, else that of the first.
    #[cold]
    fn failed(&mut self, why: io::Error) -> io::Error {
        let is_gone = why.kind() == io::ErrorKind::UnexpectedEof;
        match self
            .join_partner()
            .map(|joined| joined.and_then(|result| result.turns))
        {
            Some(Err(theirs)) if is_gone => theirs,
            _ => why,
        }
    }
}

impl<E: PingEnd> Drop for Game<E> {
    fn drop(&mut self) {
        let _ = self.join_partner();
    }
}

/// Answers each number with the next one until the other side is gone; returns the number of turns.
fn answer(mut end: impl PingEnd) -> io::Result<u64> {
    let mut turns = 0;
    loop {
        let got = match end.take() {
            Ok(got) => got,
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(turns),
            Err(e) => return Err(e),
        };
        let expected = 2 * turns + 1;
        if got != expected {
            return Err(wrong(got, expected));
        }
        end.give(expected + 1)?;
        turns += 1;
    }
}

fn held() -> io::Result<Held> {
    Ok(Held {
        cpus: process::affinity()?,
        last_cpu: process::current_cpu(),
        memory_node: (memory_policy::bound().ok()).and_then(|nodes| nodes.first().copied()),
        class: None,
    })
}

#[cold]
fn wrong(got: u64, expected: u64) -> io::Error {
    WrongBytes(format!("the number {got} came in the place of {expected}")).into()
}

#[cold]
fn gone() -> io::Error {
    let why = "the other thread of the ping-pong is gone";
    io::Error::new(io::ErrorKind::UnexpectedEof, why)
}

#[cold]
fn silent() -> io::Error {
    let why = "the other thread of the ping-pong did not respond in time";
    io::Error::new(io::ErrorKind::TimedOut, why)
}

#[cfg(test)]
mod tests;
