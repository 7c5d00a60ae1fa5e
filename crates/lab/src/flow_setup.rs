//! The engine's movers and receivers, made ready as a cell asks.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use bytecost_engine::{
    Corked, FileWork, Move, Mover, PayloadPattern, QuickAck, Receiver, Setup, Take,
};
use bytecost_spec::{Cell, Payload};

pub(crate) fn mover_of(cell: &Cell) -> io::Result<&'static Mover> {
    Mover::named(&cell.mover).ok_or_else(|| unknown("mover", &cell.mover))
}

/// The mover of a flow. It sends from `file` where there is one, writes each message anew where `fresh`,
/// and starts `java`, the compiled program, where it is helped.
pub(crate) fn sending_end(
    cell: &Cell,
    socket: Option<OwnedFd>,
    file: Option<FileWork>,
    flow: u32,
    fresh: bool,
    patience: Duration,
    java: Option<&Path>,
) -> io::Result<Box<dyn Move>> {
    let corked = (socket.as_ref().filter(|_| cell.cork)).map(OwnedFd::try_clone);
    let mover = mover_of(cell)?.open(Setup {
        socket,
        file,
        java: java.map(Path::to_owned),
        size: length(cell.size_bytes)?,
        fields: cell.fields as usize,
        slots: length(cell.ring_slots())?,
        flow,
        fresh,
        refill: cell.payload == Payload::Refilled,
        reaping: cell.reaping,
        huge_pages: cell.huge_pages,
        patience,
    })?;
    Ok(match corked {
        Some(socket) => Box::new(Corked::new(mover, socket?)),
        None => mover,
    })
}

pub(crate) fn receiving_end(cell: &Cell, socket: OwnedFd) -> io::Result<Box<dyn Take>> {
    let row = Receiver::named(&cell.receiver).ok_or_else(|| unknown("receiver", &cell.receiver))?;
    let quick = cell.quickack.then(|| socket.try_clone()).transpose()?;
    let mut receiver = (row.open)(socket, length(cell.read_bytes())?)?;
    receiver.expect(length(cell.size_bytes)?);
    Ok(match quick {
        Some(socket) => Box::new(QuickAck::new(receiver, socket)),
        None => receiver,
    })
}

/// The content of a flow's stream; `fresh` as for [`sending_end`].
pub(crate) fn content(cell: &Cell, flow: u32, fresh: bool) -> PayloadPattern {
    match cell.payload {
        Payload::Refilled => PayloadPattern::constant(flow),
        Payload::Prepared if fresh => PayloadPattern::new(flow, 0),
        Payload::Prepared => {
            PayloadPattern::new(flow, cell.size_bytes.saturating_mul(cell.ring_slots()))
        }
    }
}

pub(crate) fn answer(cell: &Cell) -> io::Result<Vec<u8>> {
    Ok(vec![0x5a; length(cell.answer_bytes())?])
}

fn length(bytes_or_slots: u64) -> io::Result<usize> {
    usize::try_from(bytes_or_slots).map_err(|_| io::ErrorKind::InvalidInput.into())
}

pub(crate) fn unknown(what: &str, name: &str) -> io::Error {
    let why = format!("{what} `{name}` is not known");
    io::Error::new(io::ErrorKind::InvalidInput, why)
}
