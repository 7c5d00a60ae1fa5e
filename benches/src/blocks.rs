//! Alternation: every block measures each subject once, in random order, and comparisons are
//! made within blocks, so that slow drift of the machine hits all subjects alike.

use anyhow::{Result, bail};
use bytecost_stats::{Generator, Location, trimmed_mean, trimmed_mean_value};

/// A program or a way of moving bytes that is compared with others.
pub struct Subject<'a, T> {
    pub name: String,
    /// Measures it once, in fresh processes.
    pub measure: Box<dyn FnMut() -> Result<T> + 'a>,
}

impl<'a, T> Subject<'a, T> {
    pub fn new(name: impl Into<String>, measure: impl FnMut() -> Result<T> + 'a) -> Self {
        Subject {
            name: name.into(),
            measure: Box::new(measure),
        }
    }
}

/// The measurements of all blocks.
#[derive(Debug)]
pub struct Blocks<T> {
    /// The blocks without a failure, each with its measurements in the order of the subjects.
    pub whole: Vec<Vec<T>>,
    /// A line for each measurement that failed, with the reason.
    pub failures: Vec<String>,
}

/// Measures every subject once in each of `blocks` blocks.
///
/// # Errors
/// Fewer than two blocks without a failure, of which no interval can be made. If the first two blocks
/// have failures, no others are tried.
pub fn alternate<T>(
    mut subjects: Vec<Subject<'_, T>>,
    blocks: u32,
    seed: u64,
) -> Result<Blocks<T>> {
    let mut generator = Generator::new(seed);
    let mut order: Vec<usize> = (0..subjects.len()).collect();
    let mut result = Blocks {
        whole: Vec::new(),
        failures: Vec::new(),
    };
    for block in 0..blocks {
        generator.shuffle(&mut order);
        let mut measured: Vec<Option<T>> = subjects.iter().map(|_| None).collect();
        for &i in &order {
            match (subjects[i].measure)() {
                Ok(value) => measured[i] = Some(value),
                Err(e) => result
                    .failures
                    .push(format!("block {block}: {}: {e:#}", subjects[i].name)),
            }
        }
        if let Some(whole) = measured.into_iter().collect() {
            result.whole.push(whole);
        }
        if block >= 1 && result.whole.is_empty() {
            break;
        }
    }
    if result.whole.len() < 2 {
        bail!(
            "fewer than two whole blocks: {}",
            result.failures.join("; ")
        );
    }
    Ok(result)
}

impl<T> Blocks<T> {
    /// The logarithm of the ratio of one subject to another, paired within blocks; none if a value
    /// is not positive.
    pub fn log_ratio(&self, of: usize, to: usize, value: impl Fn(&T) -> f64) -> Option<Location> {
        let ratios: Vec<f64> = self
            .whole
            .iter()
            .map(|block| (value(&block[of]) / value(&block[to])).ln())
            .collect();
        trimmed_mean(&ratios)
    }

    /// The difference of one subject to another, paired within blocks.
    pub fn difference(&self, of: usize, to: usize, value: impl Fn(&T) -> f64) -> Option<Location> {
        let differences: Vec<f64> = self
            .whole
            .iter()
            .map(|block| value(&block[of]) - value(&block[to]))
            .collect();
        trimmed_mean(&differences)
    }

    /// The logarithm of a value of one subject; none if a value is not positive.
    pub fn log_value(&self, of: usize, value: impl Fn(&T) -> f64) -> Option<Location> {
        let logs: Vec<f64> = self.values(of, value).into_iter().map(f64::ln).collect();
        trimmed_mean(&logs)
    }

    /// The trimmed mean of one subject, for a note; not a number without values.
    pub fn typical(&self, of: usize, value: impl Fn(&T) -> f64) -> f64 {
        trimmed_mean_value(&self.values(of, value)).unwrap_or(f64::NAN)
    }

    /// All values of one subject, in the order of the blocks.
    pub fn values(&self, of: usize, value: impl Fn(&T) -> f64) -> Vec<f64> {
        self.whole.iter().map(|block| value(&block[of])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// The order in which three subjects were measured over four blocks.
    fn order(seed: u64) -> Vec<usize> {
        let seen = RefCell::new(Vec::new());
        let subjects = (0..3)
            .map(|i| {
                let seen = &seen;
                Subject::new(i.to_string(), move || {
                    seen.borrow_mut().push(i);
                    Ok(i)
                })
            })
            .collect();
        alternate(subjects, 4, seed).unwrap();
        seen.into_inner()
    }

    #[test]
    fn every_block_holds_each_subject_once_in_an_order_fixed_by_the_seed() {
        for block in order(1).chunks(3) {
            let mut sorted = block.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2]);
        }
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }

    #[test]
    fn drift_that_hits_both_leaves_the_ratio_alone() {
        let time = RefCell::new(1.0);
        let drifting = |factor: f64| {
            let time = &time;
            move || {
                *time.borrow_mut() *= 1.001;
                Ok(*time.borrow() * factor)
            }
        };
        let subjects = vec![
            Subject::new("a", drifting(2.0)),
            Subject::new("b", drifting(1.0)),
        ];
        let blocks = alternate(subjects, 40, 7).unwrap();
        let ratio = blocks.log_ratio(0, 1, |v| *v).unwrap().value.exp();
        assert!((ratio - 2.0).abs() < 0.01, "{ratio}");
    }

    #[test]
    fn a_failed_measurement_is_reported_and_its_block_left_out() {
        let mut n = 0;
        let subjects = vec![
            Subject::new("sure", || Ok(1.0)),
            Subject::new("shaky", || {
                n += 1;
                if n == 3 { bail!("no") } else { Ok(2.0) }
            }),
        ];
        let blocks = alternate(subjects, 5, 1).unwrap();
        assert_eq!(blocks.whole.len(), 4);
        assert_eq!(blocks.failures, ["block 2: shaky: no"]);
        assert_eq!(blocks.typical(1, |v| *v), 2.0);
    }

    #[test]
    fn a_subject_that_always_fails_is_given_up_after_two_blocks() {
        let mut tried = 0;
        let subjects: Vec<Subject<'_, f64>> = vec![Subject::new("broken", || {
            tried += 1;
            bail!("cannot")
        })];
        let error = alternate(subjects, 1000, 1).unwrap_err().to_string();
        assert_eq!(tried, 2);
        assert!(error.contains("broken: cannot"), "{error}");
    }
}
