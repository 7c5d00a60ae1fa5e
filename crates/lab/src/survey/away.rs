//! One message over wire: what arrives is counted, and nobody sees it.

use std::io;
use std::time::Duration;

use bytecost_engine::{Move, Mover, Offer, Receiver, Setup};
use bytecost_spec::{Cell, Transport};

use crate::transports;
use crate::transports::wire::{FAR_END, Wire};

pub(crate) const SIZE: usize = 4096;
pub(super) const SLOTS: usize = 4;
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Why movers that start another program are refused there.
pub(super) const NO_HELPERS: &str =
    "movers that start another program are not supported over this transport";

/// Where nobody receives, one name stands for all.
pub(super) fn nothing_to_choose(receiver: &Receiver, transport: Transport) -> Option<String> {
    let stands = transport.has_receiver() || receiver.name == Cell::default().receiver;
    (!stands).then(|| "there is no receiver over this transport".to_owned())
}

/// Sends one message, takes in its completion, and holds what was counted against it.
pub(super) fn one_message(mover: &Mover, wire: &Wire) -> io::Result<()> {
    let mut far = wire.responder(SIZE as u64, 1)?;
    // Every wait of the sender's has an end.
    wire.answered(&mut far, || send(mover))??;
    // The last look may have been before the flow was opened.
    far.look()?;
    match far.seen().next().unwrap_or_default().bytes {
        bytes if bytes == SIZE as u64 => Ok(()),
        bytes => Err(io::Error::other(format!("{bytes} of {SIZE} bytes came"))),
    }
}

fn send(mover: &Mover) -> io::Result<()> {
    let sender = transports::connect(&cell(Transport::Wire), &FAR_END.to_string(), PATIENCE)?;
    let mut mover = mover.open(Setup {
        socket: Some(sender),
        fields: 8,
        slots: SLOTS,
        ..Setup::new(SIZE, PATIENCE)
    })?;
    offer(&mut *mover)?;
    take_back(&mut *mover)
}

pub(super) fn offer(mover: &mut dyn Move) -> io::Result<()> {
    if mover.offer()? == Offer::Full {
        return Err(io::Error::other("the first message was not taken"));
    }
    mover.flush()
}

/// Takes in the completion of a message that a mover holds.
pub(super) fn take_back(mover: &mut dyn Move) -> io::Result<()> {
    let tally = mover.tally();
    if tally.held > tally.released {
        mover.reap(1)?;
    }
    Ok(())
}

pub(super) fn cell(transport: Transport) -> Cell {
    Cell {
        transport,
        // The system's own: which ones can be set is asked elsewhere.
        congestion: "default".to_owned(),
        ..Cell::default()
    }
}
