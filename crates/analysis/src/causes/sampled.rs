//! Causes by CPU samples, which show all kinds of work.

use bytecost_spec::Side;
use bytecost_spec::evidence::{KINDS, Kind, Party};
use itertools::Itertools as _;

use crate::result::{Cause, CauseOf, CellTime, TimePer, Uncertain};

/// Shares of the difference below which nothing is a cause.
pub(super) const LEAST_SHARE: f64 = 0.05;
/// The largest ratio of the difference by samples to that of the timed trials, either way.
const SAMPLED_APART: f64 = 2.0;
/// Standard errors between the ends of a 95 % interval and its middle.
const ERRORS: f64 = 1.96;

/// The causes of a difference, with the share of it that they explain together.
pub(super) struct FoundCauses {
    pub(super) causes: Vec<Cause>,
    pub(super) explained: Option<Uncertain>,
}

/// CPU time of one kind of work for a message of both cells, in ns.
struct KindDifference {
    kind: Kind,
    from: f64,
    to: f64,
    /// The excess in the dearer cell, and its variance.
    more: f64,
    variance: f64,
}

/// The difference of two sampled cells by kind of work.
struct SampledDifference {
    kinds: Vec<KindDifference>,
    more_ns: f64,
    variance: f64,
}

/// Two sampled cells of a finding, baseline first, and the side whose time counts.
pub(super) struct SampledPair<'v> {
    pub(super) times: [&'v CellTime; 2],
    pub(super) message_bytes: u64,
    pub(super) side: Side,
    /// 1 where the other cell is the dearer one, else -1.
    pub(super) sign: f64,
}

impl SampledPair<'_> {
    /// Each kind's part of the difference; none where the samples show another difference than the timed
    /// trials.
    pub(super) fn causes(&self, difference_ns: Uncertain) -> Option<FoundCauses> {
        let sampled = self.difference();
        let is_seen = sampled.more_ns > ERRORS * sampled.variance.sqrt();
        let ratio = sampled.more_ns / difference_ns.value;
        if !is_seen || !(1.0 / SAMPLED_APART..=SAMPLED_APART).contains(&ratio) {
            return None;
        }
        let causes = ordered(sampled.kinds.iter().filter_map(|k| {
            let share = sampled.share(k.more, k.variance);
            let is_apart = k.more.abs() > ERRORS * k.variance.sqrt();
            let is_cause = is_apart && share.value.abs() >= LEAST_SHARE;
            (is_cause && k.kind != Kind::Unattributed).then(|| Cause {
                of: CauseOf::Work(k.kind),
                from: k.from,
                to: k.to,
                cost_ns: Some(share.times(difference_ns)),
                share: Some(share),
            })
        }));
        let is_cause = |k: &&KindDifference| causes.iter().any(|c| c.of == CauseOf::Work(k.kind));
        let named = sampled.kinds.iter().filter(is_cause).collect_vec();
        let more = named.iter().map(|k| k.more).sum();
        let explained = sampled.share(more, named.iter().map(|k| k.variance).sum());
        Some(FoundCauses {
            explained: (!causes.is_empty()).then_some(explained),
            causes,
        })
    }

    fn difference(&self) -> SampledDifference {
        let difference = |kind: Kind| {
            let [(from, a), (to, b)] = self.times.map(|time| self.kind_time(time, kind));
            KindDifference {
                kind,
                from,
                to,
                more: self.sign * (to - from),
                variance: a + b,
            }
        };
        let kinds = KINDS.iter().map(|row| difference(row.kind)).collect_vec();
        SampledDifference {
            more_ns: kinds.iter().map(|k| k.more).sum(),
            variance: kinds.iter().map(|k| k.variance).sum(),
            kinds,
        }
    }

    /// CPU time of a kind of work for a message, in ns, and its variance.
    fn kind_time(&self, time: &CellTime, kind: Kind) -> (f64, f64) {
        let units = match time.per {
            TimePer::Kib => self.message_bytes as f64 / 1024.0,
            TimePer::Request => 1.0,
        };
        time.kinds
            .iter()
            .filter(|k| k.kind == kind && self.is_of_side(k.party))
            .map(|k| (units * k.ns_per_unit, k.looks.max(1) as f64))
            .fold((0.0, 0.0), |(sum, variance), (ns, looks)| {
                (sum + ns, variance + ns * ns / looks)
            })
    }

    fn is_of_side(&self, party: Party) -> bool {
        match self.side {
            Side::Sender | Side::Client => party == Party::Sender,
            Side::Receiver | Side::Server => party == Party::Receiver,
            Side::Both => party != Party::Rest,
        }
    }
}

impl SampledDifference {
    /// The share of the whole that an excess with this variance is. It is a part of the whole, so that
    /// the two are not independent.
    fn share(&self, more: f64, variance: f64) -> Uncertain {
        let value = more / self.more_ns;
        let others = self.variance - variance;
        let error = ((1.0 - value).powi(2) * variance + value * value * others).sqrt();
        let error = error / self.more_ns;
        Uncertain {
            value,
            low: value - ERRORS * error,
            high: value + ERRORS * error,
        }
    }
}

/// The causes in descending order of their cost; savings come last.
pub(super) fn ordered(causes: impl Iterator<Item = Cause>) -> Vec<Cause> {
    let cost = |c: &Cause| c.cost_ns.map_or(0.0, |c| c.value);
    causes
        .sorted_by(|a, b| cost(b).total_cmp(&cost(a)))
        .collect()
}
