//! A metric at one value of an axis over the same at another.

use bytecost_spec::claim::{Contrast, Expected, Quantity};
use bytecost_spec::{Axis, Better, Cell, Measure, Metric, units};
use bytecost_stats::trimmed_mean;

use super::claim_test::{CaseResult, ClaimTest, Family, Item, tested};
use super::context::ClaimContext;
use crate::cells::exp;
use crate::confidence::{FEWEST, LEVEL};
use crate::pairing::Pairing;
use crate::phrases;
use crate::result::{Finding, Verdict};

pub(super) fn draft(
    context: &ClaimContext<'_>,
    contrast: &Contrast,
    metric: Metric,
    expect: Expected,
    cells: Quantity,
    family: &mut Family,
) -> ClaimTest {
    let pairs = context.pairs(contrast);
    if pairs.is_empty() {
        return ClaimTest::missing(context.no_cells(&contrast.place, Some(contrast)));
    }
    let cells_of: Vec<&Cell> = pairs.iter().map(|p| p.other.cell).collect();
    let places = context.places(&cells_of, &[contrast.axis]);
    let items = pairs
        .iter()
        .zip(places)
        .map(|(pair, place)| Item {
            place,
            stalled: !is_counted(metric) && context.stalls_apart(pair),
            twin: twin(pair),
            ..compared(context, pair, metric, expect, family)
        })
        .collect();
    ClaimTest {
        subject: subject(contrast, metric),
        expected: expect.to_string(),
        noun: "cell",
        cells,
        items,
        note: context.copied_note(&pairs),
        missing: None,
    }
}

/// ``throughput of `sendmsg` over `send-fields` ``.
pub(super) fn subject(contrast: &Contrast, metric: Metric) -> String {
    format!(
        "{} of {} over {}",
        phrases::metric(metric),
        contrast.axis.subject(&contrast.value),
        contrast.axis.subject(&contrast.against)
    )
}

/// Whether a metric is a count of calls, to which a timer makes no difference.
fn is_counted(metric: Metric) -> bool {
    matches!(
        metric.measure,
        Measure::CallsPerMessage | Measure::CallsPerMib
    )
}

/// The name of a pair without what timers it is under.
pub(super) fn twin(pair: &Pairing<'_, '_>) -> String {
    let timers = [Axis::Nodelay, Axis::Cork, Axis::Quickack];
    let free = [&timers[..], &[pair.axis, Axis::Reaping]].concat();
    pair.other.cell.id_without(&free)
}

/// A pair's ratio held against what is expected, without its place.
pub(super) fn compared(
    context: &ClaimContext<'_>,
    pair: &Pairing<'_, '_>,
    metric: Metric,
    expect: Expected,
    family: &mut Family,
) -> Item {
    let own = context.finding(metric, &pair.baseline.id, &pair.other.id);
    let logs = pair.log_ratios(metric);
    let location = trimmed_mean(&logs).filter(|_| logs.len() >= FEWEST);
    let interval = location.and_then(|l| l.interval(LEVEL));
    let bound = context.input.manifest.study.smallest_effect.ln_1p();
    let tiny = interval.is_some_and(|i| i.low >= -bound && i.high <= bound);
    let bare = matches!(expect, Expected::Above(b) | Expected::Below(b) if b == 1.0);
    let state = match (&location, own) {
        (None, _) => CaseResult::Open(absent(context, pair, metric)),
        (Some(_), _) if tiny && expect == Expected::Alike => CaseResult::Met,
        (Some(_), _) if tiny && bare => CaseResult::NotMet,
        // What a timer withholds is weighed as such.
        (Some(_), Some((finding, turned))) if bare && !context.stalls_apart(pair) => {
            by_finding(finding, turned, expect)
        }
        (Some(location), _) => tested(location, expect, f64::ln, family),
    };
    Item {
        value: location.map_or(0.0, |l| l.value),
        place: String::new(),
        state,
        published: published(context, pair, metric),
        measured: location.zip(interval).map(|(l, i)| {
            format!(
                "{} ({} to {})",
                times(exp(l.value)),
                times(exp(i.low)),
                times(exp(i.high))
            )
        }),
        finding: own.map(|(finding, _)| finding.id.clone()),
        stalled: false,
        twin: String::new(),
    }
}

/// The verdict of the run, as it is in its report.
fn by_finding(finding: &Finding, turned: bool, expect: Expected) -> CaseResult {
    let higher = match (finding.metric.better(), finding.verdict) {
        (Better::Higher, Verdict::Better) | (Better::Lower, Verdict::Worse) => true,
        (Better::Higher, Verdict::Worse) | (Better::Lower, Verdict::Better) => false,
        (_, Verdict::NoDifferenceThatMatters) => return CaseResult::NotMet,
        (_, Verdict::NotDecided) => return CaseResult::Open(finding.sentence.clone()),
    };
    if (higher != turned) == matches!(expect, Expected::Above(_)) {
        CaseResult::Met
    } else {
        CaseResult::NotMet
    }
}

fn published(context: &ClaimContext<'_>, pair: &Pairing<'_, '_>, metric: Metric) -> Option<String> {
    let cells = [pair.other.cell, pair.baseline.cell];
    let (above, below) = context.published_pair(cells, metric)?;
    let both = format!("{} against {}", units::number(above), units::number(below));
    Some(if below > 0.0 {
        format!("{} ({both})", times(above / below))
    } else {
        both
    })
}

/// Why a pair has no ratio.
pub(super) fn absent(context: &ClaimContext<'_>, pair: &Pairing<'_, '_>, metric: Metric) -> String {
    for cell in [pair.other, pair.baseline] {
        let why = context.result(&cell.id).and_then(|r| r.absent.get(&metric));
        if let Some(why) = why {
            return format!("{} cannot be had: {why}", phrases::metric(metric));
        }
    }
    if let Some(failure) = [pair.other, pair.baseline]
        .iter()
        .find_map(|c| c.failures.first())
    {
        return format!("trials failed: {}", failure.reason);
    }
    format!(
        "too few blocks measured both in {}",
        phrases::metric(metric)
    )
}

/// A ratio: `1.80×`.
pub(super) fn times(ratio: f64) -> String {
    format!("{}×", units::number(ratio))
}
