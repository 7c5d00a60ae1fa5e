//! Simulated runs test blocks that measure a subset, with fixed seeds.

use crate::worlds::{MOST_BLOCKS, RULES, WORLDS, slack};

#[test]
fn blocks_for_wide_intervals_alone_keep_every_promise() {
    const RUNS: usize = 300;
    for world in WORLDS {
        for precision in [0.5, 0.7] {
            let kept = world.subsets(RULES[0], 30, precision, RUNS, 61);
            let name = world.name;
            assert!((0.93..=0.975).contains(&kept.covered), "{name}: {kept}");
            assert!(kept.alarmed <= 0.05 + slack(0.05, RUNS), "{name}: {kept}");
            assert!(kept.blocks < MOST_BLOCKS as f64, "{name}: {kept}");
        }
    }
}

#[test]
fn the_width_of_the_own_variance_ends_too_early_what_looks_quiet_by_chance() {
    let [moderated, _, _, own] = RULES.map(|rule| WORLDS[0].subsets(rule, 30, 0.65, 200, 62));
    // Those that end are those whose variance came out small.
    assert!(own.variance < 0.9, "{own}");
    assert!(moderated.variance > 0.9, "{moderated}");
}
