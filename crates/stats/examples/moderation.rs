//! The gain of moderated variances, and their error rates, in simulated runs without any difference.
//!
//! `cargo run --release -p bytecost-stats --example moderation [RUNS]` prints for each kind of noise
//! the coverage of 95 % intervals, that of the fifth of comparisons whose true noise is largest, the
//! share of runs with a false alarm, and the median of moderated widths over own ones, at 95 % and at
//! the level that the correction asks of the first of the family. Tests hold the promises.

#[path = "../tests/worlds/mod.rs"]
mod worlds;

fn main() {
    let runs = std::env::args().nth(1).and_then(|n| n.parse().ok());
    println!(
        "{:22} {:>6} {:>11}  {:>17}  {:>15}  {:>15}  {:>5} {:>6}",
        "noise",
        "blocks",
        "comparisons",
        "coverage own, mod.",
        "noisiest fifth",
        "alarms",
        "width",
        "strict"
    );
    for world in worlds::WORLDS {
        for (blocks, comparisons) in [(6, 10), (6, 70), (8, 30), (12, 70), (16, 30), (24, 70)] {
            println!(
                "{}",
                world.simulate(blocks, comparisons, runs.unwrap_or(400), 1)
            );
        }
    }
}
