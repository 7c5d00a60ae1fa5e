//! Twins: a baseline is measured twice in each block, under two names.

use bytecost_spec::Study;
use bytecost_spec::study::Family;

use crate::candidates::{Candidate, Norm, baselines};

/// Of all cells, twins included, at most one in so many is a twin.
const SHARE: usize = 3;

pub(crate) struct Twinned {
    /// Their places, in order.
    pub(crate) places: Vec<usize>,
    /// The first of the study's comparisons whose baselines have none, since they would be too many.
    pub(crate) cut: Option<usize>,
}

pub(crate) struct Baselines {
    /// For each comparison of the study and each cell, the place of the cell's baseline, if it may have
    /// a twin.
    of: Vec<Vec<Option<usize>>>,
    cells: usize,
}

impl Baselines {
    /// None at all where the study has no twins.
    pub(crate) fn of(candidates: &[Candidate], study: &Study, norm: &Norm<'_>) -> Baselines {
        let mut of = if study.twins {
            baselines(candidates, study, norm)
        } else {
            Vec::new()
        };
        // What is not judged needs no baseline that is known better.
        for (compare, baselines) in study.compare.iter().zip(&mut of) {
            if compare.family == Family::Exploratory {
                baselines.fill(None);
            }
        }
        Baselines {
            of,
            cells: candidates.len(),
        }
    }

    /// Which of the cells at these places have a twin: the baselines of the comparisons in their
    /// order, as long as they are not too many. Those of the first never are: each has a cell that
    /// is compared with it.
    pub(crate) fn among(&self, kept: &[usize]) -> Twinned {
        let mut is_kept = vec![false; self.cells];
        for &i in kept {
            is_kept[i] = true;
        }
        let mut has_twin = vec![false; self.cells];
        let mut count = 0;
        let mut cut = None;
        for (number, of) in self.of.iter().enumerate() {
            let before = (has_twin.clone(), count);
            for p in kept.iter().filter_map(|&i| of[i]).filter(|&p| is_kept[p]) {
                count += usize::from(!has_twin[p]);
                has_twin[p] = true;
            }
            if count * SHARE > kept.len() + count {
                (has_twin, _) = before;
                cut = Some(number);
                break;
            }
        }
        Twinned {
            places: (0..self.cells).filter(|&i| has_twin[i]).collect(),
            cut,
        }
    }
}
