//! `work-…`: nothing is moved; a CPU works, and a message is one step of it. The size is the memory
//! that is worked on, where there is any. Every unit's result is checked ([`crate::work`]).

use std::io;

use crate::mover::{Move, Mover, MoverFacts, Offer, Open, WORK, WorkKind};
use crate::setup::Setup;
use crate::statement::NOTHING;
use crate::tally::Tally;
use crate::work::{Chase, Float, Integer, Order, Reads, Triad, Work, pages};

const fn row(
    name: &'static str,
    summary: &'static str,
    work: WorkKind,
    open: fn(Setup) -> io::Result<Box<dyn Move>>,
) -> Mover {
    Mover {
        facts: MoverFacts {
            name,
            summary,
            work,
            ..WORK
        },
        states: NOTHING,
        open: Open::Stream(open),
    }
}

pub const INTEGER: Mover = row(
    "work-integer",
    "multiplies and adds whole numbers in registers; a message is a step of eight chains",
    WorkKind::Registers,
    |setup| Ok(working(Integer::new(setup.flow))),
);

pub const FLOAT: Mover = row(
    "work-float",
    "multiplies and adds numbers of 64 bits in registers; a message is a step of eight chains",
    WorkKind::Registers,
    |setup| Ok(working(Float::new(setup.flow))),
);

pub const CHASE: Mover = row(
    "work-chase",
    "follows pointers through memory of the message's size, each known when the one before is read",
    WorkKind::Chain,
    |setup| {
        Ok(working(Chase::new(
            setup.size,
            setup.flow,
            pages(setup.huge_pages),
        )?))
    },
);

pub const TRIAD: Mover = row(
    "work-stream",
    "reads, adds to and writes memory in order, two halves of the message's size",
    WorkKind::Memory,
    |setup| Ok(working(Triad::new(setup.size, pages(setup.huge_pages))?)),
);

pub const SEQUENTIAL: Mover = row(
    "work-sequential",
    "reads memory of the message's size line by line",
    WorkKind::Memory,
    |setup| reads(Order::Sequential, &setup),
);

pub const RANDOM: Mover = row(
    "work-random",
    "reads lines of memory of the message's size at random, without waiting for one to know the next",
    WorkKind::Memory,
    |setup| reads(Order::Random, &setup),
);

struct Working<W> {
    work: W,
    units: u64,
}

fn working(work: impl Work + 'static) -> Box<dyn Move> {
    Box::new(Working { work, units: 0 })
}

fn reads(order: Order, setup: &Setup) -> io::Result<Box<dyn Move>> {
    Ok(working(Reads::new(
        order,
        setup.size,
        pages(setup.huge_pages),
    )?))
}

impl<W: Work> Move for Working<W> {
    fn offer(&mut self) -> io::Result<Offer> {
        self.work.unit()?;
        self.units += 1;
        Ok(Offer::Moved)
    }

    fn tally(&self) -> Tally {
        let (steps, step_bytes) = self.work.steps();
        let messages = self.units * steps;
        Tally {
            messages,
            bytes: messages * step_bytes,
            ..Tally::default()
        }
    }
}
