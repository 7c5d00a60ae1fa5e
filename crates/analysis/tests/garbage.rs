//! Whatever the log holds, an analysis comes out, the same each time, and keeps its promises.

use bytecost_analysis::{Estimate, Interim};
use bytecost_spec::{Counter, Pattern, Reading, Sample};
use bytecost_stats::Generator;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::world::{True, World, put, with_axes};

fn spoil(sample: &mut Sample, g: &mut Generator) {
    let counters: Vec<Counter> = sample.sender.readings.keys().copied().collect();
    let counter = counters[g.below(counters.len())];
    let extremes = [0, 1, u64::MAX, u64::MAX - 1, 1 << 53];
    let extreme = extremes[g.below(extremes.len())];
    let readings = &mut sample.sender.readings;
    let flows = sample.receiver.iter_mut().flat_map(|r| &mut r.flows);
    match g.below(12) {
        0 => put(readings, counter, extreme),
        1 => drop(readings.remove(&counter)),
        2 => drop(readings.insert(counter, Reading::absent("gone"))),
        3 => sample.receiver = None,
        4 => sample.truth = None,
        5 => sample.sender.flows.clear(),
        6 => flows.for_each(|f| f.elapsed_ns = 0),
        7 => sample.machine.clear(),
        8 => sample.latency_ns_histogram = Some("HISTFAAAA////".to_owned()),
        9 => sample.trial.block = extreme as u32,
        10 => sample.trial.attempt = extreme as u32,
        _ => sample.started_ms = extreme,
    }
}

fn ordered(e: &Estimate) -> bool {
    let low = e.low.is_none_or(|low| low <= e.value * (1.0 + 1e-9));
    let high = e.high.is_none_or(|high| high >= e.value * (1.0 - 1e-9));
    e.value.is_finite() && e.value >= 0.0 && low && high
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, failure_persistence: None, rng_seed: RngSeed::Fixed(20_261_121), ..ProptestConfig::default() })]

    #[test]
    fn any_log_is_judged(seed in any::<u64>(), blocks in 1..6_u32, spoilt in 0..60_usize, ask in any::<bool>()) {
        let study = with_axes(if ask { "pattern = [\"request-response\"]" } else { "" });
        let mut world = World::new(&study).run(seed, blocks, 0.1, |_| True::costs(0.2));
        prop_assert!(world.cells.iter().all(|c| (c.pattern == Pattern::RequestResponse) == ask));
        let mut g = Generator::new(seed);
        for _ in 0..spoilt {
            let at = g.below(world.samples.len());
            spoil(&mut world.samples[at], &mut g);
        }
        let analysis = world.analyse();
        prop_assert!(analysis.cells.iter().flat_map(|c| c.estimates.values()).all(ordered));
        for f in &analysis.findings {
            prop_assert!(f.low <= f.ratio && f.ratio <= f.high && f.high.is_finite(), "{f:?}");
            let corrected = f.p_corrected.unwrap_or(1.0);
            prop_assert!((0.0..=1.0).contains(&f.p) && f.p <= corrected && corrected <= 1.0);
        }
        let text = serde_json::to_string(&analysis).expect("JSON");
        prop_assert_eq!(&text, &serde_json::to_string(&world.analyse()).expect("JSON"));
        prop_assert!(serde_json::from_str::<bytecost_analysis::Analysis>(&text).is_ok());
        let progress = Interim::new(world.input()).widest;
        prop_assert!(progress.is_none_or(|p| p.half_width >= 0.0));
    }
}
