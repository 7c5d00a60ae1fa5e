//! Which cache level gains most from sending without a copy.

use bytecost_spec::{Counter, Measure, Metric};
use bytecost_stats::mean;

use super::zero_copy_from::{is_real, withheld};
use super::{Explained, Why, footprint, why_absent};
use crate::crossovers::{Curve, Ratio};
use crate::phrases;

/// The levels that can be counted: their name, metric and counter.
pub(super) const LEVELS: [(&str, Measure, Counter); 2] = [
    (
        "L1 data cache",
        Measure::L1dLoadMissesPerKib,
        Counter::L1dLoadMisses,
    ),
    (
        "last level cache",
        Measure::LlcLoadMissesPerKib,
        Counter::LlcLoadMisses,
    ),
];

pub(super) fn ask(why: &Why<'_>) -> Option<Explained> {
    let pairs = why.zero_copy_pairs();
    let (zero, copying) = *pairs.first()?;
    let timed = footprint::of(why);
    let smallest_effect = why.view.input.manifest.study.smallest_effect;
    let rows_of_timing = || timed.as_ref().map_or_else(Vec::new, |t| t.rows());
    let told = |answer| Explained {
        answer,
        numbers: rows_of_timing(),
        evidence: timed.as_ref().map_or_else(Vec::new, |t| t.evidence()),
        would_change: "payload from memory that is in no cache (--ring), other sizes, or a path on which the kernel does not copy after all",
        findings: Vec::new(),
    };
    let counted = |level: &(&str, Measure, Counter)| {
        let metric = Metric::both(level.1);
        why.view
            .cells
            .iter()
            .any(|c| c.estimates.contains_key(&metric))
    };
    if let Some((name, measure, counter)) = LEVELS.iter().find(|l| !counted(l)) {
        let reason = why_absent(why.view, Metric::both(*measure), counter.name());
        let uncounted = format!("misses of the {name} cannot be counted here: {reason}");
        return Some(told(match &timed {
            Some(timed) => timed.answer(smallest_effect),
            None => Err(format!("{uncounted}; {}", footprint::how(why))),
        }));
    }
    let curve = pairs.iter().find_map(|(zero, copying)| {
        let curves = why.over_size(copying, zero);
        curves
            .into_iter()
            .find(|c| LEVELS.iter().all(|l| over_sizes(c, l.1).is_some()))
    });
    let Some(curve) = curve else {
        return Some(told(Err(why.why_no_curve(copying, zero))));
    };
    let ratios: Vec<(&str, Ratio)> = LEVELS
        .iter()
        .filter_map(|(name, measure, _)| Some((*name, over_sizes(&curve, *measure)?)))
        .collect();
    if !is_real(why, &curve) {
        return Some(told(Err(withheld(why, &curve.value))));
    }
    let numbers = ratios.iter().map(|(name, r)| {
        format!(
            "`{}` against `{}`, load misses of the {name} per KiB over all sizes: {}",
            curve.value,
            curve.baseline,
            phrases::ratio(r.value, r.low, r.high)
        )
    });
    let rows = LEVELS
        .iter()
        .filter_map(|l| super::row(&curve, Metric::both(l.1)));
    Some(Explained {
        numbers: numbers.chain(rows).chain(rows_of_timing()).collect(),
        ..told(answer(&curve, &ratios, smallest_effect))
    })
}

/// The ratio of the misses, as a mean over the sizes within each block.
fn over_sizes(curve: &Curve<'_>, measure: Measure) -> Option<Ratio> {
    let metric = Metric::both(measure);
    let logs = |p: &crate::crossovers::CurvePoint<'_>| p.pairing.log_ratios_by_block(metric);
    let all: Vec<Vec<(u32, f64)>> = curve.points.iter().map(logs).collect();
    let blocks = all.first()?.iter().map(|(block, _)| *block);
    let means = blocks.filter_map(|block| {
        let of_block = all.iter().map(|logs| {
            let found = logs.iter().find(|(b, _)| *b == block);
            found.map(|(_, log)| *log)
        });
        mean(&of_block.collect::<Option<Vec<f64>>>()?)
    });
    Ratio::of(&means.collect::<Vec<f64>>())
}

fn answer(
    curve: &Curve<'_>,
    ratios: &[(&str, Ratio)],
    smallest_effect: f64,
) -> Result<String, String> {
    let least = ratios.iter().min_by(|a, b| a.1.value.total_cmp(&b.1.value));
    let Some((name, best)) = least else {
        return Err("no level was counted".to_owned());
    };
    let told = phrases::ratio(best.value, best.low, best.high);
    let gains = 1.0 / (1.0 + smallest_effect);
    if ratios.iter().all(|(_, r)| r.high >= gains) {
        return Ok(format!(
            "none was shown to gain: `{}` has {told} the load misses of `{}` in the {name}, where it does best.",
            curve.value, curve.baseline
        ));
    }
    let apart = ratios
        .iter()
        .filter(|(n, _)| n != name)
        .all(|(_, r)| best.high < r.low);
    if !apart {
        return Err(format!(
            "the intervals of the levels overlap: needs more blocks to tell which of them gains most from `{}`",
            curve.value
        ));
    }
    Ok(format!(
        "the {name}: `{}` has {told} its load misses per KiB of `{}`.",
        curve.value, curve.baseline
    ))
}
