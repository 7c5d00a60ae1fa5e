//! Components of variance of the logarithms of costs, by the method of moments.

use std::collections::BTreeMap;

use bytecost_stats::{lag1_autocorrelation, mean, median, variance};

use super::{Run, Trial};

/// A standard deviation from the median of absolute values, were they normal.
const OF_THE_MEDIAN: f64 = 1.4826;

/// Times the median of its cell from which a trial is of another mode.
const FAR: f64 = 1.5;

/// Standard deviations of the logarithm of a trial's cost, by where they are from.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Components {
    /// Trials in whole blocks.
    pub(super) trials: usize,
    /// From the start of a trial to that of the next, ms, the median.
    pub(super) ms: f64,
    /// Of a trial within its cell, all together.
    pub(super) all: f64,
    /// The same, from the median of absolute deviations: without what is far out.
    pub(super) robust: f64,
    /// What trials of one block differ by, beside their cells.
    pub(super) trial: f64,
    /// What of that the eighths of a window explain: how much a window of this length varies within
    /// one process.
    pub(super) within: f64,
    /// What remains of it: what differs from trial to trial.
    pub(super) between: f64,
    /// What blocks of one run differ by.
    pub(super) block: f64,
    /// What runs differ by.
    pub(super) run: f64,
    /// What of `trial` belongs to the cell that was measured before.
    pub(super) predecessor: f64,
    /// What of `trial` belongs to the place in the block.
    pub(super) place: f64,
    /// Correlation of a trial with the one before it in the same run.
    pub(super) neighbours: f64,
}

/// A trial's deviation from its cell.
#[derive(Clone, Debug)]
pub(super) struct Residual<'r> {
    pub(super) run: usize,
    pub(super) trial: &'r Trial,
    /// The cell before it in the run.
    before: Option<(String, bool)>,
    /// Its place in the run's block.
    place: usize,
    pub(super) value: f64,
}

/// The deviations of all trials of these runs, with this placement where one is named, from the mean
/// logarithm of their cells; only of blocks that have all cells.
pub(super) fn residuals<'r>(runs: &[&'r Run], is_free: Option<bool>) -> Vec<Residual<'r>> {
    let mut all = Vec::new();
    for (number, run) in runs.iter().enumerate() {
        let mut sizes: BTreeMap<u32, usize> = BTreeMap::new();
        for trial in &run.trials {
            *sizes.entry(trial.block).or_default() += 1;
        }
        let whole = sizes.values().max().copied().unwrap_or(0);
        let mut places: BTreeMap<u32, usize> = BTreeMap::new();
        let mut before = None;
        for trial in &run.trials {
            let place = places.entry(trial.block).or_default();
            if sizes[&trial.block] == whole && is_free.is_none_or(|f| f == trial.is_free) {
                all.push(Residual {
                    run: number,
                    trial,
                    before: before.clone(),
                    place: *place,
                    value: trial.cost.ln(),
                });
            }
            *place += 1;
            before = Some((trial.cell.clone(), trial.is_free));
        }
    }
    let cells = means(&all, |r| (r.trial.cell.clone(), r.trial.is_free));
    for r in &mut all {
        r.value -= cells[&(r.trial.cell.clone(), r.trial.is_free)].0;
    }
    all
}

/// The mean of each group, and how many it has.
fn means<K: Ord>(
    all: &[Residual<'_>],
    of: impl Fn(&Residual<'_>) -> K,
) -> BTreeMap<K, (f64, usize)> {
    let mut sums: BTreeMap<K, (f64, usize)> = BTreeMap::new();
    for r in all {
        let sum = sums.entry(of(r)).or_default();
        sum.0 += r.value;
        sum.1 += 1;
    }
    for (sum, count) in sums.values_mut() {
        *sum /= *count as f64;
    }
    sums
}

fn squares(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|v| v * v).sum()
}

/// The components of these runs with this placement: cells are fixed, runs and the blocks in them
/// are drawn, and all blocks have all cells, so that mean squares have the expectations of the
/// textbook (Searle, Casella and McCulloch, "Variance components", 1992, chapter 4).
pub(super) fn components(runs: &[&Run], is_free: bool) -> Option<Components> {
    let all = residuals(runs, Some(is_free));
    let block_of = |r: &Residual<'_>| (r.run, r.trial.block);
    let (blocks, by_run) = (means(&all, block_of), means(&all, |r| r.run));
    let cells = means(&all, |r| r.trial.cell.clone()).len() as f64;
    let (n, b, r) = (all.len() as f64, blocks.len() as f64, by_run.len() as f64);
    if cells < 2.0 || b <= r || r < 2.0 {
        return None;
    }
    let inner: Vec<Residual<'_>> = all
        .iter()
        .map(|one| Residual {
            value: one.value - blocks[&block_of(one)].0,
            ..one.clone()
        })
        .collect();
    let of_trial = squares(inner.iter().map(|i| i.value)) / ((cells - 1.0) * (b - 1.0));
    let of_block =
        cells * squares(blocks.iter().map(|((run, _), (m, _))| m - by_run[run].0)) / (b - r);
    let of_run = squares(by_run.values().map(|(m, count)| m * (*count as f64).sqrt())) / (r - 1.0);
    let within = mean(
        &all.iter()
            .filter_map(|r| within(r.trial))
            .collect::<Vec<f64>>(),
    );
    let values: Vec<f64> = all.iter().map(|r| r.value).collect();
    let absolute: Vec<f64> = values.iter().map(|v| v.abs()).collect();
    let root = |variance: f64| variance.max(0.0).sqrt();
    let within = within.unwrap_or(0.0);
    Some(Components {
        trials: all.len(),
        ms: median(&gaps(runs)).unwrap_or(f64::NAN),
        all: root(squares(values.iter().copied()) / (n - cells)),
        robust: OF_THE_MEDIAN * median(&absolute)?,
        trial: root(of_trial),
        within: root(within),
        between: root(of_trial - within),
        block: root((of_block - of_trial) / cells),
        run: root((of_run - of_block) * r / n),
        predecessor: root(between(&inner, |r| r.before.clone())),
        place: root(between(&inner, |r| Some(r.place))),
        neighbours: neighbours(runs, is_free),
    })
}

/// From start to start of the trials of each run, ms.
fn gaps(runs: &[&Run]) -> Vec<f64> {
    let pairs = runs.iter().flat_map(|r| r.trials.windows(2));
    pairs.map(|pair| pair[1].at_ms - pair[0].at_ms).collect()
}

/// One cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct OfCell {
    pub(super) trials: usize,
    /// Standard deviation of the logarithm of a trial's cost, and the same from the median.
    pub(super) all: f64,
    pub(super) robust: f64,
    /// The share of trials that cost more than [`FAR`] times the median.
    pub(super) far: f64,
}

/// Each cell of these trials, by its mover and size.
pub(super) fn by_cell(all: &[Residual<'_>]) -> BTreeMap<String, OfCell> {
    let mut logs: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for r in all {
        let of_cell = logs.entry(&r.trial.cell).or_default();
        of_cell.push(r.trial.cost.ln());
    }
    let found = logs.into_iter().filter_map(|(cell, logs)| {
        let middle = median(&logs)?;
        let absolute: Vec<f64> = logs.iter().map(|v| (v - middle).abs()).collect();
        let far = logs.iter().filter(|v| **v - middle > FAR.ln()).count();
        Some((
            cell.to_owned(),
            OfCell {
                trials: logs.len(),
                all: variance(&logs)?.sqrt(),
                robust: OF_THE_MEDIAN * median(&absolute)?,
                far: far as f64 / logs.len() as f64,
            },
        ))
    });
    found.collect()
}

/// The variance that a window has by what happens within one process: that of its eighths over
/// eight, as if they were independent.
fn within(trial: &Trial) -> Option<f64> {
    let mean = mean(&trial.eighths)?;
    Some(variance(&trial.eighths)? / (mean * mean) / trial.eighths.len() as f64)
}

/// The variance between groups, one way, by moments; less than nothing where chance explains more.
fn between<K: Ord>(all: &[Residual<'_>], of: impl Fn(&Residual<'_>) -> Option<K>) -> f64 {
    let known: Vec<Residual<'_>> = all.iter().filter(|r| of(r).is_some()).cloned().collect();
    let groups = means(&known, |r| of(r));
    let (n, g) = (known.len() as f64, groups.len() as f64);
    if g < 2.0 || n <= g {
        return 0.0;
    }
    let grand = known.iter().map(|r| r.value).sum::<f64>() / n;
    let sizes = squares(groups.values().map(|(_, count)| *count as f64));
    let between: f64 = groups
        .values()
        .map(|(m, count)| *count as f64 * (m - grand) * (m - grand))
        .sum();
    let inside = squares(known.iter().map(|r| r.value - groups[&of(r)].0));
    (between / (g - 1.0) - inside / (n - g)) / ((n - sizes / n) / (g - 1.0))
}

/// The mean over runs of the correlation of each trial with the one before.
fn neighbours(runs: &[&Run], is_free: bool) -> f64 {
    let all = residuals(runs, Some(is_free));
    let of_run = |number: usize| {
        let values: Vec<f64> = all
            .iter()
            .filter(|r| r.run == number)
            .map(|r| r.value)
            .collect();
        lag1_autocorrelation(&values)
    };
    mean(&(0..runs.len()).filter_map(of_run).collect::<Vec<f64>>()).unwrap_or(f64::NAN)
}

/// What two trials of different cells are apart in time by: up to so many ms from start to start in
/// the same run, or in two runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Apart {
    /// More than the first and at most the second number of ms.
    Within(f64, f64),
    /// In another run.
    Runs,
}

/// Standard deviation of the logarithm of the ratio of two such trials, the same from the median,
/// and how many pairs there are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) deviation: f64,
    pub(super) robust: f64,
    pub(super) pairs: usize,
}

/// The spread of ratios of trials that are so far apart and have the same placement.
pub(super) fn spread(all: &[Residual<'_>], apart: Apart) -> Option<Spread> {
    let mut differences = Vec::new();
    for (i, a) in all.iter().enumerate() {
        for b in &all[i + 1..] {
            let is_ratio = a.trial.cell != b.trial.cell && a.trial.is_free == b.trial.is_free;
            let fits = match apart {
                Apart::Runs => a.run != b.run,
                Apart::Within(over, most) => {
                    let ms = (a.trial.at_ms - b.trial.at_ms).abs();
                    a.run == b.run && ms > over && ms <= most
                }
            };
            if is_ratio && fits {
                differences.push((a.value - b.value).abs());
            }
        }
    }
    Some(Spread {
        deviation: mean(&differences.iter().map(|d| d * d).collect::<Vec<f64>>())?.sqrt(),
        robust: OF_THE_MEDIAN * median(&differences)?,
        pairs: differences.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::USUAL;
    use super::*;
    use bytecost_stats::Generator;

    /// Deviations that are planted: between trials, window, block, run.
    struct Planted(f64, f64, f64, f64);

    /// Runs of six cells, left free and pinned, with this noise; `drift` is what the machine drifts
    /// by in a second.
    fn made(runs: usize, planted: &Planted, drift: f64) -> Vec<Run> {
        let mut g = Generator::new(7);
        let of_run = |g: &mut Generator| {
            let run = planted.3 * g.normal();
            let mut trials = Vec::new();
            let mut course = 0.0;
            for block in 0..6_u32 {
                let of_block = planted.2 * g.normal();
                let mut cells: Vec<usize> = (0..12).collect();
                g.shuffle(&mut cells);
                for cell in cells {
                    course += drift * 0.1_f64.sqrt() * g.normal();
                    let between = planted.0 * g.normal();
                    let level = cell as f64 + run + of_block + course + between;
                    let eighths: Vec<f64> = (0..8)
                        .map(|_| (level + planted.1 * 8_f64.sqrt() * g.normal()).exp())
                        .collect();
                    trials.push(Trial {
                        core_to_core_ns: [0; 2],
                        cell: (cell / 2).to_string(),
                        is_free: cell % 2 == 0,
                        block,
                        attempt: 0,
                        at_ms: trials.len() as f64 * 100.0,
                        cost: mean(&eighths).unwrap(),
                        eighths,
                    });
                }
            }
            Run {
                kind: USUAL,
                trials,
            }
        };
        (0..runs).map(|_| of_run(&mut g)).collect()
    }

    fn check(what: &str, found: f64, planted: f64) {
        assert!(
            (found - planted).abs() < 0.015,
            "{what}: {found}, {planted}"
        );
    }

    #[test]
    fn planted_components_are_found() {
        let planted = Planted(0.1, 0.04, 0.08, 0.15);
        let runs = made(100, &planted, 0.0);
        let runs: Vec<&Run> = runs.iter().collect();
        for is_free in [true, false] {
            let found = components(&runs, is_free).unwrap();
            assert_eq!((found.trials, found.ms), (3600, 100.0));
            check("between", found.between, planted.0);
            check("within", found.within, planted.1);
            check("block", found.block, planted.2);
            check("run", found.run, planted.3);
            check("before", found.predecessor, 0.0);
            check("place", found.place, 0.0);
            let all = [planted.0, planted.1, planted.2, planted.3];
            check("all", found.all, squares(all.into_iter()).sqrt());
        }
    }

    #[test]
    fn what_is_near_in_time_is_nearer_under_drift_alone() {
        let spreads = |drift: f64| {
            let runs = made(30, &Planted(0.1, 0.02, 0.0, 0.0), drift);
            let runs: Vec<&Run> = runs.iter().collect();
            let all = residuals(&runs, Some(true));
            [Apart::Within(0.0, 300.0), Apart::Within(2000.0, 7000.0)]
                .map(|apart| spread(&all, apart).unwrap().deviation)
        };
        let [near, far] = spreads(0.1);
        assert!(far > 1.3 * near, "{near} {far}");
        let [near, far] = spreads(0.0);
        assert!((near - far).abs() < 0.01, "{near} {far}");
    }

    #[test]
    fn blocks_that_lack_a_cell_are_left_out_and_one_run_says_nothing() {
        let mut runs = made(2, &Planted(0.1, 0.02, 0.0, 0.0), 0.0);
        runs[0].trials.pop();
        let of: Vec<&Run> = runs.iter().collect();
        assert_eq!(components(&of, true).unwrap().trials, 66);
        assert_eq!(components(&of[..1], true), None);
    }

    #[test]
    fn a_second_mode_shows_in_its_cell() {
        let mut runs = made(4, &Planted(0.02, 0.01, 0.0, 0.0), 0.0);
        let of_cell = runs.iter_mut().flat_map(|r| &mut r.trials);
        let mut of_cell = of_cell.filter(|t| t.cell == "3" && t.is_free);
        for _ in 0..6 {
            of_cell.next().unwrap().cost *= 3.0;
        }
        let runs: Vec<&Run> = runs.iter().collect();
        let cells = by_cell(&residuals(&runs, Some(true)));
        assert!((cells["3"].far - 0.25).abs() < 1e-9, "{cells:?}");
        assert!(cells["3"].all > 5.0 * cells["3"].robust, "{cells:?}");
        assert_eq!(cells["2"].far, 0.0);
    }
}
