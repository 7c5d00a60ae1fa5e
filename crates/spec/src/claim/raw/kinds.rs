//! The conversion of each kind of test from its TOML keys, with the checks of these.

use std::collections::BTreeMap;

use toml::Spanned;

use super::{RawTest, name, prose};
use crate::axis::Axis;
use crate::claim::{
    Arithmetic, Between, Contrast, Crossover, Expected, NAGLE_STALL, Quantity, Term, TestKind,
};
use crate::metric::{Measure, Metric};
use crate::toml_reader::{RawText, Reader, TomlError, convert_all};
use crate::units;

/// The tolerance of a crossover test that names none, as a factor.
const CROSSOVER_TOLERANCE: f64 = 2.0;

/// The word of the key `cells` for the mean of all groups.
const MEAN: &str = "mean";

/// The forms of an expectation that a test allows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExpectForms {
    /// Those for a number with a unit: neither `alike` nor `among`.
    Number,
    /// Those for a ratio: all but `among`.
    Ratio,
    /// All of them.
    Any,
}

impl Reader<'_> {
    /// The test of a kind, from the keys that it has.
    pub(super) fn kind(&self, kind: &str, raw: &RawTest) -> Result<TestKind, TomlError> {
        let level = |metric: Metric| {
            let expect = self.expected(raw, ExpectForms::Number)?;
            Ok(TestKind::Level { metric, expect })
        };
        match kind {
            "ratio" => Ok(TestKind::Ratio {
                contrast: self.contrast(raw)?,
                metric: self.metric(raw)?,
                expect: self.expected(raw, ExpectForms::Ratio)?,
            }),
            "crossover" => self.crossover(raw),
            "level" => level(self.metric(raw)?),
            "copied-share" => level(Metric::both(Measure::CopiedShare)),
            "copies-per-byte" => level(self.copies(raw)?),
            "counter" => self.counter(raw),
            "stall" => self.stall(raw),
            "scaling" => self.scaling(raw),
            "arithmetic" => self.arithmetic(raw),
            _ => Ok(TestKind::NotInThisRun {
                study: self.convert(self.required(raw, &raw.study, "study")?, |t| name(t))?,
                why: self.convert(self.required(raw, &raw.why, "why")?, |t| prose(t))?,
            }),
        }
    }

    fn metric(&self, raw: &RawTest) -> Result<Metric, TomlError> {
        Ok(*self.required(raw, &raw.metric, "metric")?.get_ref())
    }

    fn expected(&self, raw: &RawTest, forms: ExpectForms) -> Result<Expected, TomlError> {
        let expect = self.required(raw, &raw.expect, "expect")?;
        self.convert(expect, |text| match text.parse()? {
            Expected::Among if forms != ExpectForms::Any => {
                Err("`among` is for an arithmetic test with `other`".to_owned())
            }
            Expected::Alike if forms == ExpectForms::Number => {
                Err("a number is `above`, `below`, `within` or `is` another".to_owned())
            }
            expected => Ok(expected),
        })
    }

    pub(super) fn cells(&self, raw: &RawTest) -> Result<Quantity, TomlError> {
        let is_sum = raw.kind.get_ref() == "arithmetic";
        let cells = self.convert_optional(&raw.cells, |text| match text.as_str() {
            "every" => Ok(Quantity::Every),
            "most" => Ok(Quantity::Most),
            "some" => Ok(Quantity::Some),
            MEAN if is_sum => Ok(Quantity::Every),
            MEAN => Err(format!(
                "`{MEAN}` is for an arithmetic test: write `every`, `most` or `some`"
            )),
            other => Err(format!("cells `{other}`: write `every`, `most` or `some`")),
        })?;
        Ok(cells.unwrap_or(Quantity::Every))
    }

    fn contrast(&self, raw: &RawTest) -> Result<Contrast, TomlError> {
        let axis = *self.required(raw, &raw.axis, "axis")?.get_ref();
        let value = self.value(axis, self.required(raw, &raw.value, "value")?)?;
        let raw_against = self.required(raw, &raw.against, "against")?;
        let against = self.value(axis, raw_against)?;
        if value == against {
            return self.fail(raw_against.span(), "`value` and `against` are the same");
        }
        Ok(Contrast {
            axis,
            value,
            against,
        })
    }

    /// The metric of a test of copies: that of both sides, unless the test names another one.
    fn copies(&self, raw: &RawTest) -> Result<Metric, TomlError> {
        let metric = self.convert_optional(&raw.metric, |metric| match *metric {
            metric if metric.measure == Measure::CopiesPerByte => Ok(metric),
            other => Err(format!(
                "`{other}` is no count of copies: write copies_per_byte, sender_copies_per_byte or receiver_copies_per_byte"
            )),
        })?;
        Ok(metric.unwrap_or(Metric::both(Measure::CopiesPerByte)))
    }

    fn crossover(&self, raw: &RawTest) -> Result<TestKind, TomlError> {
        let along = raw.along.as_ref().map_or(Axis::Size, |a| *a.get_ref());
        let expect = self.required(raw, &raw.expect, "expect")?;
        let from = self.convert(expect, |text| {
            let Some(value) = text.trim().strip_prefix("from ") else {
                return Err(format!(
                    "`{text}` is no place of a crossover: write, for example, `from 8KiB`"
                ));
            };
            units::parse_bytes(value)?;
            along.read(value.trim()).map_err(|e| e.to_string())
        })?;
        let why = "the tolerance of a crossover is a factor from 1 up";
        let tolerance = self.tolerance(raw, |f| (1.0..=1e6).contains(&f), why)?;
        Ok(TestKind::Crossover(Crossover {
            contrast: self.contrast(raw)?,
            metric: self.metric(raw)?,
            along,
            from,
            tolerance: tolerance.unwrap_or(CROSSOVER_TOLERANCE),
        }))
    }

    fn tolerance(
        &self,
        raw: &RawTest,
        fits: fn(f64) -> bool,
        why: &str,
    ) -> Result<Option<f64>, TomlError> {
        let tolerance = raw.tolerance.as_ref();
        tolerance.map(|t| self.bounded(t, fits, why)).transpose()
    }

    fn counter(&self, raw: &RawTest) -> Result<TestKind, TomlError> {
        let list = self.required(raw, &raw.metrics, "metrics")?;
        if list.get_ref().len() < 2 {
            return self.fail(list.span(), "a counter test compares at least two metrics");
        }
        Ok(TestKind::Counter {
            metrics: convert_all(list.get_ref(), |m| self.convert(m, |m| m.parse()))?,
            contrast: self.contrast(raw)?,
        })
    }

    fn stall(&self, raw: &RawTest) -> Result<TestKind, TomlError> {
        let present = self.convert_optional(&raw.expect, |text| match text.as_str() {
            "present" => Ok(true),
            "absent" => Ok(false),
            other => Err(format!("`{other}`: write `present` or `absent`")),
        })?;
        let caveat = self.convert_optional(&raw.caveat, |t| name(t))?;
        Ok(TestKind::Stall {
            caveat: caveat.unwrap_or_else(|| NAGLE_STALL.to_owned()),
            present: present.unwrap_or(true),
        })
    }

    fn scaling(&self, raw: &RawTest) -> Result<TestKind, TomlError> {
        let between = self.convert(self.required(raw, &raw.threads, "threads")?, |text| {
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
        Ok(TestKind::Scaling {
            metric: self.metric(raw)?,
            between,
            expect: self.expected(raw, ExpectForms::Ratio)?,
        })
    }

    fn arithmetic(&self, raw: &RawTest) -> Result<TestKind, TomlError> {
        let term = Term {
            table: self.required(raw, &raw.table, "table")?.get_ref().clone(),
            column: self.required(raw, &raw.column, "column")?.get_ref().clone(),
            rows: rows(raw.rows.as_ref().map(Spanned::get_ref)),
        };
        let other = raw.other.as_ref().map(Spanned::get_ref);
        let against = other.map(|other| Term {
            table: other.table.clone().unwrap_or_else(|| term.table.clone()),
            column: other.column.clone().unwrap_or_else(|| term.column.clone()),
            rows: rows(other.rows.as_ref()),
        });
        let why = "the tolerance of a calculation is a share from 0 to 1, such as 0.02";
        let tolerance = self.tolerance(raw, |share| (0.0..1.0).contains(&share), why)?;
        let of_mean = raw.cells.as_ref().is_some_and(|c| c.get_ref() == MEAN);
        // A mean is a single number, so that it cannot lie among others.
        let forms = if against.is_some() && !of_mean {
            ExpectForms::Any
        } else {
            ExpectForms::Ratio
        };
        let by = raw.by.as_ref().map(|by| by.get_ref().clone());
        Ok(TestKind::Arithmetic(Arithmetic {
            expect: self.expected(raw, forms)?,
            term,
            against,
            by: by.unwrap_or_default(),
            tolerance: tolerance.unwrap_or(0.0),
            of_mean,
        }))
    }
}

/// The conditions on columns that choose the rows of a term.
fn rows(conditions: Option<&BTreeMap<String, RawText>>) -> Vec<(String, String)> {
    let pair = |(column, value): (&String, &RawText)| (column.clone(), value.0.clone());
    conditions.into_iter().flatten().map(pair).collect()
}
