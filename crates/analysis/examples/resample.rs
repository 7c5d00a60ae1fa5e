//! Intervals of a recorded run, checked by resampling it.
//!
//! `cargo run --release -p bytecost-analysis --example resample RUN…` takes run directories. Each
//! comparison is centred at its own estimate, so that its truth is known: nothing. Then blocks are
//! drawn with replacement, or keep their values and change their signs at random, all comparisons
//! together. It prints how often 95 % intervals hold the truth and how often a metric's family has a
//! false alarm, by each comparison's own variance and by the moderated one, and what becomes of the
//! width. Blocks that are drawn twice have too little spread: the fewer blocks, the less is covered.
//! Signs keep the spread and take away what is lopsided.

use std::collections::BTreeSet;
use std::error::Error;
use std::{env, fs};

use bytecost_analysis::{grouped, log_ratios};
use bytecost_spec::{Cell, Manifest, Record};
use bytecost_stats::{
    Generator, Location, Moderation, holm, median, trimmed_mean, trimmed_mean_value,
};

/// Draws for each run.
const DRAWS: usize = 1000;

fn main() -> Result<(), Box<dyn Error>> {
    for dir in env::args().skip(1) {
        let manifest: Manifest =
            serde_json::from_str(&fs::read_to_string(format!("{dir}/manifest.json"))?)?;
        let text = fs::read_to_string(format!("{dir}/samples.jsonl"))?;
        let records = text.lines().map(serde_json::from_str::<Record>);
        let samples: Vec<_> = records
            .filter_map(|record| match record {
                Ok(Record::Sample(sample)) => Some(sample),
                _ => None,
            })
            .collect();
        let ids: BTreeSet<&str> = samples.iter().map(|s| s.cell.as_str()).collect();
        let cells: Vec<Cell> = ids.into_iter().filter_map(Cell::from_id).collect();
        for (metric, comparisons) in grouped(log_ratios(&manifest, &cells, &samples)) {
            let study = &manifest.study.name;
            let Some(shared) = comparisons
                .iter()
                .map(|f| f.keys().collect::<BTreeSet<_>>())
                .reduce(|a, b| &a & &b)
            else {
                continue;
            };
            let centred = |logs: &std::collections::BTreeMap<u32, f64>| -> Vec<f64> {
                let own: Vec<f64> = shared.iter().map(|block| logs[block]).collect();
                let middle = trimmed_mean_value(&own).unwrap_or(0.0);
                own.iter().map(|v| v - middle).collect()
            };
            let family: Vec<Vec<f64>> = comparisons.iter().map(centred).collect();
            if shared.len() < 5 {
                continue;
            }
            for (name, signs) in [("drawn", false), ("signs", true)] {
                let rates = resampled(&family, shared.len(), signs);
                println!(
                    "{study:16} {metric:32} {:3} comparisons {:3} blocks {name}  {rates}",
                    family.len(),
                    shared.len()
                );
            }
        }
    }
    Ok(())
}

/// Coverage, alarms and widths over all draws.
fn resampled(family: &[Vec<f64>], blocks: usize, signs: bool) -> String {
    let mut g = Generator::new(7);
    let (mut held, mut alarmed, mut widths) = ([0_usize; 2], [0_usize; 2], Vec::new());
    let mut of_each = vec![[0_usize; 2]; family.len()];
    for _ in 0..DRAWS {
        let drawn: Vec<(usize, f64)> = (0..blocks)
            .map(|block| {
                if signs {
                    (block, if g.unit() < 0.5 { -1.0 } else { 1.0 })
                } else {
                    (g.below(blocks), 1.0)
                }
            })
            .collect();
        let logs = |logs: &Vec<f64>| {
            let values: Vec<f64> = drawn
                .iter()
                .map(|(block, sign)| sign * logs[*block])
                .collect();
            trimmed_mean(&values)
        };
        let own: Vec<Location> = family.iter().filter_map(logs).collect();
        let prior = Moderation::fit(&own);
        let moderated: Vec<Location> = (own.iter())
            .map(|l| prior.map_or(*l, |prior| prior.moderate(*l)))
            .collect();
        for (way, all) in [&own, &moderated].into_iter().enumerate() {
            for (place, location) in all.iter().enumerate() {
                let holds = location.interval(0.95).is_some_and(|i| i.holds(0.0));
                held[way] += usize::from(holds);
                of_each[place][way] += usize::from(holds);
            }
            let p: Vec<f64> = all.iter().filter_map(|l| l.p_value(0.0)).collect();
            alarmed[way] += usize::from(holm(&p).iter().any(|p| *p < 0.05));
        }
        let width = |l: &Location| l.interval(0.95).map(|i| i.half_width());
        widths.extend(own.iter().zip(&moderated).filter_map(|(own, moderated)| {
            Some(width(moderated)? / width(own).filter(|w| *w > 0.0)?)
        }));
    }
    let percent = |n: usize, all: usize| 100.0 * n as f64 / all as f64;
    let [a, b] = held.map(|n| percent(n, DRAWS * family.len()));
    let least = |way: usize| {
        let each = of_each.iter().map(|counts| percent(counts[way], DRAWS));
        each.fold(100.0, f64::min)
    };
    let [c, d] = alarmed.map(|n| percent(n, DRAWS));
    format!(
        "coverage {a:5.1} {b:5.1} %  least {:5.1} {:5.1} %  alarms {c:5.1} {d:5.1} %  width {:4.2}",
        least(0),
        least(1),
        median(&widths).unwrap_or(f64::NAN)
    )
}
