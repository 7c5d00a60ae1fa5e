//! The promise of corrected tables: rates of false discoveries, by simulation with fixed seeds.

use bytecost_stats::{Generator, false_discovery, t_two_sided_p};

use crate::worlds::slack;

const RATE: f64 = 0.05;
const RUNS: usize = 4_000;
const TABLES: usize = 8;
const ROWS: usize = 30;

/// Tables of p values whose rows share a baseline, and that share what disturbs a cell; in table
/// `t` the first `real(t)` rows have a difference.
fn tables(g: &mut Generator, real: impl Fn(usize) -> usize) -> Vec<Vec<f64>> {
    let cells: Vec<f64> = (0..ROWS).map(|_| g.normal()).collect();
    let table = |t: usize, generator: &mut Generator| {
        let baseline = generator.normal();
        let p = |(row, cell): (usize, &f64)| {
            let difference = if row < real(t) { 4.0 } else { 0.0 };
            let own = (0.5_f64).sqrt() * (cell + generator.normal());
            let z = (own - baseline) / 2.0_f64.sqrt();
            t_two_sided_p(z + difference, 1e6).unwrap_or(1.0)
        };
        cells.iter().enumerate().map(p).collect()
    };
    (0..TABLES).map(|t| table(t, g)).collect()
}

/// The mean over runs of the share that is false among what a table decides, over the tables that
/// decide anything, and the share of runs in which anything false is decided.
fn rates(seed: u64, real: impl Fn(usize) -> usize) -> (f64, f64) {
    let mut g = Generator::new(seed);
    let (mut shares, mut any) = (0.0, 0);
    for _ in 0..RUNS {
        let corrected = false_discovery(&tables(&mut g, &real));
        let mut shares_wrong = Vec::new();
        for (t, table) in corrected.iter().enumerate() {
            let decided = table.iter().filter(|p| **p < RATE).count();
            let wrong = table.iter().skip(real(t)).filter(|p| **p < RATE).count();
            if decided > 0 {
                shares_wrong.push((wrong, wrong as f64 / decided as f64));
            }
        }
        any += usize::from(shares_wrong.iter().any(|(wrong, _)| *wrong > 0));
        shares += shares_wrong.iter().map(|(_, share)| share).sum::<f64>()
            / shares_wrong.len().max(1) as f64;
    }
    (shares / RUNS as f64, any as f64 / RUNS as f64)
}

#[test]
fn where_nothing_differs_any_alarm_over_all_tables_is_one_in_twenty_at_most() {
    let (_, any) = rates(41, |_| 0);
    assert!(any <= RATE + slack(RATE, RUNS), "{any}");
}

#[test]
fn of_what_a_table_decides_one_in_twenty_is_false_at_most() {
    for real in [
        |t| if t < 4 { ROWS } else { 0 },
        |t| if t == 0 { ROWS } else { 2 },
        |_| ROWS / 2,
        |t| 4 * t,
    ] {
        let (share, _) = rates(42, real);
        assert!(share <= RATE + slack(RATE, RUNS), "{share}");
    }
}

#[test]
fn a_table_of_differences_is_decided_beside_tables_without_any() {
    let mut g = Generator::new(43);
    let mut found = 0;
    for _ in 0..200 {
        let corrected = false_discovery(&tables(&mut g, |t| if t == 0 { ROWS } else { 0 }));
        found += corrected[0].iter().filter(|p| **p < RATE).count();
    }
    // Bonferroni over all 240 asks for 3.7 deviations, and finds some six in ten.
    assert!(found as f64 > 0.8 * (200 * ROWS) as f64, "{found}");
}
