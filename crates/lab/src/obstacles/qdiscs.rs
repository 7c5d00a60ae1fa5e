//! Queueing disciplines, tc(8), with those that delay or bound packets.

use std::io;

use bytecost_spec::units::number as digits;

use crate::netlink::dump::{attribute, list, long, number};

/// RTM_GETQDISC and RTM_GETTCLASS.
const GET_QDISCS: u16 = 38;
const GET_CLASSES: u16 = 42;
/// Bytes of `struct tcmsg`, and where it has the number of the device.
const HEAD_BYTES: usize = 20;
const DEVICE_AT: usize = 4;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
/// A bound of 32 bits that stands for none, or for one of 64 bits beside it.
const NO_BOUND: u32 = u32::MAX;
/// The place of the rate in `struct tc_ratespec`, and the length of that.
const RATE_AT: usize = 8;
const RATESPEC_BYTES: usize = 12;

/// Disciplines or filters at one place of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Queueing {
    /// Their names and figures: `tbf, 2.00 Gbit/s`, `1 filter of tc at egress: u32`.
    pub(super) found: String,
    /// True if they bound the rate, delay packets or lose them.
    pub(super) limits: bool,
}

/// Reads the options of a discipline. Returns its bound or delay in words; none where it has neither.
type Holds = fn(&[u8]) -> Option<String>;

/// Disciplines that can delay or bound packets, by `include/uapi/linux/pkt_sched.h`.
const ROWS: &[(&str, Holds)] = &[
    ("tbf", |o| Some(rate(ratespec(o, 1, 0, Some(4))?))),
    // Its classes have the rates.
    ("htb", |_| None),
    ("hfsc", |_| Some("by its classes".to_owned())),
    ("netem", netem),
    ("cake", |o| {
        long(attribute(o, 2)?).filter(|r| *r > 0).map(rate)
    }),
    ("fq", |o| {
        let most = number(attribute(o, 7)?, 0).filter(|r| *r != NO_BOUND)?;
        Some(format!("{} a flow", rate(u64::from(most))))
    }),
    ("cbs", |_| Some("by credit".to_owned())),
    ("taprio", |_| Some("by a schedule".to_owned())),
    ("etf", |_| Some("by times of packets".to_owned())),
];

/// The disciplines of a device of the calling thread's network, each once.
pub(super) fn read(device: u32) -> io::Result<Vec<Queueing>> {
    let mut asked = vec![0; HEAD_BYTES];
    asked[DEVICE_AT..DEVICE_AT + 4].copy_from_slice(&device.to_ne_bytes());
    let mut all = Vec::new();
    let mut has_classes = false;
    for message in list(None, GET_QDISCS, &asked)? {
        // Kernels list those of all devices.
        if number(&message, DEVICE_AT) == Some(device) {
            has_classes |= kind_of(&message) == "htb";
            all.extend(qdisc(&message));
        }
    }
    if has_classes {
        // The bound of the outermost class holds for all within.
        let classes = list(None, GET_CLASSES, &asked)?;
        let ceil = classes.iter().filter_map(|message| {
            let options = message
                .get(HEAD_BYTES..)
                .and_then(|a| attribute(a, TCA_OPTIONS))?;
            ratespec(options, 1, RATESPEC_BYTES, Some(7))
        });
        if let Some(most) = ceil.max() {
            all.iter_mut().filter(|q| q.found == "htb").for_each(|q| {
                *q = Queueing {
                    found: format!("htb, classes of up to {}", rate(most)),
                    limits: true,
                };
            });
        }
    }
    all.dedup();
    Ok(all)
}

pub(super) fn kind_of(message: &[u8]) -> String {
    let attributes = message.get(HEAD_BYTES..).unwrap_or_default();
    let name = attribute(attributes, TCA_KIND).unwrap_or_default();
    String::from_utf8_lossy(name)
        .trim_end_matches('\0')
        .chars()
        .filter(|c| !c.is_control())
        .collect()
}

fn qdisc(message: &[u8]) -> Option<Queueing> {
    let name = kind_of(message);
    if name.is_empty() || name == "noqueue" {
        return None;
    }
    let options = attribute(message.get(HEAD_BYTES..)?, TCA_OPTIONS).unwrap_or_default();
    let row = ROWS.iter().find(|(kind, _)| *kind == name);
    let holds = row.and_then(|(_, holds)| holds(options));
    Some(Queueing {
        limits: holds.is_some(),
        found: match holds {
            Some(how) => format!("{name}, {how}"),
            None => name,
        },
    })
}

/// The rate of a `struct tc_ratespec` within an attribute, in bytes a second; the rate of 64 bits where
/// there is one.
pub(super) fn ratespec(options: &[u8], of: u16, at: usize, wide: Option<u16>) -> Option<u64> {
    let narrow = number(attribute(options, of)?, at + RATE_AT)?;
    wide.and_then(|of_wide| long(attribute(options, of_wide)?))
        .or(Some(u64::from(narrow)))
        .filter(|rate| *rate > 0)
}

fn netem(options: &[u8]) -> Option<String> {
    /// The unit of the scheduler's clock, in ns.
    const TICK_NS: u64 = 64;
    /// Bytes of `struct tc_netem_qopt`, before its attributes.
    const QOPT_BYTES: usize = 24;
    let more = options.get(QOPT_BYTES..)?;
    let ticks = u64::from(number(options, 0)?);
    let delay_ns = attribute(more, 10)
        .and_then(long)
        .unwrap_or(ticks * TICK_NS);
    let loss = f64::from(number(options, 8)?) / f64::from(u32::MAX);
    let narrow = attribute(more, 6).and_then(|r| number(r, 0)).map(u64::from);
    let bytes_per_s = attribute(more, 8).and_then(long).or(narrow).unwrap_or(0);
    let parts: Vec<String> = [
        (delay_ns > 0).then(|| format!("delay {} ms", digits(delay_ns as f64 / 1e6))),
        (loss > 0.0).then(|| format!("loss {} %", digits(loss * 100.0))),
        (bytes_per_s > 0).then(|| rate(bytes_per_s)),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

pub(super) fn rate(bytes_per_s: u64) -> String {
    let bit_per_s = bytes_per_s as f64 * 8.0;
    match bit_per_s {
        s if s >= 1e9 => format!("{} Gbit/s", digits(s / 1e9)),
        s => format!("{} Mbit/s", digits(s / 1e6)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::dump::written;

    fn message(name: &str, options: &[u8]) -> Vec<u8> {
        let name = written(TCA_KIND, format!("{name}\0").as_bytes());
        [vec![0; HEAD_BYTES], name, written(TCA_OPTIONS, options)].concat()
    }

    #[track_caller]
    fn check(name: &str, options: &[u8], found: &str, limits: bool) {
        let found = Queueing {
            found: found.to_owned(),
            limits,
        };
        assert_eq!(qdisc(&message(name, options)), Some(found));
    }

    fn ratespec(bytes_per_s: u32) -> Vec<u8> {
        [&[0; RATE_AT][..], &bytes_per_s.to_ne_bytes()].concat()
    }

    #[test]
    fn disciplines_that_hold_back_have_their_figures() {
        // 2 Gbit/s, and 80 Gbit/s, which is more than 32 bits of bytes a second.
        let narrow = [ratespec(250_000_000), vec![0; 24]].concat();
        check("tbf", &written(1, &narrow), "tbf, 2.00 Gbit/s", true);
        let parms = [ratespec(NO_BOUND), vec![0; 24]].concat();
        let wide = 10_000_000_000_u64.to_ne_bytes();
        let of_tbf = [written(1, &parms), written(4, &wide)].concat();
        check("tbf", &of_tbf, "tbf, 80.0 Gbit/s", true);

        let qopt = |ticks: u32, loss: u32| {
            let words = [ticks, 1000, loss, 0, 0, 0];
            words.map(u32::to_ne_bytes).as_flattened().to_vec()
        };
        check("netem", &qopt(0, 0), "netem", false);
        check("netem", &qopt(156_250, 0), "netem, delay 10.0 ms", true);
        let of_netem = [qopt(0, u32::MAX / 50), written(8, &wide)].concat();
        check("netem", &of_netem, "netem, loss 2.00 %, 80.0 Gbit/s", true);

        let base = |n: u64| written(2, &n.to_ne_bytes());
        check("cake", &base(12_500_000), "cake, 100 Mbit/s", true);
        check("cake", &base(0), "cake", false);
        let most = |n: u32| written(7, &n.to_ne_bytes());
        check("fq", &most(125_000_000), "fq, 1.00 Gbit/s a flow", true);
        check("fq", &most(NO_BOUND), "fq", false);
    }

    #[test]
    fn others_cost_and_none_is_none() {
        check("fq_codel", &[], "fq_codel", false);
        check("pfifo_fast", &[0; 20], "pfifo_fast", false);
        assert_eq!(qdisc(&message("noqueue", &[])), None);
        assert_eq!(qdisc(&[]), None);
        // Options that are cut off say nothing of a bound.
        let whole = message("tbf", &written(1, &ratespec(7)));
        for length in 0..whole.len() {
            assert!(qdisc(&whole[..length]).is_none_or(|q| !q.limits));
        }
    }
}
