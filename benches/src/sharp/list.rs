//! `benches/sharp.toml`: the parts, their primary comparisons and their goals.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use bytecost_spec::Axis;
use serde::Deserialize;

const TEXT: &str = include_str!("../../sharp.toml");

/// All parts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    /// The commit that this tree is compared with.
    pub(super) before: String,
    #[serde(rename = "part")]
    parts: Vec<Part>,
}

/// One study and what is asked of its runs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Part {
    pub(super) study: String,
    #[serde(default)]
    pub(super) arguments: Vec<String>,
    pub(super) budget: Option<String>,
    /// Runs of each build.
    pub(super) runs: u64,
    pub(super) primary: Vec<Primary>,
    /// Of comparisons with a greater effect ...
    pub(super) effect: Option<f64>,
    /// ... so large a share is decided.
    pub(super) decided: Option<f64>,
    /// Half the width of the interval, the median.
    pub(super) half_width: Option<f64>,
    pub(super) half_width_goal: Option<f64>,
    /// Shares of ratios with the half-width that each may have.
    #[serde(default)]
    pub(super) within: Vec<(f64, f64)>,
    /// The best set excludes who is so much worse.
    pub(super) best_set: Option<f64>,
    /// Whether the first sentence is a decided one.
    #[serde(default)]
    pub(super) first_sentence: bool,
}

/// Comparisons of one metric along one axis.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Primary {
    pub(super) metric: String,
    axis: String,
    baseline: String,
    values: Vec<String>,
    #[serde(default, rename = "where")]
    place: BTreeMap<String, Vec<String>>,
}

impl Primary {
    /// The compared axis.
    pub(super) fn axis(&self) -> Result<Axis> {
        axis(&self.axis)
    }

    /// The baseline and the values that are compared with it, as cells have them.
    pub(super) fn ways(&self) -> Result<(String, Vec<String>)> {
        let axis = self.axis()?;
        let values = self.values.iter().map(|v| stored(axis, v));
        Ok((
            stored(axis, &self.baseline)?,
            values.collect::<Result<_>>()?,
        ))
    }

    /// Every place at which they are: each axis of it with its value, as cells have them.
    pub(super) fn places(&self) -> Result<Vec<Vec<(Axis, String)>>> {
        let mut places = vec![Vec::new()];
        for (name, values) in &self.place {
            let axis = axis(name)?;
            let mut longer = Vec::new();
            for place in &places {
                for value in values {
                    let mut place: Vec<(Axis, String)> = place.clone();
                    place.push((axis, stored(axis, value)?));
                    longer.push(place);
                }
            }
            places = longer;
        }
        Ok(places)
    }
}

fn axis(name: &str) -> Result<Axis> {
    Axis::named(name).with_context(|| format!("no axis `{name}`"))
}

/// A value as cells have it.
fn stored(axis: Axis, value: &str) -> Result<String> {
    Ok(axis.read(axis.stored(value))?)
}

impl List {
    pub(super) fn read() -> Result<List> {
        Ok(toml::from_str(TEXT)?)
    }

    #[cfg(test)]
    pub(super) fn part(&mut self, study: &str) -> &mut Part {
        let mut parts = self.parts.iter_mut();
        parts.find(|p| p.study == study).expect("the part")
    }

    /// The part of this study, or all.
    pub(super) fn chosen(&self, name: Option<&str>) -> Result<Vec<&Part>> {
        let name = name.filter(|n| !n.is_empty());
        let is_asked = |p: &&Part| name.is_none_or(|n| n == p.study);
        let parts: Vec<&Part> = self.parts.iter().filter(is_asked).collect();
        if parts.is_empty() {
            let known: Vec<&str> = self.parts.iter().map(|p| p.study.as_str()).collect();
            bail!("no such part: choose from {}", known.join(", "));
        }
        Ok(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytecost_spec::Metric;

    #[test]
    fn the_list_is_sound_and_names_what_there_is() {
        let list = List::read().unwrap();
        assert_eq!(list.parts.len(), 8);
        for part in &list.parts {
            for primary in &part.primary {
                let (baseline, values) = primary.ways().unwrap();
                assert!(!values.contains(&baseline), "{}", part.study);
                assert!(!primary.places().unwrap().is_empty(), "{}", part.study);
                primary.metric.parse::<Metric>().unwrap();
            }
            assert!(part.decided.is_none() || part.effect.is_some());
            let asked = part.decided.is_some() || part.first_sentence || !part.within.is_empty();
            assert!(asked && part.runs > 0, "{} is asked nothing", part.study);
        }
    }

    #[test]
    fn send_copies_has_seven_movers_at_five_sizes() {
        let list = List::read().unwrap();
        let [part] = list.chosen(Some("send-copies")).unwrap()[..] else {
            panic!("one part")
        };
        let [primary] = &part.primary[..] else {
            panic!("one comparison")
        };
        let (baseline, values) = primary.ways().unwrap();
        assert_eq!((baseline.as_str(), values.len()), ("send", 7));
        assert_eq!(primary.places().unwrap().len(), 5);
        assert_eq!(list.chosen(None).unwrap().len(), 8);
        assert_eq!(list.chosen(Some("")).unwrap().len(), 8, "as make gives it");
        let error = list.chosen(Some("netperf")).unwrap_err().to_string();
        assert!(error.contains("send-copies, pa02-a"), "{error}");
    }
}
