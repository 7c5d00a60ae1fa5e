//! Numbers for readers: estimates, intervals, ratios, p values.

use bytecost_analysis::{Estimate, Finding};
pub(crate) use bytecost_spec::units::whole;
use bytecost_spec::{Metric, units};

/// A ratio with the sign of multiplication: `0.37×`, `12.3×`.
pub(crate) fn ratio(r: f64) -> String {
    format!("{}×", bare_ratio(r))
}

pub(crate) fn bare_ratio(r: f64) -> String {
    if !r.is_finite() {
        "–".to_owned()
    } else if r >= 99.95 {
        units::number(r)
    } else if r >= 9.995 {
        format!("{r:.1}")
    } else if r >= 0.095 || r <= 0.0 {
        format!("{r:.2}")
    } else {
        // Two digits that count, so that what is small is never written as nothing.
        let decimals = (1.0 - r.log10().floor()).clamp(3.0, 9.0) as usize;
        format!("{r:.decimals$}")
    }
}

/// A share as a percentage: `5 %`, with a space that does not break.
pub(crate) fn percent(share: f64) -> String {
    units::percent(share).replace(' ', "\u{a0}")
}

/// A duration for readers: `20 ms`, `1.5 s`.
pub(crate) fn milliseconds(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms}\u{a0}ms"),
        _ => format!("{}\u{a0}s", ms as f64 / 1000.0),
    }
}

/// A p value: `0.012`, `< 0.001`.
pub(crate) fn p_value(p: f64) -> String {
    if !p.is_finite() {
        "–".to_owned()
    } else if p < 0.001 {
        "< 0.001".to_owned()
    } else {
        format!("{p:.3}")
    }
}

/// The interval of an estimate in words: `61.2 to 63.8`.
pub(crate) fn interval(e: &Estimate) -> Option<String> {
    let (low, high) = e.low.zip(e.high)?;
    Some(format!("{} to {}", units::number(low), units::number(high)))
}

/// The interval of a ratio in words: `0.35 to 0.39`.
pub(crate) fn ratios(low: f64, high: f64) -> String {
    format!("{} to {}", bare_ratio(low), bare_ratio(high))
}

pub(crate) fn ratio_interval(f: &Finding) -> String {
    ratios(f.low, f.high)
}

pub(crate) fn superscript(n: usize) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let text = n.to_string();
    let digits = text.chars().filter_map(|c| c.to_digit(10));
    digits.map(|d| DIGITS[d as usize]).collect()
}

/// An amount in its metric's unit; a rate far below that unit is in a smaller one.
pub(crate) fn amount(metric: Metric, value: f64) -> String {
    match scaled(metric, value) {
        (number, Some(unit)) => format!("{number} {unit}"),
        (number, None) => number,
    }
}

/// Returns true if [`amount`] gives a value in its metric's unit.
pub(crate) fn is_in_usual_unit(metric: Metric, value: f64) -> bool {
    scaled(metric, value).1.is_none()
}

/// An amount with its unit.
pub(crate) fn amount_with_unit(metric: Metric, value: f64) -> String {
    let usual = metric.measure.row().unit;
    let (number, unit) = match scaled(metric, value) {
        (_, None) if usual == "Gbit/s" && value < 1.0 => (units::number(1e3 * value), "Mbit/s"),
        (number, unit) => (number, unit.unwrap_or(usual)),
    };
    format!("{number} {unit}").trim_end().to_owned()
}

/// A number, with its unit where that is smaller than the metric's.
fn scaled(metric: Metric, value: f64) -> (String, Option<&'static str>) {
    let is_rate = metric.measure.row().unit == "Gbit/s";
    match value {
        _ if !is_rate || value <= 0.0 || value >= 1e-3 => (units::number(value), None),
        1e-6.. => (units::number(1e6 * value), Some("kbit/s")),
        _ => (units::number(1e9 * value), Some("bit/s")),
    }
}

#[cfg(test)]
mod tests {
    use bytecost_spec::Measure;

    use super::*;

    #[test]
    fn ratios_keep_what_can_be_told_apart() {
        for (r, text) in [
            (1.0, "1.00×"),
            (0.374, "0.37×"),
            (0.0421, "0.042×"),
            (0.005, "0.0050×"),
            (0.00043, "0.00043×"),
            (12.34, "12.3×"),
            (9.996, "10.0×"),
            (1234.0, "1,234×"),
            (f64::NAN, "–×"),
        ] {
            assert_eq!(ratio(r), text);
        }
    }

    #[test]
    fn small_p_values_are_not_written_as_zero() {
        for (p, text) in [(0.0, "< 0.001"), (0.0123, "0.012"), (1.0, "1.000")] {
            assert_eq!(p_value(p), text);
        }
    }

    #[test]
    fn footnotes_have_all_their_digits() {
        assert_eq!(superscript(12), "¹²");
    }

    #[test]
    fn a_low_rate_has_a_smaller_unit() {
        let rate = |value| amount(Metric::both(Measure::ThroughputGbitPerS), value);
        assert_eq!(rate(0.000_047), "47.0 kbit/s");
        assert_eq!(rate(13.0), "13.0");
        assert_eq!(rate(0.000_000_2), "200 bit/s");
        let latency = amount(Metric::both(Measure::LatencyUsP50), 0.000_4);
        assert_eq!(latency, "0.000400");
    }
}
