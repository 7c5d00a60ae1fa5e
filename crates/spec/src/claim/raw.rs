//! The TOML of claims as it stands in the file, and its conversion into [`Claim`]s.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use super::{Beside, Claim, MAX_CLAIMS, MAX_CLAIMS_BYTES, MAX_TESTS, MAX_TEXT_BYTES, Reason, Test};
use crate::axis::Axis;
use crate::metric::Metric;
use crate::toml_reader::{RawAxes, RawText, Reader, TomlError, at, convert_all, from_toml};
use crate::units;

mod kinds;

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
    #[serde(default)]
    studies: Vec<Spanned<String>>,
    claim: Spanned<String>,
    published: Option<Spanned<String>>,
    #[serde(rename = "settled_by")]
    settled_by: Spanned<String>,
    #[serde(default, rename = "test")]
    tests: Vec<RawTest>,
    #[serde(default, rename = "reason")]
    reasons: Vec<RawTest>,
    #[serde(default)]
    beside: Vec<RawTest>,
}

/// A test of a claim with all keys that a test may have; its kind determines which it must have.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawTest {
    kind: Spanned<String>,
    metric: Option<Spanned<Metric>>,
    metrics: Option<Spanned<Vec<Spanned<String>>>>,
    axis: Option<Spanned<Axis>>,
    value: Option<Spanned<RawText>>,
    against: Option<Spanned<RawText>>,
    #[serde(rename = "where")]
    place: Option<Spanned<RawAxes>>,
    expect: Option<Spanned<String>>,
    cells: Option<Spanned<String>>,
    along: Option<Spanned<Axis>>,
    tolerance: Option<Spanned<f64>>,
    caveat: Option<Spanned<String>>,
    threads: Option<Spanned<RawText>>,
    study: Option<Spanned<String>>,
    why: Option<Spanned<String>>,
    table: Option<Spanned<String>>,
    column: Option<Spanned<String>>,
    rows: Option<Spanned<BTreeMap<String, RawText>>>,
    by: Option<Spanned<Vec<String>>>,
    other: Option<Spanned<RawTerm>>,
    if_measured: Option<Spanned<bool>>,
    /// Key of `[[claim.reason]]` only.
    otherwise: Option<Spanned<String>>,
    /// Key of `[[claim.beside]]` only.
    says: Option<Spanned<String>>,
}

/// The divisor of a calculation; keys that it leaves out are as in the test itself.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTerm {
    table: Option<String>,
    column: Option<String>,
    rows: Option<BTreeMap<String, RawText>>,
}

/// The kinds of tests, each with the keys that it has besides `kind`.
pub(super) const KINDS: &[(&str, &str)] = &[
    (
        "ratio",
        "metric axis value against where expect cells if-measured",
    ),
    (
        "crossover",
        "metric axis value against where expect cells along tolerance",
    ),
    ("level", "metric where expect cells"),
    ("copied-share", "where expect cells"),
    ("copies-per-byte", "metric where expect cells"),
    ("counter", "metrics axis value against where cells"),
    ("stall", "caveat where expect cells"),
    ("scaling", "metric where threads expect cells"),
    (
        "arithmetic",
        "table column rows other by expect tolerance cells",
    ),
    ("not-in-this-run", "study why"),
];

/// Parses a file of claims. The error is the first one, with its line and column.
pub fn parse(text: &str) -> Result<Vec<Claim>, TomlError> {
    if text.len() > MAX_CLAIMS_BYTES {
        let message = format!("a claims file has at most {MAX_CLAIMS_BYTES} bytes");
        return Err(at(text, 0, message));
    }
    let RawFile { claim: rows } = from_toml(text)?;
    let reader = Reader { text };
    let mut claims: Vec<Claim> = Vec::with_capacity(rows.len().min(MAX_CLAIMS));
    for row in &rows {
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
    fn claim(&self, raw: &Spanned<RawClaim>) -> Result<Claim, TomlError> {
        let row = raw.get_ref();
        if row.tests.is_empty() && row.reasons.is_empty() {
            let message = format!(
                "claim `{}` has no [[claim.test]]: add one, or `kind = \"not-in-this-run\"` with a why",
                row.id.get_ref()
            );
            return self.fail(row.id.span(), message);
        }
        let lists = [&row.tests, &row.reasons, &row.beside];
        if lists.iter().any(|list| list.len() > MAX_TESTS) {
            let message = format!("at most {MAX_TESTS} tests and reasons");
            return self.fail(row.id.span(), message);
        }
        let mut no_reasons = row.tests.iter().chain(&row.beside);
        if let Some(odd) = no_reasons.find_map(|t| t.otherwise.as_ref()) {
            return self.fail(
                odd.span(),
                "`otherwise` belongs to [[claim.reason]]: a test says whether the effect is there",
            );
        }
        let mut not_beside = row.tests.iter().chain(&row.reasons);
        if let Some(odd) = not_beside.find_map(|t| t.says.as_ref()) {
            return self.fail(odd.span(), "`says` belongs to [[claim.beside]]");
        }
        let source = self.convert(&row.source, |t| name(t))?;
        if row.studies.len() > MAX_TESTS {
            return self.fail(row.id.span(), format!("at most {MAX_TESTS} studies"));
        }
        let mut studies = convert_all(&row.studies, |s| self.convert(s, |t| name(t)))?;
        if studies.is_empty() {
            studies.push(source.clone());
        }
        Ok(Claim {
            id: self.convert(&row.id, |t| name(t))?,
            line: at(self.text, row.id.span().start, String::new()).line,
            source,
            studies,
            claim: self.convert(&row.claim, |t| prose(t))?,
            published: self.convert_optional(&row.published, |t| prose(t))?,
            settled_by: self.convert(&row.settled_by, |t| prose(t))?,
            tests: convert_all(&row.tests, |t| self.test(t))?,
            reasons: convert_all(&row.reasons, |t| self.reason(t))?,
            beside: convert_all(&row.beside, |t| {
                Ok(Beside {
                    test: self.test(t)?,
                    says: self.convert_optional(&t.says, |t| prose(t))?,
                })
            })?,
        })
    }

    fn reason(&self, raw: &RawTest) -> Result<Reason, TomlError> {
        let Some(otherwise) = &raw.otherwise else {
            return self.fail(
                raw.kind.span(),
                "a reason needs `otherwise`: what the reason is where the given one does not hold",
            );
        };
        Ok(Reason {
            test: self.test(raw)?,
            otherwise: self.convert(otherwise, |t| prose(t))?,
        })
    }

    fn test(&self, raw: &RawTest) -> Result<Test, TomlError> {
        let kind = raw.kind.get_ref().as_str();
        let Some((_, keys)) = KINDS.iter().find(|(name, _)| *name == kind) else {
            let message = units::unknown("kind", kind, KINDS.iter().map(|(name, _)| *name));
            return self.fail(raw.kind.span(), message);
        };
        let is_key = |key: &str| keys.split(' ').any(|k| k == key);
        if let Some((key, place)) = raw.given().into_iter().find(|(key, _)| !is_key(key)) {
            let known = keys.replace(' ', ", ");
            let message = format!("a {kind} test has no `{key}`; its keys: {known}");
            return self.fail(place, message);
        }
        let test = Test {
            kind: self.kind(kind, raw)?,
            place: match &raw.place {
                Some(axes) => self.axes(axes.get_ref())?,
                None => Vec::new(),
            },
            cells: self.cells(raw)?,
            if_measured: raw.if_measured.as_ref().is_some_and(|b| *b.get_ref()),
        };
        if let Some(contrast) = test.kind.contrast()
            && test.place.iter().any(|(axis, _)| *axis == contrast.axis)
        {
            let axis = contrast.axis;
            let message = format!("`where` cannot name `{axis}`, which is compared");
            return self.fail(raw.kind.span(), message);
        }
        Ok(test)
    }

    /// The value of a key that tests of this kind must have.
    fn required<'r, T>(
        &self,
        raw: &RawTest,
        value: &'r Option<Spanned<T>>,
        key: &str,
    ) -> Result<&'r Spanned<T>, TomlError> {
        match value {
            Some(value) => Ok(value),
            None => self.fail(
                raw.kind.span(),
                format!("a {} test needs `{key}`", raw.kind.get_ref()),
            ),
        }
    }
}

impl RawTest {
    /// The keys that the file gives, each with its place in the text.
    fn given(&self) -> Vec<(&'static str, Range<usize>)> {
        fn place<T>(value: &Option<Spanned<T>>) -> Option<Range<usize>> {
            value.as_ref().map(Spanned::span)
        }
        [
            ("metric", place(&self.metric)),
            ("metrics", place(&self.metrics)),
            ("axis", place(&self.axis)),
            ("value", place(&self.value)),
            ("against", place(&self.against)),
            ("where", place(&self.place)),
            ("expect", place(&self.expect)),
            ("cells", place(&self.cells)),
            ("along", place(&self.along)),
            ("tolerance", place(&self.tolerance)),
            ("caveat", place(&self.caveat)),
            ("threads", place(&self.threads)),
            ("study", place(&self.study)),
            ("why", place(&self.why)),
            ("table", place(&self.table)),
            ("column", place(&self.column)),
            ("rows", place(&self.rows)),
            ("by", place(&self.by)),
            ("other", place(&self.other)),
            ("if-measured", place(&self.if_measured)),
        ]
        .into_iter()
        .filter_map(|(key, place)| Some((key, place?)))
        .collect()
    }
}

fn name(text: &str) -> Result<String, &'static str> {
    if units::is_name(text) {
        Ok(text.to_owned())
    } else {
        Err("a name is made of letters, digits, `-` and `_`, at most 64")
    }
}

fn prose(text: &str) -> Result<String, String> {
    match text.len() {
        0 => Err("a text is missing".to_owned()),
        bytes if bytes > MAX_TEXT_BYTES => Err(format!("at most {MAX_TEXT_BYTES} bytes")),
        _ => Ok(text.to_owned()),
    }
}
