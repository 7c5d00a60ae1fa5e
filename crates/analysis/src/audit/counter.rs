//! Whether the first of several counted metrics falls more than the others.

use bytecost_spec::claim::{Contrast, Quantity};
use bytecost_spec::{Cell, Measure, Metric};
use bytecost_stats::{Interval, trimmed_mean};

use super::claim_test::{CaseResult, ClaimTest, Item};
use super::context::ClaimContext;
use super::ratio;
use crate::cells::exp;
use crate::confidence::{FEWEST, LEVEL};
use crate::footprint::against;
use crate::pairing::Pairing;
use crate::phrases;

/// How an item begins that no counter has told.
const BY_TIMING: &str = "by timing";
/// What is said of such items.
const INSTEAD: &str = "No counter told this: what is displaced from the caches of the sending CPU was found by timing (prime and probe) instead.";

pub(super) fn draft(
    context: &ClaimContext<'_>,
    contrast: &Contrast,
    metrics: &[Metric],
    cells: Quantity,
) -> ClaimTest {
    let pairs = context.pairs(contrast);
    let Some((first, others)) = metrics.split_first().filter(|_| !pairs.is_empty()) else {
        return ClaimTest::missing(context.no_cells(&contrast.place, Some(contrast)));
    };
    let nouns: Vec<String> = others.iter().map(|m| phrases::metric(*m)).collect();
    let cells_of: Vec<&Cell> = pairs.iter().map(|p| p.other.cell).collect();
    let places = context.places(&cells_of, &[contrast.axis]);
    let items = pairs.iter().zip(places).map(|(pair, place)| Item {
        place,
        stalled: context.stalls_apart(pair),
        twin: ratio::twin(pair),
        ..item(context, pair, metrics)
    });
    let items: Vec<Item> = items.collect();
    let timed = |i: &Item| {
        i.measured
            .as_ref()
            .is_some_and(|m| m.starts_with(BY_TIMING))
    };
    ClaimTest {
        subject: ratio::subject(contrast, *first),
        expected: format!("below that of {}", phrases::list(&nouns)),
        noun: "cell",
        cells,
        note: items.iter().any(timed).then(|| INSTEAD.to_owned()),
        items,
        missing: None,
    }
}

fn item(context: &ClaimContext<'_>, pair: &Pairing<'_, '_>, metrics: &[Metric]) -> Item {
    let mut intervals: Vec<Interval> = Vec::new();
    let mut texts = Vec::new();
    let mut why = None;
    for metric in metrics {
        let logs = pair.log_ratios(*metric);
        let location = trimmed_mean(&logs).filter(|_| logs.len() >= FEWEST);
        match location.and_then(|l| Some((l, l.interval(LEVEL)?))) {
            Some((location, interval)) => {
                let text = ratio::times(exp(location.value));
                texts.push(format!("{} {text}", phrases::metric(*metric)));
                intervals.push(interval);
            }
            None => why = why.or_else(|| Some(ratio::absent(context, pair, *metric))),
        }
    }
    let timed = why.as_ref().and_then(|_| by_timing(context, pair, metrics));
    if let Some((state, told)) = timed {
        return Item {
            state,
            measured: Some(told),
            ..bare()
        };
    }
    let state = match (why, intervals.split_first()) {
        (Some(why), _) => CaseResult::Open(why),
        (None, Some((first, others))) if others.iter().all(|o| first.high < o.low) => {
            CaseResult::Met
        }
        (None, Some((first, others))) if others.iter().any(|o| first.low > o.high) => {
            CaseResult::NotMet
        }
        _ => CaseResult::Open("their intervals overlap".to_owned()),
    };
    Item {
        value: intervals.first().map_or(0.0, |i| i.low),
        state,
        measured: (!texts.is_empty()).then(|| texts.join(", ")),
        ..bare()
    }
}

/// An item of which nothing is known.
fn bare() -> Item {
    Item {
        value: 0.0,
        place: String::new(),
        state: CaseResult::Open("nothing was read".to_owned()),
        published: None,
        measured: None,
        finding: None,
        stalled: false,
        twin: String::new(),
    }
}

/// Where the nearest and the last cache were to be counted and were not: what is displaced from
/// them, found by timing.
fn by_timing(
    context: &ClaimContext<'_>,
    pair: &Pairing<'_, '_>,
    metrics: &[Metric],
) -> Option<(CaseResult, String)> {
    const CACHES: [Metric; 2] = [
        Metric::both(Measure::L1dLoadMissesPerKib),
        Metric::both(Measure::LlcLoadMissesPerKib),
    ];
    let of = |id: &str| context.analysis.footprints.iter().find(|f| f.cell == id);
    let (one, baseline) = (of(&pair.other.id)?, of(&pair.baseline.id)?);
    let levels = [one.levels.first()?.level, one.levels.last()?.level];
    if metrics != CACHES || levels[0] == levels[1] {
        return None;
    }
    let ratio = |level| against(&[(one.level(level)?, baseline.level(level)?)]);
    let (near, last) = (ratio(levels[0])?, ratio(levels[1])?);
    let told = format!(
        "{BY_TIMING}: displaced from L{} {}, from L{} {}",
        levels[0],
        ratio::times(near.value),
        levels[1],
        ratio::times(last.value)
    );
    let state = if near.high < last.low {
        CaseResult::Met
    } else if near.low > last.high {
        CaseResult::NotMet
    } else {
        CaseResult::Open("their intervals, found by timing, overlap".to_owned())
    };
    Some((state, told))
}
