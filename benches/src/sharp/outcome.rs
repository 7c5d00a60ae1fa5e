//! One run: what its findings say of the primary comparisons. Of findings.json what both builds write
//! is read, and the sets of ways that may be the best, which the later one has.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use bytecost_spec::{Axis, Cell};
use bytecost_stats::trimmed_mean_value;
use serde_json::{Value, json};

use super::list::{Part, Primary};

/// Which comparison: metric, cell, baseline.
pub(super) type Id = String;

/// What one run says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Outcome {
    /// The primary comparisons that it has.
    pub(super) comparisons: BTreeMap<Id, Comparison>,
    /// The comparisons that the list asks for and that it has not.
    pub(super) missing: usize,
    /// Those with a cell that is named as stalling.
    pub(super) stalled: BTreeSet<Id>,
    /// Its first sentence.
    pub(super) first: String,
    pub(super) sentence: Sentence,
    /// How long it took.
    pub(super) seconds: f64,
}

/// What the first sentence is worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sentence {
    /// It rests on findings, all of them decided.
    Decided,
    /// It says that it is undecided and how many blocks it would take.
    Says,
    /// Neither.
    #[default]
    Open,
}

/// A finding.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Comparison {
    /// Where: all ways at one place are compared with each other. And which way.
    place: String,
    way: String,
    /// The logarithms of the ratio and of both ends of its 95 % interval, none where it has none; above
    /// 0 is more of the metric.
    pub(super) ratio: Option<[f64; 3]>,
    /// Whether more of the metric is better.
    pub(super) more_is_better: bool,
    pub(super) verdict: Verdict,
    /// Whether the way may be the best, and the baseline, by the run's set of these; what is
    /// withheld is not excluded.
    pub(super) may_be_best: [bool; 2],
}

/// A verdict, as far as it counts here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Better,
    Worse,
    Same,
    /// Not decided, or withheld.
    Open,
}

/// What is kept of a run's findings.json.
pub(super) fn kept(all: &Value) -> Value {
    let of = |list: &str, names: &[&str]| -> Vec<Value> {
        let entries = all[list].as_array().into_iter().flatten();
        entries
            .map(|entry| {
                let named = names.iter().map(|n| ((*n).to_owned(), entry[*n].clone()));
                named.collect::<serde_json::Map<_, _>>().into()
            })
            .collect()
    };
    let finding = [
        "id",
        "metric",
        "axis",
        "baseline",
        "baseline_value",
        "cell",
        "value",
        "ratio",
        "low",
        "high",
        "blocks",
        "verdict",
        "withheld",
    ];
    let stalls = |caveat: &&Value| caveat["kind"].as_str().is_some_and(|k| k.contains("stall"));
    let caveats = of("caveats", &["kind", "cells"]);
    json!({
        "run": { "measured_s": all["run"]["measured_s"], "blocks": all["run"]["blocks"] },
        "findings": of("findings", &finding),
        "cells": of("cells", &["id", "cell"]),
        "caveats": caveats.iter().filter(stalls).collect::<Vec<_>>(),
        "first": all["advice"]["lines"][0],
        "best": all["advice"]["situations"].as_array().into_iter().flatten().map(best_of).collect::<Vec<_>>(),
    })
}

/// What is kept of a situation of the advice.
fn best_of(situation: &Value) -> Value {
    let named = ["axis", "metric", "may_be_best"].map(|n| (n.to_owned(), situation[n].clone()));
    named.into_iter().collect::<serde_json::Map<_, _>>().into()
}

/// Whether the cell at this end of a finding is in the run's set of those that may be the best.
fn may_be_best(all: &Value, finding: &Value, end: &str) -> bool {
    let sets = all["best"].as_array().into_iter().flatten();
    let mut sets = sets.filter(|set| ["axis", "metric"].iter().all(|n| set[n] == finding[n]));
    sets.any(|set| (set["may_be_best"].as_array()).is_some_and(|best| best.contains(&finding[end])))
}

impl Outcome {
    /// What a kept run says of a part's comparisons.
    pub(super) fn read(line: &Value, part: &Part) -> Result<Outcome> {
        let all = &line["findings"];
        let cells = cells(all)?;
        let stalls = all["caveats"].as_array().into_iter().flatten();
        let stalls: BTreeSet<&str> = stalls
            .flat_map(|c| c["cells"].as_array().into_iter().flatten())
            .filter_map(Value::as_str)
            .collect();
        let mut outcome = Outcome {
            first: all["first"]["text"].as_str().unwrap_or_default().to_owned(),
            sentence: sentence(all),
            seconds: line["seconds"].as_f64().context("seconds")?,
            ..Outcome::default()
        };
        for primary in &part.primary {
            let places = primary.places()?;
            let (_, values) = primary.ways()?;
            let mut asked: BTreeSet<(&String, usize)> = values
                .iter()
                .flat_map(|value| (0..places.len()).map(move |place| (value, place)))
                .collect();
            for finding in all["findings"].as_array().into_iter().flatten() {
                let id = finding["cell"].as_str().context("a finding's cell")?;
                let cell = cells.get(id).with_context(|| format!("no cell {id}"))?;
                let Some((value, place)) = matches(primary, &values, &places, finding, cell)?
                else {
                    continue;
                };
                asked.remove(&(value, place));
                let mut comparison = Comparison::read(finding, primary, cell)?;
                for (end, may) in ["cell", "baseline"].iter().zip(&mut comparison.may_be_best) {
                    *may |= may_be_best(all, finding, end);
                }
                let id = format!(
                    "{}: {}, {}",
                    primary.metric, comparison.place, comparison.way
                );
                let ends =
                    ["cell", "baseline"].map(|end| finding[end].as_str().unwrap_or_default());
                if ends.iter().any(|end| stalls.contains(end)) {
                    outcome.stalled.insert(id.clone());
                }
                outcome.comparisons.insert(id, comparison);
            }
            outcome.missing += asked.len();
        }
        Ok(outcome)
    }
}

/// The cells of a run by the ids that its findings have.
fn cells(all: &Value) -> Result<BTreeMap<&str, Cell>> {
    let cells = all["cells"].as_array().context("no cells")?.iter();
    cells
        .map(|c| {
            let id = c["id"].as_str().context("a cell's id")?;
            Ok((id, serde_json::from_value(c["cell"].clone())?))
        })
        .collect()
}

/// The value and the place of the list that a finding is of; none where it is of no primary
/// comparison.
fn matches<'v>(
    primary: &Primary,
    values: &'v [String],
    places: &[Vec<(Axis, String)>],
    finding: &Value,
    cell: &Cell,
) -> Result<Option<(&'v String, usize)>> {
    let axis = primary.axis()?;
    let (baseline, _) = primary.ways()?;
    let is_of = finding["metric"] == primary.metric.as_str()
        && finding["axis"].as_str().and_then(Axis::named) == Some(axis)
        && finding["baseline_value"] == baseline.as_str();
    let value = values.iter().find(|v| **v == cell.value(axis));
    let is_at = |place: &Vec<(Axis, String)>| place.iter().all(|(a, v)| cell.value(*a) == *v);
    let place = places.iter().position(is_at);
    Ok(value.zip(place).filter(|_| is_of))
}

impl Comparison {
    fn read(finding: &Value, primary: &Primary, cell: &Cell) -> Result<Comparison> {
        let metric: bytecost_spec::Metric = primary.metric.parse().map_err(anyhow::Error::msg)?;
        let is_withheld = finding["withheld"].is_string();
        let verdict = match finding["verdict"].as_str().context("a verdict")? {
            _ if is_withheld => Verdict::Open,
            "better" => Verdict::Better,
            "worse" => Verdict::Worse,
            "no-difference-that-matters" => Verdict::Same,
            _ => Verdict::Open,
        };
        let axis = primary.axis()?;
        let log = |name: &str| {
            finding[name]
                .as_f64()
                .map(f64::ln)
                .filter(|l| l.is_finite())
        };
        let ratio = log("ratio").zip(log("low")).zip(log("high"));
        Ok(Comparison {
            place: cell.id_without(&[axis]),
            way: cell.value(axis),
            ratio: ratio.map(|((ratio, low), high)| [ratio, low, high]),
            more_is_better: metric.better() == bytecost_spec::Better::Higher,
            verdict,
            may_be_best: [is_withheld; 2],
        })
    }

    /// Half the width of the interval, as a share; without end where there is none.
    pub(super) fn half_width(&self) -> f64 {
        self.ratio.map_or(f64::INFINITY, |[_, low, high]| {
            ((high - low) / 2.0).exp_m1()
        })
    }

    /// Whether the verdict is the one that this effect asks for.
    pub(super) fn finds(&self, effect: f64) -> bool {
        match self.verdict {
            Verdict::Better => (effect > 0.0) == self.more_is_better,
            Verdict::Worse => (effect > 0.0) != self.more_is_better,
            Verdict::Same | Verdict::Open => false,
        }
    }
}

/// What the first sentence rests on.
fn sentence(all: &Value) -> Sentence {
    let first = &all["first"];
    let ids: Vec<&str> = first["findings"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let is_open = |f: &Value| f["verdict"] == "not-decided" || f["withheld"].is_string();
    let findings = all["findings"].as_array().into_iter().flatten();
    let open = findings
        .filter(|f| f["id"].as_str().is_some_and(|id| ids.contains(&id)))
        .any(is_open);
    if !ids.is_empty() && !open {
        return Sentence::Decided;
    }
    let text = first["text"].as_str().unwrap_or_default();
    let is_said = ["undecided", "not decided", "cannot decide"]
        .iter()
        .any(|w| text.contains(w));
    if is_said && text.contains("blocks") {
        Sentence::Says
    } else {
        Sentence::Open
    }
}

/// The effect of each comparison: the estimate of all runs of both builds together.
pub(super) fn effects<'o>(outcomes: impl Iterator<Item = &'o Outcome>) -> BTreeMap<Id, f64> {
    let mut ratios: BTreeMap<Id, Vec<f64>> = BTreeMap::new();
    for (id, comparison) in outcomes.flat_map(|o| &o.comparisons) {
        if let Some([ratio, ..]) = comparison.ratio {
            ratios.entry(id.clone()).or_default().push(ratio);
        }
    }
    let of_all = ratios.into_iter();
    of_all
        .filter_map(|(id, ratios)| Some((id, trimmed_mean_value(&ratios)?)))
        .collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::list::List;
    use super::*;
    use crate::clean_build::WORKSPACE;

    /// Mover, size, ratio, half-width and verdict of a made-up finding.
    pub(in super::super) type Made<'m> = (&'m str, &'m str, f64, f64, &'m str);

    /// A made-up run of `send-copies`: movers at sizes with ratio, half-width and verdict.
    pub(in super::super) fn line(findings: &[Made<'_>]) -> Value {
        let cell = |mover: &str, size: &str| {
            let mut cell = Cell::default();
            cell.set(Axis::Mover, mover).unwrap();
            cell.set(Axis::Size, size).unwrap();
            cell
        };
        let cells: Vec<Value> = findings
            .iter()
            .flat_map(|(mover, size, ..)| [cell(mover, size), cell("send", size)])
            .map(|c| json!({ "id": c.id(), "cell": c }))
            .collect();
        let findings: Vec<Value> = findings
            .iter()
            .map(|(mover, size, ratio, half, verdict)| {
                json!({
                    "id": format!("{mover} {size}"), "metric": "cpu_s_per_gb", "axis": "mover",
                    "baseline": cell("send", size).id(), "baseline_value": "send",
                    "cell": cell(mover, size).id(), "value": mover, "ratio": ratio,
                    "low": ratio / (1.0 + half), "high": ratio * (1.0 + half), "verdict": verdict,
                })
            })
            .collect();
        let all = json!({
            "cells": cells, "findings": findings, "caveats": [], "run": {},
            "advice": { "lines": [{ "text": "use it", "findings": ["sendfile 64KiB"] }] },
        });
        json!({ "seconds": 60.0, "findings": kept(&all) })
    }

    fn read(line: &Value) -> Outcome {
        let list = List::read().unwrap();
        Outcome::read(line, list.chosen(Some("send-copies")).unwrap()[0]).unwrap()
    }

    #[test]
    fn primary_comparisons_are_read_and_others_are_not() {
        let line = line(&[
            ("sendfile", "64KiB", 0.6, 0.02, "better"),
            ("splice", "256", 1.5, 0.3, "not-decided"),
            ("writev", "256", 1.5, 0.3, "worse"),
            ("splice", "1KiB", 1.5, 0.3, "worse"),
        ]);
        let outcome = read(&line);
        let found: Vec<&Comparison> = outcome.comparisons.values().collect();
        let ways: Vec<(&str, Verdict)> =
            found.iter().map(|c| (c.way.as_str(), c.verdict)).collect();
        assert_eq!(
            ways,
            [("splice", Verdict::Open), ("sendfile", Verdict::Better)]
        );
        assert_eq!(outcome.missing, 33, "of 35");
        assert!((found[1].half_width() - 0.02).abs() < 1e-9, "{found:?}");
        assert!(
            found[1].finds(-0.5) && !found[1].finds(0.5),
            "less CPU time is better"
        );
        assert_eq!(outcome.sentence, Sentence::Decided);
    }

    #[test]
    fn what_is_withheld_is_open_and_a_stall_is_known() {
        let mut line = line(&[("sendfile", "64KiB", 0.6, 0.02, "better")]);
        line["findings"]["findings"][0]["withheld"] = "CPU time is unaccounted for".into();
        let cell = line["findings"]["findings"][0]["baseline"].clone();
        line["findings"]["caveats"] = json!([{ "kind": "nagle-stall", "cells": [cell] }]);
        let outcome = read(&line);
        let comparison = outcome.comparisons.values().next().unwrap();
        assert_eq!(comparison.verdict, Verdict::Open);
        assert_eq!(outcome.sentence, Sentence::Open);
        assert_eq!(outcome.stalled.len(), 1);
        line["findings"]["first"] =
            json!({ "text": "undecided: it would take 90 blocks", "findings": [] });
        assert_eq!(read(&line).sentence, Sentence::Says);
    }

    #[test]
    fn the_effect_is_that_of_all_runs_together() {
        let runs = [0.5, 0.6, 0.72]
            .map(|ratio| read(&line(&[("sendfile", "64KiB", ratio, 0.1, "better")])));
        let effects = effects(runs.iter());
        let effect = effects.values().next().unwrap();
        assert!((effect.exp() - 0.6).abs() < 1e-3, "{effect}");
    }

    #[test]
    fn recorded_runs_of_every_part_are_read() {
        let list = List::read().unwrap();
        for part in list.chosen(None).unwrap() {
            let goldens = format!("{WORKSPACE}/crates/bytecost/tests/goldens");
            let path = format!("{goldens}/{}/findings.json", part.study);
            let all: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
            let line = json!({ "seconds": 1.0, "findings": kept(&all) });
            let outcome = Outcome::read(&line, part).unwrap();
            assert!(!outcome.first.is_empty(), "{}", part.study);
            assert!(outcome.missing + outcome.comparisons.len() > 0);
            if part.study == "send-copies" {
                assert!(!outcome.comparisons.is_empty());
            }
        }
    }
}
