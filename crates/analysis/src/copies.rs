//! Copies of each byte, events of each message, and the cost of counting them.

use bytecost_spec::evidence::{CopyMeans, CopyPlace, CountedEvent, Means, TrialEvidence};
use bytecost_spec::{Cell, Measure, Metric, Reading, Side};
use bytecost_stats::{mean, median};
use itertools::Itertools as _;

use crate::cells::CellEstimates;
use crate::input::Input;
use crate::result::{
    CellCopies, CellCounts, CountingCost, Estimate, EventRate, LegCopies, NoValue,
};
use crate::trials::CellTrials;

/// The mean over trials of a reading for each of so many, and the reason for which the first is absent.
fn mean_for_each<'r>(
    readings: impl Iterator<Item = (&'r Reading, u64)>,
) -> (Option<f64>, Option<String>) {
    let trials = readings.collect_vec();
    let known = trials
        .iter()
        .filter_map(|(reading, of)| Some(reading.measured()? as f64 / *of as f64));
    let absent = match trials.first() {
        Some((Reading::Absent { absent }, _)) => Some(absent.clone()),
        _ => None,
    };
    (mean(&known.collect_vec()), absent)
}

/// The mean copies over the trials of a cell; none where nothing was sent.
fn mean_copies(trials: &[&TrialEvidence]) -> Option<CellCopies> {
    let all = trials
        .iter()
        .filter_map(|e| e.copies.as_ref())
        .filter(|c| c.payload_bytes > 0)
        .collect_vec();
    let first = all.first()?;
    let legs = first.legs.iter().map(|leg| {
        let same = all.iter().filter_map(|c| {
            let same = c.legs.iter().find(|l| l.leg == leg.leg)?;
            Some((&same.bytes, c.payload_bytes))
        });
        let (per_byte, absent) = mean_for_each(same);
        LegCopies {
            leg: leg.leg,
            means: leg.means,
            per_byte,
            absent,
        }
    });
    Some(CellCopies {
        cell: trials[0].cell.clone(),
        legs: legs.collect(),
        gaps: first.gaps.clone(),
    })
}

fn mean_counts(trials: &[&TrialEvidence], cell: &Cell) -> Option<CellCounts> {
    let counted = |e: &&&TrialEvidence| !e.counts.is_empty() && e.sent_messages > 0;
    let all = trials.iter().filter(counted).collect_vec();
    let first = all.first()?;
    let events = first.counts.iter().map(|count| {
        let same = all.iter().filter_map(|e| {
            let mut counts = e.counts.iter();
            let same = counts.find(|c| (c.event, c.side) == (count.event, count.side))?;
            Some((&same.count, e.sent_messages))
        });
        let (per_message, absent) = mean_for_each(same);
        EventRate {
            event: count.event,
            side: match count.side {
                Side::Sender if cell.is_served() => Side::Client,
                Side::Receiver if cell.is_served() => Side::Server,
                side => side,
            },
            per_message,
            // The reason is of one trial, and another one may have a count.
            absent: absent.filter(|_| per_message.is_none()),
        }
    });
    Some(CellCounts {
        cell: first.cell.clone(),
        events: events.collect(),
    })
}

/// Copies by completion flags, which show if the kernel copied the buffers of a zero-copy mover.
fn flagged(timed: &CellEstimates<'_>) -> Option<CellCopies> {
    let share = timed.value(Metric::both(Measure::CopiedShare))?;
    Some(CellCopies {
        cell: timed.cell.id.clone(),
        legs: vec![LegCopies {
            leg: CopyPlace::Delivery,
            means: Some(CopyMeans::CompletionFlags),
            per_byte: Some(share),
            absent: None,
        }],
        gaps: Vec::new(),
    })
}

type Counted<'a> = Vec<(&'a Cell, Vec<&'a TrialEvidence>)>;

/// The cells whose copies or events were counted.
fn counted<'a>(input: &Input<'a>) -> Counted<'a> {
    input.evidence_by_cell(|e| e.copies.is_some() || !e.counts.is_empty())
}

/// The copies of each cell, in the order of the plan: the mean over its trials. Where copies were not
/// counted, cells with completion flags report those.
pub(crate) fn copies(input: &Input<'_>, timed: &[CellEstimates<'_>]) -> Vec<CellCopies> {
    let mean_of_cells = counted(input)
        .into_iter()
        .filter_map(|(_, trials)| mean_copies(&trials))
        .collect_vec();
    let is_new = |t: &&CellEstimates<'_>| mean_of_cells.iter().all(|c| c.cell != t.cell.id);
    let flagged = timed
        .iter()
        .filter(is_new)
        .filter_map(flagged)
        .collect_vec();
    let place = |id: &str| timed.iter().position(|t| t.cell.id == id);
    mean_of_cells
        .into_iter()
        .chain(flagged)
        .sorted_by_key(|c| place(&c.cell))
        .collect()
}

/// The events of each message of a cell, in the order of the plan: the mean over its trials.
pub(crate) fn counts(input: &Input<'_>) -> Vec<CellCounts> {
    let counts = counted(input).into_iter();
    counts
        .filter_map(|(cell, trials)| mean_counts(&trials, cell))
        .collect()
}

/// The cost of counting; none where nothing was counted.
pub(crate) fn counting_cost(
    input: &Input<'_>,
    timed: &[CellEstimates<'_>],
) -> Option<CountingCost> {
    let counted = counted(input);
    if counted.is_empty() {
        return None;
    }
    let timed_rate = |id: &str| {
        let cell = timed.iter().find(|t| t.cell.id == id)?;
        let rate = cell.value(Metric::both(Measure::MessagesPerS));
        rate.filter(|rate| *rate > 0.0)
    };
    let trials = || counted.iter().flat_map(|(_, trials)| trials);
    let rates = trials().filter_map(|e| {
        let rate = e.sent_messages as f64 * 1e9 / e.elapsed_ns as f64;
        (e.elapsed_ns > 0).then_some(rate / timed_rate(&e.cell)?)
    });
    let moves = |t: &&CellEstimates<'_>| {
        let rate = Metric::both(if t.cell.cell.is_served() {
            Measure::MessagesPerS
        } else {
            Measure::ThroughputGbitPerS
        });
        t.estimates.contains_key(&rate)
    };
    Some(CountingCost {
        took_s: trials().map(|e| e.trial_ms as f64).sum::<f64>() / 1e3,
        cells: counted.len(),
        of_cells: timed.iter().filter(moves).count().max(counted.len()),
        rate: median(&rates.collect::<Vec<f64>>()),
    })
}

/// The copies of each byte of a cell as metrics, without an interval since most cells have one trial; or
/// the reasons for which there are none.
pub(crate) fn copy_metrics(
    input: &Input<'_>,
    cell: &CellTrials<'_>,
    copies: &[CellCopies],
) -> Vec<(Metric, Result<Estimate, NoValue>)> {
    let refused = input
        .asked_evidence(Means::Copies)
        .and_then(|asked| asked.refused.as_ref());
    let counted = copies
        .iter()
        .find(|c| c.cell == cell.id)
        .filter(|c| !c.is_flagged_only());
    let own = |e: &&TrialEvidence| e.cell == cell.id && e.copies.is_some();
    let counted_in = input.evidence.iter().filter(own).count();
    let route = cell.route;
    let by_kernel = !cell.by_block.is_empty() && (route.has_peer() || route.is_of_files());
    let of_side = |side: Side| {
        let found = match (counted.map(|c| c.per_byte(side)), refused) {
            (Some(Some(Ok(value))), _) => Ok(Estimate::bare(value, counted_in)),
            (Some(Some(Err(why))), _) => Err(NoValue::Recorded(why)),
            (None, Some(why)) if by_kernel => Err(NoValue::Recorded(why.clone())),
            _ => return None,
        };
        Some((Metric::new(Measure::CopiesPerByte, side), found))
    };
    let sides = [Side::Both, Side::Sender, Side::Receiver];
    sides.into_iter().filter_map(of_side).collect()
}

impl CellCopies {
    /// Copies of each byte on a side, or on both; an error where a place of it is not known, and none
    /// where the side has none.
    pub fn per_byte(&self, side: Side) -> Option<Result<f64, String>> {
        let own = |l: &&LegCopies| side == Side::Both || l.leg.side() == side;
        let mut legs = self.legs.iter().filter(own).peekable();
        legs.peek()?;
        let known = legs.map(|l| {
            let why = || l.absent.clone().unwrap_or_default();
            l.per_byte.ok_or_else(why)
        });
        Some(known.sum())
    }

    /// Copies of each byte at a place, where they are known.
    pub fn at(&self, leg: CopyPlace) -> Option<f64> {
        self.legs.iter().find(|l| l.leg == leg)?.per_byte
    }

    /// Returns true if nothing was counted, so that only the kernel's flags are known.
    pub fn is_flagged_only(&self) -> bool {
        let flags = Some(CopyMeans::CompletionFlags);
        self.legs.iter().all(|l| l.means == flags)
    }

    /// Counted copies of each byte of a zero-copy mover before its reader received it.
    pub fn after_all(&self) -> Option<f64> {
        if self.is_flagged_only() {
            return None;
        }
        Some(self.at(CopyPlace::IntoKernel)? + self.at(CopyPlace::Delivery).unwrap_or(0.0))
    }
}

impl CellCounts {
    /// Returns true for a server and its clients.
    pub fn is_of_server(&self) -> bool {
        self.events.iter().any(|e| e.side == Side::Server)
    }

    /// The number of an event for each message, over all sides but the clients of a server, which
    /// belong to the instrument.
    pub fn per_message(&self, event: CountedEvent) -> Option<f64> {
        let is_counted = |e: &&EventRate| e.event == event && e.side != Side::Client;
        let own = self.events.iter().filter(is_counted);
        let known: Option<Vec<f64>> = own.map(|e| e.per_message).collect();
        let known = known?;
        (!known.is_empty()).then(|| known.iter().sum())
    }
}
