//! Caveats about what the kernel did with the bytes.

use bytecost_spec::{Cache, Cell, Counter, Pattern, Transport};

use super::flags::after_all;
use super::wire::whole;
use super::{UnnamedCaveat, ids, of_cells, packet_socket, span};
use crate::phrases::{self, percent};
use crate::trials::CellTrials;
use crate::view::View;

/// Share of copied buffers from which a zero-copy mover is said to copy.
const COPIED: f64 = 0.01;

/// A zero-copy mover whose buffers the kernel copied.
pub(crate) struct CopiedMover {
    pub(crate) mover: String,
    pub(crate) transport: Transport,
    /// One copied share for each cell.
    pub(crate) shares: Vec<f64>,
    /// Whether all of them were counted, rather than flagged.
    pub(crate) is_counted: bool,
    pub(crate) cells: Vec<String>,
}

impl CopiedMover {
    /// What it comes to, in one sentence.
    pub(crate) fn sentence(&self) -> String {
        let place = match self.transport {
            Transport::Loopback => "on loopback",
            Transport::Unix => "over unix",
            Transport::Veth => "over veth",
            Transport::Wire => "over wire",
            Transport::WireUdp => "over wire-udp",
            Transport::Peer => "to the other host",
        };
        let shares = span(&self.shares, percent);
        let of = match self.is_counted {
            true => "bytes, as was counted",
            false => "buffers",
        };
        // The flag is all that says so, and there it can be wrong.
        if self.transport.is_wire() && !self.is_counted {
            return format!(
                "`{}` is flagged as copied {place} in {shares} of its buffers, by cell.",
                self.mover
            );
        }
        let least = self.shares.iter().copied().fold(f64::INFINITY, f64::min);
        if least > COPIED {
            format!(
                "`{}` is not zero-copy {place}: the kernel copied {shares} of the {of}.",
                self.mover
            )
        } else {
            format!(
                "`{}` is not always zero-copy {place}: by cell, the kernel copied {shares} of the {of}.",
                self.mover
            )
        }
    }
}

/// The movers whose buffers were copied, by transport, in the order of the plan.
pub(crate) fn copied(view: &View<'_>) -> Vec<CopiedMover> {
    let mut found: Vec<CopiedMover> = Vec::new();
    for cell in view.cells {
        let Some(share) = after_all(view, cell) else {
            continue;
        };
        let (mover, transport) = (&cell.cell.mover, cell.cell.transport);
        let place = found
            .iter()
            .position(|c| c.mover == *mover && c.transport == transport)
            .unwrap_or_else(|| {
                found.push(CopiedMover {
                    mover: mover.clone(),
                    transport,
                    shares: Vec::new(),
                    is_counted: true,
                    cells: Vec::new(),
                });
                found.len() - 1
            });
        found[place].shares.push(share.share);
        found[place].is_counted &= share.is_counted;
        found[place].cells.push(cell.id.clone());
    }
    found.retain(|c| c.shares.iter().any(|s| *s > COPIED));
    found
}

pub(super) fn zero_copy_copied(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let told = copied(view).into_iter().map(|c| {
        let own = view.trials.cells.iter().filter(|t| c.cells.contains(&t.id));
        let mut takers: Vec<String> = own
            .flat_map(packet_socket::of)
            .map(packet_socket::named)
            .collect();
        takers.sort();
        takers.dedup();
        let (why, remedy) = match c.transport {
            Transport::Wire | Transport::WireUdp if !takers.is_empty() => (
                " A packet socket took the packets too, and the kernel copies what it clones for it.",
                "end what holds the packet socket and run again",
            ),
            Transport::Loopback | Transport::Veth => (
                " A packet that reaches a local socket is copied on delivery.",
                "--transport wire, as root, shows what these movers save a sender where nothing is copied; here, sendfile and splice are the ways that skip a copy",
            ),
            Transport::Wire | Transport::WireUdp if c.is_counted => (
                " Nothing is delivered there, so nothing needs a copy: something else took the packets too, as a packet socket does.",
                "look at /proc/net/packet for who else takes packets",
            ),
            Transport::Wire | Transport::WireUdp => (
                " Nothing is delivered there, so nothing needs a copy: either something else took the packets too, as a packet socket does, or the flag is wrong. Linux 6.18 flags small sends by io_uring that share a packet with an earlier one, though it copies none of them.",
                "look at /proc/net/packet for who else takes packets; hold small sends by io_uring against send-zerocopy, whose flag is right",
            ),
            Transport::Unix => ("", "use a transport whose kernel code takes pages as they are"),
            Transport::Peer if !takers.is_empty() => (
                " A packet socket took the packets too, and the kernel copies what it clones for it.",
                "end what holds the packet socket and run again",
            ),
            Transport::Peer => (
                " The way to the other host ends in a device that cannot send pages as they are, or passes a local socket.",
                "look at the offloads of the card with `ethtool -k`: scatter-gather and tx-checksumming must be on; a veth pair or a bridge on one machine copies",
            ),
        };
        UnnamedCaveat {
            text: format!("{}{why}", c.sentence()),
            evidence: format!(
                "{}: {} over {}{}",
                match c.is_counted {
                    true => "bytes counted as copied before they were read",
                    false => "completions flagged as copied",
                },
                span(&c.shares, percent),
                phrases::count(c.cells.len(), "cell"),
                match takers.is_empty() {
                    true => String::new(),
                    false => format!("; /proc/net/packet: {}", phrases::list(&takers)),
                }
            ),
            remedy: remedy.to_owned(),
            cells: c.cells,
        }
    });
    told.collect()
}

pub(super) fn mover_caution(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let facts = &view.input.manifest.survey.mover_facts;
    let told = facts.iter().filter_map(|mover| {
        let caution = mover.caution.as_ref()?;
        let spared = |c: &Cell| mover.caution_spares_direct && c.cache == Cache::Direct;
        let own = |c: &&CellTrials<'_>| c.cell.mover == mover.name && !spared(c.cell);
        let cells = ids(view.measured().filter(own));
        (!cells.is_empty()).then(|| UnnamedCaveat {
            text: format!("`{}`: {}.", mover.name, caution.trim_end_matches('.')),
            evidence: format!("measured in {}", phrases::count(cells.len(), "cell")),
            remedy: "know it before you choose this mover; no setting removes it".to_owned(),
            cells,
        })
    });
    told.collect()
}

pub(super) fn pacing(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let host = view.input.manifest.host.congestion_default.as_deref();
    let mut cells = Vec::new();
    let mut ratios = Vec::new();
    let streams = view
        .measured()
        .filter(|c| c.cell.transport.is_tcp() && c.cell.pattern == Pattern::Stream);
    for cell in streams {
        let control = match (cell.cell.congestion.as_str(), host) {
            ("default", Some(name)) => name,
            (name, _) => name,
        };
        let typical = cell.typical(|t| {
            let [pacing, delivery] = [
                Counter::TcpPacingRateBytesPerS,
                Counter::TcpDeliveryRateBytesPerS,
            ];
            t.sent_over(pacing, delivery)
        });
        // The kernel gives a pacing rate for every connection, but only bbr holds to it on a
        // device without a pacing queueing discipline, as loopback is.
        if control.starts_with("bbr") {
            cells.push(cell.id.clone());
            ratios.extend(typical);
        }
    }
    if cells.is_empty() {
        return Vec::new();
    }
    let evidence = if ratios.is_empty() {
        "the congestion control is bbr, which paces; the kernel gave no pacing rate".to_owned()
    } else {
        let times = span(&ratios, |r| format!("{r:.1}"));
        format!("TCP_INFO: the pacing rate is {times} times the delivery rate")
    };
    vec![UnnamedCaveat {
        text: "TCP paces these cells: their rates may be what pacing allows and not what the movers can do, and differences between movers are hidden.".to_owned(),
        evidence,
        remedy: "--congestion cubic".to_owned(),
        cells,
    }]
}

pub(super) fn no_room(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let shows = |cell: &CellTrials<'_>| {
        let sum = cell.sum(|t| t.sent(Counter::Enobufs));
        (sum > 0.0).then_some([Some(sum)])
    };
    of_cells(view.measured(), shows, |cells, [times]| {
        let here =
            |c: &CellTrials<'_>| matches!(c.cell.transport, Transport::Loopback | Transport::Unix);
        let remedy = match cells.iter().all(|c| here(c)) {
            true => "raise net.core.optmem_max and the locked-memory limit (ulimit -l)",
            false => {
                "raise net.core.optmem_max and the locked-memory limit (ulimit -l); veth and wire have networks of their own, each with the kernel's own optmem_max since Linux 6.8: there larger messages, or fewer in flight by --ring"
            }
        };
        (
            "The kernel had no room to note further zero-copy sends, and the sender waited for completions: these cells show the limit too.".to_owned(),
            format!("ENOBUFS {} times", whole(times.iter().sum())),
            remedy,
        )
    })
}
