//! CPU time of each watched cell by kind of work, per KiB that was sent or per request.

use bytecost_spec::evidence::{CpuSamples, KINDS, Kind, Party, TimeByKind, TrialEvidence};
use bytecost_stats::poisson_interval;
use itertools::Itertools as _;

use crate::confidence::LEVEL;
use crate::grouping::by_key;
use crate::input::Input;
use crate::result::{CellTime, FunctionTime, KindTime, TimePer};

/// The most functions of a cell, in descending order of their time.
const MOST_FUNCTIONS: usize = 12;
const KIB: f64 = 1024.0;

/// Every watched cell, in the order of the plan; the first evidence of time of a cell counts.
pub(crate) fn all(input: &Input<'_>) -> Vec<CellTime> {
    let watched = input.evidence_by_cell(|e| e.time.is_some()).into_iter();
    let times = watched.filter_map(|(cell, evidence)| {
        let per = if cell.is_served() {
            TimePer::Request
        } else {
            TimePer::Kib
        };
        cell_time(evidence[0], per)
    });
    times.collect()
}

/// The CPU time of a cell; none where nothing was sent, or no sample found a thread of it.
fn cell_time(evidence: &TrialEvidence, per: TimePer) -> Option<CellTime> {
    let time = evidence.time.as_ref()?;
    let of_parties = |parties: &[Party]| count(time, |l| parties.contains(&l.party));
    let own = of_parties(&[Party::Sender, Party::Receiver]);
    let units = match per {
        TimePer::Kib => evidence.sent_bytes as f64 / KIB,
        TimePer::Request => evidence.sent_messages as f64,
    };
    if units == 0.0 || own == 0 {
        return None;
    }
    let ns_per_unit = |looks: f64| looks * time.every_ns as f64 / units;
    let parties = [Party::Sender, Party::Receiver, Party::Rest];
    let rows = parties.into_iter().cartesian_product(KINDS);
    let kinds = rows.filter_map(|(party, row)| {
        let looks = count(time, |l| l.party == party && l.kind == row.kind);
        let (low, high) = poisson_interval(looks, LEVEL);
        (looks > 0).then(|| KindTime {
            party,
            kind: row.kind,
            looks,
            ns_per_unit: ns_per_unit(looks as f64),
            low: ns_per_unit(low),
            high: ns_per_unit(high),
        })
    });
    let all = own + of_parties(&[Party::Rest]);
    let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    let is_own = |l: &CpuSamples| l.party != Party::Rest;
    let moved = time.looks.iter().filter(|l| is_own(l)).map(|l| l.moved);
    let unattributed = count(time, |l| is_own(l) && l.kind == Kind::Unattributed);
    Some(CellTime {
        cell: evidence.cell.clone(),
        per,
        looks: own,
        kinds: kinds.collect(),
        functions: functions(time, own),
        unattributed: share(unattributed, own),
        moved: share(moved.sum(), own),
        rest: share(all - own, all),
        lost: share(time.lost, all + time.idle + time.lost),
    })
}

fn count(time: &TimeByKind, which: impl Fn(&CpuSamples) -> bool) -> u64 {
    let looks = time.looks.iter().filter(|l| which(l));
    looks.map(|l| l.count).sum()
}

fn functions(time: &TimeByKind, own: u64) -> Vec<FunctionTime> {
    let is_named = |l: &&CpuSamples| l.party != Party::Rest && !l.function.is_empty();
    let named = time.looks.iter().filter(is_named);
    by_key(named.map(|l| ((&l.function, l.kind), l.count)))
        .into_iter()
        .map(|((function, kind), looks)| FunctionTime {
            function: function.clone(),
            kind,
            share: looks.iter().sum::<u64>() as f64 / own as f64,
        })
        .sorted_by(|a, b| b.share.total_cmp(&a.share))
        .take(MOST_FUNCTIONS)
        .collect()
}

impl CellTime {
    /// The times of both sides, or of a server.
    fn kinds_in_sums(&self) -> impl Iterator<Item = &KindTime> {
        self.kinds.iter().filter(|k| self.per.counts(k.party))
    }

    /// CPU time in a kind, in ns for each KiB sent on both sides, or for each request of a server.
    pub fn of_kind(&self, kind: Kind) -> f64 {
        let own = self.kinds_in_sums().filter(|k| k.kind == kind);
        own.map(|k| k.ns_per_unit).sum()
    }

    /// CPU time in all kinds, as [`CellTime::of_kind`].
    pub fn total(&self) -> f64 {
        self.kinds_in_sums().map(|k| k.ns_per_unit).sum()
    }
}
