//! Twins that differ more often than chance explains.

use super::UnnamedCaveat;
use crate::confidence::ERROR_RATE;
use crate::phrases;
use crate::view::View;

/// A run in twenty has one different twin of one; fewer than one in a hundred has as many as
/// these, if its intervals hold.
const CHANCE_LEAST: f64 = 0.01;

/// More twins came out different than chance explains: the intervals of this run are too narrow.
pub(super) fn differ(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let Some(floor) = view.noise_floor.filter(|f| f.chance < CHANCE_LEAST) else {
        return Vec::new();
    };
    let different = || view.twins.iter().filter(|t| t.different);
    let ratios: Vec<String> = different()
        .map(|t| phrases::ratio(t.ratio, t.low, t.high))
        .collect();
    vec![UnnamedCaveat {
        text: "More baselines differ from their own twins than chance explains. The intervals of this run are too narrow."
            .to_owned(),
        evidence: format!(
            "{} of {} came out different, {} would by chance; as many or more do so in {} of runs; their ratios: {}",
            floor.different,
            phrases::count(floor.twins, "twin"),
            phrases::percent(ERROR_RATE),
            phrases::percent(floor.chance),
            phrases::list(&ratios)
        ),
        remedy: "stop other programs and run again; pin the threads with --placement".to_owned(),
        cells: different().map(|t| t.cell.clone()).collect(),
    }]
}
