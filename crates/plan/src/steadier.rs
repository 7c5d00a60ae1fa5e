//! Whether pinned ends make trials steadier on this machine: what trials of both kinds tell.
//!
//! Only how much costs vary is looked at, before anything is compared, so that the choice favours no
//! way. A pinned thread waits where others use its CPU, so that on a busy machine free ends are steadier.

use std::f64::consts::PI;

use bytecost_spec::survey::PlacementTrial;
use bytecost_stats::mean;
use itertools::Itertools as _;

/// Ends are pinned where trials then vary at most so much as with free ends: near 1, so that few runs
/// miss a gain by chance, and below it, since free ends are what most programs have.
const STEADIER: f64 = 0.9;

/// Whether they do; not where pinned trials failed or there are none.
pub fn is_steadier(trials: &[PlacementTrial]) -> bool {
    let count = |pinned| trials.iter().filter(|t| t.pinned == pinned).count();
    let [pinned, free] = [true, false].map(|pinned| spread(trials, pinned));
    let spreads = pinned.zip(free);
    count(true) >= count(false) && spreads.is_some_and(|(pinned, free)| pinned <= STEADIER * free)
}

/// The standard deviation of the logarithms of CPU time per byte, by how far neighbouring trials of
/// one cell are apart in the mean: what the machine does over seconds is hardly in it (von Neumann
/// 1941), and a trial far off counts, but not by its square.
fn spread(trials: &[PlacementTrial], pinned: bool) -> Option<f64> {
    let of_kind = trials.iter().filter(|t| t.pinned == pinned);
    let cost = |t: &PlacementTrial| (t.cpu_ns as f64 / t.bytes as f64).ln();
    let by_cell = of_kind.map(|t| ((t.place, t.size_bytes), cost(t)));
    let by_cell = by_cell.into_group_map().into_values();
    let apart = by_cell.flat_map(|costs| costs.into_iter().tuple_windows().map(|(a, b)| b - a));
    // Two normal values are 2/√π standard deviations apart in the mean.
    mean(&apart.map(f64::abs).collect_vec()).map(|apart| apart * PI.sqrt() / 2.0)
}

/// What was found and what the study took then; none where it was not asked.
pub(crate) fn note(trials: &[PlacementTrial], is_pinned: bool) -> Option<String> {
    let [pinned, free] = [true, false].map(|pinned| spread(trials, pinned));
    let percent = |spread: f64| bytecost_spec::units::percent(spread);
    let (pinned, free) = (percent(pinned?), percent(free?));
    let chosen = match is_pinned {
        true => "the ends are pinned",
        false => "the ends are left free",
    };
    Some(format!(
        "placement: {chosen}, since CPU time per byte varied from trial to trial by {pinned} with pinned ends and by {free} with free ones ({} trials)",
        trials.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trials of three cells, two of one size, whose costs are so many parts of a thousand apart.
    fn trials(pinned: bool, apart: &[u64]) -> Vec<PlacementTrial> {
        let cells = [(0, 256, 1), (1, 1 << 20, 1), (2, 1 << 20, 3)].into_iter();
        let trial = |((place, size_bytes, times), apart): ((u32, u64, u64), &u64)| PlacementTrial {
            pinned,
            place,
            size_bytes,
            cpu_ns: times * (1000 + apart) * (1 << 30) / size_bytes,
            bytes: 1000 * (1 << 20),
        };
        cells.cartesian_product(apart).map(trial).collect()
    }

    #[test]
    fn ends_are_pinned_where_their_trials_vary_clearly_less_and_none_failed() {
        let still = trials(true, &[0, 10, 20, 30, 40]);
        let moved = trials(false, &[0, 50, 100, 150, 200]);
        let check = |trials: &[Vec<PlacementTrial>], expected, words: &str| {
            let trials = trials.concat();
            assert_eq!(is_steadier(&trials), expected, "{words}");
            let note = note(&trials, expected).unwrap();
            assert!(note.contains(words), "{note}");
        };
        let both = [still.clone(), moved.clone()];
        check(&both, true, "the ends are pinned, since");
        check(&both, true, "by 0.9 % with pinned ends");
        let alike = trials(false, &[0, 11, 22, 33, 44]);
        check(&[still.clone(), alike], false, "are left free, since");
        // Halfway the machine becomes slower for all.
        let slower = |pinned, apart: u64| {
            trials(
                pinned,
                &[0, apart, 0, apart, 600, 600 + apart, 600, 600 + apart],
            )
        };
        let both = [slower(true, 10), slower(false, 150)];
        check(&both, true, "the ends are pinned, since");
        let failed = still[1..].to_vec();
        check(&[failed, moved.clone()], false, "are left free, since");
        assert!(!is_steadier(&[]) && note(&[], false).is_none());
        assert!(!is_steadier(&moved) && note(&moved, false).is_none());
    }
}
