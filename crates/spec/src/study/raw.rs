//! The TOML of a study as it stands in the file, and its conversion into a [`Study`].

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::{Compare, Expect, Family, Figure, MAX_BLOCKS, Outcome, Pair, PrimaryPart, Study, Tier};
use crate::axis::{Axis, Value};
use crate::metric::Metric;
use crate::toml_reader::{
    RawAxes, RawText, RawValues, Reader, TomlError, convert_all, from_toml, named,
};
use crate::units;

/// CPUs that other processes may use if a study names no number. Less than a tenth of a CPU moves ratios
/// by less than the smallest effects that matter, as it acts on all cells of a block.
const FOREIGN_CPUS: f64 = 0.1;

/// The greatest published speed-up that is accepted; more is assumed to be a slip.
const MOST_TIMES: f64 = 1e6;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawStudy {
    name: Spanned<String>,
    title: String,
    question: String,
    prediction: String,
    smallest_effect: Spanned<RawText>,
    precision: Spanned<RawText>,
    budget: Spanned<RawText>,
    warmup: Spanned<RawText>,
    window: Spanned<RawText>,
    blocks_least: Spanned<u32>,
    blocks_most: Spanned<u32>,
    foreign_cpus: Option<Spanned<f64>>,
    repeats_most: Option<u32>,
    #[serde(default)]
    axes: RawAxes,
    #[serde(default, rename = "tier")]
    tiers: Vec<RawTier>,
    #[serde(default, rename = "as-published")]
    as_published: Vec<RawTier>,
    as_published_blocks: Option<Spanned<u32>>,
    #[serde(default)]
    compare: Vec<RawCompare>,
    #[serde(default, rename = "figure")]
    figures: Vec<Figure>,
    #[serde(default, rename = "expect")]
    expects: Vec<RawExpect>,
    #[serde(default, rename = "pair")]
    pairs: Vec<RawPair>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTier {
    title: String,
    #[serde(default)]
    axes: RawAxes,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCompare {
    axis: Axis,
    baseline: Spanned<RawText>,
    values: Option<Spanned<RawValues>>,
    over: Option<Spanned<Axis>>,
    metrics: Spanned<Vec<Spanned<String>>>,
    family: Option<Spanned<String>>,
    #[serde(default)]
    primary: Vec<RawPrimary>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPair {
    title: String,
    metric: Metric,
    axis: Spanned<Axis>,
    values: Spanned<RawValues>,
    against: Spanned<RawText>,
    #[serde(default, rename = "where")]
    at: RawAxes,
    published: Option<Spanned<f64>>,
    note: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPrimary {
    metric: Option<Spanned<Metric>>,
    values: Option<Spanned<RawValues>>,
    #[serde(default, rename = "where")]
    at: RawAxes,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawExpect {
    metric: Metric,
    axis: Axis,
    baseline: Spanned<RawText>,
    value: Spanned<RawText>,
    #[serde(default, rename = "where")]
    at: RawAxes,
    outcome: Spanned<String>,
}

impl Study {
    /// Parses a study. The error is the first one, with its line and column: syntax, an unknown key,
    /// a wrong type, an axis without values, a value out of bounds, no question.
    pub fn parse(text: &str) -> Result<Study, TomlError> {
        let mut study = Reader { text }.study(from_toml(text)?)?;
        study.name_arrivals();
        Ok(study)
    }
}

impl Reader<'_> {
    fn study(&self, raw: RawStudy) -> Result<Study, TomlError> {
        let share = |v: &RawText| units::parse_share(&v.0);
        let millis = |v: &RawText| -> Result<u64, String> {
            let d = units::parse_duration(&v.0)?;
            match u64::try_from(d.as_millis()) {
                Ok(ms) if (1..=86_400_000).contains(&ms) => Ok(ms),
                _ => Err(format!("`{}` is out of bounds: from 1ms to 24h", v.0)),
            }
        };
        let name = self.convert(&raw.name, |name| {
            if units::is_name(name) {
                Ok(name.clone())
            } else {
                Err("a study's name is made of letters, digits, `-` and `_`, at most 64")
            }
        })?;
        let few = "blocks-least is at least 6: fewer pairs cannot give a 95 % interval";
        let least = self.bounded(&raw.blocks_least, |n| n >= 6, few)?;
        let bounds = format!("blocks-most goes from blocks-least ({least}) to {MAX_BLOCKS}");
        let most = self.bounded(
            &raw.blocks_most,
            |n| (least..=MAX_BLOCKS).contains(&n),
            bounds,
        )?;
        let tiers = self.tiers(&raw)?;
        // The published design is complete: axes that it does not name have their defaults.
        let as_published = convert_all(&raw.as_published, |tier| {
            Ok(Tier {
                title: tier.title.clone(),
                axes: self.axes(&tier.axes)?,
            })
        })?;
        Ok(Study {
            name,
            smallest_effect: self.convert(&raw.smallest_effect, share)?,
            precision: self.convert(&raw.precision, share)?,
            budget_ms: self.convert(&raw.budget, millis)?,
            warmup_ms: self.convert(&raw.warmup, millis)?,
            window_ms: self.convert(&raw.window, millis)?,
            blocks_least: least,
            blocks_most: most,
            foreign_cpus: self.foreign_cpus(raw.foreign_cpus.as_ref())?,
            repeats_most: raw.repeats_most.unwrap_or(2).min(10),
            compare: convert_all(&raw.compare, |c| self.compare(c, &tiers))?,
            expects: convert_all(&raw.expects, |e| self.expect(e))?,
            pairs: convert_all(&raw.pairs, |p| self.pair(p))?,
            as_published_blocks: self.as_published_blocks(&raw)?,
            title: raw.title,
            question: raw.question,
            prediction: raw.prediction,
            figures: raw.figures,
            tiers,
            as_published,
            ..Study::default()
        })
    }

    fn foreign_cpus(&self, given: Option<&Spanned<f64>>) -> Result<f64, TomlError> {
        let why = "foreign-cpus is a number of CPUs above 0, such as 0.1";
        let fits = |cpus: f64| cpus.is_finite() && cpus > 0.0;
        given.map_or(Ok(FOREIGN_CPUS), |given| self.bounded(given, fits, why))
    }

    /// The number of blocks of the published design: three or more, since fewer give no interval.
    fn as_published_blocks(&self, raw: &RawStudy) -> Result<Option<u32>, TomlError> {
        let Some(blocks) = &raw.as_published_blocks else {
            return Ok(None);
        };
        let owner = "as-published-blocks is of [[as-published]], which this study does not have";
        self.bounded(blocks, |_| !raw.as_published.is_empty(), owner)?;
        let bounds = format!("as-published-blocks is out of bounds: from 3 to {MAX_BLOCKS}");
        let fits = |n: u32| (3..=MAX_BLOCKS).contains(&n);
        self.bounded(blocks, fits, bounds).map(Some)
    }

    /// The parts of the grid: each tier with the first values of `[axes]` where it names none, then
    /// the product of all `[axes]`.
    fn tiers(&self, raw: &RawStudy) -> Result<Vec<Tier>, TomlError> {
        let all = self.axes(&raw.axes)?;
        let mut tiers = Vec::new();
        for tier in &raw.tiers {
            let mut axes: BTreeMap<Axis, Vec<Value>> = (all.iter())
                .map(|(axis, values)| (*axis, values[..1].to_vec()))
                .collect();
            axes.extend(self.axes(&tier.axes)?);
            tiers.push(Tier {
                title: tier.title.clone(),
                axes: axes.into_iter().collect(),
            });
        }
        if tiers.is_empty() || !all.is_empty() {
            let which = if tiers.is_empty() {
                "whole"
            } else {
                "remaining"
            };
            tiers.push(Tier {
                title: format!("the {which} grid"),
                axes: all,
            });
        }
        Ok(tiers)
    }

    fn compare(&self, raw: &RawCompare, tiers: &[Tier]) -> Result<Compare, TomlError> {
        let axis = raw.axis;
        let baseline = self.value(axis, &raw.baseline)?;
        let occurs = tiers.iter().any(|tier| match tier.values(axis) {
            [] => baseline == axis.row().default,
            values => values.contains(&baseline),
        });
        if !occurs {
            let why = format!("is no value of axis `{axis}` in this study");
            let message = format!("the baseline `{baseline}` {why}");
            return self.fail(raw.baseline.span(), message);
        }
        if raw.metrics.get_ref().is_empty() {
            return self.fail(raw.metrics.span(), "a comparison needs at least one metric");
        }
        let metrics: Vec<Metric> =
            convert_all(raw.metrics.get_ref(), |m| self.convert(m, |m| m.parse()))?;
        let primary = (raw.primary.iter())
            .map(|part| self.primary(axis, &metrics, part))
            .collect::<Result<_, _>>()?;
        let values = raw.values.as_ref().map(|values| self.values(axis, values));
        let over = raw.over.as_ref().map(|over| self.over(axis, over, tiers));
        Ok(Compare {
            axis,
            baseline,
            values: values.transpose()?.unwrap_or_default(),
            over: over.transpose()?,
            family: self.family(raw.family.as_ref(), &raw.primary)?,
            primary,
            metrics,
        })
    }

    /// The axis of a main effect: not the compared one, and one with several values.
    fn over(&self, axis: Axis, raw: &Spanned<Axis>, tiers: &[Tier]) -> Result<Axis, TomlError> {
        let why = "an effect is over another axis than the one compared, with several values";
        let varies = |over| tiers.iter().any(|t| t.values(over).len() >= 2);
        self.bounded(raw, |over| over != axis && varies(over), why)
    }

    fn pair(&self, raw: &RawPair) -> Result<Pair, TomlError> {
        let axis = *raw.axis.get_ref();
        let values = self.values(axis, &raw.values)?;
        let against = self.value(axis, &raw.against)?;
        if values.contains(&against) {
            let why = "cannot be compared with itself: remove it from `values`";
            return self.fail(raw.against.span(), format!("`{against}` {why}"));
        }
        let at = self.axes(&raw.at)?;
        if at.iter().any(|(a, _)| *a == axis) {
            let message = format!("`where` cannot name `{axis}`, which is compared");
            return self.fail(raw.axis.span(), message);
        }
        let published = self.convert_optional(&raw.published, |times| {
            if *times > 0.0 && *times <= MOST_TIMES {
                Ok(*times)
            } else {
                Err(format!(
                    "published {times} is out of bounds: a speed-up is more than 0 and at most {MOST_TIMES}"
                ))
            }
        });
        Ok(Pair {
            title: raw.title.clone(),
            metric: raw.metric,
            axis,
            values,
            against,
            at,
            published: published?,
            note: raw.note.clone(),
        })
    }

    /// The family of a comparison: if parts of it are primary, the remainder is not.
    fn family(
        &self,
        raw: Option<&Spanned<String>>,
        parts: &[RawPrimary],
    ) -> Result<Family, TomlError> {
        let family = raw.map(|raw| self.convert(raw, |name| named("family", name, Family::ALL)));
        match (raw, family.transpose()?, parts) {
            (Some(raw), Some(Family::Primary), [_, ..]) => self.fail(
                raw.span(),
                "a comparison with primary parts is `secondary` or `exploratory` elsewhere: leave family or primary out",
            ),
            (_, Some(family), _) => Ok(family),
            (_, None, []) => Ok(Family::default()),
            (_, None, _) => Ok(Family::Secondary),
        }
    }

    fn primary(
        &self,
        axis: Axis,
        metrics: &[Metric],
        raw: &RawPrimary,
    ) -> Result<PrimaryPart, TomlError> {
        let metric = |metric: &Metric| {
            if metrics.contains(metric) {
                Ok(*metric)
            } else {
                Err(format!("`{metric}` is no metric of this comparison"))
            }
        };
        let values = raw.values.as_ref().map(|values| self.values(axis, values));
        Ok(PrimaryPart {
            metric: self.convert_optional(&raw.metric, metric)?,
            values: values.transpose()?.unwrap_or_default(),
            at: self.axes(&raw.at)?,
        })
    }

    fn expect(&self, raw: &RawExpect) -> Result<Expect, TomlError> {
        let axis = raw.axis;
        Ok(Expect {
            metric: raw.metric,
            axis,
            baseline: self.value(axis, &raw.baseline)?,
            value: self.value(axis, &raw.value)?,
            at: self.axes(&raw.at)?,
            outcome: self.convert(&raw.outcome, |name| named("outcome", name, Outcome::ALL))?,
        })
    }
}
