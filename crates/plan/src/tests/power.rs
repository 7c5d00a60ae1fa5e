//! The effects that a plan expects to detect, and the cells that it leaves out for them.

use bytecost_spec::manifest::{Expectation, RatioNoise};
use bytecost_spec::study::{Compare, Family};
use bytecost_spec::{Axis, Cell, Plan, Study};
use bytecost_stats::{Generator, trimmed_mean};

use super::{host, study, survey};
use crate::power::Power;

fn planned(study: &Study, noise: &RatioNoise) -> (Plan, Expectation) {
    let here = crate::SurveyedHost {
        host: &host(),
        survey: &survey(),
    };
    let plan = crate::plan(study, here, None, 7, Some(noise)).unwrap();
    let expectation = plan.expectation.clone().unwrap();
    (plan, expectation)
}

fn noise(deviation: f64) -> RatioNoise {
    RatioNoise {
        deviation,
        ..RatioNoise::ASSUMED
    }
}

/// A study whose sizes are primary and whose numbers of threads are secondary.
fn in_parts(budget: &str) -> Study {
    let budget = format!("budget = \"{budget}\"");
    let mut study = study(&[
        ("budget = \"30s\"", &budget),
        ("threads = [1, 2, 4]", "threads = [1, 2, 4, 8, 16]"),
    ]);
    let metrics = study.compare[0].metrics.clone();
    study.compare[0].primary = vec![bytecost_spec::study::PrimaryPart {
        at: vec![
            (Axis::Threads, vec!["1".into()]),
            (Axis::Transport, vec!["loopback".into()]),
        ],
        ..Default::default()
    }];
    study.compare.push(Compare {
        family: Family::Secondary,
        ..Compare::new(Axis::Threads, "1", metrics)
    });
    study
}

#[test]
fn the_effect_that_a_plan_promises_is_found_at_the_promised_rate() {
    const RUNS: usize = 4000;
    let study = study(&[]);
    let mut g = Generator::new(14);
    for (deviation, blocks, primaries) in
        [(0.15, 12, 8), (0.15, 20, 28), (0.05, 8, 1), (0.3, 40, 70)]
    {
        let noise = noise(deviation);
        let power = Power {
            noise: &noise,
            study: &study,
        };
        let expected = power.expectation(blocks, primaries);
        let effect = expected.smallest_effect.unwrap();
        // Single ratios of this deviation have a trimmed mean as uncertain as the mean of the noise's.
        let single = deviation / 1.05;
        let mut found = 0;
        for _ in 0..RUNS {
            let logs: Vec<f64> = (0..blocks)
                .map(|_| effect.ln_1p() + single * g.normal())
                .collect();
            let location = trimmed_mean(&logs).unwrap();
            let p = location.p_value(0.0).unwrap();
            found += usize::from(p < 0.05 / f64::from(primaries) && location.value > 0.0);
        }
        let share = found as f64 / RUNS as f64;
        let context = format!("{deviation} {blocks} {primaries}: {effect} {share}");
        assert!((0.75..=0.85).contains(&share), "{context}");
    }
}

#[test]
fn secondary_tiers_are_left_out_if_the_primary_comparisons_need_the_time() {
    let (plan, expectation) = planned(&in_parts("30s"), &noise(0.15));
    let is_first = |c: &Cell| c.threads == 1;
    assert!(plan.cells.iter().all(is_first), "{:?}", plan.left_out);
    assert_eq!(expectation.primaries, 8);
    assert!(expectation.blocks > 12, "{expectation:?}");
    let titles: Vec<&str> = plan.left_out.iter().map(|l| l.what.as_str()).collect();
    assert!(titles[0].starts_with("threads"), "{titles:?}");
    // A quiet machine decides both.
    let (quiet, _) = planned(&in_parts("30s"), &noise(0.005));
    assert!(quiet.cells.iter().any(|c| c.threads == 4));
    // So does the budget that is named.
    let budget = plan.left_out[0].why.split('`').nth(1).unwrap();
    let enough = budget.strip_prefix("--budget ").unwrap();
    let (more, _) = planned(&in_parts(enough), &noise(0.15));
    assert!(more.cells.iter().any(|c| c.threads == 4), "{budget}");
}

#[test]
fn no_comparison_is_planned_that_would_not_detect_a_factor_of_one_and_a_half() {
    // 30 s pay for 18 cells in 10 blocks and for 30 in 6.
    let (plan, expectation) = planned(&study(&[]), &noise(0.3));
    let effect = expectation.smallest_effect.unwrap();
    assert!(effect <= 0.5, "{expectation:?}");
    assert!(plan.cells.len() < super::plan(&study(&[])).cells.len());
    assert!(!plan.left_out.is_empty());
    let why = &plan.left_out[0].why;
    assert!(!why.contains("with 6 blocks each"), "{why}");
}
