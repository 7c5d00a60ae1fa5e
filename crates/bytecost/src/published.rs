//! Published tables and claims: the built-in ones, and those of a user's file.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::iter;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use bytecost_analysis::{Grounds, caveat_kinds};
use bytecost_report::layout::ColumnLayout;
use bytecost_report::times::TIMES;
use bytecost_spec::claim::{self, Claim, MAX_CLAIMS_BYTES, Term, Test, TestKind};
use bytecost_spec::table::MAX_TABLE_BYTES;
use bytecost_spec::{Survey, Table, units};
use bytecost_sys::regular_file;
use itertools::Itertools as _;
use rustix::fs::OFlags;

use crate::failure::bad_input;
use crate::known;
use crate::studies::STUDIES;

const CLAIMS: &str = include_str!("../../../published/claims.toml");

/// The built-in tables: the name of the file without its ending, and its text.
const TABLES: &[(&str, &str)] = &[
    ("pa02-a", include_str!("../../../published/pa02-a.csv")),
    ("pa02-b", include_str!("../../../published/pa02-b.csv")),
    (
        "pa02-b-headline",
        include_str!("../../../published/pa02-b-headline.csv"),
    ),
    ("servers", include_str!("../../../published/servers.csv")),
    (
        "file-transfer",
        include_str!("../../../published/file-transfer.csv"),
    ),
    (
        "os-features",
        include_str!("../../../published/os-features.csv"),
    ),
];

pub fn built_in() -> Result<Grounds> {
    let claims = claim::parse(CLAIMS).context("published/claims.toml")?;
    with_tables(claims)
}

/// The built-in claims that a study settles, with all built-in tables.
pub fn settled_by(study: &str) -> Result<Grounds> {
    let mut grounds = built_in()?;
    grounds.claims.retain(|c| c.is_of_study(study));
    Ok(grounds)
}

/// The claims of a file, with the built-in tables and those in its directory or below that they name.
///
/// # Errors
/// A name in a claim that no mover, server, caveat, table, column or row has.
pub fn from_file(path: &Path) -> Result<Grounds> {
    let shown = path.display();
    let text = read(path, MAX_CLAIMS_BYTES)?;
    let claims = claim::parse(&text).map_err(|e| bad_input(format!("{shown}: {e}")))?;
    let mut grounds = with_tables(claims)?;
    for name in named_tables(&grounds.claims) {
        if let Some(path) = table_file(path, &name) {
            let csv = read(&path, MAX_TABLE_BYTES)?;
            let table = Table::parse(&name, &csv)
                .map_err(|e| bad_input(format!("{}: {e}", path.display())))?;
            grounds.tables.retain(|t| t.name != name);
            grounds.tables.push(table);
        }
    }
    let survey = known::tables();
    for claim in &grounds.claims {
        for test in claim.all_tests() {
            check_names(test, &survey, &grounds).map_err(|why| {
                let Claim { id, line, .. } = claim;
                bad_input(format!("{shown}: line {line}: claim `{id}`: {why}"))
            })?;
        }
    }
    Ok(grounds)
}

/// The file of a table that a claims file names; none if it is not in its directory or below.
fn table_file(claims: &Path, name: &str) -> Option<PathBuf> {
    let directory = match claims.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let path = directory.join(format!("{name}.csv"));
    // The name may come from a stranger, and so may symbolic links in its path.
    let is_below = path
        .canonicalize()
        .ok()?
        .starts_with(directory.canonicalize().ok()?);
    (is_below && path.is_file()).then_some(path)
}

/// Refuses a test of a claim that names something which no run or table can have.
fn check_names(test: &Test, survey: &Survey, grounds: &Grounds) -> Result<(), String> {
    for (axis, value) in test.values() {
        survey
            .check_name(axis, &value.to_string())
            .map_err(|e| e.0)?;
    }
    if let TestKind::Stall { caveat, .. } = &test.kind
        && !caveat_kinds().any(|kind| kind == caveat)
    {
        return Err(units::unknown("caveat", caveat, caveat_kinds()));
    }
    let TestKind::Arithmetic(sum) = &test.kind else {
        return Ok(());
    };
    for term in iter::once(&sum.term).chain(&sum.against) {
        let Term {
            table,
            column,
            rows,
        } = term;
        let Some(found) = grounds.tables.iter().find(|t| t.name == *table) else {
            return Err(format!(
                "there is no table `{table}`: put {table}.csv into the directory of the claims file, or name it by its path from there"
            ));
        };
        let column_of = |name: &String| {
            found.column(name).ok_or_else(|| {
                let known = found.columns.iter().map(String::as_str);
                units::unknown(&format!("column of {table}.csv"), name, known)
            })
        };
        for name in iter::once(column).chain(&sum.by) {
            column_of(name)?;
        }
        for (name, value) in rows {
            let at = column_of(name)?;
            let values = found.rows.iter().map(|(_, row)| row[at].as_str());
            if !values.clone().contains(&value.as_str()) {
                let subject = format!("{name} of {table}.csv");
                return Err(units::unknown(&subject, value, values.unique()));
            }
        }
    }
    Ok(())
}

fn with_tables(claims: Vec<Claim>) -> Result<Grounds> {
    let mut tables = Vec::new();
    let mut published = Vec::new();
    for (name, text) in TABLES {
        let table = Table::parse(name, text).with_context(|| *name)?;
        if let Some(layout) = ColumnLayout::named(name) {
            let found = layout.published(&table);
            published.push(found.map_err(|why| anyhow!("{name}: {why}"))?);
        }
        tables.push(table);
    }
    for times in TIMES {
        let found = times.published(&tables);
        published.push(found.map_err(|why| anyhow!("{}: {why}", times.source))?);
    }
    Ok(Grounds {
        claims,
        tables,
        published,
        studies: STUDIES.iter().map(|(name, _)| *name).collect(),
    })
}

fn named_tables(claims: &[Claim]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for test in claims.iter().flat_map(Claim::all_tests) {
        if let TestKind::Arithmetic(sum) = &test.kind {
            names.insert(sum.term.table.clone());
            names.extend(sum.against.iter().map(|t| t.table.clone()));
        }
    }
    names
}

/// Reads a file that the user names. Reading stops behind the bound, since the file may grow meanwhile.
///
/// # Errors
/// A file of more than `max_bytes`, one that is not regular, and text that is not UTF-8.
pub fn read(path: &Path, max_bytes: usize) -> Result<String> {
    let shown = path.display();
    let with_path = |e: io::Error| bad_input(format!("{shown}: {e}"));
    let mut bytes = Vec::new();
    let file = regular_file::open(path, OFlags::RDONLY).map_err(with_path)?;
    File::from(file)
        .take(max_bytes as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(with_path)?;
    if bytes.len() > max_bytes {
        return Err(bad_input(format!(
            "{shown} is too long: at most {max_bytes} bytes"
        )));
    }
    io::read_to_string(&*bytes).map_err(with_path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_claims_are_valid_and_each_has_tests() {
        let grounds = built_in().unwrap();
        assert!(!grounds.claims.is_empty());
        for claim in &grounds.claims {
            assert!(!claim.tests.is_empty(), "{}", claim.id);
        }
        let tables: Vec<&str> = grounds.tables.iter().map(|t| t.name.as_str()).collect();
        for name in named_tables(&grounds.claims) {
            assert!(tables.contains(&name.as_str()), "{name}");
        }
        let published = grounds.published.iter().map(|p| p.source.as_str());
        assert!(published.eq(["pa02-a", "pa02-b", "file-transfer", "os-features"]));
    }

    #[test]
    fn every_published_cell_is_one_of_the_study_that_sets_it_up_again() {
        let tables = built_in().unwrap().published;
        for published in tables.into_iter().filter(|p| p.named.is_empty()) {
            let (_, text) = STUDIES
                .iter()
                .find(|(n, _)| *n == published.source)
                .unwrap();
            let mut study = bytecost_spec::Study::parse(text).unwrap();
            study.choose_as_published().unwrap();
            let mut study_ids: Vec<String> = study.cells().iter().map(|(_, c)| c.id()).collect();
            let mut table_ids: Vec<String> = published.cells.into_iter().map(|c| c.id).collect();
            study_ids.sort_unstable();
            table_ids.sort_unstable();
            assert_eq!(table_ids, study_ids, "{}", published.source);
        }
    }

    #[test]
    fn the_speed_ups_that_a_study_shows_are_those_of_the_table() {
        let grounds = built_in().unwrap();
        let mut tables = grounds.tables.iter();
        let table = tables.find(|t| t.name == "os-features").unwrap();
        let [mode_column, time_column] = ["mode", "time_s"].map(|c| table.column(c).unwrap());
        let mean = |mode: &str| {
            let rows = table.rows.iter().map(|(_, row)| row);
            let times: Vec<f64> = rows
                .filter(|row| row[mode_column] == mode)
                .map(|row| row[time_column].parse().unwrap())
                .collect();
            assert_eq!(times.len(), 3, "{mode}");
            times.iter().sum::<f64>() / 3.0
        };
        let (_, text) = STUDIES.iter().find(|(n, _)| *n == "os-features").unwrap();
        let study = bytecost_spec::Study::parse(text).unwrap();
        assert_eq!(study.as_published_blocks, Some(3));
        let published: Vec<f64> = study.pairs.iter().filter_map(|p| p.published).collect();
        let times = [
            ("sync_io", "async_aio"),
            ("no_affinity", "pinned_affinity"),
            ("shared_core", "separate_core"),
            ("regular_read", "sendfile"),
        ];
        assert_eq!(published.len(), times.len());
        for (speed_up, (slow, fast)) in published.into_iter().zip(times) {
            let ratio = mean(slow) / mean(fast);
            assert!(
                (speed_up - ratio).abs() < 5e-4,
                "{slow}: {speed_up} for {ratio}"
            );
        }
    }
}
