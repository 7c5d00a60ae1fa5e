//! The results of one build, compared with the goals.

use std::collections::{BTreeMap, BTreeSet};

use bytecost_spec::units;
use bytecost_stats::{median, quantile};

use super::list::Part;
use super::outcome::{Comparison, Id, Outcome, Sentence, Verdict};
use crate::result::{Row, Target};

/// The columns of the table, and how wide they are.
const COLUMNS: [(&str, usize); 12] = [
    ("part", 13),
    ("build", 6),
    ("runs", 4),
    ("known", 6),
    ("decided", 8),
    ("wrong", 5),
    ("half-width", 10),
    ("≤ 5 %", 6),
    ("≤ 10 %", 6),
    ("time", 4),
    ("first", 6),
    ("best", 6),
];

/// The heading of the table.
pub(super) fn head() -> String {
    line(&COLUMNS.map(|(name, _)| name.to_owned()))
}

fn line(cells: &[String]) -> String {
    let cells = COLUMNS.iter().zip(cells);
    let told = cells.enumerate().map(|(place, ((_, width), cell))| {
        // Names to the left, numbers to the right.
        if place < 2 {
            format!("{cell:<width$}")
        } else {
            format!("{cell:>width$}")
        }
    });
    told.collect::<Vec<_>>().join(" ")
}

/// The runs of one build.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Reached {
    runs: usize,
    /// Comparisons that any run of either build has, and all that the list asks for: a run's share.
    known: (usize, usize),
    /// Of those with a greater effect than asked, in all runs: decided for it, decided against it,
    /// all. What a run has not counts as not decided.
    decided: usize,
    wrong: usize,
    large: usize,
    /// Half-widths, of all runs; without end where a run has none. Stalls are not among them.
    half_widths: Vec<f64>,
    seconds: Vec<f64>,
    /// First sentences that are decided, and those that say what it would take.
    first: (usize, usize),
    /// Places where the best set is as asked, of all.
    best: (usize, usize),
}

impl Reached {
    pub(super) fn of(part: &Part, outcomes: &[Outcome], effects: &BTreeMap<Id, f64>) -> Reached {
        let missing = outcomes.iter().map(|o| o.comparisons.len() + o.missing);
        let mut reached = Reached {
            runs: outcomes.len(),
            known: (effects.len(), missing.max().unwrap_or(0)),
            seconds: outcomes.iter().map(|o| o.seconds).collect(),
            ..Reached::default()
        };
        let least = part.effect.unwrap_or(0.0).ln_1p();
        for outcome in outcomes {
            for (id, effect) in effects {
                let found = outcome.comparisons.get(id);
                if !outcome.stalled.contains(id) {
                    let none = f64::INFINITY;
                    let half_width = found.map_or(none, Comparison::half_width);
                    reached.half_widths.push(half_width);
                }
                if effect.abs() > least {
                    reached.large += 1;
                    let is = |which: bool| {
                        found.is_some_and(|c| {
                            c.verdict != Verdict::Open && c.finds(*effect) == which
                        })
                    };
                    reached.decided += usize::from(is(true));
                    reached.wrong += usize::from(is(false));
                }
            }
            let count = |sentence| usize::from(outcome.sentence == sentence);
            reached.first.0 += count(Sentence::Decided);
            reached.first.1 += count(Sentence::Says);
            if let Some(worse) = part.best_set {
                let (good, all) = best_sets(outcome, effects, worse.ln_1p());
                reached.best.0 += good;
                reached.best.1 += all;
            }
        }
        reached
    }

    fn share_within(&self, half_width: f64) -> f64 {
        let narrow = self.half_widths.iter().filter(|h| **h <= half_width);
        narrow.count() as f64 / self.half_widths.len() as f64
    }

    /// The middle of them; without end where more than half have none.
    fn half_width(&self) -> f64 {
        let known: Vec<f64> = self.half_widths.iter().map(|h| h.min(f64::MAX)).collect();
        match quantile(&known, 0.5) {
            Some(middle) if middle < f64::MAX / 4.0 => middle,
            Some(_) => f64::INFINITY,
            None => f64::NAN,
        }
    }

    fn share_decided(&self) -> f64 {
        self.decided as f64 / self.large as f64
    }

    /// The line of the table.
    pub(super) fn line(&self, part: &Part, build: &str) -> String {
        let of = |(count, all): (usize, usize)| match all {
            0 => "-".to_owned(),
            _ => format!("{count}/{all}"),
        };
        let percent = |share: f64| match share {
            s if s.is_finite() => units::percent(s),
            _ => "none".to_owned(),
        };
        let mut first = self.first.0.to_string();
        if self.first.1 > 0 {
            first = format!("{first}+{}", self.first.1);
        }
        line(&[
            part.study.clone(),
            build.to_owned(),
            self.runs.to_string(),
            of(self.known),
            of((self.decided, self.large)),
            self.wrong.to_string(),
            percent(self.half_width()),
            percent(self.share_within(0.05)),
            percent(self.share_within(0.10)),
            format!("{:.0}", median(&self.seconds).unwrap_or(f64::NAN)),
            format!("{first}/{}", self.runs),
            of(self.best),
        ])
    }

    /// The goals.
    pub(super) fn rows(&self, part: &Part) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut row = |what: String, value: f64, target: Target| {
            rows.push(Row::once(format!("{}: {what}", part.study), value, target));
        };
        if let (Some(effect), Some(decided)) = (part.effect, part.decided) {
            let what = format!("decided above {}", units::percent(effect));
            row(what, self.share_decided(), Target::AtLeast(decided));
        }
        let widths = [
            ("half-width", part.half_width),
            ("the goal", part.half_width_goal),
        ];
        for (what, most) in widths {
            if let Some(most) = most {
                row(what.to_owned(), self.half_width(), Target::AtMost(most));
            }
        }
        for (share, half_width) in &part.within {
            let what = format!("± {} or better", units::percent(*half_width));
            row(
                what,
                self.share_within(*half_width),
                Target::AtLeast(*share),
            );
        }
        if part.best_set.is_some() {
            let share = self.best.0 as f64 / self.best.1 as f64;
            row("best sets as asked".to_owned(), share, Target::AtLeast(1.0));
        }
        if part.first_sentence {
            let good = self.first.0 + self.first.1;
            let share = good as f64 / self.runs as f64;
            row("first sentences".to_owned(), share, Target::AtLeast(1.0));
        }
        rows
    }
}

/// In how many places of how many the best set is as it should be: it excludes every way that costs
/// so much more than the best one, and the worst way is decided. A run of a build that tells no sets
/// has none that is.
fn best_sets(outcome: &Outcome, effects: &BTreeMap<Id, f64>, worse: f64) -> (usize, usize) {
    let mut places: BTreeMap<&str, BTreeSet<&Id>> = BTreeMap::new();
    for id in effects.keys() {
        // Each comparison's name has its place, also of those that this run has not.
        let at = id.rsplit_once(", ").map_or(id.as_str(), |(place, _)| place);
        places.entry(at).or_default().insert(id);
    }
    let good = places.values().filter(|ids| {
        let ways = ids
            .iter()
            .map(|id| (effects[*id], outcome.comparisons.get(*id)));
        is_best_set_as_asked(&ways.collect::<Vec<_>>(), worse)
    });
    (good.count(), places.len())
}

/// Of the ways at a place, each with its effect.
fn is_best_set_as_asked(ways: &[(f64, Option<&Comparison>)], worse: f64) -> bool {
    let found: Vec<&Comparison> = ways.iter().filter_map(|(_, found)| *found).collect();
    let more_is_better = found.iter().all(|c| c.more_is_better);
    // From here on a greater number is better.
    let good = |effect: f64| if more_is_better { effect } else { -effect };
    let best = ways
        .iter()
        .map(|(effect, _)| good(*effect))
        .fold(0.0, f64::max);
    let has_set = found.iter().any(|c| c.may_be_best.contains(&true));
    let mut far = ways
        .iter()
        .filter(|(effect, _)| best - good(*effect) > worse);
    let far_excluded = far.all(|(_, found)| found.is_some_and(|c| !c.may_be_best[0]));
    let baseline_excluded = best <= worse || found.iter().all(|c| !c.may_be_best[1]);
    let worst = ways.iter().min_by(|a, b| good(a.0).total_cmp(&good(b.0)));
    let worst_is_decided =
        worst.is_some_and(|(_, found)| found.is_some_and(|c| c.verdict != Verdict::Open));
    has_set && far_excluded && baseline_excluded && worst_is_decided
}

#[cfg(test)]
mod tests {
    use super::super::list::List;
    use super::super::outcome::{
        effects,
        tests::{Made, line},
    };
    use super::*;
    use crate::result::Verdict as Goal;
    use serde_json::{Value, json};

    fn reached(runs: &[&[Made<'_>]], change: fn(&mut Part)) -> (Reached, Vec<Goal>) {
        let mut list = List::read().unwrap();
        let part = list.part("send-copies");
        change(part);
        let outcomes: Vec<Outcome> = runs
            .iter()
            .map(|findings| Outcome::read(&line(findings), part).unwrap())
            .collect();
        let reached = Reached::of(part, &outcomes, &effects(outcomes.iter()));
        let goals = reached.rows(part).iter().map(Row::verdict).collect();
        assert!(reached.line(part, "before").chars().count() <= 98);
        (reached, goals)
    }

    #[test]
    fn only_what_is_large_must_be_decided_and_what_a_run_lacks_is_not() {
        let (reached, goals) = reached(
            &[
                &[
                    ("sendfile", "64KiB", 0.6, 0.02, "better"),
                    ("splice", "64KiB", 0.61, 0.03, "worse"),
                    ("splice", "4KiB", 1.02, 0.05, "not-decided"),
                ],
                &[
                    ("sendfile", "64KiB", 0.6, 0.02, "better"),
                    ("splice", "4KiB", 1.02, 0.05, "no-difference-that-matters"),
                ],
            ],
            |_| (),
        );
        assert_eq!((reached.decided, reached.wrong, reached.large), (2, 1, 4));
        assert_eq!(reached.known, (3, 35));
        assert!((reached.half_width() - 0.04).abs() < 1e-6, "{reached:?}");
        assert_eq!(reached.first, (2, 0));
        assert_eq!(goals, [Goal::NotMet, Goal::NotMet, Goal::NotMet]);
    }

    #[test]
    fn a_run_that_decides_all_meets_the_goals() {
        let (_, goals) = reached(&[&[("sendfile", "64KiB", 0.6, 0.02, "better")]], |_| ());
        assert_eq!(goals, [Goal::Met, Goal::Met, Goal::Met]);
        let narrow = |part: &mut Part| part.within = vec![(0.9, 0.05), (1.0, 0.1)];
        let (_, goals) = reached(
            &[&[
                ("sendfile", "64KiB", 0.6, 0.04, "better"),
                ("splice", "64KiB", 0.6, 0.08, "better"),
            ]],
            narrow,
        );
        assert_eq!(goals[3..], [Goal::NotMet, Goal::Met], "half, and all");
    }

    #[test]
    fn the_best_set_excludes_what_is_worse_and_the_worst_is_decided() {
        let check = |findings: &[Made<'_>], best: &[&str], expected: usize| {
            let mut line = line(findings);
            let cells = line["findings"]["cells"].as_array().unwrap().iter();
            let best = cells.filter(|c| best.iter().any(|mover| c["cell"]["mover"] == *mover));
            let best: Vec<Value> = best.map(|c| c["id"].clone()).collect();
            line["findings"]["best"] =
                json!([{ "axis": "mover", "metric": "cpu_s_per_gb", "may_be_best": best }]);
            let mut list = List::read().unwrap();
            let outcome = Outcome::read(&line, list.part("send-copies")).unwrap();
            let effects = effects(std::iter::once(&outcome));
            let found = best_sets(&outcome, &effects, 0.15_f64.ln_1p());
            assert_eq!(found, (expected, 1), "{findings:?} {best:?}");
        };
        let worst = ("send-fields", "256", 2.0, 0.1, "worse");
        let near = ("splice", "256", 1.05, 0.1, "not-decided");
        check(&[worst, near], &["send", "splice"], 1);
        check(&[worst, near], &[], 0);
        check(&[worst, near], &["send", "send-fields"], 0);
        let open = ("splice", "256", 1.4, 0.5, "not-decided");
        check(&[worst, open], &["send"], 1);
        check(&[open], &["send"], 0);
        // One that is better leaves the baseline behind.
        let best = ("sendfile", "256", 0.5, 0.05, "better");
        check(&[best, worst], &["sendfile"], 1);
        check(&[best, worst], &["sendfile", "send"], 0);
    }

    #[test]
    fn a_half_width_that_most_lack_is_none() {
        let reached = Reached {
            half_widths: vec![0.02, f64::INFINITY, f64::INFINITY],
            ..Reached::default()
        };
        assert_eq!(reached.half_width(), f64::INFINITY);
        assert!((reached.share_within(0.05) - 1.0 / 3.0).abs() < 1e-9);
    }
}
