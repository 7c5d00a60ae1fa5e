//! Published tables compared with themselves.

use std::collections::BTreeMap;

use bytecost_spec::claim::{Arithmetic, Expected, Term};
use bytecost_spec::table::{self, Table};
use bytecost_spec::units;
use itertools::Itertools as _;

use super::claim_test::{CaseResult, ClaimTest, Item, TABLE_ROW};
use super::context::ClaimContext;
use crate::grouping::grouped;

/// The numbers of a term by the values of the columns that make groups, in their order.
type Groups = Vec<(Vec<String>, Vec<f64>)>;

pub(super) fn draft(context: &ClaimContext<'_>, sum: &Arithmetic) -> Result<ClaimTest, String> {
    let items = items(context, sum)?;
    if items.is_empty() {
        return Err(format!("the table {} has no such row", sum.term.table));
    }
    let expected = sum.expect.to_string();
    Ok(ClaimTest::of(subject(sum), expected, TABLE_ROW, items))
}

/// `throughput_gbps of pa02-b (impl OneCopy over impl TwoCopy)`.
fn subject(sum: &Arithmetic) -> String {
    let named = |term: &Term| {
        let rows = match term.rows.is_empty() {
            true => String::new(),
            false => format!(
                ": {}",
                pairs(term.rows.iter().map(|(name, value)| (name, value)))
            ),
        };
        format!("published {} ({}{rows})", term.column, term.table)
    };
    match &sum.against {
        Some(other) if sum.expect != Expected::Among => {
            format!("{} over {}", named(&sum.term), named(other))
        }
        _ => named(&sum.term),
    }
}

/// `impl OneCopy, size 4096`.
fn pairs<'a>(of: impl Iterator<Item = (&'a String, &'a String)>) -> String {
    of.map(|(column, value)| format!("{column} {value}"))
        .join(", ")
}

fn items(context: &ClaimContext<'_>, sum: &Arithmetic) -> Result<Vec<Item>, String> {
    let own = groups(context, &sum.term, &sum.by)?;
    let against = |term| groups(context, term, &sum.by);
    let others = sum.against.as_ref().map(against).transpose()?;
    let others: Option<BTreeMap<_, _>> = others.map(|all| all.into_iter().collect());
    let mut numbers: Vec<Option<f64>> = Vec::with_capacity(own.len());
    let items = own.into_iter().map(|(key, values)| {
        let mean = mean(&values);
        let told = units::number(mean);
        let against = others.as_ref().map(|o| o.get(&key).map(Vec::as_slice));
        let (number, met, published) = match against {
            None => (Some(mean), met(mean, sum), told),
            Some(None) => (None, None, told),
            Some(Some(others)) if sum.expect == Expected::Among => {
                let (least, most) = ends(others);
                let (low, high) = (least * (1.0 - sum.tolerance), most * (1.0 + sum.tolerance));
                let within = low <= mean && mean <= high;
                let [least, most] = [least, most].map(units::number);
                let published = format!("{told}; its own data {least} to {most}");
                (Some(mean), Some(within), published)
            }
            Some(Some(others)) => {
                let below = self::mean(others);
                let both = format!("{told} / {}", units::number(below));
                match below > 0.0 {
                    false => (None, None, both),
                    true => {
                        let ratio = mean / below;
                        let published = format!("{} ({both})", units::number(ratio));
                        (Some(ratio), met(ratio, sum), published)
                    }
                }
            }
        };
        numbers.push(number);
        let place = pairs(sum.by.iter().zip(&key));
        item(number.unwrap_or(mean), place, met, published)
    });
    let items: Vec<Item> = items.collect();
    Ok(if sum.of_mean && !items.is_empty() {
        vec![of_mean(sum, &numbers)]
    } else {
        items
    })
}

fn item(value: f64, place: String, met: Option<bool>, published: String) -> Item {
    let absent = || CaseResult::Absent("there is no number to compare it with".to_owned());
    Item {
        value,
        place,
        published: Some(published),
        ..Item::of(met.map_or_else(absent, CaseResult::of))
    }
}

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
    let rows = table.rows.iter();
    let rows = rows.filter(|(_, row)| fits(row) && !row[column].is_empty());
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

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn ends(values: &[f64]) -> (f64, f64) {
    let ends = values.iter().copied().minmax().into_option();
    ends.unwrap_or_default()
}
