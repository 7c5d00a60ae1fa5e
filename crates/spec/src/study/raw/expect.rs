//! An expectation as it stands in the file: a row of `[[expect]]`.

use serde::Deserialize;
use toml::Spanned;

use super::super::{Expect, Outcome, StudyError};
use super::{RawAxes, Reader, Text};
use crate::axis::{AXES, Axis};
use crate::cell::Cell;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawExpect {
    metric: Spanned<String>,
    axis: Spanned<String>,
    baseline: Spanned<Text>,
    value: Spanned<Text>,
    #[serde(default, rename = "where")]
    at: RawAxes,
    outcome: Spanned<String>,
}

impl Reader<'_> {
    pub(super) fn expects(&self, raw: &[RawExpect]) -> Result<Vec<Expect>, StudyError> {
        raw.iter().map(|e| self.expect(e)).collect()
    }

    fn expect(&self, raw: &RawExpect) -> Result<Expect, StudyError> {
        let axis = self.axis(&raw.axis)?;
        let at = AXES.iter().filter_map(|row| {
            let values = raw.at.get(row.axis)?;
            Some(self.values(row.axis, values).map(|v| (row.axis, v)))
        });
        Ok(Expect {
            metric: self.take(&raw.metric, |m| m.parse())?,
            axis,
            baseline: self.value(axis, &raw.baseline)?,
            value: self.value(axis, &raw.value)?,
            at: at.collect::<Result<_, _>>()?,
            outcome: self.take(&raw.outcome, |name| outcome(name))?,
        })
    }

    pub(super) fn value(&self, axis: Axis, value: &Spanned<Text>) -> Result<String, StudyError> {
        self.take(value, |v| {
            let mut probe = Cell::default();
            probe.set(axis, &v.0).map(|()| probe.value(axis))
        })
    }
}

fn outcome(name: &str) -> Result<Outcome, String> {
    let known = Outcome::ALL.iter().copied();
    known.clone().find(|o| o.name() == name).ok_or_else(|| {
        let names: Vec<&str> = known.map(Outcome::name).collect();
        format!(
            "outcome `{name}` is not known: choose from {}",
            names.join(", ")
        )
    })
}
