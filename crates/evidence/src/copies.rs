//! Counts of the copies of each byte, by the place where it is copied.
//!
//! Each place is counted by the strongest means that the kernel allows ([`choice::choose`]): by
//! what the functions that copy returned (fexit), which not every kernel lets us hook, else at
//! tracepoints (tp_btf; Linux 5.5, flags 5.14) by each packet's flags and by what system calls
//! returned. A packet whose pages were pinned when sent and are not on arrival was copied between.
//! A place is absent where its program was not run each time, but for few packets of many.
//!
//! The programs cost a connection a few percent of its rate, so timed trials go without them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead};
use std::path::Path;

use aya::{Btf, include_bytes_aligned};
use bytecost_spec::Reading;
use bytecost_spec::evidence::{Copied, CopyMeans, CopyPlace};

use crate::Parties;
use crate::bpf::{self, Object};
use crate::symbols;

pub mod choice;
mod functions;
pub(crate) mod packets;

use choice::{HOOKS, Hook, HookChoice, Tried, choose};

static PACKETS: &[u8] = include_bytes_aligned!("../bpf/copies.bpf.o");
static FUNCTIONS: &[u8] = include_bytes_aligned!("../bpf/functions.bpf.o");

/// The means by which copies are counted here, the stronger first.
pub const MEANS: &[CopyMeans] = &[CopyMeans::Functions, CopyMeans::Tracepoints];

/// Packets that must be seen for each that may be lost, so that the loss is below the digits of a number.
const PACKETS_OF_EACH_LOST: u64 = 200;

/// Counts while it lives.
#[derive(Debug)]
pub struct Copies {
    choice: HookChoice,
    packets: Option<Object<{ packets::WORDS }>>,
    functions: Option<Object<{ functions::WORDS }>>,
    /// Events that each program missed before the count began.
    missed: BTreeMap<&'static str, u64>,
}

impl Copies {
    /// Attaches the strongest means; nobody's bytes are counted yet. Refused in a sentence: no
    /// rights for BPF, a kernel without types or lacks a hook.
    pub fn open(root: &Path) -> io::Result<Copies> {
        Copies::by(root, MEANS)
    }

    /// The same by some means alone.
    pub fn by(root: &Path, wanted: &[CopyMeans]) -> io::Result<Copies> {
        let types = bpf::types(root)?;
        let mut tried = BTreeMap::new();
        let mut found = Copies {
            choice: choose(&tried, &[]),
            packets: None,
            functions: None,
            missed: BTreeMap::new(),
        };
        if wanted.contains(&CopyMeans::Functions) {
            let names = names(symbols::text(root)?)?;
            let there = |target: &str| state(&names, target);
            found.functions = attach(CopyMeans::Functions, FUNCTIONS, types, there, &mut tried);
        }
        if wanted.contains(&CopyMeans::Tracepoints) {
            let there = |_: &str| None;
            found.packets = attach(CopyMeans::Tracepoints, PACKETS, types, there, &mut tried);
        }
        found.choice = choose(&tried, wanted);
        if let Some(why) = found.choice.refused() {
            return Err(io::Error::other(why.to_owned()));
        }
        found.keep_chosen();
        Ok(found)
    }

    fn keep_chosen(&mut self) {
        for hook in HOOKS.iter().filter(|h| !self.choice.hooks.contains(h)) {
            match (hook.means, &mut self.functions, &mut self.packets) {
                (CopyMeans::Functions, Some(object), _) => object.detach(hook.program),
                (CopyMeans::Tracepoints, _, Some(object)) => object.detach(hook.program),
                _ => {}
            }
        }
        let uses = |means| self.choice.hooks.iter().any(|h| h.means == means);
        self.functions.take_if(|_| !uses(CopyMeans::Functions));
        self.packets.take_if(|_| !uses(CopyMeans::Tracepoints));
    }

    /// The means of each place, and the gaps.
    pub fn choice(&self) -> &HookChoice {
        &self.choice
    }

    /// Begins anew, with the bytes of these, bpf(2).
    pub fn begin(&mut self, parties: Parties) -> io::Result<()> {
        let port = parties.port_word();
        let network = parties.network.unwrap_or(0);
        let sender = u64::from(parties.sender);
        let receiver = u64::from(parties.receiver.unwrap_or(0));
        if let Some(object) = &mut self.functions {
            object.begin(&[port, network, sender, receiver])?;
        }
        if let Some(object) = &mut self.packets {
            object.begin(&[port, network, sender])?;
        }
        self.missed = self.misses();
        Ok(())
    }

    fn misses(&self) -> BTreeMap<&'static str, u64> {
        let of = |hook: &&'static Hook| {
            let misses = match hook.means {
                CopyMeans::Functions => self.functions.as_ref()?.misses(hook.program),
                _ => self.packets.as_ref()?.misses(hook.program),
            };
            Some((hook.program, misses?))
        };
        self.choice.hooks.iter().filter_map(of).collect()
    }

    /// The counts so far, at each place; the parts may be of different moments.
    pub fn copied(&self) -> Vec<Copied> {
        let packets = self.packets.as_ref().map(Object::words);
        let functions = self.functions.as_ref().map(Object::words);
        let misses = self.misses();
        let of = |(leg, means): &(CopyPlace, Result<CopyMeans, String>)| {
            let by_packets = packets.filter(|_| *means == Ok(CopyMeans::Tracepoints));
            let seen = by_packets.map_or(0, |words| packets::packets(&words, *leg));
            let bytes = match (means, &functions, &packets) {
                (Ok(CopyMeans::Functions), Some(words), _) => functions::copied(words, *leg),
                (Ok(CopyMeans::Tracepoints), _, Some(words)) => packets::copied(words, *leg),
                (Ok(_), ..) => Reading::absent("nothing counts it"),
                (Err(why), ..) => Reading::absent(why.clone()),
            };
            let mut hooks = means
                .iter()
                .flat_map(|means| self.choice.hooks_of(*leg, *means));
            let lost = hooks.find_map(|hook| lost(hook, seen, &self.missed, &misses));
            let bytes = lost.map_or(bytes, Reading::absent);
            Copied {
                leg: *leg,
                means: means
                    .as_ref()
                    .ok()
                    .filter(|_| bytes.measured().is_some())
                    .copied(),
                bytes,
            }
        };
        self.choice.legs.iter().map(of).collect()
    }
}

/// The reason why a hook's count is not complete; none where so few events were missed among so many
/// packets that it makes no difference.
fn lost(
    hook: &Hook,
    seen: u64,
    before: &BTreeMap<&str, u64>,
    now: &BTreeMap<&str, u64>,
) -> Option<String> {
    let since = now
        .get(hook.program)?
        .saturating_sub(*before.get(hook.program)?);
    let target = hook.target;
    (since > seen / PACKETS_OF_EACH_LOST).then(|| format!("what counts at `{target}` was not run {since} times, since it was running already on that CPU"))
}

/// Tries every hook of a means; without rights the first says so for all.
fn attach<const N: usize>(
    means: CopyMeans,
    bytes: &[u8],
    types: &'static Btf,
    there: impl Fn(&str) -> Option<Tried>,
    tried: &mut BTreeMap<&'static str, Tried>,
) -> Option<Object<N>> {
    let own = || HOOKS.iter().filter(|h| h.means == means);
    let refuse_all = |why: String, refusals: &mut BTreeMap<&'static str, Tried>| {
        refusals.extend(own().map(|h| (h.program, Tried::Refused(why.clone()))));
    };
    let mut object: Object<N> = match Object::load(bytes, types, &[]) {
        Ok(object) => object,
        Err(e) => {
            refuse_all(e.to_string(), tried);
            return None;
        }
    };
    for hook in own() {
        if let Some(state) = there(hook.target) {
            tried.insert(hook.program, state);
            continue;
        }
        let outcome = match object.attach(hook.program, hook.target, types) {
            Ok(()) => Tried::Attached,
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                refuse_all(e.to_string(), tried);
                return None;
            }
            Err(e) => Tried::Refused(e.to_string()),
        };
        tried.insert(hook.program, outcome);
    }
    Some(object)
}

fn names(text: impl BufRead) -> io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    symbols::each(text, |[_, _, name]| {
        if HOOKS.iter().any(|h| h.target == symbols::plain(name)) {
            names.insert(name.to_owned());
        }
        true
    })?;
    Ok(names)
}

/// The state of a function that needs no attempt, as it has no symbol; none where it can be hooked.
fn state(names: &BTreeSet<String>, target: &str) -> Option<Tried> {
    if names.contains(target) {
        return None;
    }
    let begins = format!("{target}.");
    let other = names.iter().find(|name| name.starts_with(&begins));
    Some(other.map_or(Tried::NotThere, |other| {
        Tried::Refused(format!("it is compiled to another form here, `{other}`"))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_is_compiled_otherwise_is_not_missing_but_refused() {
        let text = "ffffffff81000000 T tcp_sendmsg\n\
                    ffffffff81000010 t simple_copy_to_iter.isra.0\n\
                    ffffffff81000020 t another\n\
                    strange\n";
        let names = names(text.as_bytes()).unwrap();
        assert_eq!(state(&names, "tcp_sendmsg"), None);
        let Some(Tried::Refused(why)) = state(&names, "simple_copy_to_iter") else {
            panic!("it is there in another form");
        };
        assert!(why.contains("`simple_copy_to_iter.isra.0`"), "{why}");
        assert_eq!(state(&names, "filemap_read"), Some(Tried::NotThere));
    }

    #[test]
    fn what_a_program_missed_meanwhile_counts_and_what_it_missed_before_does_not() {
        let hook = &HOOKS[0];
        let check = |seen: u64, before: u64, now: u64, expected: Option<&str>| {
            let of = |n| BTreeMap::from([(hook.program, n)]);
            let why = lost(hook, seen, &of(before), &of(now));
            let is_expected = match (&why, expected) {
                (Some(why), Some(part)) => why.contains(part),
                (why, part) => why.is_none() && part.is_none(),
            };
            assert!(is_expected, "{why:?}, not {expected:?}");
        };
        check(0, 0, 0, None);
        check(0, 7, 7, None);
        check(0, 7, 9, Some("`tcp_sendmsg` was not run 2 times"));
        check(399, 7, 9, Some("2 times"));
        check(400, 7, 9, None);
        // A kernel without them.
        assert_eq!(lost(hook, 0, &BTreeMap::new(), &BTreeMap::new()), None);
    }
}
