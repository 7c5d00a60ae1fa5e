//! Intervals, verdicts and what is said of them where ratios differ from round to round.

use bytecost_analysis::{Analysis, Finding, RoundSource, Verdict};
use bytecost_spec::manifest::RoundNoise;
use bytecost_spec::{Cell, Measure, Metric};
use bytecost_stats::Generator;

use crate::world::{
    Found, MOVERS, STUDY, True, World, round_noise, says, scale_cpu_time, study_of,
};

const COST: Metric = Metric::both(Measure::CpuSPerGb);

/// `sendfile` takes a tenth less than `send`, `send-zerocopy` less than half, `writev` the same.
fn truth(cell: &Cell) -> True {
    match cell.mover.as_str() {
        "sendfile" => True::both(0.9),
        "send-zerocopy" => True::both(0.4),
        _ => True::both(1.0),
    }
}

fn quiet(rounds: RoundNoise) -> World {
    let mut world = World::new(STUDY).run(3, 12, 0.01, truth);
    world.manifest.rounds = rounds;
    world
}

fn finding<'a>(analysis: &'a Analysis, world: &World, mover: &str) -> &'a Finding {
    analysis.of_cell(COST, &world.id(mover, 4096))
}

#[test]
fn the_printed_interval_holds_what_the_run_shows_and_what_rounds_differ_by() {
    let (same, apart) = (quiet(round_noise(0.0)), quiet(round_noise(0.06)));
    let (alone, both) = (same.analyse(), apart.analyse());
    for (narrow, wide) in alone.findings.iter().zip(&both.findings) {
        assert_eq!(
            (narrow.low, narrow.high),
            (narrow.within_low, narrow.within_high)
        );
        assert_eq!(
            (wide.within_low, wide.within_high),
            (narrow.low, narrow.high)
        );
        assert_eq!(narrow.between_deviation, 0.0);
        assert!((wide.between_deviation - 0.06).abs() < 1e-12);
        // More than the rounds' own 1.96 deviations.
        let half = (wide.high / wide.low).ln() / 2.0;
        assert!((1.96 * 0.06..0.2).contains(&half), "{wide:?}");
        assert!(wide.metric != COST || wide.detectable > narrow.detectable);
    }
    assert_eq!(both.run.widest_interval, alone.run.widest_interval);
    let verdict = |a: &Analysis, mover| finding(a, &apart, mover).verdict;
    assert_eq!(verdict(&alone, "sendfile"), Verdict::Better);
    assert_eq!(verdict(&alone, "writev"), Verdict::NoDifferenceThatMatters);
    assert_eq!(verdict(&both, "sendfile"), Verdict::NotDecided);
    assert_eq!(verdict(&both, "writev"), Verdict::NotDecided);
    assert_eq!(verdict(&both, "send-zerocopy"), Verdict::Better);
}

#[test]
fn what_rounds_alone_leave_open_is_named_and_no_longer_run_is_promised() {
    let world = quiet(round_noise(0.06));
    let analysis = world.analyse();
    let open = finding(&analysis, &world, "sendfile");
    assert!(
        open.rounds_prevent && open.blocks_needed.is_none(),
        "{open:?}"
    );
    assert_eq!((open.verdict, open.withheld), (Verdict::NotDecided, None));
    let by_rounds = analysis.advice.undecided.expect("open ones");
    assert!(by_rounds.rounds_prevent > 0 && by_rounds.seconds.is_none());
    says(by_rounds.command.unwrap(), ["--rounds 5 --pause 2min"]);
    let between = by_rounds.between_deviation.unwrap();
    assert!((between - 0.06).abs() < 0.001, "{between}");
    // A comparison that is undecided by noise within the run needs a longer run.
    let mut noisy = World::new(STUDY).run(2, 6, 0.25, |_| True::costs(0.2));
    noisy.manifest.rounds = round_noise(0.0);
    let undecided = noisy.analyse().advice.undecided.expect("open ones");
    assert_eq!(undecided.rounds_prevent, 0);
    assert!(!undecided.command.unwrap_or_default().contains("--rounds"));
}

#[test]
fn a_report_names_the_source_of_what_rounds_differ_by() {
    let report = |world: &World| bytecost_report::markdown(&world.analyse());
    says(
        report(&quiet(RoundNoise::ASSUMED)),
        ["±7.1 % (assumed: fewer than three"],
    );
    let earlier = RoundNoise {
        runs: (0..7).map(|n| format!("run-{n}")).collect(),
        ..round_noise(0.02)
    };
    says(
        report(&quiet(earlier)),
        ["±4 % (from 7 earlier runs of this machine)"],
    );
}

/// The costs of each cell but those of `send` in each round of so many blocks are another by so much.
fn in_rounds(study: &str, seed: u64, (rounds, blocks): (u32, u32), deviation: f64) -> World {
    let mut world = World::new(study).run(seed, rounds * blocks, 0.01, |_| True::costs(0.2));
    let mut g = Generator::new(seed);
    let mut factors = std::collections::BTreeMap::new();
    world.each(|sample| {
        let round = sample.trial.block / blocks;
        let own = !sample.cell.contains("/send/");
        let mut factor = || (f64::from(u8::from(own)) * deviation * g.normal()).exp();
        let times = *factors
            .entry((sample.cell.clone(), round))
            .or_insert_with(&mut factor);
        scale_cpu_time(sample, times);
    });
    world
}

#[test]
fn a_run_in_three_rounds_knows_by_itself_how_much_they_differ() {
    let mut world = in_rounds(STUDY, 5, (5, 4), 0.1);
    world.manifest.rounds = round_noise(0.0);
    let deviation = |measured: &World| {
        let found = measured.analyse();
        let costs = found.findings.iter().filter(|f| f.metric == COST);
        let each: Vec<f64> = costs.map(|f| f.between_deviation).collect();
        bytecost_stats::median(&each).expect("findings")
    };
    assert_eq!(deviation(&world), 0.0);
    world.manifest.round_blocks = vec![0, 4, 8, 12, 16];
    // The mean of five rounds has a fifth of the variance.
    let own = deviation(&world) * 5.0_f64.sqrt();
    assert!((0.06..0.14).contains(&own), "{own}");
    let source = world.analyse().run.rounds.map(|rounds| rounds.source);
    assert_eq!(source, Some(RoundSource::OwnRounds(5)));
    // Two are too few to know it.
    world.manifest.round_blocks = vec![0, 12];
    assert_eq!(deviation(&world), 0.0);
}

#[test]
fn equal_cells_that_differ_from_round_to_round_raise_few_alarms() {
    let runs = 40;
    let study = study_of(MOVERS);
    let [mut alone, mut assumed] = [0, 0];
    for seed in 0..runs {
        let mut world = in_rounds(&study, 2000 + seed, (1, 8), 0.04);
        let mut alarms = |noise: RoundNoise| {
            world.manifest.rounds = noise;
            let findings = world.analyse().findings;
            let mut costs = findings.iter().filter(|f| f.metric == COST);
            u32::from(costs.any(Finding::is_apart))
        };
        alone += alarms(round_noise(0.0));
        assumed += alarms(RoundNoise::ASSUMED);
    }
    assert!(alone > 20, "{alone} of {runs}");
    // 5 % of 40 are 2; 8 or more would come up once in a thousand.
    assert!(assumed <= 7, "{assumed} of {runs}");
}
