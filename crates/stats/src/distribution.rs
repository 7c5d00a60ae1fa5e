//! Student's t distribution, with errors as `None`.

use statrs::distribution::{ContinuousCDF, StudentsT};
use statrs::function::beta::checked_beta_reg;

/// The quantile of Student's t distribution.
///
/// `probability` lies strictly between 0 and 1; `degrees` is positive and need not be whole.
/// `None` where they are not.
pub fn t_quantile(probability: f64, degrees: f64) -> Option<f64> {
    let fits = probability > 0.0 && probability < 1.0 && degrees > 0.0 && degrees.is_finite();
    if !fits {
        return None;
    }
    if probability == 0.5 {
        return Some(0.0);
    }
    let t = StudentsT::new(0.0, 1.0, degrees)
        .ok()?
        .inverse_cdf(probability);
    t.is_finite().then_some(t)
}

/// The probability that a t distributed number lies at least as far from 0 as `t`.
///
/// Exact in the tails, where one minus the distribution function would be rounded away. `None`
/// for a `t` that is no number or `degrees` that are not positive; an infinite `t` has p 0.
pub fn t_two_sided_p(t: f64, degrees: f64) -> Option<f64> {
    if t.is_nan() || degrees.is_nan() || degrees <= 0.0 || degrees.is_infinite() {
        return None;
    }
    if t.is_infinite() {
        return Some(0.0);
    }
    let x = degrees / (degrees + t * t);
    checked_beta_reg(degrees / 2.0, 0.5, x).ok()
}
