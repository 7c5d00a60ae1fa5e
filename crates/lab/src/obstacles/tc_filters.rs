//! Filters of tc(8) with their actions, which act on packets apart from the disciplines.

use std::collections::BTreeMap;
use std::io;

use super::qdiscs::{Queueing, kind_of, rate, ratespec};
use crate::netlink::dump::{attribute, attributes, is_absent, list, number};

/// RTM_GETTFILTER.
const GET_FILTERS: u16 = 46;
/// Bytes of `struct tcmsg`, and where it has the device, the handle and the parent.
const HEAD_BYTES: usize = 20;
const DEVICE_AT: usize = 4;
const HANDLE_AT: usize = 8;
const PARENT_AT: usize = 12;
const TCA_OPTIONS: u16 = 2;
/// Places of filters, `include/uapi/linux/pkt_sched.h`: the root discipline, and before and after it
/// clsact or ingress.
const PLACES: [(u32, &str); 3] = [
    (0, "root"),
    (0xffff_fff2, "ingress"),
    (0xffff_fff3, "egress"),
];
/// Kinds of filters, each with the attribute of its actions, `include/uapi/linux/pkt_cls.h`.
const ACTIONS: [(&str, u16); 9] = [
    ("matchall", 2),
    ("flower", 3),
    ("u32", 7),
    ("bpf", 1),
    ("basic", 3),
    ("fw", 4),
    ("cgroup", 1),
    ("route", 6),
    ("flow", 9),
];
const TCA_ACT_KIND: u16 = 1;
const TCA_ACT_OPTIONS: u16 = 2;
const POLICE: &str = "police";
/// `struct tc_police` of an action, where it has its rate, and the rate of 64 bits beside it.
const TCA_POLICE_TBF: u16 = 1;
const POLICE_RATE_AT: usize = 20;
const TCA_POLICE_RATE64: u16 = 8;
/// The handle of a hash table of u32 has no bits for an entry of it.
const ENTRY: u32 = 0xfff;

/// The filters of a device of the calling thread's network.
pub(super) fn read(device: u32) -> io::Result<Vec<Queueing>> {
    let mut found = Vec::new();
    for (parent, place) in PLACES {
        let mut request = vec![0; HEAD_BYTES];
        request[DEVICE_AT..DEVICE_AT + 4].copy_from_slice(&device.to_ne_bytes());
        request[PARENT_AT..PARENT_AT + 4].copy_from_slice(&parent.to_ne_bytes());
        match list(None, GET_FILTERS, &request) {
            Ok(messages) => found.extend(at_place(place, &messages)),
            // A discipline without classes or filters has no list of them.
            Err(e) if is_absent(&e) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(found)
}

fn at_place(place: &str, messages: &[Vec<u8>]) -> Option<Queueing> {
    let mut by_words: BTreeMap<String, usize> = BTreeMap::new();
    let mut limits = false;
    for message in messages {
        let kind = kind_of(message);
        let handle = number(message, HANDLE_AT).unwrap_or(0);
        // The head of a list, and hash tables, match nothing themselves.
        if handle == 0 || (kind == "u32" && handle & ENTRY == 0) {
            continue;
        }
        let actions = actions(&kind, message);
        limits |= actions.iter().any(|action| action.starts_with(POLICE));
        let words = match actions.as_slice() {
            [] => kind,
            actions => format!("{kind} ({})", actions.join(", ")),
        };
        *by_words.entry(words).or_default() += 1;
    }
    let count: usize = by_words.values().sum();
    let words: Vec<String> = by_words
        .into_iter()
        .map(|(words, n)| {
            if n > 1 {
                format!("{n}× {words}")
            } else {
                words
            }
        })
        .collect();
    let filters = bytecost_spec::units::count(count, "filter");
    (count > 0).then(|| Queueing {
        found: format!("{filters} of tc at {place}: {}", words.join(", ")),
        limits,
    })
}

/// The actions of a filter in words, in their order.
fn actions(kind: &str, message: &[u8]) -> Vec<String> {
    let row = ACTIONS.iter().find(|(name, _)| *name == kind);
    let actions = row.and_then(|(_, actions)| {
        let options = attribute(message.get(HEAD_BYTES..)?, TCA_OPTIONS)?;
        attribute(options, *actions)
    });
    let listed = actions.map(attributes).unwrap_or_default();
    let words = listed.into_iter().filter_map(|(_, action)| {
        let name: String = String::from_utf8_lossy(attribute(action, TCA_ACT_KIND)?)
            .chars()
            .filter(|c| c.is_ascii_graphic())
            .collect();
        let options = attribute(action, TCA_ACT_OPTIONS).filter(|_| name == POLICE);
        let bound = options
            .and_then(|o| ratespec(o, TCA_POLICE_TBF, POLICE_RATE_AT, Some(TCA_POLICE_RATE64)));
        Some(match bound {
            Some(bytes_per_s) => format!("{name} {}", rate(bytes_per_s)),
            None => name,
        })
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::dump::written;

    fn filter(kind: &str, handle: u32, options: &[u8]) -> Vec<u8> {
        let mut head = vec![0; HEAD_BYTES];
        head[HANDLE_AT..HANDLE_AT + 4].copy_from_slice(&handle.to_ne_bytes());
        let kind = written(1, format!("{kind}\0").as_bytes());
        [head, kind, written(TCA_OPTIONS, options)].concat()
    }

    fn police(bytes_per_s: u32) -> Vec<u8> {
        let tbf = [
            vec![0; POLICE_RATE_AT + 8],
            bytes_per_s.to_ne_bytes().to_vec(),
            vec![0; 24],
        ];
        let options = written(TCA_ACT_OPTIONS, &written(TCA_POLICE_TBF, &tbf.concat()));
        let action = [written(TCA_ACT_KIND, b"police\0"), options].concat();
        written(1, &action)
    }

    #[test]
    fn filters_are_counted_with_their_actions_and_a_policer_limits() {
        let check = |messages: &[Vec<u8>], expected: Option<(&str, bool)>| {
            let filters = at_place("ingress", messages);
            let found = filters.as_ref().map(|f| (f.found.as_str(), f.limits));
            assert_eq!(found, expected);
        };
        check(&[], None);
        // The head of a list, and a hash table.
        let heads = [filter("matchall", 0, &[]), filter("u32", 0x8000_0000, &[])];
        check(&heads, None);
        let bpf = filter("bpf", 1, &[]);
        check(
            &[bpf.clone(), bpf.clone()],
            Some(("2 filters of tc at ingress: 2× bpf", false)),
        );
        let policed = filter("matchall", 1, &written(2, &police(125_000_000)));
        let found = "2 filters of tc at ingress: bpf, matchall (police 1.00 Gbit/s)";
        check(&[bpf, policed.clone()], Some((found, true)));
        for length in 0..policed.len() {
            at_place("ingress", &[policed[..length].to_vec()]);
        }
    }
}
