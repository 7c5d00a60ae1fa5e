//! Families of comparisons that are tested together, and their corrected p values.

use bytecost_spec::study::Family;
use bytecost_spec::{Better, Metric};
use bytecost_stats::{Interval, false_discovery};

use crate::comparison::AskedPair;
use crate::confidence::{ERROR_RATE, FALSE_DISCOVERY_RATE};
use crate::corrections::{TestFamily, corrected, level_of_each};
use crate::grouping::grouped;
use crate::result::{FamilyFacts, Finding, Verdict};

/// The correction of one comparison for the others of its family.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Correction {
    /// The corrected p value; none for a comparison without a verdict.
    pub(crate) p: Option<f64>,
    /// The uncorrected level at which one more comparison of the family would be decided.
    pub(crate) level: f64,
}

/// Corrects the p values of all comparisons of a run, each within its family. All primary comparisons are
/// one family (Holm), which does not depend on the others. Secondary ones are a family for each table,
/// with one rate of false discoveries over all tables (Benjamini and Bogomolov). `share` is the part of
/// the error rates that is left for this analysis.
pub(crate) fn corrections(tested: &[(AskedPair<'_>, f64)], share: f64) -> Vec<Correction> {
    let (error_rate, discovery_rate) = (ERROR_RATE * share, FALSE_DISCOVERY_RATE * share);
    let p_value = |i: &usize| tested[*i].1;
    let is_in = |i: &usize, family| tested[*i].0.family() == family;
    let members_of = |family| (0..tested.len()).filter(move |i| is_in(i, family));
    let without_verdict = Correction {
        p: None,
        level: error_rate,
    };
    let mut corrections = vec![without_verdict; tested.len()];
    let primary: Vec<usize> = members_of(Family::Primary).collect();
    let primary_level = level_of_each(error_rate, primary.len());
    let primary_p_values: Vec<f64> = primary.iter().map(p_value).collect();
    let corrected_primary = corrected(TestFamily::PrimaryComparisons, &primary_p_values);
    for (i, p) in primary.into_iter().zip(corrected_primary) {
        corrections[i] = Correction {
            p: Some(p),
            level: primary_level,
        };
    }
    let table = |i: usize| (tested[i].0.number, tested[i].0.metric);
    let by_table = grouped(members_of(Family::Secondary).map(|i| (table(i), i)));
    let tables: Vec<Vec<usize>> = by_table.into_iter().map(|(_, members)| members).collect();
    let p_values = |members: &Vec<usize>| members.iter().map(p_value).collect();
    let corrected = false_discovery(&tables.iter().map(p_values).collect::<Vec<Vec<f64>>>());
    let count_decided =
        |of_table: &Vec<f64>| of_table.iter().filter(|p| **p < discovery_rate).count();
    let decided_tables = corrected
        .iter()
        .filter(|of_table| count_decided(of_table) > 0)
        .count();
    for (members, of_table) in tables.iter().zip(&corrected) {
        // The comparison that would be decided next, and its table, count as decided.
        let decided = count_decided(of_table);
        let tables_then = decided_tables + usize::from(decided == 0);
        let share_of_tables = tables_then as f64 / tables.len() as f64;
        let share_of_members = (decided + 1).min(members.len()) as f64 / members.len() as f64;
        let level = discovery_rate * share_of_tables * share_of_members;
        for (i, p) in members.iter().zip(of_table) {
            corrections[*i] = Correction { p: Some(*p), level };
        }
    }
    corrections
}

/// The families of a run, each with its number of comparisons and its error rate, of which this analysis
/// has a share.
pub(crate) fn facts(findings: &[Finding], share: f64) -> Vec<FamilyFacts> {
    let facts = Family::ALL.iter().map(|family| FamilyFacts {
        family: *family,
        comparisons: findings.iter().filter(|f| f.family == *family).count(),
        rate: family.rate().map(|rate| rate * share),
    });
    facts.filter(|f| f.comparisons > 0).collect()
}

/// The verdict on a log ratio: better or worse by its corrected p value at an error rate; no difference
/// that matters if its interval lies within `bound`, even one that excludes 1.
pub(crate) fn verdict(
    metric: Metric,
    (value, interval): (f64, Interval),
    corrected: Option<(f64, f64)>,
    bound: f64,
) -> Verdict {
    let Some((p, rate)) = corrected else {
        return Verdict::NotJudged;
    };
    if interval.low >= -bound && interval.high <= bound {
        return Verdict::NoDifferenceThatMatters;
    }
    if p >= rate {
        return Verdict::NotDecided;
    }
    match (metric.better(), value > 0.0) {
        (Better::Higher, true) | (Better::Lower, false) => Verdict::Better,
        (Better::Higher, false) | (Better::Lower, true) => Verdict::Worse,
    }
}
