//! Facts of a caveat, with the result that it belongs to.

use bytecost_analysis::{Analysis, Caveat, CaveatFact, CellResult, OthersLoad};
use bytecost_spec::host::Obstacle;
use bytecost_spec::{Counter, Metric, units};

use crate::phrases;

/// A caveat with the result that it is of.
pub(super) struct Known<'a> {
    pub(super) a: &'a Analysis,
    pub(super) caveat: &'a Caveat,
}

/// The first fact of a kind.
macro_rules! fact {
    ($known:expr, $pattern:pat $(if $condition:expr)? => $value:expr) => {
        $known.caveat.facts.iter().find_map(|fact| match fact {
            $pattern $(if $condition)? => Some($value),
            _ => None,
        })
    };
}
pub(super) use fact;

impl<'a> Known<'a> {
    pub(super) fn reason(&self) -> Option<&'a str> {
        fact!(self, CaveatFact::Reason(why) => why.as_str())
    }

    pub(super) fn share(&self, place: usize) -> Option<[f64; 2]> {
        let mut shares = self.caveat.facts.iter().filter_map(|fact| match fact {
            CaveatFact::Share(share) => Some(*share),
            _ => None,
        });
        shares.nth(place)
    }

    /// Range of a counter's readings: the least and the most.
    pub(super) fn reading(&self, counter: Counter) -> Option<[f64; 2]> {
        fact!(self, CaveatFact::Reading(of, read) if *of == counter => *read)
    }

    /// A sum that a counter gave.
    pub(super) fn sum(&self, counter: Counter) -> Option<f64> {
        Some(self.reading(counter)?[1])
    }

    /// Range of a counter's readings in words.
    pub(super) fn read(&self, counter: Counter, write: impl Fn(f64) -> String) -> Option<String> {
        Some(span(self.reading(counter)?, write))
    }

    pub(super) fn metric(&self, metric: Metric, write: impl Fn(f64) -> String) -> Option<String> {
        fact!(self, CaveatFact::Metric(of, values) if *of == metric => span(*values, &write))
    }

    pub(super) fn change(&self) -> Option<(Metric, [f64; 2])> {
        fact!(self, CaveatFact::Change(metric, change) => (*metric, *change))
    }

    /// A metric in words.
    pub(super) fn noun(&self, metric: Metric) -> String {
        phrases::metric(metric, self.a.study.unit)
    }

    pub(super) fn count(&self) -> Option<usize> {
        fact!(self, CaveatFact::Count(count) => *count)
    }

    /// `3 trials`.
    pub(super) fn counted(&self, noun: &str) -> Option<String> {
        Some(phrases::count(self.count()?, noun))
    }

    /// Number of affected items, and number of all.
    pub(super) fn part(&self) -> Option<(usize, usize)> {
        fact!(self, CaveatFact::Part { some, all } => (*some, *all))
    }

    pub(super) fn seconds(&self) -> Option<f64> {
        fact!(self, CaveatFact::Seconds(seconds) => *seconds)
    }

    pub(super) fn obstacles(&self) -> impl Iterator<Item = &'a Obstacle> {
        self.caveat.facts.iter().filter_map(|fact| match fact {
            CaveatFact::Obstacle(obstacle) => Some(obstacle),
            _ => None,
        })
    }

    pub(super) fn others(&self) -> Option<&'a OthersLoad> {
        fact!(self, CaveatFact::Others(load) => load)
    }

    /// The cells that it affects.
    pub(super) fn cells(&self) -> impl Iterator<Item = &'a CellResult> {
        let ids = &self.caveat.cells;
        self.a.cells.iter().filter(|cell| ids.contains(&cell.id))
    }
}

/// A range in words, or one value where both ends have the same text.
pub(super) fn span(ends: [f64; 2], write: impl Fn(f64) -> String) -> String {
    phrases::from_to(ends.map(write))
}

/// CPUs with two decimals.
pub(super) fn cpus(load: &OthersLoad) -> String {
    span(load.cpus, |cpus| format!("{cpus:.2}"))
}

/// CPU use of processes that do not belong to the run, in words.
pub(crate) fn others(load: &OthersLoad) -> String {
    let (cpus, bound) = (cpus(load), units::number(load.bound));
    let most = match load.names.as_slice() {
        [] => String::new(),
        names => format!("; most by {}", phrases::list(names)),
    };
    format!("{cpus} CPUs in use by processes that are not ours, more than {bound}{most}")
}
