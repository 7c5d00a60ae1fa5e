//! The family of a comparison as it stands in the file.

use serde::Deserialize;
use toml::Spanned;

use super::super::{Family, PrimaryPart, StudyError};
use super::{RawAxes, RawValues, Reader, named};
use crate::axis::Axis;
use crate::metric::Metric;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPrimary {
    #[serde(default)]
    metric: Option<Spanned<String>>,
    #[serde(default)]
    values: Option<Spanned<RawValues>>,
    #[serde(default, rename = "where")]
    at: RawAxes,
}

impl Reader<'_> {
    /// The family of a comparison: where parts of it are primary, what is left is not.
    pub(super) fn family(
        &self,
        raw: Option<&Spanned<String>>,
        parts: &[RawPrimary],
    ) -> Result<Family, StudyError> {
        let Some(raw) = raw else {
            return Ok(match parts {
                [] => Family::default(),
                _ => Family::Secondary,
            });
        };
        let family = self.take(raw, |name| named("family", name, Family::ALL))?;
        match (family, parts) {
            (Family::Primary, [_, ..]) => self.fail(
                raw.span(),
                "a comparison with primary parts is `secondary` or `exploratory` elsewhere: leave family or primary out",
            ),
            _ => Ok(family),
        }
    }

    pub(super) fn primary(
        &self,
        axis: Axis,
        metrics: &[Metric],
        raw: &RawPrimary,
    ) -> Result<PrimaryPart, StudyError> {
        let metric = |name: &String| match name.parse::<Metric>() {
            Ok(metric) if metrics.contains(&metric) => Ok(metric),
            Ok(_) => Err(format!("`{name}` is no metric of this comparison")),
            Err(e) => Err(e.to_string()),
        };
        let values = raw.values.as_ref().map(|values| self.values(axis, values));
        Ok(PrimaryPart {
            metric: raw
                .metric
                .as_ref()
                .map(|m| self.take(m, metric))
                .transpose()?,
            values: values.transpose()?.unwrap_or_default(),
            at: self.axes(&raw.at)?,
        })
    }
}
