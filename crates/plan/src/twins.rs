//! Twins: baselines that each block measures twice, under two ids.

use bytecost_spec::Study;
use bytecost_spec::study::Family;

use crate::candidates::{Candidate, PlanContext, baselines};

/// At most one of so many cells is a twin, twins included.
const SHARE: usize = 3;

pub(crate) struct Twinned {
    /// Their indices, in order.
    pub(crate) indices: Vec<usize>,
    /// The first of the study's comparisons whose baselines have no twins, as there would be too many.
    pub(crate) cut: Option<usize>,
}

/// The baselines of a study's candidates that may have twins.
pub(crate) struct Baselines {
    /// For each comparison of the study and each cell, the index of the cell's baseline, if it may have
    /// a twin.
    baseline_of: Vec<Vec<Option<usize>>>,
    cells: usize,
}

impl Baselines {
    /// The baselines; none if the study has no twins.
    pub(crate) fn new(
        candidates: &[Candidate],
        study: &Study,
        context: &PlanContext<'_>,
    ) -> Baselines {
        let mut baseline_of = if study.twins {
            baselines(candidates, study, context)
        } else {
            Vec::new()
        };
        // A comparison without verdicts needs no twin.
        for (compare, baselines) in study.compare.iter().zip(&mut baseline_of) {
            if compare.family == Family::Exploratory {
                baselines.fill(None);
            }
        }
        Baselines {
            baseline_of,
            cells: candidates.len(),
        }
    }

    /// The baselines among these cells that have twins: those of the comparisons in their order, as long
    /// as there are not too many. Those of the first comparison never are too many, as each has a cell
    /// that is compared with it.
    pub(crate) fn among(&self, kept: &[usize]) -> Twinned {
        let mut is_kept = vec![false; self.cells];
        for &i in kept {
            is_kept[i] = true;
        }
        let mut has_twin = vec![false; self.cells];
        let mut count = 0;
        let mut cut = None;
        for (number, baseline_of) in self.baseline_of.iter().enumerate() {
            let before = (has_twin.clone(), count);
            let kept_baselines = kept.iter().filter_map(|&i| baseline_of[i]);
            for baseline in kept_baselines.filter(|&b| is_kept[b]) {
                count += usize::from(!has_twin[baseline]);
                has_twin[baseline] = true;
            }
            if count * SHARE > kept.len() + count {
                (has_twin, _) = before;
                cut = Some(number);
                break;
            }
        }
        Twinned {
            indices: (0..self.cells).filter(|&i| has_twin[i]).collect(),
            cut,
        }
    }
}
