//! Two groups of trials in words.

use bytecost_analysis::{PartingReading, TwoGroups};
use bytecost_spec::units;

/// The means of both groups: `16.1 or 49.8`.
pub(crate) fn means(groups: &TwoGroups) -> String {
    let [low, high] = [groups.lower, groups.upper].map(|g| units::number(g.value));
    format!("{low} or {high}")
}

/// The quantiles, the unit and the shares of both groups, and the reading that differs between them:
/// `13–20 or 42–60 s/GB, about half each: segments a message 0.1–0.27 or 1`.
pub(crate) fn ranges(groups: &TwoGroups) -> String {
    let both = [groups.lower, groups.upper];
    let [lower, upper] = both.map(|group| range(group.low, group.high));
    let unit = groups.metric.measure.row().unit;
    let shares = if (0.4..=0.6).contains(&groups.upper.share) {
        "about half each".to_owned()
    } else {
        let [fewer, more] = both.map(|g| units::percent(percent(g.share)));
        format!("{fewer} and {more} of the trials")
    };
    let parted_by = groups.parted_by.as_ref().map(|by| {
        let [low, high] = [by.lower, by.upper].map(|[low, high]| range(low, high));
        format!(": {} {low} or {high}", reading(by.reading))
    });
    format!(
        "{lower} or {upper} {unit}, {shares}{}",
        parted_by.unwrap_or_default()
    )
}

/// A reading that differs between two groups, with its unit.
fn reading(reading: PartingReading) -> &'static str {
    match reading {
        PartingReading::SegmentsPerMessage => "segments a message",
        PartingReading::DelayedAcksPerMessage => "delayed acknowledgements a message",
        PartingReading::ContextSwitchesPerMessage => "context switches a message",
        PartingReading::CallsPerMessage => "calls a message",
        PartingReading::PageFaultsPerMessage => "page faults a message",
        PartingReading::CopiedShare => "share of copied buffers",
        PartingReading::CoreToCoreNs => "ns from core to core",
        PartingReading::MigrationsPerS => "migrations a second",
        PartingReading::NeighbourShare => {
            "share of the machine's CPU time that other processes used"
        }
        PartingReading::StealShare => "share of the machine's CPU time that was stolen",
    }
}

/// A share in whole percent.
fn percent(share: f64) -> f64 {
    (100.0 * share).round() / 100.0
}

/// `13–20`, or one number where both read alike.
fn range(low: f64, high: f64) -> String {
    match [low, high].map(units::short_number) {
        [low, high] if low == high => low,
        [low, high] => format!("{low}–{high}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytecost_analysis::{PartedBy, TrialGroup};
    use bytecost_spec::{Measure, Metric};

    #[test]
    fn groups_have_their_ranges_their_shares_and_what_differs_between_them() {
        let group = |share, low, high| TrialGroup {
            share,
            value: (low + high) / 2.0,
            low,
            high,
        };
        let mut groups = TwoGroups {
            metric: Metric::both(Measure::CpuSPerGb),
            lower: group(0.5, 13.0, 20.0),
            upper: group(0.5, 42.0, 60.0),
            parted_by: Some(PartedBy {
                reading: PartingReading::SegmentsPerMessage,
                lower: [0.2, 0.2],
                upper: [1.0, 1.0],
            }),
        };
        let halves = "13–20 or 42–60 s/GB, about half each: segments a message 0.2 or 1";
        assert_eq!(ranges(&groups), halves);
        assert_eq!(means(&groups), "16.5 or 51.0");
        (groups.lower.share, groups.upper.share, groups.parted_by) = (0.25, 0.75, None);
        let quarters = "13–20 or 42–60 s/GB, 25 % and 75 % of the trials";
        assert_eq!(ranges(&groups), quarters);
    }
}
