//! Numbers for readers: estimates, intervals, ratios, p values.

use bytecost_analysis::{Estimate, Finding};
use bytecost_spec::units;
pub(crate) use bytecost_spec::units::whole;

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

/// A number as a superscript, for footnotes.
pub(crate) fn superscript(n: usize) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let digits = n.to_string();
    let digits = digits.chars().filter_map(|c| c.to_digit(10));
    digits.map(|d| DIGITS[d as usize]).collect()
}

#[cfg(test)]
mod tests {
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
}
