//! Zero-copy movers whose bytes the kernel copied, in words.

use bytecost_analysis::{CaveatFact, CopiedMover};
use bytecost_spec::{PacketSocket, Transport, units};
use itertools::Itertools as _;

use super::known::{Known, fact};
use crate::phrases;

pub(super) fn mover<'a>(c: &Known<'a>) -> Option<&'a CopiedMover> {
    fact!(c, CaveatFact::Copied(mover) => mover)
}

/// The packet sockets that were seen: `tcpdump (pid 812) on lo`; none where there are none.
pub(super) fn sockets(c: &Known<'_>) -> Option<String> {
    let sockets = fact!(c, CaveatFact::Sockets(sockets) => sockets)?;
    let name = |socket: &PacketSocket| {
        let holder = socket.holder.as_deref().unwrap_or("a process unseen");
        let device = socket.device.as_deref().unwrap_or("all devices");
        format!("{holder} on {device}")
    };
    let names = sockets.iter().map(name).sorted().dedup();
    (!sockets.is_empty()).then(|| phrases::list(names))
}

/// Evidence by which the kernel is known to have copied.
pub(super) fn means(c: &Known<'_>) -> Option<&'static str> {
    Some(if mover(c)?.is_counted {
        "bytes counted as copied before they were read"
    } else {
        "completions flagged as copied"
    })
}

/// Reason and remedy of the copies on a transport; the reason follows the sentence about the
/// copies.
pub(super) struct CopyingWay {
    pub(super) why: &'static str,
    pub(super) remedy: &'static str,
}

pub(super) fn way(c: &Known<'_>) -> Option<CopyingWay> {
    let mover = mover(c)?;
    let (why, remedy) = match mover.transport {
        Transport::Wire | Transport::Peer if sockets(c).is_some() => (
            " A packet socket took the packets too, and the kernel copies what it clones for it.",
            "end what holds the packet socket and run again",
        ),
        Transport::Loopback | Transport::Veth => (
            " A packet that reaches a local socket is copied on delivery.",
            "--transport wire, as root, shows what these movers save a sender where nothing is copied; here, sendfile and splice are the ways that skip a copy",
        ),
        Transport::Wire if mover.is_counted => (
            " Nothing is delivered there, so nothing needs a copy: something else took the packets too, as a packet socket does.",
            "look at /proc/net/packet for who else takes packets",
        ),
        Transport::Wire => (
            " Nothing is delivered there, so nothing needs a copy: either something else took the packets too, as a packet socket does, or the flag is wrong. Linux 6.18 flags small sends by io_uring that share a packet with an earlier one, though it copies none of them.",
            "look at /proc/net/packet for who else takes packets; hold small sends by io_uring against send-zerocopy, whose flag is right",
        ),
        Transport::Unix => (
            "",
            "use a transport whose kernel code takes pages as they are",
        ),
        Transport::Peer => (
            " The way to the other host ends in a device that cannot send pages as they are, or passes a local socket.",
            "look at the offloads of the card with `ethtool -k`: scatter-gather and tx-checksumming must be on; a veth pair or a bridge on one machine copies",
        ),
    };
    Some(CopyingWay { why, remedy })
}

/// Sentence about the bytes that the kernel copied for a zero-copy mover.
pub(crate) fn copied(of: &CopiedMover) -> String {
    let place = match of.transport {
        Transport::Loopback => "on loopback".to_owned(),
        Transport::Peer => "to the other host".to_owned(),
        over => format!("over {}", over.name()),
    };
    let (mover, shares) = (&of.mover, phrases::span(&of.shares, units::percent));
    // The flag is the only evidence, and there it can be wrong.
    if of.transport.is_wire() && !of.is_counted {
        return format!(
            "`{mover}` is flagged as copied {place} in {shares} of its buffers, by cell."
        );
    }
    let of_what = if of.is_counted {
        "bytes, as was counted"
    } else {
        "buffers"
    };
    if of.is_always_copied() {
        return format!(
            "`{mover}` is not zero-copy {place}: the kernel copied {shares} of the {of_what}."
        );
    }
    format!(
        "`{mover}` is not always zero-copy {place}: by cell, the kernel copied {shares} of the {of_what}."
    )
}
