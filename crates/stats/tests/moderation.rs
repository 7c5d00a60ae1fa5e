//! Simulated runs test moderated variances, with fixed seeds.

use bytecost_stats::{Location, Moderation};

use crate::worlds::{WORLDS, slack};

#[test]
fn moderated_intervals_and_families_keep_their_promises_in_every_kind_of_noise() {
    const RUNS: usize = 400;
    for world in WORLDS {
        for (blocks, comparisons) in [(6, 10), (8, 70), (16, 30), (24, 20)] {
            let kept = world.simulate(blocks, comparisons, RUNS, 51);
            let covered = kept.covered[1];
            assert!((0.93..=0.975).contains(&covered), "{kept}");
            assert!(kept.alarmed[1] <= 0.05 + slack(0.05, RUNS), "{kept}");
        }
    }
}

#[test]
fn comparisons_of_equal_noise_gain_most_where_blocks_are_few() {
    let equal = |blocks| WORLDS[0].simulate(blocks, 70, 50, 52);
    let (few, many) = (equal(8), equal(24));
    assert!(few.width < 0.85 && few.strict < 0.5, "{few}");
    assert!(many.width < 0.97 && many.strict < 0.9, "{many}");
}

fn location(deviation: f64) -> Location {
    Location {
        value: 0.1,
        standard_error: deviation / 12_f64.sqrt(),
        degrees: 5.6,
        count: 12,
        lent: 0.0,
    }
}

#[test]
fn what_is_of_another_kind_keeps_its_own_variance() {
    let mut all: Vec<Location> = (0..20)
        .map(|i| location(0.1 + 0.002 * f64::from(i)))
        .collect();
    all.push(location(3.0));
    let moderation = Moderation::fit(&all).expect("twenty alike");
    assert!(
        (0.1..0.2).contains(&moderation.variance.sqrt()),
        "{moderation:?}"
    );
    assert_eq!(moderation.moderate(location(3.0)), location(3.0));
    // One that came out small by chance has nearly the others' variance, and its value stays.
    let small = moderation.moderate(location(0.02));
    assert!(small.deviation() > 0.08 && small.degrees > 5.6 && small.value == 0.1);
    assert_eq!(small.lent, moderation.degrees);
}

#[test]
fn what_has_no_spread_or_no_company_stays_as_it_is() {
    assert_eq!(Moderation::fit(&[location(0.1); 3]), None);
    assert_eq!(Moderation::fit(&[location(0.0); 9]), None);
    let moderation = Moderation::fit(&[location(0.1); 9]).expect("nine");
    assert_eq!(moderation.moderate(location(0.0)), location(0.0));
    assert!(Moderation::fit(&[location(f64::NAN); 9]).is_none());
}

#[test]
fn comparisons_that_have_nothing_in_common_lend_each_other_little() {
    let apart: Vec<Location> = (0..20).map(|i| location(0.01 * 1.5_f64.powi(i))).collect();
    let moderation = Moderation::fit(&apart).expect("twenty");
    assert!(moderation.degrees < 1.5, "{moderation:?}");
}
