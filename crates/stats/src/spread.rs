//! Mean, quantiles, variance and autocorrelation.

/// Returns true if a slice is not empty and all its values are finite.
pub(crate) fn usable(values: &[f64]) -> bool {
    !values.is_empty() && values.iter().all(|v| v.is_finite())
}

pub(crate) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// The arithmetic mean; `None` for nothing and for what is not finite.
pub fn mean(values: &[f64]) -> Option<f64> {
    usable(values).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The sample variance (divisor n − 1); `None` for fewer than two values.
pub fn variance(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    Some(squares / (values.len() - 1) as f64)
}

/// The median: the mean of the two middle values where their number is even.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// A quantile by linear interpolation between order statistics: type 7 of Hyndman and Fan
/// ("Sample quantiles in statistical packages", 1996), the default of R and NumPy.
///
/// `share` goes from 0 (least) to 1 (most); `None` outside, and for nothing.
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    if !usable(values) || !(0.0..=1.0).contains(&share) {
        return None;
    }
    let sorted = sorted(values);
    let position = share * (sorted.len() - 1) as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    Some(sorted[below] + (position - below as f64) * (sorted[above] - sorted[below]))
}

/// The autocorrelation between neighbours in a series: 0 for independent values, near 1 where
/// each is like the one before.
///
/// `None` for fewer than three values and for a constant series.
pub fn lag1_autocorrelation(values: &[f64]) -> Option<f64> {
    if values.len() < 3 {
        return None;
    }
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    if squares <= 0.0 {
        return None;
    }
    let products = values.windows(2).map(|w| (w[0] - mean) * (w[1] - mean));
    Some(products.sum::<f64>() / squares)
}
