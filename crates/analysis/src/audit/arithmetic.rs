//! Published tables compared with themselves.

use std::collections::BTreeMap;

use bytecost_spec::Table;
use bytecost_spec::claim::{Arithmetic, Expected, Term};
use bytecost_spec::table;
use itertools::Itertools as _;

use super::context::{Cases, ClaimContext};
use crate::grouping::grouped;
use crate::result::{
    AbsentReason, Case, CasePlace, CaseState, NotTested, PublishedNumber, TableGap,
};

/// The numbers of a term by the values of the columns that make groups, in their order.
type Groups = Vec<(Vec<String>, Vec<f64>)>;

/// The number that is compared with what is expected, and how it was calculated.
struct Calculated {
    number: Option<f64>,
    is_met: Option<bool>,
    published: PublishedNumber,
}

pub(super) fn cases(context: &ClaimContext<'_>, sum: &Arithmetic) -> Cases {
    let rows = |term| groups(context, term, &sum.by).map_err(NotTested::Table);
    let own = rows(&sum.term)?;
    if own.is_empty() {
        let table = sum.term.table.clone();
        return Err(NotTested::Table(TableGap::NoRow(table)));
    }
    let other_rows = sum.against.as_ref().map(rows).transpose()?;
    let others: Option<BTreeMap<_, _>> = other_rows.map(|all| all.into_iter().collect());
    let mut numbers: Vec<Option<f64>> = Vec::with_capacity(own.len());
    let of_group = own.into_iter().map(|(key, values)| {
        let mean = mean(&values);
        let against = others.as_ref().map(|o| o.get(&key).map(Vec::as_slice));
        let calculated = calculated(sum, mean, against);
        numbers.push(calculated.number);
        let place = CasePlace::Rows(sum.by.iter().cloned().zip(key).collect());
        Case {
            value: calculated.number.unwrap_or(mean),
            published: Some(calculated.published),
            ..case(place, calculated.is_met)
        }
    });
    let cases = of_group.collect_vec();
    Ok(if sum.of_mean {
        vec![mean_case(sum, &numbers)].into()
    } else {
        cases.into()
    })
}

/// A mean compared with a bound, or with the numbers of another term, which may have none.
fn calculated(sum: &Arithmetic, mean: f64, against: Option<Option<&[f64]>>) -> Calculated {
    match against {
        None => Calculated {
            number: Some(mean),
            is_met: is_met(mean, sum),
            published: PublishedNumber::Value(mean),
        },
        Some(None) => Calculated {
            number: None,
            is_met: None,
            published: PublishedNumber::Value(mean),
        },
        Some(Some(others)) if sum.expect == Expected::Among => {
            let [least, most] = ends(others);
            let (low, high) = (least * (1.0 - sum.tolerance), most * (1.0 + sum.tolerance));
            Calculated {
                number: Some(mean),
                is_met: Some(low <= mean && mean <= high),
                published: PublishedNumber::Among(mean, [least, most]),
            }
        }
        Some(Some(others)) => {
            let below = self::mean(others);
            let ratio = (below > 0.0).then(|| mean / below);
            Calculated {
                number: ratio,
                is_met: ratio.and_then(|ratio| is_met(ratio, sum)),
                published: PublishedNumber::Ratio([mean, below]),
            }
        }
    }
}

fn case(place: CasePlace, is_met: Option<bool>) -> Case {
    let absent = CaseState::Absent(AbsentReason::NoCounterpart);
    Case {
        place,
        ..Case::new(is_met.map_or(absent, CaseState::from_met))
    }
}

fn mean_case(sum: &Arithmetic, numbers: &[Option<f64>]) -> Case {
    let place = CasePlace::MeanOfRows(numbers.len());
    let known: Vec<f64> = numbers.iter().copied().flatten().collect();
    if known.len() < numbers.len() {
        return case(place, None);
    }
    let mean = mean(&known);
    Case {
        value: mean,
        published: Some(PublishedNumber::Mean(mean, ends(&known))),
        ..case(place, is_met(mean, sum))
    }
}

/// Returns true if a number is as expected, with the bounds widened by the tolerance.
fn is_met(value: f64, sum: &Arithmetic) -> Option<bool> {
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

fn groups(context: &ClaimContext<'_>, term: &Term, by: &[String]) -> Result<Groups, TableGap> {
    let table = context
        .grounds
        .tables
        .iter()
        .find(|t| t.name == term.table)
        .ok_or_else(|| TableGap::NoTable(term.table.clone()))?;
    let values = column(table, &term.column)?;
    let keys: Vec<usize> = by
        .iter()
        .map(|name| column(table, name))
        .collect::<Result<_, _>>()?;
    let conditions: Vec<(usize, &String)> = term
        .rows
        .iter()
        .map(|(name, value)| Ok((column(table, name)?, value)))
        .collect::<Result<_, TableGap>>()?;
    let fits = |row: &[String]| conditions.iter().all(|(at, value)| row[*at] == **value);
    let numbers = table
        .rows
        .iter()
        .filter(|(_, row)| fits(row) && !row[values].is_empty())
        .map(|(line, row)| {
            let number = table::number(&row[values]).map_err(|why| TableGap::NotANumber {
                table: table.name.clone(),
                line: *line,
                why,
            })?;
            let key: Vec<String> = keys.iter().map(|at| row[*at].clone()).collect();
            Ok((key, number))
        });
    Ok(grouped(numbers.collect::<Result<Vec<_>, TableGap>>()?))
}

fn column(table: &Table, name: &str) -> Result<usize, TableGap> {
    table.column(name).ok_or_else(|| TableGap::NoColumn {
        table: table.name.clone(),
        column: name.to_owned(),
        known: table.columns.clone(),
    })
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn ends(values: &[f64]) -> [f64; 2] {
    let ends = values.iter().copied().minmax().into_option();
    ends.map_or([0.0; 2], |(least, most)| [least, most])
}
