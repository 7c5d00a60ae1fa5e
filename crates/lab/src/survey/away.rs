//! One message over wire: what arrives is counted, and nobody sees it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bytecost_engine::{Mover, Offer, Receiver, Setup};
use bytecost_spec::cell::Reaping;
use bytecost_spec::{Cell, Transport};

use super::{PATIENCE, SIZE, SLOTS, cell};
use crate::transports;
use crate::transports::wire::responder::{Responder, Rules};
use crate::transports::wire::{FAR_END, Wire};

/// Where nobody receives, one name stands for all.
pub(super) fn nothing_to_choose(receiver: &Receiver, transport: Transport) -> Option<String> {
    let stands = transport.has_receiver() || receiver.name == Cell::default().receiver;
    (!stands).then(|| "nobody receives there, so there is nothing to choose".to_owned())
}

/// Sends one message, takes in its completion, and holds what was counted against it.
pub(super) fn one_message(mover: &Mover, wire: &Wire) -> io::Result<()> {
    let [tun, map] = wire.descriptors().map(|fd| fd.try_clone_to_owned());
    let rules = Rules {
        mtu_bytes: wire.mtu_bytes(),
        acknowledge_bytes: SIZE as u64,
        flows_most: 1,
    };
    let mut far = Responder::new(tun?, map?, rules)?;
    let sent = AtomicBool::new(false);
    thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let moved = wire.network().within(|| send(mover));
            sent.store(true, Ordering::Relaxed);
            moved?
        });
        // Every wait of the sender's has an end.
        while !sent.load(Ordering::Relaxed) {
            far.look()?;
        }
        sending
            .join()
            .map_err(|_| io::Error::other("the sender panicked"))?
    })?;
    match far.seen().map(|s| s.bytes).sum::<u64>() {
        bytes if bytes == SIZE as u64 => Ok(()),
        bytes => Err(io::Error::other(format!("{bytes} of {SIZE} bytes came"))),
    }
}

fn send(mover: &Mover) -> io::Result<()> {
    let sender = transports::connect(&cell(Transport::Wire), &FAR_END.to_string())?;
    transports::set_patience(&sender, PATIENCE)?;
    let mut mover = (mover.open)(Setup {
        socket: Some(sender),
        file: None,
        java: None,
        size: SIZE,
        fields: 8,
        slots: SLOTS,
        flow: 0,
        fresh: false,
        refill: false,
        reaping: Reaping::Full,
        huge_pages: bytecost_spec::HugePages::Auto,
        patience: PATIENCE,
    })?;
    if mover.offer()? == Offer::Full {
        return Err(io::Error::other("the first message was not taken"));
    }
    mover.flush()?;
    let tally = mover.tally();
    if tally.held > tally.released {
        mover.reap(1)?;
    }
    Ok(())
}
