//! Constructors of caveats and of the facts in them.

use bytecost_spec::Counter;
use itertools::Itertools as _;

use crate::result::{Caveat, CaveatFact};
use crate::trials::CellTrials;

pub(super) fn run_caveat(facts: impl IntoIterator<Item = CaveatFact>) -> Caveat {
    Caveat {
        facts: facts.into_iter().collect(),
        ..Caveat::default()
    }
}

/// A caveat of some cells; none where there are none.
pub(super) fn cells_caveat(
    cells: Vec<String>,
    facts: impl IntoIterator<Item = CaveatFact>,
) -> Option<Caveat> {
    (!cells.is_empty()).then(|| Caveat {
        cells,
        ..run_caveat(facts)
    })
}

impl Caveat {
    pub(super) fn and(self, fact: CaveatFact) -> Caveat {
        let facts = self.facts.into_iter().chain([fact]).collect();
        Caveat { facts, ..self }
    }

    pub(super) fn about(self, subject: &str) -> Caveat {
        Caveat {
            subject: Some(subject.to_owned()),
            ..self
        }
    }

    /// The same as a disturbance from outside, which the first screen names.
    pub(super) fn disturbing(self) -> Caveat {
        Caveat {
            disturbs: true,
            ..self
        }
    }
}

/// A fact made of the least and the most of some numbers.
pub(super) type OfSpan = fn([f64; 2]) -> CaveatFact;

/// The caveat of the cells that `shows` returns numbers for, with the spans of those that are known.
pub(super) fn spans<'v, const N: usize>(
    cells: impl Iterator<Item = &'v CellTrials<'v>>,
    facts: [OfSpan; N],
    shows: impl Fn(&'v CellTrials<'v>) -> Option<[Option<f64>; N]>,
) -> Option<Caveat> {
    let shown = cells.filter_map(|cell| Some((cell.id.clone(), shows(cell)?)));
    let (ids, numbers): (Vec<_>, Vec<_>) = shown.unzip();
    let known = facts
        .into_iter()
        .enumerate()
        .filter_map(|(at, fact)| span(numbers.iter().filter_map(|n| n[at])).map(fact));
    cells_caveat(ids, known.collect_vec())
}

/// The sums of some counters of the machine over the trials of some cells.
pub(super) fn machine_sums(
    cells: &[&CellTrials<'_>],
    counters: impl IntoIterator<Item = Counter>,
) -> Vec<CaveatFact> {
    let sum = |counter| cells.iter().map(|c| c.sum(|t| t.of_all(counter))).sum();
    counters
        .into_iter()
        .map(|counter| CaveatFact::Reading(counter, both(sum(counter))))
        .collect()
}

/// The least and the most of some numbers; none of none.
pub(super) fn span(numbers: impl IntoIterator<Item = f64>) -> Option<[f64; 2]> {
    let ends = numbers.into_iter().minmax().into_option();
    ends.map(|(least, most)| [least, most])
}

/// One number as a span.
pub(super) const fn both(number: f64) -> [f64; 2] {
    [number; 2]
}

pub(super) fn ids<'c>(cells: impl IntoIterator<Item = &'c CellTrials<'c>>) -> Vec<String> {
    cells.into_iter().map(|c| c.id.clone()).collect()
}
