//! CPUs that changed their speed during the run.

use bytecost_spec::Counter;
use bytecost_stats::quantile;

use super::{UnnamedCaveat, ids, of_cells};
use crate::phrases;
use crate::trials::CellTrials;
use crate::view::View;

/// How far the frequencies may be apart, the 90 % quantile over the 10 % quantile.
const STEADY: f64 = 1.1;

/// Trials of very different frequencies.
pub(super) fn changes(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let cells: Vec<&CellTrials<'_>> = view.measured().collect();
    let known = |c: &&CellTrials<'_>| -> Vec<f64> {
        let khz = c.trials().filter_map(|t| t.of_all(Counter::FrequencyKhz));
        khz.filter(|k| *k > 0.0).collect()
    };
    let all: Vec<f64> = cells.iter().flat_map(known).collect();
    let (Some(low), Some(high)) = (quantile(&all, 0.1), quantile(&all, 0.9)) else {
        return Vec::new();
    };
    if high <= STEADY * low {
        return Vec::new();
    }
    let told: Vec<&CellTrials<'_>> = cells.into_iter().filter(|c| !known(c).is_empty()).collect();
    vec![UnnamedCaveat {
        text: "The CPUs' frequency changed during the run: numbers of single cells depend on when they were taken, and so do their ratios where trials of a block differ.".to_owned(),
        evidence: format!(
            "scaling_cur_freq of the fastest CPU at the end of each window: {:.2} GHz (10 % quantile) to {:.2} GHz (90 %)",
            low / 1e6,
            high / 1e6
        ),
        remedy: "a fixed frequency: `cpupower frequency-set -g performance`, turbo off; cycles per byte where there are counters".to_owned(),
        cells: ids(told),
    }]
}

/// Windows in which heat made a core or a package slower.
pub(super) fn throttled(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let shows = |cell: &CellTrials<'_>| {
        let counts = cell
            .trials()
            .filter_map(|t| t.of_all(Counter::ThermalThrottles));
        let counts: Vec<f64> = counts.filter(|n| *n > 0.0).collect();
        let sums = [counts.iter().sum::<f64>(), counts.len() as f64];
        (!counts.is_empty()).then(|| sums.map(Some))
    };
    of_cells(view.measured(), shows, |_, [times, trials]| {
        (
            "Heat made CPUs slower during these trials.".to_owned(),
            format!(
                "thermal_throttle: slowed down {:.0} times in {}",
                times.iter().sum::<f64>(),
                phrases::count(trials.iter().sum::<f64>() as usize, "trial")
            ),
            "cool the machine, or hold its frequency below what it can keep up",
        )
    })
}
