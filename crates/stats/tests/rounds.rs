//! Simulated rounds test the variance between them, with fixed seeds.

use bytecost_stats::{
    BetweenRounds, Generator, Interval, Location, Moderation, RatioVariation, RoundEstimate,
    TestedLocation, between_rounds, holm, mean_of_rounds, median, tail_with_rounds, trimmed_mean,
};

use crate::worlds::slack;

/// Blocks of a round, and comparisons that share a baseline.
const BLOCKS: usize = 12;
const SHARING: usize = 7;
const COMPARISONS: usize = 35;

/// The variance that is assumed where there are no earlier rounds.
const ASSUMED: BetweenRounds = BetweenRounds {
    variance: 0.04 * 0.04,
    degrees: 8.0,
};

/// A machine, by how much its ratios differ from round to round.
struct Machine {
    name: &'static str,
    /// The deviation between rounds of each comparison in turn.
    taus: &'static [f64],
    /// The noise of a trial within a round.
    noise: f64,
    /// The share of the variance between rounds that comparisons with one baseline have in common.
    common: f64,
}

const fn machine(name: &'static str, taus: &'static [f64], noise: f64, common: f64) -> Machine {
    Machine {
        name,
        taus,
        noise,
        common,
    }
}

/// The deviations of finding 1: few of rates near the receiver's limit vary much.
const MACHINES: &[Machine] = &[
    machine("none", &[0.0], 0.04, 0.0),
    machine("equal", &[0.03], 0.04, 0.0),
    machine("equal, large", &[0.06], 0.02, 0.0),
    machine("equal, in common", &[0.03], 0.04, 0.5),
    machine(
        "by comparison",
        &[0.0, 0.01, 0.015, 0.03, 0.04, 0.06],
        0.04,
        0.0,
    ),
    machine(
        "by comparison, quiet",
        &[0.0, 0.01, 0.015, 0.03, 0.04, 0.06],
        0.01,
        0.0,
    ),
    machine(
        "by comparison, in common",
        &[0.0, 0.01, 0.015, 0.03, 0.04, 0.06],
        0.04,
        0.5,
    ),
    machine("one in six", &[0.0, 0.0, 0.0, 0.0, 0.0, 0.06], 0.04, 0.0),
];

impl Machine {
    fn tau(&self, comparison: usize) -> f64 {
        self.taus[comparison % self.taus.len()]
    }

    /// The moderated estimates of one round in which nothing differs.
    fn round(&self, g: &mut Generator) -> Vec<Location> {
        let mut found = Vec::new();
        let (mut base, mut shared) = (Vec::new(), 0.0);
        for comparison in 0..COMPARISONS {
            if comparison % SHARING == 0 {
                base = (0..BLOCKS).map(|_| self.noise * g.normal()).collect();
                shared = g.normal();
            }
            let own = (1.0 - self.common).sqrt() * g.normal() + self.common.sqrt() * shared;
            let shift = self.tau(comparison) * own;
            let logs = base.iter().map(|b| shift + self.noise * g.normal() - b);
            found.extend(trimmed_mean(&logs.collect::<Vec<f64>>()));
        }
        let by = Moderation::fit(&found);
        let moderated = found.iter().map(|l| by.map_or(*l, |by| by.moderate(*l)));
        moderated.collect()
    }

    /// So many runs that each follow so many earlier rounds.
    fn simulate(&self, rounds: usize, runs: usize) -> Kept {
        let mut g = Generator::new(71);
        let (mut held, mut held_mean, mut alarmed) = (0_usize, 0_usize, 0_usize);
        let mut widths = Vec::new();
        for _ in 0..runs {
            let earlier: Vec<Vec<Location>> = (0..rounds).map(|_| self.round(&mut g)).collect();
            let of_comparison = |c: usize| earlier.iter().map(|r| r[c].into()).collect();
            let by_comparison: Vec<Vec<RoundEstimate>> =
                (0..COMPARISONS).map(of_comparison).collect();
            let between = between_rounds(&by_comparison, ASSUMED).comparisons;
            let mut p = Vec::new();
            for (c, location) in self.round(&mut g).iter().enumerate() {
                let wide = location.with_rounds(between[c].unwrap_or(ASSUMED), 1);
                let interval = wide.interval(0.95).expect("a level");
                held += usize::from(interval.holds(0.0));
                let values: f64 = by_comparison[c].iter().map(|r| r.value).sum();
                held_mean += usize::from(interval.holds(values / rounds.max(1) as f64));
                let truth =
                    (2.0_f64.sqrt() * self.noise / (BLOCKS as f64).sqrt()).hypot(self.tau(c));
                widths.push(interval.half_width() / (1.96 * truth));
                p.extend(wide.p_value(0.0));
            }
            alarmed += usize::from(holm(&p).iter().any(|p| *p < 0.05));
        }
        let share = |n: usize, of: usize| n as f64 / of as f64;
        Kept {
            held: share(held, runs * COMPARISONS),
            held_mean: share(held_mean, runs * COMPARISONS),
            alarmed: share(alarmed, runs),
            width: median(&widths).expect("widths"),
        }
    }
}

/// The share of intervals that hold the truth, of those that hold the mean of the earlier rounds, of
/// runs with a false alarm, and the median of half widths over those of known variances.
#[derive(Debug)]
struct Kept {
    held: f64,
    held_mean: f64,
    alarmed: f64,
    width: f64,
}

#[test]
fn intervals_hold_other_rounds_and_families_keep_their_rate_on_every_machine() {
    const RUNS: usize = 300;
    for machine in MACHINES {
        for rounds in [3, 5, 11] {
            let kept = machine.simulate(rounds, RUNS);
            let case = format!("{} after {rounds}: {kept:?}", machine.name);
            assert!((0.94..=0.985).contains(&kept.held), "{case}");
            assert!((0.92..=0.98).contains(&kept.held_mean), "{case}");
            assert!(kept.alarmed <= 0.05 + slack(0.05, RUNS), "{case}");
            let most = if rounds == 11 { 1.4 } else { 2.2 };
            assert!((1.0..most).contains(&kept.width), "{case}");
        }
    }
}

#[test]
fn what_is_assumed_holds_the_truth_on_machines_that_vary_no_more() {
    for machine in MACHINES.iter().filter(|m| m.taus != [0.06]) {
        let kept = machine.simulate(0, 100);
        let case = format!("{}: {kept:?}", machine.name);
        assert!(kept.held >= 0.95 && kept.alarmed <= 0.05, "{case}");
    }
}

#[test]
fn the_variance_within_a_round_alone_holds_too_little() {
    let machine = &MACHINES[2];
    let mut g = Generator::new(72);
    let rounds: Vec<Location> = (0..40).flat_map(|_| machine.round(&mut g)).collect();
    let holds = |l: &&Location| l.interval(0.95).is_some_and(|i| i.holds(0.0));
    let held = rounds.iter().filter(holds).count();
    assert!(held * 2 < rounds.len(), "{held} of {}", rounds.len());
}

/// The share of intervals that hold the truth, and the median of half widths, of runs of one comparison
/// that follow so many earlier rounds: with these, and by what is assumed without them.
fn one_comparison(tau: f64, noise: f64, rounds: usize) -> [(f64, f64); 2] {
    const RUNS: usize = 2000;
    let assumed = BetweenRounds {
        variance: 0.035 * 0.035,
        degrees: 3.0,
    };
    let mut g = Generator::new(73);
    let mut round = || {
        let shift = tau * g.normal();
        let logs: Vec<f64> = (0..8).map(|_| shift + noise * g.normal()).collect();
        trimmed_mean(&logs).expect("eight blocks")
    };
    let mut held = [0; 2];
    let mut widths = [Vec::new(), Vec::new()];
    for _ in 0..RUNS {
        let earlier = (0..rounds).map(|_| round().into()).collect();
        let known = between_rounds(&[earlier], assumed).comparisons[0].expect("rounds");
        let now = round();
        for (i, between) in [known, assumed].into_iter().enumerate() {
            let interval = now.with_rounds(between, 1).interval(0.95).expect("a level");
            held[i] += usize::from(interval.holds(0.0));
            widths[i].push(interval.half_width());
        }
    }
    [0, 1].map(|i| {
        (
            held[i] as f64 / RUNS as f64,
            median(&widths[i]).expect("widths"),
        )
    })
}

#[test]
fn a_single_comparison_learns_from_earlier_rounds_and_forgets_nothing_that_is_assumed() {
    let quiet = [(0.0, 0.04), (0.01, 0.03), (0.03, 0.01), (0.035, 0.03)];
    let noisy = [(0.06, 0.02), (0.06, 0.08), (0.1, 0.03)];
    for rounds in [3, 5, 11] {
        for (tau, noise) in quiet {
            let [known, assumed] = one_comparison(tau, noise, rounds);
            let case = format!("{tau}, {noise} after {rounds}: {known:?}, {assumed:?}");
            assert!(known.0 >= 0.94 && known.1 < 0.85 * assumed.1, "{case}");
        }
        // What is assumed holds too little on these.
        for (tau, noise) in noisy {
            let [known, assumed] = one_comparison(tau, noise, rounds);
            let case = format!("{tau}, {noise} after {rounds}: {known:?}, {assumed:?}");
            let least: f64 = if rounds == 11 { 0.93 } else { 0.88 };
            assert!(known.0 >= least.max(assumed.0 - 0.01), "{case}");
        }
    }
}

/// Rounds that differ by so much, each with so much variance within.
fn rounds(values: &[f64], within: f64) -> Vec<RoundEstimate> {
    let round = |value: &f64| RoundEstimate {
        value: *value,
        variance: within,
        degrees: 8.0,
    };
    values.iter().map(round).collect()
}

#[test]
fn the_variance_between_is_that_of_the_means_less_that_within() {
    let known = between_rounds(&[rounds(&[0.0, 0.1, 0.2], 0.002)], ASSUMED);
    let one = known.comparisons[0].expect("three rounds");
    assert!((one.variance - 0.008).abs() < 1e-12, "{one:?}");
    // Those assumed, and two of 0.0036, as a share of what is assumed of it, and less for the variance within.
    assert!((8.37..8.4).contains(&one.degrees), "{one:?}");
    assert_eq!(known.typical, None);
}

#[test]
fn fewer_than_three_rounds_have_no_variance() {
    let pair = rounds(&[0.0, 0.1], 0.0);
    let known = between_rounds(&[pair, rounds(&[0.0, 0.1, f64::NAN], 0.0)], ASSUMED);
    assert_eq!(known.comparisons, [None, None]);
    assert_eq!(between_rounds(&[], ASSUMED).typical, None);
}

#[test]
fn rounds_that_differ_no_more_than_blocks_do_have_none_between_them() {
    let known = between_rounds(&vec![rounds(&[0.0, 0.01, 0.02], 0.01); 5], ASSUMED);
    let typical = known.typical.expect("five comparisons");
    assert_eq!(typical.variance, 0.0);
    assert!(
        known
            .comparisons
            .iter()
            .flatten()
            .all(|b| b.variance == 0.0)
    );
    let within = rounds_location();
    assert_eq!(within.with_rounds(typical, 1), within);
}

fn rounds_location() -> Location {
    trimmed_mean(&[0.1, 0.12, 0.09, 0.1, 0.11, 0.13]).expect("six")
}

#[test]
fn a_location_holds_both_variances_and_the_degrees_of_their_sum() {
    let within = rounds_location();
    let one = within.with_rounds(ASSUMED, 1);
    let one_squared = within.standard_error.powi(2) + ASSUMED.variance;
    assert!((one.standard_error.powi(2) - one_squared).abs() < 1e-15);
    assert_eq!((one.value, one.count), (within.value, within.count));
    // Nearly all of it is assumed.
    assert!((8.0..9.0).contains(&one.degrees), "{one:?}");
    let five = within.with_rounds(ASSUMED, 5);
    let five_squared = within.standard_error.powi(2) + ASSUMED.variance / 5.0;
    assert!((five.standard_error.powi(2) - five_squared).abs() < 1e-15);
}

#[test]
fn no_number_of_blocks_decides_what_rounds_hide() {
    let noise = RatioVariation::within(0.05, 12);
    let hidden = RatioVariation {
        between: ASSUMED,
        ..noise
    };
    assert!(
        noise
            .blocks_needed(0.05, 0.05, 10_000)
            .is_some_and(|n| n < 40)
    );
    assert_eq!(hidden.blocks_needed(0.05, 0.05, 10_000), None);
    assert!(hidden.blocks_needed(0.2, 0.05, 10_000).is_some());
    let [alone, both] = [noise, hidden].map(|n| n.smallest_detectable(0.05).expect("twelve"));
    assert!(both > 2.0 * alone, "{alone} {both}");
    let promised = hidden.power(12, both, 0.05).expect("a power");
    assert!((promised - 0.8).abs() < 0.01, "{promised}");
}

#[test]
fn each_side_of_a_tail_is_widened_by_itself() {
    let location = Location {
        value: 0.3,
        standard_error: 0.1,
        degrees: 9.0,
        count: 10,
        lent: 0.0,
    };
    let interval = Interval {
        low: 0.1,
        high: 0.9,
    };
    let within = TestedLocation {
        location,
        interval,
        p: 0.004,
    };
    let none = (BetweenRounds::NONE, 1);
    assert_eq!(tail_with_rounds(within, none, 0.95), Some(within));
    let uneven = tail_with_rounds(within, (ASSUMED, 1), 0.95).expect("wide");
    assert!(
        uneven.interval.low < 0.1 && uneven.interval.high >= 0.9 && uneven.p > 0.004,
        "{uneven:?}"
    );
    assert!(
        0.1 - uneven.interval.low > uneven.interval.high - 0.9,
        "the short side has less of its own"
    );
    // Equal sides are those of Student's own.
    let equal = TestedLocation {
        location,
        interval: location.interval(0.95).expect("a level"),
        p: location.p_value(0.0).expect("a p value"),
    };
    let between = BetweenRounds {
        variance: 0.04,
        ..ASSUMED
    };
    let TestedLocation {
        interval: wide, p, ..
    } = tail_with_rounds(equal, (between, 1), 0.95).expect("wide");
    let both = location.with_rounds(between, 1);
    let known = both.interval(0.95).expect("a level");
    assert!((wide.low - known.low).abs() < 1e-9 && (wide.high - known.high).abs() < 1e-9);
    assert!((p - both.p_value(0.0).expect("a p value")).abs() < 1e-9);
}

#[test]
fn the_mean_of_rounds_leaves_out_of_its_error_what_rounds_differ_by() {
    let mut g = Generator::new(73);
    let (runs, rounds, blocks) = (400, 4, 6);
    let (mut held, mut sum) = (0_usize, 0.0);
    for _ in 0..runs {
        let round = |shift: f64, generator: &mut Generator| {
            (0..blocks)
                .map(|_| shift + 0.05 * generator.normal())
                .collect()
        };
        let shifts: Vec<f64> = (0..rounds).map(|_| 0.5 * g.normal()).collect();
        let values: Vec<Vec<f64>> = shifts.iter().map(|shift| round(*shift, &mut g)).collect();
        let (mean, each) = mean_of_rounds(&values, trimmed_mean).expect("rounds");
        let truth = shifts.iter().sum::<f64>() / f64::from(rounds);
        held += usize::from(mean.interval(0.95).expect("a level").holds(truth));
        sum += each.iter().map(|e| e.variance).sum::<f64>() / f64::from(rounds);
    }
    let share = held as f64 / f64::from(runs);
    assert!((0.92..=0.985).contains(&share), "{share}");
    let deviation = (sum / f64::from(runs)).sqrt() * f64::from(blocks).sqrt();
    assert!((0.045..0.06).contains(&deviation), "{deviation}");
    assert_eq!(mean_of_rounds(&[], trimmed_mean), None);
    assert_eq!(mean_of_rounds(&[vec![0.1], vec![0.2]], trimmed_mean), None);
}
