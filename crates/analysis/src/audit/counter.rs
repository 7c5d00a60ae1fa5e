//! Whether the first of several counted metrics falls more than the others.

use bytecost_spec::claim::{Contrast, Quantity};
use bytecost_spec::{Cell, Metric};
use bytecost_stats::{Interval, trimmed_mean};

use super::desk::Desk;
use super::draft::{Draft, Item, State};
use super::ratio;
use crate::cells::exp;
use crate::pairing::Pairing;
use crate::{FEWEST, LEVEL, words};

pub(super) fn draft(
    desk: &Desk<'_>,
    contrast: &Contrast,
    metrics: &[Metric],
    cells: Quantity,
) -> Draft {
    let pairs = desk.pairs(contrast);
    let Some((first, others)) = metrics.split_first().filter(|_| !pairs.is_empty()) else {
        return Draft::missing(desk.no_cells(&contrast.place, Some(contrast)));
    };
    let nouns: Vec<String> = others.iter().map(|m| words::metric(*m)).collect();
    let cells_of: Vec<&Cell> = pairs.iter().map(|p| p.other.cell).collect();
    let places = desk.places(&cells_of, &[contrast.axis]);
    Draft {
        subject: ratio::subject(contrast, *first),
        expected: format!("below that of {}", words::list(&nouns)),
        noun: "cell",
        cells,
        items: pairs
            .iter()
            .zip(places)
            .map(|(pair, place)| Item {
                place,
                stalled: desk.stalls_apart(pair),
                twin: ratio::twin(pair),
                ..item(desk, pair, metrics)
            })
            .collect(),
        note: None,
        missing: None,
    }
}

fn item(desk: &Desk<'_>, pair: &Pairing<'_, '_>, metrics: &[Metric]) -> Item {
    let mut intervals: Vec<Interval> = Vec::new();
    let mut texts = Vec::new();
    let mut why = None;
    for metric in metrics {
        let logs = pair.log_ratios(*metric);
        let location = trimmed_mean(&logs).filter(|_| logs.len() >= FEWEST);
        match location.and_then(|l| Some((l, l.interval(LEVEL)?))) {
            Some((location, interval)) => {
                let text = ratio::times(exp(location.value));
                texts.push(format!("{} {text}", words::metric(*metric)));
                intervals.push(interval);
            }
            None => why = why.or_else(|| Some(ratio::absent(desk, pair, *metric))),
        }
    }
    let state = match (why, intervals.split_first()) {
        (Some(why), _) => State::Open(why),
        (None, Some((first, others))) if others.iter().all(|o| first.high < o.low) => State::Met,
        (None, Some((first, others))) if others.iter().any(|o| first.low > o.high) => State::NotMet,
        _ => State::Open("their intervals overlap".to_owned()),
    };
    Item {
        value: intervals.first().map_or(0.0, |i| i.low),
        place: String::new(),
        state,
        published: None,
        measured: (!texts.is_empty()).then(|| texts.join(", ")),
        finding: None,
        stalled: false,
        twin: String::new(),
    }
}
