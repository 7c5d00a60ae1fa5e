//! `ping-…`: two threads of one process take turns, and a message is a turn there and back. The
//! second thread is started where the first one is, so that a caller who wants it on another CPU
//! goes there first.

use std::io;

use crate::mover::{Helper, Move, Mover, MoverFacts, Offer, Open, Route, WORK};
use crate::ping::{FutexEnd, Game, LineEnd, NUMBER_BYTES, PingEnd, pipes, tcp, unix};
use crate::setup::Setup;
use crate::statement::{Call, Each, NOTHING, call};
use crate::tally::Tally;

/// Turns of an offer where one takes some 100 ns: what is done between offers does not show.
const QUICK_TURNS: u32 = 8;

/// A number is written, and read on the other side.
const STREAM: &[Call] = &[
    call("write").each(Each::Turn),
    call("read").each(Each::Turn),
];
/// The operation of futex(2): FUTEX_WAKE, of this process alone.
const FUTEX_WAKE_PRIVATE: u32 = 129;

const fn row(
    name: &'static str,
    summary: &'static str,
    route: Route,
    descriptors_per_flow: u32,
    calls: &'static [Call],
    open: fn(Setup) -> io::Result<Box<dyn Move>>,
) -> Mover {
    Mover {
        facts: MoverFacts {
            name,
            summary,
            route,
            descriptors_per_flow,
            ..WORK
        },
        states: NOTHING.by(calls),
        open: Open::Stream(open),
    }
}

pub const CACHE_LINE: Mover = row(
    "ping-cache-line",
    "two threads write a number in turn to one cache line, and spin until it is their turn",
    Route::PingPongSpinning,
    0,
    &[],
    |setup| playing(LineEnd::pair(setup.patience), QUICK_TURNS),
);

pub const FUTEX: Mover = row(
    "ping-futex",
    "two threads write a number in turn to one word, wake each other up and sleep on it",
    Route::PingPong,
    0,
    &[call("futex").with(FUTEX_WAKE_PRIVATE).each(Each::Turn)],
    |setup| playing(FutexEnd::pair(setup.patience), 1),
);

pub const PIPE: Mover = row(
    "ping-pipe",
    "two threads send each other a number of 8 bytes through two pipes",
    Route::PingPong,
    4,
    STREAM,
    |_| playing(pipes()?, 1),
);

pub const UNIX: Mover = row(
    "ping-unix",
    "two threads send each other a number of 8 bytes over a Unix stream socket",
    Route::PingPong,
    2,
    STREAM,
    |setup| playing(unix(setup.patience)?, 1),
);

pub const TCP: Mover = row(
    "ping-tcp",
    "two threads send each other a number of 8 bytes over TCP, by 127.0.0.1 and with TCP_NODELAY",
    Route::PingPong,
    3,
    STREAM,
    |setup| playing(tcp(setup.patience)?, 1),
);

struct Playing<E: PingEnd> {
    game: Game<E>,
    turns: u32,
}

fn playing<E: PingEnd>(ends: (E, E), turns: u32) -> io::Result<Box<dyn Move>> {
    let game = Game::new(ends)?;
    Ok(Box::new(Playing { game, turns }))
}

impl<E: PingEnd> Move for Playing<E> {
    fn offer(&mut self) -> io::Result<Offer> {
        self.game.play(self.turns)?;
        Ok(Offer::Moved)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.game.finish()
    }

    fn tally(&self) -> Tally {
        let messages = self.game.turns();
        Tally {
            messages,
            bytes: 2 * NUMBER_BYTES * messages,
            calls: self.game.calls(),
            ..Tally::default()
        }
    }

    fn helper(&self) -> Option<Helper> {
        Some(Helper::Thread(self.game.held().cloned()))
    }
}
