//! Statistics on slices of numbers: locations with intervals, tests, corrections, power.
//!
//! In the order of use: [`trimmed_mean`] estimates the [`Location`] of a cell's log ratios, to which
//! [`mean_of_rounds`] adds what varies between rounds; [`Moderation`] lends variance from other
//! comparisons; [`tail_ratio`] compares quantiles of latency histograms; [`holm`] and [`false_discovery`]
//! correct p values; [`blocks_needed`] and [`smallest_detectable`] are about power. [`Generator`] draws the
//! random numbers of orders and tests.
//!
//! No function panics on empty, short or non-finite input: a value that cannot be computed is `None`.
//! Everything is deterministic, and nothing knows of bytes or machines. Start with `location.rs`.

mod counts;
mod distribution;
mod false_discovery;
mod generator;
mod halving;
mod holm;
mod latency_histogram;
mod location;
mod moderation;
mod power;
mod rounds;
mod spread;
mod tail;
mod trend;

pub use counts::{at_least, poisson_interval, share_interval};
pub use distribution::{t_quantile, t_two_sided_p};
pub use false_discovery::false_discovery;
pub use generator::Generator;
pub use halving::least;
pub use holm::holm;
pub use latency_histogram::LatencyHistogram;
pub use location::{
    BetweenRounds, Interval, Location, Replicates, TRIM, TRIMMED_DEGREES_FACTOR, student_mean,
    trimmed_mean, trimmed_mean_value,
};
pub use moderation::Moderation;
pub use power::{POWER, RatioVariation, blocks_needed, power, smallest_detectable};
pub use rounds::{FEWEST_ROUNDS, RoundEstimate, RoundVariances, between_rounds, mean_of_rounds};
pub use spread::{lag1_autocorrelation, mean, median, quantile, variance};
pub use tail::{
    BlockTrials, Distribution, TestedLocation, tail_quantile, tail_ratio, tail_with_rounds,
};
pub use trend::{Trend, mann_kendall};
