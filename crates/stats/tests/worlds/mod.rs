//! Simulated runs in which nothing differs, by the kind of noise: how often intervals hold the
//! truth and families raise an alarm, with each comparison's own variance and with moderated ones.

#![allow(dead_code)] // each test file uses a part of it

use bytecost_stats::{
    Generator, Location, Moderation, holm, median, trimmed_mean, trimmed_mean_value,
};
use std::fmt;

pub type Noise = fn(&mut Generator) -> f64;

/// A kind of noise of one trial's log cost.
pub struct World {
    pub name: &'static str,
    noise: Noise,
    /// The noise of baselines, where it is another.
    of_baseline: Option<Noise>,
    /// The deviation of a block from the others, as a share of the noise of a trial.
    drift: f64,
    /// By how much the true deviations of cells differ: a factor up and down at random.
    unequal: f64,
    /// The number of comparisons that share a baseline.
    sharing: usize,
}

/// Three standard deviations of a share that was counted over so many runs.
pub fn slack(share: f64, runs: usize) -> f64 {
    3.0 * (share * (1.0 - share) / runs as f64).sqrt()
}

/// A normal number or, one time in ten, one of five times the spread.
pub fn outliers(g: &mut Generator) -> f64 {
    let scale = if g.unit() < 0.1 { 5.0 } else { 1.0 };
    scale * g.normal()
}

/// Student's t with three degrees of freedom: no fourth moment.
pub fn t3(g: &mut Generator) -> f64 {
    let squares: f64 = (0..3).map(|_| g.normal().powi(2)).sum();
    g.normal() / (squares / 3.0).sqrt()
}

/// One trial in four is in a mode of its own, four deviations off.
fn two_modes(g: &mut Generator) -> f64 {
    g.normal() + if g.unit() < 0.25 { 4.0 } else { 0.0 }
}

const fn world(
    name: &'static str,
    noise: Noise,
    drift: f64,
    unequal: f64,
    sharing: usize,
) -> World {
    World {
        name,
        noise,
        of_baseline: None,
        drift,
        unequal,
        sharing,
    }
}

pub const WORLDS: &[World] = &[
    world("normal", Generator::normal, 0.0, 1.0, 7),
    world("normal, own baselines", Generator::normal, 0.0, 1.0, 1),
    world("normal, unequal by 2", Generator::normal, 0.0, 2.0, 7),
    world("normal, unequal by 4", Generator::normal, 0.0, 4.0, 7),
    world("t3", t3, 0.0, 1.5, 7),
    world("outliers", outliers, 0.0, 1.5, 7),
    world("two modes", two_modes, 0.0, 1.0, 7),
    World {
        of_baseline: Some(Generator::normal),
        ..world("two modes in others", two_modes, 0.0, 1.0, 7)
    },
    world("drift", Generator::normal, 1.0, 1.5, 7),
];

/// Rates of right and wrong verdicts in some simulated runs.
pub struct Kept {
    name: &'static str,
    blocks: usize,
    comparisons: usize,
    /// Of each comparison's own variance, then of the moderated one: the share of intervals that
    /// hold the truth, the least such share of a comparison by the rank of its true noise, and the
    /// share of runs with an alarm.
    pub covered: [f64; 2],
    pub noisiest: [f64; 2],
    pub alarmed: [f64; 2],
    /// The median of moderated widths over own ones.
    pub width: f64,
    /// The same of the critical distances at the level of the first of the family.
    pub strict: f64,
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b] = self.covered.map(|v| 100.0 * v);
        let [c, d] = self.noisiest.map(|v| 100.0 * v);
        let [e, g] = self.alarmed.map(|v| 100.0 * v);
        write!(
            f,
            "{:22} {:6} {:11}  {a:7.1} % {b:7.1} %  {c:5.1} % {d:5.1} %  {e:5.1} % {g:5.1} %  {:5.2} {:6.2}",
            self.name, self.blocks, self.comparisons, self.width, self.strict
        )
    }
}

impl World {
    /// The log ratios of one run, each comparison with its true deviation.
    fn run(&self, g: &mut Generator, blocks: usize, comparisons: usize) -> Vec<(f64, Vec<f64>)> {
        let scale = |generator: &mut Generator| self.unequal.powf(2.0 * generator.unit() - 1.0);
        let mut all = Vec::new();
        while all.len() < comparisons {
            let base_scale = scale(g);
            // The effect of a block drifts on from trial to trial, in a random order of trials.
            let noise = self.of_baseline.unwrap_or(self.noise);
            let base_logs: Vec<f64> = (0..blocks).map(|_| base_scale * noise(g)).collect();
            for _ in 0..self.sharing.min(comparisons - all.len()) {
                let own = scale(g);
                let mut level = self.drift * g.normal();
                let log = |base: &f64| {
                    level = 0.9 * level + self.drift * 0.19_f64.sqrt() * g.normal();
                    own * (self.noise)(g) - base + 0.3 * level * g.normal().signum()
                };
                all.push((own.hypot(base_scale), base_logs.iter().map(log).collect()));
            }
        }
        all
    }

    /// So many runs of so many blocks and comparisons.
    pub fn simulate(&self, blocks: usize, comparisons: usize, runs: usize, seed: u64) -> Kept {
        let mut g = Generator::new(seed);
        let truth = self.truth();
        let (mut held, mut of_noisy, mut alarmed) = ([0_usize; 2], [0_usize; 2], [0_usize; 2]);
        let (mut widths, mut strict) = (Vec::new(), Vec::new());
        let noisy = (comparisons / 5).max(1);
        for _ in 0..runs {
            let mut run = self.run(&mut g, blocks, comparisons);
            run.sort_by(|a, b| b.0.total_cmp(&a.0));
            let own_locations: Vec<Location> =
                run.iter().filter_map(|(_, v)| trimmed_mean(v)).collect();
            let prior = Moderation::fit(&own_locations);
            let moderated_locations: Vec<Location> = (own_locations.iter())
                .map(|l| prior.map_or(*l, |prior| prior.moderate(*l)))
                .collect();
            for (way, all) in [&own_locations, &moderated_locations]
                .into_iter()
                .enumerate()
            {
                let holds = |l: &&Location| l.interval(0.95).is_some_and(|i| i.holds(truth));
                held[way] += all.iter().filter(holds).count();
                of_noisy[way] += all.iter().take(noisy).filter(holds).count();
                let p: Vec<f64> = all.iter().filter_map(|l| l.p_value(truth)).collect();
                alarmed[way] += usize::from(holm(&p).iter().any(|p| *p < 0.05));
            }
            let ratio = |level: f64, own: &Location, moderated: &Location| {
                let width = |l: &Location| l.interval(level).map(|i| i.half_width());
                Some(width(moderated)? / width(own)?)
            };
            let level = 1.0 - 0.05 / comparisons as f64;
            for (own, moderated) in own_locations.iter().zip(&moderated_locations) {
                widths.extend(ratio(0.95, own, moderated));
                strict.extend(ratio(level, own, moderated));
            }
        }
        let of = |counts: [usize; 2], all: usize| counts.map(|n| n as f64 / all as f64);
        Kept {
            name: self.name,
            blocks,
            comparisons,
            covered: of(held, runs * comparisons),
            noisiest: of(of_noisy, runs * noisy),
            alarmed: of(alarmed, runs),
            width: median(&widths).unwrap_or(f64::NAN),
            strict: median(&strict).unwrap_or(f64::NAN),
        }
    }

    /// The value that the estimates aim at: nothing, where both sides of a comparison have the same noise.
    fn truth(&self) -> f64 {
        let Some(of_baseline) = self.of_baseline else {
            return 0.0;
        };
        let mut g = Generator::new(0);
        let draws = (0..200_000).map(|_| (self.noise)(&mut g) - of_baseline(&mut g));
        trimmed_mean_value(&draws.collect::<Vec<f64>>()).unwrap_or(f64::NAN)
    }
}
