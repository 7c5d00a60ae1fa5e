//! Network cards of the way to another host, in words.

use bytecost_analysis::CaveatFact;
use bytecost_spec::{Counter, Host, NetworkCard, PeerSide};

use super::known::Known;
use crate::phrases;

/// A network card of the way at one of its ends.
struct CardAt<'a> {
    card: &'a NetworkCard,
    host: &'a Host,
    host_name: &'a str,
    is_here: bool,
}

impl CardAt<'_> {
    /// `eth0 of this machine`.
    fn name(&self) -> String {
        format!("{} of {}", self.card.name, self.host_name)
    }
}

/// The cards of the way, this machine's first.
fn cards<'a>(c: &Known<'a>) -> Vec<CardAt<'a>> {
    let Some(peer) = &c.a.peer else {
        return Vec::new();
    };
    let here = peer.own_cards.iter().map(|card| CardAt {
        card,
        host: &c.a.host,
        host_name: "this machine",
        is_here: true,
    });
    let there = peer.cards.iter().map(|card| CardAt {
        card,
        host: &peer.host,
        host_name: &peer.name,
        is_here: false,
    });
    here.chain(there).collect()
}

fn first_card<'a>(c: &Known<'a>, is_here: bool) -> Option<CardAt<'a>> {
    cards(c).into_iter().find(|at| at.is_here == is_here)
}

pub(super) fn virtual_cards(c: &Known<'_>) -> String {
    let cards = cards(c).into_iter().filter(|at| at.card.is_virtual);
    phrases::list(cards.map(|at| match &at.card.driver {
        Some(driver) => format!("{} ({driver})", at.name()),
        None => at.name(),
    }))
}

/// MTUs that are not that of the path.
pub(super) fn other_mtus(c: &Known<'_>) -> Option<String> {
    let path = c.sum(Counter::TcpPathMtuBytes)?;
    let mut cards = cards(c);
    cards.retain(|at| at.card.mtu > 0 && at.card.mtu as f64 != path);
    let words = |at: &CardAt<'_>| format!("MTU {} at {}", at.card.mtu, at.name());
    Some(phrases::list(cards.iter().map(words)))
}

/// The MTUs that the path had in turn.
pub(super) fn path_mtus(c: &Known<'_>) -> String {
    phrases::list(c.caveat.facts.iter().filter_map(|fact| match fact {
        CaveatFact::PathMtu { bytes, trials } => {
            let trials = phrases::count(*trials, "trial");
            Some(format!("{bytes} bytes in {trials}"))
        }
        _ => None,
    }))
}

pub(super) fn offloads(c: &Known<'_>) -> Option<String> {
    let (here, there) = (first_card(c, true)?, first_card(c, false)?);
    let differing = here.card.offloads_unlike(there.card);
    let differing = phrases::list(differing.map(|(name, is_on_here)| {
        let place = if is_on_here { "here" } else { "there" };
        format!("{name} {place} alone")
    }));
    Some(format!("{} and {}: {differing}", here.name(), there.name()))
}

pub(super) fn interrupts(c: &Known<'_>) -> String {
    let mut cards = cards(c);
    cards.retain(|at| at.card.interrupts_afar(at.host));
    let far = cards.iter().map(|at| {
        let card = at.name();
        format!("interrupts of {card} on another node than the card")
    });
    let shared = c
        .counted("cell")
        .map(|cells| format!("/proc/irq: interrupts on the CPUs of endpoints in {cells}"));
    phrases::list(far.chain(shared))
}

/// The card that waits longest before it interrupts.
pub(super) fn longest_wait(c: &Known<'_>) -> Option<String> {
    let at = cards(c)
        .into_iter()
        .max_by_key(|at| at.card.coalesce_rx_us)?;
    Some(format!(
        "{}: rx-usecs {}",
        at.name(),
        at.card.coalesce_rx_us?
    ))
}

/// The queues of the card that receives.
pub(super) fn queues(c: &Known<'_>) -> Option<String> {
    let receives_here = c.a.peer.as_ref()?.side == PeerSide::Sender;
    let at = first_card(c, receives_here)?;
    let queues = phrases::count(at.card.rx_queues as usize, "queue");
    Some(format!("{queues} on {}", at.name()))
}
