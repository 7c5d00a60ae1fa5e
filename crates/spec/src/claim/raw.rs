//! The TOML of claims as it stands in the file, and the way from there to [`Claim`]s.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use super::{
    Arithmetic, Between, Claim, Contrast, Expected, MAX_CLAIMS, MAX_CLAIMS_BYTES, MAX_TESTS,
    MAX_TEXT_BYTES, NAGLE_STALL, Place, Quantity, Reason, Term, Test,
};
use crate::axis::{AXES, Axis};
use crate::cell::Cell;
use crate::metric::Metric;
use crate::study::StudyError;
use crate::study::raw::{RawAxes, Reader, Text, at, one_line};
use crate::units;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    claim: Vec<Spanned<RawClaim>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawClaim {
    id: Spanned<String>,
    source: Spanned<String>,
    claim: Spanned<String>,
    #[serde(default)]
    published: Option<Spanned<String>>,
    #[serde(rename = "settled_by")]
    settled_by: Spanned<String>,
    #[serde(default, rename = "test")]
    tests: Vec<RawTest>,
    #[serde(default, rename = "reason")]
    reasons: Vec<RawTest>,
}

/// A test of any kind; which keys it may have its kind says.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawTest {
    kind: Spanned<String>,
    metric: Option<Spanned<String>>,
    metrics: Option<Spanned<Vec<Spanned<String>>>>,
    axis: Option<Spanned<String>>,
    value: Option<Spanned<Text>>,
    against: Option<Spanned<Text>>,
    #[serde(rename = "where")]
    place: Option<Spanned<RawAxes>>,
    expect: Option<Spanned<String>>,
    cells: Option<Spanned<String>>,
    along: Option<Spanned<String>>,
    tolerance: Option<Spanned<f64>>,
    doubt: Option<Spanned<String>>,
    threads: Option<Spanned<Text>>,
    study: Option<Spanned<String>>,
    why: Option<Spanned<String>>,
    table: Option<Spanned<String>>,
    column: Option<Spanned<String>>,
    rows: Option<Spanned<BTreeMap<String, Text>>>,
    by: Option<Spanned<Vec<String>>>,
    other: Option<Spanned<RawTerm>>,
    otherwise: Option<Spanned<String>>,
}

/// A term of a calculation; what it leaves out is as in the test's own.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTerm {
    table: Option<String>,
    column: Option<String>,
    rows: Option<BTreeMap<String, Text>>,
}

/// Each kind with the keys that it takes besides `kind` and `otherwise`.
const KINDS: &[(&str, &[&str])] = &[
    (
        "ratio",
        &[
            "metric", "axis", "value", "against", "where", "expect", "cells",
        ],
    ),
    (
        "crossover",
        &[
            "metric",
            "axis",
            "value",
            "against",
            "where",
            "expect",
            "cells",
            "along",
            "tolerance",
        ],
    ),
    ("level", &["metric", "where", "expect", "cells"]),
    ("copied-share", &["where", "expect", "cells"]),
    (
        "counter",
        &["metrics", "axis", "value", "against", "where", "cells"],
    ),
    ("stall", &["doubt", "where", "expect", "cells"]),
    (
        "scaling",
        &["metric", "where", "threads", "expect", "cells"],
    ),
    (
        "arithmetic",
        &[
            "table",
            "column",
            "rows",
            "other",
            "by",
            "expect",
            "tolerance",
            "cells",
        ],
    ),
    ("copies-per-byte", &[]),
    ("not-in-this-run", &["study", "why"]),
];

/// How far beside a claimed place a crossover may lie, unless the test says otherwise.
const CROSSOVER_TOLERANCE: f64 = 2.0;

pub(super) fn parse(text: &str) -> Result<Vec<Claim>, StudyError> {
    if text.len() > MAX_CLAIMS_BYTES {
        let message = format!("a claims file has at most {MAX_CLAIMS_BYTES} bytes");
        return Err(at(text, 0, message));
    }
    let raw: RawFile = toml::from_str(text)
        .map_err(|e| at(text, e.span().map_or(0, |s| s.start), one_line(e.message())))?;
    let reader = Reader { text };
    let mut claims: Vec<Claim> = Vec::with_capacity(raw.claim.len().min(MAX_CLAIMS));
    for row in &raw.claim {
        if claims.len() == MAX_CLAIMS {
            return reader.fail(row.span(), format!("at most {MAX_CLAIMS} claims"));
        }
        let claim = reader.claim(row)?;
        if claims.iter().any(|c| c.id == claim.id) {
            let message = format!("a claim `{}` is there already: choose another id", claim.id);
            return reader.fail(row.get_ref().id.span(), message);
        }
        claims.push(claim);
    }
    Ok(claims)
}

impl Reader<'_> {
    fn claim(&self, raw: &Spanned<RawClaim>) -> Result<Claim, StudyError> {
        let row = raw.get_ref();
        if row.tests.is_empty() && row.reasons.is_empty() {
            let message = format!(
                "claim `{}` has no [[claim.test]]: add one, or `kind = \"not-in-this-run\"` with a why",
                row.id.get_ref()
            );
            return self.fail(row.id.span(), message);
        }
        if row.tests.len() > MAX_TESTS || row.reasons.len() > MAX_TESTS {
            return self.fail(
                row.id.span(),
                format!("at most {MAX_TESTS} tests and reasons"),
            );
        }
        if let Some(odd) = row.tests.iter().find_map(|t| t.otherwise.as_ref()) {
            return self.fail(
                odd.span(),
                "`otherwise` belongs to [[claim.reason]]: a test says whether the effect is there",
            );
        }
        Ok(Claim {
            id: self.take(&row.id, |t| name(t))?,
            source: self.take(&row.source, |t| name(t))?,
            claim: self.prose(&row.claim)?,
            published: row.published.as_ref().map(|t| self.prose(t)).transpose()?,
            settled_by: self.prose(&row.settled_by)?,
            tests: row
                .tests
                .iter()
                .map(|t| self.test(t))
                .collect::<Result<_, _>>()?,
            reasons: row
                .reasons
                .iter()
                .map(|t| self.reason(t))
                .collect::<Result<_, _>>()?,
        })
    }

    fn prose(&self, text: &Spanned<String>) -> Result<String, StudyError> {
        self.take(text, |t| match t.len() {
            0 => Err("a text is missing".to_owned()),
            bytes if bytes > MAX_TEXT_BYTES => Err(format!("at most {MAX_TEXT_BYTES} bytes")),
            _ => Ok(t.clone()),
        })
    }

    fn reason(&self, raw: &RawTest) -> Result<Reason, StudyError> {
        let Some(otherwise) = &raw.otherwise else {
            return self.fail(
                raw.kind.span(),
                "a reason needs `otherwise`: what the reason is where the given one does not hold",
            );
        };
        Ok(Reason {
            test: self.test(raw)?,
            otherwise: self.prose(otherwise)?,
        })
    }

    fn test(&self, raw: &RawTest) -> Result<Test, StudyError> {
        let kind = raw.kind.get_ref().as_str();
        let Some((_, keys)) = KINDS.iter().find(|(name, _)| *name == kind) else {
            let names: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
            let message = format!(
                "kind `{kind}` is not known: choose from {}",
                names.join(", ")
            );
            return self.fail(raw.kind.span(), message);
        };
        if let Some((key, place)) = raw.given().into_iter().find(|(key, _)| !keys.contains(key)) {
            let known = if keys.is_empty() {
                "none".to_owned()
            } else {
                keys.join(", ")
            };
            let message = format!("a {kind} test has no `{key}`; its keys: {known}");
            return self.fail(place, message);
        }
        Ok(match kind {
            "ratio" => Test::Ratio {
                contrast: self.contrast(raw)?,
                metric: self.metric(raw)?,
                expect: self.expect(raw, false)?,
                cells: self.cells(raw)?,
            },
            "crossover" => self.crossover(raw)?,
            "level" => Test::Level {
                metric: self.metric(raw)?,
                place: self.place(raw)?,
                expect: self.expect(raw, false)?,
                cells: self.cells(raw)?,
            },
            "copied-share" => Test::Level {
                metric: Metric::both(crate::Measure::CopiedShare),
                place: self.place(raw)?,
                expect: self.expect(raw, false)?,
                cells: self.cells(raw)?,
            },
            "counter" => self.counter(raw)?,
            "stall" => self.stall(raw)?,
            "scaling" => self.scaling(raw)?,
            "arithmetic" => self.arithmetic(raw)?,
            "copies-per-byte" => Test::CopiesPerByte,
            _ => Test::NotInThisRun {
                study: self.take(self.needed(raw, &raw.study, "study")?, |t| name(t))?,
                why: self.prose(self.needed(raw, &raw.why, "why")?)?,
            },
        })
    }

    fn needed<'r, T>(
        &self,
        raw: &RawTest,
        value: &'r Option<Spanned<T>>,
        key: &str,
    ) -> Result<&'r Spanned<T>, StudyError> {
        match value {
            Some(value) => Ok(value),
            None => self.fail(
                raw.kind.span(),
                format!("a {} test needs `{key}`", raw.kind.get_ref()),
            ),
        }
    }

    fn metric(&self, raw: &RawTest) -> Result<Metric, StudyError> {
        self.take(self.needed(raw, &raw.metric, "metric")?, |m| m.parse())
    }

    /// What is expected; `among` only where there is something to be among.
    fn expect(&self, raw: &RawTest, among: bool) -> Result<Expected, StudyError> {
        self.take(
            self.needed(raw, &raw.expect, "expect")?,
            |text| match text.parse()? {
                Expected::Among if !among => {
                    Err("`among` is for an arithmetic test with `other`".to_owned())
                }
                expected => Ok(expected),
            },
        )
    }

    fn cells(&self, raw: &RawTest) -> Result<Quantity, StudyError> {
        let Some(cells) = &raw.cells else {
            return Ok(Quantity::Every);
        };
        self.take(cells, |text| match text.as_str() {
            "every" => Ok(Quantity::Every),
            "some" => Ok(Quantity::Some),
            other => Err(format!("cells `{other}`: write `every` or `some`")),
        })
    }

    fn place(&self, raw: &RawTest) -> Result<Place, StudyError> {
        let Some(axes) = &raw.place else {
            return Ok(Vec::new());
        };
        let named = AXES.iter().filter_map(|row| {
            let values = axes.get_ref().get(row.axis)?;
            Some(self.values(row.axis, values).map(|v| (row.axis, v)))
        });
        named.collect()
    }

    fn contrast(&self, raw: &RawTest) -> Result<Contrast, StudyError> {
        let axis = self.axis(self.needed(raw, &raw.axis, "axis")?)?;
        let value = self.value(axis, self.needed(raw, &raw.value, "value")?)?;
        let against = self.needed(raw, &raw.against, "against")?;
        let contrast = Contrast {
            axis,
            value,
            against: self.value(axis, against)?,
            place: self.place(raw)?,
        };
        if contrast.value == contrast.against {
            return self.fail(against.span(), "`value` and `against` are the same");
        }
        if contrast.place.iter().any(|(a, _)| *a == axis) {
            let message = format!("`where` cannot name `{}`, which is compared", axis.name());
            return self.fail(raw.kind.span(), message);
        }
        Ok(contrast)
    }

    fn value(&self, axis: Axis, text: &Spanned<Text>) -> Result<String, StudyError> {
        self.take(text, |t| {
            let mut probe = Cell::default();
            probe.set(axis, &t.0).map(|()| probe.value(axis))
        })
    }

    fn crossover(&self, raw: &RawTest) -> Result<Test, StudyError> {
        let along = match &raw.along {
            Some(along) => self.axis(along)?,
            None => Axis::Size,
        };
        let expect = self.needed(raw, &raw.expect, "expect")?;
        let from = self.take(expect, |text| {
            let Some(value) = text.trim().strip_prefix("from ") else {
                return Err(format!(
                    "`{text}` is no place of a crossover: write, for example, `from 8KiB`"
                ));
            };
            units::parse_bytes(value)?;
            let mut probe = Cell::default();
            match probe.set(along, value.trim()) {
                Ok(()) => Ok(probe.value(along)),
                Err(e) => Err(e.to_string()),
            }
        })?;
        let tolerance = match &raw.tolerance {
            Some(factor) => self.take(factor, |f| {
                if f.is_finite() && (1.0..=1e6).contains(f) {
                    Ok(*f)
                } else {
                    Err("the tolerance of a crossover is a factor from 1 up")
                }
            })?,
            None => CROSSOVER_TOLERANCE,
        };
        Ok(Test::Crossover {
            contrast: self.contrast(raw)?,
            metric: self.metric(raw)?,
            along,
            from,
            tolerance,
            cells: self.cells(raw)?,
        })
    }

    fn counter(&self, raw: &RawTest) -> Result<Test, StudyError> {
        let list = self.needed(raw, &raw.metrics, "metrics")?;
        if list.get_ref().len() < 2 {
            return self.fail(list.span(), "a counter test compares at least two metrics");
        }
        let metrics = list.get_ref().iter().map(|m| self.take(m, |m| m.parse()));
        Ok(Test::Counter {
            metrics: metrics.collect::<Result<_, _>>()?,
            contrast: self.contrast(raw)?,
            cells: self.cells(raw)?,
        })
    }

    fn stall(&self, raw: &RawTest) -> Result<Test, StudyError> {
        let present = match &raw.expect {
            None => true,
            Some(expect) => self.take(expect, |text| match text.as_str() {
                "present" => Ok(true),
                "absent" => Ok(false),
                other => Err(format!("`{other}`: write `present` or `absent`")),
            })?,
        };
        let doubt = raw.doubt.as_ref();
        Ok(Test::Stall {
            doubt: doubt.map_or(Ok(NAGLE_STALL.to_owned()), |d| self.take(d, |d| name(d)))?,
            place: self.place(raw)?,
            present,
            cells: self.cells(raw)?,
        })
    }

    fn scaling(&self, raw: &RawTest) -> Result<Test, StudyError> {
        let between = self.take(self.needed(raw, &raw.threads, "threads")?, |text| {
            let numbers = || {
                let (low, high) = text.0.split_once("..")?;
                let (low, high): (u32, u32) = (low.parse().ok()?, high.parse().ok()?);
                (0 < low && low < high).then_some(Between::Numbers(low, high))
            };
            match text.0.as_str() {
                "within-cpus" => Ok(Between::WithinCpus),
                "beyond-cpus" => Ok(Between::BeyondCpus),
                other => numbers().ok_or_else(|| {
                    format!("threads `{other}`: write `1..8`, `within-cpus` or `beyond-cpus`")
                }),
            }
        })?;
        Ok(Test::Scaling {
            metric: self.metric(raw)?,
            place: self.place(raw)?,
            between,
            expect: self.expect(raw, false)?,
            cells: self.cells(raw)?,
        })
    }

    fn arithmetic(&self, raw: &RawTest) -> Result<Test, StudyError> {
        let term = Term {
            table: self.needed(raw, &raw.table, "table")?.get_ref().clone(),
            column: self.needed(raw, &raw.column, "column")?.get_ref().clone(),
            rows: rows(raw.rows.as_ref().map(Spanned::get_ref)),
        };
        let against = raw.other.as_ref().map(|other| {
            let other = other.get_ref();
            Term {
                table: other.table.clone().unwrap_or_else(|| term.table.clone()),
                column: other.column.clone().unwrap_or_else(|| term.column.clone()),
                rows: rows(other.rows.as_ref()),
            }
        });
        let tolerance = match &raw.tolerance {
            Some(share) => self.take(share, |s| {
                if s.is_finite() && (0.0..1.0).contains(s) {
                    Ok(*s)
                } else {
                    Err("the tolerance of a calculation is a share from 0 to 1, such as 0.02")
                }
            })?,
            None => 0.0,
        };
        Ok(Test::Arithmetic(Arithmetic {
            expect: self.expect(raw, against.is_some())?,
            term,
            against,
            by: raw
                .by
                .as_ref()
                .map(|by| by.get_ref().clone())
                .unwrap_or_default(),
            tolerance,
            cells: self.cells(raw)?,
        }))
    }
}

impl RawTest {
    /// The keys that stand there, with their places.
    fn given(&self) -> Vec<(&'static str, Range<usize>)> {
        fn of<T>(
            key: &'static str,
            value: &Option<Spanned<T>>,
        ) -> Option<(&'static str, Range<usize>)> {
            value.as_ref().map(|v| (key, v.span()))
        }
        [
            of("metric", &self.metric),
            of("metrics", &self.metrics),
            of("axis", &self.axis),
            of("value", &self.value),
            of("against", &self.against),
            of("where", &self.place),
            of("expect", &self.expect),
            of("cells", &self.cells),
            of("along", &self.along),
            of("tolerance", &self.tolerance),
            of("doubt", &self.doubt),
            of("threads", &self.threads),
            of("study", &self.study),
            of("why", &self.why),
            of("table", &self.table),
            of("column", &self.column),
            of("rows", &self.rows),
            of("by", &self.by),
            of("other", &self.other),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

fn rows(conditions: Option<&BTreeMap<String, Text>>) -> Vec<(String, String)> {
    let pairs = conditions.into_iter().flatten();
    pairs
        .map(|(column, value)| (column.clone(), value.0.clone()))
        .collect()
}

fn name(text: &str) -> Result<String, String> {
    let fits = (1..=64).contains(&text.len())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if fits {
        Ok(text.to_owned())
    } else {
        Err("a name is made of letters, digits, `-` and `_`, at most 64".to_owned())
    }
}
