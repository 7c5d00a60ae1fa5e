//! A pair as it stands in the file: a row of `[[pair]]`.

use serde::Deserialize;
use toml::Spanned;

use super::super::{Pair, StudyError};
use super::{RawAxes, RawText, RawValues, Reader};

/// The greatest published speed-up that is believed to be none of a slip.
const MOST_TIMES: f64 = 1e6;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPair {
    title: String,
    metric: Spanned<String>,
    axis: Spanned<String>,
    values: Spanned<RawValues>,
    against: Spanned<RawText>,
    #[serde(default, rename = "where")]
    at: RawAxes,
    #[serde(default)]
    published: Option<Spanned<f64>>,
    #[serde(default)]
    note: Option<String>,
}

impl Reader<'_> {
    pub(super) fn pairs(&self, raw: &[RawPair]) -> Result<Vec<Pair>, StudyError> {
        raw.iter().map(|p| self.pair(p)).collect()
    }

    fn pair(&self, raw: &RawPair) -> Result<Pair, StudyError> {
        let axis = self.axis(&raw.axis)?;
        let values = self.values(axis, &raw.values)?;
        let against = self.value(axis, &raw.against)?;
        if values.contains(&against) {
            return self.fail(
                raw.against.span(),
                format!("`{against}` cannot be compared with itself: remove it from `values`"),
            );
        }
        let at = self.axes(&raw.at)?;
        if at.iter().any(|(a, _)| *a == axis) {
            let message = format!("`where` cannot name `{}`, which is compared", axis.name());
            return self.fail(raw.axis.span(), message);
        }
        let published = raw.published.as_ref().map(|times| {
            self.take(times, |t| {
                if t.is_finite() && *t > 0.0 && *t <= MOST_TIMES {
                    Ok(*t)
                } else {
                    Err(format!(
                        "published {t} is out of bounds: a speed-up is more than 0 and at most {MOST_TIMES}"
                    ))
                }
            })
        });
        Ok(Pair {
            title: raw.title.clone(),
            metric: self.take(&raw.metric, |m| m.parse())?,
            axis,
            values,
            against,
            at,
            published: published.transpose()?,
            note: raw.note.clone(),
        })
    }
}
