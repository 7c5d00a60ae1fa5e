//! The engine's movers and receivers, made ready as a cell asks.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use bytecost_engine::{
    Corked, FileWork, Move, Mover, PayloadPattern, QuickAck, Receiver, Setup, Take,
};
use bytecost_spec::{Cell, Payload};

use crate::limits;

pub(crate) fn mover_of(cell: &Cell) -> io::Result<&'static Mover> {
    Mover::named(&cell.mover).ok_or_else(|| unknown("mover", &cell.mover))
}

/// The setup of a flow's mover.
pub(crate) struct MoverSetup<'a> {
    pub(crate) cell: &'a Cell,
    pub(crate) socket: Option<OwnedFd>,
    /// The file that it sends from, where it does not send from memory.
    pub(crate) file: Option<FileWork>,
    pub(crate) flow: u32,
    /// True if each message is written anew with content that never repeats, for a full check.
    pub(crate) fresh: bool,
    /// The longest time of a call without progress.
    pub(crate) timeout: Duration,
    /// The compiled program, for a mover that is helped by Java.
    pub(crate) java: Option<&'a Path>,
}

impl<'a> MoverSetup<'a> {
    /// The first flow of a cell, from memory.
    pub(crate) fn new(cell: &'a Cell, socket: Option<OwnedFd>, timeout: Duration) -> Self {
        MoverSetup {
            cell,
            socket,
            file: None,
            flow: 0,
            fresh: false,
            timeout,
            java: None,
        }
    }

    pub(crate) fn open(self) -> io::Result<Box<dyn Move>> {
        let cell = self.cell;
        let corked = (self.socket.as_ref().filter(|_| cell.cork)).map(OwnedFd::try_clone);
        let mover = mover_of(cell)?.open(Setup {
            socket: self.socket,
            file: self.file,
            java: self.java.map(Path::to_owned),
            size: length(cell.size_bytes)?,
            fields: cell.fields as usize,
            slots: length(cell.ring_slots())?,
            flow: self.flow,
            fresh: self.fresh,
            refill: cell.payload == Payload::Refilled,
            reaping: cell.reaping,
            huge_pages: cell.huge_pages,
            patience: self.timeout,
        })?;
        Ok(match corked {
            Some(socket) => Box::new(Corked::new(mover, socket?)),
            None => mover,
        })
    }
}

pub(crate) fn open_receiver(cell: &Cell, socket: OwnedFd) -> io::Result<Box<dyn Take>> {
    let row = Receiver::named(&cell.receiver).ok_or_else(|| unknown("receiver", &cell.receiver))?;
    let quick = cell.quickack.then(|| socket.try_clone()).transpose()?;
    let mut receiver = (row.open)(socket, length(cell.read_bytes())?)?;
    receiver.expect(length(cell.size_bytes)?);
    Ok(match quick {
        Some(duplicate) => Box::new(QuickAck::new(receiver, duplicate)),
        None => receiver,
    })
}

/// The content of a flow's stream; `fresh` as in [`MoverSetup`].
pub(crate) fn content(cell: &Cell, flow: u32, fresh: bool) -> PayloadPattern {
    match cell.payload {
        Payload::Refilled => PayloadPattern::constant(flow),
        Payload::Prepared if fresh => PayloadPattern::new(flow, 0),
        Payload::Prepared => {
            PayloadPattern::new(flow, cell.size_bytes.saturating_mul(cell.ring_slots()))
        }
    }
}

/// The response to a message, of the cell's length. Its content has no meaning.
pub(crate) fn answer(cell: &Cell) -> io::Result<Vec<u8>> {
    limits::memory(0x5a, length(cell.answer_bytes())?)
}

fn length(bytes_or_slots: u64) -> io::Result<usize> {
    usize::try_from(bytes_or_slots).map_err(|_| io::ErrorKind::InvalidInput.into())
}

pub(crate) fn unknown(what: &str, name: &str) -> io::Error {
    let why = format!("{what} `{name}` is not known");
    io::Error::new(io::ErrorKind::InvalidInput, why)
}
