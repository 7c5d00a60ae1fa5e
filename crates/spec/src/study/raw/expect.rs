//! An expectation as it stands in the file: a row of `[[expect]]`.

use serde::Deserialize;
use toml::Spanned;

use super::super::{Expect, Outcome, StudyError};
use super::{RawAxes, RawText, Reader, named};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawExpect {
    metric: Spanned<String>,
    axis: Spanned<String>,
    baseline: Spanned<RawText>,
    value: Spanned<RawText>,
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
        Ok(Expect {
            metric: self.take(&raw.metric, |m| m.parse())?,
            axis,
            baseline: self.value(axis, &raw.baseline)?,
            value: self.value(axis, &raw.value)?,
            at: self.axes(&raw.at)?,
            outcome: self.take(&raw.outcome, |name| named("outcome", name, Outcome::ALL))?,
        })
    }
}
