//! One message over wire, whose bytes are counted and not received.

use std::io;
use std::time::Duration;

use bytecost_engine::Receiver;
use bytecost_spec::{Cell, Ring, Transport};

use crate::edges::LoopBody;
use crate::flow::{Stream, drain};
use crate::flow_setup::SendingEnd;
use crate::transports;
use crate::transports::wire::{FAR_END, Wire};

/// Bytes of the message.
const SIZE_BYTES: u64 = 4096;
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);
/// The refusal of movers that start another program.
pub(super) const NO_HELPERS: &str =
    "movers that start another program are not supported over this transport";

/// The refusal of a receiver, other than the default one, over a transport without a receiver.
pub(super) fn nothing_to_choose(receiver: &Receiver, transport: Transport) -> Option<String> {
    let stands = transport.has_receiver() || receiver.name == Cell::default().receiver;
    (!stands).then(|| "there is no receiver over this transport".to_owned())
}

/// Sends the one message of a cell, and compares the counted bytes with it.
pub(super) fn one_message(cell: &Cell, wire: &Wire) -> io::Result<()> {
    let mut far = wire.responder(cell.size_bytes, 1)?;
    // Each wait of the sender has a bound.
    wire.answered(&mut far, || {
        let socket = transports::connect(cell, &FAR_END.to_string(), TIMEOUT)?;
        let mut mover = SendingEnd::new(cell, Some(socket), TIMEOUT).open()?;
        Stream(&mut *mover).step()?;
        drain(&mut *mover)
    })??;
    // The last look may have been before the flow was opened.
    far.look()?;
    match far.seen().next().unwrap_or_default().bytes {
        bytes if bytes == cell.size_bytes => Ok(()),
        bytes => Err(io::Error::other(format!(
            "{bytes} of {} bytes came",
            cell.size_bytes
        ))),
    }
}

/// A cell whose trials would move such a message.
pub(super) fn cell(transport: Transport) -> Cell {
    Cell {
        transport,
        // The system's own: the others are tried elsewhere.
        congestion: "default".to_owned(),
        size_bytes: SIZE_BYTES,
        fields: 8,
        ring: Ring::Bytes(4 * SIZE_BYTES),
        ..Cell::default()
    }
}
