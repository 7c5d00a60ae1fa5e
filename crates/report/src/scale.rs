//! Scales of a figure: where a value lies between the two ends of an axis, and its ticks.

use itertools::Itertools as _;

/// The span of values from which on an axis of values is logarithmic.
const LOG_FROM: f64 = 30.0;

/// The axis of values, upwards.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scale {
    /// True for a logarithmic axis. A linear one begins at zero.
    pub log: bool,
    pub from: f64,
    pub to: f64,
    /// Values with a line and a number.
    pub ticks: Vec<f64>,
}

impl Scale {
    /// A logarithmic scale of ratios, with a line at 1.
    pub(crate) fn of_ratios(values: impl Iterator<Item = f64>) -> Scale {
        let positive = values.filter(|v| v.is_finite() && *v > 0.0);
        let (least, most) = positive.fold((1.0_f64, 1.0_f64), |(a, b), v| (a.min(v), b.max(v)));
        Scale::log(least.min(0.8), most.max(1.25))
    }

    /// A scale that includes all values; values that are not finite or below zero are left out.
    pub(crate) fn of(values: impl Iterator<Item = f64> + Clone) -> Scale {
        let usable = values.filter(|v| v.is_finite() && *v >= 0.0);
        let positive = usable.clone().filter(|v| *v > 0.0);
        let least = positive.fold(f64::INFINITY, f64::min);
        let most = usable.clone().fold(0.0, f64::max);
        let has_zero = usable.clone().any(|v| v == 0.0);
        if most <= 0.0 {
            return Scale::linear(1.0);
        }
        if !has_zero && most / least > LOG_FROM {
            Scale::log(least, most)
        } else {
            Scale::linear(most)
        }
    }

    fn linear(most: f64) -> Scale {
        let rough = most / 4.0;
        let decade = 10_f64.powf(rough.log10().floor());
        let mut round = [1.0, 2.0, 2.5, 5.0].map(|m| m * decade).into_iter();
        let fits = |step: &f64| *step >= rough * 0.999;
        let step = round.find(fits).unwrap_or(10.0 * decade);
        let steps = (most / step).ceil().max(1.0);
        Scale {
            log: false,
            from: 0.0,
            to: step * steps,
            ticks: (0..=steps as u32).map(|i| f64::from(i) * step).collect(),
        }
    }

    fn log(least: f64, most: f64) -> Scale {
        let first = least.log10().floor() as i32;
        let last = most.log10().ceil() as i32;
        let steps: Vec<(f64, f64)> = (first..=last)
            .cartesian_product([1.0, 2.0, 5.0])
            .map(|(decade, m)| (m, m * 10_f64.powi(decade)))
            .collect();
        let below = |v: f64| steps.iter().map(|s| s.1).rfind(|s| *s <= v * 1.000_001);
        let above = |v: f64| steps.iter().map(|s| s.1).find(|s| *s >= v * 0.999_999);
        let (from, to) = (below(least).unwrap_or(least), above(most).unwrap_or(most));
        let only_decades = (to / from).log10() > 3.5;
        let within = |s: f64| s >= from * 0.999_999 && s <= to * 1.000_001;
        let is_shown = |(m, s): &&(f64, f64)| within(*s) && (!only_decades || *m == 1.0);
        Scale {
            log: true,
            from,
            to,
            ticks: steps.iter().filter(is_shown).map(|(_, s)| *s).collect(),
        }
    }

    /// Position of a value, from 0 at the lower end to 1 at the upper.
    pub(crate) fn share(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(self.from) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        share.clamp(0.0, 1.0)
    }
}

/// Positions of the values across, from 0 to 1: by their logarithm where they are numbers that span
/// more than a factor of four, in proportion where they are other numbers, else evenly.
pub(crate) fn places(numbers: Option<&[f64]>, count: usize) -> Vec<f64> {
    let is_usable = |n: &&[f64]| {
        n.len() == count && n.is_sorted() && n.iter().all(|n| n.is_finite()) && n.len() > 1
    };
    let usable = numbers.filter(is_usable).unwrap_or_default();
    let first = usable.first().copied().unwrap_or_default();
    let last = usable.last().copied().unwrap_or_default();
    if last <= first {
        let steps = count.saturating_sub(1) as f64;
        let place = |i| if count == 1 { 0.5 } else { i as f64 / steps };
        return (0..count).map(place).collect();
    }
    let log = first > 0.0 && last / first >= 4.0;
    let place = |n: f64| if log { n.log2() } else { n };
    let width = place(last) - place(first);
    let share = |n: &f64| (place(*n) - place(first)) / width;
    usable.iter().map(share).collect()
}

/// A place, and from it so much further down.
pub(crate) fn down(y: &mut f64, height: f64) -> f64 {
    *y += height;
    *y - height
}

/// The number at a tick: no more digits than it needs.
pub(crate) fn tick(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    for (unit, letter) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if value >= 10_000.0 && value >= unit {
            return format!("{}{letter}", tick(value / unit));
        }
    }
    if value >= 1000.0 {
        return crate::numbers::whole(value.round() as u64);
    }
    let decimals = (2 - value.log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{value:.decimals$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_span_begins_at_zero_and_a_wide_one_is_logarithmic() {
        let check = |values: &[f64], log: bool, ticks: &str| {
            let scale = Scale::of(values.iter().copied());
            let found: Vec<String> = scale.ticks.iter().map(|t| tick(*t)).collect();
            assert_eq!((scale.log, &*found.join(" ")), (log, ticks), "{values:?}");
        };
        check(&[36.8, 98.3], false, "0 25 50 75 100");
        check(&[0.9, 101.8], true, "0.5 1 2 5 10 20 50 100 200");
        check(&[0.0, 1000.0], false, "0 250 500 750 1,000");
        check(&[], false, "0 0.25 0.5 0.75 1");
        check(&[f64::NAN, 3.0], false, "0 1 2 3");
        check(&[1e-3, 1e4], true, "0.001 0.01 0.1 1 10 100 1,000 10k");
        // Throughput and latency of cells of which some wait for a delayed acknowledgement.
        check(&[0.0012, 39.7], true, "0.001 0.01 0.1 1 10");
        check(&[5.2, 40_900.0], true, "10 100 1,000 10k");
        check(&[42.0, 3_900_000.0], true, "100 1,000 10k 100k 1M");
    }

    #[test]
    fn every_value_lies_on_the_scale() {
        for values in [[0.033, 8.75], [5.0, 6.0], [1e-9, 1e9], [7.0, 7.0]] {
            let scale = Scale::of(values.into_iter());
            for v in values {
                assert!(scale.from <= v && v <= scale.to, "{v} in {scale:?}");
            }
        }
    }

    #[test]
    fn sizes_lie_by_their_logarithm() {
        let check = |numbers: Option<&[f64]>, count: usize, expected: &[f64]| {
            assert_eq!(places(numbers, count), expected);
        };
        check(Some(&[256.0, 4096.0, 65_536.0]), 3, &[0.0, 0.5, 1.0]);
        check(Some(&[1.0, 2.0, 3.0]), 3, &[0.0, 0.5, 1.0]);
        check(None, 3, &[0.0, 0.5, 1.0]);
        check(Some(&[5.0]), 1, &[0.5]);
        check(None, 0, &[]);
    }
}
