//! Families of comparisons that are tested together, and their corrected p values.

use bytecost_spec::study::Family;
use bytecost_stats::{false_discovery, holm};

use crate::confidence::{ERROR_RATE, FALSE_DISCOVERY_RATE};
use crate::grouping::grouped;
use crate::pairing::AskedPair;
use crate::result::FamilyFacts;
use crate::stages::Judged;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Correction {
    /// None of what is not judged.
    pub(crate) p: Option<f64>,
    /// The level at which a further comparison of the family would be decided.
    pub(crate) level: f64,
}

/// Corrects all comparisons of a run, each within its family. Primary ones are one family (Holm),
/// whatever becomes of the others. Secondary ones are a family for each table, at one rate of false
/// discoveries over all tables (Benjamini and Bogomolov). Each family has this share of its rate.
pub(crate) fn corrected(all: &[(AskedPair<'_, '_>, f64)], share: f64) -> Vec<Correction> {
    let (error_rate, discovery_rate) = (ERROR_RATE * share, FALSE_DISCOVERY_RATE * share);
    let of = |family| (0..all.len()).filter(move |i: &usize| all[*i].0.family() == family);
    let not_judged = Correction {
        p: None,
        level: error_rate,
    };
    let mut found = vec![not_judged; all.len()];
    let primary: Vec<usize> = of(Family::Primary).collect();
    let level = error_rate / primary.len().max(1) as f64;
    let p = holm(&primary.iter().map(|i| all[*i].1).collect::<Vec<f64>>());
    for (i, p) in primary.into_iter().zip(p) {
        found[i] = Correction { p: Some(p), level };
    }
    let table = |i: usize| (all[i].0.number, all[i].0.metric);
    let by_table = grouped(of(Family::Secondary).map(|i| (table(i), i)));
    let tables: Vec<Vec<usize>> = by_table.into_iter().map(|(_, members)| members).collect();
    let values = |of: &Vec<usize>| of.iter().map(|i| all[*i].1).collect();
    let corrected = false_discovery(&tables.iter().map(values).collect::<Vec<Vec<f64>>>());
    let decided = |of: &Vec<f64>| of.iter().filter(|p| **p < discovery_rate).count();
    let chosen = corrected.iter().filter(|of| decided(of) > 0).count();
    for (members, p) in tables.iter().zip(&corrected) {
        let own = decided(p);
        let chosen = if own > 0 { chosen } else { chosen + 1 };
        let of_tables = chosen as f64 / tables.len() as f64;
        let of_members = (own + 1).min(members.len()) as f64 / members.len() as f64;
        let level = discovery_rate * of_tables * of_members;
        for (i, p) in members.iter().zip(p) {
            found[*i] = Correction { p: Some(*p), level };
        }
    }
    found
}

pub(crate) fn facts(run: &Judged<'_>) -> Vec<FamilyFacts> {
    let findings = &run.findings;
    let share = run.input.manifest.rate_share();
    let facts = Family::ALL.iter().map(|family| FamilyFacts {
        family: *family,
        comparisons: findings.iter().filter(|f| f.family == *family).count(),
        rate: family.rate().map(|rate| rate * share),
    });
    facts.filter(|f| f.comparisons > 0).collect()
}
