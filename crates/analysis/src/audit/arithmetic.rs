//! Published tables compared with themselves.

use std::collections::BTreeMap;

use bytecost_spec::claim::{Arithmetic, Expected, Term, Test};
use bytecost_spec::table::{self, Table};
use bytecost_spec::units;
use itertools::Itertools as _;

use super::claim_test::{CaseResult, ClaimTest, Item, TABLE_ROW};
use super::context::ClaimContext;
use crate::grouping::grouped;

/// The numbers of a term by the values of the columns that make groups, in their order.
type Groups = Vec<(Vec<String>, Vec<f64>)>;

pub(super) fn draft(
    context: &ClaimContext<'_>,
    test: &Test,
    sum: &Arithmetic,
) -> Result<ClaimTest, String> {
    let items = items(context, sum)?;
    if items.is_empty() {
        return Err(format!("the table {} has no such row", sum.term.table));
    }
    Ok(ClaimTest {
        subject: subject(sum),
        expected: sum.expect.to_string(),
        noun: TABLE_ROW,
        cells: test.cells,
        items,
        note: None,
    })
}

/// `throughput_gbps of pa02-b (impl OneCopy over impl TwoCopy)`.
fn subject(sum: &Arithmetic) -> String {
    let named = |term: &Term| {
        let rows = term
            .rows
            .iter()
            .map(|(column, value)| format!("{column} {value}"));
        let rows = match term.rows.is_empty() {
            true => String::new(),
            false => format!(": {}", rows.format(", ")),
        };
        format!("published {} ({}{rows})", term.column, term.table)
    };
    match &sum.against {
        None => named(&sum.term),
        Some(_) if sum.expect == Expected::Among => named(&sum.term),
        Some(other) => format!("{} over {}", named(&sum.term), named(other)),
    }
}

fn items(context: &ClaimContext<'_>, sum: &Arithmetic) -> Result<Vec<Item>, String> {
    let own = groups(context, &sum.term, &sum.by)?;
    let others: Option<BTreeMap<Vec<String>, Vec<f64>>> = match &sum.against {
        Some(term) => Some(groups(context, term, &sum.by)?.into_iter().collect()),
        None => None,
    };
    let mut numbers: Vec<Option<f64>> = Vec::with_capacity(own.len());
    let items = own.into_iter().map(|(key, values)| {
        let mean = mean(&values);
        let against = others.as_ref().map(|o| o.get(&key).map(Vec::as_slice));
        let (number, met, published) = match against {
            None => (Some(mean), met(mean, sum), units::number(mean)),
            Some(None) => (None, None, units::number(mean)),
            Some(Some(others)) if sum.expect == Expected::Among => {
                let (least, most) = ends(others);
                let within =
                    least * (1.0 - sum.tolerance) <= mean && mean <= most * (1.0 + sum.tolerance);
                let span = format!("{} to {}", units::number(least), units::number(most));
                (
                    Some(mean),
                    Some(within),
                    format!("{}; its own data {span}", units::number(mean)),
                )
            }
            Some(Some(others)) => {
                let below = self::mean(others);
                let both = format!("{} / {}", units::number(mean), units::number(below));
                let ratio = (below > 0.0).then(|| mean / below);
                (
                    ratio,
                    ratio.and_then(|r| met(r, sum)),
                    ratio.map_or(both.clone(), |r| format!("{} ({both})", units::number(r))),
                )
            }
        };
        numbers.push(number);
        item(number.unwrap_or(mean), place(&sum.by, &key), met, published)
    });
    let items: Vec<Item> = items.collect();
    Ok(if sum.of_mean && !items.is_empty() {
        vec![of_mean(sum, &numbers)]
    } else {
        items
    })
}

fn item(value: f64, place: String, met: Option<bool>, published: String) -> Item {
    Item {
        value,
        place,
        published: Some(published),
        ..Item::of(match met {
            Some(true) => CaseResult::Met,
            Some(false) => CaseResult::NotMet,
            None => CaseResult::Absent("there is no number to compare it with".to_owned()),
        })
    }
}

/// The mean of all groups, with the least and the greatest of them.
fn of_mean(sum: &Arithmetic, numbers: &[Option<f64>]) -> Item {
    let place = format!("in the mean of {} rows", numbers.len());
    let known: Vec<f64> = numbers.iter().copied().flatten().collect();
    if known.len() < numbers.len() {
        return item(0.0, place, None, String::new());
    }
    let (least, most) = ends(&known);
    let mean = mean(&known);
    let [told, least, most] = [mean, least, most].map(units::number);
    let published = format!("{told} ({least} to {most})");
    item(mean, place, met(mean, sum), published)
}

/// Whether a number is as expected, with the bounds widened by the tolerance.
fn met(value: f64, sum: &Arithmetic) -> Option<bool> {
    let (less, more) = (1.0 - sum.tolerance, 1.0 + sum.tolerance);
    match sum.expect {
        Expected::Above(bound) => Expected::Above(bound * less),
        Expected::Below(bound) => Expected::Below(bound * more),
        Expected::Within(low, high) => Expected::Within(low * less, high * more),
        Expected::Alike => Expected::Within(less, more),
        Expected::Among => Expected::Among,
    }
    .is_met(value)
}

fn groups(context: &ClaimContext<'_>, term: &Term, by: &[String]) -> Result<Groups, String> {
    let table = context.grounds.tables.iter().find(|t| t.name == term.table);
    let table = table.ok_or_else(|| {
        format!(
            "the table `{0}` is not there: put {0}.csv next to the claims file",
            term.table
        )
    })?;
    let column = column(table, &term.column)?;
    let by = by.iter().map(|name| self::column(table, name));
    let by: Vec<usize> = by.collect::<Result<_, _>>()?;
    let conditions = term.rows.iter();
    let conditions = conditions.map(|(name, value)| Ok((self::column(table, name)?, value)));
    let conditions: Vec<(usize, &String)> = conditions.collect::<Result<_, String>>()?;
    let fits = |row: &[String]| conditions.iter().all(|(at, value)| row[*at] == **value);
    let rows = table
        .rows
        .iter()
        .filter(|(_, row)| fits(row) && !row[column].is_empty());
    let numbers = rows.map(|(line, row)| {
        let number = table::number(&row[column])
            .map_err(|e| format!("in {}.csv, line {line}: {e}", table.name))?;
        let key: Vec<String> = by.iter().map(|at| row[*at].clone()).collect();
        Ok((key, number))
    });
    Ok(grouped(numbers.collect::<Result<Vec<_>, String>>()?))
}

fn column(table: &Table, name: &str) -> Result<usize, String> {
    table.column(name).ok_or_else(|| {
        let known = table.columns.join(", ");
        format!(
            "there is no column `{name}` in {}.csv: its columns are {known}",
            table.name
        )
    })
}

fn place(by: &[String], key: &[String]) -> String {
    let pairs = by.iter().zip(key);
    pairs
        .map(|(column, value)| format!("{column} {value}"))
        .join(", ")
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The least and the most of some numbers.
fn ends(values: &[f64]) -> (f64, f64) {
    let ends = values.iter().copied().minmax().into_option();
    ends.unwrap_or_default()
}
